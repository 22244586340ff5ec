"""The Data API of Redshift."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.amazon.aws.operators import redshift_data as upstream
from airflow.providers.amazon.aws.triggers.redshift_data import RedshiftDataTrigger

from airflow_resume_mixins.providers.amazon.aws_job import AwsJob

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context


class RedshiftDataOperator(AwsJob, upstream.RedshiftDataOperator):
    """`RedshiftDataOperator` that resumes.

    By token: a statement with the same `ClientToken` is the same statement. If the SQL of a retry is another one, it
    fails with `JobInputsChangedError`.
    """

    submission_is_idempotent = True
    job_id_attribute = "statement_id"
    not_waiting = {"wait_for_completion": False}  # noqa: RUF012
    not_found_codes = frozenset({"ResourceNotFoundException"})

    def put_token(self, token: str) -> None:  # noqa: ARG002
        """As in `ProviderJob`."""
        self.send_with(["ExecuteStatement", "BatchExecuteStatement"], "ClientToken")

    def job_trigger(self, external_id: Any, context: Context) -> RedshiftDataTrigger:  # noqa: ARG002
        """The operator's own trigger."""
        return RedshiftDataTrigger(
            statement_id=external_id,
            task_id=self.task_id,
            poll_interval=self.poll_interval,
            cancel_on_kill=self.cancel_on_kill,
            **self.connection(),
        )

    def execute_resumable(self, context: Context) -> Any:
        """As in `ResumableJobMixin`. The operator's own `execute` returns an attribute."""
        self._sql_results = super().execute_resumable(context)
        return self._sql_results

    def answer(self, external_id: Any, context: Context) -> Any:  # noqa: ARG002
        """The ids of the statements, or what there is of their results, as in the operator itself."""
        return self.get_sql_results(statement_id=external_id, return_sql_result=self.return_sql_result)
