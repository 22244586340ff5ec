"""Whoever can end a job is asked to, once for each need: `cancel_job`, and where there is none an own `on_kill`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException, AirflowTaskTimeout

from airflow_resume import PollPolicy, ResumePolicy
from airflow_resume.errors import JobWaitTimeoutError, SupersededError, TaskStoppedError
from airflow_resume.testing import FakeJobs, TaskAttempt, task_context
from airflow_resume_mixins import ResumableJobMixin
from tests.support.jobs.hooks import LookUpHooks, equipped

AT_ONCE = PollPolicy(interval=timedelta(0), max_interval=timedelta(0), jitter=0)
NO_TIME = PollPolicy(interval=timedelta(0), max_interval=timedelta(0), jitter=0, timeout=timedelta(0))
LONG = [["RUNNING"] * 9 + ["SUCCEEDED"]]


class Hooks(LookUpHooks):
    """`during[hook]` happens once in the middle of that hook; `kills` are the ids for which `on_kill` was called."""

    during: dict[str, Callable[[], object]]
    kills: list[Any]
    external_id: Any

    def _happens(self, hook: str) -> None:
        self.during.pop(hook, lambda: None)()

    def submit_job(self, context: Any) -> Any:
        submitted = super().submit_job(context)
        self._happens("submit")
        return submitted

    def get_job_status(self, external_id: Any, context: Any) -> str:
        self._happens("status")
        return super().get_job_status(external_id, context)

    def get_job_result(self, external_id: Any, context: Any) -> Any:
        self._happens("result")
        return super().get_job_result(external_id, context)

    def end(self) -> None:
        self.kills.append(self.external_id)
        self._happens("on_kill")
        if self.external_id is not None:
            self.jobs.cancel(self.external_id)


class Kills(Hooks, ResumableJobMixin, BaseOperator):
    """Its own `on_kill` is all that it has."""

    def on_kill(self) -> None:
        self.end()


class KillsInVain(Kills):
    """Its `on_kill` returns, and its job goes on."""

    def end(self) -> None:
        self.kills.append(self.external_id)


class CancelsAndKills(Kills):
    def end(self) -> None:
        self.kills.append(self.external_id)

    def cancel_job(self, external_id: Any, context: Any) -> None:
        self.jobs.cancel(external_id)


def attempted(
    attempt: TaskAttempt,
    jobs: FakeJobs,
    *,
    kind: type[Kills] = Kills,
    policy: ResumePolicy = ResumePolicy(poll=AT_ONCE),  # noqa: B008  frozen
    during: dict[str, Callable[[Any], object]] | None = None,
    **options: Any,
) -> tuple[Any, Any]:
    """The operator, and what it returned or raised."""
    made: Any = kind(task_id="task", resume_policy=policy, **options)
    happens = {hook: (lambda event=event: event(made)) for hook, event in (during or {}).items()}
    equipped(made, jobs=jobs, during=happens, kills=[])
    try:
        return made, made.execute_resumable(attempt.context)
    except BaseException as error:  # noqa: BLE001  how it ended is for the test to say
        return made, error


def raising(error: BaseException) -> Callable[[Any], object]:
    def happens(_operator: Any) -> None:
        raise error

    return happens


def calls(jobs: FakeJobs, name: str) -> list[Any]:
    return [event.job for event in jobs.events if event.call == name]


# --- every need -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [ValueError("a bug"), SystemExit(1), SystemExit(0), KeyboardInterrupt(), AirflowSkipException("enough")]
)
@pytest.mark.parametrize("kind", [Kills, CancelsAndKills])
def test_a_final_failure_ends_the_job_once(kind: type[Kills], error: BaseException) -> None:
    jobs = FakeJobs(scripts=LONG)
    policy = ResumePolicy(cancel_on={"final_failure"}, poll=AT_ONCE)
    made, ending = attempted(task_context(retries=0), jobs, kind=kind, policy=policy, during={"status": raising(error)})
    assert ending is error
    assert calls(jobs, "cancel") == ["job-0"]
    assert made.kills == (["job-0"] if kind is Kills else []), "cancel_job is enough"


@pytest.mark.parametrize("error", [ValueError("a bug"), SystemExit(1), KeyboardInterrupt()])
def test_a_failure_with_tries_left_leaves_the_job_to_the_retry(error: BaseException) -> None:
    jobs, attempt = FakeJobs(scripts=LONG), task_context(retries=1)
    policy = ResumePolicy(cancel_on={"final_failure"}, poll=AT_ONCE)
    made, ending = attempted(attempt, jobs, policy=policy, during={"status": raising(error)})
    assert ending is error
    assert made.kills == []
    assert attempted(attempt.retry(), jobs)[1] == {"job": "job-0"}


@pytest.mark.parametrize(("cancel_on", "ends"), [({"timeout"}, True), ({"user"}, False)])
def test_a_poll_timeout_ends_the_job_if_the_policy_names_it(cancel_on: Any, ends: bool) -> None:  # noqa: FBT001
    jobs = FakeJobs(scripts=LONG)
    policy = ResumePolicy(cancel_on=cancel_on, poll=NO_TIME)
    made, ending = attempted(task_context(), jobs, policy=policy)
    assert isinstance(ending, JobWaitTimeoutError)
    assert made.kills == (["job-0"] if ends else [])


@pytest.mark.parametrize("options", [{"policy": ResumePolicy(cancel_on={"timeout"}, poll=AT_ONCE)}, {"durable": False}])
def test_an_execution_timeout_ends_the_job_once(options: Any) -> None:
    jobs = FakeJobs(scripts=LONG)
    made, ending = attempted(task_context(), jobs, during={"status": raising(AirflowTaskTimeout())}, **options)
    try:
        raise ending
    except AirflowTaskTimeout:  # as Airflow does around `execute`
        made.on_kill()
    assert made.kills == ["job-0"]


def test_marked_failed_during_its_submit_the_job_is_ended_as_soon_as_its_id_is_known() -> None:
    jobs, attempt = FakeJobs(scripts=LONG), task_context()

    def marked(operator: Any) -> None:
        attempt.mark("failed")
        operator.on_kill()

    made, ending = attempted(attempt, jobs, during={"submit": marked})
    assert isinstance(ending, TaskStoppedError)
    assert made.kills == [None, "job-0"], "Airflow's call came too early"
    assert calls(jobs, "cancel") == ["job-0"]


def test_marked_failed_while_it_waits_the_job_is_ended_once() -> None:
    jobs, attempt = FakeJobs(scripts=LONG), task_context()

    def marked(operator: Any) -> None:
        attempt.mark("failed")
        operator.on_kill()

    made, ending = attempted(attempt, jobs, during={"status": marked})
    assert isinstance(ending, TaskStoppedError)
    assert made.kills == ["job-0"]


@pytest.mark.parametrize("kind", [Kills, CancelsAndKills])
def test_a_clear_after_a_crash_ends_the_old_job_once_and_then_submits(kind: type[Kills]) -> None:
    jobs, attempt = FakeJobs(scripts=LONG), task_context()
    attempted(attempt, jobs, policy=ResumePolicy(poll=NO_TIME))
    made, result = attempted(attempt.clear(), jobs, kind=kind)
    assert result == {"job": "job-1"}
    assert calls(jobs, "cancel") == ["job-0"]
    assert made.kills == (["job-0"] if kind is Kills else [])
    assert jobs.most_alive == 1


def test_a_stray_is_ended_once_before_another_job_is_submitted(monkeypatch: pytest.MonkeyPatch) -> None:
    class Searches(Kills):
        def find_jobs(self, slot: str, context: Any) -> Any:
            return self.jobs.find_jobs(slot)

    monkeypatch.setenv("AIRFLOW__AIRFLOW_RESUME__DEPLOYMENT", "production")
    jobs, attempt = FakeJobs(scripts=LONG, can_find_by_slot=True), task_context()
    attempted(attempt, jobs, kind=Searches, policy=ResumePolicy(poll=NO_TIME))
    made, result = attempted(attempt.recreate(), jobs, kind=Searches)
    assert result == {"job": "job-1"}
    assert made.kills == ["job-0"]
    assert jobs.most_alive == 1


# --- never for another attempt's job --------------------------------------------------------------------------


def test_an_attempt_that_was_replaced_never_ends_the_job_that_is_its_successors() -> None:
    jobs, attempt = FakeJobs(scripts=LONG), task_context(retries=0)

    def replaced(operator: Any) -> None:
        attempt.supersede()
        operator.on_kill()

    every: Any = {"user", "shutdown", "timeout", "final_failure"}
    policy = ResumePolicy(cancel_on=every, poll=AT_ONCE)
    made, ending = attempted(attempt, jobs, policy=policy, during={"status": replaced})
    assert isinstance(ending, SupersededError)
    assert (made.kills, calls(jobs, "cancel")) == ([], [])


@pytest.mark.parametrize("kind", [Kills, CancelsAndKills])
def test_a_job_that_has_ended_by_itself_is_not_ended(kind: type[Kills]) -> None:
    every: Any = {"user", "shutdown", "timeout", "final_failure"}
    jobs = FakeJobs(scripts=[["RUNNING", "FAILED"]])
    policy = ResumePolicy(cancel_on=every, poll=AT_ONCE)
    made, ending = attempted(task_context(retries=0), jobs, kind=kind, policy=policy)
    assert "ended without success" in str(ending)
    assert (made.kills, calls(jobs, "cancel")) == ([], [])


# --- not durable ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("poll", "during"),
    [
        (AT_ONCE, {"status": raising(ValueError("a bug"))}),
        (AT_ONCE, {"status": raising(KeyboardInterrupt())}),
        (AT_ONCE, {"status": lambda operator: operator.on_kill()}),
        (AT_ONCE, {"submit": lambda operator: operator.on_kill()}),
        (NO_TIME, {}),
    ],
)
@pytest.mark.parametrize("kind", [Kills, CancelsAndKills])
def test_a_job_that_is_not_durable_ends_with_its_attempt_however_that_ends(
    kind: type[Kills], poll: PollPolicy, during: Any
) -> None:
    """Nobody would ever come back for it, whatever the policy says and however many tries are left."""
    jobs = FakeJobs(scripts=LONG)
    _, ending = attempted(
        task_context(), jobs, kind=kind, policy=ResumePolicy(poll=poll, cancel_on=()), during=during, durable=False
    )
    assert isinstance(ending, BaseException)
    assert calls(jobs, "cancel") == ["job-0"]


def test_a_job_that_is_not_durable_and_has_a_result_is_left_alone() -> None:
    jobs = FakeJobs(scripts=LONG)
    made, result = attempted(task_context(), jobs, durable=False, policy=ResumePolicy(poll=AT_ONCE))
    assert result == {"job": "job-0"}
    assert (made.kills, calls(jobs, "cancel")) == ([], [])


# --- an on_kill that does not do what it should ---------------------------------------------------------------


def test_an_on_kill_that_raises_is_tried_again_by_the_retry_and_no_second_job_runs() -> None:
    jobs, attempt = FakeJobs(scripts=LONG), task_context()
    attempted(attempt, jobs, policy=ResumePolicy(poll=NO_TIME))
    cleared = attempt.clear()
    broken = ConnectionError("on_kill broke")
    made, ending = attempted(cleared, jobs, during={"on_kill": raising(broken)})
    assert ending is broken
    assert (made.kills, len(jobs.jobs)) == (["job-0"], 1)
    made, result = attempted(cleared.retry(), jobs)
    assert result == {"job": "job-1"}
    assert (made.kills, jobs.most_alive) == (["job-0"], 1)


def test_an_on_kill_that_raises_at_a_final_failure_does_not_hide_it_and_the_job_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    jobs, error = FakeJobs(scripts=LONG), ValueError("a bug")
    during = {"status": raising(error), "on_kill": raising(ConnectionError("on_kill broke"))}
    policy = ResumePolicy(cancel_on={"final_failure"}, poll=AT_ONCE)
    made, ending = attempted(task_context(retries=0), jobs, policy=policy, during=during)
    assert ending is error
    assert made.kills == ["job-0"]
    assert "The job 'job-0' could not be cancelled, and may be running" in caplog.text


def test_the_end_of_a_job_that_on_kill_does_not_end_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    jobs, attempt = FakeJobs(scripts=LONG), task_context()
    attempted(attempt, jobs, policy=ResumePolicy(poll=NO_TIME))
    with caplog.at_level(logging.INFO):
        made, result = attempted(attempt.clear(), jobs, kind=KillsInVain)
    assert result == {"job": "job-1"}
    assert (made.kills, jobs.most_alive) == (["job-0"], 1)
    assert "wait for the end (slot 'job', job 'job-0'" in caplog.text


def test_marked_failed_while_the_end_of_the_old_job_is_waited_for_its_end_is_not_asked_for_again() -> None:
    jobs, attempt = FakeJobs(scripts=LONG), task_context()
    attempted(attempt, jobs, policy=ResumePolicy(poll=NO_TIME))
    cleared = attempt.clear()

    class MarkedLater(KillsInVain):
        def get_job_status(self, external_id: Any, context: Any) -> str:
            if self.kills:
                self._happens("wait for the end")
            return super().get_job_status(external_id, context)

    def marked(operator: Any) -> None:
        cleared.mark("failed")
        operator.on_kill()

    made, ending = attempted(cleared, jobs, kind=MarkedLater, during={"wait for the end": marked})
    assert isinstance(ending, TaskStoppedError)
    assert made.kills == ["job-0"]
    assert len(jobs.jobs) == 1


def test_marked_failed_with_both_cancel_job_comes_first_and_then_on_kill() -> None:
    jobs, attempt = FakeJobs(scripts=LONG), task_context()
    order: list[str] = []
    jobs.observer = lambda when, call: order.append(call) if when == "before" and call == "cancel" else None

    class Ordered(CancelsAndKills):
        def end(self) -> None:
            order.append("on_kill")

    def marked(operator: Any) -> None:
        attempt.mark("failed")
        operator.on_kill()

    _, ending = attempted(attempt, jobs, kind=Ordered, during={"status": marked})
    assert isinstance(ending, TaskStoppedError)
    assert order == ["cancel", "on_kill"]
