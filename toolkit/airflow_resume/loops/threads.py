"""`map`: the steps of `flights`, carried out with threads.

The threads are our own, and not those of a pool: a future and its callbacks cost several times what an element does
here, and what is waited for has to be a queue anyway, as a time-out may interrupt whoever waits at any moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from contextvars import copy_context
from queue import Empty, SimpleQueue
from threading import Thread
from types import CoroutineType
from typing import Any, TypeVar

from airflow_resume.errors import LoopError
from airflow_resume.loops.flights import Ask, Flight, Flights, Give, Start, directions
from airflow_resume.loops.run import LoopRun, Todo
from airflow_resume.loops.sequence import opened
from airflow_resume.loops.skip import WrongFunctionError
from airflow_resume.loops.steps import sent

T = TypeVar("T")
R = TypeVar("R")


def mapped(run: LoopRun[T], work: Callable[[T], R], *, workers: int, ordered: bool) -> Iterator[R]:
    """What `work` returns for each element that is not done, worked out in threads."""
    with opened(run), _threads(workers, name=run.plan.name) as threads:
        while not run.exhausted:
            with run.recovering():
                yield from _one_pass(run, work, threads, Flights[R](workers=workers, ordered=ordered))


def _one_pass(run: LoopRun[T], work: Callable[[T], R], threads: _Threads, flights: Flights[R]) -> Iterator[R]:
    landed: SimpleQueue[Flight[R]] = SimpleQueue()
    steps = directions(run, flights)
    with closing(run.todo(in_order=False)) as todo:  # the source ends with the pass, also after an error
        step = sent(steps, None)
        while step is not None:
            reply: Any = None
            if step is Ask.NEXT:
                reply = _next_of(todo)
            elif step is Ask.WAIT:
                reply = landed.get()
            elif isinstance(step, Start):
                threads.start(copy_context().run, _fly, run, work, landed, step.flight, step.element)
            elif isinstance(step, Give):
                yield step.result
            elif step is Ask.FLUSH:
                run.flush()
            else:
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
        value = work(element)
        if value.__class__ is CoroutineType:
            raise _not_run(value)  # noqa: TRY301
        landed.put(flight.landed_with(value))
    except Exception as error:  # noqa: BLE001  it belongs to whoever iterates
        landed.put(flight.landed_badly(error))
    except BaseException as error:  # noqa: BLE001  a thread that ends by it would leave the others' work undone
        landed.put(flight.landed_badly(LoopError(f"A thread of map() ended by {error!r}, as if the process should.")))


def _not_run(coroutine: Any) -> WrongFunctionError:
    """It would never run, and its element count as done."""
    coroutine.close()
    return WrongFunctionError(
        f"The function of map() returned a coroutine, {coroutine.__qualname__}(), which does not run.\n"
        "Use `async for` and loop.amap(...)."
    )


class _Threads:
    """Threads that call what they are given, one call at a time each.

    Args:
        most: how many there may be; so many are started as there were calls.
        name: how their names begin.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._calls: SimpleQueue[tuple[Any, ...] | None] = SimpleQueue()
        self._threads: list[Thread] = []

    def start(self, *call: Any) -> None:
        """Have a function called with its arguments, by the next thread that is free.

        Raises:
            RuntimeError: the process may have no thread.
        """
        if len(self._threads) < self._most:
            thread = Thread(target=self._work, name=f"{self._name}_{len(self._threads)}")
            # First, as a time-out may come in the middle of its start, and `end` must know of it.
            self._threads.append(thread)
            try:
                thread.start()
            except RuntimeError:
                self._threads.pop()
                self._most = len(self._threads)  # there are no more to be had
                if not self._threads:
                    raise
        self._calls.put(call)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            function, *arguments = call
            function(*arguments)
            del call, function, arguments  # or the last element would be kept for as long as the thread waits

    def end(self, *, wait: bool) -> None:
        """Let no call begin any more, and wait for those that have."""
        with suppress(Empty):
            while True:
                self._calls.get_nowait()
        for _ in self._threads:
            self._calls.put(None)
        if wait:
            for thread in self._threads:
                if thread.ident is not None:  # it was started
                    thread.join()


@contextmanager
def _threads(workers: int, *, name: str) -> Iterator[_Threads]:
    """Threads that end with the block. A time-out does not wait for what is in flight; everything else does."""
    threads = _Threads(workers, f"airflow-resume-{name}")
    wait = False
    try:
        yield threads
        wait = True
    except (Exception, GeneratorExit):
        wait = True
        raise
    finally:
        threads.end(wait=wait)
