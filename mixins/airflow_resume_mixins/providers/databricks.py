"""Databricks' operators that resume. The service takes a token, and returns the same run for the same token.

The window between submit and save is closed by the `idempotency_token` of `runs/submit` and of `run-now`. A token that
the task sets itself is replaced: the run of a retry that follows a failed run needs another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from airflow.providers.databricks.exceptions import DatabricksApiError
from airflow.providers.databricks.operators import databricks as upstream
from airflow.providers.databricks.triggers.databricks import DatabricksExecutionTrigger
from airflow.sdk import BaseOperator

from airflow_resume_mixins.providers.provider_job import ProviderJob

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

__all__ = [
    "DatabricksNotebookOperator",
    "DatabricksRunNowOperator",
    "DatabricksSubmitRunOperator",
    "DatabricksTaskOperator",
]

_ALIVE = frozenset({"PENDING", "QUEUED", "RUNNING", "TERMINATING", "BLOCKED", "WAITING_FOR_RETRY"})


class _DatabricksRun(ProviderJob):
    """What the operators have in common: a job is a run."""

    submission_is_idempotent = True
    succeeded = frozenset({"TERMINATED:SUCCESS"})
    not_waiting = {"wait_for_termination": False}  # noqa: RUF012  annotated as a ClassVar in the base

    def job_status(self, external_id: Any) -> str:
        """`LIFE_CYCLE_STATE:RESULT_STATE`."""
        state = self._hook.get_run(external_id)["state"]
        return f"{state['life_cycle_state']}:{state.get('result_state') or ''}"

    def is_job_active(self, status: str) -> bool:
        """Whether the life cycle of the run has not ended."""
        return status.partition(":")[0] in _ALIVE

    def job_not_found(self, error: BaseException) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the run is not known. Databricks says so with 404, or with 400 and a message."""
        code = getattr(error, "http_status_code", None)
        return isinstance(error, DatabricksApiError) and (
            code in {404, 410} or (code == 400 and "does not exist" in str(error))  # noqa: PLR2004
        )

    def job_trigger(self, external_id: Any, context: Context) -> Any:  # noqa: ARG002
        """The operator's own trigger."""
        return DatabricksExecutionTrigger(
            run_id=external_id,
            databricks_conn_id=self.databricks_conn_id,
            polling_period_seconds=self.polling_period_seconds,
            retry_limit=self.databricks_retry_limit,
            retry_delay=self.databricks_retry_delay,
            retry_args=self.databricks_retry_args,
            caller=type(self).__name__,
        )

    def answer(self, external_id: Any, context: Context) -> None:
        """The operators return nothing."""

    def restore(self, external_id: Any, context: Context) -> None:
        """Push the id of the run and the address of its page, which the link in the UI needs."""
        if not self.do_xcom_push:
            return
        ti = context["ti"]  # pyright: ignore[reportTypedDictNotRequiredAccess]
        ti.xcom_push(key=upstream.XCOM_RUN_ID_KEY, value=external_id)
        ti.xcom_push(key=upstream.XCOM_RUN_PAGE_URL_KEY, value=self._hook.get_run_page_url(external_id))


class _SubmittedRun(_DatabricksRun):
    """Of an operator with Airflow's mixin."""

    job_id_attribute = "run_id"

    def put_token(self, token: str) -> None:
        """As `idempotency_token`."""
        self.idempotency_token = token

    def restore(self, external_id: Any, context: Context) -> None:
        """As above; the operator also pushes the id of the job if it defers."""
        super().restore(external_id, context)
        self._run_xcoms_pushed = True
        if self._defers and self.do_xcom_push:
            job_id = self._hook.get_job_id(external_id)
            context["ti"].xcom_push(key=upstream.XCOM_JOB_ID_KEY, value=job_id)  # pyright: ignore[reportTypedDictNotRequiredAccess]


class DatabricksSubmitRunOperator(_SubmittedRun, upstream.DatabricksSubmitRunOperator):
    """The provider's operator, which resumes. The window is closed by the `idempotency_token`."""


class DatabricksRunNowOperator(_SubmittedRun, upstream.DatabricksRunNowOperator):
    """The provider's operator, which resumes. The window is closed by the `idempotency_token`.

    With `cancel_previous_runs=True`, a retry after a crash in the window cancels the run that the crashed attempt has
    made, and fails; the next retry starts another one. With `repair_run=True` the operator waits in its own way, in the
    worker: this repairs the run, but follows no `poll.timeout`.
    """

    def execute(self, context: Context, *args: Any, **options: Any) -> Any:
        """As in the base; a run that may have to be repaired is not deferred."""
        with self._set(**({"deferrable": False} if self.repair_run else {})):
            return super().execute(context, *args, **options)

    def poll_until_complete(self, external_id: Any, context: Context) -> None:
        """Wait as the operator does if it is to repair the run; otherwise the engine waits."""
        if self.repair_run:
            self._upstream("poll_until_complete")(self, external_id, context)

    @property
    def _waits_by_itself(self) -> bool:
        return bool(getattr(self, "repair_run", False))


class _LaunchedRun(_DatabricksRun):
    """Of an operator that submits a run of one task, or waits for its task in the run of a workflow."""

    job_id_attribute = "databricks_run_id"

    def _get_run_json(self) -> dict[str, Any]:
        return {**self._upstream("_get_run_json")(self), "idempotency_token": self.submission_token}

    # In a workflow another task submits the run, and this one only waits.

    def execute(self, context: Context, *args: Any, **options: Any) -> Any:
        """As in the base; in a workflow as the operator does."""
        if self._databricks_workflow_task_group is not None:
            return self._upstream("execute")(self, context)
        return super().execute(context, *args, **options)

    def execute_complete(self, context: Context, event: Any = None) -> Any:
        """As the operator does; only the task of a workflow defers to it."""
        return self._upstream("execute_complete")(self, context, event)

    def defer(self, **options: Any) -> NoReturn:
        """As in the base; in a workflow as in Airflow."""
        if self._databricks_workflow_task_group is not None:
            BaseOperator.defer(self, **options)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        super().defer(**options)

    def post_execute(self, context: Any, result: Any = None) -> None:
        """As in the base; in a workflow as in Airflow."""
        if self._databricks_workflow_task_group is not None:
            BaseOperator.post_execute(self, context, result)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        else:
            super().post_execute(context, result)


class DatabricksNotebookOperator(_LaunchedRun, upstream.DatabricksNotebookOperator):
    """The provider's operator, which resumes. The window is closed by the `idempotency_token`.

    In a `DatabricksWorkflowTaskGroup` the task submits nothing, and is as the provider's.
    """


class DatabricksTaskOperator(_LaunchedRun, upstream.DatabricksTaskOperator):
    """The provider's operator, which resumes. The window is closed by the `idempotency_token`.

    In a `DatabricksWorkflowTaskGroup` the task submits nothing, and is as the provider's.
    """
