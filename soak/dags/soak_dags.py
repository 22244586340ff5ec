"""A mapped Dag for each surface. The bodies append what they did to files, a line each, which survive a SIGKILL."""

from __future__ import annotations

import json
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset, BaseOperator, get_current_context

from airflow_resume import PollPolicy, ResumePolicy, checkpoint, watermark
from airflow_resume.watermarks import Window
from airflow_resume_mixins import ResumableJobMixin
from clients import Jobs

WIDTH = int(os.environ.get("SOAK_WIDTH", "1"))
"""Instances of each mapped task."""
JOB_SECONDS, ELEMENTS, ELEMENT_SECONDS, WINDOW_SECONDS = 8.0, 150, 0.04, 3.0
RETRIES: dict[str, Any] = {"retries": 1_000, "retry_delay": timedelta(0)}
GLANCE = timedelta(seconds=1)


def write(**line: Any) -> None:
    """Append a line to the file of this task instance."""
    context: Any = get_current_context()
    ti = context["ti"]
    file = Path(os.environ["SOAK_FOLDER"]) / f"{ti.dag_id}.{ti.run_id}.{ti.map_index}"
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, json.dumps({"try": ti.try_number, **line}).encode() + b"\n")
    finally:
        os.close(descriptor)


# --- jobs -------------------------------------------------------------------------------------------------------


class OneJob(ResumableJobMixin, BaseOperator):
    """A job of the job service, labelled by the task instance."""

    def __init__(self, *, number: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.number = number

    def execute(self, context: Any) -> Any:
        return self.execute_resumable(context)

    def submit_job(self, context: Any) -> int:
        return _jobs(context).submit(self.submission_token, seconds=JOB_SECONDS)

    def find_job(self, token: str, context: Any) -> int | None:
        return _jobs(context).find(token)

    def get_job_status(self, external_id: Any, context: Any) -> str:
        return _jobs(context).status(external_id)

    def is_job_active(self, status: str) -> bool:
        return status == "RUNNING"

    def is_job_succeeded(self, status: str) -> bool:
        return status == "SUCCEEDED"

    def get_job_result(self, external_id: Any, context: Any) -> int:
        write(job=external_id)
        return int(external_id)


def _jobs(context: Any) -> Jobs:
    ti = context["ti"]
    return Jobs("JOBS_URL", label=f"{ti.run_id}.{ti.map_index}")


with DAG("soak_jobs", schedule=None, default_args=RETRIES):
    OneJob.partial(
        task_id="run", resume_policy=ResumePolicy(poll=PollPolicy(interval=GLANCE, max_interval=GLANCE))
    ).expand(number=list(range(WIDTH)))

# --- loops ------------------------------------------------------------------------------------------------------


class OneLoop(BaseOperator):
    """A loop over numbers."""

    def __init__(self, *, number: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.number = number

    def execute(self, context: Any) -> None:
        for element in checkpoint(range(ELEMENTS), name="loop", context=context):
            write(element=element)
            time.sleep(ELEMENT_SECONDS)


with DAG("soak_loops", schedule=None, default_args=RETRIES):
    OneLoop.partial(task_id="run").expand(number=list(range(WIDTH)))

# --- marks ------------------------------------------------------------------------------------------------------


def tenths_of_a_second() -> int:
    """The clock of the source: a row appears every tenth of a second."""
    return int((time.time() - float(os.environ["SOAK_BEGAN"])) * 10)


rows = watermark(Asset("soak"), initial=0, now=tenths_of_a_second, partition=lambda number: number)

with DAG("soak_marks", schedule=None, default_args=RETRIES):

    @rows.task(task_id="run")
    def load(window: Window, number: int) -> None:
        middle = (window.start + window.end) // 2
        for start, end in ((window.start, middle), (middle, window.end)):
            time.sleep(WINDOW_SECONDS / 2)
            write(mark=f"resume.watermark.watermark~~~j{number}", start=start, end=end)

    load.expand(number=list(range(WIDTH)))
