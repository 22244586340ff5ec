"""Dags that a person looks at and steers; what they did is in files on the board."""

from __future__ import annotations

import os
import signal
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset, get_current_context, task

from airflow_resume import checkpoint, run_job, watermark
from airflow_resume.watermarks import Window

BOARD = Path(os.environ["BOARD"])


def note(name: str, line: object) -> None:
    """A line in the file of the running Dag run."""
    run_id = get_current_context()["run_id"]  # type: ignore[typeddict-item]
    with (BOARD / f"{run_id}.{name}").open("a") as file:
        file.write(f"{line}\n")


def conf() -> dict[str, Any]:
    return dict(get_current_context()["dag_run"].conf or {})  # type: ignore[union-attr]


with DAG("steered_loop", schedule=None, default_args={"retries": 0}):

    @task(task_id="run")
    def loop() -> None:
        given = conf()
        for page in checkpoint(list(range(10)), name="pages", on_clear=given.get("on_clear", "restart")):
            try_number = get_current_context()["ti"].try_number
            if given.get("holds_at") == page:
                while not (BOARD / f"{get_current_context()['run_id']}.go").exists():  # type: ignore[typeddict-item]
                    time.sleep(0.2)
            if given.get("fails_at") == page and try_number == 1:
                raise RuntimeError("a bad page")
            note("delivered", f"{try_number} {page}")

    loop()


class Folder:
    """A job system that cannot look a job up: a job is a line in a file."""

    def submit(self, token: str) -> str:
        del token
        note("jobs", "a job")
        context = get_current_context()
        count = len((BOARD / f"{context['run_id']}.jobs").read_text().splitlines())  # type: ignore[typeddict-item]
        if context["ti"].try_number == 1:
            os.kill(os.getpid(), signal.SIGKILL)  # the job runs, and its id was never saved
        return f"job-{count}"

    def status(self, job_id: str) -> str:
        del job_id
        return "SUCCEEDED"


with DAG("steered_job", schedule=None, default_args={"retries": 1, "retry_delay": timedelta(seconds=1)}):

    @task(task_id="run")
    def job() -> str:
        return str(run_job(Folder(), name="job"))

    job()


ORDERS = Asset("steered_orders")
orders = watermark(ORDERS, initial="2026-01-01T00:00:00Z", now=lambda: datetime(2026, 1, 2, tzinfo=timezone.utc))

with DAG("steered_mark", schedule=None):

    @orders.task(task_id="run")
    def load(window: Window) -> None:
        note("windows", f"{window.start:%d %H} {window.end:%d %H}")

    load()


with DAG("steered_many", schedule=None, max_active_tasks=8):

    @task(task_id="run")
    def one_of_many(number: int) -> int:
        for _ in checkpoint(list(range(40)), name="pages"):
            time.sleep(0.1)
        return number

    one_of_many.expand(number=list(range(30)))
