"""SageMaker: training, processing and transform jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

from airflow.providers.amazon.aws.links.sagemaker import SageMakerTransformJobLink
from airflow.providers.amazon.aws.operators import sagemaker as upstream
from airflow.providers.amazon.aws.triggers.sagemaker import SageMakerTrigger

from airflow_resume_mixins.providers.amazon.aws_job import AwsJob
from airflow_resume_mixins.providers.provider_job import with_token

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context
    from pydantic import JsonValue


class SageMakerJob(AwsJob):
    """A job of SageMaker. Its name is its id.

    By unique name: the token is at the end of the job's name, which no other job can ever have, and the job is looked
    up by it. So `action_if_job_exists` has nothing to do. A name that the rest of the Dag needs is in the result.
    """

    kind: ClassVar[str]
    """Of the job, as in the names of the API: `Training`, `Processing`, `Transform`."""
    active = frozenset({"InProgress", "Stopping"})
    succeeded = frozenset({"Completed"})
    not_waiting = {"wait_for_completion": False}  # noqa: RUF012
    still_called = ("expand_role", "preprocess_config")
    waiter_arguments = ("check_interval", "max_attempts")
    not_found_codes = frozenset({"ValidationException", "ResourceNotFound"})

    if TYPE_CHECKING:
        config: dict[str, Any]

    @property
    def _request(self) -> dict[str, Any]:
        """The part of the config that describes the job."""
        return self.config

    def _name(self, token: str) -> str:
        return with_token(self._request[f"{self.kind}JobName"], token, most=63)

    def _ask(self, operation: str, name: Any) -> Any:
        ask = getattr(self.hook.conn, f"{operation}_{self.kind.lower()}_job")
        return ask(**{f"{self.kind}JobName": name})

    def put_token(self, token: str) -> None:
        """As in `ProviderJob`."""
        self._request[f"{self.kind}JobName"] = self._name(token)

    def _get_unique_job_name(
        self,
        proposed_name: str,
        fail_if_exists: bool,  # noqa: ARG002, FBT001
        describe_func: Callable[[str], Any],  # noqa: ARG002
    ) -> str:
        """The name as it is: another one would make another job."""
        return proposed_name

    def job_id_of(self, answer: Any) -> JsonValue:  # noqa: ARG002
        """The name of the job."""
        name: str = self._request[f"{self.kind}JobName"]
        return name

    def find_job(self, token: str, context: Context) -> Any:  # noqa: ARG002
        """The name with the token, if there is such a job."""
        return self._ask("describe", self._name(token))[f"{self.kind}JobName"]

    def job_status(self, external_id: Any) -> Any:
        """As in `ProviderJob`."""
        return self._ask("describe", external_id)[f"{self.kind}JobStatus"]

    def job_trigger(self, external_id: Any, context: Context) -> SageMakerTrigger:  # noqa: ARG002
        """The operator's own trigger."""
        return SageMakerTrigger(job_name=external_id, job_type=self.kind, **self.waiting())

    def cancel_job(self, external_id: Any, context: Context) -> None:  # noqa: ARG002
        """Stop the job."""
        self._ask("stop", external_id)

    def success_event(self, external_id: Any) -> dict[str, Any]:
        """As in `ProviderJob`."""
        return {"status": "success", "job_name": external_id}

    def answer(self, external_id: Any, context: Context) -> Any:
        """The description of the job, as in the operator itself."""
        return self._upstream("execute_complete")(self, context, self.success_event(external_id))


class SageMakerTrainingOperator(SageMakerJob, upstream.SageMakerTrainingOperator):
    """`SageMakerTrainingOperator` that resumes.

    By unique name, see `SageMakerJob`. The role needs `sagemaker:StopTrainingJob`. With `print_log` the logs of the job
    are printed at its end.
    """

    kind = "Training"
    while_submitting = {"print_log": False}  # noqa: RUF012  it would wait for the logs

    def get_job_result(self, external_id: Any, context: Context) -> Any:
        """As in `ProviderJob`."""
        if self.print_log:
            states = self.hook.non_terminal_states, self.hook.training_failed_states
            self.hook.check_training_status_with_log(external_id, *states, False, 0)
        return super().get_job_result(external_id, context)


class SageMakerProcessingOperator(SageMakerJob, upstream.SageMakerProcessingOperator):
    """`SageMakerProcessingOperator` that resumes.

    By unique name, see `SageMakerJob`. The role needs `sagemaker:StopProcessingJob`.
    """

    kind = "Processing"


class SageMakerTransformOperator(SageMakerJob, upstream.SageMakerTransformOperator):
    """`SageMakerTransformOperator` that resumes.

    By unique name, see `SageMakerJob`. The role needs `sagemaker:StopTransformJob`. A crash between the creation of the
    model and that of the job leaves a model that nobody uses, unless `check_if_model_exists=False`.
    """

    kind = "Transform"

    @property
    def _request(self) -> dict[str, Any]:
        return self.config.get("Transform", self.config)

    def restore(self, external_id: Any, context: Context) -> None:
        """As in `ProviderJob`."""
        self.persist(SageMakerTransformJobLink, context, job_name=quote(external_id, safe=""))
