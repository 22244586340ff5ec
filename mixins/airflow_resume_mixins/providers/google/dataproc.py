"""Dataproc: jobs on a cluster, serverless batches, and workflows.

A `request_id` closes the window between submit and save. What Dataproc says about it differs:

- for a job and a batch, a second request with the same `request_id` is ignored, and gets the answer of the first one;
- for a workflow, it "prevents multiple concurrent workflow instances with the same tag". So a workflow that has ended
  may be started again.

The id of a batch ends with the token, too. An id is refused (409) as long as there is a batch with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.google.cloud.hooks.dataproc import DataprocHook
from airflow.providers.google.cloud.links.dataproc import DataprocBatchLink, DataprocWorkflowLink
from airflow.providers.google.cloud.operators import dataproc
from airflow.providers.google.cloud.triggers.dataproc import (
    DataprocBatchTrigger,
    DataprocOperationTrigger,
    DataprocSubmitTrigger,
)
from google.api_core.exceptions import GoogleAPICallError, NotFound
from google.cloud.dataproc_v1 import Batch, WorkflowMetadata

from airflow_resume.errors import JobInputsChangedError
from airflow_resume.shown import get_logger
from airflow_resume.values import fingerprint
from airflow_resume_mixins.providers.provider_job import ProviderJob

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

log = get_logger(__name__)

__all__ = [
    "DataprocCreateBatchOperator",
    "DataprocInstantiateInlineWorkflowTemplateOperator",
    "DataprocInstantiateWorkflowTemplateOperator",
    "DataprocSubmitJobOperator",
]

_INPUTS = "airflow-resume-inputs"
"""The label of a batch that says from which arguments it was made."""


class _DataprocJob(ProviderJob):
    """What the operators have in common."""

    submission_is_idempotent = True

    def put_token(self, token: str) -> None:
        """As `request_id`."""
        self.request_id = token

    def _get_hook(self) -> Any:
        return DataprocHook(gcp_conn_id=self.gcp_conn_id, impersonation_chain=self.impersonation_chain)

    def _of_a_trigger(self) -> dict[str, Any]:
        """What all triggers of Dataproc take."""
        shared = ("project_id", "region", "gcp_conn_id", "impersonation_chain", "polling_interval_seconds")
        return {name: getattr(self, name) for name in shared}

    def job_not_found(self, error: BaseException) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the job is not known."""
        return isinstance(error, NotFound)

    def on_kill(self) -> None:
        """Nothing is left to do: `cancel_job` cancels the job, if the policy wants that."""


class _DeferringJob(_DataprocJob):
    """Of an operator whose own deferral ends the submit, because it looks at the job or waits for it otherwise."""

    while_submitting: ClassVar[Mapping[str, Any]] = {"deferrable": True}
    _is_checked = True

    def own_execute(self, context: Context) -> Any:
        """As in the base."""
        self._is_checked = False  # whether what is there now was made from the arguments of this attempt
        return super().own_execute(context)

    def _get(self, external_id: Any) -> Any:
        """What Dataproc says about it."""
        raise NotImplementedError

    def _is_of_others(self, said: Any) -> bool:  # noqa: ARG002
        """Whether an earlier attempt has sent the same token with other arguments. Dataproc ignores the later ones."""
        return False

    def _ask(self, external_id: Any) -> Any:
        """What Dataproc says about it. The id is on record, so what is found here is not lost by an error.

        Raises:
            JobInputsChangedError: this attempt has sent a token that was sent before with other arguments.
        """
        said = self._get(external_id)
        is_checked, self._is_checked = self._is_checked, True
        if not is_checked and self._is_of_others(said):
            raise JobInputsChangedError(
                f"An earlier attempt has sent the token {self.submission_token} with other arguments, and has started"
                f" {external_id!r}.",
                "Clear the task: then it is cancelled, and started with the arguments of now. Or give the operator its"
                " earlier arguments again.",
                slot="job",
                token=self.submission_token,
                external_id=external_id,
            )
        return said

    def job_trigger(self, external_id: Any, context: Context) -> Any:
        """The operator's own trigger."""
        if not self._is_checked:
            try:
                self._ask(external_id)
            except GoogleAPICallError as error:
                log.warning(
                    "%r may have been started with the arguments of an earlier attempt, which cannot be seen now: %s",
                    external_id,
                    error,
                )
        return self._own_trigger(external_id, context)

    def _own_trigger(self, external_id: Any, context: Context) -> Any:
        raise NotImplementedError


class DataprocSubmitJobOperator(_DataprocJob, dataproc.DataprocSubmitJobOperator):
    """The provider's operator, which resumes. The window is closed by the `request_id`, which is the token.

    `start_from_trigger=True` is not supported: then no task submits the job.
    """

    active = frozenset({"PENDING", "SETUP_DONE", "RUNNING", "ATTEMPT_FAILURE", "CANCEL_PENDING", "CANCEL_STARTED"})
    succeeded = frozenset({"DONE"})
    job_id_attribute = "job_id"
    not_waiting = {"asynchronous": True}  # noqa: RUF012  annotated as a ClassVar in the base

    def job_status(self, external_id: Any) -> str:
        """The state of the job."""
        job = self._get_hook().get_job(job_id=external_id, project_id=self.project_id, region=self.region)
        return str(job.status.state.name)

    def cancel_job(self, external_id: Any, context: Context) -> None:  # noqa: ARG002
        """Cancel the job, unless `cancel_on_kill=False`."""
        if self.cancel_on_kill:
            self._get_hook().cancel_job(job_id=external_id, project_id=self.project_id, region=self.region)

    def job_trigger(self, external_id: Any, context: Context) -> Any:  # noqa: ARG002
        """The operator's own trigger."""
        return DataprocSubmitTrigger(
            job_id=external_id,
            **self._of_a_trigger(),
            cancel_on_kill=self.cancel_on_kill,
        )


class DataprocCreateBatchOperator(_DeferringJob, dataproc.DataprocCreateBatchOperator):
    """The provider's operator, which resumes. The window is closed by the id of the batch, which ends with the token.

    The id begins with `batch_id=` or `batch_id_prefix=`, or with the name of the task. So a retry after a failed batch,
    and a cleared task, create another batch, and the actual id is in the result and in the link. `request_id` is the
    token.

    A label of the batch says from which arguments it was made. If a retry finds the batch of an attempt that died in
    the window, and its arguments differ, it fails with `JobInputsChangedError`.

    `num_retries_if_resource_is_not_ready` has no effect: the attempt fails, and the retries of the task create another
    batch. With `deferrable=True`, the result is the batch, as without it.
    """

    active = frozenset({"PENDING", "RUNNING"})
    succeeded = frozenset({"SUCCEEDED"})
    not_waiting = {"asynchronous": True}  # noqa: RUF012  annotated as a ClassVar in the base
    while_submitting = {"asynchronous": False, "deferrable": True}  # noqa: RUF012
    _made_from: str | None = None

    if TYPE_CHECKING:
        batch: Any

    def put_token(self, token: str) -> None:
        """As `request_id`; and label the batch with the fingerprint of what it is made from."""
        super().put_token(token)
        if self._made_from is None:  # the operator itself adds to the batch what depends on the try
            self._made_from = fingerprint(Batch.to_dict(Batch(self.batch)), length=16)
        label = {_INPUTS: self._made_from}
        if isinstance(self.batch, Batch):
            self.batch = Batch(self.batch)
            self.batch.labels.update(label)
        else:
            self.batch = {**self.batch, "labels": {**(self.batch.get("labels") or {}), **label}}

    def _resolve_requested_batch_id(self) -> str | None:
        """The id with the token."""
        if self.batch_id and self.batch_id_prefix:
            resolved: str | None = self._upstream("_resolve_requested_batch_id")(self)  # it raises
            return resolved
        return self.job_id_of(None)

    def job_id_of(self, answer: Any) -> str:  # noqa: ARG002
        """The id of the batch: at most 63 characters, the last 32 of which are the token."""
        begin = str(self.batch_id or self.batch_id_prefix or f"airflow-{self.task_id}").lower()
        return f"{re.sub('[^0-9a-z-]', '-', begin)[:30]}-{self.submission_token}"

    def _get(self, external_id: Any) -> Batch:
        batch: Batch = self.hook.get_batch(batch_id=external_id, project_id=self.project_id, region=self.region)
        return batch

    def _is_of_others(self, said: Batch) -> bool:
        return said.labels.get(_INPUTS) not in {None, self._made_from}

    def job_status(self, external_id: Any) -> str:
        """The state of the batch, and why it has failed."""
        batch = self._ask(external_id)
        return f"{batch.state.name}: {batch.state_message}" if batch.state == Batch.State.FAILED else batch.state.name

    def cancel_job(self, external_id: Any, context: Context) -> None:  # noqa: ARG002
        """Cancel the operation of the batch. A batch itself cannot be cancelled."""
        batch = self._get(external_id)
        self.hook.get_operations_client(region=self.region).cancel_operation(name=batch.operation)

    def _own_trigger(self, external_id: Any, context: Context) -> Any:  # noqa: ARG002
        return DataprocBatchTrigger(
            batch_id=external_id,
            **self._of_a_trigger(),
        )

    def restore(self, external_id: Any, context: Context) -> None:
        """Push what the link in the UI needs."""
        DataprocBatchLink.persist(context=context, project_id=self.project_id, region=self.region, batch_id=external_id)

    def answer(self, external_id: Any, context: Context) -> Any:  # noqa: ARG002
        """The batch."""
        return Batch.to_dict(self._ask(external_id))

    def get_job_result(self, external_id: Any, context: Context) -> Any:
        """The batch."""
        self._push_again(external_id, context)
        return self.answer(external_id, context)


class _Workflow(_DeferringJob):
    """A workflow. Its job is the operation whose end the operator waits for."""

    active = frozenset({"RUNNING"})
    succeeded = frozenset({"DONE"})
    job_id_attribute = "operation_name"

    def _get(self, external_id: Any) -> Any:
        return self._get_hook().get_operations_client(region=self.region).get_operation(name=external_id)

    def job_status(self, external_id: Any) -> str:
        """Whether the operation has ended, and how. A cancelled one has an error, too."""
        operation = self._ask(external_id)
        if not operation.done:
            return "RUNNING"
        has_failed = operation.HasField("error")
        return f"FAILED: {operation.error.message}" if has_failed else "DONE"

    def cancel_job(self, external_id: Any, context: Context) -> None:  # noqa: ARG002
        """Cancel the operation, unless `cancel_on_kill=False`."""
        if self.cancel_on_kill:
            self._get_hook().get_operations_client(region=self.region).cancel_operation(name=external_id)

    def _own_trigger(self, external_id: Any, context: Context) -> Any:  # noqa: ARG002
        return DataprocOperationTrigger(
            name=external_id,
            **self._of_a_trigger(),
        )

    def restore(self, external_id: Any, context: Context) -> None:
        """Push what the link in the UI needs."""
        if project_id := self.project_id or self._get_hook().project_id:
            DataprocWorkflowLink.persist(
                context=context,
                workflow_id=external_id.rpartition("/")[2],
                region=self.region,
                project_id=project_id,
            )

    def success_event(self, external_id: Any) -> dict[str, Any]:
        """As the operator's own trigger fires it."""
        return {"status": "success", "operation_name": external_id, "operation_done": True, "message": ""}


class DataprocInstantiateWorkflowTemplateOperator(_Workflow, dataproc.DataprocInstantiateWorkflowTemplateOperator):
    """The provider's operator, which resumes. The window is closed by the `request_id`, which is the token.

    No second workflow starts while that of an attempt that died in the window is running. If it has ended before the
    retry, it is started again, because Dataproc has no way to find it.

    If a retry finds the workflow of such an attempt, and the template or its parameters differ, it fails with
    `JobInputsChangedError`.
    """

    def _is_of_others(self, said: Any) -> bool:
        workflow = WorkflowMetadata()
        if not said.metadata.Unpack(WorkflowMetadata.pb(workflow)):
            return False
        wanted = {name: str(value) for name, value in (self.parameters or {}).items()}
        is_other_template = workflow.template and workflow.template.rpartition("/")[2] != self.template_id
        return is_other_template or any(workflow.parameters.get(name, wanted[name]) != wanted[name] for name in wanted)


class DataprocInstantiateInlineWorkflowTemplateOperator(
    _Workflow, dataproc.DataprocInstantiateInlineWorkflowTemplateOperator
):
    """The provider's operator, which resumes. The window is closed by the `request_id`, which is the token.

    No second workflow starts while that of an attempt that died in the window is running. If it has ended before the
    retry, it is started again, because Dataproc has no way to find it. A retry whose template differs continues with
    the workflow that runs.
    """
