"""The Databricks of `databricks_service`, and its real operators in every scenario of `check_operator`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
import requests

pytest.importorskip("airflow.providers.databricks", reason="providers have an environment of their own: make providers")

from airflow.providers.databricks.operators.databricks import DatabricksRunNowOperator, DatabricksSubmitRunOperator

from airflow_resume import PollPolicy, ResumePolicy
from airflow_resume.testing import check_operator
from airflow_resume_mixins import ResumableJobMixin
from tests.support.providers.databricks_service import FIRST_RUN, DatabricksService


@pytest.fixture
def service() -> Iterator[DatabricksService]:
    with DatabricksService() as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_DATABRICKS_DEFAULT", running.connection)
        yield running


def ask(service: DatabricksService, method: str, path: str, **options: Any) -> tuple[int, Any]:
    answer = requests.request(method, f"{service.url}/api/2.2/jobs/{path}", timeout=10, **options)
    return answer.status_code, answer.json()


@pytest.mark.parametrize("path", ["runs/submit", "run-now"])
def test_a_token_launches_one_run(service: DatabricksService, path: str) -> None:
    body = {"job_id": 7, "idempotency_token": "t" * 64}
    assert ask(service, "POST", path, json=body) == (200, {"run_id": FIRST_RUN})
    assert ask(service, "POST", path, json=body) == (200, {"run_id": FIRST_RUN})
    assert ask(service, "POST", path, json={"job_id": 7}) == (200, {"run_id": FIRST_RUN + 1})
    status, answer = ask(service, "POST", path, json={**body, "idempotency_token": "t" * 65})
    assert (status, answer["error_code"]) == (400, "INVALID_PARAMETER_VALUE")


def test_the_token_of_a_deleted_run_is_refused(service: DatabricksService) -> None:
    body = {"idempotency_token": "t"}
    ask(service, "POST", "runs/submit", json=body)
    ask(service, "POST", "runs/delete", json={"run_id": FIRST_RUN})
    status, answer = ask(service, "POST", "runs/submit", json=body)
    assert (status, answer["message"]) == (400, "The run with idempotency_token t was deleted.")


def test_a_run_goes_through_its_script_and_is_cancelled(service: DatabricksService) -> None:
    ask(service, "POST", "runs/submit", json={"run_name": "n"})
    service.jobs.follow(["PENDING:", "RUNNING:"])

    def state() -> Any:
        return ask(service, "GET", "runs/get", params={"run_id": FIRST_RUN})[1]["state"]

    assert [state()["life_cycle_state"] for _ in range(3)] == ["PENDING", "RUNNING", "RUNNING"]
    ask(service, "POST", "runs/cancel", json={"run_id": FIRST_RUN})
    assert (state()["life_cycle_state"], state()["result_state"]) == ("TERMINATED", "CANCELED")


def test_runs_are_listed(service: DatabricksService) -> None:
    for job_id in (7, 7, 8):
        ask(service, "POST", "run-now", json={"job_id": job_id})
    ask(service, "POST", "runs/cancel", json={"run_id": FIRST_RUN})

    def runs(**params: Any) -> list[int]:
        return [run["run_id"] - FIRST_RUN for run in ask(service, "GET", "runs/list", params=params)[1]["runs"]]

    assert (runs(), runs(job_id=7), runs(job_id=7, active_only="true")) == ([2, 1, 0], [1, 0], [1])


def test_a_run_that_is_not_known_and_a_failure(service: DatabricksService) -> None:
    ask(service, "POST", "runs/submit", json={})
    service.jobs.fail_next(503)
    assert ask(service, "GET", "runs/get", params={"run_id": FIRST_RUN})[0] == 503
    service.jobs.forget(FIRST_RUN)
    status, answer = ask(service, "GET", "runs/get", params={"run_id": FIRST_RUN})
    assert (status, answer["message"]) == (400, f"Run {FIRST_RUN} does not exist.")


# --- the operators ----------------------------------------------------------------------------------------------

MOMENT = timedelta(milliseconds=2)
AT_ONCE = ResumePolicy(poll=PollPolicy(interval=MOMENT, max_interval=MOMENT), unknown_timeout=timedelta(seconds=5))


class TokenSubmitRun(ResumableJobMixin, DatabricksSubmitRunOperator):  # type: ignore[misc]
    submission_is_idempotent = True

    def submit_job(self, context: Any) -> Any:
        self.json["idempotency_token"] = self.submission_token
        return super().submit_job(context)  # type: ignore[safe-super]

    def cancel_job(self, external_id: Any, context: Any) -> None:
        self._hook.cancel_run(external_id)

    def on_kill(self) -> None:
        """`cancel_job` does it."""


def submit(kind: Any, **options: Any) -> Any:
    notebook = {"new_cluster": {"num_workers": 1}, "notebook_task": {"notebook_path": "/n"}}
    quick = {"polling_period_seconds": 0.002, "databricks_retry_delay": 0.01}
    return kind(task_id="task", retries=3, json=notebook, **quick, **options)


def test_the_providers_operator_makes_a_second_run_in_the_window(service: DatabricksService) -> None:
    report = check_operator(
        partial(submit, DatabricksSubmitRunOperator),
        service.jobs,
        scenarios=["plain", "crash while waiting", "crash in the window", "mapped"],
    )
    assert {name: str(played) for name, played in report.items()} == {
        "plain": "1 / 1 / 0, same result",
        "crash while waiting": "1 / 1 / 0, same result",
        "crash in the window": "2 / 2 / 0, same result",
        "mapped": "1 / 1 / 0, same result",
    }


def test_with_a_token_it_makes_one_and_what_is_left_is_seen(service: DatabricksService) -> None:
    report = check_operator(
        partial(submit, TokenSubmitRun, resume_policy=AT_ONCE),
        service.jobs,
        same_as=partial(submit, DatabricksSubmitRunOperator),
        not_waiting={"wait_for_termination": False},
        seconds=3,
    )
    assert {name: str(played) for name, played in report.problems.items()} == {
        "forgotten, job done": "1 / 1 / 0, other result",  # without the XComs, which are made of the run
        "forgotten, job running": "1 / 1 / 0, DatabricksApiError",  # HTTP 400 is not taken for "gone"
        "not waiting": "1 / 1 / 0, hangs",
        "unknown status": "1 / 1 / 0, AirflowException",
    }, f"\n{report}"


def test_run_now_makes_a_second_run_in_the_window(service: DatabricksService) -> None:
    def make() -> Any:
        return DatabricksRunNowOperator(task_id="task", job_id=7, polling_period_seconds=0.002)  # type: ignore[arg-type]

    report = check_operator(make, service.jobs, scenarios=["crash in the window"])
    assert report["crash in the window"].jobs == 2
