"""Athena."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.amazon.aws.links.athena import AthenaQueryResultsLink
from airflow.providers.amazon.aws.operators import athena as upstream
from airflow.providers.amazon.aws.triggers.athena import AthenaTrigger

from airflow_resume_mixins.providers.amazon.aws_job import AwsJob

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context


class AthenaOperator(AwsJob, upstream.AthenaOperator):
    """`AthenaOperator` that resumes.

    By token: a query with the same `ClientRequestToken` is the same query. If the SQL of a retry is another one, it
    fails with `JobInputsChangedError`.
    """

    submission_is_idempotent = True
    active = frozenset({"QUEUED", "RUNNING"})
    succeeded = frozenset({"SUCCEEDED"})
    job_id_attribute = "query_execution_id"
    while_submitting = {"deferrable": True}  # noqa: RUF012  it has no other way not to wait
    waiter_arguments = ("sleep_time", "max_polling_attempts")
    not_found_codes = frozenset({"InvalidRequestException"})

    def put_token(self, token: str) -> None:
        """As in `ProviderJob`."""
        self.client_request_token = token

    def job_status(self, external_id: Any) -> Any:
        """As in `ProviderJob`."""
        return self.hook.check_query_status(external_id)

    def job_trigger(self, external_id: Any, context: Context) -> AthenaTrigger:  # noqa: ARG002
        """The operator's own trigger."""
        return AthenaTrigger(query_execution_id=external_id, **self.waiting())

    def restore(self, external_id: Any, context: Context) -> None:
        """As in `ProviderJob`."""
        self.persist(AthenaQueryResultsLink, context, query_execution_id=external_id)
