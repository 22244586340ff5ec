"""Operators of `apache-airflow-providers-standard` that resume."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators import trigger_dagrun as upstream
from airflow.sdk.exceptions import AirflowRuntimeError

from airflow_resume.compat import AirflowFailException, AirflowSkipException, DagRunTriggerException
from airflow_resume.jobs import JobStatus
from airflow_resume_mixins.providers.provider_job import ProviderJob

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context
    from airflow.triggers.base import BaseTrigger
    from pydantic import JsonValue

__all__ = ["TriggerDagRunOperator"]

NOT_FOUND, SERVER_ERRORS = 404, 500
CONF_KEY = "airflow_resume_token"
"""Of the conf of a run whose id is given. (Airflow 3.3.2 does not tell a task the note of a run.)"""


class TriggerDagRunOperator(ProviderJob, upstream.TriggerDagRunOperator):
    """Triggers one Dag run, and waits for that one in every attempt.

    The window between submit and save is closed by the run id, which a Dag has only once. Without `trigger_run_id` it
    is `manual__` and the token. With `trigger_run_id` the conf of the run gets the token under `airflow_resume_token`.
    So a run of that id that was there before is not taken for ours, and counts as for the provider's operator: the task
    fails or is skipped, or the run is cleared (`reset_dag_run`; after a crash in the window it is cleared twice).

    A task cannot end a Dag run. So a run goes on if the task is marked failed, and a cleared task waits for its end.
    """

    submission_is_idempotent = True
    not_waiting = {"wait_for_completion": False}  # noqa: RUF012
    _given_run_id: str | None = None

    @staticmethod
    def job_not_found(error: BaseException) -> bool:
        """Whether the run was deleted."""
        return isinstance(error, AirflowRuntimeError) and _http_status(error) == NOT_FOUND

    @staticmethod
    def transient_errors(error: BaseException) -> bool:
        """Whether the API server could not answer."""
        return isinstance(error, AirflowRuntimeError) and _http_status(error) >= SERVER_ERRORS

    def execute(self, context: Context, *args: Any, **options: Any) -> Any:
        """As in `ProviderJob`."""
        self._given_run_id = self.trigger_run_id
        self.wait_for_completion = bool(self.wait_for_completion)  # a template may render to None
        return super().execute(context, *args, **options)

    def put_token(self, token: str) -> None:
        """Into the run id; see `_conf` for a run whose id is given."""
        self.trigger_run_id = self._given_run_id or f"manual__{token}"

    def own_execute(self, context: Context) -> Any:
        """Trigger the run, as Airflow does for the exception that the operator's own `execute` raises."""
        try:
            return super().own_execute(context)
        except DagRunTriggerException as request:
            self._trigger(request)
            context["ti"].xcom_push(key=upstream.XCOM_RUN_ID, value=request.dag_run_id)  # pyright: ignore[reportTypedDictNotRequiredAccess]

    def _trigger(self, request: DagRunTriggerException) -> None:
        if _send_trigger(request, self._conf(request.conf)) or self._is_ours(request.dag_run_id):
            return
        if request.reset_dag_run and _send_trigger(request, request.conf, reset=True):
            return
        what = f"Dag {request.trigger_dag_id!r} has a run {request.dag_run_id!r} or one of that logical date"
        if request.skip_when_already_exists:
            raise AirflowSkipException(f"{what}, and skip_when_already_exists is set.")
        raise AirflowFailException(
            f"{what}, which this task has not triggered.\n"
            f"Leave trigger_run_id and logical_date out, or set reset_dag_run or skip_when_already_exists."
        )

    def _conf(self, conf: dict[str, Any] | None) -> dict[str, Any] | None:
        return conf if self._given_run_id is None else {**(conf or {}), CONF_KEY: self.submission_token}

    def _is_ours(self, run_id: str) -> bool:
        """Whether there is a run of this id, triggered with this token. A conflict may also be one of logical dates."""
        from airflow.sdk.execution_time.comms import GetDagRun

        try:
            run = _send(GetDagRun(dag_id=self.trigger_dag_id, run_id=run_id))
        except AirflowRuntimeError as error:
            if self.job_not_found(error):
                return False
            raise
        return self._given_run_id is None or (run.conf or {}).get(CONF_KEY) == self.submission_token

    def job_id_of(self, answer: Any) -> JsonValue:  # noqa: ARG002
        """The run id."""
        return self.trigger_run_id

    def job_status(self, external_id: JsonValue) -> Any:
        """The state of the run."""
        from airflow.sdk.execution_time.comms import GetDagRunState

        self.trigger_run_id = str(external_id)  # where listeners look for it
        return _send(GetDagRunState(dag_id=self.trigger_dag_id, run_id=self.trigger_run_id)).state

    def classify_job_status(self, status: Any) -> JobStatus:
        """By `failed_states` and `allowed_states`, in this order."""
        if status in self.failed_states:
            return JobStatus.FAILED
        return JobStatus.SUCCEEDED if status in self.allowed_states else JobStatus.ACTIVE

    def restore(self, external_id: JsonValue, context: Context) -> None:
        """The XCom of the run id."""
        context["ti"].xcom_push(key=upstream.XCOM_RUN_ID, value=external_id)  # pyright: ignore[reportTypedDictNotRequiredAccess]

    def answer(self, external_id: JsonValue, context: Context) -> None:
        """Nothing, as the provider's operator."""

    def job_trigger(self, external_id: JsonValue, context: Context) -> BaseTrigger:  # noqa: ARG002
        """The provider's own."""
        from airflow.providers.standard.triggers.external_task import DagStateTrigger

        return DagStateTrigger(
            dag_id=self.trigger_dag_id,
            states=[*self.allowed_states, *self.failed_states],
            run_ids=[str(external_id)],
            poll_interval=self.poke_interval,
        )


def _send(message: Any) -> Any:
    from airflow.sdk.execution_time import task_runner

    return task_runner.SUPERVISOR_COMMS.send(message)


def _send_trigger(request: DagRunTriggerException, conf: dict[str, Any] | None, *, reset: bool = False) -> bool:
    """Ask for the run; False if there is one already."""
    from airflow.sdk.execution_time.comms import ErrorResponse, TriggerDagRun

    answer = _send(
        TriggerDagRun(
            dag_id=request.trigger_dag_id,
            run_id=request.dag_run_id,
            logical_date=request.logical_date,
            run_after=request.run_after,
            conf=conf,
            reset_dag_run=reset,
            note=request.note,
        )
    )
    return not isinstance(answer, ErrorResponse)


def _http_status(error: AirflowRuntimeError) -> int:
    """Of the API server's answer; that of an unavailable one if there was no answer."""
    detail = error.error.detail or {}
    return int(detail.get("status_code") or SERVER_ERRORS)
