"""A loop that works on several elements at a time: which step is next. Other modules execute the steps.

Theory of operation. Threads or tasks only call the user's function. The caller that iterates takes elements from the
source, hands out results, acks and writes. An element is acked when the consumer of its result asks for the next one,
as in any loop. When one element fails, no other is started. The elements in flight are finished, handed out and acked,
and then the error is raised. So a later attempt repeats at most the elements in flight, and those that were acked since
the last write. `directions` yields these steps one at a time; `threads` and `tasks` execute them.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast

from airflow_resume.loops.open_loop import OpenLoop
from airflow_resume.loops.remaining import RemainingElement
from airflow_resume.loops.run import LoopRun

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")
R = TypeVar("R")


@dataclass(slots=True)
class InFlight(Generic[R]):
    """An element whose work was started, and the outcome of the work."""

    number: int
    before: JsonValue
    after: JsonValue
    is_finished: bool = False
    error: Exception | None = None
    value: R | None = None

    def returned(self, value: R) -> InFlight[R]:
        """Note that the work has ended with this result."""
        self.value, self.is_finished = value, True
        return self

    def raised(self, error: Exception) -> InFlight[R]:
        """Note that the work has ended with this error."""
        self.error, self.is_finished = error, True
        return self


class Started(Generic[R]):
    """The elements that were started and not yet handed out.

    Args:
        workers: how many elements are worked on at a time.
        ordered: whether results are handed out in the order of the elements. Then the same number of finished elements
            may wait for their turn.
    """

    def __init__(self, *, workers: int, ordered: bool) -> None:
        self.workers = workers
        self._limit = 2 * workers if ordered else workers
        self.ordered = ordered
        self._by_number: dict[int, InFlight[R]] = {}
        self._finished: deque[InFlight[R]] = deque()
        self.failure: Exception | None = None
        """The error after which no further element is started."""
        self.stops = False
        """Whether no further element is started because the task was told to stop."""

    def __len__(self) -> int:
        return len(self._by_number)

    @property
    def has_room(self) -> bool:
        """Whether another element may be started."""
        return self.failure is None and not self.stops and len(self._by_number) < self._limit

    def start(self, number: int, before: JsonValue, after: JsonValue) -> InFlight[R]:
        """Note that work on the element begins."""
        started: InFlight[R]
        started = self._by_number[number] = InFlight(number, before, after)
        return started

    def finish(self, finished: InFlight[R]) -> None:
        """Note that the work on the element has ended."""
        if not self.ordered:
            self._finished.append(finished)

    def fail(self, error: Exception) -> None:
        """Start no further element. If this is called twice, the first error counts."""
        if not self.stops:
            self.failure = self.failure or error

    def stop(self) -> None:
        """Start no further element, as the task was told to stop."""
        self.stops = self.failure is None

    def take(self) -> InFlight[R] | None:
        """The next element to hand out; None if no element is ready."""
        if not self.ordered:
            taken = self._finished.popleft() if self._finished else None
        else:
            first = next(iter(self._by_number.values()), None)
            taken = first if first is not None and first.is_finished else None
        if taken is not None:
            del self._by_number[taken.number]
        return taken


# --- steps ----------------------------------------------------------------------------------------------------


class Command(Enum):
    """Steps without data."""

    NEXT = "next"
    """Reply with the next remaining element, with None at the end, or with the error of the source."""
    WAIT = "wait"
    """Reply with the next element whose work has ended."""
    FLUSH = "flush"
    """Write what is acked."""
    STOP = "stop"
    """Leave the loop, as the task was told to stop."""


@dataclass(slots=True)
class Start(Generic[T, R]):
    """Start the work on the element."""

    in_flight: InFlight[R]
    element: T


@dataclass(slots=True)
class Give(Generic[R]):
    """Hand out a result, and reply when the consumer asks for the next one."""

    result: R


Step: TypeAlias = "Command | Start[Any, R] | Give[R]"


def directions(  # noqa: C901, PLR0912  one sequence; a function call would cost time per element
    run: LoopRun[T], loop: OpenLoop[T], started: Started[R]
) -> Generator[Step[R], Any, None]:
    """The steps of one pass over the source."""
    loop.ledger.state.share(loop, loop.plan.name)
    deliveries, is_empty = loop.deliveries, False
    while True:
        if not is_empty and started.has_room and not (started and loop.must_wait_for_holes):
            found: RemainingElement[T] | Exception | None = yield Command.NEXT
            if found is None:
                is_empty = True
            elif isinstance(found, Exception):
                started.fail(found)
            else:
                element, number, before, after = found
                if deliveries.before_work(number, before, after):
                    yield Command.FLUSH
                yield Start(started.start(number, before, after), element)
        elif started:
            while (ended := started.take()) is None:
                started.finish((yield Command.WAIT))
            must_flush = False
            if ended.error is None:
                deliveries.is_given = True
                yield Give(cast("R", ended.value))
                deliveries.is_given = False
                run.check_exit()
                must_flush = deliveries.after_work(ended.number, ended.before, ended.after)
            elif deliveries.may_skip(ended.error):
                must_flush = deliveries.skip(ended.number, ended.before, ended.after, ended.error)
            else:
                started.fail(ended.error)
            if must_flush:
                yield Command.FLUSH
            if loop.session.stop_request.is_made:
                started.stop()
        else:
            break
    if started.failure is not None:
        raise started.failure
    if started.stops:
        yield Command.STOP
    if loop.exhaust():
        yield Command.FLUSH


def next_step(directions: Generator[Step[R], Any, None], reply: object) -> Step[R] | None:
    """Send the reply to the last step, and return the next step; None at the end."""
    try:
        return directions.send(reply)
    except StopIteration:
        return None


def refuse_what_does_no_work(fn: object) -> None:
    """Refuse a function whose call only makes an object: each element would count as done before any work.

    Raises:
        TypeError: it is a coroutine function or a generator function.
    """
    inner: Any = fn
    while isinstance(inner, partial):
        inner = inner.func
    for function in (inner, getattr(type(inner), "__call__", None)):  # noqa: B004  its function is looked at
        if inspect.iscoroutinefunction(function):
            raise TypeError(f"map() cannot run the coroutine function {fn!r}.\nUse `async for` and loop.amap(...).")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"map() cannot run the generator function {fn!r}.\nReturn a list.")
