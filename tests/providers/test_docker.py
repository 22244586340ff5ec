"""`DockerOperator`, as it is and resumable, on a fake Docker host."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException

pytest.importorskip("airflow.providers.docker", reason="the providers have an environment of their own")

from airflow.providers.docker.operators import docker as upstream
from docker.errors import APIError

from airflow_resume.errors import JobFailedError, JobStatusUnknownError
from airflow_resume.testing import CrashWorld, World, check_operator, explore_crashes, task_context
from airflow_resume_mixins.providers.docker import DockerOperator
from tests.support.providers.checked import QUICK, cells
from tests.support.providers.docker_host import DockerHost
from tests.support.providers.scenario_table import OURS, OWN, documented


@pytest.fixture
def host() -> Iterator[DockerHost]:
    with DockerHost() as running:
        yield running


def operator(host: DockerHost, kind: Any, **options: Any) -> Any:
    if issubclass(kind, DockerOperator):
        options = {"resume_policy": QUICK, **options}
    return kind(task_id="task", image="busybox", command="true", docker_url=host.url, retries=3, **options)


def run(host: DockerHost, attempt: Any, **options: Any) -> Any:
    with attempt:
        return operator(host, DockerOperator, **options).execute(attempt.context)


def test_in_every_scenario_one_container_and_its_result(host: DockerHost) -> None:
    resuming, plain = partial(operator, host, DockerOperator), partial(operator, host, upstream.DockerOperator)
    report = check_operator(resuming, host.jobs, same_as=plain, seconds=20)
    documented(report, "docker", OURS, "DockerOperator")
    assert {scenario: str(row) for scenario, row in report.problems.items()} == {}, f"\n{report}"


def test_as_it_is(host: DockerHost) -> None:
    report = check_operator(partial(operator, host, upstream.DockerOperator), host.jobs, seconds=20)
    documented(report, "docker", OWN, "DockerOperator")
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
        "mapped": "1 / 1 / 0, same result",
        "503 once": "1 / 1 / 0, APIError",
    }, f"\n{report}"


class HostWorld(CrashWorld):
    def __init__(self) -> None:
        super().__init__(airflow=World())

    def execute(self, host: DockerHost, **options: Any) -> Any:
        with task_context(partial(operator, host, DockerOperator, **options), world=self.airflow) as attempt:
            made = attempt.ti.render_templates()
            for name in ("create_container", "start", "remove_container"):
                setattr(made.cli, name, self.effect(name)(getattr(made.cli, name)))
            return made.execute(attempt.context)


@pytest.mark.parametrize("options", [{}, {"auto_remove": "force"}, {"container_name": "mine"}], ids=str)
def test_there_is_one_container_wherever_it_crashes(host: DockerHost, options: dict[str, Any]) -> None:
    def fresh() -> HostWorld:
        host.jobs.reset()
        host.started.clear()
        return HostWorld()

    def one_container(outcome: Any) -> None:
        assert (len(host.jobs.jobs), outcome.result) == (1, "last")
        assert host.started == {host.jobs.jobs[0].id}

    host.jobs.follow(["running", "0"])
    report = explore_crashes(
        lambda world: world.execute(host, **options), oracle=one_container, world=fresh, max_pairs=40
    )
    assert report.pairs > 20


def test_a_container_with_the_given_name_is_not_taken_for_ours(host: DockerHost) -> None:
    host.jobs.make("mine", request={"Labels": {}})
    with pytest.raises(APIError, match="already in use"):
        run(host, task_context(), container_name="mine")


def test_on_another_host_the_status_is_unknown_and_no_second_container_is_started(host: DockerHost) -> None:
    attempt = task_context()
    run(host, attempt)
    host.jobs.forget(host.jobs.jobs[0].id)
    host.identity = "host-2"
    policy = replace(QUICK, unknown_timeout=timedelta(milliseconds=50), keep_result=False)
    with pytest.raises(JobStatusUnknownError):
        run(host, _waiting(attempt), resume_policy=policy)
    assert len(host.jobs.jobs) == 1


def _waiting(attempt: Any) -> Any:
    """The next attempt, as if the last one had died while it waited."""
    record = attempt.task_store.get("resume.job.job")
    kept = {name: value for name, value in record.items() if name != "result"}
    attempt.task_store.set("resume.job.job", {**kept, "phase": "submitted", "status": "active"})
    return attempt.retry()


def test_the_temporary_folder_lives_as_long_as_the_container(host: DockerHost, tmp_path: Path) -> None:
    run(host, task_context(), host_tmp_dir=str(tmp_path))
    (mount,) = host.jobs.jobs[0].request["HostConfig"]["Mounts"]
    assert Path(mount["Source"]).parent == tmp_path
    assert not list(tmp_path.iterdir())


def test_a_failed_container_and_an_exit_code_that_skips(host: DockerHost) -> None:
    host.jobs.follow(["running", "1"])
    with pytest.raises(JobFailedError):
        run(host, task_context(run_id="a"), auto_remove="success")
    assert host.jobs.jobs[0].is_forgotten
    host.jobs.follow(["running", "3"])
    with pytest.raises(AirflowSkipException):
        run(host, task_context(run_id="b"), skip_on_exit_code=3)


@pytest.mark.parametrize("kind", [upstream.DockerOperator, DockerOperator], ids=["as it is", "ours"])
def test_it_cannot_defer(host: DockerHost, kind: Any) -> None:
    with pytest.raises(TypeError, match="deferrable"):
        operator(host, kind, deferrable=True)


def test_a_subclass_that_says_that_it_defers_waits_in_its_worker_and_warns(
    host: DockerHost, caplog: pytest.LogCaptureFixture
) -> None:
    class Deferrable(DockerOperator):
        deferrable = True

    with (attempt := task_context()):
        assert operator(host, Deferrable).execute(attempt.context) == "last"
    assert "Deferrable has deferrable=True and no job_trigger: the task waits in its worker" in caplog.text


def test_by_default_it_does_not_defer_either(
    host: DockerHost, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")
    assert run(host, task_context()) == "last"
    assert "job_trigger" not in caplog.text
