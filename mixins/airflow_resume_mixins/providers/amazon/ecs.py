"""ECS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.amazon.aws.operators import ecs as upstream
from airflow.providers.amazon.aws.triggers.ecs import TaskDoneTrigger

from airflow_resume import JobStatus
from airflow_resume.compat import AirflowException, AirflowSkipException
from airflow_resume.shown import get_logger
from airflow_resume_mixins.providers.amazon.aws_job import AwsJob

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

log = get_logger(__name__)


class EcsRunTaskOperator(AwsJob, upstream.EcsRunTaskOperator):
    """`EcsRunTaskOperator` that resumes.

    By token: `RunTask` with the same `clientToken` is the same task. If other parameters come with the token, the
    retry fails with `JobInputsChangedError`. `reattach` is not needed, and does no harm.

    ECS forgets a task about an hour after it has stopped. If nothing noted its success by then, the next attempt starts
    another one. The logs are not followed while the task runs; its last line is returned, as when the operator defers.
    """

    submission_is_idempotent = True
    active = frozenset({"ACTIVE"})
    succeeded = frozenset({"SUCCEEDED"})
    job_id_attribute = "arn"
    not_waiting = {"wait_for_completion": False, "deferrable": False}  # noqa: RUF012
    not_found_codes = frozenset({"ClusterNotFoundException"})

    def put_token(self, token: str) -> None:  # noqa: ARG002
        """As in `ProviderJob`."""
        self.send_with(["RunTask"], "clientToken")

    def job_status(self, external_id: Any) -> Any:
        """As in `ProviderJob`. Whether a stopped task has succeeded is what the operator itself makes of it."""
        tasks = self.client.describe_tasks(cluster=self.cluster, tasks=[external_id])["tasks"]
        if not tasks:
            return JobStatus.GONE
        if self.awslogs_stream_prefix and not self.container_name and tasks[0].get("containers"):
            self.container_name = tasks[0]["containers"][0]["name"]
        if tasks[0]["lastStatus"] != "STOPPED":
            return "ACTIVE"
        try:
            self._check_success_task()
        except AirflowSkipException:  # raised again when the result is fetched, and then it ends the task
            return "SUCCEEDED"
        except AirflowException as error:
            log.warning("Task %s has failed: %s", external_id, error)
            return "FAILED"
        return "SUCCEEDED"

    def job_trigger(self, external_id: Any, context: Context) -> TaskDoneTrigger:  # noqa: ARG002
        """The operator's own trigger."""
        return TaskDoneTrigger(
            cluster=self.cluster,
            task_arn=external_id,
            log_region_name=self.resolve_awslogs_region(),
            log_group=self.awslogs_group,
            log_stream=self._get_logs_stream_name(),
            **self.waiting(),
        )

    def success_event(self, external_id: Any) -> dict[str, Any]:
        """As in `ProviderJob`."""
        return {"status": "success", "task_arn": external_id, "cluster": self.cluster}

    def answer(self, external_id: Any, context: Context) -> None:
        """Nothing, as in the operator itself."""

    def restore(self, external_id: Any, context: Context) -> None:
        """As in `ProviderJob`."""
        if self.do_xcom_push:
            context["ti"].xcom_push(key="ecs_task_arn", value=external_id)  # pyright: ignore[reportTypedDictNotRequiredAccess]
