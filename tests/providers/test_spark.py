"""`SparkSubmitOperator` in cluster mode, as it is and resumable, on fake clusters with a fake `spark-submit`."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("airflow.providers.apache.spark", reason="the providers have an environment of their own")

from airflow.providers.apache.spark.hooks import spark_submit as hooks
from airflow.providers.apache.spark.operators import spark_submit as upstream

from airflow_resume.errors import JobFailedError
from airflow_resume.testing import check_operator, task_context
from airflow_resume.testing.errors import CrashFoundError
from airflow_resume_mixins.providers.spark import SparkSubmitOperator
from tests.support.providers.checked import QUICK
from tests.support.providers.operator_trials import explore, explore_with_an_open_window
from tests.support.providers.scenario_table import OURS, OWN, documented
from tests.support.providers.spark_cluster import SparkCluster, install

FLAGS: dict[str, dict[str, Any]] = {
    "standalone": {},
    "yarn": {"yarn_track_via_rm_api": True},
    "k8s": {"track_driver_via_k8s_api": True},
}


@pytest.fixture(params=list(FLAGS))
def cluster(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkCluster]:
    install(tmp_path)
    with SparkCluster(request.param) as running:
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setenv("FAKE_SPARK_URL", running.url)
        monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", running.connection())
        monkeypatch.setattr(hooks, "kube_client", running.kube_client())
        monkeypatch.setattr(upstream, "kube_client", running.kube_client())
        quick = SimpleNamespace(sleep=lambda _seconds: None, monotonic=hooks.time.monotonic, time=hooks.time.time)
        monkeypatch.setattr(hooks, "time", quick)
        by_binary = lambda hook: ["spark-submit", "--status", hook._driver_id]  # noqa: E731  curl prints other lines
        monkeypatch.setattr(hooks.SparkSubmitHook, "_build_track_driver_status_command", by_binary)
        fetch: Any = upstream.SparkSubmitOperator._fetch_driver_status
        monkeypatch.setattr(fetch.retry, "sleep", lambda _seconds: None)
        yield running
    with warnings.catch_warnings():  # the provider leaves the pipes of spark-submit open
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def operator(cluster: SparkCluster, kind: Any, **options: Any) -> Any:
    if issubclass(kind, SparkSubmitOperator):
        options["resume_policy"] = QUICK
    return kind(
        task_id="task",
        conn_id="cluster",
        application="app.py",
        retries=3,
        status_poll_interval=0,
        **FLAGS[cluster.kind],
        **options,
    )


PROBLEMS = {
    # Nothing can be looked up, so nothing is submitted again either.
    "standalone": {"crash in the window": "1 / 1 / 0, LostSubmissionError"},
    "yarn": {},
    "k8s": {},
}


def test_in_every_scenario_one_driver_and_its_result(cluster: SparkCluster) -> None:
    report = check_operator(partial(operator, cluster, SparkSubmitOperator), cluster.jobs, seconds=20)
    documented(report, "spark", OURS, f"SparkSubmitOperator, {cluster.kind}")
    assert {scenario: str(row) for scenario, row in report.problems.items()} == PROBLEMS[cluster.kind], f"\n{report}"


AS_IT_IS = {
    "standalone": {
        "crash in the window": "2 / 2 / 0, same result",
        "deploy": "2 / 1 / 1, same result",
        "forgotten, job done": "1 / 1 / 0, RuntimeError",
        "forgotten, job running": "1 / 1 / 0, RuntimeError",
        "cleared, job done": "1 / 1 / 0, same result",
        "cleared, job alive": "1 / 1 / 0, same result",
    },
    "yarn": {
        "crash in the window": "2 / 2 / 0, same result",
        "deploy": "2 / 1 / 1, same result",
        "marked failed on a retry": "1 / 1 / 0, a job lives on",
        "forgotten, job done": "1 / 1 / 0, RuntimeError",
        "forgotten, job running": "1 / 1 / 0, RuntimeError",
        "cleared, job done": "1 / 1 / 0, same result",
        "cleared, job alive": "1 / 1 / 0, same result",
    },
    "k8s": {
        "crash in the window": "2 / 2 / 0, same result",
        "deploy": "2 / 1 / 1, same result",
        "cleared, job done": "1 / 1 / 0, same result",
        "cleared, job alive": "1 / 1 / 0, same result",
    },
}


def test_as_it_is(cluster: SparkCluster) -> None:
    report = check_operator(partial(operator, cluster, upstream.SparkSubmitOperator), cluster.jobs, seconds=20)
    documented(report, "spark", OWN, f"SparkSubmitOperator, {cluster.kind}")
    assert {scenario: str(row) for scenario, row in report.problems.items()} == AS_IT_IS[cluster.kind], f"\n{report}"


# The provider leaves the pipes of spark-submit open.
leaves_pipes_open = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@leaves_pipes_open
@pytest.mark.parametrize("cluster", ["yarn", "k8s"], indirect=True)
def test_there_is_one_driver_wherever_it_crashes(cluster: SparkCluster) -> None:
    make = partial(operator, cluster, SparkSubmitOperator)
    report = explore(make, cluster, hooks.SparkSubmitHook, "submit", max_pairs=60)
    assert not report.findings
    assert report.pairs > 40


@leaves_pipes_open
@pytest.mark.parametrize("cluster", ["standalone"], indirect=True)
def test_there_are_never_two_drivers_wherever_it_crashes(cluster: SparkCluster) -> None:
    make = partial(operator, cluster, SparkSubmitOperator)
    report, ends = explore_with_an_open_window(make, cluster, hooks.SparkSubmitHook, "submit", "on_kill", max_pairs=60)
    assert not report.findings
    assert report.pairs > 40
    assert set(ends) == {(1, None), (0, "LostSubmissionError"), (1, "LostSubmissionError")}


@leaves_pipes_open
def test_as_it_is_some_crash_leads_to_two_drivers(cluster: SparkCluster) -> None:
    with pytest.raises(CrashFoundError, match="2 jobs"):
        explore(partial(operator, cluster, upstream.SparkSubmitOperator), cluster, hooks.SparkSubmitHook, "submit")


# The second host answers to nothing: it is a master that is down, or not the leader.
@pytest.mark.parametrize("masters", ["127.0.0.1,127.0.0.2", "127.0.0.2,127.0.0.1"])
@pytest.mark.parametrize("cluster", ["standalone"], indirect=True)
def test_with_several_masters_one_that_answers_is_enough(
    cluster: SparkCluster, masters: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", cluster.connection(masters=masters))
    report = check_operator(partial(operator, cluster, SparkSubmitOperator), cluster.jobs, seconds=20)
    assert {scenario: str(row) for scenario, row in report.problems.items()} == PROBLEMS["standalone"], f"\n{report}"


@pytest.mark.parametrize("cluster", ["standalone"], indirect=True)
def test_as_it_is_with_several_masters_a_driver_outlives_a_task_that_is_marked_failed(
    cluster: SparkCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", cluster.connection(masters="127.0.0.1,127.0.0.2"))
    report = check_operator(partial(operator, cluster, upstream.SparkSubmitOperator), cluster.jobs, seconds=20)
    assert str(report["marked failed"]).startswith("1 / 1 / 0, a job lives on"), f"\n{report}"


@pytest.mark.parametrize(
    ("message", "meaning"),
    [
        ("Spark REST API returned failure for driver-1: unknown error", "gone"),
        ("Spark REST API returned failure for driver-1: Exception from the cluster:\nan unknown error", "passing"),
        ("The cluster has an unknown error: unknown error", "neither"),
    ],
)
def test_only_a_master_that_says_nothing_more_does_not_know_the_driver(message: str, meaning: str) -> None:
    error = RuntimeError(message)
    is_gone, is_passing = SparkSubmitOperator.job_not_found(error), SparkSubmitOperator.transient_errors(error)
    assert (is_gone, is_passing) == {"gone": (True, False), "passing": (False, True), "neither": (False, False)}[
        meaning
    ]


@pytest.mark.parametrize("cluster", ["k8s"], indirect=True)
def test_a_status_that_the_operator_kept_before_a_clear_is_not_taken_for_that_of_the_new_driver(
    cluster: SparkCluster,
) -> None:
    attempt = task_context()
    with attempt:
        operator(cluster, upstream.SparkSubmitOperator).execute(attempt.context)  # it keeps "Succeeded"
    attempt = attempt.clear()
    cluster.jobs.follow(["Running", "Running", "Failed"])
    with attempt, pytest.raises(JobFailedError):
        operator(cluster, SparkSubmitOperator).execute(attempt.context)
    assert [job.state for job in cluster.jobs.jobs] == ["Succeeded", "Failed"]


@leaves_pipes_open
@pytest.mark.parametrize("cluster", ["standalone"], indirect=True)
def test_client_mode_is_left_to_the_operator_and_said_when_the_task_starts(
    cluster: SparkCluster, caplog: pytest.LogCaptureFixture
) -> None:
    made = operator(cluster, SparkSubmitOperator, deploy_mode="client")
    attempt = task_context()
    with attempt:
        made.execute(attempt.context)
    assert "SparkSubmitOperator does not resume: in client mode the driver ends with the task" in caplog.text
    assert len(cluster.jobs.jobs) == 1
    assert attempt.task_store.get("resume.job.job") is None
