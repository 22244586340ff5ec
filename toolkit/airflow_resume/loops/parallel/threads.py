"""`map`: the steps of `in_flight`, executed with threads.

It has threads of its own, and no pool: a future and its callbacks cost several times what an element costs here, and
whoever iterates must wait for a queue anyway, as a time-out may interrupt the waiting at any moment.
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
from airflow_resume.loops.open_loop import OpenLoop
from airflow_resume.loops.parallel.in_flight import Command, Give, InFlight, Start, Started, directions, next_step
from airflow_resume.loops.run import LoopRun
from airflow_resume.loops.serial.sequence import opened
from airflow_resume.loops.skip import WrongFunctionError

T = TypeVar("T")
R = TypeVar("R")


def mapped(run: LoopRun[T], work: Callable[[T], R], *, workers: int, ordered: bool) -> Iterator[R]:
    """What `work` returns for each element that is not done, computed in threads."""
    with opened(run) as loop, _threads(workers, name=run.plan.name) as threads:
        while not loop.exhausted:
            with loop.recovering():
                yield from _one_pass(run, loop, work, threads, Started[R](workers=workers, ordered=ordered))


def _one_pass(
    run: LoopRun[T], loop: OpenLoop[T], work: Callable[[T], R], threads: _Threads, started: Started[R]
) -> Iterator[R]:
    finished: SimpleQueue[InFlight[R]] = SimpleQueue()
    steps = directions(run, loop, started)
    with closing(loop.remaining.elements(in_order=False)) as remaining:  # the source ends with the pass, also by errors
        step = next_step(steps, None)
        while step is not None:
            reply: Any = None
            if step is Command.NEXT:
                try:
                    reply = next(remaining, None)
                except Exception as error:  # noqa: BLE001  raised when all work has ended
                    reply = error
            elif step is Command.WAIT:
                reply = finished.get()
            elif isinstance(step, Start):
                threads.start(copy_context().run, _work_on, loop, work, finished, step.in_flight, step.element)
            elif isinstance(step, Give):
                yield step.result
            elif step is Command.FLUSH:
                loop.session.keeper.flush()
            else:
                loop.stop()
            step = next_step(steps, reply)


def _work_on(
    loop: OpenLoop[T],
    work: Callable[[T], R],
    finished: SimpleQueue[InFlight[R]],
    in_flight: InFlight[R],
    element: T,
) -> None:
    loop.set_in_hand(in_flight.before, in_flight.after)
    try:
        value = work(element)
        if value.__class__ is CoroutineType:
            raise _not_run(value)  # noqa: TRY301
        finished.put(in_flight.returned(value))
    except Exception as error:  # noqa: BLE001  it belongs to whoever iterates
        finished.put(in_flight.raised(error))
    except BaseException as error:  # noqa: BLE001  a thread that ends by it would leave the others' work undone
        finished.put(in_flight.raised(LoopError(f"A thread of map() ended by {error!r}, as if the process should.")))


def _not_run(coroutine: Any) -> WrongFunctionError:
    """The error for a coroutine, which would never run although its element would count as done."""
    coroutine.close()
    return WrongFunctionError(
        f"The function of map() returned a coroutine, {coroutine.__qualname__}(), which does not run.\n"
        "Use `async for` and loop.amap(...)."
    )


class _Threads:
    """Threads that make calls, each one call at a time.

    Args:
        most: how many threads there may be; one is started for each of the first calls.
        name: the beginning of their names.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._calls: SimpleQueue[tuple[Any, ...] | None] = SimpleQueue()
        self._threads: list[Thread] = []

    def start(self, *call: Any) -> None:
        """Have a function called with its arguments by the next idle thread.

        Raises:
            RuntimeError: the process can start no thread.
        """
        if len(self._threads) < self._most:
            thread = Thread(target=self._work, name=f"{self._name}_{len(self._threads)}")
            # Before the start, as a time-out may interrupt it, and `end` must know of the thread.
            self._threads.append(thread)
            try:
                thread.start()
            except RuntimeError:
                self._threads.pop()
                self._most = len(self._threads)  # the process can start no more
                if not self._threads:
                    raise
        self._calls.put(call)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            function, *arguments = call
            function(*arguments)
            del call, function, arguments  # or the last element would stay in memory while the thread waits

    def end(self, *, wait: bool) -> None:
        """Begin no more calls, and wait for those that have begun."""
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
    """Threads that end with the block, which waits for what is in flight, unless it is left by a time-out."""
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
