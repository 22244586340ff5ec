"""Dataproc's operators, as they are and as ours, in all scenarios. The service, which speaks gRPC, is in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("airflow.providers.google", reason="the providers have an environment of their own")

from airflow.providers.google.cloud.hooks import dataproc as hooks
from airflow.providers.google.cloud.operators import dataproc as upstream
from airflow.sdk.exceptions import TaskDeferred
from google.cloud.dataproc_v1 import Batch

from airflow_resume.errors import JobFailedError, JobInputsChangedError
from airflow_resume.testing import check_operator, task_context
from airflow_resume_mixins.providers import google as ours
from tests.support.providers.dataproc_jobs import DataprocBatches, DataprocJobs, DataprocWorkflows
from tests.support.providers.operator_trials import cells, connections, explore
from tests.support.providers.scenario_table import OURS, OWN, documented
from tests.support.providers.trial import AT_ONCE, is_wrapped

PYSPARK = {"main_python_file_uri": "gs://b/{{ run_id }}.py"}
JOB = {"placement": {"cluster_name": "c"}, "pyspark_job": PYSPARK}
SHARED: dict[str, Any] = {"region": "eu", "project_id": "p", "polling_interval_seconds": 1}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "DataprocSubmitJobOperator": {"job": JOB, **SHARED},
    "DataprocCreateBatchOperator": {"batch": {"pyspark_batch": PYSPARK}, **SHARED},
    "DataprocInstantiateWorkflowTemplateOperator": {
        "template_id": "t",
        "parameters": {"DAY": "{{ run_id }}", "ZONE": "a"},
        **SHARED,
    },
    "DataprocInstantiateInlineWorkflowTemplateOperator": {
        "template": {"id": "t", "jobs": [{"step_id": "one", "pyspark_job": PYSPARK}]},
        **SHARED,
    },
}
BATCH = "DataprocCreateBatchOperator"
WORKFLOW, INLINE = [name for name in ARGUMENTS if "Workflow" in name]
SERVICES: dict[str, Any] = {
    "DataprocSubmitJobOperator": DataprocJobs,
    BATCH: DataprocBatches,
    WORKFLOW: DataprocWorkflows,
    INLINE: DataprocWorkflows,
}
SUBMITS = {
    "DataprocSubmitJobOperator": "submit_job",
    BATCH: "create_batch",
    WORKFLOW: "instantiate_workflow_template",
    INLINE: "instantiate_inline_workflow_template",
}
PLAYED: dict[str, dict[str, Any]] = {  # the triggers have clients of their own
    "DataprocSubmitJobOperator": {
        "not_waiting": {"asynchronous": True},
        "event": {"job_state": "DONE", "job_id": "?", "job": "?"},
        "expand": "job",
    },
    BATCH: {
        "not_waiting": {"asynchronous": True},
        "event": {"batch_state": "SUCCEEDED", "batch_id": "?", "batch_state_message": ""},
        "expand": "batch",
    },
    WORKFLOW: {"event": {"status": "success", "operation_name": "?", "message": ""}, "expand": "template_id"},
    INLINE: {"event": {"status": "success", "operation_name": "?", "message": ""}, "expand": "template"},
}
each_operator = pytest.mark.parametrize("name", ARGUMENTS)


@contextmanager
def serving(name: str) -> Iterator[Any]:
    service = SERVICES[name]()
    with connections(google_cloud_default={"conn_type": "google_cloud_platform"}) as patch:
        for client in ("get_job_client", "get_batch_client", "get_template_client"):
            patch.setattr(hooks.DataprocHook, client, lambda *_, **__: service)
        real = hooks.time
        patch.setattr(hooks, "time", SimpleNamespace(sleep=lambda _: real.sleep(0.002), monotonic=real.monotonic))
        yield service


@pytest.fixture
def batches() -> Iterator[DataprocBatches]:
    with serving(BATCH) as service:
        yield service


@pytest.fixture
def workflows() -> Iterator[DataprocWorkflows]:
    with serving(WORKFLOW) as service:
        yield service


def made(module: Any, name: str = "DataprocSubmitJobOperator", **options: Any) -> Any:
    kind = getattr(module, name)
    policy = {"resume_policy": AT_ONCE} if is_wrapped(kind) else {}
    return kind(**{"task_id": "task", "retries": 3, **ARGUMENTS[name], **policy, **options})


def without_our_label(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_our_label(one) for key, one in value.items() if key != "airflow-resume-inputs"}
    return [without_our_label(one) for one in value] if isinstance(value, list) else value


def played(service: Any, module: Any, name: str, scenarios: list[str] | None = None, **options: Any) -> Any:
    return check_operator(
        partial(made, module, name, **options),
        service.jobs,
        same_as=partial(made, upstream, name),
        deferrable={"deferrable": True},
        grace=0.5,
        normalise=without_our_label,
        scenarios=scenarios,
        **PLAYED[name],
    )


def died_in_the_window(name: str, **options: Any) -> Any:
    """The retry of an attempt that died right after its submit."""
    attempt = task_context(partial(made, ours, name, **options), run_id="run-1")

    def die(*_: Any) -> Any:
        raise KeyboardInterrupt

    with attempt, pytest.raises(KeyboardInterrupt):
        operator = attempt.ti.render_templates()
        operator.job_notes = die
        operator.execute(attempt.context)
    return attempt.retry()


# --- all scenarios ------------------------------------------------------------------------------------------------


@each_operator
def test_ours_has_one_job_and_the_providers_result_in_every_scenario(name: str) -> None:
    with serving(name) as service:
        report = documented(played(service, ours, name), "google", OURS, name)
    assert not report.problems, f"\n{report}"


@each_operator
def test_the_providers_own_makes_two_jobs_after_a_crash_in_the_window(name: str) -> None:
    with serving(name) as service:
        report = documented(played(service, upstream, name), "google", OWN, name)
    assert cells(report)["crash in the window"] == "2 / 2 / 0, same result"


@each_operator
def test_it_may_die_at_any_point(name: str) -> None:
    with serving(name) as service:
        report = explore(partial(made, ours, name), service, hooks.DataprocHook, SUBMITS[name])
    assert not report.findings


# --- batches ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"batch_id": "daily"}, {"batch_id_prefix": "daily"}])
def test_the_id_of_a_batch_begins_as_the_user_says_in_every_scenario(
    batches: DataprocBatches, options: dict[str, str]
) -> None:
    report = played(batches, ours, BATCH, None, **options)
    assert not report.problems, f"\n{report}"
    assert all(job.id.startswith("daily-") and job.id.endswith(job.token) for job in batches.jobs.seen())


def test_the_providers_own_cannot_begin_anew_after_a_failed_batch_with_its_id(batches: DataprocBatches) -> None:
    report = played(batches, upstream, BATCH, ["job fails"], batch_id="daily")
    assert report["job fails"].jobs == 1
    assert report["job fails"].result == "AirflowException"


def test_a_batch_that_is_a_message_is_labelled_and_not_changed(batches: DataprocBatches) -> None:
    given = Batch({"pyspark_batch": {"main_python_file_uri": "gs://b/a.py"}, "labels": {"team": "a"}})
    attempt = task_context(partial(made, ours, BATCH, batch=given))
    with attempt:
        attempt.ti.task.execute(attempt.context)
    labels = batches.jobs.seen()[0].request.labels
    assert labels["team"] == "a"
    assert len(labels["airflow-resume-inputs"]) == 16
    assert "airflow-resume-inputs" not in given.labels


def test_both_beginnings_of_an_id_are_refused_as_by_the_provider(batches: DataprocBatches) -> None:
    attempt = task_context(partial(made, ours, BATCH, batch_id="a", batch_id_prefix="b"))
    with attempt, pytest.raises(ValueError, match="mutually exclusive"):
        attempt.ti.task.execute(attempt.context)
    assert batches.jobs.seen() == []


@pytest.mark.parametrize(
    ("options", "begin"),
    [
        ({}, "airflow-task-"),
        ({"batch_id": "Of_{{ run_id }}"}, "of-run-1-"),
        ({"batch_id": "n" * 63}, "n" * 30 + "-"),
    ],
)
def test_the_id_of_a_batch_is_one_that_dataproc_accepts(
    batches: DataprocBatches, options: dict[str, str], begin: str
) -> None:
    attempt = task_context(partial(made, ours, BATCH, **options), run_id="run-1")
    with attempt:
        attempt.ti.render_templates().execute(attempt.context)
    (batch,) = batches.jobs.seen()
    assert batch.id == f"{begin}{batch.token}"
    assert len(batch.id) <= 63


def test_why_a_batch_has_failed_is_its_status(batches: DataprocBatches) -> None:
    batches.jobs.follow(["FAILED"])
    operator = made(ours, BATCH)
    attempt = task_context(lambda: operator)
    with attempt, pytest.raises(JobFailedError):
        operator.execute(attempt.context)
    assert operator.job_status(operator.external_id).partition(":")[0] == "FAILED"


# --- an attempt that died in the window, and other arguments --------------------------------------------------------

CHANGED = [
    (BATCH, {"batch": {"pyspark_batch": {"main_python_file_uri": "gs://b/other.py"}}}),
    (WORKFLOW, {"template_id": "other"}),
    (WORKFLOW, {"parameters": {"DAY": "other"}}),
]


@pytest.mark.parametrize("how", [{}, {"deferrable": True}])
@pytest.mark.parametrize(("name", "changed"), CHANGED)
def test_a_token_with_other_arguments_is_an_error_that_says_so(
    name: str, changed: dict[str, Any], how: dict[str, Any]
) -> None:
    with serving(name) as service:
        service.jobs.follow(["RUNNING"])
        retry = died_in_the_window(name)
        operator = made(ours, name, **how, **changed)
        with retry, pytest.raises(JobInputsChangedError, match="with other arguments") as error:
            operator.execute(retry.context)
        assert error.value.token == service.jobs.seen()[0].token
        assert len(service.jobs.seen()) == 1


@pytest.mark.parametrize(("name", "changed"), CHANGED)
def test_a_clear_after_that_starts_it_with_the_new_arguments(name: str, changed: dict[str, Any]) -> None:
    with serving(name) as service:
        service.jobs.follow(["RUNNING"])
        retry = died_in_the_window(name)
        with retry, pytest.raises(JobInputsChangedError):
            made(ours, name, **changed).execute(retry.context)
        cleared = retry.clear()
        service.jobs.follow(["RUNNING", service.jobs.succeeded])
        with cleared:
            made(ours, name, **changed).execute(cleared.context)
        assert len(service.jobs.seen()) == 2
        assert [job.is_alive for job in service.jobs.seen()] == [False, False]


@pytest.mark.parametrize("name", [BATCH, WORKFLOW, INLINE])
def test_a_retry_with_the_same_arguments_continues_with_what_was_started(name: str) -> None:
    with serving(name) as service:
        retry = died_in_the_window(name)
        with retry:
            retry.ti.render_templates().execute(retry.context)
        assert len(service.jobs.seen()) == 1


def test_a_batch_is_found_by_its_id_if_the_request_is_forgotten(batches: DataprocBatches) -> None:
    retry = died_in_the_window(BATCH)
    batches.jobs.seen()[0].token = None
    with retry:
        retry.ti.render_templates().execute(retry.context)
    assert len(batches.jobs.seen()) == 1


# --- workflows ----------------------------------------------------------------------------------------------------


def test_a_workflow_that_has_ended_before_the_retry_is_started_again_and_never_two_at_once(
    workflows: DataprocWorkflows,
) -> None:
    retry = died_in_the_window(WORKFLOW)
    workflows.jobs.seen()[0].states = ["DONE"]
    with retry:
        retry.ti.render_templates().execute(retry.context)
    assert [job.state for job in workflows.jobs.seen()] == ["DONE", "DONE"]


@pytest.mark.parametrize("name", [WORKFLOW, INLINE])
def test_the_operators_own_on_kill_finds_the_workflow(name: str) -> None:
    with serving(name) as service:
        service.jobs.follow(["RUNNING"])
        operator = made(ours, name, deferrable=True)
        attempt = task_context(lambda: operator)
        with attempt, pytest.raises(TaskDeferred) as deferral:
            operator.execute(attempt.context)
        assert operator.operation_name == f"projects/p/regions/eu/operations/{service.jobs.seen()[0].id}"
        assert deferral.value.trigger.serialize()[1]["name"] == operator.operation_name  # type: ignore[union-attr]
        getattr(upstream, name).on_kill(operator)
        assert service.jobs.seen()[0].was_cancelled


@pytest.mark.parametrize("name", [WORKFLOW, INLINE])
def test_a_workflow_is_left_alone_with_cancel_on_kill_false(name: str) -> None:
    with serving(name) as service:
        report = played(service, ours, name, ["marked failed", "cleared, job alive"], cancel_on_kill=False)
    assert cells(report) == {
        "marked failed": "1 / 1 / 0, a job lives on",
        "cleared, job alive": "2 / 1 / 0, same result",
    }
