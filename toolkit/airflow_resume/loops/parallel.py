"""A loop whose elements are worked on several at a time, in threads (`map`) or in tasks of an event loop (`amap`).

Theory of operation. Threads and tasks only work; the one who iterates takes elements from the source, hands out
results, acks and writes. An element is acked when the consumer of its result comes back for the next one, as in any
loop. When one fails, nothing more is started; what is in flight is waited for, handed out and acked, and then the error
is raised. So at most what is in flight is done again, besides what was acked since the last write.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from queue import SimpleQueue
from typing import Any, TypeVar

from airflow_resume.channel import off_the_loop
from airflow_resume.errors import LoopStoppedError
from airflow_resume.loops.flights import Flight, Flights
from airflow_resume.loops.run import LoopRun
from airflow_resume.loops.sequence import aopened, opened

T = TypeVar("T")
R = TypeVar("R")


def mapped(run: LoopRun[T], work: Callable[[T], R], *, workers: int, ordered: bool) -> Iterator[R]:
    """What `work` returns for each element that is not done, worked out in threads."""
    with opened(run), _threads(workers, name=run.plan.name) as pool:
        while not run.exhausted:
            with run.recovering():
                yield from _one_pass(run, work, pool, Flights[R](workers=workers, ordered=ordered))


def _one_pass(
    run: LoopRun[T], work: Callable[[T], R], pool: ThreadPoolExecutor, flights: Flights[R]
) -> Iterator[R]:
    landed: SimpleQueue[Flight[R]] = SimpleQueue()

    def fly(flight: Flight[R], element: T) -> None:
        run.set_in_hand(flight.before)
        try:
            landed.put(flight.landed_with(work(element)))
        except Exception as error:  # noqa: BLE001  it belongs to whoever iterates
            landed.put(flight.landed_badly(error))
        except BaseException as error:
            landed.put(flight.landed_badly(RuntimeError(f"{type(error).__name__} in a thread of map(): {error}")))
            raise

    todo = run.todo()
    source_is_empty = False
    while True:
        while not source_is_empty and _may_start(run, flights):
            try:
                element, number, before, after = next(todo)
            except StopIteration:
                source_is_empty = True
            except Exception as error:  # noqa: BLE001  raised when all have landed
                flights.fail(error)
            else:
                if run.before_work(number, after):
                    run.flush()
                flight = flights.start(number, before, after)
                pool.submit(copy_context().run, fly, flight, element)
        if not flights:
            break
        while (done := flights.take()) is None:
            flights.land(landed.get())
        if done.error is None:
            yield done.result
            must_flush = run.after_work(done.number, done.after)
        else:
            must_flush = _failed(run, flights, done, done.error)
        if must_flush:
            run.flush()
        _note_stop(run, flights)
    if flights.failure is not None:
        raise flights.failure
    if run.exhaust():
        run.flush()


@contextmanager
def _threads(workers: int, *, name: str) -> Iterator[ThreadPoolExecutor]:
    """A pool that ends with the block. A time-out does not wait for what is in flight; everything else does."""
    pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix=f"airflow-resume-{name}")
    wait = False
    try:
        yield pool
        wait = True
    except (Exception, GeneratorExit):
        wait = True
        raise
    finally:
        pool.shutdown(wait=wait, cancel_futures=True)


async def amapped(
    run: LoopRun[T], work: Callable[[T], Awaitable[R]], *, workers: int, ordered: bool
) -> AsyncIterator[R]:
    """What `work` returns for each element that is not done, worked out in tasks."""
    async with aopened(run):
        while not run.exhausted:
            with run.recovering():
                async for result in _one_apass(run, work, Flights[R](workers=workers, ordered=ordered)):
                    yield result


async def _one_apass(run: LoopRun[T], work: Callable[[T], Awaitable[R]], flights: Flights[R]) -> AsyncIterator[R]:
    landed: asyncio.Queue[Flight[R]] = asyncio.Queue()

    async def fly(flight: Flight[R], element: T) -> None:
        run.set_in_hand(flight.before)
        try:
            landed.put_nowait(flight.landed_with(await work(element)))
        except Exception as error:  # noqa: BLE001  it belongs to whoever iterates
            landed.put_nowait(flight.landed_badly(error))

    todo = run.atodo()
    tasks: set[asyncio.Task[None]] = set()
    source_is_empty = False
    try:
        while True:
            while not source_is_empty and _may_start(run, flights):
                try:
                    element, number, before, after = await anext(todo)
                except StopAsyncIteration:
                    source_is_empty = True
                except Exception as error:  # noqa: BLE001  raised when all have landed
                    flights.fail(error)
                else:
                    if run.before_work(number, after):
                        await off_the_loop(run.flush)
                    task = asyncio.create_task(fly(flights.start(number, before, after), element))
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)
            if not flights:
                break
            while (done := flights.take()) is None:
                flights.land(await landed.get())
            if done.error is None:
                yield done.result
                must_flush = run.after_work(done.number, done.after)
            else:
                must_flush = _failed(run, flights, done, done.error)
            if must_flush:
                await off_the_loop(run.flush)
            _note_stop(run, flights)
    finally:
        await _cancelled(tasks)
    if flights.failure is not None:
        raise flights.failure
    if run.exhaust():
        await off_the_loop(run.flush)


async def _cancelled(tasks: set[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _may_start(run: LoopRun[Any], flights: Flights[Any]) -> bool:
    """A record that is full of holes is waited for, until the lowest is closed."""
    return flights.has_room and not (flights and run.ledger.frontier.is_full)


def _failed(run: LoopRun[Any], flights: Flights[Any], flight: Flight[Any], error: Exception) -> bool:
    """Pass over the element if the policy does, else fail when all have landed; whether to flush."""
    if run.may_skip(error):
        return run.skip(flight.number, flight.before, flight.after, error)
    flights.fail(error)
    return False


def _note_stop(run: LoopRun[Any], flights: Flights[Any]) -> None:
    try:
        run.raise_if_stopped()
    except LoopStoppedError as error:
        flights.fail(error)
