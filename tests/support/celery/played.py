"""A run of the Dag `everything`, to which an event happens, and what came of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from airflow_client import AirflowApiError
from processes import is_alive
from stage import Stage

JOBS = ("job", "job_deferred", "job_rescheduled", "job_function")
IN_A_WORKER = ("job", "job_function", "loop", "mark")
"""Tasks that have a process as long as they wait."""
TASKS = (*JOBS, "loop", "mark")
PATIENCE = 600.0
"""Seconds. What is waited for takes a tenth of this, unless the machine is busy."""
DAG_ID = "everything"


@dataclass
class Everything:
    """A run of the Dag.

    Args:
        stage: the Airflow.
        folder: the folder to which the tasks write.
        run_id: of the run.
    """

    stage: Stage
    folder: Path
    run_id: str
    state: str = "running"
    tries: dict[str, int] = field(default_factory=dict)
    """Of each task at the end."""
    seen: dict[str, dict[str, int]] = field(default_factory=dict)
    """The books of each task, if they are kept for when the services have ended."""

    def start(self) -> None:
        """Trigger it, and wait until each task is in the middle of what it does."""
        self.stage.airflow.trigger(DAG_ID, run_id=self.run_id)
        for task_id in JOBS:
            self.until(lambda task_id=task_id: self.books(task_id)["submitted"], f"the job of {task_id} is submitted")  # type: ignore[misc]
        self.until(lambda: self.task("job_deferred")["state"] == "deferred", "job_deferred is deferred")
        self.until(lambda: len(self.lines("loop")) > 5, "the loop loops")
        self.until(lambda: self.lines("mark"), "a window is loaded")

    def let_end(self) -> None:
        """Let the tasks end, now and in attempts to come."""
        (self.folder / f"{self.run_id}.end").touch()
        for task_id in JOBS:
            self.stage.jobs.call("POST", "/hurry", json={"label": f"{self.run_id}.{task_id}"})

    def end(self) -> None:
        """Let it end, and note its state and the tries."""
        self.let_end()
        self.state = self.until(self._ended, "the run ends")
        self.tries = {task_id: self.task(task_id)["try_number"] for task_id in TASKS}

    def _ended(self) -> str | None:
        state = self.stage.airflow.run_state(DAG_ID, self.run_id)
        return state if state in {"success", "failed"} else None

    # --- what is seen -----------------------------------------------------------------------------------------

    def task(self, task_id: str) -> dict[str, Any]:
        """The task instance."""
        return self.stage.airflow.task_instance(DAG_ID, self.run_id, task_id)

    def books(self, task_id: str) -> dict[str, int]:
        """Of the jobs of a task: submitted, alive, max_alive, cancels."""
        found: dict[str, int] = self.stage.jobs.call("GET", "/stats", label=f"{self.run_id}.{task_id}")
        return found

    def jobs(self, task_id: str) -> list[int]:
        """The ids of the jobs of a task, oldest first."""
        label = f"{self.run_id}.{task_id}"
        return sorted(job["id"] for job in self.stage.jobs.call("GET", "/jobs") if job["label"] == label)

    def lines(self, task_id: str) -> list[dict[str, Any]]:
        """What the attempts of a task have written."""
        file = self.folder / f"{self.run_id}.{task_id}"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def processes(self, *task_ids: str) -> Iterator[psutil.Process]:
        """The processes of the tasks that run in a worker now."""
        for task_id in task_ids or IN_A_WORKER:
            with suppress(LookupError):
                yield self.stage.airflow.task_process(DAG_ID, self.run_id, task_id)

    def until(self, happened: Callable[[], Any], what: str) -> Any:
        """Wait until it has happened, while the API server may be away."""

        def probe() -> Any:
            with suppress(AirflowApiError, OSError):
                return happened() or None
            return None

        return self.stage.airflow.wait_for(probe, what=f"{self.run_id}: {what}", timeout=PATIENCE)

    # --- what is done -----------------------------------------------------------------------------------------

    def mark_tasks(self, state: str) -> None:
        """Mark every task, as a person does in the UI."""
        for task_id in TASKS:
            self.stage.airflow.mark(DAG_ID, self.run_id, task_id, state)

    def clear(self) -> None:
        """Clear every task while it runs."""
        self.stage.airflow.clear(DAG_ID, self.run_id, *TASKS)

    def until_gone(self, processes: list[psutil.Process]) -> float:
        """Wait until the processes have ended, and return the seconds it took."""
        began = time.monotonic()
        self.until(lambda: not any(map(is_alive, processes)), "the processes have ended")
        return time.monotonic() - began
