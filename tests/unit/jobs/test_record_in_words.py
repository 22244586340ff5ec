"""The record of a job begins with one line in words. `pytest -s` prints the lines."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_resume import PollPolicy, ResumePolicy, run_job
from airflow_resume.attempt import Claim, Epoch
from airflow_resume.jobs.decide import JobStatus, Phase, Step
from airflow_resume.jobs.failure import failure
from airflow_resume.jobs.record import JobRecord
from airflow_resume.testing import FakeJobs, task_context

NOW = datetime(2026, 1, 1, 13, 20, 30, tzinfo=timezone.utc)
SENT: dict[str, Any] = {"phase": Phase.SUBMITTED, "id": "application_17", "submitted_at": NOW}

LINES: dict[str, dict[str, Any]] = {
    "about to be submitted, or submitted and its id not saved, try 2 since 2026-01-01 13:20 UTC": {},
    "about to be submitted, or submitted and its id not saved, its submit raised KeyError, try 2 since"
    " 2026-01-01 13:20 UTC": {"error": "KeyError"},
    "submitted as application_17 at 2026-01-01 13:20 UTC, try 2 since 2026-01-01 13:20 UTC": SENT,
    "submitted as application_17 at 2026-01-01 13:20 UTC, active, job number 3 of its name, try 2 since"
    " 2026-01-01 13:20 UTC": {**SENT, "status": JobStatus.ACTIVE, "generation": 3},
    "submitted as 0, not of this run, unknown, try 2 since 2026-01-01 13:20 UTC": {
        "phase": Phase.SUBMITTED,
        "id": 0,
        "stray": True,
        "status": JobStatus.UNKNOWN,
    },
    'succeeded, ["eu",7], try 2 since 2026-01-01 13:20 UTC': {
        "phase": Phase.TERMINAL,
        "id": ["eu", 7],
        "status": JobStatus.SUCCEEDED,
    },
    "never submitted, try 2 since 2026-01-01 13:20 UTC": {"phase": Phase.TERMINAL},
    f"gone, {'x' * 60}..., try 2 since 2026-01-01 13:20 UTC": {
        "phase": Phase.TERMINAL,
        "id": "x" * 61,
        "status": JobStatus.GONE,
    },
}


@pytest.mark.parametrize("line", LINES)
def test_a_line(line: str) -> None:
    facts = {"token": "t", "generation": 1, "phase": Phase.INTENT, **LINES[line]}
    record = JobRecord(key="k", epoch=Epoch(), claim=Claim(try_number=2, at=NOW), **facts)
    print(line)
    assert record.summary() == line
    assert next(iter(record.to_json())) == "summary"


def test_a_record_begins_with_it_and_goes_on_with_what_people_look_for() -> None:
    policy = ResumePolicy(poll=PollPolicy(interval=timedelta(0), max_interval=timedelta(0), jitter=0))
    attempt, jobs = task_context(), FakeJobs()
    with attempt:
        run_job(jobs, name="j", policy=policy)
    record: Any = attempt.task_store.values["resume.job.j"]
    assert record["summary"].startswith("succeeded, ")
    assert list(record)[:3] == ["summary", "status", "id"]


@pytest.mark.parametrize("is_task", [True, False])
def test_nobody_is_told_to_clear_a_task_that_is_not_there(is_task: bool) -> None:  # noqa: FBT001
    epoch = Epoch(try_number=2) if is_task else Epoch()
    facts: dict[str, Any] = {"token": "t", "generation": 1, "phase": Phase.SUBMITTED, "id": 1}
    record = JobRecord(key="k", epoch=epoch, claim=Claim(try_number=2, at=NOW), **facts)
    for step in (Step.FAIL_LOST, Step.FAIL_INPUTS):
        told = str(failure(step, record, name="j", earlier_try=1))
        assert ("clear the task" in told) is is_task
        assert ("delete the key 'k' from the store" in told) is not is_task
