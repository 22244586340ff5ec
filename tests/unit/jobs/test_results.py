"""The result of a job: delivered whatever it is, kept when it is small, and never a reason for a second job."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from airflow.sdk import BaseOperator

from airflow_resume import PollPolicy, ResumePolicy, run_job
from airflow_resume.errors import JobError, JobGoneError
from airflow_resume.testing import CrashWorld, FakeJobs, TaskAttempt, World, explore_crashes, task_context
from airflow_resume.testing.crashes.outcome import ExplorationOutcome
from airflow_resume.testing.fakes.job import UnknownJobError
from airflow_resume.testing.oracles import same_result
from airflow_resume_mixins import ResumableJobMixin
from tests.support.jobs.hooks import LookUpHooks, equipped

AT_ONCE = PollPolicy(interval=timedelta(0), max_interval=timedelta(0), jitter=0)
POLICY = ResumePolicy(poll=AT_ONCE)
NOT_KEPT = "it is not kept, and is fetched again if needed"
QUICK_SECONDS = 1.0


def returning(result: Any, **options: Any) -> FakeJobs:
    return FakeJobs(results=lambda _id: result, **{"scripts": [["SUCCEEDED"]], **options})


def run(jobs: Any, attempt: TaskAttempt, policy: ResumePolicy = POLICY) -> Any:
    return run_job(jobs, policy=policy, context=attempt.context)


def record_of(attempt: TaskAttempt) -> Any:
    return attempt.task_store.get("resume.job.job")


def calls(jobs: FakeJobs, name: str) -> int:
    return sum(event.call == name for event in jobs.events)


# --- success is saved before the result is fetched ------------------------------------------------------------


@pytest.mark.parametrize("error", [RuntimeError("a bug"), ValueError("no JSON"), MemoryError(), SystemExit(1)])
def test_a_result_that_cannot_be_fetched_is_fetched_by_the_retry_of_the_same_job(error: BaseException) -> None:
    jobs, attempt = returning("model"), task_context()
    jobs.fail_next("result", error)
    with pytest.raises(type(error)):
        run(jobs, attempt)
    record = record_of(attempt)
    assert (record["phase"], record["status"], "result" in record) == ("terminal", "succeeded", False)
    questions = calls(jobs, "status")
    assert run(jobs, attempt.retry()) == "model"
    assert calls(jobs, "status") == questions  # how it ended need not be asked
    assert len(jobs.jobs) == 1


class ResultWorld(CrashWorld):
    """Fetching the result is a point, so it may raise before and after it was done."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs = self.watch(FakeJobs(scripts=[["RUNNING", "SUCCEEDED"]]))
        self.airflow = World()
        fetch = self.jobs.result

        def result(external_id: Any, /) -> Any:
            with self.effect("fetch the result"):
                return fetch(external_id)

        self.jobs.result = result  # type: ignore[method-assign]

    def begin(self) -> TaskAttempt:
        attempt = task_context(world=self.airflow, retries=100)
        self.watch(attempt.task_store)
        return attempt


def one_job(outcome: ExplorationOutcome[ResultWorld]) -> None:
    assert len(outcome.world.jobs.jobs) == 1


def test_whatever_happens_while_a_result_is_fetched_there_is_one_job() -> None:
    report = explore_crashes(
        lambda world: run(world.jobs, world.begin()),
        oracle=[one_job, same_result],
        world=ResultWorld,
        kinds=["crash", "raises_after"],
        max_pairs=200,
    )
    assert report.pairs > 100


def test_a_result_that_is_missing_while_its_job_is_known_ends_the_attempt_and_submits_nothing() -> None:
    """A job system may keep its jobs longer than their results, and asking for ever would help nobody."""
    jobs, attempt = returning("model"), task_context()
    for _ in range(2):
        jobs.fail_next("result", UnknownJobError("the result"))
    with pytest.raises(UnknownJobError, match="the result"):
        run(jobs, attempt)
    assert calls(jobs, "result") == 0, "each was refused"
    assert run(jobs, attempt.retry()) == "model"
    assert len(jobs.jobs) == 1


# --- of every kind --------------------------------------------------------------------------------------------


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def cyclic() -> dict[str, Any]:
    value: dict[str, Any] = {"n": 1}
    value["itself"] = value
    return value


class RaisesWhenCompared:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("compared")

    __hash__ = None  # type: ignore[assignment]


class RaisesWhenMeasured(dict[str, Any]):
    def __len__(self) -> int:
        raise RuntimeError("measured")


NOT_KEPT_RESULTS: dict[str, Callable[[], Any]] = {
    "too large": lambda: "x" * 4_001,
    "100 MB of text": lambda: "x" * 100_000_000,
    "3 million items": lambda: list(range(3_000_000)),
    "a large dict": lambda: {str(n): n for n in range(200_000)},
    "2,000 levels": lambda: deep(2_000),
    "cyclic": cyclic,
    "a lock": threading.Lock,
    "a generator": lambda: (n for n in range(3)),
    "raises when compared": RaisesWhenCompared,
    "raises when measured": RaisesWhenMeasured,
    "NaN": lambda: float("nan"),
    "NaN within": lambda: {"loss": [float("inf")]},
    "half a surrogate pair": lambda: "\ud800",
    "an integer of 5,000 digits": lambda: 10**5_000,
    "a set": lambda: {1},
    "a dict by numbers": lambda: {1: 2},
}


@pytest.mark.parametrize("make", NOT_KEPT_RESULTS.values(), ids=NOT_KEPT_RESULTS)
def test_what_cannot_be_kept_is_delivered_quickly_and_fetched_again_by_the_retry(
    make: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    result = make()
    jobs, attempt = returning(result), task_context()
    began = time.perf_counter()
    with caplog.at_level(logging.INFO):
        assert run(jobs, attempt) is result
    assert caplog.text.count(NOT_KEPT) == 1
    assert "result" not in record_of(attempt)
    assert run(jobs, attempt.retry()) is result
    assert time.perf_counter() - began < QUICK_SECONDS
    assert (len(jobs.jobs), calls(jobs, "result")) == (1, 2)


KEPT_RESULTS = [
    None,
    0,
    "",
    False,
    [],
    {},
    [None],
    {"location": None, "within": {"also": None}},
    {"~dict": 1},
    {"~datetime": "not one"},
    (1, (2,)),
    b"\x00\xff",
    Decimal("1.10"),
    datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=2))),
    2**64 - 1,
    1e300,
    "Ü-工作-🚀",
    "x" * 3_998,
]


@pytest.mark.parametrize("result", KEPT_RESULTS, ids=lambda result: repr(result)[:20])
def test_what_is_small_is_kept_exactly_for_a_job_that_is_forgotten(result: Any) -> None:
    jobs, attempt = returning(result), task_context()
    assert run(jobs, attempt) == result
    jobs.forget("job-0")
    again = run(jobs, attempt.retry())
    assert again == result
    assert type(again) is type(result)
    assert (len(jobs.jobs), calls(jobs, "result")) == (1, 1)


def test_a_result_that_has_no_room_beside_a_long_id_is_fetched_again() -> None:
    jobs = returning("r" * 3_900, ids=lambda _number: "i" * 57_000)
    attempt = task_context()
    assert run(jobs, attempt) == "r" * 3_900
    assert record_of(attempt)["status"] == "succeeded"
    assert run(jobs, attempt.retry()) == "r" * 3_900
    assert (len(jobs.jobs), calls(jobs, "result")) == (1, 2)


# --- forgotten, and not kept ----------------------------------------------------------------------------------


def forgotten() -> tuple[FakeJobs, TaskAttempt]:
    jobs, attempt = returning("x" * 10_000), task_context()
    run(jobs, attempt)
    jobs.forget("job-0")
    return jobs, attempt.retry()


def test_a_forgotten_job_whose_result_was_not_kept_is_asked_for_again_and_then_submitted_anew() -> None:
    jobs, second = forgotten()
    questions: list[str] = []
    jobs.read_observer = lambda when, call: questions.append(call) if when == "before" else None
    began = second.world.clock.monotonic()
    assert run(jobs, second) == "x" * 10_000
    before_the_submit = questions[: questions.index("result", 1)]
    assert before_the_submit[0] == "result"
    assert before_the_submit.count("status") >= 2
    assert second.world.clock.monotonic() - began >= POLICY.confirm_gone.total_seconds()
    assert (len(jobs.jobs), jobs.most_alive) == (2, 0)


def test_or_the_attempt_fails_by_policy_after_it_was_asked_for_again() -> None:
    jobs, second = forgotten()
    began = second.world.clock.monotonic()
    with pytest.raises(JobGoneError, match="on_gone_job='fail'"):
        run(jobs, second, ResumePolicy(on_gone_job="fail", poll=AT_ONCE))
    assert second.world.clock.monotonic() - began >= POLICY.confirm_gone.total_seconds()
    assert len(jobs.jobs) == 1


def test_an_attempt_whose_own_job_is_gone_with_its_result_leaves_the_doubt_to_the_retry() -> None:
    class Forgetful(FakeJobs):
        def result(self, external_id: Any, /) -> Any:
            self.forget(external_id)
            return super().result(external_id)

    jobs, attempt = Forgetful(scripts=[["RUNNING", "SUCCEEDED"]]), task_context()
    with pytest.raises(JobError, match="vanished"):
        run(jobs, attempt)
    assert len(jobs.jobs) == 1


# --- kept by nobody -------------------------------------------------------------------------------------------

SECRET = "https://presigned.example/?signature=hunter2"  # noqa: S105  looked for in what is stored


class Train(LookUpHooks, ResumableJobMixin, BaseOperator):
    pass


def by_operator(jobs: Any, attempt: TaskAttempt, policy: ResumePolicy) -> Any:
    train = equipped(Train(task_id="train", resume_policy=policy), jobs=jobs)
    return train.execute_resumable(attempt.context)  # type: ignore[arg-type]


@pytest.mark.parametrize("by", [run, by_operator])
def test_without_keep_result_nothing_of_it_is_stored_in_any_generation(
    by: Callable[[Any, TaskAttempt, ResumePolicy], Any], caplog: pytest.LogCaptureFixture
) -> None:
    policy = ResumePolicy(keep_result=False, poll=AT_ONCE)
    jobs, attempt = returning(SECRET, scripts=[["FAILED"], ["SUCCEEDED"]]), task_context()
    with caplog.at_level(logging.DEBUG):
        with pytest.raises(JobError):
            by(jobs, attempt, policy)
        attempt = attempt.retry()
        assert by(jobs, attempt, policy) == SECRET
        assert by(jobs, attempt.retry(), policy) == SECRET
        cleared = attempt.clear()
        assert by(jobs, cleared, policy) == SECRET
    assert len(jobs.jobs) == 3
    assert len(record_of(cleared)["history"]) == 2
    assert "hunter2" not in repr(cleared.task_store.rows.values_by_key())
    assert "hunter2" not in caplog.text
    assert NOT_KEPT not in caplog.text


def test_with_it_the_operator_has_its_small_result_when_the_job_is_forgotten() -> None:
    jobs, attempt = returning("model"), task_context()
    assert by_operator(jobs, attempt, POLICY) == "model"
    jobs.forget("job-0")
    assert by_operator(jobs, attempt.retry(), POLICY) == "model"
    assert len(jobs.jobs) == 1
