"""BigQuery: jobs with an id that ends with the token. BigQuery takes an id once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from airflow.providers.google.cloud.hooks.bigquery import BigQueryHook
from airflow.providers.google.cloud.operators import bigquery
from airflow.providers.google.cloud.triggers.bigquery import BigQueryInsertJobTrigger
from google.api_core.exceptions import Conflict, NotFound

from airflow_resume_mixins.providers.provider_job import ProviderJob

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

__all__ = ["BigQueryInsertJobOperator"]


class BigQueryInsertJobOperator(ProviderJob, bigquery.BigQueryInsertJobOperator):
    """The provider's operator, which resumes. The window is closed by the id of the job, which ends with the token.

    The id begins with `job_id=`, or with the names of the Dag and the task. `force_rerun` and `reattach_states` have no
    effect: an attempt continues with the job of an earlier attempt, and a cleared task runs another one. Set
    `location=`, unless the job runs in the US or the EU: without it BigQuery does not find a job elsewhere. Then the
    attempt fails, because it cannot know whether the job is gone.
    """

    submission_is_idempotent = True
    active = frozenset({"PENDING", "RUNNING"})
    succeeded = frozenset({"DONE"})
    job_id_attribute = "job_id"
    while_submitting = {"deferrable": True}  # noqa: RUF012  it waits otherwise
    _own_job_id: str | None = None

    def execute(self, context: Context, *args: Any, **options: Any) -> Any:
        """As in the base."""
        self._own_job_id = self.job_id
        return super().execute(context, *args, **options)

    def _submit_job(self, hook: Any, job_id: str) -> Any:  # noqa: ARG002
        """A job that is there already was submitted by an attempt that died before it could save that."""
        begin = self._own_job_id or f"airflow_{self.dag_id}_{self.task_id}"
        own = f"{re.sub('[^0-9A-Za-z_-]', '_', begin)}_{self.submission_token}"
        try:
            return self._upstream("_submit_job")(self, hook, own)
        except Conflict:
            return hook.get_job(job_id=own, project_id=self.project_id, location=self.location)

    def _get_hook(self) -> Any:
        return BigQueryHook(gcp_conn_id=self.gcp_conn_id, impersonation_chain=self.impersonation_chain)

    def job_status(self, external_id: Any) -> str:
        """The state of the job, or why it has failed."""
        hook = self._get_hook()
        project = self.project_id or hook.project_id
        job = hook.get_job(job_id=external_id, project_id=project, location=self.location)
        if job.state == "DONE" and job.error_result:
            return f"FAILED: {job.error_result.get('message')}"
        return str(job.state)

    def job_not_found(self, error: BaseException) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the job is not known. Without a location this cannot be known."""
        return isinstance(error, NotFound) and self.location is not None

    def cancel_job(self, external_id: Any, context: Context) -> None:  # noqa: ARG002
        """Cancel the job, unless `cancel_on_kill=False`."""
        if self.cancel_on_kill:
            client = self._get_hook().get_client(project_id=self.project_id, location=self.location)
            client.cancel_job(external_id, project=self.project_id, location=self.location)

    def on_kill(self) -> None:
        """Nothing is left to do: `cancel_job` cancels the job, if the policy wants that."""

    def job_trigger(self, external_id: Any, context: Context) -> Any:  # noqa: ARG002
        """The operator's own trigger."""
        hook = self._get_hook()
        return BigQueryInsertJobTrigger(
            conn_id=self.gcp_conn_id,
            job_id=external_id,
            project_id=self.project_id or hook.project_id,
            location=self.location or hook.location,
            poll_interval=self.poll_interval,
            impersonation_chain=self.impersonation_chain,
            cancel_on_kill=self.cancel_on_kill,
        )

    def get_job_result(self, external_id: Any, context: Context) -> Any:
        """The id of the job."""
        self._push_again(external_id, context)
        return external_id
