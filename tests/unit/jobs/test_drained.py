"""The worker is drained without a signal while a job is waited for: the job lives on, and the task comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowRescheduleException

from airflow_resume import PollPolicy, ResumePolicy, arun_job, run_job
from airflow_resume.errors import TaskStoppedError
from airflow_resume.testing import FakeJobs, TaskAttempt, task_context
from airflow_resume_mixins import ResumableJobMixin
from tests.support.drained import VARIABLE, touch
from tests.support.jobs.hooks import LookUpHooks, equipped

MINUTE = timedelta(minutes=1)
POLICY = ResumePolicy(poll=PollPolicy(interval=MINUTE, max_interval=MINUTE, jitter=0))
SOON_SECONDS = 5.0
LONG = ["RUNNING"] * 5 + ["SUCCEEDED"]


class Train(LookUpHooks, ResumableJobMixin, BaseOperator):
    def cancel_job(self, external_id: Any, context: Any) -> None:
        self.jobs.cancel(external_id)


def by_function(jobs: FakeJobs, attempt: TaskAttempt, policy: ResumePolicy) -> Any:
    return run_job(jobs, policy=policy, context=attempt.context)


def by_coroutine(jobs: FakeJobs, attempt: TaskAttempt, policy: ResumePolicy) -> Any:
    return asyncio.run(arun_job(jobs, policy=policy, context=attempt.context))


def by_operator(jobs: FakeJobs, attempt: TaskAttempt, policy: ResumePolicy) -> Any:
    return equipped(Train(task_id="train", resume_policy=policy), jobs=jobs).execute_resumable(
        cast("Any", attempt.context)
    )


Way = Callable[[FakeJobs, TaskAttempt, ResumePolicy], Any]


@pytest.fixture(params=[by_function, by_coroutine, by_operator])
def way(request: pytest.FixtureRequest) -> Way:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "drain"
    monkeypatch.setenv(VARIABLE, str(file))
    return file


class Drained:
    """A job and an attempt that waits for it, whose worker is drained at a sleep or a call."""

    def __init__(self, file: Path, place: str, *, nth: int = 1, scripts: list[list[str]] | None = None) -> None:
        self.jobs = FakeJobs(scripts=scripts or [LONG])
        self.attempt = task_context(retries=0)
        self.clock = self.attempt.world.clock
        self.drained_at: float | None = None
        self._file, self._place, self._left = file, place, nth
        self.jobs.observer = self.jobs.read_observer = lambda when, call: self._at(f"{when} {call}")
        self.attempt.task_store.sleep = self._sleep  # type: ignore[method-assign]

    def _sleep(self, seconds: float) -> None:
        self._at("sleep")
        self.clock.sleep(seconds)

    def _at(self, place: str) -> None:
        self._left -= place == self._place
        if self._left == 0 and self.drained_at is None:
            self.drained_at = self.clock.monotonic()
            touch(self._file, self.clock.now)

    def calls(self, name: str) -> int:
        return sum(event.call == name for event in self.jobs.events)

    def comes_back(self, way: Way, policy: ResumePolicy = POLICY) -> Any:
        """The result of the attempt that comes back."""
        with pytest.raises(AirflowRescheduleException) as raised:
            way(self.jobs, self.attempt, policy)
        assert self.drained_at is not None
        assert self.clock.monotonic() - self.drained_at <= SOON_SECONDS
        assert (raised.value.reschedule_date - self.clock.now()).total_seconds() >= 10
        self.attempt.world.come_back(raised.value.reschedule_date)
        again = self.attempt.reschedule()
        assert again.ti.try_number == 1
        return way(self.jobs, again, policy)


PLACES = ["before submit", "after submit", "before status", "after status", "sleep"]


@pytest.mark.parametrize("place", PLACES)
def test_the_job_lives_on_and_the_same_try_comes_back_for_its_result(file: Path, way: Way, place: str) -> None:
    drained = Drained(file, place)
    assert drained.comes_back(way) == {"job": "job-0"}
    assert (drained.calls("submit"), drained.calls("cancel"), drained.jobs.most_alive) == (1, 0, 1)


def test_also_after_a_long_wait(file: Path, way: Way) -> None:
    drained = Drained(file, "sleep", nth=130)
    assert drained.comes_back(way) == {"job": "job-0"}
    assert drained.calls("submit") == 1


def test_if_airflow_cannot_be_asked_the_reason_is_still_known(
    file: Path, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_answer(*_arguments: object, **_options: object) -> None:
        raise ConnectionResetError

    drained = Drained(file, "sleep")
    monkeypatch.setattr(type(drained.attempt.ti), "get_task_states", no_answer)
    assert drained.comes_back(way) == {"job": "job-0"}


def test_a_file_of_before_ends_no_wait(file: Path, way: Way) -> None:
    drained = Drained(file, "nowhere")
    touch(file, drained.clock.now)
    drained.clock.advance(MINUTE)
    assert way(drained.jobs, drained.attempt.reschedule(), POLICY) == {"job": "job-0"}


def test_a_drain_may_be_waited_through(file: Path, way: Way) -> None:
    drained = Drained(file, "sleep")
    assert way(drained.jobs, drained.attempt, replace(POLICY, on_shutdown="wait")) == {"job": "job-0"}
    assert drained.drained_at is not None


@pytest.mark.parametrize("place", ["after submit", "sleep"])
def test_by_policy_the_job_is_cancelled_and_its_end_waited_for(file: Path, way: Way, place: str) -> None:
    drained = Drained(file, place, scripts=[["RUNNING"] * 9, LONG])
    policy = replace(POLICY, cancel_on={"shutdown"})
    with pytest.raises(TaskStoppedError):
        way(drained.jobs, drained.attempt, policy)
    assert drained.calls("cancel") == 1
    drained.clock.advance(MINUTE)
    assert way(drained.jobs, drained.attempt.retry(), policy) == {"job": "job-1"}
    assert drained.jobs.most_alive == 1


def test_a_job_that_is_not_kept_for_a_next_attempt_is_waited_for(file: Path) -> None:
    drained = Drained(file, "after status")
    # Without a record of the attempt, nothing gives it the clock of the fakes.
    policy = ResumePolicy(poll=PollPolicy(interval=timedelta(milliseconds=1)))
    train = equipped(Train(task_id="train", resume_policy=policy, durable=False), jobs=drained.jobs)
    assert train.execute_resumable(cast("Any", drained.attempt.context)) == {"job": "job-0"}
    assert (drained.calls("submit"), drained.calls("cancel")) == (1, 0)


@pytest.mark.parametrize("state", ["failed", "success"])
def test_a_task_that_was_marked_as_well_is_left_to_its_on_kill(file: Path, way: Way, state: Any) -> None:
    drained = Drained(file, "sleep")
    drained.attempt.mark(state)
    assert way(drained.jobs, drained.attempt, POLICY) == {"job": "job-0"}
    assert drained.calls("cancel") == 0


def test_before_anything_is_written_it_goes_on_to_its_first_write(file: Path, way: Way) -> None:
    drained = Drained(file, "nowhere")
    touch(file, drained.clock.now)
    drained.drained_at = drained.clock.monotonic()
    assert drained.comes_back(way) == {"job": "job-0"}
    assert drained.calls("submit") == 1


def test_the_log_says_what_becomes_of_the_job(file: Path, way: Way, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    Drained(file, "sleep").comes_back(way)
    assert "The worker is being drained, so the task ends; job 'job-0' is left alone" in caplog.messages
