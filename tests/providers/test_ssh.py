"""`SSHRemoteJobOperator`, as it is and resumable, on a real SSH server with real processes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException, TaskDeferred

pytest.importorskip("asyncssh", reason="the providers have an environment of their own")
pytest.importorskip("airflow.providers.ssh", reason="the same")

from airflow.providers.ssh.operators import ssh_remote_job as upstream

from airflow_resume.errors import JobFailedError, JobStatusUnknownError, UsageError
from airflow_resume.testing import CrashWorld, World, check_operator, explore_crashes, task_context
from airflow_resume.testing.errors import CrashFoundError
from airflow_resume_mixins.providers.ssh import SSHRemoteJobOperator
from tests.support.providers.checked import QUICK, cells
from tests.support.providers.remote_host import RemoteHost
from tests.support.providers.scenario_table import OURS, OWN, documented


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RemoteHost]:
    with RemoteHost(tmp_path) as running:
        monkeypatch.setenv("AIRFLOW_CONN_REMOTE", running.connection)
        yield running


class AsAirflowRunsIt(upstream.SSHRemoteJobOperator):
    """The provider's operator, with its trigger in the same process."""

    def execute(self, context: Any) -> Any:
        try:
            super().execute(context)
        except TaskDeferred as deferred:
            return self.execute_complete(context, asyncio.run(_event(deferred.trigger)))


async def _event(trigger: Any) -> Any:
    async for event in trigger.run():
        return event.payload
    raise AssertionError


class InTheWorker(SSHRemoteJobOperator):
    """It waits in the worker, so that each question can be counted."""

    deferrable = False


def operator(host: RemoteHost, kind: Any, **options: Any) -> Any:
    given = {"command": host.command, "remote_base_dir": str(host.base), "poll_interval": 0.01, **options}
    if issubclass(kind, SSHRemoteJobOperator):
        given["resume_policy"] = QUICK
    return kind(task_id="task", ssh_conn_id="remote", retries=3, remote_os="posix", **given)


def normalised(value: Any) -> Any:
    """The provider's ids have a random end, and its XCom the same files."""
    returned, xcoms = value
    return [returned, {key: sorted(files) for key, files in xcoms.items()}]


def test_in_every_scenario_one_process_and_its_result(host: RemoteHost) -> None:
    report = check_operator(
        partial(operator, host, InTheWorker),
        host,
        same_as=partial(operator, host, AsAirflowRunsIt),
        normalise=normalised,
        seconds=20,
    )
    documented(report, "ssh", OURS, "SSHRemoteJobOperator")
    assert {scenario: str(row) for scenario, row in report.problems.items()} == {}, f"\n{report}"


def test_it_defers_with_the_providers_trigger(host: RemoteHost) -> None:
    make = partial(operator, host, SSHRemoteJobOperator)
    same_as = partial(operator, host, InTheWorker)
    report = check_operator(
        make, host, same_as=same_as, scenarios=["deferrable"], deferrable={}, normalise=normalised, seconds=20
    )
    assert not report.problems, f"\n{report}"


def test_as_it_is_a_lost_process_is_run_again(host: RemoteHost) -> None:
    report = check_operator(partial(operator, host, AsAirflowRunsIt), host, normalise=normalised, seconds=20)
    documented(report, "ssh", OWN, "SSHRemoteJobOperator")
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
        "503 once": "1 / 1 / 0, same result",
    }, f"\n{report}"


class KilledError(BaseException):
    """The process of the attempt is gone."""


@pytest.mark.parametrize("number", [1, 2, 3])
def test_there_is_one_process_after_whichever_remote_command_it_is_killed(host: RemoteHost, number: int) -> None:
    host.follow(["running", "running", "0"])
    attempt, commands = task_context(), 0
    made = operator(host, InTheWorker)
    run: Any = made.ssh_hook.exec_ssh_client_command

    def killing(*args: Any, **options: Any) -> Any:
        nonlocal commands
        answer, commands = run(*args, **options), commands + 1
        if commands == number:
            raise KilledError
        return answer

    made.ssh_hook.exec_ssh_client_command = killing
    with attempt, pytest.raises(KilledError):
        made.execute(attempt.context)
    retry = attempt.retry()
    attempt_of(host, retry)
    (job,) = host.seen()
    assert retry.ti.xcoms["ssh_remote_job"]["job_id"] == job.id


class HostWorld(CrashWorld):
    """An Airflow with a task, and what was seen on the host, which itself all worlds share.

    Attributes:
        made: the ids of all jobs.
        left: the names of the jobs' directories.
    """

    def __init__(self) -> None:
        super().__init__(airflow=World())
        self.made: list[str] = []
        self.left: list[str] = []

    def execute(self, host: RemoteHost, kind: Any, **options: Any) -> Any:
        with task_context(partial(operator, host, kind, **options), world=self.airflow) as attempt:
            made = attempt.ti.render_templates()
            run: Any = made.ssh_hook.exec_ssh_client_command

            def run_between_points(client: Any, command: str, *args: Any, **others: Any) -> Any:
                with self.effect(purpose(command)):
                    answer = run(client, command, *args, **others)
                    self.made = [job.id for job in host.seen()]
                    self.left = [folder.name for folder in host.base.iterdir()]
                return answer

            made.ssh_hook.exec_ssh_client_command = run_between_points
            return made.execute(attempt.context), {**attempt.ti.xcoms}


def purpose(command: str) -> str:
    """What a remote command is for."""
    texts = {"job_script=": "start", "rm -rf": "clean up", "exit_code": "ask"}
    return next(what for text, what in texts.items() if text in command)


def explore(host: RemoteHost, kind: Any, **options: Any) -> Any:
    """Crash at every point and at pairs of points, before and after each remote command too."""

    def fresh() -> HostWorld:
        host.reset()
        host.follow(["running", "0"])
        return HostWorld()

    def one_process(outcome: Any) -> None:
        made, (returned, xcoms) = outcome.world.made, outcome.result
        assert len(made) == 1, f"{len(made)} processes"
        assert (returned, xcoms["ssh_remote_job"]["job_id"]) == (None, made[0])
        assert outcome.world.left == (made if options.get("cleanup", "never") == "never" else [])

    return explore_crashes(
        lambda world: world.execute(host, kind, **options), oracle=one_process, world=fresh, max_pairs=20
    )


@pytest.mark.parametrize("options", [{}, {"cleanup": "always"}], ids=str)
def test_there_is_one_process_wherever_it_crashes(host: RemoteHost, options: dict[str, Any]) -> None:
    report = explore(host, InTheWorker, **options)
    assert not report.findings
    assert report.pairs > 10


def test_as_it_is_some_crash_leads_to_two_processes(host: RemoteHost) -> None:
    with pytest.raises(CrashFoundError, match="2 processes"):
        explore(host, AsAirflowRunsIt)


def attempt_of(host: RemoteHost, attempt: Any, **options: Any) -> Any:
    made = operator(host, InTheWorker, **options)
    with attempt:
        return made.execute(attempt.context)


def test_after_a_clear_it_pushes_the_xcom_of_the_second_job(host: RemoteHost) -> None:
    attempt = task_context()
    made = operator(host, InTheWorker)
    run: Any = made.ssh_hook.exec_ssh_client_command

    def killing(*args: Any, **options: Any) -> Any:
        run(*args, **options)
        raise KilledError

    made.ssh_hook.exec_ssh_client_command = killing
    with attempt, pytest.raises(KilledError):
        made.execute(attempt.context)
    retry = attempt.retry()
    attempt_of(host, retry)
    cleared = retry.clear()
    attempt_of(host, cleared)
    assert cleared.ti.xcoms["ssh_remote_job"]["job_id"] == host.seen()[1].id


def test_of_two_submits_at_the_same_time_one_starts_a_process(host: RemoteHost) -> None:
    together, answers = threading.Barrier(4), []

    def start() -> None:
        made = operator(host, InTheWorker)
        made.submission_token = "ab" * 16
        command = made._start_command(made._paths_of({"id": "af_x"}))
        with made.ssh_hook.get_conn() as client:
            together.wait()
            answers.append(made._run(command, client))

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == ["af_x", "exists", "exists", "exists"]


def test_a_job_of_which_there_is_only_the_directory_is_waited_for_and_not_started_again(host: RemoteHost) -> None:
    attempt = task_context()
    made = operator(host, InTheWorker)
    with attempt, pytest.raises(JobStatusUnknownError):
        made.resume_policy = replace(QUICK, unknown_timeout=timedelta(milliseconds=300))
        made._run = lambda command, client, run=made._run: (
            _without_the_start(host, made, command) or run(command, client)
        )
        made.execute(attempt.context)
    assert [list(folder.iterdir()) for folder in host.base.iterdir()] == [[]]


def _without_the_start(host: RemoteHost, made: Any, command: str) -> str | None:
    """The host has crashed between the making of the directory and the start."""
    if "job_script=" not in command:
        return None
    (host.base / f"af_{made.submission_token}").mkdir(parents=True)
    return f"af_{made.submission_token}"


def test_a_process_that_was_killed_on_its_host_has_failed_and_the_retry_starts_another(host: RemoteHost) -> None:
    host.follow(["running"])
    attempt = task_context()
    killer = threading.Timer(1.0, lambda: host.end_process(host.seen()[0]))
    killer.start()
    with pytest.raises(JobFailedError):
        attempt_of(host, attempt)
    host.follow(["0"])
    attempt_of(host, attempt.retry())
    assert len(host.seen()) == 2


@pytest.mark.parametrize(
    ("cleanup", "code", "left"), [("on_success", "0", 0), ("on_success", "3", 1), ("always", "3", 0)]
)
def test_the_directory_is_cleaned_up_as_the_argument_says(host: RemoteHost, cleanup: str, code: str, left: int) -> None:
    host.follow([code])
    try:
        attempt_of(host, task_context(), cleanup=cleanup)
    except JobFailedError:
        assert code == "3"
    assert len(list(host.base.iterdir())) == left


def test_an_exit_code_may_skip_the_task(host: RemoteHost) -> None:
    host.follow(["3"])
    with pytest.raises(AirflowSkipException):
        attempt_of(host, task_context(), skip_on_exit_code=3)


def test_a_windows_host_is_refused(host: RemoteHost) -> None:
    made: Any = InTheWorker(task_id="task", ssh_conn_id="remote", command="x", remote_os="windows", resume_policy=QUICK)
    attempt = task_context()
    with attempt, pytest.raises(UsageError, match="not a POSIX system"):
        made.execute(attempt.context)


def test_the_timeout_of_the_operator_is_that_of_the_deferral(host: RemoteHost) -> None:
    attempt = task_context()
    with attempt, pytest.raises(TaskDeferred) as deferred:
        operator(host, SSHRemoteJobOperator, timeout=77).execute(attempt.context)
    assert deferred.value.timeout is not None
    assert deferred.value.timeout.total_seconds() == 77
