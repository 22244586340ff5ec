"""Dataflow's operators, as they are and as ours, in all scenarios on a loopback service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timezone
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("airflow.providers.google", reason="the providers have an environment of their own")
pytest.importorskip("airflow.providers.apache.beam", reason="Google's hook of Dataflow imports the provider of Beam")

import httplib2
from airflow.providers.google.cloud.hooks import dataflow as hooks
from airflow.providers.google.cloud.operators import dataflow as upstream
from airflow.sdk.exceptions import TaskDeferred
from googleapiclient.discovery import build
from googleapiclient.errors import HttpError

from airflow_resume.errors import JobFailedError, StrayJobError
from airflow_resume.testing import check_operator, task_context
from airflow_resume_mixins.providers import google as ours
from airflow_resume_mixins.providers.google.dataflow import DataflowJobs as Client
from tests.support.providers.checked import QUICK
from tests.support.providers.dataflow_jobs import DataflowJobs
from tests.support.providers.operator_trials import cells, connections, explore
from tests.support.providers.scenario_table import OURS, OWN, documented
from tests.support.providers.trial import AT_ONCE, is_wrapped

FLEX, CLASSIC = "DataflowStartFlexTemplateOperator", "DataflowTemplatedJobStartOperator"
SHARED: dict[str, Any] = {"project_id": "p", "location": "eu", "poll_sleep": 0, "cancel_timeout": 5}
BODY = {
    "launchParameter": {"jobName": "daily", "containerSpecGcsPath": "gs://b/t", "parameters": {"a": "{{ run_id }}"}}
}
ARGUMENTS: dict[str, dict[str, Any]] = {
    FLEX: {"body": BODY, **SHARED},
    CLASSIC: {"template": "gs://b/t", "job_name": "daily", "parameters": {"a": "{{ run_id }}"}, **SHARED},
}
LAUNCHES = {FLEX: "launch_job_with_flex_template", CLASSIC: "launch_job_with_template"}
RUNNING, STREAMING = "JOB_STATE_RUNNING", "JOB_TYPE_STREAMING"
each_operator = pytest.mark.parametrize("name", [FLEX, CLASSIC])


class ClosingHttp(httplib2.Http):
    """It leaves no connection open."""

    def request(self, *args: Any, **options: Any) -> Any:
        try:
            return super().request(*args, **options)
        finally:
            self.close()


@pytest.fixture(scope="module")
def running() -> Iterator[DataflowJobs]:
    with (
        DataflowJobs() as service,
        connections(google_cloud_default={"conn_type": "google_cloud_platform", "extra": {"num_retries": 2}}) as patch,
    ):
        where = {"api_endpoint": service.url}

        def client(_: Any) -> Any:
            return build("dataflow", "v1b3", http=ClosingHttp(), client_options=where, cache_discovery=False)

        patch.setattr(hooks.DataflowHook, "get_conn", client)
        patch.setattr("googleapiclient.http.time", SimpleNamespace(sleep=lambda _: None), raising=False)
        yield service


@pytest.fixture
def service(running: DataflowJobs) -> DataflowJobs:
    running.restart()
    return running


def made(module: Any, name: str, **options: Any) -> Any:
    kind = getattr(module, name)
    policy = {"resume_policy": AT_ONCE} if is_wrapped(kind) else {}
    return kind(**{"task_id": "task", "retries": 3, **ARGUMENTS[name], **policy, **options})


def without_names(value: Any) -> Any:
    """The names of jobs differ, and so does the time of a job that is not the first one."""
    if isinstance(value, dict):
        return {key: without_names(one) for key, one in value.items() if key not in {"name", "createTime"}}
    return [without_names(one) for one in value] if isinstance(value, list) else value


def played(service: DataflowJobs, module: Any, name: str, scenarios: list[str] | None = None, **options: Any) -> Any:
    return check_operator(
        partial(made, module, name, **options),
        service.jobs,
        same_as=partial(made, upstream, name),
        not_waiting={"wait_until_finished": False},
        deferrable={"deferrable": True},
        expand="body" if name == FLEX else "template",
        normalise=without_names,
        scenarios=scenarios,
        grace=4,  # a cancellation is two requests; Airflow gives it about five seconds
        seconds=30,
    )


def run(attempt: Any) -> Any:
    with attempt:
        return attempt.ti.render_templates().execute(attempt.context)


def first(name: str, **options: Any) -> Any:
    return task_context(partial(made, ours, name, **options), run_id="run-1")


def died_in_the_window(name: str, **options: Any) -> Any:
    """The retry of an attempt that died right after its submit."""
    attempt = first(name, **options)

    def die(*_: Any) -> Any:
        raise KeyboardInterrupt

    with attempt, pytest.raises(KeyboardInterrupt):
        operator = attempt.ti.render_templates()
        operator.job_notes = die
        operator.execute(attempt.context)
    return attempt.retry()


# --- all scenarios ------------------------------------------------------------------------------------------------


@each_operator
def test_ours_has_one_job_and_the_providers_result_in_every_scenario(service: DataflowJobs, name: str) -> None:
    report = documented(played(service, ours, name), "google", OURS, name)
    assert not report.problems, f"\n{report}"


@each_operator
def test_the_providers_own_makes_two_jobs_after_a_crash_in_the_window(service: DataflowJobs, name: str) -> None:
    report = documented(played(service, upstream, name), "google", OWN, name)
    assert cells(report)["crash in the window"] == "2 / 2 / 0, same result"


@each_operator
def test_it_may_die_at_any_point(service: DataflowJobs, name: str) -> None:
    report = explore(partial(made, ours, name), service, hooks.DataflowHook, LAUNCHES[name], max_pairs=15)
    assert not report.findings


# --- names and labels ---------------------------------------------------------------------------------------------


@each_operator
def test_the_name_ends_with_the_token_and_no_label_is_added(service: DataflowJobs, name: str) -> None:
    attempt = first(name)
    run(attempt)
    (job,) = service.jobs.seen()
    assert job.request["jobName"] == f"daily-{attempt.ti.task.submission_token}"
    assert not job.request.get("environment")


@each_operator
def test_a_name_that_stays_is_looked_up_by_a_label(service: DataflowJobs, name: str) -> None:
    retry = died_in_the_window(name, append_job_name=False)
    run(retry)
    (job,) = service.jobs.seen()
    assert job.request["jobName"] == "daily"
    assert job.request["environment"]["additionalUserLabels"] == {
        "airflow-resume-token": retry.ti.task.submission_token
    }


@each_operator
def test_jobs_of_others_with_the_name_are_not_taken(service: DataflowJobs, name: str) -> None:
    for token in ("another", None):
        labels = {"additionalUserLabels": {"airflow-resume-token": token}} if token else {}
        service.jobs.make(f"of-{token}", request={"jobName": "daily", "environment": labels}).states = [
            "JOB_STATE_DONE"
        ]
    retry = died_in_the_window(name, append_job_name=False)
    run(retry)
    assert len(service.jobs.seen()) == 3


@each_operator
def test_an_active_job_of_others_with_the_name_is_the_providers_error(service: DataflowJobs, name: str) -> None:
    service.jobs.follow([RUNNING])
    service.jobs.make("of-another-task", request={"jobName": "daily"})
    with pytest.raises(HttpError, match="already an active job named daily"):
        run(first(name, append_job_name=False))
    assert len(service.jobs.seen()) == 1


def test_jobs_from_before_the_dag_run_are_not_looked_at(service: DataflowJobs) -> None:
    run_after = datetime(2026, 11, 29, tzinfo=timezone.utc)
    retry = died_in_the_window(CLASSIC, append_job_name=False)
    (job,) = service.jobs.seen()
    operator = made(ours, CLASSIC, append_job_name=False)
    token = job.request["environment"]["additionalUserLabels"]["airflow-resume-token"]
    found = {}
    for service.today in ("2026-11-28", "2026-11-29"):
        found[service.today] = operator.find_job(
            token, {**retry.context, "dag_run": SimpleNamespace(run_after=run_after)}
        )
    assert found == {"2026-11-28": None, "2026-11-29": job.id}


def test_labels_of_the_user_stay() -> None:
    mine = {"additionalUserLabels": {"team": "a"}}
    both = {"additionalUserLabels": {"team": "a", "airflow-resume-token": "t"}}
    label = {"airflow-resume-token": "t"}
    given: Any = {"launchParameter": {"jobName": "daily", "environment": mine}}
    sent = made(ours, FLEX, body=given)._sent("n", label)
    assert sent == {"body": {"launchParameter": {"jobName": "n", "environment": both}}}
    assert given["launchParameter"]["jobName"] == "daily"
    assert made(ours, CLASSIC, environment=mine)._sent("n", label) == {"job_name": "n", "environment": both}
    assert made(ours, CLASSIC, options=mine)._sent("n", label) == {"job_name": "n", "options": both}
    spelt = {"launch_parameter": {"jobName": "daily"}}
    assert made(ours, FLEX, body=spelt)._sent("n", {}) == {"body": {"launch_parameter": {"jobName": "n"}}}


# --- launches whose answer is lost --------------------------------------------------------------------------------


@each_operator
def test_a_launch_that_is_answered_with_an_error_and_repeated_by_the_client_is_one_job(
    service: DataflowJobs, name: str
) -> None:
    service.answers_launch_with = 503
    returned = run(first(name))
    (job,) = service.jobs.seen()
    assert (returned["id"] if name == FLEX else returned) == job.id
    service.restart()
    service.answers_launch_with = 503
    attempt = task_context(partial(made, upstream, name))
    with attempt, pytest.raises(HttpError, match="already an active job"):
        attempt.ti.render_templates().execute(attempt.context)


@each_operator
def test_that_is_so_without_waiting_as_well(service: DataflowJobs, name: str) -> None:
    service.answers_launch_with = 503
    attempt = first(name, wait_until_finished=False)
    returned = run(attempt)
    (job,) = service.jobs.seen()
    assert (returned["id"] if name == FLEX else returned) == job.id
    assert attempt.ti.xcoms["job_id"] == job.id
    assert attempt.ti.xcoms["dataflow_job_config"]["job_id"] == job.id


@each_operator
def test_a_job_that_has_ended_before_the_retry_is_found(service: DataflowJobs, name: str) -> None:
    retry = died_in_the_window(name)
    service.jobs.seen()[0].states = ["JOB_STATE_DONE"]
    run(retry)
    assert len(service.jobs.seen()) == 1


@each_operator
def test_a_list_that_is_late_leads_to_no_second_job(service: DataflowJobs, name: str) -> None:
    service.jobs.follow([RUNNING, RUNNING, "JOB_STATE_DONE"])
    retry = died_in_the_window(name)
    service.lists_late = 1
    run(retry)
    assert len(service.jobs.seen()) == 1


# --- what counts as a success -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "options", "states"),
    [
        ("BATCH", {}, ["STOPPED", "QUEUED", "PENDING", "RUNNING", "RESOURCE_CLEANING_UP", "DONE"]),
        ("BATCH", {}, ["RUNNING", "PAUSING", "PAUSED", "DONE"]),
        ("BATCH", {"expected_terminal_state": "JOB_STATE_RUNNING"}, ["QUEUED", "RUNNING"]),
        ("STREAMING", {}, ["QUEUED", "PENDING", "RUNNING"]),
        (
            "STREAMING",
            {"wait_until_finished": True, "expected_terminal_state": "JOB_STATE_DRAINED"},
            ["RUNNING", "DRAINING", "DRAINED"],
        ),
        (
            "STREAMING",
            {"expected_terminal_state": "JOB_STATE_CANCELLED"},
            ["RUNNING", "CANCELLING", "CANCELLED"],
        ),
        ("STREAMING", {"expected_terminal_state": "JOB_STATE_UPDATED"}, ["RUNNING", "UPDATED"]),
    ],
)
@each_operator
def test_a_job_succeeds_in_the_state_that_the_operator_expects(
    service: DataflowJobs, name: str, kind: str, options: dict[str, Any], states: list[str]
) -> None:
    service.kind = f"JOB_TYPE_{kind}"
    service.jobs.follow([f"JOB_STATE_{state}" for state in states])
    returned = run(first(name, **options))
    (job,) = service.jobs.seen()
    assert job.state == f"JOB_STATE_{states[-1]}"
    assert (returned["id"] if name == FLEX else returned) == job.id


@pytest.mark.parametrize("state", ["FAILED", "CANCELLED", "DRAINED", "UPDATED"])
@pytest.mark.parametrize("kind", ["BATCH", "STREAMING"])
def test_any_other_end_is_a_failure(service: DataflowJobs, state: str, kind: str) -> None:
    service.kind = f"JOB_TYPE_{kind}"
    service.jobs.follow(["JOB_STATE_QUEUED", f"JOB_STATE_{state}"])
    with pytest.raises(JobFailedError):
        run(first(CLASSIC))


def test_a_streaming_job_that_is_waited_for_has_not_succeeded_when_it_runs(service: DataflowJobs) -> None:
    service.kind = STREAMING
    service.jobs.follow([RUNNING, RUNNING, "JOB_STATE_FAILED"])
    with pytest.raises(JobFailedError):
        run(first(FLEX, wait_until_finished=True))


@pytest.mark.parametrize("state", ["JOB_STATE_DRAINED", "nonsense"])
def test_a_state_that_a_job_cannot_end_in_is_the_providers_error(service: DataflowJobs, state: str) -> None:
    with pytest.raises(Exception, match="expected terminal state"):
        run(first(CLASSIC, expected_terminal_state=state))


# --- streaming jobs -----------------------------------------------------------------------------------------------


@each_operator
def test_a_clear_ends_the_streaming_job_that_runs_before_another_is_launched(service: DataflowJobs, name: str) -> None:
    service.kind = STREAMING
    service.jobs.follow([RUNNING])
    attempt = first(name)
    run(attempt)
    retry = attempt.retry()
    run(retry)
    assert len(service.jobs.seen()) == 1
    run(retry.clear())
    assert [job.is_alive for job in service.jobs.seen()] == [False, True]
    assert service.requested == ["JOB_STATE_CANCELLED"]


def test_it_is_drained_if_the_operator_says_so(service: DataflowJobs) -> None:
    service.kind = STREAMING
    service.jobs.follow([RUNNING])
    attempt = first(FLEX, drain_pipeline=True)
    run(attempt)
    run(attempt.clear())
    assert service.requested == ["JOB_STATE_DRAINED"]


def test_it_is_not_ended_with_cancel_on_kill_false_and_nothing_is_launched(service: DataflowJobs) -> None:
    service.kind = STREAMING
    service.jobs.follow([RUNNING])
    attempt = first(FLEX, cancel_on_kill=False)
    run(attempt)
    cleared = attempt.clear()
    with pytest.raises(StrayJobError, match="still running") as error:
        run(cleared)
    assert error.value.external_id == service.jobs.seen()[0].id
    assert len(service.jobs.seen()) == 1
    service.jobs.seen()[0].states = ["JOB_STATE_DRAINED"]
    run(cleared.retry())
    assert len(service.jobs.seen()) == 2


def test_one_answer_that_it_is_not_known_does_not_count(service: DataflowJobs, monkeypatch: pytest.MonkeyPatch) -> None:
    service.kind = STREAMING
    service.jobs.follow([RUNNING])
    attempt = first(FLEX, resume_policy=QUICK)
    run(attempt)
    (running,) = service.jobs.seen()
    get, answers = Client.get, iter([True])

    def wrong_once(self: Any, external_id: Any) -> Any:
        if external_id == running.id and next(answers, False):
            get(self, "unknown-job")
        return get(self, external_id)

    monkeypatch.setattr(Client, "get", wrong_once)
    run(attempt.clear())
    assert [job.is_alive for job in service.jobs.seen()] == [False, True]


def test_one_that_dataflow_has_forgotten_is_not_looked_for(service: DataflowJobs) -> None:
    service.kind = STREAMING
    service.jobs.follow([RUNNING])
    attempt = first(FLEX, resume_policy=QUICK)
    run(attempt)
    service.jobs.forget(service.jobs.seen()[0].id)
    run(attempt.clear())
    assert len(service.jobs.seen()) == 2


# --- what the task leaves behind ----------------------------------------------------------------------------------


@each_operator
def test_the_operators_own_on_kill_finds_the_job(service: DataflowJobs, name: str) -> None:
    service.jobs.follow([RUNNING])
    retry = died_in_the_window(name, deferrable=True)
    with retry, pytest.raises(TaskDeferred):
        operator = retry.ti.render_templates()
        operator.execute(retry.context)
    getattr(upstream, name).on_kill(operator)
    assert service.jobs.seen()[0].was_cancelled


@each_operator
def test_the_trigger_can_be_made_again_and_has_no_secret(service: DataflowJobs, name: str) -> None:
    attempt = first(name, deferrable=True)
    with attempt, pytest.raises(TaskDeferred) as deferral:
        attempt.ti.render_templates().execute(attempt.context)
    trigger: Any = deferral.value.trigger
    path, arguments = trigger.serialize()
    assert json.loads(json.dumps(arguments)) == arguments
    assert type(trigger)(**arguments).serialize() == (path, arguments)
    assert Client(**arguments["client_kwargs"]).get(arguments["external_id"])["id"] == service.jobs.seen()[0].id


@each_operator
def test_a_job_is_left_alone_with_cancel_on_kill_false(service: DataflowJobs, name: str) -> None:
    scenarios = ["marked failed", "cleared, job alive"]
    report = played(service, ours, name, scenarios, cancel_on_kill=False)
    assert cells(report) == {
        "marked failed": "1 / 1 / 0, a job lives on",
        "cleared, job alive": "2 / 1 / 0, same result",
    }


def test_a_404_about_a_file_of_the_job_does_not_mean_that_the_job_is_gone() -> None:
    def error(text: str) -> HttpError:
        return HttpError(httplib2.Response({"status": 404, "content-type": "application/json"}), text.encode())

    operator = made(ours, CLASSIC)
    assert operator.job_not_found(
        error(json.dumps({"error": {"message": "Information about job 1 could not be found"}}))
    )
    of_a_file = "Calling GetObjectMetadata with file /bigstore/pipeline.pb: RPC::DEADLINE_EXCEEDED, notFound"
    assert not operator.job_not_found(error(json.dumps({"error": {"message": of_a_file}})))
    assert not operator.job_not_found(error("<html>not found</html>"))
