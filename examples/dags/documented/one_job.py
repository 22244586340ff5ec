"""The same job with Airflow's own mixin."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, BaseOperator, ResumableJobMixin

from clients import Jobs

jobs = Jobs("JOBS_URL", label="documented_one_job")


class MeanDelays(ResumableJobMixin, BaseOperator):  # pyright: ignore[reportIncompatibleVariableOverride]
    """Have the mean delay of each carrier computed, and return it."""

    def execute(self, context: Any) -> Any:
        return self.execute_resumable(context)

    def submit_job(self, context: Any) -> int:
        return jobs.submit()

    def get_job_status(self, external_id: Any, context: Any) -> str:
        return jobs.status(external_id)

    def is_job_active(self, status: str) -> bool:
        return status == "RUNNING"

    def is_job_succeeded(self, status: str) -> bool:
        return status == "SUCCEEDED"

    def poll_until_complete(self, external_id: Any, context: Any) -> None:
        while self.is_job_active(status := jobs.status(external_id)):
            time.sleep(0.5)
        if not self.is_job_succeeded(status):
            raise RuntimeError(f"job {external_id} is {status}")

    def get_job_result(self, external_id: Any, context: Any) -> dict[str, float]:
        return jobs.result(external_id)


with DAG("documented_one_job", schedule=None):
    MeanDelays(task_id="run", retries=4, retry_delay=timedelta(seconds=1))
