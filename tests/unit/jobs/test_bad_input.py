"""Hooks that raise, wherever they do, and records that a person has edited into nonsense."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import BaseOperator

from airflow_resume import PollPolicy, ResumePolicy, run_job
from airflow_resume.errors import UnreadableRecordError
from airflow_resume.jobs import JobStatus
from airflow_resume.testing import FakeJobs, TaskAttempt, task_context
from airflow_resume_mixins import ResumableJobMixin
from tests.support.jobs.hooks import LookUpHooks, equipped

KEY = "resume.job.job"
FAST = ResumePolicy(poll=PollPolicy(interval=timedelta(0), max_interval=timedelta(0), timeout=timedelta(0)))
"""Submits, and gives up waiting."""
PATIENT = ResumePolicy(poll=PollPolicy(interval=timedelta(0), max_interval=timedelta(0), jitter=0))


class BugError(Exception):
    """Of a hook."""


class BuggyJobs(FakeJobs):
    """With every hook there is; one of them raises once, after it has done its work or before."""

    buggy: str = ""

    def classify(self, status: str) -> JobStatus:
        self._raises("classify")
        return JobStatus({"RUNNING": "active", "CANCELLED": "failed"}.get(status, status.lower()))

    def wait(self, external_id: Any) -> None:
        self._raises("wait")

    def _raises(self, hook: str) -> None:
        if self.buggy == hook:
            self.buggy = ""
            raise BugError(hook)


def first_attempt_of(case: str) -> tuple[TaskAttempt, BuggyJobs]:
    """What stands before the attempt in which a hook raises."""
    jobs, attempt = BuggyJobs(scripts=[["RUNNING"] * 5 + ["SUCCEEDED"]]), task_context()
    if case in {"find", "cancel"}:
        jobs.fail_next("submit", TimeoutError(), applied=True)  # it may have been submitted, so it is looked up
        with pytest.raises(TimeoutError):
            run_job(jobs, policy=FAST, context=attempt.context)
        attempt = attempt.clear() if case == "cancel" else attempt.retry()
    return attempt, jobs


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("hook", ["submit", "find", "status", "cancel", "result", "classify", "wait"])
def test_a_hook_that_raises_ends_the_attempt_with_its_error_and_costs_no_second_job(hook: str, applied: bool) -> None:  # noqa: FBT001
    attempt, jobs = first_attempt_of(hook)
    if hook in {"classify", "wait"}:
        jobs.buggy = hook
    else:
        jobs.fail_next(hook, BugError(hook), applied=applied)
    with pytest.raises(BugError, match=hook):
        run_job(jobs, policy=PATIENT, context=attempt.context)
    jobs_wanted = 2 if hook == "cancel" else 1
    assert run_job(jobs, policy=PATIENT, context=attempt.retry().context) == {"job": f"job-{jobs_wanted - 1}"}
    assert len(jobs.jobs) == jobs_wanted


class Train(LookUpHooks, ResumableJobMixin, BaseOperator):
    buggy = ""

    def is_job_active(self, status: str) -> bool:
        self.raises("is_job_active")
        return super().is_job_active(status)

    def is_job_succeeded(self, status: str) -> bool:
        self.raises("is_job_succeeded")
        return super().is_job_succeeded(status)

    def job_inputs(self, context: Any) -> Any:
        self.raises("job_inputs")
        return {"sql": "SELECT 1"}

    def get_job_result(self, external_id: Any, context: Any) -> Any:
        self.raises("get_job_result")
        return external_id

    def poll_until_complete(self, external_id: Any, context: Any) -> None:
        self.raises("poll_until_complete")

    def raises(self, hook: str) -> None:
        if self.buggy == hook:
            raise BugError(hook)


@pytest.mark.parametrize(
    "hook", ["job_inputs", "is_job_active", "is_job_succeeded", "poll_until_complete", "get_job_result"]
)
def test_a_hook_of_an_operator_that_raises_costs_no_second_job(hook: str) -> None:
    jobs, attempt = FakeJobs(scripts=[["RUNNING", "RUNNING", "SUCCEEDED"]]), task_context()

    def operator(buggy: str) -> Train:
        return equipped(Train(task_id="train", resume_policy=PATIENT), jobs=jobs, buggy=buggy)

    with pytest.raises(BugError, match=hook):
        operator(hook).execute_resumable(attempt.context)  # type: ignore[arg-type]
    assert operator("").execute_resumable(attempt.retry().context) == "job-0"  # type: ignore[arg-type]
    assert len(jobs.jobs) == 1


NONSENSE: dict[str, dict[str, Any]] = {
    "submitted without an id": {"id": None},
    "ended and running": {"phase": "terminal", "status": "active"},
    "a phase that does not exist": {"phase": "maybe"},
    "generation 0": {"generation": 0},
    "an empty token": {"token": ""},
    "a status that does not exist": {"status": "fine"},
    "no claim": {"claim": None},
    "an epoch of words": {"epoch": {"max_tries": "three"}},
    "a history of words": {"history": ["once upon a time"]},
    "another key": {"key": "resume.job.other"},
}


@pytest.mark.parametrize("edit", NONSENSE.values(), ids=NONSENSE)
def test_a_record_that_was_edited_into_nonsense_stops_before_anything_is_touched(edit: dict[str, Any]) -> None:
    jobs, attempt = FakeJobs(scripts=[["RUNNING"] * 9]), task_context()
    with pytest.raises(Exception, match="lives on"):
        run_job(jobs, policy=FAST, context=attempt.context)
    record: Any = attempt.task_store.values[KEY]
    edited = {name: value for name, value in {**record, **edit}.items() if value is not None}
    attempt.task_store.set(KEY, edited)
    before = list(jobs.events)
    second = attempt.retry()
    with pytest.raises(Exception, match=KEY) as raised:
        run_job(jobs, policy=FAST, context=second.context)
    assert isinstance(raised.value, UnreadableRecordError) or "other" in str(raised.value)
    assert jobs.events == before
    assert second.task_store.values[KEY] == edited
