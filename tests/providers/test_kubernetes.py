"""`KubernetesJobOperator`, as it is and resumable, on an API server in memory."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any

import pytest

pytest.importorskip("airflow.providers.cncf.kubernetes", reason="the providers have an environment of their own")

from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook
from airflow.providers.cncf.kubernetes.operators import job as upstream
from airflow.sdk.exceptions import TaskDeferred
from kubernetes.client import ApiException

from airflow_resume.errors import JobFailedError
from airflow_resume.testing import CrashWorld, World, check_operator, explore_crashes, task_context
from airflow_resume_mixins.providers.kubernetes import KubernetesJobOperator
from tests.support.providers.checked import QUICK, cells
from tests.support.providers.kubernetes_jobs import CheckedCluster
from tests.support.providers.kubernetes_service import NAMESPACE
from tests.support.providers.scenario_table import OURS, OWN, documented

OPTIONS: dict[str, Any] = {"not_waiting": {"wait_until_job_complete": False}, "expand": "arguments"}


def operator(kind: Any, **options: Any) -> Any:
    given = {"wait_until_job_complete": True, "get_logs": False, "job_poll_interval": 0.001, **options}
    if issubclass(kind, KubernetesJobOperator):
        given["resume_policy"] = QUICK
    return kind(
        task_id="task",
        retries=3,
        name="load",
        namespace=NAMESPACE,
        image="busybox",
        arguments=["{{ run_id }}"],
        parallelism=1,
        **given,
    )


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> CheckedCluster:
    made = CheckedCluster()
    monkeypatch.setattr(upstream.KubernetesJobOperator, "hook", cached_property(lambda _self: made.hook()))
    vars(upstream.KubernetesJobOperator)["hook"].__set_name__(upstream.KubernetesJobOperator, "hook")
    return made


def normalised(value: Any) -> Any:
    """What Kubernetes itself says of the job is compared by its kind only."""
    returned, xcoms = value
    return [returned, {key: key if key == "job" else value for key, value in xcoms.items()}]


def test_in_every_scenario_one_job_and_its_result(cluster: CheckedCluster) -> None:
    report = check_operator(
        partial(operator, KubernetesJobOperator),
        cluster.service,
        same_as=partial(operator, upstream.KubernetesJobOperator),
        normalise=normalised,
        **OPTIONS,
    )
    documented(report, "kubernetes", OURS, "KubernetesJobOperator")
    assert {scenario: str(row) for scenario, row in report.problems.items()} == {}, f"\n{report}"


def test_as_it_is_every_retry_creates_another_job(cluster: CheckedCluster) -> None:
    make = partial(operator, upstream.KubernetesJobOperator)
    report = check_operator(make, cluster.service, normalise=normalised, **OPTIONS)
    documented(report, "kubernetes", OWN, "KubernetesJobOperator")
    assert cells(report) == {
        "plain": "1 / 1 / 0, same result",
        "crash while waiting": "2 / 2 / 0, same result",
        "crash after all is done": "2 / 1 / 0, same result",
        "crash in the window": "2 / 2 / 0, same result",
        "job fails": "2 / 1 / 0, same result",
        "deploy": "2 / 1 / 1, same result",
        "marked failed": "1 / 1 / 1, no job left",
        "marked failed on a retry": "2 / 2 / 1, a job lives on",
        "forgotten, job done": "2 / 1 / 0, same result",
        "forgotten, job running": "2 / 1 / 0, same result",
        "cleared, job done": "2 / 1 / 0, same result",
        "cleared, job alive": "2 / 2 / 0, same result",
        "not waiting": "2 / 2 / 0, returns at once",
        "mapped": "1 / 1 / 0, same result",
        "503 once": "1 / 1 / 0, same result",
    }, f"\n{report}"


class ClusterWorld(CrashWorld):
    def __init__(self) -> None:
        super().__init__(airflow=World())
        self.cluster = CheckedCluster()

    def execute(self, **options: Any) -> Any:
        made = operator(KubernetesJobOperator, **options)
        made.hook = self.cluster.hook()
        made.hook.create_job = self.effect("create_job")(made.hook.create_job)
        with task_context(made, world=self.airflow) as attempt:
            returned = attempt.ti.render_templates().execute(attempt.context)
            return returned, {**attempt.ti.xcoms}


def one_job(outcome: Any) -> None:
    (name,) = outcome.world.cluster.jobs
    returned, pushed = outcome.result
    assert (returned, pushed["job_name"], pushed["job_namespace"]) == (None, name, NAMESPACE)


@pytest.mark.parametrize("options", [{}, {"wait_until_job_complete": False}, {"random_name_suffix": False}], ids=str)
def test_there_is_one_job_wherever_it_crashes(options: dict[str, Any]) -> None:
    def fresh() -> ClusterWorld:
        made = ClusterWorld()
        made.cluster.service.follow(["Running", "Complete"])
        return made

    report = explore_crashes(lambda world: world.execute(**options), oracle=one_job, world=fresh, max_pairs=60)
    assert report.pairs > 20


def run(attempt: Any, **options: Any) -> Any:
    with attempt:
        return operator(KubernetesJobOperator, **options).execute(attempt.context)


def test_a_job_with_the_same_fixed_name_is_not_taken_for_ours(cluster: CheckedCluster) -> None:
    KubernetesHook.create_job.retry.sleep = lambda _seconds: None  # type: ignore[attr-defined]
    with (other := task_context(run_id="other")):
        operator(
            upstream.KubernetesJobOperator, random_name_suffix=False, wait_until_job_complete=False, labels={"a": "b"}
        ).execute(other.context)
    with pytest.raises(ApiException, match="409"):
        run(task_context(), random_name_suffix=False)
    assert list(cluster.jobs) == ["job-load"]


def test_the_name_keeps_within_its_length(cluster: CheckedCluster) -> None:
    attempt = task_context()
    made = operator(KubernetesJobOperator)
    made.name = "a-very-long-name-of-a-job-that-does-much"
    with attempt:
        made.execute(attempt.context)
    (name,) = cluster.jobs
    assert len(name) <= 63
    assert name.startswith("job-a-very-long-name-of-a-job")


def test_after_a_failure_its_job_is_in_an_xcom_and_its_pods_are_cleaned_up(cluster: CheckedCluster) -> None:
    cluster.service.follow(["Running", "Failed"])
    attempt = task_context()
    with pytest.raises(JobFailedError):
        run(attempt)
    assert attempt.ti.xcoms["job"]["status"]["conditions"][0]["type"] == "Failed"
    assert not cluster.pods


def test_with_a_result_in_a_sidecar_it_does_not_resume_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    made = operator(KubernetesJobOperator, do_xcom_push=True)
    assert "only once" in made.cannot_resume()


def test_it_defers_with_the_providers_trigger(cluster: CheckedCluster) -> None:
    attempt = task_context()
    with attempt, pytest.raises(TaskDeferred) as deferred:
        operator(KubernetesJobOperator, deferrable=True).execute(attempt.context)
    assert type(deferred.value.trigger).__name__ == "KubernetesJobTrigger"
    (name,) = cluster.jobs
    assert deferred.value.trigger.job_name == name
    cluster.service.follow(["Complete"])
    resumed = attempt.resume()
    with resumed:
        operator(KubernetesJobOperator, deferrable=True).resume_execution(
            "resume_complete", {"event": {}}, resumed.context
        )
    assert list(cluster.jobs) == [name]
