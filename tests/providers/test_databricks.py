"""Databricks' operators, as they are and as ours, in all scenarios on a loopback service."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

pytest.importorskip("airflow.providers.databricks", reason="the providers have an environment of their own")

from airflow.providers.databricks.hooks.databricks import DatabricksHook
from airflow.providers.databricks.operators import databricks as upstream
from airflow.sdk import DAG

from airflow_resume.testing import task_context
from airflow_resume_mixins.providers import databricks as ours
from tests.support.providers.databricks_service import FAILED, RUNNING, DatabricksService
from tests.support.providers.operator_trials import OperatorTrial, cells, connections, explore

FAST = {"polling_period_seconds": 0.002, "databricks_retry_delay": 0.001}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "DatabricksSubmitRunOperator": {"json": {"notebook_task": {"notebook_path": "/{{ run_id }}"}}},
    "DatabricksRunNowOperator": {"job_id": 7},
    "DatabricksNotebookOperator": {
        "notebook_path": "/x",
        "source": "WORKSPACE",
        "existing_cluster_id": "c",
        "notebook_params": {"a": "1"},
    },
    "DatabricksTaskOperator": {"task_config": {"notebook_task": {}}, "existing_cluster_id": "c"},
}


def without_job_id(value: Any) -> Any:
    """Only a deferred run of the provider pushes it."""
    returned, xcoms = value
    return [returned, {key: each for key, each in xcoms.items() if key != "job_id"}]


TRIALS = {
    name: OperatorTrial(
        module="databricks",
        own=getattr(upstream, name),
        ours=getattr(ours, name),
        arguments={**FAST, **arguments},
        options={
            "not_waiting": {"wait_for_termination": False},
            "deferrable": {"deferrable": True},
            "normalise": without_job_id,
            "grace": 0.2,
        },
    )
    for name, arguments in ARGUMENTS.items()
}
SUBMITS = {"DatabricksRunNowOperator": "run_now"}


@pytest.fixture(scope="module")
def service() -> Iterator[DatabricksService]:
    with DatabricksService() as running:
        connection = {"conn_type": "databricks", "host": "127.0.0.1", "port": running.port, "schema": "http"}
        with connections(databricks_default={**connection, "password": "t", "extra": {"host": "127.0.0.1"}}):
            yield running


@pytest.mark.parametrize("name", ARGUMENTS)
def test_ours_has_one_job_and_the_providers_result_in_every_scenario(service: DatabricksService, name: str) -> None:
    report = TRIALS[name].play(service.jobs)
    assert not report.problems, f"\n{report}"


@pytest.mark.parametrize("name", ARGUMENTS)
def test_the_providers_own_makes_two_jobs_after_a_crash_in_the_window(service: DatabricksService, name: str) -> None:
    report = TRIALS[name].play_own(service.jobs)
    assert cells(report)["crash in the window"] == "2 / 2 / 0, same result"


@pytest.mark.parametrize("name", ARGUMENTS)
def test_it_may_die_at_any_point(service: DatabricksService, name: str) -> None:
    explore(TRIALS[name].make, service, DatabricksHook, SUBMITS.get(name, "submit_run"))


def attempt_of(name: str, **options: Any) -> Any:
    return task_context(partial(TRIALS[name].make, **options))


def run(attempt: Any) -> Any:
    with attempt:
        return attempt.ti.render_templates().execute(attempt.context)


def test_a_token_of_the_task_itself_is_replaced(service: DatabricksService) -> None:
    service.jobs.reset()
    run(attempt_of("DatabricksRunNowOperator", idempotency_token="mine"))  # noqa: S106  no secret
    assert len(service.jobs.seen()[0].token or "") == 32


def test_a_run_that_is_to_be_repaired_is_repaired(service: DatabricksService) -> None:
    service.jobs.reset()
    service.jobs.follow([RUNNING, RUNNING, FAILED])
    attempt = attempt_of("DatabricksRunNowOperator", repair_run=True, deferrable=True)
    run(attempt)  # the provider's own fails, although it has repaired the run
    assert service.repaired == [job.id for job in service.jobs.seen()]
    retry = attempt.retry()
    run(retry)
    assert retry.ti.xcoms["run_id"] == service.repaired[-1]
    assert len(service.jobs.seen()) == 1


def test_a_task_of_a_workflow_submits_nothing_and_is_not_warned_of(
    service: DatabricksService, caplog: pytest.LogCaptureFixture
) -> None:
    service.jobs.reset()
    with DAG("dag", schedule=None), upstream.DatabricksWorkflowTaskGroup(group_id="g", databricks_conn_id="d"):
        task = TRIALS["DatabricksNotebookOperator"].make(databricks_task_key="one")
    task.workflow_run_metadata = {"conn_id": "databricks_default", "job_id": 7, "run_id": 1}
    service.jobs.follow([RUNNING, "TERMINATED:SUCCESS"])
    service.jobs.make(1, request={"body": {"run_name": "one"}})
    attempt = task_context(lambda: task)
    with attempt:
        task.execute(attempt.context)
        task.post_execute(attempt.context)
    assert [job.id for job in service.jobs.seen()] == [1]
    assert "ResumableJobMixin" not in caplog.text
