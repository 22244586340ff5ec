"""The elements of any iterable, one by one or in lists of a size."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from itertools import count, islice
from typing import TYPE_CHECKING, Any, TypeVar, overload

from airflow_resume.arguments import check_whole
from airflow_resume.attempt import how_to_start_over
from airflow_resume.errors import SourceChangedError
from airflow_resume.loops.sources.chunks import IN_MEMORY, Chunk
from airflow_resume.loops.sources.order import refuse_unordered
from airflow_resume.loops.sources.places import print_of_simple
from airflow_resume.loops.sources.source import Source, check_place
from airflow_resume.loops.sources.tables import is_table, rows_line
from airflow_resume.shown import get_logger

if TYPE_CHECKING:
    from typing import Literal

    from pydantic import JsonValue

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

log = get_logger(__name__)

_END = object()


class Batches(Source[T_co]):
    """The elements of an iterable, one by one (`size=1`, as they are) or in lists of `size`.

    The iterable must give the same elements in the same order in every attempt. In a sequence the loop continues at an
    index; any other iterable is read from its start, without delivering what was done before, and the log says so. An
    asynchronous iterable is for `async for` only. A position is the number of elements done, so `size` may change
    between attempts. The record also has the number of elements and, for a list of strings, numbers, paths or the like,
    a fingerprint of the last one done. If another element is in its place, or if elements cannot be recognised and
    there are fewer of them, the source has changed, and the loop's `on_change` applies.

    Examples:
        >>> [batch for batch, _ in Batches(range(5), size=2).elements(0)]
        [[0, 1], [2, 3], [4]]
        >>> [batch for batch, _ in Batches(range(5), size=3).elements(2)]
        [[2, 3, 4]]

    Args:
        iterable: as above. A `str` or `bytes` is refused, because a loop over characters is hardly intended. A data
            frame is refused, because it would be a loop over its columns.
        size: of the lists; 1 by default, which delivers the elements themselves.

    Raises:
        SourceNotReopenableError: a set has no stable order.
        SourceChangedError: there are fewer elements than were done before.
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
                f"Iterating a {type(iterable).__name__} gives its columns, not its rows.\n"
                f"Pass its rows, such as {rows_line(iterable)}."
            )
        check_whole("size", size, least=1)
        self._iterable = iterable
        self._recalled: tuple[JsonValue, dict[str, Any]] = (None, {})
        self._known_length: int | None = None
        """How many elements there were when the loop began to read them."""
        self._last_known: Any = None
        """The last of those; if it is at another index later, the body has taken elements out."""
        self._has_moved = False
        self._size = size
        if size > 1:
            self.noun = "list"

    def changes(self, position: JsonValue) -> Sequence[str]:
        """Whether a list has shrunk, or the last element that was done is no longer in its place."""
        done, length = _done(position), self._length()
        if done == 0 or length is None:
            return []
        if length < done:
            return [f"it had at least {done} elements, and has {length} now"]
        before, seen = self._recalled
        if seen.get("moved"):
            return ["the body had taken elements out of it"]
        if before == position and "last" in seen and (last := self._print_of(done)) is not None:
            return [] if last == seen["last"] else [f"element {done} is not the one that was done"]
        return [f"it had {seen['of']} elements, and has {length} now"] if length < seen.get("of", 0) else []

    def seen(self, position: JsonValue) -> JsonValue:
        """How many there are, and a fingerprint of the last one that is done, if that is a simple value."""
        length, last = self._length(), self._print_of(_done(position))
        if length is None:
            return None
        known = self._known_length or 0
        if self._looks_moved(length) or max(_done(position), length) < known:
            return {"of": known, "moved": True}
        return {"of": length} if last is None else {"of": length, "last": last}

    def recall(self, position: JsonValue, seen: JsonValue) -> None:
        """Keep what an earlier attempt saved, for `changes`."""
        found = check_place(seen)
        if "of" in found:
            check_whole("of", found["of"], least=0)
        if not isinstance(found.get("moved", False), bool):
            raise TypeError(f"moved={found['moved']!r} must be true or false")
        self._recalled = position, found
        self._known_length, self._has_moved = None, False

    def shortfall(self, position: JsonValue) -> str | None:
        """Fewer elements than there were when the loop began to read them: the body has taken some out."""
        known, length = self._known_length, self._length()
        if position is None or known is None or length is None:
            return None
        done = _done(position)
        if self._looks_moved(length) or max(done, length) < known:
            return f"{done:,} of {max(known, done + 1):,} elements"
        return None

    def _looks_moved(self, length: int) -> bool:
        """Whether the body has taken elements out and appended as many, so that others moved to lower indices.

        The last element shows that, as it moves when one before it is taken out. An element that was replaced in its
        place has not moved.
        """
        known = self._known_length
        if known and not self._has_moved and length >= known and isinstance(self._iterable, (list, deque)):
            last, at = self._last_known, known - 1
            if self._iterable[at] is not last:
                self._has_moved = any(item is last for item in islice(self._iterable, at))
            elif length > known:  # the body appends
                self._known_length, self._last_known = length, self._iterable[length - 1]
        return self._has_moved

    def _print_of(self, number: int) -> str | None:
        """A fingerprint of the element with this number, counted from 1."""
        if not isinstance(self._iterable, (list, tuple, range)) or not 0 < number <= len(self._iterable):
            return None
        return print_of_simple(self._iterable[number - 1])

    def numbering(self) -> JsonValue:
        """The elements are the same in every attempt; the size of the lists may change."""
        return self._size

    def steps(self, before: JsonValue, after: JsonValue) -> int | None:
        """The number of lists; the last one may be shorter."""
        return -(-(_done(after) - _done(before)) // self._size)

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
        """All elements as one chunk, unless they come in lists."""
        if self._size > 1:
            return None
        done = _done(position)
        return iter([Chunk(self._rest(done), done.__add__, may_fail=type(self._iterable) not in IN_MEMORY)])

    def achunks(self, position: JsonValue) -> AsyncIterator[Chunk[Any]] | None:
        """None for an asynchronous iterable."""
        return None if isinstance(self._iterable, AsyncIterable) else super().achunks(position)

    def _rest(self, done: int) -> Iterator[Any]:
        if not isinstance(self._iterable, Iterable):
            raise TypeError(f"{type(self._iterable).__name__} is asynchronous.\nIterate the loop with `async for`.")
        self._known_length, self._has_moved = self._length(), False
        if isinstance(self._iterable, (list, deque)) and self._iterable:
            self._last_known = self._iterable[-1]
        return _items_after(self._iterable, done)

    def elements(self, position: JsonValue) -> Iterator[tuple[Any, JsonValue]]:
        """The elements or lists, each with the position after it."""
        done = _done(position)
        items = self._rest(done)
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
        if done:
            _log_reading(done)
            read = 0
            while read < done and await anext(items, _END) is not _END:
                read += 1
            _check_read(done, read)
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


def _items_after(iterable: Iterable[Any], done: int) -> Iterator[Any]:
    """The elements after the first `done`; as cheaply as the iterable allows."""
    if isinstance(iterable, Sequence):
        if done > len(iterable):
            raise _shrunk_error(done, len(iterable))
        if isinstance(iterable, (range, tuple)):
            rest: Any = iterable[done:]
            return iter(rest)
        if done == 0 or isinstance(iterable, (list, deque)):
            return islice(iterable, done, None)  # what the body appends is delivered as well
        return map(iterable.__getitem__, range(done, len(iterable)))
    items = iter(iterable)
    if done:
        _log_reading(done)
        _check_read(done, sum(1 for _ in islice(items, done)))
    return items


def _log_reading(done: int) -> None:
    log.info("Reading past %d elements that are done, as the source can only be read from its start", done)


def _check_read(done: int, read: int) -> None:
    if read < done:
        raise _shrunk_error(done, read)


def _shrunk_error(done: int, now: int) -> SourceChangedError:
    return SourceChangedError(
        f"{done} elements were done before, and now there are only {now}, so the saved position is past the end.",
        f"To start over, {how_to_start_over()}.",
        position=done,
    )
