"""That a job is gone, or has failed, is believed when it was said more than once: how often, and for how long."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from airflow_resume import PollPolicy, ResumePolicy
from airflow_resume.errors import JobError, JobFailedError, JobFailedForGoodError, JobGoneError
from airflow_resume.jobs import JobRun
from airflow_resume.jobs.poll import Clock
from airflow_resume.testing import FakeJobs, TaskAttempt, task_context
from airflow_resume.testing.fakes.clock import FakeClock

INTERVAL, GRACE = 20, 100
POLL = PollPolicy(interval=timedelta(seconds=INTERVAL), backoff=1, jitter=0)
POLICY = ResumePolicy(poll=POLL, confirm_gone=timedelta(seconds=GRACE))
FINAL = ResumePolicy(poll=POLL, confirm_gone=POLICY.confirm_gone, on_failed_job="fail", on_gone_job="fail")


class TimedJobs(FakeJobs):
    """Its first job says the given words, one at each question, and the last one from then on; when it was asked."""

    def __init__(self, words: Sequence[str], clock: FakeClock) -> None:
        super().__init__(scripts=[list(words), ["SUCCEEDED"]], can_find=False)
        self.clock = clock
        self.asked_at: list[float] = []
        self.submitted_at: list[float] = []

    def status(self, external_id: Any, /) -> str:
        if external_id == "job-0":
            self.asked_at.append(self.clock.monotonic())
        return super().status(external_id)

    def submit(self, token: str | None = None, /) -> Any:
        self.submitted_at.append(self.clock.monotonic())
        return super().submit(token)


class Told:
    """An attempt that submitted a job, and died; the next one is told the words."""

    def __init__(self, *words: str) -> None:
        self.clock = FakeClock()
        self.jobs = TimedJobs(["RUNNING"], self.clock)
        self.attempt = task_context()
        impatient = ResumePolicy(poll=PollPolicy(timeout=timedelta(0)))
        with pytest.raises(JobError, match=r"poll\.timeout"):
            self.run(impatient, self.attempt)
        self.jobs.jobs[0].states = list(words)
        self.jobs.asked_at.clear()
        self.began = self.clock.monotonic()

    def run(self, policy: ResumePolicy = POLICY, attempt: TaskAttempt | None = None) -> Any:
        context = (attempt or self.attempt.retry()).context
        clock = Clock(monotonic=self.clock.monotonic, sleep=self.clock.sleep, random=lambda: 0.0)
        return JobRun(self.jobs, policy=policy, context=context, clock=clock, now=self.clock.now).run()

    @property
    def asked(self) -> list[float]:
        """When, in seconds from the begin of the second attempt."""
        return [at - self.began for at in self.jobs.asked_at]

    @property
    def waited(self) -> float:
        """Seconds until the second job was submitted."""
        return self.jobs.submitted_at[1] - self.began


# --- in the retry ---------------------------------------------------------------------------------------------


def test_a_gone_job_is_asked_for_until_the_grace_period_is_over() -> None:
    told = Told("GONE")
    assert told.run() == {"job": "job-1"}
    assert told.asked == [0, 20, 40, 60, 80, 100]
    assert told.waited == GRACE


@pytest.mark.parametrize(("grace", "asked"), [(0, [0, 0]), (1, [0, 1]), (25, [0, 20, 40])])
def test_however_short_that_is_it_is_asked_for_twice(grace: int, asked: list[float]) -> None:
    told = Told("GONE")
    assert told.run(ResumePolicy(poll=POLL, confirm_gone=timedelta(seconds=grace))) == {"job": "job-1"}
    assert told.asked == asked


def test_a_job_that_failed_is_asked_for_once_more_after_one_interval() -> None:
    told = Told("FAILED")
    assert told.run() == {"job": "job-1"}
    assert told.asked == [0, INTERVAL]
    assert told.waited == INTERVAL


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        # Whatever else is said, it was not gone, and is waited for.
        (["GONE", "RUNNING", "SUCCEEDED"], [0, 20, 20]),
        (["GONE", "GONE", "GONE", "RUNNING", "SUCCEEDED"], [0, 20, 40, 60, 60]),
        (["GONE", "heard of by nobody", "SUCCEEDED"], [0, 20, 20]),
        (["GONE", "SUCCEEDED"], [0, 20]),
        (["FAILED", "RUNNING", "SUCCEEDED"], [0, 20, 20]),
        (["FAILED", "heard of by nobody", "SUCCEEDED"], [0, 20, 20]),
        (["FAILED", "SUCCEEDED"], [0, 20]),
        # One doubt after the other: each is settled by itself.
        (["FAILED", "GONE", "RUNNING", "SUCCEEDED"], [0, 20, 40, 40]),
        (["GONE", "FAILED", "RUNNING", "SUCCEEDED"], [0, 20, 40, 40]),
        (["GONE", "FAILED", "GONE", "FAILED", "SUCCEEDED"], [0, 20, 40, 60, 80]),
        (["FAILED", "RUNNING", "FAILED", "RUNNING", "GONE", "RUNNING", "SUCCEEDED"], [0, 20, 20, 40, 40, 60, 60]),
    ],
    ids=str,
)
def test_a_job_that_is_there_after_all_keeps_its_place(words: list[str], asked: list[float]) -> None:
    told = Told(*words)
    assert told.run() == {"job": "job-0"}
    assert told.asked == asked
    assert len(told.jobs.jobs) == 1


@pytest.mark.parametrize(
    ("words", "waited"), [(["FAILED", "GONE"], 20 + GRACE), (["GONE", "GONE", "FAILED"], 40 + INTERVAL)], ids=str
)
def test_a_doubt_that_becomes_another_one_is_settled_anew(words: list[str], waited: float) -> None:
    told = Told(*words)
    assert told.run() == {"job": "job-1"}
    assert told.waited == waited


@pytest.mark.parametrize(
    ("words", "error", "asked"),
    [(["FAILED"], JobFailedForGoodError, [0, 20]), (["GONE"], JobGoneError, [0, 20, 40, 60, 80, 100])],
)
def test_a_policy_that_allows_no_other_job_fails_only_when_it_is_certain(
    words: list[str], error: type[JobError], asked: list[float]
) -> None:
    told = Told(*words)
    with pytest.raises(error):
        told.run(FINAL)
    assert told.asked == asked
    assert len(told.jobs.jobs) == 1
    doubtful = Told(*words, "RUNNING", "SUCCEEDED")
    assert doubtful.run(FINAL) == {"job": "job-0"}


# --- in the attempt that waits for it -------------------------------------------------------------------------


def test_an_own_job_that_failed_is_asked_for_once_more_and_left_to_the_retry() -> None:
    told = Told("RUNNING", "RUNNING", "FAILED")
    with pytest.raises(JobFailedError):
        told.run()
    assert told.asked == [0, 0, 20, 40]
    assert len(told.jobs.jobs) == 1


def test_an_own_job_that_is_gone_is_asked_for_over_the_grace_period_and_left_to_the_retry() -> None:
    told = Told("RUNNING", "GONE")
    with pytest.raises(JobError, match="vanished"):
        told.run()
    assert told.asked == [0, *range(0, GRACE + 1, INTERVAL)]
    assert len(told.jobs.jobs) == 1


def test_the_retry_asks_once_more_about_a_job_on_record_as_failed() -> None:
    told = Told("RUNNING", "FAILED")
    attempt = told.attempt.retry()
    with pytest.raises(JobFailedError):
        told.run(attempt=attempt)
    told.jobs.asked_at.clear()
    assert told.run(attempt=attempt.retry()) == {"job": "job-1"}
    assert len(told.jobs.asked_at) == 1


def test_and_takes_it_back_if_the_job_system_has_tried_it_again_by_itself() -> None:
    told = Told("RUNNING", "FAILED")
    attempt = told.attempt.retry()
    with pytest.raises(JobFailedError):
        told.run(attempt=attempt)
    told.jobs.jobs[0].states = ["RUNNING", "RUNNING", "SUCCEEDED"]
    assert told.run(attempt=attempt.retry()) == {"job": "job-0"}
    assert len(told.jobs.jobs) == 1


# --- an unwanted job ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("word", "waited"), [("FAILED", INTERVAL), ("GONE", GRACE)])
def test_the_end_of_a_job_that_is_not_wanted_is_confirmed_too(word: str, waited: float) -> None:
    told = Told(word)
    assert told.run(attempt=told.attempt.clear()) == {"job": "job-1"}
    assert told.waited == waited


def test_a_job_that_is_not_wanted_and_only_seemed_gone_is_cancelled_before_another_is_submitted() -> None:
    told = Told("GONE", "RUNNING", "RUNNING")
    assert told.run(attempt=told.attempt.clear()) == {"job": "job-1"}
    assert told.jobs.most_alive == 1
    assert [event.job for event in told.jobs.events if event.call == "cancel"] == ["job-0"]


# --- a token --------------------------------------------------------------------------------------------------


class LateIndex(FakeJobs):
    """It finds a job at the nth question only."""

    from_question = 1

    def find(self, token: str, /) -> Any:
        found = super().find(token)
        return found if [event.call for event in self.events].count("find") >= self.from_question else None


@pytest.mark.parametrize(
    ("from_question", "jobs_in_the_end", "seconds"), [(1, 1, 0), (2, 1, 20), (6, 1, 100), (7, 2, 100)]
)
def test_a_token_that_leads_to_no_job_is_asked_for_over_the_grace_period(
    from_question: int, jobs_in_the_end: int, seconds: float
) -> None:
    clock, attempt = FakeClock(), task_context()
    jobs = LateIndex(scripts=[["SUCCEEDED"]])
    jobs.from_question = from_question
    jobs.fail_next("submit", TimeoutError("a bad line"), applied=True)
    timing = Clock(monotonic=clock.monotonic, sleep=clock.sleep, random=lambda: 0.0)
    with pytest.raises(TimeoutError, match="a bad line"):
        JobRun(jobs, policy=POLICY, context=attempt.context, clock=timing, now=clock.now).run()
    jobs.events.clear()
    JobRun(jobs, policy=POLICY, context=attempt.retry().context, clock=timing, now=clock.now).run()
    assert len(jobs.jobs) == jobs_in_the_end
    assert clock.monotonic() == seconds
