"""Tasks that wait for a job by reschedule; the task is `run`, and its job is labelled by the run and the map index."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, BaseOperator, get_current_context, task

from airflow_resume import PollPolicy, ResumePolicy, run_job
from airflow_resume_mixins import ResumableJobMixin
from clients import Jobs

EACH = timedelta(seconds=20)
POLICY = ResumePolicy(wait="reschedule", poll=PollPolicy(interval=EACH, max_interval=EACH))
MANY = 1_000
RETRIES: dict[str, Any] = {"retries": 8, "retry_delay": timedelta(seconds=1)}
FOREVER = 600.0


def label_of(context: Any) -> str:
    index = context["ti"].map_index
    return str(context["run_id"]) if index < 0 else f"{context['run_id']}-{index}"


class Training:
    """A client for one task."""

    def __init__(self, context: Any) -> None:
        service = Jobs("JOBS_URL", label=label_of(context))
        self.seconds = float(context["dag_run"].conf.get("seconds", FOREVER))
        self.service, self.status, self.find, self.cancel = service, service.status, service.find, service.cancel

    def submit(self, token: str) -> int:
        return self.service.submit(token, seconds=self.seconds)

    def result(self, job_id: int) -> dict[str, Any]:
        return {"job": job_id, "delays": self.service.result(job_id)}


class Train(ResumableJobMixin, BaseOperator):
    def execute(self, context: Any) -> Any:
        return self.execute_resumable(context)

    def submit_job(self, context: Any) -> int:
        return Training(context).submit(str(self.submission_token))

    def find_job(self, token: str, context: Any) -> int | None:
        return Training(context).find(token)

    def get_job_status(self, external_id: Any, context: Any) -> str:
        return Training(context).status(external_id)

    def is_job_active(self, status: str) -> bool:
        return status == "RUNNING"

    def is_job_succeeded(self, status: str) -> bool:
        return status == "SUCCEEDED"

    def cancel_job(self, external_id: Any, context: Any) -> None:
        Training(context).cancel(external_id)

    def get_job_result(self, external_id: Any, context: Any) -> Any:
        return Training(context).result(external_id)


with DAG("rescheduled", schedule=None, default_args=RETRIES, max_active_runs=MANY):
    Train(task_id="run", resume_policy=POLICY)

with DAG("rescheduled_function", schedule=None, default_args=RETRIES, max_active_runs=MANY):

    @task(task_id="run")
    def function() -> Any:
        return run_job(Training(get_current_context()), policy=POLICY)

    function()

with DAG("rescheduled_once", schedule=None, default_args={"retries": 0}, max_active_runs=MANY):
    Train(task_id="run", resume_policy=POLICY)

with DAG(
    "rescheduled_timed",
    schedule=None,
    default_args={**RETRIES, "execution_timeout": timedelta(seconds=30)},
    max_active_runs=MANY,
):
    Train(task_id="run", resume_policy=POLICY)

with DAG("rescheduled_mapped", schedule=None, default_args=RETRIES, max_active_runs=MANY):

    @task(task_id="run", max_active_tis_per_dag=1)
    def mapped(item: int) -> Any:
        return {"item": item, **run_job(Training(get_current_context()), inputs=item, policy=POLICY)}

    mapped.expand(item=[10, 11, 12])
