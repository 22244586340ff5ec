"""An operator has one job. A second one is refused by name, with what can be done in an operator."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import BaseOperator

from airflow_resume import PollPolicy, ResumePolicy, run_job
from airflow_resume.errors import UsageError
from airflow_resume.testing import FakeJobs, TaskAttempt, task_context
from airflow_resume_mixins import ResumableJobMixin
from tests.support.jobs.hooks import JobHooks, LookUpHooks, equipped

POLICY = ResumePolicy(poll=PollPolicy(interval=timedelta(0), max_interval=timedelta(0)))
WHAT_TO_DO = re.escape("\nAn operator has one job. Give each job a task of its own, or submit the others by run_job(")


class Train(LookUpHooks, ResumableJobMixin, BaseOperator):
    pass


class Twice(Train):
    def execute(self, context: Any) -> Any:
        return [self.execute_resumable(context), self.execute_resumable(context)]


class WithinItself(Train):
    def submit_job(self, context: Any) -> Any:
        return self.execute_resumable(context)


class WithinItselfWithoutLookUp(JobHooks, ResumableJobMixin, BaseOperator):
    def submit_job(self, context: Any) -> Any:
        return self.execute_resumable(context)


class WithAnother(Train):
    def execute(self, context: Any) -> Any:
        first = self.execute_resumable(context)
        return [first, run_job(self.jobs, name="another", policy=self.resume_policy, context=context)]


def executed(kind: type[Train], jobs: FakeJobs, attempt: TaskAttempt) -> Any:
    return equipped(kind(task_id="train", resume_policy=POLICY), jobs=jobs).execute(attempt.context)


def test_a_second_job_of_an_operator_is_refused_and_its_first_one_kept() -> None:
    jobs, attempt = FakeJobs(), task_context()
    with pytest.raises(UsageError, match=WHAT_TO_DO) as raised:
        executed(Twice, jobs, attempt)
    assert "name=f'" not in str(raised.value), "an operator has no name to give"
    assert len(jobs.jobs) == 1


@pytest.mark.parametrize("kind", [WithinItself, WithinItselfWithoutLookUp])
def test_an_operator_that_begins_in_its_own_submit_is_refused_and_submits_nothing(kind: type[Any]) -> None:
    jobs = FakeJobs()
    with pytest.raises(UsageError, match=WHAT_TO_DO):
        executed(kind, jobs, task_context())
    assert jobs.jobs == []


def test_another_job_by_name_resumes_beside_it() -> None:
    jobs, attempt = FakeJobs(), task_context()
    jobs.fail_next("result", ValueError("none for now"))
    with pytest.raises(ValueError, match="none for now"):
        executed(WithAnother, jobs, attempt)
    assert executed(WithAnother, jobs, attempt.retry()) == [{"job": "job-0"}, {"job": "job-1"}]
    assert executed(WithAnother, jobs, attempt.retry()) == [{"job": "job-0"}, {"job": "job-1"}]
    assert len(jobs.jobs) == 2


def test_after_an_error_the_same_attempt_may_begin_again() -> None:
    class TriesAgain(Train):
        def execute(self, context: Any) -> Any:
            with pytest.raises(ValueError, match="none for now"):
                self.execute_resumable(context)
            return self.execute_resumable(context)

    jobs = FakeJobs()
    jobs.fail_next("result", ValueError("none for now"))
    assert executed(TriesAgain, jobs, task_context()) == {"job": "job-0"}
    assert len(jobs.jobs) == 1
