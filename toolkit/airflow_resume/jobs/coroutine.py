"""`arun_job`: the job of an `async def` task.

Theory of operation. The engine is the same as that of `run_job`, and it blocks; so it runs in a thread of its own, and
the coroutine waits for the thread. Methods of the client that are coroutines run on the event loop of the task, where
their connections belong, and the engine's thread waits for them; other methods run in the engine's thread. Nothing is
ever waited for on the event loop itself, so the other coroutines of the task, and their calls to Airflow, go on.

`on_kill` comes in a signal handler on the thread of the event loop. It must not wait there to learn why the task ends:
another coroutine may be in the middle of a call to Airflow, whose reply only the loop can take, and until then nobody
else is answered. So the handler returns at once, and another thread asks; the engine's thread cancels the job.
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

from airflow.sdk.exceptions import AirflowTaskTimeout

from airflow_resume.attempt import AnyContext
from airflow_resume.channel import LoopChannel, in_process_supervisor
from airflow_resume.jobs.decide import JobStatus
from airflow_resume.jobs.policy import ResumePolicy
from airflow_resume.jobs.poll import Clock, clock_of
from airflow_resume.jobs.run import JobRun
from airflow_resume.jobs.taskflow import cancelled_on_kill
from airflow_resume.store import AirflowStore, StateStore, open_task_store

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

    When the coroutine is cancelled, the job is left alone, and the next attempt reconnects; a request that is under way
    is waited for, so that the id of a job just submitted is saved. (Not when the event loop itself is ended, as
    `asyncio.run` does after an error: that cancels the requests too, and is like a crash.)

    Args:
        jobs: the job system, see `Jobs`; each of its methods may be a coroutine function or not.
        name: see `run_job`, and so are the others.
        policy: what to do where there is a choice.
        inputs: what the job is made from, as JSON.
        statuses: what words of the job system mean.
        context: of the task; by default that of the running one.
        store: used instead of the task's, for scripts and tests.

    Returns:
        `jobs.result(id)`, or the id where there is no `result`.

    Raises:
        what `run_job` raises.
    """
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
            while not engine.done():  # however often it is cancelled: a submit under way is to be saved
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([engine])
            with suppress(BaseException):  # the cancellation is how this ends
                engine.result()
            raise


def _off_the_thread(killed: Callable[[], object]) -> None:
    """Call `killed` in another thread; after a time-out in this one, as only this one knows of it and nothing is asked.

    A `Thread` takes locks when it starts, and the signal may have come while this thread held them.
    """
    if isinstance(sys.exc_info()[1], AirflowTaskTimeout):
        killed()
    else:
        _thread.start_new_thread(contextvars.copy_context().run, (killed,))


def _in_thread(work: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> asyncio.Future[Any]:
    """The future of what `work` returns or raises in a daemon thread.

    Not `asyncio.to_thread`: Airflow's async calls need its threads, and if all of them wait here, nothing goes on any
    more. Besides, Python waits for them at its end, and a task that timed out must end.
    """
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(method: Callable[[Any], None], value: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
            loop.call_soon_threadsafe(lambda: None if future.done() else method(value))

    def engine() -> None:
        try:
            settle(future.set_result, context.run(work))
        except StopIteration as error:  # no future takes one
            settle(future.set_exception, _caused(RuntimeError("a method of the client raised StopIteration"), error))
        except BaseException as error:  # noqa: BLE001  it belongs to whoever waits
            settle(future.set_exception, error)

    threading.Thread(target=engine, name="airflow-resume-job", daemon=True).start()
    return future


def _caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


def _clock_that_ends(clock: Clock, left: threading.Event) -> Clock:
    """One on which an engine that nobody waits for any more does not sleep."""

    def sleep(seconds: float) -> None:
        if clock.sleep is Clock().sleep:
            left.wait(seconds)
        else:
            clock.sleep(seconds)
        if left.is_set():
            raise _LeftError

    return replace(clock, sleep=sleep)


class _JobsOfLoop:
    """A client, of which the coroutine functions run on the event loop."""

    def __init__(self, jobs: Any, loop: asyncio.AbstractEventLoop, left: threading.Event) -> None:
        self._jobs = jobs
        self._loop = loop
        self._left = left
        for name in _METHODS:
            method = getattr(jobs, name, None)
            if callable(method):
                setattr(self, name, partial(self._call, method))

    def __getattr__(self, name: str) -> Any:
        """What the client declares."""
        if name in _METHODS:
            raise AttributeError(name)
        return getattr(self._jobs, name)

    def _call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        if self._left.is_set():  # what is under way is ended, and nothing new begun
            raise _LeftError
        answer = method(*arguments)
        if not inspect.isawaitable(answer):
            return answer

        async def awaited() -> Any:
            return await answer

        try:
            return asyncio.run_coroutine_threadsafe(awaited(), self._loop).result()
        except concurrent.futures.CancelledError:  # the event loop itself ends, and every coroutine on it
            raise _LeftError from None
