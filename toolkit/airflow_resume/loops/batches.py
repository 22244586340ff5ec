"""The elements of any iterable, one by one or in lists of a size."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from itertools import count, islice
from typing import TYPE_CHECKING, Any, TypeVar, overload

from airflow_resume.arguments import check_whole
from airflow_resume.attempt import how_to_start_over
from airflow_resume.errors import SourceChangedError
from airflow_resume.loops.chunks import IN_MEMORY, Chunk
from airflow_resume.loops.order import refuse_unordered
from airflow_resume.loops.places import print_of_simple
from airflow_resume.loops.source import Source, check_place
from airflow_resume.loops.tables import is_table, rows_line

if TYPE_CHECKING:
    from typing import Literal

    from pydantic import JsonValue

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

log = logging.getLogger(__name__)

_END = object()


class Batches(Source[T_co]):
    """The elements of an iterable, one by one (`size=1`, as they are) or in lists of `size`.

    The iterable must give the same elements in the same order in every attempt. A sequence is entered by its index;
    any other iterable is gone through from its start, without delivering what was done before, which the log says. An
    asynchronous iterable is for `async for` only. A position is the number of elements done, so `size` may change
    between attempts. Beside it are kept how many there are, and, of a list of texts, numbers, paths or the like, a
    fingerprint of the last one done. Another element in its place, or fewer elements where they cannot be recognised,
    are a change of the source and follow the loop's `on_change`.

    >>> [batch for batch, _ in Batches(range(5), size=2).elements(0)]
    [[0, 1], [2, 3], [4]]
    >>> [batch for batch, _ in Batches(range(5), size=3).elements(2)]
    [[2, 3, 4]]

    Args:
        iterable: as above. A text is refused, as its characters are hardly what is meant, and so is a data frame, whose
            columns are not.
        size: of the lists; 1 by default, which delivers the elements themselves.

    Raises:
        SourceNotReopenableError: a set has no order that lasts.
        SourceChangedError: there are less elements than were done before.
    """

    kind = "batches"

    @overload
    def __init__(self, iterable: Iterable[T_co] | AsyncIterable[T_co], size: Literal[1] = 1) -> None: ...

    @overload
    def __init__(self: Batches[list[T]], iterable: Iterable[T] | AsyncIterable[T], size: int) -> None: ...

    def __init__(self, iterable: Iterable[Any] | AsyncIterable[Any], size: int = 1) -> None:
        refuse_unordered(iterable)
        if isinstance(iterable, (str, bytes, bytearray)) or not isinstance(iterable, (Iterable, AsyncIterable)):
            raise TypeError(f"Batches needs an iterable of elements, not {type(iterable).__name__}.\nPass a list.")
        if is_table(iterable):
            raise TypeError(
                f"A {type(iterable).__name__} is gone over by columns, not by rows.\n"
                f"Pass its rows, such as {rows_line(iterable)}."
            )
        check_whole("size", size, least=1)
        self._iterable = iterable
        self._recalled: tuple[JsonValue, dict[str, Any]] = (None, {})
        self._there: int | None = None
        self._last_there: Any = None
        """The last one of those, by which is seen that the body has moved it."""
        self._has_moved = False
        self._size = size
        if size > 1:
            self.noun = "list"

    def changes(self, position: JsonValue) -> Sequence[str]:
        """Whether a list has shrunk, or has another element where the last one stood that was done."""
        done, length = _done(position), self._length()
        if done == 0 or length is None:
            return []
        if length < done:
            return [f"there were {done} elements or more, and are {length}"]
        before, seen = self._recalled
        if seen.get("moved"):
            return ["the body had taken elements out of it"]
        is_there = before == position
        if is_there and "last" in seen and (last := self._print_of(done)) is not None:
            return [] if last == seen["last"] else [f"element {done} is another one than was done"]
        return [f"there were {seen['of']} elements, and are {length}"] if length < seen.get("of", 0) else []

    def seen(self, position: JsonValue) -> JsonValue:
        """How many there are, and a fingerprint of the last one that is done, where that is a simple value."""
        length, last = self._length(), self._print_of(_done(position))
        if length is None:
            return None
        there = self._there or 0
        if self._looks_moved(length) or max(_done(position), length) < there:
            return {"of": there, "moved": True}
        return {"of": length} if last is None else {"of": length, "last": last}

    def recall(self, position: JsonValue, seen: JsonValue) -> None:
        """For `changes`."""
        found = check_place(seen)
        if "of" in found:
            check_whole("of", found["of"], least=0)
        self._recalled = position, found
        self._there, self._has_moved = None, False

    def shortfall(self, position: JsonValue) -> str | None:
        """Less elements than there were when it was entered: the body has taken some out."""
        there, length = self._there, self._length()
        if position is None or there is None or length is None:
            return None
        done = _done(position)
        if self._looks_moved(length) or max(done, length) < there:
            return f"{done:,} of {max(there, done + 1):,} elements"
        return None

    def _looks_moved(self, length: int) -> bool:
        """Whether the body has taken elements out and appended as many, so that others moved to lower indices.

        The last element tells: whatever is taken out before it moves it. One that was replaced where it stood is not
        moved.
        """
        there = self._there
        if there and not self._has_moved and length >= there and isinstance(self._iterable, (list, deque)):
            last, at = self._last_there, there - 1
            if self._iterable[at] is not last:
                self._has_moved = any(item is last for item in islice(self._iterable, at))
            elif length > there:  # the body appends
                self._there, self._last_there = length, self._iterable[length - 1]
        return self._has_moved

    def _print_of(self, number: int) -> str | None:
        """A fingerprint of an element, by its number from 1."""
        if not isinstance(self._iterable, (list, tuple, range)) or not 0 < number <= len(self._iterable):
            return None
        return print_of_simple(self._iterable[number - 1])

    def numbering(self) -> JsonValue:
        """The elements are the same in every attempt; how many are in a list may change."""
        return self._size

    def check(self, position: JsonValue) -> None:
        """It is a number of elements."""
        if position is not None:
            check_whole("the position", position, least=0)

    def total(self, position: JsonValue) -> int | None:  # noqa: ARG002
        """The number of deliveries, where the length is known."""
        length = self._length()
        return None if length is None else -(-length // self._size)

    def rows(self, position: JsonValue) -> int | None:
        """The number of elements in the lists before `position`."""
        return _done(position) if self._size > 1 else None

    def total_rows(self, position: JsonValue) -> int | None:  # noqa: ARG002
        """The number of elements in all lists, where it is known."""
        return self._length() if self._size > 1 else None

    def _length(self) -> int | None:
        try:
            return len(self._iterable)  # type: ignore[arg-type]
        except TypeError:
            return None

    def chunks(self, position: JsonValue) -> Iterator[Chunk[Any]] | None:
        """All elements, unless they come in lists."""
        return self._all(_done(position)) if self._size == 1 else None

    def achunks(self, position: JsonValue) -> AsyncIterator[Chunk[Any]] | None:
        """None for an asynchronous iterable."""
        return None if isinstance(self._iterable, AsyncIterable) else super().achunks(position)

    def _all(self, done: int) -> Iterator[Chunk[Any]]:
        yield Chunk(self._entered(done), done.__add__, may_fail=type(self._iterable) not in IN_MEMORY)

    def _entered(self, done: int) -> Iterator[Any]:
        if not isinstance(self._iterable, Iterable):
            raise TypeError(f"{type(self._iterable).__name__} is asynchronous.\nIterate the loop with `async for`.")
        self._there, self._has_moved = self._length(), False
        if isinstance(self._iterable, (list, deque)) and self._iterable:
            self._last_there = self._iterable[-1]
        return _entered(self._iterable, done)

    def elements(self, position: JsonValue) -> Iterator[tuple[Any, JsonValue]]:
        """The elements or lists, each with the position after it."""
        done = _done(position)
        items = self._entered(done)
        if self._size == 1:
            yield from zip(items, count(done + 1), strict=False)
            return
        while batch := list(islice(items, self._size)):
            done += len(batch)
            yield batch, done

    async def aelements(self, position: JsonValue) -> AsyncIterator[tuple[Any, JsonValue]]:
        """The same for `async for`."""
        if not isinstance(self._iterable, AsyncIterable):
            for found in self.elements(position):
                yield found
            return
        done = _done(position)
        items = aiter(self._iterable)
        await _askip(items, done)
        batch: list[Any] = []
        async for item in items:
            done += 1
            if self._size == 1:
                yield item, done
                continue
            batch.append(item)
            if len(batch) == self._size:
                yield batch, done
                batch = []
        if batch:
            yield batch, done


def _done(position: JsonValue) -> int:
    return position if isinstance(position, int) else 0


def _entered(iterable: Iterable[T], done: int) -> Iterator[T]:
    """The elements after the first `done`; as cheaply as the iterable allows."""
    if isinstance(iterable, Sequence):
        if done > len(iterable):
            raise _shrank(done, len(iterable))
        return _of_sequence(iterable, done)
    items = iter(iterable)
    if done:
        _say_skipping(done)
        _check_skipped(done, sum(1 for _ in islice(items, done)))
    return items


def _of_sequence(sequence: Sequence[Any], done: int) -> Iterator[Any]:
    if isinstance(sequence, (range, tuple)):
        return iter(sequence[done:])
    if done == 0 or isinstance(sequence, (list, deque)):
        return islice(sequence, done, None)  # what the body appends is delivered as well
    return map(sequence.__getitem__, range(done, len(sequence)))


async def _askip(items: AsyncIterator[Any], done: int) -> None:
    if not done:
        return
    _say_skipping(done)
    skipped = 0
    while skipped < done and await anext(items, _END) is not _END:
        skipped += 1
    _check_skipped(done, skipped)


def _say_skipping(done: int) -> None:
    log.info("Going through %d elements that are done, as the source cannot be entered in its middle", done)


def _check_skipped(done: int, skipped: int) -> None:
    if skipped < done:
        raise _shrank(done, skipped)


def _shrank(done: int, there: int) -> SourceChangedError:
    return SourceChangedError(
        f"{done} elements were done before, and now there are only {there}, so the position means nothing in them.",
        f"To start over, {how_to_start_over()}.",
    )
