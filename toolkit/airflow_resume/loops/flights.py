"""Which elements of a map are in flight, which have landed, and whether another may start. Knows no threads."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar, cast

if TYPE_CHECKING:
    from pydantic import JsonValue

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
        self._limit = 2 * workers if ordered else workers
        self._ordered = ordered
        self._aloft: dict[int, Flight[R]] = {}
        self._landed: deque[Flight[R]] = deque()
        self.failure: Exception | None = None
        """Why nothing more is started."""

    def __len__(self) -> int:
        return len(self._aloft)

    @property
    def has_room(self) -> bool:
        """Whether another may start."""
        return self.failure is None and len(self._aloft) < self._limit

    def start(self, number: int, before: JsonValue, after: JsonValue) -> Flight[R]:
        """An element is being worked on."""
        flight = self._aloft[number] = Flight[R](number=number, before=before, after=after)
        return flight

    def land(self, flight: Flight[R]) -> None:
        """The work of an element has ended."""
        self._landed.append(flight)

    def fail(self, error: Exception) -> None:
        """Start nothing more; the first error is the one that counts."""
        self.failure = self.failure or error

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
