"""Runs of the Dags in `dags/providers` on one real Airflow, whose tasks are killed and cleared, all together."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from airflow_client import AirflowApiError
from local_airflow import LocalAirflow
from processes import is_alive, kill, with_descendants
from tests.support.airflow.provider_services import Place, ProviderServices
from tests.support.airflow.task_runs import TaskRun

if TYPE_CHECKING:
    from typing_extensions import Self

DAGS = Path(__file__).with_name("dags") / "providers"
TASKS = ("athena", "step_function", "databricks", "ssh")
IN_WORKER = ("step_function_in_worker", "ssh_in_worker")
TASKS_OF = {"ours": TASKS + IN_WORKER, "upgraded": TASKS, "theirs": TASKS}
GLANCE = 0.02
SETTINGS = {
    "AIRFLOW__AIRFLOW_RESUME__UPGRADE": "amazon, databricks, ssh",
    "AIRFLOW__AIRFLOW_RESUME__UPGRADE_EXCEPT": "theirs",
    "AIRFLOW__CORE__EXECUTOR": "preloading_executor.PreloadingExecutor",
    "AIRFLOW__CORE__PARALLELISM": "24",
    "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "300",
    "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "5",  # there are many, and a kill is noticed without them
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",
    # Seconds until another triggerer takes the triggers of one that was killed.
    "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "10",
}


class ProvidersStage:
    """A real Airflow with the Dags of the providers' operators, and the services that they talk to.

    Args:
        home: an empty folder.
        progress: told about each step.
    """

    def __init__(self, home: Path, *, progress: Callable[[str], None]) -> None:
        self._home, self._progress = home, progress
        self.services = ProviderServices(home / "remote")

    def __enter__(self) -> Self:
        self.services.__enter__()
        try:
            dags = Path(shutil.copytree(DAGS, self._home / "dags"))
            (dags / ".airflowignore").write_text("arguments.py\npreloading_executor.py\n")
            env = {**SETTINGS, **self.services.environment}
            self.airflow = LocalAirflow(self._home / "airflow", dags, env=env, triggerer=True)
            self.services.kill = self.kill
            self.airflow.start(self._progress)
            for dag_id in TASKS_OF:
                self.airflow.wait_until_parsed(dag_id)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if hasattr(self, "airflow"):
                self.airflow.stop()
        finally:
            self.services.__exit__()

    def kill(self, place: Place) -> None:
        """SIGKILL the process of a task. The API server, which may be busy, is not asked for its id."""
        with closing(sqlite3.connect(f"{self.airflow.database.as_uri()}?mode=ro", uri=True)) as database:
            row = "dag_id = ? AND run_id = ? AND task_id = ? AND state = 'running'"
            ((pid,),) = database.execute(f"SELECT pid FROM task_instance WHERE {row}", place)  # noqa: S608  no values
        process = psutil.Process(pid)
        kill(with_descendants(process))
        while is_alive(process):
            time.sleep(GLANCE)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a task.

    Args:
        jobs: how many the service saw.
        most_alive: how many of them were alive at the same time, at most.
        has_last_result: whether the result is that of the last job.
    """

    jobs: int
    most_alive: int
    has_last_result: bool = True


@dataclass(frozen=True)
class ProviderTask(TaskRun):
    """One task of one run, and its jobs."""

    stage: ProvidersStage

    @property
    def place(self) -> Place:
        return Place(self.dag_id, self.run_id, self.task_id)

    @property
    def jobs(self) -> list[Any]:
        return self.stage.services.jobs(self.place)

    @property
    def ends_with_submit(self) -> bool:
        """Whether it does not wait for its job."""
        return self.task_id == "step_function"

    @property
    def waits_in_triggerer(self) -> bool:
        return self.task_id == "ssh"

    def _is_waiting(self) -> bool:
        """Whether it asks for its job, and its id is saved if there is anything that saves it."""
        _, questions = self.progress
        if self.waits_in_triggerer:
            return questions > 0 and self.task["state"] == "deferred"
        saves = self.dag_id != "theirs" or self.task_id == "databricks"
        return questions > 0 and (not saves or str(self.jobs[-1].id) in json.dumps(self.state_store()))

    @property
    def progress(self) -> tuple[int, int]:
        """How many jobs it has, and how often it has asked for the newest one."""
        return len(self.jobs), self.stage.services.questions(self.place)

    def until_waiting(self) -> None:
        self.until(self._is_waiting, f"{self.task_id} waits")

    def until_past(self, progress: tuple[int, int]) -> None:
        """Wait until it asks for its job again or has another one."""
        self.until(lambda: self.progress > progress, f"{self.task_id} is past {progress}")

    def until_taken_up(self, jobs: int) -> None:
        """Wait until a clear has led to one more job, or to success without one."""
        self.until(lambda: len(self.jobs) > jobs or self.task["state"] == "success", f"{self.task_id} is taken up")

    def end_jobs(self) -> None:
        self.stage.services.end_jobs(self.place)

    def end(self) -> str:
        """End all jobs until the task has ended, and return its state."""

        def has_ended() -> bool:
            self.end_jobs()
            return self.task["state"] in {"success", "failed"}

        self.until(has_ended, f"the end of {self.task_id}")
        return str(self.task["state"])

    def outcome(self) -> Outcome:
        ids = [job.id for job in self.jobs]
        return Outcome(
            jobs=len(ids),
            most_alive=self.stage.services.most_alive(self.place),
            has_last_result=self._result() == ids[-1],
        )

    def _result(self) -> object:
        """The id of the job in what the task returned or pushed."""
        key = {"databricks": "run_id", "ssh": "ssh_remote_job"}.get(self.task_id.split("_")[0], "return_value")
        try:
            found = self.stage.airflow.xcom(*self.place, key)
        except AirflowApiError:
            return None
        return found["job_id"] if isinstance(found, dict) else found


@dataclass(frozen=True)
class Played:
    """What came of it, by place.

    Args:
        killed: after the kill.
        tries: of a task that was killed, after it.
        cleared: after the clear.
        logs: of the first try.
    """

    killed: dict[Place, Outcome]
    tries: dict[Place, int]
    cleared: dict[Place, Outcome]
    logs: dict[Place, str]


def play(stage: ProvidersStage, progress: Callable[[str], None]) -> Played:
    """Kill every task while it waits and, in another run, in the window; then clear those of the second run."""
    waiting = [task for task in _tasks_of(stage, "waiting") if not task.ends_with_submit]
    window = _tasks_of(stage, "window")
    for task in window:
        stage.services.kill_in_window(task.place)
    for run_id in ("waiting", "window"):
        for dag_id in TASKS_OF:
            stage.airflow.trigger(dag_id, run_id=run_id)
    _kill_waiting(stage, waiting)
    for task in window:
        task.until_past((1, 0))
    progress("all tasks were killed, and have found their job or have another one")
    killed = [*waiting, *window]
    _end(killed)
    outcomes = {task.place: task.outcome() for task in killed}
    tries = {task.place: task.task["try_number"] for task in killed}
    logs = {task.place: task.log(1) for task in killed}
    progress("all tasks have succeeded")
    jobs = {task.place: len(task.jobs) for task in window}
    for dag_id, task_ids in TASKS_OF.items():
        stage.airflow.clear(dag_id, "window", *task_ids)
    for task in window:
        task.until_taken_up(jobs[task.place])
    _end(window)
    progress("all tasks have succeeded once more")
    return Played(killed=outcomes, tries=tries, logs=logs, cleared={task.place: task.outcome() for task in window})


def _tasks_of(stage: ProvidersStage, run_id: str) -> list[ProviderTask]:
    return [
        ProviderTask(stage, dag_id, run_id, task_id=task_id)
        for dag_id, task_ids in TASKS_OF.items()
        for task_id in task_ids
    ]


def _kill_waiting(stage: ProvidersStage, tasks: list[ProviderTask]) -> None:
    """In its worker; or in the triggerer and, as soon as the job has ended, once more in the worker."""
    deferred = [task for task in tasks if task.waits_in_triggerer]
    at_kill: dict[Place, tuple[int, int]] = {}
    for task in tasks:
        task.until_waiting()
        if task not in deferred:
            stage.kill(task.place)
            at_kill[task.place] = task.progress
    with stage.airflow.without("triggerer"):
        at_kill |= {task.place: task.progress for task in deferred}
    for task in tasks:
        task.until_past(at_kill[task.place])
    for task in deferred:
        stage.services.kill_at_removal(task.place)


def _end(tasks: list[ProviderTask]) -> None:
    for task in tasks:
        task.end_jobs()
    failed = [task for task in tasks if task.end() != "success"]
    assert not failed, "\n".join(task.log(task.task["try_number"]) for task in failed)
