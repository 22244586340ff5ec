"""One Dag with a task for each surface, which go on until the test lets them end.

The bodies append what they did to files, a line each, which survive a SIGKILL.
"""

from __future__ import annotations

import json
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset, BaseOperator, get_current_context, task

from airflow_resume import PollPolicy, ResumePolicy, checkpoint, run_job, watermark
from airflow_resume.watermarks import Window
from airflow_resume_mixins import ResumableJobMixin
from clients import Jobs

FOLDER = Path(os.environ["EVERYTHING_FOLDER"])
ELEMENT_SECONDS, WINDOW_SECONDS, JOB_SECONDS = 0.1, 3600.0, 3600.0
SECOND, LOOK = timedelta(seconds=1), timedelta(seconds=5)
RETRIES: dict[str, Any] = {"retries": 30, "retry_delay": SECOND}
POLICY = ResumePolicy(poll=PollPolicy(interval=SECOND, max_interval=SECOND))
RESCHEDULED = ResumePolicy(wait="reschedule", poll=PollPolicy(interval=LOOK, max_interval=LOOK))


def label_of(context: Any) -> str:
    """What the files and jobs of a task instance are called."""
    return f"{context['run_id']}.{context['ti'].task_id}"


def write(**line: Any) -> None:
    """Append a line to the file of this task instance."""
    context: Any = get_current_context()
    descriptor = os.open(FOLDER / label_of(context), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, json.dumps({"try": context["ti"].try_number, **line}).encode() + b"\n")
    finally:
        os.close(descriptor)


def end_file() -> Path:
    """The file with which the test lets the run end."""
    return FOLDER / f"{get_current_context()['run_id']}.end"


def pause(seconds: float) -> None:
    """Wait, unless the test lets the run end."""
    end = end_file()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not end.exists():
        time.sleep(min(0.1, seconds))


class Service:
    """The jobs of the running task."""

    def __init__(self) -> None:
        jobs = Jobs("JOBS_URL", label=label_of(get_current_context()))
        self.find, self.status, self.cancel, self._jobs = jobs.find, jobs.status, jobs.cancel, jobs

    def submit(self, token: str) -> int:
        """Start a job that goes on until the test lets it end."""
        return self._jobs.submit(token, seconds=JOB_SECONDS)

    def result(self, job_id: int) -> int:
        """Note that the result was read."""
        write(job=job_id)
        return job_id


class OneJob(ResumableJobMixin, BaseOperator):
    """Waits for a job."""

    def execute(self, context: Any) -> Any:
        return self.execute_resumable(context)

    def submit_job(self, context: Any) -> int:
        return Service().submit(str(self.submission_token))

    def find_job(self, token: str, context: Any) -> int | None:
        return Service().find(token)

    def get_job_status(self, external_id: Any, context: Any) -> str:
        return Service().status(external_id)

    def is_job_active(self, status: str) -> bool:
        return status == "RUNNING"

    def is_job_succeeded(self, status: str) -> bool:
        return status == "SUCCEEDED"

    def cancel_job(self, external_id: Any, context: Any) -> None:
        Service().cancel(external_id)

    def get_job_result(self, external_id: Any, context: Any) -> int:
        return Service().result(external_id)


class DeferredJob(OneJob):
    """Waits for a job in the triggerer."""

    deferrable = True

    def job_trigger(self, external_id: Any, context: Any) -> Any:
        from airflow_resume.jobs.trigger import PollJobTrigger

        trigger = PollJobTrigger(
            client="clients.Jobs",
            client_kwargs={"variable": "JOBS_URL", "label": label_of(context)},
            external_id=external_id,
            poll=POLICY.poll,
        )
        trigger.follow(self.resume_policy)
        return trigger


def tenths_of_a_second() -> int:
    """The clock of the source: a row appears every tenth of a second."""
    return int((time.time() - float(os.environ["EVERYTHING_BEGAN"])) * 10)


rows = watermark(Asset("everything"), initial=0, now=tenths_of_a_second, partition=lambda label: label, shared=True)


with DAG("everything", schedule=None, default_args=RETRIES, max_active_runs=20):
    OneJob(task_id="job", resume_policy=POLICY)
    DeferredJob(task_id="job_deferred", resume_policy=POLICY)
    OneJob(task_id="job_rescheduled", resume_policy=RESCHEDULED)

    @task
    def job_function() -> int:
        return int(run_job(Service(), policy=POLICY))

    @task
    def loop() -> None:
        for element in checkpoint(range(100_000), name="loop", max_interval=SECOND, max_uncommitted=SECOND):
            write(element=element)
            pause(ELEMENT_SECONDS)
            if end_file().exists():
                break

    def load(window: Window) -> None:
        write(start=window.start, end=window.end, ended=False)
        pause(WINDOW_SECONDS)
        write(start=window.start, end=window.end, ended=True)

    @rows.task
    def mark(window: Window, label: str) -> None:
        load(window)

    @rows.task(trigger_rule="all_done")
    def next_mark(window: Window, label: str) -> None:
        load(window)

    job_function()
    loop()
    mark("{{ run_id }}") >> next_mark("{{ run_id }}")
