"""A person marks the task before the attempt knows whether a job is there: it is looked for, ended, or named."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from airflow_resume import PollPolicy, ResumePolicy, run_job
from airflow_resume.errors import JobError, TaskStoppedError
from airflow_resume.testing import FakeJobs, TaskAttempt, task_context

POLICY = ResumePolicy(poll=PollPolicy(interval=timedelta(0), max_interval=timedelta(0)), on_lost_submission="resubmit")
LONG = [["RUNNING"] * 9 + ["SUCCEEDED"]]


def marked_early(jobs: FakeJobs, *, applied: bool) -> TaskAttempt:
    """The reply to the submit was lost, and the retry is marked as failed before it has read its record."""
    attempt = task_context()
    jobs.fail_next("submit", TimeoutError(), applied=applied)
    with pytest.raises((TimeoutError, JobError)):
        run_job(jobs, policy=POLICY, context=attempt.context)
    retry = attempt.retry()

    def marked(when: str, call: str) -> None:
        if (when, call) == ("before", "get resume.job.job"):
            retry.task_store.observer = None
            retry.mark("failed")
            retry.ti.task.on_kill()

    retry.task_store.observer = marked
    with pytest.raises(TaskStoppedError):
        run_job(jobs, policy=POLICY, context=retry.context)
    return retry


def calls(jobs: FakeJobs, name: str) -> int:
    return sum(event.call == name for event in jobs.events)


def test_a_job_that_can_be_looked_up_is_found_and_cancelled() -> None:
    jobs = FakeJobs(scripts=LONG)
    marked_early(jobs, applied=True)
    assert (calls(jobs, "submit"), calls(jobs, "cancel")) == (1, 1)


def test_one_that_is_not_found_at_once_is_not_waited_for_and_its_token_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    jobs = FakeJobs(scripts=LONG)
    attempt = marked_early(jobs, applied=False)
    assert attempt.world.clock.monotonic() < POLICY.confirm_gone.total_seconds()
    assert (calls(jobs, "submit"), calls(jobs, "cancel")) == (0, 0)
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    record: object = attempt.task_store.get("resume.job.job")
    assert isinstance(record, dict)
    assert line == f"The task was ended; a job with token {record['token']} may exist and keep running"


@pytest.mark.parametrize("options", [{"can_find": False}, {"can_find": False, "dedupes": True}, {"can_cancel": False}])
def test_one_that_cannot_be_looked_up_or_cancelled_is_named(
    options: dict[str, bool], caplog: pytest.LogCaptureFixture
) -> None:
    jobs = FakeJobs(scripts=LONG, **options)  # type: ignore[arg-type]
    marked_early(jobs, applied=True)
    assert (calls(jobs, "submit"), calls(jobs, "cancel")) == (1, 0)
    assert "may exist and keep running" in caplog.text
