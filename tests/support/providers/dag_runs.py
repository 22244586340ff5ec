"""The part of Airflow's API server that triggers Dag runs and tells their states, behind `SUPERVISOR_COMMS`.

It cannot show what a real Airflow does with the runs: tests/airflow/test_trigger_dag_run.py does.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk.exceptions import AirflowException, AirflowRuntimeError, DagRunTriggerException, ErrorType
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import (
    DagRunResult,
    DagRunStateResult,
    ErrorResponse,
    GetDagRun,
    GetDagRunState,
    GetDRCount,
    OKResponse,
    TriggerDagRun,
)

from airflow_resume.testing import ServiceJobs
from airflow_resume.testing.fakes.job import UnknownJobError
from airflow_resume.testing.operators import OrderedFailureError

LONG_AGO = datetime(2026, 1, 1, tzinfo=timezone.utc)


class DagRuns:
    """The runs of one Dag. An instance is what tasks have as `SUPERVISOR_COMMS`."""

    def __init__(self) -> None:
        self.jobs = ServiceJobs(running="running", succeeded="success", failed="failed", cancelled="failed")
        self.cleared: list[str] = []

    def send(self, msg: Any) -> Any:
        self.jobs.begin()
        try:
            return self._answer(msg)
        except UnknownJobError as error:
            raise _failure(404) from error
        except OrderedFailureError as error:
            raise _failure(error.status) from error

    def _answer(self, msg: Any) -> Any:
        match msg:
            case TriggerDagRun():
                return self._trigger(msg)
            case GetDagRunState():
                return DagRunStateResult(state=self.jobs.ask(msg.run_id))
            case GetDagRun():
                return _details(self.jobs.get(msg.run_id))
            case GetDRCount():
                wanted = [self.jobs.ask(run_id) for run_id in msg.run_ids or ()]
                return type("DRCount", (), {"count": sum(state in (msg.states or ()) for state in wanted)})()
        raise AssertionError(msg)

    def _trigger(self, msg: TriggerDagRun) -> Any:
        for run in self.jobs.known():
            same_date = msg.logical_date is not None and run.request.logical_date == msg.logical_date
            if run.id == msg.run_id or same_date:
                if not msg.reset_dag_run:
                    return ErrorResponse(error=ErrorType.DAGRUN_ALREADY_EXISTS)
                self.cleared.append(self.jobs.get(msg.run_id).id)
                return OKResponse(ok=True)
        self.jobs.make(msg.run_id, request=msg)
        return OKResponse(ok=True)


def _details(run: Any) -> DagRunResult:
    return DagRunResult.model_construct(  # type: ignore[call-arg]
        dag_id=run.request.dag_id, run_id=run.id, state=run.state, conf=run.request.conf, run_after=LONG_AGO
    )


def _failure(status: int) -> AirflowRuntimeError:
    detail = {"status_code": status, "message": "ordered"}
    return AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR, detail=detail))


class AsAirflowRunsIt(TriggerDagRunOperator):
    """The provider's operator, whose exception is handled by Airflow's own function, as in a task's process."""

    def execute(self, context: Any) -> Any:
        try:
            super().execute(context)
        except DagRunTriggerException as request:
            _message, state = task_runner._handle_trigger_dag_run(request, context, context["ti"], self.log)
            if str(state) != "success":
                raise AirflowException(f"the task is {state}") from None


def ends_of_tasks(monkeypatch: Any) -> None:
    """What Airflow does after it has handled the exception, without its task instance."""

    def defer(error: Any, *_args: Any) -> Any:
        raise error

    def fail(_ti: Any, error: Exception, *_args: Any) -> Any:
        raise error

    monkeypatch.setattr(task_runner, "_handle_current_task_success", lambda *_args: (None, "success"))
    monkeypatch.setattr(task_runner, "_handle_current_task_failed", fail)
    monkeypatch.setattr(task_runner, "_defer_task", defer)
