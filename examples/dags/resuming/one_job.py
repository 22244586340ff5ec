"""One job, whatever happens to the task that waits for it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, BaseOperator

from airflow_resume import PollPolicy, ResumePolicy
from airflow_resume_mixins import ResumableJobMixin
from clients import Jobs

jobs = Jobs("JOBS_URL", label="one_job")


class MeanDelays(ResumableJobMixin, BaseOperator):
    """Have the mean delay of each carrier computed, and return it."""

    def execute(self, context: Any) -> Any:
        return self.execute_resumable(context)

    def submit_job(self, context: Any) -> int:
        return jobs.submit(self.submission_token)

    def find_job(self, token: str, context: Any) -> int | None:
        return jobs.find(token)

    def get_job_status(self, external_id: Any, context: Any) -> str:
        return jobs.status(external_id)

    def is_job_active(self, status: str) -> bool:
        return status == "RUNNING"

    def is_job_succeeded(self, status: str) -> bool:
        return status == "SUCCEEDED"

    def get_job_result(self, external_id: Any, context: Any) -> dict[str, float]:
        return jobs.result(external_id)


with DAG("one_job", schedule=None):
    MeanDelays(
        task_id="run",
        resume_policy=ResumePolicy(poll=PollPolicy(interval=timedelta(seconds=0.5), max_interval=timedelta(seconds=1))),
        retries=4,
        retry_delay=timedelta(seconds=1),
    )
