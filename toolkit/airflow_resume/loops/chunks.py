"""Elements in a row whose positions can be told by counting, so that a loop over them need not ask for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

IN_MEMORY = (list, tuple, range)
"""What is iterated without anything that could fail. A class of one's own may do anything."""


@dataclass(frozen=True)
class Chunk(Generic[T_co]):
    """Some elements of a source.

    Args:
        items: the elements.
        position: the position after so many of them, from 1 on.
        may_fail: whether asking for the next one may raise.
        end: the position after the last one, or one as large; 0 where all are small.
    """

    items: Iterator[T_co]
    position: Callable[[int], JsonValue]
    may_fail: bool = True
    end: JsonValue = 0

    def elements(self) -> Iterator[tuple[T_co, JsonValue]]:
        """Each with the position after it."""
        for done, item in enumerate(self.items, 1):
            yield item, self.position(done)


class Reel(Generic[T]):
    """What is left of a chunk, and how far it was gone through.

    An error of the chunk is kept, and looks like its end: whoever only counts knows then that the element before it is
    done, which an error that comes from anywhere, such as a time-out, does not say.

    Args:
        chunk: as it came from the source.
        before: the position before its first element.
    """

    def __init__(self, chunk: Chunk[T], before: JsonValue) -> None:
        self._position = chunk.position
        self._start = before
        self.passed = 0
        """Elements passed."""
        self.here = before
        """The position before the next element."""
        self._failures: list[Exception] = []
        self.items = _until_failure(chunk.items, self._failures) if chunk.may_fail else chunk.items

    def move_to(self, passed: int) -> None:
        """So many elements are passed."""
        self.passed = passed
        self.here = self._position(passed) if passed else self._start

    def close(self) -> None:
        """Close what gives the elements, if that can be closed."""
        close = getattr(self.items, "close", None)
        if close is not None:
            close()

    def raise_failure(self) -> None:
        """Raise what it ended with, if it was an error."""
        for failure in self._failures:
            raise failure


def _until_failure(items: Iterator[T], failures: list[Exception]) -> Iterator[T]:
    try:
        yield from items
    except Exception as error:  # noqa: BLE001  it is raised in the loop
        failures.append(error)
