"""Batch."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from airflow.providers.amazon.aws.links.batch import BatchJobDetailsLink
from airflow.providers.amazon.aws.operators import batch as upstream
from airflow.providers.amazon.aws.triggers.batch import BatchJobTrigger

from airflow_resume import JobStatus
from airflow_resume_mixins.providers.amazon.aws_job import AwsJob
from airflow_resume_mixins.providers.provider_job import with_token

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context


class BatchOperator(AwsJob, upstream.BatchOperator):
    """`BatchOperator` that resumes.

    By look-up: the token is at the end of the job's name, and `ListJobs` finds a job of the queue by its name. The role
    needs `batch:ListJobs`. The argument `waiters` is not used. With `awslogs_enabled` the logs are printed at the end.
    """

    active = frozenset({"SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING"})
    succeeded = frozenset({"SUCCEEDED"})
    job_id_attribute = "job_id"
    not_waiting = {"wait_for_completion": False, "deferrable": False}  # noqa: RUF012
    waiter_arguments = ("poll_interval", "max_retries")

    def put_token(self, token: str) -> None:
        """As in `ProviderJob`."""
        self.job_name = self._name(token)

    def _name(self, token: str) -> str:
        return with_token(self.job_name, token, most=128)

    def find_job(self, token: str, context: Context) -> Any:  # noqa: ARG002
        """The id of the job with the token in its name."""
        by_name = {"name": "JOB_NAME", "values": [self._name(token)]}
        found = self.hook.client.list_jobs(jobQueue=self.job_queue, filters=[by_name])["jobSummaryList"]
        return found[0]["jobId"] if found else None

    def job_status(self, external_id: Any) -> Any:
        """As in `ProviderJob`."""
        jobs = self.hook.client.describe_jobs(jobs=[external_id])["jobs"]
        return jobs[0]["status"] if jobs else JobStatus.GONE

    def job_trigger(self, external_id: Any, context: Context) -> BatchJobTrigger:  # noqa: ARG002
        """The operator's own trigger."""
        return BatchJobTrigger(job_id=external_id, **self.waiting())

    def success_event(self, external_id: Any) -> dict[str, Any]:
        """As in `ProviderJob`."""
        return {"status": "success", "job_id": external_id}

    def submit_job(self, context: Context) -> Any:
        """As in `ProviderJob`, with the links that the operator shows when it begins to wait."""
        submitted = super().submit_job(context)
        if self._is_submitting and self._waits:
            with suppress(Exception):  # a link is not worth losing the job for
                self._persist_links(context)
        return submitted

    def restore(self, external_id: Any, context: Context) -> None:
        """As in `ProviderJob`."""
        self.persist(BatchJobDetailsLink, context, job_id=external_id)
        if self._waits:
            self._persist_links(context)
