"""Consecutive elements whose positions follow from counting. So a loop need not ask for each position."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

IN_MEMORY = (list, tuple, range)
"""Types that can be iterated without an error. A subclass may do anything."""


@dataclass(frozen=True)
class Chunk(Generic[T_co]):
    """Consecutive elements of a source.

    Args:
        items: the elements.
        position: a function of a number, from 1 on: the position after that many elements.
        may_fail: whether asking for the next one may raise.
        end: the position after the last one, or another one of the same size in bytes; 0 if positions are small.
    """

    items: Iterator[T_co]
    position: Callable[[int], JsonValue]
    may_fail: bool = True
    end: JsonValue = 0

    def elements(self) -> Iterator[tuple[T_co, JsonValue]]:
        """The elements, each with the position after it."""
        for done, item in enumerate(self.items, 1):
            yield item, self.position(done)


class ChunkCursor(Generic[T]):
    """How far a loop has gone through a chunk, and the rest of it.

    An error of the chunk is kept, and looks like the end of the chunk. So a loop that only counts knows that the
    previous element is done. An error that may come from anywhere, such as a time-out, does not show that.

    Args:
        chunk: as it came from the source.
        before: the position before its first element.
    """

    def __init__(self, chunk: Chunk[T], before: JsonValue) -> None:
        self._position = chunk.position
        self._start = before
        self.passed = 0
        """How many elements were passed."""
        self.here = before
        """The position before the next element."""
        self._failures: list[Exception] = []
        self.items = _until_failure(chunk.items, self._failures) if chunk.may_fail else chunk.items

    def move_to(self, passed: int) -> None:
        """Set how many elements were passed."""
        here = self._position(passed) if passed else self._start
        self.passed, self.here = passed, here

    @property
    def after_next(self) -> JsonValue:
        """The position after the next element."""
        return self._position(self.passed + 1)

    def advance(self) -> tuple[JsonValue, JsonValue]:
        """Pass the next element; returns the positions before and after it."""
        before, passed = self.here, self.passed + 1
        after = self._position(passed)
        self.passed, self.here = passed, after
        return before, after

    def close(self) -> None:
        """Close the iterator of the elements, if it can be closed."""
        close = getattr(self.items, "close", None)
        if close is not None:
            close()

    def raise_failure(self) -> None:
        """Raise the error that the chunk ended with, if there was one."""
        for failure in self._failures:
            raise failure


def _until_failure(items: Iterator[T], failures: list[Exception]) -> Iterator[T]:
    try:
        yield from items
    except Exception as error:  # noqa: BLE001  it is raised in the loop
        failures.append(error)
