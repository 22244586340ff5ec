"""Records as tasks leave them, for the tests of what people on call see."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from airflow_resume import checkpoint, run_job
from airflow_resume.testing import FakeJobs, task_context
from airflow_resume.testing.points import CrashedError
from tests.support.watermarks.whole_numbers import MARK, NUMBERS, Counter, a_try, load, numbers

LOOP, JOB = "resume.loop.l", "resume.job.job"


def stopped_loop(done: int = 7, of: int = 10) -> dict[str, Any]:
    """A loop over a list that failed."""
    attempt = task_context()
    with attempt, suppress(ZeroDivisionError):
        for number in checkpoint(range(of), name="l"):
            if number == done:
                raise ZeroDivisionError
    return _dict(attempt.task_store.get(LOOP))


def lost_job() -> dict[str, Any]:
    """A job whose id was not saved."""
    jobs = FakeJobs(can_find=False)
    attempt = task_context()
    with attempt, suppress(CrashedError):
        jobs.fail_next("submit", CrashedError(), applied=True)
        run_job(jobs, name="job")
    return _dict(attempt.task_store.get(JOB))


def ended_job() -> dict[str, Any]:
    """A job that has succeeded."""
    attempt = task_context()
    with attempt:
        run_job(FakeJobs(), name="job")
    return _dict(attempt.task_store.get(JOB))


def moved_mark(*upto: int) -> dict[str, Any]:
    """A mark of numbers after some runs."""
    clock, attempt = Counter(), a_try()
    for number in upto or (10, 20, 30):
        clock.number = number
        load(attempt, numbers(clock))
        attempt = attempt.next_run()
    return _dict(attempt.asset_stores[NUMBERS].get(MARK))


def _dict(stored: Any) -> dict[str, Any]:
    assert isinstance(stored, dict)
    return stored
