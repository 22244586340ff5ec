"""A `find` that does not go by the token ends the attempt by name, and is not asked for ever."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from airflow.sdk import BaseOperator

from airflow_resume import PollPolicy, ResumePolicy, arun_job, run_job
from airflow_resume.errors import JobHookError
from airflow_resume.jobs.search import MOST_ENDED
from airflow_resume.testing import FakeJobs, TaskAttempt, task_context
from airflow_resume_mixins import ResumableJobMixin
from tests.support.jobs.hooks import LookUpHooks, equipped
from tests.support.kit.raised import having

KEY = "resume.job.job"
POLICY = ResumePolicy(poll=PollPolicy(interval=timedelta(0), max_interval=timedelta(0)), confirm_gone=timedelta(0))


class LatestJob(FakeJobs):
    """Answers with the last job of anybody, whatever the token is."""

    asked = 0

    def find(self, token: str, /) -> Any:
        self.asked += 1
        assert self.asked < 50, "asked for ever"
        assert token
        return self.jobs[-1].id


class AnotherJob(LatestJob):
    """Answers with an ended job that nobody has heard of before, a new one each time."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = count()

    def find(self, token: str, /) -> Any:
        super().find(token)
        return f"other-{next(self.numbers)}"

    def status(self, external_id: Any, /) -> str:
        return "SUCCEEDED"


def with_ended_job(word: str, kind: type[LatestJob] = LatestJob) -> LatestJob:
    jobs = kind(scripts=[[word]]) if kind is LatestJob else kind()
    jobs.submit("0" * 32)
    return jobs


@pytest.mark.parametrize("word", ["SUCCEEDED", "FAILED"])
def test_the_second_fresh_token_with_the_same_ended_job_is_an_error(word: str) -> None:
    jobs = with_ended_job(word)
    with task_context(), pytest.raises(JobHookError, match="'job-0'", check=having(hook="find")) as caught:
        run_job(jobs, policy=POLICY)
    assert "find(token)" in (caught.value.remedy or "")
    assert len(jobs.jobs) == 1
    assert jobs.asked <= 4


def test_a_find_with_another_ended_job_for_each_token_is_an_error_too() -> None:
    jobs = with_ended_job("SUCCEEDED", AnotherJob)
    with task_context(), pytest.raises(JobHookError, check=having(hook="find")):
        run_job(jobs, policy=POLICY)
    assert (len(jobs.jobs), jobs.asked) == (1, MOST_ENDED + 1)


def test_a_job_that_is_alive_again_under_a_second_token_is_none_of_this_run() -> None:
    class Flapping(LatestJob):
        words = iter(["SUCCEEDED"])

        def status(self, external_id: Any, /) -> str:
            return next(self.words, "RUNNING")

    jobs = Flapping()
    jobs.submit("0" * 32)
    with task_context(), pytest.raises(JobHookError, check=having(hook="find")):
        run_job(jobs, policy=POLICY)


def test_retries_say_the_same_and_one_with_a_right_find_submits() -> None:
    jobs = with_ended_job("SUCCEEDED")
    attempt = task_context()
    for _ in range(2):
        with attempt, pytest.raises(JobHookError, check=having(hook="find")):
            run_job(jobs, policy=POLICY)
        attempt = attempt.retry()
    right = FakeJobs()
    right.submit("0" * 32)
    with attempt:
        assert run_job(right, policy=POLICY) == {"job": "job-1"}


def test_it_is_so_on_an_event_loop() -> None:
    with task_context(), pytest.raises(JobHookError, check=having(hook="find")):
        asyncio.run(arun_job(with_ended_job("SUCCEEDED"), policy=POLICY))


class Latest(LookUpHooks, ResumableJobMixin, BaseOperator):
    pass


def test_it_is_so_for_an_operator() -> None:
    jobs = with_ended_job("SUCCEEDED")
    made = equipped(Latest(task_id="t", resume_policy=POLICY), jobs=jobs)
    with pytest.raises(JobHookError, check=having(hook="find")):
        made.execute(task_context().context)


def ended(attempt: TaskAttempt, jobs: FakeJobs, times: int) -> TaskAttempt:
    """So many attempts whose jobs fail; then the record is lost."""
    for number in range(times):
        with attempt, pytest.raises(Exception, match="ended without success"):
            run_job(jobs, policy=POLICY)
        if number == times - 1:
            attempt.task_store.clear()
        attempt = attempt.retry()
    return attempt


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_right_find_goes_through_as_many_ended_generations_as_there_were_tries(times: int) -> None:
    jobs = FakeJobs(scripts=[["FAILED"]] * times + [["SUCCEEDED"]])
    with ended(task_context(), jobs, times):
        assert run_job(jobs, policy=POLICY) == {"job": f"job-{times}"}
    assert len({job.token for job in jobs.jobs}) == times + 1
