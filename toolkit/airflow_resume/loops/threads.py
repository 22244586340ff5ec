"""`map`: the steps of `flights`, carried out with a pool of threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from queue import SimpleQueue
from typing import Any, TypeVar

from airflow_resume.errors import LoopError
from airflow_resume.loops.flights import Flight, Flights, Flush, Give, Next, Start, Stop, Wait, directions
from airflow_resume.loops.run import LoopRun, Todo
from airflow_resume.loops.sequence import opened
from airflow_resume.loops.steps import sent

T = TypeVar("T")
R = TypeVar("R")


def mapped(run: LoopRun[T], work: Callable[[T], R], *, workers: int, ordered: bool) -> Iterator[R]:
    """What `work` returns for each element that is not done, worked out in threads."""
    with opened(run), _threads(workers, name=run.plan.name) as pool:
        while not run.exhausted:
            with run.recovering():
                yield from _one_pass(run, work, pool, Flights[R](workers=workers, ordered=ordered))


def _one_pass(run: LoopRun[T], work: Callable[[T], R], pool: ThreadPoolExecutor, flights: Flights[R]) -> Iterator[R]:
    # A queue, and not futures: whoever waits may be interrupted by a time-out at any moment.
    landed: SimpleQueue[Flight[R]] = SimpleQueue()
    todo, steps = run.todo(in_order=False), directions(run, flights)
    step = sent(steps, None)
    while step is not None:
        reply: Any = None
        match step:
            case Next():
                reply = _next_of(todo)
            case Start(flight, element):
                pool.submit(copy_context().run, _fly, run, work, landed, flight, element)
            case Wait():
                reply = landed.get()
            case Give(result):
                yield result
            case Flush():
                run.flush()
            case Stop():
                run.stop()
        step = sent(steps, reply)


def _next_of(todo: Iterator[Todo[T]]) -> Todo[T] | Exception | None:
    try:
        return next(todo, None)
    except Exception as error:  # noqa: BLE001  raised when all have landed
        return error


def _fly(
    run: LoopRun[T], work: Callable[[T], R], landed: SimpleQueue[Flight[R]], flight: Flight[R], element: T
) -> None:
    run.set_in_hand(flight.before)
    try:
        landed.put(flight.landed_with(work(element)))
    except Exception as error:  # noqa: BLE001  it belongs to whoever iterates
        landed.put(flight.landed_badly(error))
    except BaseException as error:
        landed.put(flight.landed_badly(LoopError(f"A thread of map() ended by {error!r}, as if the process should.")))
        raise


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
