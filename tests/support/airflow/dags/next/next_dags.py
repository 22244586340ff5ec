"""Dags that need Airflow 3.4: a loop of tasks in which every process is killed twice, and a job that waits."""

from __future__ import annotations

import json
import os
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, get_current_context, task, task_group

from airflow_resume import PollPolicy, ResumePolicy, checkpoint, run_job
from clients import Jobs

FOLDER = Path(os.environ["NEXT_FOLDER"])
GLANCE = timedelta(seconds=0.2)
POLICY = ResumePolicy(poll=PollPolicy(interval=GLANCE, max_interval=GLANCE))
RETRIES: dict[str, Any] = {"retries": 4, "retry_delay": timedelta(seconds=1)}


class Service:
    """A job that ends after some seconds. Its result is its id."""

    def __init__(self, seconds: float) -> None:
        self._jobs = Jobs("JOBS_URL", label=get_current_context()["run_id"])
        self._seconds = seconds
        self.status, self.find, self.cancel = self._jobs.status, self._jobs.find, self._jobs.cancel

    def submit(self, token: str) -> Any:
        return self._jobs.submit(token, seconds=self._seconds)

    def result(self, job_id: int) -> int:
        return job_id


def die_once(where: str) -> None:
    """SIGKILL, the first time that a process comes here."""
    file = FOLDER / f"{get_current_context()['run_id']}-{where}"
    if not file.exists():
        file.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def write(**line: Any) -> None:
    """One line into the file of the run."""
    with (FOLDER / f"{get_current_context()['run_id']}.lines").open("a") as file:
        file.write(json.dumps({"pid": os.getpid(), **line}) + "\n")


with DAG("iterations", schedule=None, default_args=RETRIES):

    @task
    def work() -> None:
        context: Any = get_current_context()
        iteration = context["loop"].index
        job = run_job(Service(0.1), policy=POLICY)
        die_once(f"{iteration}-job")
        write(iteration=iteration, job=job)
        for element in checkpoint(["a", "b", "c"], name="elements", durability="sync"):
            if element == "b":
                die_once(f"{iteration}-loop")
            write(iteration=iteration, element=element)

    @task_group
    def body() -> None:
        work()

    in_a_loop: Any = body
    in_a_loop.loop(max_iterations=3)


with DAG("waits", schedule=None, default_args=RETRIES):

    @task(task_id="run")
    def wait() -> Any:
        return run_job(Service(600), policy=POLICY)

    wait()
