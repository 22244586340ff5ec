"""Why an attempt ends before its job, and what becomes of the job. `pytest -s` prints the tables."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import pytest
from airflow.sdk.exceptions import AirflowRescheduleException, AirflowTaskTimeout

from airflow_resume import PollPolicy, ResumePolicy, killed, run_job
from airflow_resume.channel import InlineChannel, ThreadChannel
from airflow_resume.errors import JobFailedError, JobWaitTimeoutError, SupersededError, TaskStoppedError
from airflow_resume.jobs.ending import (
    DELETED,
    Ending,
    KillFacts,
    ending_of_kill,
    ending_of_trigger,
    goes_with_it,
    learn_about_kill,
)
from airflow_resume.jobs.policy import CancelOn
from airflow_resume.killed import MARKED
from airflow_resume.testing import FakeJobs, TaskAttempt, task_context

KILLS = {
    "execution_timeout": (KillFacts(timed_out=True), Ending.TIMEOUT),
    "marked failed": (KillFacts(record_visible=True, task_state="failed"), Ending.USER),
    "marked successful": (KillFacts(record_visible=True, task_state="success"), Ending.USER),
    "marked failed before anything was written": (KillFacts(task_state="failed"), Ending.USER),
    "cleared while running": (KillFacts(record_visible=False, task_state="restarting"), Ending.CLEARED),
    "deploy": (KillFacts(record_visible=True, task_state="running"), Ending.SHUTDOWN),
    "deploy before anything was written": (KillFacts(task_state="running"), Ending.UNKNOWN),
    "replaced, the next one runs": (KillFacts(record_visible=False, task_state="running"), Ending.REPLACED),
    "replaced, the next one was marked failed": (KillFacts(record_visible=False, task_state="failed"), Ending.REPLACED),
    "replaced, the next one waits": (KillFacts(record_visible=False, task_state="up_for_retry"), Ending.REPLACED),
    "drained": (KillFacts(drained=True, record_visible=True, task_state="running"), Ending.SHUTDOWN),
    "drained, no answer": (KillFacts(drained=True), Ending.SHUTDOWN),
    "drained, no answer about the state": (KillFacts(drained=True, record_visible=True), Ending.SHUTDOWN),
    "drained before anything was written": (KillFacts(drained=True, task_state="running"), Ending.UNKNOWN),
    "drained and marked failed": (KillFacts(drained=True, record_visible=True, task_state="failed"), Ending.USER),
    "drained and replaced": (KillFacts(drained=True, record_visible=False, task_state="running"), Ending.REPLACED),
    "drained, replaced, no answer about the state": (KillFacts(drained=True, record_visible=False), Ending.UNKNOWN),
    "no answer": (KillFacts(), Ending.UNKNOWN),
    "no answer about the state": (KillFacts(record_visible=True), Ending.UNKNOWN),
    "queued under our feet": (KillFacts(record_visible=True, task_state="queued"), Ending.UNKNOWN),
}


NEVER_OF_A_TRIGGER = {
    Ending.SHUTDOWN: "another triggerer takes the trigger over, and the task stays deferred",
    Ending.FAILURE: "a trigger that raises is not taken away: it ends by itself",
}
"""Why a task that waits in the triggerer does not end so."""


def test_each_ending_is_found_by_the_trigger_or_it_is_written_down_why_not() -> None:
    states = [None, DELETED, "restarting", "scheduled", "deferred", *MARKED]
    found = {ending_of_trigger(state, is_due=is_due) for state in states for is_due in (False, True)}
    assert found == set(Ending) - set(NEVER_OF_A_TRIGGER)


@pytest.mark.parametrize(("facts", "expected"), KILLS.values(), ids=KILLS)
def test_the_reason_of_a_kill(facts: KillFacts, expected: Ending, request: pytest.FixtureRequest) -> None:
    print(f"{request.node.callspec.id:45} -> {expected.value}")
    assert ending_of_kill(facts) is expected


EVERY: frozenset[CancelOn] = frozenset(get_args(CancelOn))
NEVER_NAMED = {Ending.CLEARED, Ending.FAILURE, Ending.REPLACED, Ending.UNKNOWN}
"""Endings that go by another reason, or never take the job along."""


def test_each_ending_that_may_take_the_job_along_can_be_named() -> None:
    assert {why.value for why in Ending if why not in NEVER_NAMED} == EVERY - {"final_failure"}


def test_the_page_has_a_row_for_each_reason() -> None:
    page = (Path(__file__).parents[3] / "docs" / "jobs.md").read_text()
    assert [reason for reason in EVERY if f'`"{reason}"` |' not in page] == []


@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("why", Ending)
def test_a_job_goes_with_its_task_exactly_when_the_policy_names_the_reason(why: Ending, final: bool) -> None:  # noqa: FBT001
    named = {"user"} if why is Ending.CLEARED else {why.value} & EVERY
    if final and why in {Ending.TIMEOUT, Ending.FAILURE}:
        named |= {"final_failure"}
    print(f"{why.value:10} {'last try' if final else 'retries left':12} -> {sorted(named) or 'never'}")
    for choice in EVERY:
        policy = ResumePolicy(cancel_on={choice})
        assert goes_with_it(why, policy, final=final) is (choice in named)
    assert not goes_with_it(why, ResumePolicy(cancel_on=()), final=final)


def test_by_default_only_a_person_ends_a_job() -> None:
    assert [why for why in Ending if goes_with_it(why, ResumePolicy(), final=True)] == [Ending.USER, Ending.CLEARED]


@pytest.mark.parametrize(("value", "error"), [({"users"}, ValueError), ("user", TypeError), (None, TypeError)])
def test_a_reason_that_does_not_exist_is_refused(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="cancel_on"):
        ResumePolicy(cancel_on=value)


# --- asking ---------------------------------------------------------------------------------------------------


def no_answer() -> str | None:
    raise ConnectionResetError


def test_a_question_that_fails_is_an_unknown_reason(caplog: pytest.LogCaptureFixture) -> None:
    facts = learn_about_kill(InlineChannel(), ask_state=no_answer, sees_record=lambda: True)
    assert facts == KillFacts()
    assert "could not be learned" in caplog.text


def test_a_channel_that_is_busy_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(killed, "ANSWER_SECONDS", 0.01)
    channel, free = ThreadChannel(), threading.Event()
    channel.submit(free.wait)
    try:
        assert learn_about_kill(channel, ask_state=lambda: "failed", sees_record=lambda: True) == KillFacts()
    finally:
        free.set()


def test_a_time_out_needs_no_question() -> None:
    try:
        raise AirflowTaskTimeout  # noqa: TRY301
    except AirflowTaskTimeout:
        facts = learn_about_kill(InlineChannel(), ask_state=no_answer, sees_record=lambda: True)
    assert facts == KillFacts(timed_out=True)


# --- a job that runs while its task is ended ------------------------------------------------------------------


class KilledJobs(FakeJobs):
    """Something happens to the task in the middle of a call."""

    during: str = "status"
    event: Callable[[], object] = staticmethod(lambda: None)

    def _happens(self, call: str) -> None:
        if call == self.during:
            event, self.event = self.event, lambda: None  # type: ignore[method-assign]
            event()

    def submit(self, token: str | None = None, /) -> Any:
        submitted = super().submit(token)
        self._happens("submit")
        return submitted

    def status(self, external_id: str, /) -> str:
        self._happens("status")
        return super().status(external_id)

    def calls(self, name: str) -> int:
        return sum(event.call == name for event in self.events)


def killed_while(
    jobs: KilledJobs, attempt: TaskAttempt, event: Callable[[], object], policy: ResumePolicy | None = None
) -> Any:
    def happens() -> None:
        event()
        attempt.ti.task.on_kill()

    jobs.event = happens  # type: ignore[method-assign]
    fast = PollPolicy(interval=timedelta(0), max_interval=timedelta(0))
    return run_job(jobs, policy=policy or ResumePolicy(poll=fast), context=attempt.context)


LONG = (("RUNNING",) * 5 + ("SUCCEEDED",),)


@pytest.mark.parametrize("state", ["failed", "success"])
@pytest.mark.parametrize("during", ["submit", "status"])
def test_a_person_who_marks_the_task_ends_its_job_once_and_no_other_is_submitted(
    state: Any, during: str, caplog: pytest.LogCaptureFixture
) -> None:
    jobs, attempt = KilledJobs(scripts=LONG), task_context()
    jobs.during = during
    with pytest.raises(TaskStoppedError):
        killed_while(jobs, attempt, lambda: attempt.mark(state))
    assert (jobs.calls("submit"), jobs.calls("cancel"), jobs.most_alive) == (1, 1, 1)
    assert "left alone" not in caplog.text


def test_a_person_who_marks_a_success_at_which_airflow_deletes_the_record_ends_the_job_and_leaves_no_other_alive() -> (
    None
):
    """With `clear_on_success` the record of a task that is marked is gone before `on_kill` is called."""
    jobs, attempt = KilledJobs(scripts=LONG), task_context()
    jobs.during = "status"

    def mark_and_delete() -> None:
        attempt.mark("success")
        attempt.task_store.clear()

    with pytest.raises(TaskStoppedError):
        killed_while(jobs, attempt, mark_and_delete)
    assert (jobs.calls("submit"), jobs.calls("cancel")) == (1, 1)
    following = attempt.clear()
    jobs.during = ""
    run_job(jobs, context=following.context)
    assert (jobs.calls("submit"), jobs.most_alive) == (2, 1)


@pytest.mark.parametrize("during", ["submit", "status"])
def test_a_person_who_clears_the_running_task_ends_its_job_once(during: str) -> None:
    jobs, attempt = KilledJobs(scripts=LONG), task_context()
    jobs.during = during
    following: list[TaskAttempt] = []
    with pytest.raises(Exception, match=r"ended from outside|replaced"):
        killed_while(jobs, attempt, lambda: following.append(attempt.clear(while_running=True)))
    if during == "status":
        assert jobs.calls("cancel") == 1
    with following[0] as cleared:
        assert run_job(jobs, context=cleared.context, policy=FAST) == {"job": "job-1"}
    assert (jobs.calls("submit"), jobs.most_alive) == (2, 1)


FAST = ResumePolicy(poll=PollPolicy(interval=timedelta(0), max_interval=timedelta(0)))


def test_a_clear_that_is_treated_like_a_retry_leaves_the_job_to_the_next_attempt() -> None:
    jobs, attempt = KilledJobs(scripts=LONG), task_context()
    resuming = ResumePolicy(on_clear="resume", poll=FAST.poll)
    following: list[TaskAttempt] = []
    with pytest.raises(SupersededError):
        killed_while(jobs, attempt, lambda: following.append(attempt.clear(while_running=True)), resuming)
    assert jobs.calls("cancel") == 0
    with following[0] as cleared:
        assert run_job(jobs, context=cleared.context, policy=resuming) == {"job": "job-0"}
    assert (jobs.calls("submit"), jobs.calls("cancel")) == (1, 0)


def test_a_deploy_leaves_the_job_alone_and_the_task_comes_back_in_the_same_try() -> None:
    jobs, attempt = KilledJobs(scripts=LONG), task_context()
    with pytest.raises(AirflowRescheduleException) as raised:
        killed_while(jobs, attempt, lambda: None)
    assert raised.value.reschedule_date - attempt.world.clock.now() > timedelta(seconds=10)
    assert run_job(jobs, context=attempt.retry().context, policy=FAST) == {"job": "job-0"}
    assert (jobs.calls("cancel"), jobs.calls("submit")) == (0, 1)


def test_a_deploy_in_the_middle_of_the_submit_gives_the_slot_back_with_the_id_saved() -> None:
    jobs, attempt = KilledJobs(scripts=LONG, can_find=False), task_context()
    jobs.during = "submit"
    with pytest.raises(AirflowRescheduleException):
        killed_while(jobs, attempt, lambda: None)
    assert run_job(jobs, context=attempt.retry().context, policy=FAST) == {"job": "job-0"}


def test_a_deploy_may_be_waited_through_and_the_attempt_may_still_return_its_result() -> None:
    jobs, attempt = KilledJobs(scripts=LONG), task_context()
    policy = ResumePolicy(on_shutdown="wait", poll=FAST.poll)
    assert killed_while(jobs, attempt, lambda: None, policy) == {"job": "job-0"}
    assert jobs.calls("cancel") == 0


def test_a_deploy_ends_the_job_if_the_policy_says_so_and_the_next_attempt_submits_another() -> None:
    jobs, attempt = KilledJobs(scripts=LONG), task_context()
    policy = ResumePolicy(cancel_on={"shutdown"}, poll=FAST.poll)
    with pytest.raises(TaskStoppedError):
        killed_while(jobs, attempt, lambda: None, policy)
    assert run_job(jobs, context=attempt.retry().context, policy=FAST) == {"job": "job-1"}
    assert (jobs.calls("cancel"), jobs.most_alive) == (1, 1)


def test_a_replaced_attempt_leaves_its_successors_job_alone() -> None:
    jobs, attempt = KilledJobs(scripts=LONG), task_context()
    with pytest.raises(SupersededError):
        killed_while(jobs, attempt, attempt.supersede, ResumePolicy(cancel_on=EVERY, poll=FAST.poll))
    assert jobs.calls("cancel") == 0


def test_a_reason_that_cannot_be_learned_leaves_the_job_alone(caplog: pytest.LogCaptureFixture) -> None:
    jobs, attempt = KilledJobs(scripts=LONG), task_context()
    with caplog.at_level(logging.INFO):
        attempt.ti.get_task_states = no_answer  # type: ignore[method-assign, assignment]
        killed_while(jobs, attempt, lambda: None, ResumePolicy(cancel_on=EVERY, poll=FAST.poll))
    assert "left alone" in caplog.text
    assert jobs.calls("cancel") == 0


def test_the_time_out_of_the_task_leaves_the_job_to_the_retry() -> None:
    jobs, attempt = KilledJobs(scripts=LONG), task_context()
    jobs.event = lambda: (_ for _ in ()).throw(AirflowTaskTimeout())  # type: ignore[method-assign]
    with pytest.raises(AirflowTaskTimeout):
        run_job(jobs, context=attempt.context, policy=FAST)
    assert run_job(jobs, context=attempt.retry().context, policy=FAST) == {"job": "job-0"}


@pytest.mark.parametrize(("cancel_on", "retries", "cancels"), [
    ({"timeout"}, 3, 1), ({"final_failure"}, 3, 0), ({"final_failure"}, 0, 1), ({"user"}, 0, 0),
])  # fmt: skip
@pytest.mark.parametrize("kind", ["execution_timeout", "poll.timeout"])
def test_a_time_out_ends_the_job_when_the_policy_names_it_or_when_it_is_the_last(
    kind: str, cancel_on: Any, retries: int, cancels: int
) -> None:
    jobs, attempt = KilledJobs(scripts=LONG), task_context(retries=retries)
    timeout = timedelta(0) if kind == "poll.timeout" else None
    policy = ResumePolicy(
        cancel_on=cancel_on, poll=PollPolicy(interval=timedelta(0), max_interval=timedelta(0), timeout=timeout)
    )
    if timeout is None:
        jobs.event = lambda: (_ for _ in ()).throw(AirflowTaskTimeout())  # type: ignore[method-assign]
    with pytest.raises((AirflowTaskTimeout, JobWaitTimeoutError)):
        run_job(jobs, context=attempt.context, policy=policy)
    assert jobs.calls("cancel") == cancels


def test_the_last_attempt_that_fails_ends_its_job_when_the_policy_says_so() -> None:
    jobs, attempt = KilledJobs(scripts=LONG), task_context(retries=0)
    jobs.event = lambda: (_ for _ in ()).throw(ValueError("a bug in the hook"))  # type: ignore[method-assign]
    with pytest.raises(ValueError, match="a bug"):
        run_job(jobs, context=attempt.context, policy=ResumePolicy(cancel_on={"final_failure"}))
    assert jobs.calls("cancel") == 1


def test_a_job_that_failed_by_itself_is_not_cancelled() -> None:
    jobs = KilledJobs(scripts=[["FAILED"]])
    with pytest.raises(JobFailedError):
        run_job(jobs, context=task_context(retries=0).context, policy=ResumePolicy(cancel_on=EVERY))
    assert jobs.calls("cancel") == 0


def test_a_job_that_cannot_be_cancelled_is_named(caplog: pytest.LogCaptureFixture) -> None:
    jobs, attempt = KilledJobs(scripts=LONG), task_context()
    jobs.fail_next("cancel", ConnectionResetError())
    with caplog.at_level(logging.ERROR), pytest.raises(TaskStoppedError):
        killed_while(jobs, attempt, lambda: attempt.mark("failed"))
    assert "'job-0' could not be cancelled, and may be running" in caplog.text


def test_a_job_that_nothing_can_cancel_is_named_at_error(caplog: pytest.LogCaptureFixture) -> None:
    jobs, attempt = KilledJobs(scripts=LONG, can_cancel=False), task_context()
    with pytest.raises(TaskStoppedError):
        killed_while(jobs, attempt, lambda: attempt.mark("failed"))
    (line,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "its job 'job-0' cannot be cancelled and keeps running" in line.getMessage()


def test_a_kill_before_anything_is_submitted_submits_nothing() -> None:
    class Slow(KilledJobs):
        def find(self, token: str, /) -> Any:
            self._happens("find")
            return super().find(token)

    jobs, attempt = Slow(scripts=LONG), task_context()
    jobs.fail_next("submit", TimeoutError())
    with pytest.raises(TimeoutError):
        run_job(jobs, context=attempt.context)
    jobs.during = "find"
    second = attempt.retry()
    with pytest.raises(TaskStoppedError):
        killed_while(jobs, second, lambda: second.mark("failed"))
    assert jobs.jobs == []


def test_the_own_on_kill_of_the_task_is_called_as_well() -> None:
    calls: list[str] = []
    jobs, attempt = KilledJobs(scripts=LONG), task_context()
    attempt.ti.task.on_kill = lambda: calls.append("own")
    with pytest.raises(AirflowRescheduleException):
        killed_while(jobs, attempt, lambda: None)
    assert calls == ["own"]
