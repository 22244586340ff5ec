"""`SparkKubernetesOperator`, as it is and resumable, on an API server in memory with SparkApplications."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import cached_property, partial
from typing import Any

import pytest

pytest.importorskip("airflow.providers.cncf.kubernetes", reason="the providers have an environment of their own")

from airflow.providers.cncf.kubernetes.operators import spark_kubernetes as upstream
from kubernetes.client import ApiException

from airflow_resume.errors import JobFailedError, JobStatusUnknownError
from airflow_resume.testing import CrashWorld, World, check_operator, explore_crashes, task_context
from airflow_resume_mixins.providers.kubernetes import LABEL, SparkKubernetesOperator
from tests.support.providers.checked import QUICK
from tests.support.providers.kubernetes_pods import NAMESPACE, Applications
from tests.support.providers.scenario_table import OURS, OWN, documented

TEMPLATE: dict[str, Any] = {
    "apiVersion": "sparkoperator.k8s.io/v1beta2",
    "kind": "SparkApplication",
    "metadata": {"name": "load", "labels": {"team": "data"}},
    "spec": {"type": "Python", "mainApplicationFile": "local:///app.py", "driver": {}, "executor": {"instances": 1}},
}


def operator(kind: Any, **options: Any) -> Any:
    given = {"get_logs": False, "base_container_status_polling_interval": 0.001, **options}
    given.update({"startup_check_interval_seconds": 0, "log_events_on_startup": False})
    if issubclass(kind, SparkKubernetesOperator):
        given.setdefault("resume_policy", QUICK)
    given.setdefault("template_spec", TEMPLATE)
    return kind(task_id="task", retries=3, namespace=NAMESPACE, image="spark", **given)


@pytest.fixture(autouse=True)
def server(monkeypatch: pytest.MonkeyPatch) -> Applications:
    made = Applications()
    for name, value in {"hook": lambda _self: made.hook(), "custom_obj_api": lambda _self: made}.items():
        attribute = cached_property(value)
        attribute.__set_name__(upstream.SparkKubernetesOperator, name)
        monkeypatch.setattr(upstream.SparkKubernetesOperator, name, attribute)
    monkeypatch.setattr(
        "airflow.providers.cncf.kubernetes.operators.custom_object_launcher.time.sleep", lambda _seconds: None
    )  # of all modules
    return made


def run(attempt: Any, **options: Any) -> Any:
    with attempt:
        return operator(SparkKubernetesOperator, **options).execute(attempt.context)


def without_name(value: Any) -> Any:
    """The name of the driver pod is compared by its presence only: as it is, it ends with random letters."""
    returned, xcoms = value
    return [returned, {key: key if key == "pod_name" else value for key, value in xcoms.items()}]


def test_in_every_scenario_one_application_and_its_result(server: Applications) -> None:
    report = check_operator(
        partial(operator, SparkKubernetesOperator),
        server.service,
        same_as=partial(operator, upstream.SparkKubernetesOperator),
        normalise=without_name,
        expand="template_spec",
        seconds=20,
    )
    documented(report, "kubernetes", OURS, "SparkKubernetesOperator")
    assert {scenario: str(row) for scenario, row in report.problems.items()} == {}, f"\n{report}"


def test_as_it_is(server: Applications) -> None:
    make = partial(operator, upstream.SparkKubernetesOperator)
    report = check_operator(make, server.service, normalise=without_name, expand="template_spec", seconds=20)
    documented(report, "kubernetes", OWN, "SparkKubernetesOperator")
    assert {scenario: str(row) for scenario, row in report.problems.items()} == {
        "crash after all is done": "2 / 1 / 0, same result",
        "deploy": "2 / 1 / 1, same result",
        "cleared, job alive": "1 / 1 / 0, same result",
    }, f"\n{report}"


@pytest.mark.parametrize(
    ("kind", "applications"),
    [(upstream.SparkKubernetesOperator, 2), (SparkKubernetesOperator, 1)],
    ids=["as it is", "ours"],
)
def test_a_crash_while_the_driver_pod_does_not_exist_yet(server: Applications, kind: Any, applications: int) -> None:
    server.service.follow(["SUBMITTED"] * 3 + ["RUNNING", "COMPLETED"])
    attempt = task_context()
    asked = server.get_namespaced_custom_object_status

    def dying(**where: str) -> Any:
        if server.applications:
            raise KeyboardInterrupt
        return asked(**where)

    server.get_namespaced_custom_object_status = dying  # type: ignore[assignment, method-assign]
    with attempt, pytest.raises(KeyboardInterrupt):
        operator(kind).execute(attempt.context)
    server.get_namespaced_custom_object_status = asked  # type: ignore[method-assign]
    with (attempt := attempt.retry()):
        operator(kind).execute(attempt.context)
    assert len(server.service.seen()) == applications


class ServerWorld(CrashWorld):
    def __init__(self, states: list[str]) -> None:
        super().__init__(airflow=World())
        self.server = Applications()
        self.server.service.follow(states)

    def execute(self, **options: Any) -> Any:
        with task_context(partial(operator, SparkKubernetesOperator, **options), world=self.airflow) as attempt:
            made = attempt.ti.render_templates()
            made.__dict__["hook"] = self.server.hook()
            api = made.custom_obj_api = _Crashing(self)
            assert made.custom_obj_api is api
            return made.execute(attempt.context), {**attempt.ti.xcoms}


class _Crashing:
    """The client, with points to crash at before and after each effect."""

    def __init__(self, world: ServerWorld) -> None:
        self._server = world.server
        for name in ("create_namespaced_custom_object", "delete_namespaced_custom_object"):
            setattr(self, name, world.effect(name)(getattr(world.server, name)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)


@pytest.mark.parametrize(
    "options", [{}, {"delete_on_termination": False}, {"random_name_suffix": False}, {"durable": True}], ids=str
)
def test_there_is_one_application_wherever_it_crashes(options: dict[str, Any]) -> None:
    def one_application(outcome: Any) -> None:
        (job,) = outcome.world.server.service.seen()
        assert outcome.result == (None, {"pod_name": f"{job.id}-driver", "pod_namespace": NAMESPACE})
        assert job.is_forgotten == options.get("delete_on_termination", True)

    report = explore_crashes(
        lambda world: world.execute(**options),
        oracle=one_application,
        world=lambda: ServerWorld(["NEW", "SUBMITTED", "RUNNING", "COMPLETED"]),
        max_pairs=60,
    )
    assert report.pairs > 20


STATES = {
    "NEW": "waits",
    "SUBMITTED": "waits",
    "RUNNING": "waits",
    "COMPLETED": "done",
    "FAILED": "failed",
    "SUBMISSION_FAILED": "waits",
    "PENDING_RERUN": "waits",
    "INVALIDATING": "waits",
    "SUCCEEDING": "waits",
    "FAILING": "waits",
    "SUSPENDING": "waits",
    "SUSPENDED": "waits",
    "RESUMING": "waits",
    "UNKNOWN": "is asked again, and does not count as failed",
}
"""All states of the API of the Spark operator (v1beta2)."""


@pytest.mark.parametrize("state", STATES)
def test_every_state_of_an_application(server: Applications, state: str) -> None:
    server.service.follow([state] * 2 + ["COMPLETED"])
    if STATES[state] == "failed":
        with pytest.raises(JobFailedError):
            run(task_context())
    else:
        assert run(task_context()) is None
    assert len(server.service.seen()) == 1


def test_a_state_that_stays_unknown_fails_the_attempt_and_leaves_the_application(server: Applications) -> None:
    server.service.follow(["UNKNOWN"])
    with pytest.raises(JobStatusUnknownError):
        run(task_context(), resume_policy=replace(QUICK, unknown_timeout=timedelta(milliseconds=50)))
    assert [job.is_alive for job in server.service.seen()] == [True]


def test_an_application_with_the_same_fixed_name_is_not_taken_for_ours(server: Applications) -> None:
    with (other := task_context(run_id="other")):
        operator(upstream.SparkKubernetesOperator, random_name_suffix=False, delete_on_termination=False).execute(
            other.context
        )
    with pytest.raises(ApiException, match="409"):
        run(task_context(), random_name_suffix=False)
    assert list(server.applications) == ["load"]


def test_the_name_keeps_within_its_length_and_the_template_stays(server: Applications) -> None:
    run(task_context(), name="a-very-long-name-of-an-application-that-does-much")
    (name,) = server.applications
    assert len(name) <= 63
    assert name.startswith("a-very-long-name-of-an-applica-")
    labels = server.applications[name]["metadata"]["labels"]
    assert labels == {"team": "data", LABEL: name[-32:]}
    assert TEMPLATE["metadata"]["labels"] == {"team": "data"}
    assert TEMPLATE["spec"]["driver"] == {}


def test_the_driver_has_the_labels_of_the_task(server: Applications) -> None:
    run(task_context(run_id="today"))
    (made,) = server.applications.values()
    assert made["spec"]["driver"]["labels"].items() >= {"dag_id": "dag", "task_id": "task", "run_id": "today"}.items()


@pytest.mark.parametrize("options", [{}, {"delete_on_termination": False}], ids=str)
def test_after_a_failure_the_log_is_shown_and_the_application_is_deleted(
    server: Applications, options: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    server.service.follow(["RUNNING", "FAILED"])
    with pytest.raises(JobFailedError):
        run(task_context(), get_logs=True, **options)
    (job,) = server.service.seen()
    assert job.is_forgotten == (not options)
    assert server.logs_read == [f"{job.id}-driver"]
    assert "the log of the pod" in capsys.readouterr().out


def test_an_application_that_does_not_start_in_time_is_deleted_and_the_next_attempt_makes_another(
    server: Applications,
) -> None:
    server.service.follow(["SUBMITTED"])
    server.created -= timedelta(hours=1)
    attempt = task_context()
    with pytest.raises(JobFailedError):
        run(attempt, startup_timeout_seconds=1)
    server.service.follow(["RUNNING", "COMPLETED"])
    run(attempt.retry())
    assert [job.was_cancelled for job in server.service.seen()] == [True, False]


@pytest.mark.parametrize("answer", ["NEW", "SUBMITTED"])
def test_an_old_application_is_not_deleted_for_one_answer(server: Applications, answer: str) -> None:
    """The answer is of a moment ago, or has no status, or its driver has failed and is submitted once more."""
    server.service.follow(["RUNNING", answer, "RUNNING", answer, "COMPLETED"])
    server.created -= timedelta(hours=1)
    run(task_context(), startup_timeout_seconds=5)
    assert [job.was_cancelled for job in server.service.seen()] == [False]


@pytest.mark.parametrize(
    "options",
    [{"reattach_on_restart": False}, {"do_xcom_push": True}, {"callbacks": object}, {"skip_on_exit_code": 3}],
    ids=str,
)
def test_what_only_its_own_way_of_waiting_does_is_left_to_the_operator(options: dict[str, Any]) -> None:
    assert operator(SparkKubernetesOperator, **options).cannot_resume()
    assert operator(SparkKubernetesOperator).cannot_resume() is None


def test_what_is_left_to_the_operator_is_also_ended_by_it(server: Applications) -> None:
    server.service.follow(["RUNNING"])
    made, attempt = operator(SparkKubernetesOperator, reattach_on_restart=False), task_context()

    def marked_failed(**_options: Any) -> None:
        made.on_kill()
        server.service.follow(["COMPLETED"])

    made.await_pod_completion = marked_failed
    with attempt, pytest.raises(Exception, match="404"):
        made.execute(attempt.context)
    assert [job.was_cancelled for job in server.service.seen()] == [True]


def test_one_that_is_not_durable_makes_another_application_in_every_attempt(server: Applications) -> None:
    attempt = task_context()
    run(attempt, durable=False)
    run(attempt.retry(), durable=False)
    assert len(server.service.seen()) == 2


def test_the_client_is_that_of_its_connection(server: Applications, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(upstream.SparkKubernetesOperator, "custom_obj_api")
    made = operator(SparkKubernetesOperator)
    assert made.custom_obj_api is server


def test_with_deferrable_it_waits_in_its_worker_and_warns(
    server: Applications, caplog: pytest.LogCaptureFixture
) -> None:
    assert run(task_context(), deferrable=True) is None
    assert len(server.service.seen()) == 1
    assert "has deferrable=True and no job_trigger: the task waits in its worker" in caplog.text
