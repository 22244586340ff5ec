"""Microsoft Azure's operators that resume.

| operator | how the window between submit and save is closed |
|---|---|
| `AzureBatchOperator` | the id of the task ends with the token; a Batch job takes an id once |
| `AzureSynapseRunSparkBatchOperator` | the name of the batch ends with the token, and is looked for in the list |
| `AzureDataFactoryRunPipelineOperator` | only with `token_parameter`: a parameter of the run is looked for |

Azure's clients send a POST again by themselves if it was answered with HTTP 500, 503 or 504, although the first one may
have been carried out. So that is switched off for the requests that start a pipeline or a Spark batch.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.microsoft.azure.hooks.data_factory import provide_targeted_factory
from airflow.providers.microsoft.azure.operators import batch, data_factory, synapse
from airflow.providers.microsoft.azure.triggers.batch import AzureBatchTrigger
from airflow.providers.microsoft.azure.triggers.data_factory import AzureDataFactoryTrigger
from azure.core.exceptions import HttpResponseError, ResourceExistsError

from airflow_resume.compat import TaskDeferred
from airflow_resume.errors import JobError, UsageError
from airflow_resume.shown import get_logger
from airflow_resume_mixins.providers.provider_job import ProviderJob, with_token

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context
    from pydantic import JsonValue

__all__ = ["AzureBatchOperator", "AzureDataFactoryRunPipelineOperator", "AzureSynapseRunSparkBatchOperator"]

log = get_logger(__name__)

CLOCKS_DIFFER = timedelta(hours=1)
MOST_OF_A_BATCH_ID = 64
MOST_OF_A_SPARK_NAME = 128
PAGE = 20
"""How many Spark batches Synapse lists at most in one answer."""
RUNS_ARE_KEPT = timedelta(days=45)
"""For how long Data Factory knows a run."""


class AzureDataFactoryRunPipelineOperator(ProviderJob, data_factory.AzureDataFactoryRunPipelineOperator):
    """The provider's operator, which resumes. The window is open, unless there is a `token_parameter`.

    Data Factory takes no token, and no run id. It lists runs by the pipeline, the time and the status, with their
    parameters, and a parameter has to be declared in the pipeline. So add one of the type String to the pipeline, which
    no activity has to use, and name it in a class of your own:

        class RunPipelineOperator(AzureDataFactoryRunPipelineOperator):
            token_parameter = "airflow_token"

    Without it, or with `reference_pipeline_run_id`, whose run takes the parameters of the other one, a retry after a
    crash in the window fails and says so, or `on_lost_submission` decides otherwise.

    The provider's trigger cancels the run if the trigger itself fails, for example because Azure cannot be reached.
    """

    token_parameter: ClassVar[str | None] = None
    """A parameter of the pipeline, for the token. Reading the pipeline must be allowed, to see that it is declared."""
    find_job: Any = None
    active = frozenset({"Queued", "InProgress", "Canceling"})
    succeeded = frozenset({"Succeeded"})
    job_id_attribute = "run_id"
    not_waiting = {"wait_for_termination": False}  # noqa: RUF012  annotated as a ClassVar in the base

    def __init_subclass__(cls, **options: Any) -> None:
        """Offer the look-up if the class has a `token_parameter`."""
        if cls.token_parameter is not None:
            cls.find_job = property(lambda operator: operator._find_run if operator._takes_token else None)
        super().__init_subclass__(**options)

    @property
    def _takes_token(self) -> bool:
        return self.token_parameter is not None and not self.reference_pipeline_run_id

    def own_execute(self, context: Context) -> Any:
        """As in the base, with the token among the parameters, and with one request only.

        Raises:
            UsageError: the pipeline does not declare the `token_parameter`.
        """
        parameters = self.parameters
        if self._takes_token:
            self._check_declared()
            parameters = {**(parameters or {}), str(self.token_parameter): self.submission_token}
        with self._set(parameters=parameters), _once(self.hook.get_conn().pipelines, "create_run"):
            return super().own_execute(context)

    def _check_declared(self) -> None:
        pipeline = self.hook.get_pipeline(self.pipeline_name, self.resource_group_name, self.factory_name)
        if self.token_parameter not in (pipeline.parameters or {}):
            raise UsageError(
                f"The pipeline {self.pipeline_name} has no parameter {self.token_parameter}, so its runs cannot be"
                " found by it.",
                "Add it to the pipeline, with the type String, or remove token_parameter from the class"
                f" {type(self).__name__}.",
            )

    def _find_run(self, token: str, context: Context) -> JsonValue:  # noqa: ARG002
        now = datetime.now(timezone.utc)
        asked: dict[str, Any] = {
            "lastUpdatedAfter": (now - RUNS_ARE_KEPT).isoformat(),
            "lastUpdatedBefore": (now + CLOCKS_DIFFER).isoformat(),
            "filters": [{"operand": "PipelineName", "operator": "Equals", "values": [self.pipeline_name]}],
            "orderBy": [{"orderBy": "RunStart", "order": "DESC"}],
        }
        runs = provide_targeted_factory(_runs)  # the names may be those of the connection
        while True:
            page = runs(self.hook, self.resource_group_name, self.factory_name, asked)
            for run in page.value:
                if (run.parameters or {}).get(self.token_parameter) == token:
                    return str(run.run_id)
            if not page.continuation_token:
                return None
            asked["continuationToken"] = page.continuation_token

    def job_status(self, external_id: Any) -> str:
        """The status of the run."""
        return str(self.hook.get_pipeline_run_status(external_id, self.resource_group_name, self.factory_name))

    def cancel_job(self, external_id: Any, context: Context) -> None:  # noqa: ARG002
        """Cancel the run; the engine waits for its end if it has to."""
        self.hook.cancel_pipeline_run(
            run_id=external_id, resource_group_name=self.resource_group_name, factory_name=self.factory_name
        )

    def on_kill(self) -> None:
        """Nothing is left to do: `cancel_job` cancels the run, if the policy wants that."""

    def job_trigger(self, external_id: Any, context: Context) -> Any:  # noqa: ARG002
        """The operator's own trigger."""
        return AzureDataFactoryTrigger(
            azure_data_factory_conn_id=self.azure_data_factory_conn_id,
            run_id=external_id,
            wait_for_termination=True,
            resource_group_name=self.resource_group_name,
            factory_name=self.factory_name,
            check_interval=self.check_interval,
            end_time=time.time() + self.timeout,
        )

    def success_event(self, external_id: Any) -> dict[str, Any]:
        """As the trigger fires it."""
        return {"status": "success", "message": f"The pipeline run {external_id} has Succeeded.", "run_id": external_id}

    def answer(self, external_id: Any, context: Context) -> None:
        """The operator returns nothing."""

    def restore(self, external_id: Any, context: Context) -> None:
        """Push the id of the run, which the link in the UI needs."""
        context["ti"].xcom_push(key="run_id", value=external_id)  # pyright: ignore[reportTypedDictNotRequiredAccess]


class AzureSynapseRunSparkBatchOperator(ProviderJob, synapse.AzureSynapseRunSparkBatchOperator):
    """The provider's operator, which resumes. The window is closed by the name of the batch, which ends with the token.

    Synapse's list of batches is read page by page, until the name is found. It must be allowed to list the batches of
    the pool.
    """

    active = frozenset({"not_started", "starting", "running", "idle", "busy", "shutting_down", "recovering"})
    succeeded = frozenset({"success"})
    job_id_attribute = "job_id"
    not_waiting = {"wait_for_termination": False}  # noqa: RUF012  annotated as a ClassVar in the base

    def put_token(self, token: str) -> None:
        """At the end of the name of the batch."""
        self.payload = copy.copy(self.payload)
        self.payload.name = with_token(self.payload.name or self.task_id, token, most=MOST_OF_A_SPARK_NAME)

    def own_execute(self, context: Context) -> Any:
        """As in the base, with one request only."""
        with _once(self._batches, "create_spark_batch_job"):
            return super().own_execute(context)

    @property
    def _batches(self) -> Any:
        return self.hook.get_conn().spark_batch

    def find_job(self, token: str, context: Context) -> JsonValue:  # noqa: ARG002
        """The batch whose name ends with the token."""
        seen: set[int] = set()
        while True:  # up to a page with nothing new, as `total` is not the same in all versions of Livy
            page = self._batches.get_spark_batch_jobs(from_parameter=len(seen), size=PAGE)
            batches = page.sessions or ()
            if (found := next((each.id for each in batches if (each.name or "").endswith(token)), None)) is not None:
                batch_id: JsonValue = found
                return batch_id
            ids = {each.id for each in batches}
            if ids <= seen:
                return None
            seen |= ids

    def job_status(self, external_id: Any) -> str:
        """The state of the batch."""
        state = self._batches.get_spark_batch_job(batch_id=external_id).state
        return str(getattr(state, "value", state))

    def cancel_job(self, external_id: Any, context: Context) -> None:  # noqa: ARG002
        """Cancel the batch."""
        self.hook.cancel_job_run(external_id)

    def on_kill(self) -> None:
        """Nothing is left to do: `cancel_job` cancels the batch, if the policy wants that."""

    def get_job_result(self, external_id: Any, context: Context) -> None:
        """The operator returns nothing."""
        self._push_again(external_id, context)

    def answer(self, external_id: Any, context: Context) -> None:
        """The operator returns nothing."""

    def restore(self, external_id: Any, context: Context) -> None:
        """Push the id of the batch."""
        context["ti"].xcom_push(key="job_id", value=external_id)  # pyright: ignore[reportTypedDictNotRequiredAccess]


class AzureBatchOperator(ProviderJob, batch.AzureBatchOperator):
    """The provider's operator, which resumes. The window is closed by the id of the task, which ends with the token.

    A Batch job takes the id of a task only once. `batch_task_id` is the beginning of the id, cut to 31 characters. So a
    cleared task runs again, which it does not with the provider's operator: there the id is in use, and the old task
    counts as the new one.

    It waits for its own task, and not for the others in the job. A kill or a clear ends this task, and not the job: a
    job that was ended takes no further task. With `should_delete_job=True` the job is deleted unless others of its
    tasks are still running. An operator with a `batch_job_manager_task` does not resume, as the tasks that the manager
    adds are not known.
    """

    submission_is_idempotent = True
    active = frozenset({"active", "preparing", "running"})
    succeeded = frozenset({"completed:success"})
    while_submitting = {"deferrable": True}  # noqa: RUF012  it waits otherwise

    def cannot_resume(self) -> str | None:
        """With a job manager."""
        return None if self.batch_job_manager_task is None else "it has a batch_job_manager_task"

    def put_token(self, token: str) -> None:
        """At the end of the id of the task."""
        self.batch_task_id = with_token(self.batch_task_id, token, most=MOST_OF_A_BATCH_ID)

    def own_execute(self, context: Context) -> Any:
        """Let the operator add the task, and stop it where it would defer."""
        client = self.hook.connection
        create = client.create_task

        def create_or_say_why_not(*args: Any, **options: Any) -> Any:
            try:
                return create(*args, **options)
            except ResourceExistsError as error:
                code = getattr(error.error, "code", None)
                if code == "TaskExists":
                    raise
                raise JobError(
                    f"The Batch job {self.batch_job_id} takes no task: {code}.",
                    "Use another batch_job_id=, or delete the Batch job and clear the task.",
                    slot="job",
                    token=self.submission_token,
                ) from error

        client.create_task = create_or_say_why_not  # the hook takes every conflict for a task that is there
        try:
            super().own_execute(context)
        except TaskDeferred:
            pass
        finally:
            del client.create_task
        return {"job": self.batch_job_id, "task": self.batch_task_id}

    def job_status(self, external_id: Any) -> str:
        """The state of the task; when it has ended, with its result."""
        task = self.hook.connection.get_task(external_id["job"], external_id["task"])
        state = str(getattr(task.state, "value", task.state))
        result = None if task.execution_info is None else task.execution_info.result
        return f"{state}:{getattr(result, 'value', result)}" if state == "completed" else state

    def cancel_job(self, external_id: Any, context: Context) -> None:  # noqa: ARG002
        """End the task."""
        self.hook.connection.terminate_task(external_id["job"], external_id["task"])

    def on_kill(self) -> None:
        """Nothing is left to do: `cancel_job` ends the task, if the policy wants that."""

    def job_trigger(self, external_id: Any, context: Context) -> Any:  # noqa: ARG002
        """The operator's own trigger. It fires when all tasks of the job have ended."""
        return AzureBatchTrigger(
            job_id=external_id["job"],
            azure_batch_conn_id=self.azure_batch_conn_id,
            end_time=time.time() + self.timeout * 60,
            poll_interval=self.poll_interval,
        )

    def get_job_result(self, external_id: Any, context: Context) -> None:
        """The operator returns nothing."""

    def execute_resumable(self, context: Context) -> Any:
        """As in the base; what is to be deleted, is deleted when the result is saved."""
        answer = super().execute_resumable(context)
        self._delete(self.external_id)
        return answer

    def resume_complete(self, context: Context, event: Any = None) -> Any:
        """As in `execute_resumable`."""
        answer = super().resume_complete(context, event)
        self._delete(self.external_id)
        return answer

    def after_failure(self, external_id: JsonValue, context: Context) -> None:  # noqa: ARG002
        """Delete what is to be deleted."""
        self._delete(external_id)

    def _delete(self, external_id: Any) -> None:
        try:
            if self.should_delete_job and not self._has_others(external_id):
                self.clean_up(job_id=external_id["job"])
            if self.should_delete_pool:
                self.clean_up(pool_id=self.batch_pool_id)
        except HttpResponseError as error:
            log.info("The job or the pool is not deleted: %s", error)

    def _has_others(self, external_id: Any) -> bool:
        running = [task.id for task in self.hook.connection.list_tasks(external_id["job"]) if task.state != "completed"]
        if running:
            log.warning("The job %s is not deleted, as it has other tasks: %s", external_id["job"], running)
        return bool(running)


def _runs(hook: Any, resource_group_name: str, factory_name: str, asked: Any) -> Any:
    """A page of runs."""
    return hook.get_conn().pipeline_runs.query_by_factory(resource_group_name, factory_name, asked)


@contextmanager
def _once(operations: Any, name: str) -> Iterator[None]:
    """Have an operation of a client send its request once, whatever the answer is."""
    operation = getattr(operations, name)

    @wraps(operation)  # it also asks its own name for what it has
    def once(*args: Any, **options: Any) -> Any:
        return operation(*args, **{**options, "retry_total": 0})

    setattr(operations, name, once)
    try:
        yield
    finally:
        delattr(operations, name)
