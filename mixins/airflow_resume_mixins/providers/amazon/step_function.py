"""Step Functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.amazon.aws.links.step_function import (
    StateMachineDetailsLink,
    StateMachineExecutionsDetailsLink,
)
from airflow.providers.amazon.aws.operators import step_function as upstream
from airflow.providers.amazon.aws.triggers.step_function import StepFunctionsExecutionCompleteTrigger

from airflow_resume_mixins.providers.amazon.aws_job import AwsJob
from airflow_resume_mixins.providers.provider_job import with_token

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context


class StepFunctionStartExecutionOperator(AwsJob, upstream.StepFunctionStartExecutionOperator):
    """`StepFunctionStartExecutionOperator` that resumes, for standard workflows.

    By unique name: the token is at the end of the execution's name, no other execution can have this name, and
    `DescribeExecution` finds it. The role needs `states:DescribeExecution` and `states:StopExecution`.

    As in the provider's operator, the execution is waited for only with `deferrable=True`. With `is_redrive_execution`
    the name stays as it is, and the execution is looked up by it while it runs.
    """

    active = frozenset({"RUNNING", "PENDING_REDRIVE"})
    succeeded = frozenset({"SUCCEEDED"})
    not_waiting = {"deferrable": False}  # noqa: RUF012
    not_found_codes = frozenset({"ExecutionDoesNotExist"})

    def put_token(self, token: str) -> None:
        """As in `ProviderJob`."""
        self.name = self._name(token)

    def _name(self, token: str) -> str | None:
        if self.is_redrive_execution:
            return self.name
        return with_token(self.name or "", token, most=80)

    def find_job(self, token: str, context: Context) -> Any:  # noqa: ARG002
        """The execution with the token in its name."""
        region, machine = self.state_machine_arn.split(":stateMachine:")
        execution = f"{region}:execution:{machine.split(':')[0]}:{self._name(token)}"
        found = self.hook.describe_execution(execution)
        if self.is_redrive_execution and found["status"] not in self.active:
            return None
        return found["executionArn"]

    def job_status(self, external_id: Any) -> Any:
        """As in `ProviderJob`."""
        return self.hook.describe_execution(external_id)["status"]

    def job_trigger(self, external_id: Any, context: Context) -> StepFunctionsExecutionCompleteTrigger:  # noqa: ARG002
        """The operator's own trigger."""
        return StepFunctionsExecutionCompleteTrigger(execution_arn=external_id, **self.waiting())

    def cancel_job(self, external_id: Any, context: Context) -> None:  # noqa: ARG002
        """Stop the execution."""
        self.hook.conn.stop_execution(executionArn=external_id)

    def restore(self, external_id: Any, context: Context) -> None:
        """As in `ProviderJob`."""
        self.persist(StateMachineDetailsLink, context, state_machine_arn=self.state_machine_arn)
        self.persist(StateMachineExecutionsDetailsLink, context, execution_arn=external_id)
