"""How an attempt waits: for unknown words, on slow questions, on a clock that goes back, and what it says meanwhile."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import BaseOperator

from airflow_resume import PollPolicy, ResumePolicy
from airflow_resume.errors import JobStatusUnknownError, JobWaitTimeoutError
from airflow_resume.jobs import JobRun
from airflow_resume.jobs.poll import REPORT_SECONDS, Clock
from airflow_resume.testing import FakeJobs, task_context
from airflow_resume.testing.fakes.clock import FakeClock
from airflow_resume_mixins import ResumableJobMixin
from tests.support.jobs.hooks import JobHooks

NOW = timedelta(0)
HOUR = timedelta(hours=1)
AT_ONCE = PollPolicy(interval=NOW, max_interval=NOW, jitter=0)


class SlowJobs(FakeJobs):
    """Every question for a status takes its time."""

    def __init__(self, *words: str, clock: FakeClock, takes: timedelta = NOW) -> None:
        super().__init__(scripts=[list(words)])
        self.clock, self.takes = clock, takes
        self.questions = 0

    def status(self, external_id: Any, /) -> str:
        self.questions += 1
        self.clock.advance(self.takes)
        return super().status(external_id)


def waited(jobs: SlowJobs, policy: ResumePolicy) -> Any:
    clock = jobs.clock
    timing = Clock(monotonic=clock.monotonic, sleep=clock.sleep, random=lambda: 0.0)
    return JobRun(jobs, policy=policy, context=task_context().context, clock=timing, now=clock.now).run()


# --- unknown words --------------------------------------------------------------------------------------------


def test_no_patience_with_unknown_words_is_no_reason_to_give_up_a_running_job() -> None:
    jobs = SlowJobs(*["RUNNING"] * 5, "SUCCEEDED", clock=FakeClock())
    assert waited(jobs, ResumePolicy(poll=AT_ONCE, unknown_timeout=NOW)) == {"job": "job-0"}


def test_with_none_the_first_unknown_word_fails_the_attempt_and_leaves_the_job() -> None:
    jobs = SlowJobs("RUNNING", "HM", "SUCCEEDED", clock=FakeClock())
    with pytest.raises(JobStatusUnknownError, match="left alone"):
        waited(jobs, ResumePolicy(poll=AT_ONCE, unknown_timeout=NOW))
    assert (jobs.questions, len(jobs.jobs)) == (2, 1)


def test_questions_slower_than_the_patience_are_asked_twice_all_the_same() -> None:
    """One unknown answer is no time at all, however long it took."""
    jobs = SlowJobs("HM", clock=FakeClock(), takes=HOUR)
    with pytest.raises(JobStatusUnknownError):
        waited(jobs, ResumePolicy(poll=AT_ONCE, unknown_timeout=timedelta(minutes=10)))
    assert jobs.questions == 2


def test_one_known_word_in_between_begins_the_patience_anew() -> None:
    minutes = timedelta(minutes=6)
    jobs = SlowJobs(*["HM", "HM", "RUNNING"] * 3, "SUCCEEDED", clock=FakeClock(), takes=minutes)
    assert waited(jobs, ResumePolicy(poll=AT_ONCE, unknown_timeout=timedelta(minutes=10))) == {"job": "job-0"}


# --- the time-out of an attempt -------------------------------------------------------------------------------


def test_a_question_slower_than_the_time_out_is_answered_before_the_attempt_gives_up() -> None:
    poll = PollPolicy(interval=NOW, max_interval=NOW, timeout=timedelta(minutes=10))
    jobs = SlowJobs("RUNNING", "SUCCEEDED", clock=FakeClock(), takes=HOUR)
    with pytest.raises(JobWaitTimeoutError):
        waited(jobs, ResumePolicy(poll=poll))
    ended = SlowJobs("SUCCEEDED", clock=FakeClock(), takes=HOUR)
    assert waited(ended, ResumePolicy(poll=poll)) == {"job": "job-0"}


def test_a_clock_that_goes_backwards_times_nothing_out() -> None:
    seconds = iter(range(10**6, 0, -50))
    poll = PollPolicy(interval=NOW, max_interval=NOW, timeout=timedelta(seconds=1))
    jobs = FakeJobs(scripts=[["RUNNING", "HM", "HM", "RUNNING", "SUCCEEDED"]])
    run = JobRun(
        jobs,
        policy=ResumePolicy(poll=poll),
        context=task_context().context,
        clock=Clock(monotonic=lambda: next(seconds), sleep=lambda _seconds: None),
    )
    assert run.run() == {"job": "job-0"}


class WaitsByItself(JobHooks, ResumableJobMixin, BaseOperator):
    def poll_until_complete(self, external_id: Any, context: Any) -> None: ...


class WaitsInTheTriggerer(WaitsByItself):
    def job_trigger(self, external_id: Any, context: Any) -> Any: ...


def test_a_time_out_that_could_not_end_an_own_wait_is_refused_when_the_operator_is_made() -> None:
    policy = ResumePolicy(poll=PollPolicy(timeout=HOUR))
    with pytest.raises(ValueError, match=r"(?s)poll\.timeout=1:00:00 .* WaitsByItself.*\nUse execution_timeout="):
        WaitsByItself(task_id="train", resume_policy=policy)
    assert WaitsByItself(task_id="train").resume_policy.poll.timeout is None
    assert WaitsInTheTriggerer(task_id="train", resume_policy=policy).resume_policy is policy


# --- what it says ---------------------------------------------------------------------------------------------


def test_every_few_minutes_a_line_says_how_the_job_is_and_how_old(caplog: pytest.LogCaptureFixture) -> None:
    every_minute = PollPolicy(interval=timedelta(minutes=1), max_interval=timedelta(minutes=1), jitter=0)
    jobs = SlowJobs(*["RUNNING"] * 21, "SUCCEEDED", clock=FakeClock())
    with caplog.at_level(logging.INFO):
        waited(jobs, ResumePolicy(poll=every_minute))
    lines = [record.getMessage() for record in caplog.records if "is still" in record.getMessage()]
    assert timedelta(seconds=REPORT_SECONDS) == timedelta(minutes=5)
    assert lines == [
        f"Job 'job-0' is still active, submitted {age} ago" for age in ("0:05:00", "0:10:00", "0:15:00", "0:20:00")
    ]


def test_questions_that_are_slower_than_that_are_reported_each(caplog: pytest.LogCaptureFixture) -> None:
    jobs = SlowJobs("RUNNING", "CANCELLING", "CANCELLED", clock=FakeClock(), takes=HOUR)
    with caplog.at_level(logging.INFO), pytest.raises(Exception, match="ended without success"):
        waited(jobs, ResumePolicy(poll=AT_ONCE))
    lines = [record.getMessage() for record in caplog.records if "is still" in record.getMessage()]
    assert lines == [
        "Job 'job-0' is still active, submitted 1:00:00 ago",
        "Job 'job-0' is still cancelling, submitted 2:00:00 ago",
    ]
