"""The id of a job: any JSON, saved as it is; anything else is refused after its job was cancelled."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from decimal import Decimal
from enum import Enum, IntEnum, IntFlag
from typing import Any
from uuid import UUID

import pytest

from airflow_resume import PollPolicy, ResumePolicy, run_job
from airflow_resume.errors import JobFailedError, JobHookError, JobWaitTimeoutError
from airflow_resume.testing import FakeJobs, TaskAttempt, task_context
from tests.support.kit.raised import having

ZERO = PollPolicy().interval * 0
POLICY = ResumePolicy(poll=PollPolicy(interval=ZERO, max_interval=ZERO))
IMPATIENT = ResumePolicy(poll=PollPolicy(interval=ZERO, max_interval=ZERO, timeout=ZERO))
MAX_RECORD_BYTES = 60_000


class Word(str, Enum):
    A = "a"


class Plain(Enum):
    A = "a"


class Number(IntEnum):
    THREE = 3


class Flag(IntFlag):
    TWO = 2


def run(jobs: Any, attempt: TaskAttempt, policy: ResumePolicy = POLICY) -> Any:
    return run_job(jobs, policy=policy, context=attempt.context)


def record_of(attempt: TaskAttempt) -> Any:
    return attempt.task_store.get("resume.job.job")


class JobsByJson(FakeJobs):
    """It gives ids of any kind, and knows its jobs by what those are as JSON."""

    given: Any = None

    def submit(self, token: str | None = None, /) -> Any:
        super().submit(token)
        return self.given

    def status(self, external_id: Any, /) -> str:
        self.asked = external_id
        return super().status("job-0")

    def result(self, external_id: Any, /) -> Any:
        return external_id

    def cancel(self, external_id: Any, /) -> None:
        self.cancelled = external_id
        super().cancel("job-0")


def giving(external_id: Any, **options: Any) -> JobsByJson:
    jobs = JobsByJson(**{"scripts": [["RUNNING"] * 9 + ["SUCCEEDED"]], "can_find": False, **options})
    jobs.given = external_id
    return jobs


AS_THEY_ARE = [
    0,
    False,
    True,
    "",
    -5,
    2**63 - 1,
    2**64 - 1,
    -(2**63),
    1.5,
    1.0,
    1e300,
    "Ü-工作-🚀",
    "a\nb",
    "  x ",
    [],
    {},
    [None],
    ["project", None, "job"],
    {"project": "p", "location": None, "parts": [1, {"x": None}]},
    {"~datetime": "x"},
]
AS_THEIR_VALUES = [
    (Word.A, "a"),
    (Plain.A, "a"),
    (Number.THREE, 3),
    (Flag.TWO, 2),
    (UUID(int=5), "00000000-0000-0000-0000-000000000005"),
    (("project", None, Number.THREE), ["project", None, 3]),
    ({"job": Word.A}, {"job": "a"}),
]


@pytest.mark.parametrize(
    ("given", "saved"), [*((each, each) for each in AS_THEY_ARE), *AS_THEIR_VALUES], ids=lambda each: repr(each)[:30]
)
def test_any_json_is_an_id_and_the_retry_asks_for_the_same(given: Any, saved: Any) -> None:
    jobs, attempt = giving(given), task_context()
    with pytest.raises(JobWaitTimeoutError):
        run(jobs, attempt, IMPATIENT)
    second = attempt.retry()
    assert exactly(run(jobs, second)) == exactly(saved)
    assert exactly(jobs.asked) == exactly(saved)
    assert exactly(record_of(second)["id"]) == exactly(saved)
    assert len(jobs.jobs) == 1


def exactly(value: Any) -> tuple[type, str]:
    """As JSON, as True == 1 == 1.0 in Python."""
    return type(value), json.dumps(value)


def endless() -> list[Any]:
    """Walking through it in full would take longer than the universe has been there."""
    value: list[Any] = []
    value += [value, value]
    return value


def deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


NO_JSON: dict[str, Any] = {
    "not a number": float("nan"),
    "an infinite float": float("inf"),
    "2**64": 2**64,
    "less than 64 bits": -(2**63) - 1,
    "5,000 digits": 10**5_000,
    "NUL": "a\0b",
    "half a surrogate pair": "\ud800",
    "bytes": b"x",
    "datetime": datetime(2026, 1, 1, tzinfo=timezone.utc),
    "Decimal": Decimal("1.5"),
    "set": {1},
    "a key that is no text": {1: 2},
    "an object": object(),
    "a class": str,
    "100 levels": deep(100),
    "2,000 levels": deep(2_000),
    "endless": endless(),
    "None within an enum": Enum("Nothing", {"A": None}).A,  # type: ignore[attr-defined]
}


@pytest.mark.parametrize("given", NO_JSON.values(), ids=NO_JSON)
def test_what_is_no_json_is_refused_after_the_job_was_cancelled(given: Any, caplog: pytest.LogCaptureFixture) -> None:
    jobs, attempt = giving(given), task_context()
    with pytest.raises(
        JobHookError, match=r"The submit hook returned .*(?s:.)*\(cancelled\)", check=having(hook="submit")
    ):
        run(jobs, attempt)
    assert jobs.cancelled is given
    assert f"A job may be orphaned: token {record_of(attempt)['token']}" in caplog.text


def test_none_is_refused_and_names_the_token_as_there_is_nothing_to_cancel() -> None:
    jobs, attempt = giving(None), task_context()
    with pytest.raises(
        JobHookError,
        match=r"token [0-9a-f]{32} may be running \(there is nothing to cancel",
        check=having(hook="submit"),
    ):
        run(jobs, attempt)
    assert [event.call for event in jobs.events] == ["submit"]


def test_thirty_generations_of_long_ids_leave_a_record_that_can_still_be_written() -> None:
    jobs = FakeJobs(ids=lambda number: f"{number}:" + "x" * 6_000, scripts=[["FAILED"]] * 30 + [["SUCCEEDED"]])
    attempt = task_context(retries=99)
    for _ in range(30):
        with pytest.raises(JobFailedError):
            run(jobs, attempt)
        attempt = attempt.retry()
    assert run(jobs, attempt)["job"].startswith("30:")
    record = record_of(attempt)
    assert record["generation"] == 31
    assert [line["generation"] for line in record["history"]] == list(range(11, 31))
    assert all(line["id"].startswith(f'"{line["generation"] - 1}:x') for line in record["history"])
    assert len(json.dumps(record)) < MAX_RECORD_BYTES // 2
