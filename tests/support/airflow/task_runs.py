"""Runs of Dags, most of whose tasks are called `run`: what Airflow shows of them, and what tests do to them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import psutil

from airflow_client import AirflowApiError
from local_airflow import LocalAirflow
from processes import is_alive

if TYPE_CHECKING:
    from typing_extensions import Self

PATIENCE = 150.0
"""Seconds to wait. What tests wait for takes a tenth of this unless the machine is busy."""


class HasAirflow(Protocol):
    """A `Stage`, or what another real Airflow is part of."""

    @property
    def airflow(self) -> LocalAirflow: ...


@dataclass(frozen=True)
class TaskRun:
    """A run of a Dag, and one task instance of it."""

    stage: HasAirflow
    dag_id: str
    run_id: str
    map_index: int = -1
    task_id: str = "run"

    @classmethod
    def start(cls, stage: HasAirflow, dag_id: str, **conf: Any) -> Self:
        return cls(stage, dag_id, stage.airflow.trigger(dag_id, conf))

    @classmethod
    def over(cls, stage: HasAirflow, dag_id: str, *, items: Sequence[Any], **conf: Any) -> Self:
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
        """The file through which the test talks to the Dag."""
        return self.stage.airflow.database.with_name(f"{self.run_id}.json")

    def write_items(self, items: Sequence[Any]) -> None:
        """Set the list that the Dag is mapped over from now on."""
        self._file.write_text(json.dumps(items))

    # --- what is seen -----------------------------------------------------------------------------------------

    @property
    def _place(self) -> tuple[str, str, str]:
        return self.dag_id, self.run_id, self.task_id

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

    def until_the_scheduler_lets_go(self) -> None:
        """Wait until the scheduler has gone through two rounds: it crashes if a run that it works on is deleted.

        It sends a heartbeat after each round, at most every five seconds.
        """
        beats: set[str] = set()

        def two_more() -> bool:
            health = (self.stage.airflow.health() or {}).get("scheduler") or {}
            beats.update(filter(None, [health.get("latest_scheduler_heartbeat")]))
            return len(beats) > 2

        self.until(two_more, "the scheduler works on")

    def until_deferred(self, number: int) -> None:
        """Wait until a try is deferred, and the scheduler knows that its process has ended.

        A trigger that fires earlier costs an attempt: the scheduler then mistakes the end of the process for the end of
        the one which goes on.
        """
        key = f"run_id='{self.run_id}', try_number={number},"
        log = self.stage.airflow.database.with_name("logs-of-processes") / "scheduler.log"
        ended = re.compile(f"Received executor event with state success .*{re.escape(key)}")
        self.until(lambda: self.task["state"] == "deferred" and ended.search(log.read_text()), f"{key} deferred")

    def end(self) -> str:
        """Wait until the run has ended, and return its state."""
        return self.stage.airflow.wait_for_run(self.dag_id, self.run_id, timeout=PATIENCE)

    def clear(self, *, tasks: tuple[str, ...] = ()) -> None:
        """Clear these tasks of the run, or its own one."""
        self.stage.airflow.clear(self.dag_id, self.run_id, *(tasks or (self.task_id,)))

    def mark(self, state: str) -> None:
        self.stage.airflow.mark(*self._place, state)
