"""`arun_job`: the job of an `async def` task.

Theory of operation. The engine is that of `run_job`, and it blocks. So it runs in a thread of its own, and the
coroutine waits for the thread. Coroutine methods of the client run on the event loop of the task, where their
connections belong, and the engine's thread waits for them; other methods run in the engine's thread. The event loop
itself never blocks, so the other coroutines of the task, and their calls to Airflow, go on.

`on_kill` is called in a signal handler on the thread of the event loop. It must not wait there to learn why the task
ends: another coroutine may be in the middle of a call to Airflow whose reply only the loop can take, and until then no
other call is answered. So the handler returns at once, and another thread asks; the engine's thread cancels the job.
"""

from __future__ import annotations

import _thread
import asyncio
import concurrent.futures
import contextvars
import inspect
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_resume.arguments import check_context, check_store
from airflow_resume.attempt import AnyContext
from airflow_resume.channel import LoopChannel, in_process_supervisor
from airflow_resume.compat import AirflowTaskTimeout
from airflow_resume.jobs.decide import JobStatus
from airflow_resume.jobs.policy import ResumePolicy
from airflow_resume.jobs.poll import Clock, clock_of
from airflow_resume.jobs.protocol import check_jobs
from airflow_resume.jobs.run import JobRun
from airflow_resume.jobs.taskflow import cancelled_on_kill
from airflow_resume.store import AirflowStore, StateStore
from airflow_resume.task_stores import open_task_store

if TYPE_CHECKING:
    from pydantic import JsonValue

_METHODS = ("submit", "status", "find", "find_jobs", "cancel", "wait", "result", "replay", "classify")


class _LeftError(BaseException):
    """The coroutine that waited for the engine was cancelled."""


async def arun_job(
    jobs: Any,
    *,
    name: str = "job",
    policy: ResumePolicy = ResumePolicy(),  # noqa: B008  frozen
    inputs: JsonValue = None,
    statuses: Mapping[str, JobStatus | str] | None = None,
    context: AnyContext | None = None,
    store: StateStore | None = None,
) -> Any:
    """As `run_job`, in a coroutine: submit one job, wait for it, and return its result.

    When the coroutine is cancelled, the job is left alone, and the next attempt reconnects. A request that is running
    is waited for, so that the id of a job just submitted is saved. If the event loop itself ends, as it does when
    `asyncio.run` ends with an error, the requests are cancelled too, which is like a crash.

    Args:
        jobs: the job system, see `Jobs`; each of its methods may be a coroutine function or not.
        name: as for `run_job`, like all other arguments.
        policy: what to do where there is a choice.
        inputs: what the job is made from, as JSON.
        statuses: what words of the job system mean.
        context: of the task; by default that of the running one.
        store: used instead of the task's, for scripts and tests.

    Returns:
        `jobs.result(id)`, or the id where there is no `result`.

    Raises:
        ResumeError: what `run_job` raises.
    """
    check_jobs(jobs)
    if context is not None:
        check_context(context)
    if store is not None:
        check_store(store)
    loop, left = asyncio.get_running_loop(), threading.Event()
    on_loop: Any = _JobsOfLoop(jobs, loop, left)
    opened, _ = open_task_store(context, store)
    if isinstance(opened, AirflowStore) and in_process_supervisor():
        opened = replace(opened, find_channel=lambda: LoopChannel(loop))
    run = JobRun(
        on_loop,
        name=name,
        policy=policy,
        inputs=inputs,
        statuses=statuses,
        context=context,
        store=opened,
        clock=_clock_that_ends(clock_of(opened), left),
        cancels_in_handler=False,
    )
    with cancelled_on_kill(partial(_off_the_thread, run.killed), context):
        engine = _in_thread(run.run, loop)
        try:
            return await asyncio.shield(engine)
        except asyncio.CancelledError:
            left.set()
            while not engine.done():  # however often it is cancelled, the id of a running submit must be saved
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([engine])
            with suppress(BaseException):  # the coroutine ends with the cancellation
                engine.result()
            raise


def _off_the_thread(killed: Callable[[], object]) -> None:
    """Call `killed` in another thread; after a time-out in this one, as only this thread knows of the time-out.

    Not by `threading.Thread`: it takes locks when it starts, and the signal may have come while this thread held them.
    """
    if isinstance(sys.exc_info()[1], AirflowTaskTimeout):
        killed()
    else:
        _thread.start_new_thread(contextvars.copy_context().run, (killed,))


def _in_thread(work: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> asyncio.Future[Any]:
    """The future of what `work` returns or raises in a daemon thread.

    Not `asyncio.to_thread`: Airflow's async calls need its threads, and if all of them wait here, there is a deadlock.
    Besides, Python joins them when it exits, and a task that timed out must end.
    """
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(method: Callable[[Any], None], value: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed, so nobody waits any more
            loop.call_soon_threadsafe(lambda: None if future.done() else method(value))

    def engine() -> None:
        try:
            deliver(future.set_result, context.run(work))
        except StopIteration as error:  # a future does not accept this one
            wrapped = RuntimeError("a method of the client raised StopIteration")
            wrapped.__cause__ = error
            deliver(future.set_exception, wrapped)
        except BaseException as error:  # noqa: BLE001  it is raised where the future is awaited
            deliver(future.set_exception, error)

    threading.Thread(target=engine, name="airflow-resume-job", daemon=True).start()
    return future


def _clock_that_ends(clock: Clock, left: threading.Event) -> Clock:
    """A clock on which the engine stops sleeping once its coroutine was cancelled."""

    def sleep(seconds: float) -> None:
        if clock.sleep is Clock().sleep:
            left.wait(seconds)
        else:
            clock.sleep(seconds)
        if left.is_set():
            raise _LeftError

    return replace(clock, sleep=sleep)


class _JobsOfLoop:
    """A client whose coroutine functions run on the event loop."""

    def __init__(self, jobs: Any, loop: asyncio.AbstractEventLoop, left: threading.Event) -> None:
        self._jobs = jobs
        self._loop = loop
        self._left = left
        for name in _METHODS:
            method = getattr(jobs, name, None)
            if callable(method):
                setattr(self, name, partial(self._call, method))

    def __getattr__(self, name: str) -> Any:
        """Attributes that the client declares, such as `job_not_found`."""
        if name in _METHODS:
            raise AttributeError(name)
        return getattr(self._jobs, name)

    def _call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        if self._left.is_set():  # a running request is finished, and no other is begun
            raise _LeftError
        answer = method(*arguments)
        if not inspect.isawaitable(answer):
            return answer

        async def awaited() -> Any:
            return await answer

        try:
            return asyncio.run_coroutine_threadsafe(awaited(), self._loop).result()
        except concurrent.futures.CancelledError:  # the event loop itself ends, with every coroutine on it
            raise _LeftError from None
