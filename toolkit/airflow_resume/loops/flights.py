"""A loop whose elements are worked on several at a time: what to do next, without doing it.

Theory of operation. Threads or tasks only work; the one who iterates takes elements from the source, hands out results,
acks and writes. An element is acked when the consumer of its result comes back for the next one, as in any loop. When
one fails, nothing more is started; what is in flight is waited for, handed out and acked, and then the error is raised.
So at most what is in flight is done again, besides what was acked since the last write. `directions` says all that, one
step at a time; `threads` and `tasks` carry the steps out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast

from airflow_resume.loops.run import LoopRun, Todo

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")
R = TypeVar("R")


@dataclass(kw_only=True)
class Flight(Generic[R]):
    """An element that is being worked on, and how that ended."""

    number: int
    before: JsonValue
    after: JsonValue
    has_landed: bool = False
    error: Exception | None = None
    value: R | None = None

    def landed_with(self, value: R) -> Flight[R]:
        """The work returned."""
        self.value, self.has_landed = value, True
        return self

    def landed_badly(self, error: Exception) -> Flight[R]:
        """The work raised."""
        self.error, self.has_landed = error, True
        return self

    @property
    def result(self) -> R:
        """What the work returned."""
        return cast("R", self.value)


class Flights(Generic[R]):
    """Those that were started and not yet handed out.

    Args:
        workers: how many are worked on at a time.
        ordered: whether results are handed out in the order of the elements. Then as many again may wait their turn.
    """

    def __init__(self, *, workers: int, ordered: bool) -> None:
        self.workers = workers
        self._limit = 2 * workers if ordered else workers
        self._ordered = ordered
        self._aloft: dict[int, Flight[R]] = {}
        self._landed: deque[Flight[R]] = deque()
        self.failure: Exception | None = None
        """Why nothing more is started."""
        self.stops = False
        """The task was told to stop, so nothing more is started either."""

    def __len__(self) -> int:
        return len(self._aloft)

    @property
    def has_room(self) -> bool:
        """Whether another may start."""
        return self.failure is None and not self.stops and len(self._aloft) < self._limit

    def start(self, number: int, before: JsonValue, after: JsonValue) -> Flight[R]:
        """An element is being worked on."""
        flight = self._aloft[number] = Flight[R](number=number, before=before, after=after)
        return flight

    def land(self, flight: Flight[R]) -> None:
        """The work of an element has ended."""
        if not self._ordered:
            self._landed.append(flight)

    def fail(self, error: Exception) -> None:
        """Start nothing more; the first reason is the one that counts."""
        if not self.stops:
            self.failure = self.failure or error

    def stop(self) -> None:
        """The same, as the task was told to stop."""
        self.stops = self.failure is None

    def take(self) -> Flight[R] | None:
        """The next to hand out; None while there is none."""
        if not self._ordered:
            flight = self._landed.popleft() if self._landed else None
        else:
            first = next(iter(self._aloft.values()), None)
            flight = first if first is not None and first.has_landed else None
        if flight is not None:
            del self._aloft[flight.number]
        return flight


# --- steps ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Next:
    """Send the next of the run's `todo`; None at the end; or the error that came instead."""


@dataclass(frozen=True)
class Start(Generic[T, R]):
    """Have the element worked on."""

    flight: Flight[R]
    element: T


@dataclass(frozen=True)
class Wait(Generic[R]):
    """Send the next flight whose work has ended."""


@dataclass(frozen=True)
class Give(Generic[R]):
    """Hand out a result, and come back when the next one is asked for."""

    result: R


@dataclass(frozen=True)
class Flush:
    """Write what is acked."""


@dataclass(frozen=True)
class Stop:
    """Leave the loop, as the task was told to stop."""


Step: TypeAlias = "Next | Start[Any, R] | Wait[R] | Give[R] | Flush | Stop"


def directions(run: LoopRun[T], flights: Flights[R]) -> Generator[Step[R], Any, None]:
    """The steps of one pass over the source."""
    run.share_state()
    is_empty = False
    while True:
        if not is_empty and _may_start(run, flights):
            is_empty = yield from _start(run, flights)
        elif flights:
            yield from _land(run, flights)
        else:
            break
    if flights.failure is not None:
        raise flights.failure
    if flights.stops:
        yield Stop()
    if run.exhaust():
        yield Flush()


def _may_start(run: LoopRun[Any], flights: Flights[Any]) -> bool:
    """A record that is full of holes is waited for, until the lowest is closed."""
    return flights.has_room and not (flights and (run.ledger.frontier.is_full or run.is_careful))


def _start(run: LoopRun[T], flights: Flights[R]) -> Generator[Step[R], Any, bool]:
    """Start the next element; whether there is none any more."""
    found: Todo[T] | Exception | None = yield Next()
    if found is None:
        return True
    if isinstance(found, Exception):
        flights.fail(found)
        return False
    element, number, before, after = found
    if run.before_work(number, before, after):
        yield Flush()
    yield Start(flights.start(number, before, after), element)
    return False


def _land(run: LoopRun[Any], flights: Flights[R]) -> Generator[Step[R], Any, None]:
    """Hand out the next result, and ack its element."""
    while (flight := flights.take()) is None:
        flights.land((yield Wait()))
    if flight.error is None:
        yield Give(flight.result)
        must_flush = run.after_work(flight.number, flight.before, flight.after)
    elif run.may_skip(flight.error):
        must_flush = run.skip(flight.number, flight.before, flight.after, flight.error)
    else:
        flights.fail(flight.error)
        must_flush = False
    if must_flush:
        yield Flush()
    if run.stop_asked:
        flights.stop()
