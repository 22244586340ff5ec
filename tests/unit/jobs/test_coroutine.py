"""`arun_job`: the job of an `async def` task."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRescheduleException, AirflowTaskTimeout

from airflow_resume import PollPolicy, ResumePolicy, arun_job, run_job
from airflow_resume.errors import (
    JobFailedError,
    LostSubmissionError,
    NoStateStoreError,
    TaskStoppedError,
    UsageError,
)
from airflow_resume.killed import KillFacts
from airflow_resume.store import MemoryStore
from airflow_resume.testing import FakeJobs, task_context

AT_ONCE = ResumePolicy(poll=PollPolicy(interval=timedelta(0), max_interval=timedelta(0)))
LONG = ["RUNNING"] * 20 + ["SUCCEEDED"]


class AsyncJobs:
    """A `FakeJobs` whose methods are coroutine functions, and must run on the event loop."""

    def __init__(self, **options: Any) -> None:
        self.jobs = FakeJobs(**options)
        self.submission_is_idempotent = self.jobs.dedupes
        self.job_not_found = self.jobs.job_not_found
        self.loops: set[int] = set()
        if not self.jobs.can_find:
            self.find = None  # type: ignore[method-assign, assignment]

    async def _turn(self) -> None:
        self.loops.add(id(asyncio.get_running_loop()))
        await asyncio.sleep(0)

    async def submit(self, token: str) -> Any:
        await self._turn()
        return self.jobs.submit(token)

    async def status(self, external_id: Any) -> str:
        await self._turn()
        return self.jobs.status(external_id)

    async def find(self, token: str) -> Any:
        await self._turn()
        return self.jobs.find(token)

    async def cancel(self, external_id: Any) -> None:
        await self._turn()
        self.jobs.cancel(external_id)

    async def result(self, external_id: Any) -> Any:
        await self._turn()
        return self.jobs.result(external_id)


async def told_by(jobs: Any, **options: Any) -> Any:
    return await arun_job(jobs, policy=AT_ONCE, **options)


def test_coroutines_of_the_client_run_on_the_loop_of_the_task() -> None:
    jobs = AsyncJobs(scripts=[LONG])

    async def task() -> tuple[Any, int]:
        return await told_by(jobs), id(asyncio.get_running_loop())

    with task_context():
        result, loop = asyncio.run(task())
    assert result == {"job": "job-0"}
    assert jobs.loops == {loop}


def test_a_client_without_coroutines_does_as_well() -> None:
    with task_context():
        assert asyncio.run(told_by(FakeJobs(scripts=[LONG]))) == {"job": "job-0"}


def test_a_retry_reconnects() -> None:
    jobs, first = AsyncJobs(scripts=[LONG]), task_context()
    jobs.jobs.fail_next("status", KeyError("a bug"))
    with first, pytest.raises(KeyError):
        asyncio.run(told_by(jobs))
    with first.retry():
        assert asyncio.run(told_by(jobs)) == {"job": "job-0"}
    assert len(jobs.jobs.jobs) == 1


def test_other_coroutines_go_on_while_it_waits() -> None:
    ticks = 0

    class Slow(FakeJobs):
        def status(self, external_id: Any, /) -> str:
            time.sleep(0.02)  # a client that blocks
            return super().status(external_id)

    async def ticking() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.001)

    async def task() -> Any:
        other = asyncio.create_task(ticking())
        try:
            return await told_by(Slow(scripts=[["RUNNING", "RUNNING", "SUCCEEDED"]]))
        finally:
            other.cancel()

    with task_context():
        assert asyncio.run(task()) == {"job": "job-0"}
    assert ticks > 5


def test_many_jobs_at_once_need_no_thread_of_the_default_executor() -> None:
    async def task() -> list[Any]:
        loop = asyncio.get_running_loop()
        free = threading.Event()
        blocked = [loop.run_in_executor(None, free.wait) for _ in range(64)]
        try:
            return await asyncio.gather(*(told_by(jobs, name=f"job-{n}") for n in range(20)))
        finally:
            free.set()
            await asyncio.gather(*blocked)

    jobs = AsyncJobs(scripts=[["RUNNING", "SUCCEEDED"]])
    with task_context():
        results = asyncio.run(task())
    assert len({result["job"] for result in results}) == 20


def test_an_error_of_the_job_comes_out() -> None:
    with task_context(), pytest.raises(JobFailedError):
        asyncio.run(told_by(AsyncJobs(scripts=[["RUNNING", "FAILED"]])))


def test_an_error_of_the_submit_is_seen_to_as_in_a_function() -> None:
    jobs = AsyncJobs(can_find=False)
    jobs.jobs.fail_next("submit", KeyError("jobId"), applied=True)
    with task_context(), pytest.raises(LostSubmissionError, match="KeyError"):
        asyncio.run(told_by(jobs))


def test_a_cancelled_coroutine_leaves_the_job_to_the_next_attempt() -> None:
    jobs, first = AsyncJobs(scripts=[["RUNNING"] * 10**6]), task_context()
    patient = ResumePolicy(poll=PollPolicy(interval=timedelta(seconds=1)))

    async def task() -> None:
        await asyncio.wait_for(arun_job(jobs, policy=patient), timeout=0.2)

    with first, pytest.raises(asyncio.TimeoutError):
        asyncio.run(task())
    for thread in threading.enumerate():
        if thread.name == "airflow-resume-job":  # it has given its answer, and is about to end
            thread.join(10)
            assert not thread.is_alive()
    jobs.jobs.jobs[0].states = ["SUCCEEDED"]
    with first.retry():
        assert asyncio.run(told_by(jobs)) == {"job": "job-0"}
    assert len(jobs.jobs.jobs) == 1


def test_a_submit_under_way_is_waited_for_when_the_coroutine_is_cancelled() -> None:
    jobs, first = AsyncJobs(scripts=[LONG], can_find=False), task_context()

    class Slow(AsyncJobs):
        async def submit(self, token: str) -> Any:
            await asyncio.sleep(0.3)
            return await jobs.submit(token)

    async def task() -> None:
        await asyncio.wait_for(arun_job(Slow(can_find=False), policy=ResumePolicy()), timeout=0.1)

    with first, pytest.raises(asyncio.TimeoutError):
        asyncio.run(task())
    with first.retry():
        assert asyncio.run(told_by(jobs)) == {"job": "job-0"}
    assert len(jobs.jobs.jobs) == 1


def killed_after(seconds: float, jobs: AsyncJobs, kill: Callable[[], object]) -> Any:
    """The task, with `on_kill` called on the thread of the event loop, as a signal handler is."""

    async def task() -> Any:
        asyncio.get_running_loop().call_later(seconds, kill)
        return await arun_job(jobs, policy=ResumePolicy(poll=PollPolicy(interval=timedelta(seconds=0.01))))

    return asyncio.run(task())


@pytest.mark.parametrize("state", ["failed", "success"])
def test_a_person_who_marks_the_task_ends_the_job_without_waiting_on_the_loop(state: Any) -> None:
    jobs, attempt = AsyncJobs(scripts=[["RUNNING"] * 10**6]), task_context()

    def kill() -> None:
        attempt.mark(state)
        attempt.ti.task.on_kill()

    with attempt, pytest.raises(TaskStoppedError):
        killed_after(0.1, jobs, kill)
    assert [event.call for event in jobs.jobs.events].count("cancel") == 1


def test_a_deploy_gives_the_slot_back() -> None:
    jobs, attempt = AsyncJobs(scripts=[["RUNNING"] * 10**6]), task_context()
    with attempt, pytest.raises(AirflowRescheduleException):
        killed_after(0.1, jobs, lambda: attempt.ti.task.on_kill())  # noqa: PLW0108  it is replaced meanwhile
    assert jobs.jobs.alive() == ["job-0"]


def test_the_handler_does_not_wait_for_what_only_the_loop_can_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where another coroutine is in the middle of a call to Airflow, which holds up every other call."""
    jobs, attempt = AsyncJobs(scripts=[["RUNNING"] * 10**6]), task_context()
    threads: list[threading.Thread] = []

    async def task() -> Any:
        loop = asyncio.get_running_loop()

        def learn(*_: object, **__: object) -> KillFacts:
            threads.append(threading.current_thread())
            turned = threading.Event()
            loop.call_soon_threadsafe(turned.set)
            assert turned.wait(5), "the loop does not turn"
            return KillFacts(record_visible=True, task_state="running")

        monkeypatch.setattr("airflow_resume.jobs.early_end.learn_about_kill", learn)
        loop.call_later(0.1, lambda: attempt.ti.task.on_kill())  # noqa: PLW0108  it is replaced meanwhile
        return await arun_job(jobs, policy=ResumePolicy(poll=PollPolicy(interval=timedelta(seconds=0.01))))

    with attempt, pytest.raises(AirflowRescheduleException):
        asyncio.run(task())
    assert len(threads) == 1
    assert threads != [threading.main_thread()]
    assert jobs.jobs.alive() == ["job-0"]


def test_a_time_out_is_known_in_the_handler_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the thread that handles the time-out knows of it, and nobody has to be asked."""
    jobs, attempt = AsyncJobs(scripts=[["RUNNING"] * 10**6]), task_context()
    threads: list[threading.Thread] = []

    def learn(*_: object, **__: object) -> KillFacts:
        threads.append(threading.current_thread())
        return KillFacts(timed_out=True)

    def kill() -> None:
        try:
            raise AirflowTaskTimeout  # noqa: TRY301  as Airflow's alarm does
        except AirflowTaskTimeout:
            attempt.ti.task.on_kill()

    async def task() -> Any:
        asyncio.get_running_loop().call_later(0.1, kill)
        waits = arun_job(jobs, policy=ResumePolicy(poll=PollPolicy(interval=timedelta(seconds=0.01))))
        return await asyncio.wait_for(waits, timeout=0.5)

    monkeypatch.setattr("airflow_resume.jobs.early_end.learn_about_kill", learn)
    with attempt, pytest.raises(asyncio.TimeoutError):
        asyncio.run(task())
    assert threads == [threading.main_thread()]


def test_outside_of_a_task_it_needs_a_store() -> None:
    with pytest.raises(NoStateStoreError):
        asyncio.run(told_by(AsyncJobs()))
    assert asyncio.run(told_by(AsyncJobs(), store=MemoryStore())) == {"job": "job-0"}


def test_run_job_on_an_event_loop_is_an_error_at_once() -> None:
    async def task() -> Any:
        return run_job(FakeJobs())

    with task_context(), pytest.raises(UsageError, match=r"\nWrite: result = await arun_job\("):
        asyncio.run(task())
