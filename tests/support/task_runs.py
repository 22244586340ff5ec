"""Runs of Dags whose task is called `run`: what Airflow shows of one, and what is done to it from outside."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from airflow_client import AirflowApiError
from processes import is_alive
from stage import Stage

if TYPE_CHECKING:
    from typing_extensions import Self

PATIENCE = 150.0
"""Seconds; what is waited for happens in a tenth of it, unless the machine is busy."""


@dataclass(frozen=True)
class TaskRun:
    """A run of a Dag, and one task instance of its task `run`."""

    stage: Stage
    dag_id: str
    run_id: str
    map_index: int = -1

    @classmethod
    def start(cls, stage: Stage, dag_id: str, **conf: Any) -> Self:
        return cls(stage, dag_id, stage.airflow.trigger(dag_id, conf))

    @classmethod
    def over(cls, stage: Stage, dag_id: str, *, items: Sequence[Any], **conf: Any) -> Self:
        """A run of a mapped Dag."""
        run = cls(stage, dag_id, f"over-{dag_id}")
        run.write_items(items)
        stage.airflow.trigger(dag_id, conf, run.run_id)
        return run

    def at(self, map_index: int) -> Self:
        """The same run, and another instance of its mapped task."""
        return replace(self, map_index=map_index)

    @property
    def _file(self) -> Path:
        """By which the test talks to the Dag."""
        return self.stage.airflow.database.with_name(f"{self.run_id}.json")

    def write_items(self, items: Sequence[Any]) -> None:
        """What the Dag is mapped over from now on."""
        self._file.write_text(json.dumps(items))

    # --- what is seen -----------------------------------------------------------------------------------------

    @property
    def _place(self) -> tuple[str, str, str]:
        return self.dag_id, self.run_id, "run"

    def state_store(self) -> dict[str, Any]:
        try:
            return self.stage.airflow.state_store(*self._place, map_index=self.map_index)
        except AirflowApiError:  # there is no task instance yet
            return {}

    @property
    def task(self) -> dict[str, Any]:
        return self.stage.airflow.task_instance(*self._place, self.map_index)

    @property
    def process(self) -> psutil.Process:
        return self.stage.airflow.task_process(*self._place, self.map_index)

    @property
    def supervisor(self) -> psutil.Process:
        return psutil.Process(self.process.ppid())

    def log(self, number: int) -> str:
        try:
            return self.stage.airflow.logs(*self._place, number, self.map_index)
        except AirflowApiError:  # there is no such try yet
            return ""

    def log_from(self, number: int) -> str:
        """The logs of a try and of those after it: on a busy machine, one may be lost to the heartbeat time-out."""
        return "".join(map(self.log, range(number, self.task["try_number"] + 1)))

    def result(self, index: int | None = None) -> Any:
        """What the task returned; None when there is nothing."""
        map_index = self.map_index if index is None else index
        try:
            return self.stage.airflow.xcom(*self._place, map_index=map_index)
        except AirflowApiError:
            return None

    # --- what is waited for and done --------------------------------------------------------------------------

    def until(self, happened: Callable[[], object], what: str) -> None:
        self.stage.airflow.wait_for(lambda: happened() or None, what=f"{self.dag_id}: {what}", timeout=PATIENCE)

    def until_gone(self, process: psutil.Process) -> None:
        self.until(lambda: not is_alive(process), "the process is gone")

    def until_deferred(self, number: int) -> None:
        """Wait until a try is deferred, and the scheduler knows that its process has ended.

        A trigger that is done earlier costs an attempt: the scheduler then takes the end of the process for that of
        the one which goes on.
        """
        key = f"run_id='{self.run_id}', try_number={number},"
        log = self.stage.airflow.database.with_name("logs-of-processes") / "scheduler.log"
        ended = re.compile(f"Received executor event with state success .*{re.escape(key)}")
        self.until(lambda: self.task["state"] == "deferred" and ended.search(log.read_text()), f"{key} deferred")

    def end(self) -> str:
        """Wait until the run has ended, and return its state."""
        return self.stage.airflow.wait_for_run(self.dag_id, self.run_id, timeout=PATIENCE)

    def clear(self, *, tasks: tuple[str, ...] = ("run",)) -> None:
        self.stage.airflow.clear(self.dag_id, self.run_id, *tasks)

    def mark(self, state: str) -> None:
        self.stage.airflow.mark(*self._place, state)
