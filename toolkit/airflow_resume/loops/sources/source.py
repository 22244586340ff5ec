"""What a source of elements is, and what a position in it means.

A position says what to do *next*, without reference to anything before. A source yields every element together with the
position after it. So the loop can save a position without knowing what it means.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from airflow_resume.loops.sources.chunks import Chunk
from airflow_resume.loops.sources.places import named

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

OnExpired = Literal["restart", "fail"]


class Source(ABC, Generic[T_co]):
    """Elements in an order that is the same in every attempt.

    Only `kind` and `elements` are needed. This is an interface with many methods, but all others have a default. A
    source gets the position that an earlier attempt saved, or `first()`.
    """

    kind: str
    """The name of this kind of source in the record. Positions of another kind have no meaning in this source."""
    noun: str = "element"
    """What the log calls one element."""
    on_expired: OnExpired | None = "fail"
    """What the loop does when `elements` raises `TokenExpiredError`: start over once, or fail. None: it starts over,
    unless it has a sink, to which it would append its rows again."""
    max_age: timedelta | None = None
    """How long a position is valid after its page was received, if that is known."""

    def __repr__(self) -> str:
        """A text that is the same in every process, as Airflow may serialise it with a Dag. It shows no elements."""
        return f"<{type(self).__name__}>"

    def definition(self) -> Mapping[str, object]:
        """What positions depend on: if one of these changes, a saved position means something else."""
        return {}

    def first(self) -> JsonValue:
        """The position before the first element. It contains the values that must not change between attempts."""
        return None

    def total(self, position: JsonValue) -> int | None:  # noqa: ARG002
        """How many elements there are in all, if that is known yet.

        Args:
            position: of the next element to be done.
        """
        return None

    def rows(self, position: JsonValue) -> int | None:  # noqa: ARG002
        """How many rows are before `position`, if an element has several rows and the position counts them.

        Args:
            position: of the next element to be done.
        """
        return None

    def total_rows(self, position: JsonValue) -> int | None:  # noqa: ARG002
        """How many rows there are in all, if an element has several and that is known yet.

        Args:
            position: of the next element to be done.
        """
        return None

    def numbering(self) -> JsonValue:
        """How elements are numbered. While this value and `changes` are the same, so is the nth element.

        None (default) if the number of an element does not identify it, such as a page whose content depends on an API.
        """
        return None

    def steps(self, before: JsonValue, after: JsonValue) -> int | None:  # noqa: ARG002
        """How many elements are between two positions; None if that is not known.

        Args:
            before: the position counted from.
            after: the position counted to.
        """
        return None

    def changes(self, position: JsonValue) -> Sequence[str]:  # noqa: ARG002
        """What has changed in the part before `position`, in words. It makes no call to the outside.

        Args:
            position: that an earlier attempt saved.
        """
        return ()

    def within(self, page: Any, here: JsonValue) -> Callable[[int], JsonValue] | None:  # noqa: ARG002
        """A function that gives the position after the nth row of a page, counted from 1, if rows have keys.

        None (default) if rows have no keys. Then `each=True` counts the rows, and when a later attempt gets the page
        again, it checks that the rows are the same. Called for a page before the body gets any row of it.

        Args:
            page: an element.
            here: the position before it.
        """
        return None

    def identity(self, before: JsonValue, after: JsonValue) -> list[JsonValue]:  # noqa: ARG002
        """What identifies an element: the same in every attempt, and something else for any other element.

        By default this is the position before it. That is not enough if elements can vanish from the source, as the
        next one is then found at their place.

        Args:
            before: the position before it.
            after: the position after it.
        """
        return [named(before)]

    def seen(self, position: JsonValue) -> JsonValue:  # noqa: ARG002
        """What the source knows besides `position` and a later attempt could not find out; None if there is nothing.

        It is saved together with the position.

        Args:
            position: that is about to be saved.
        """
        return None

    def recall(self, position: JsonValue, seen: JsonValue) -> None:
        """Restore what an earlier attempt saved with a position.

        Args:
            position: the position that an earlier attempt saved.
            seen: the JSON that `seen` returned then; None if the loop starts over.

        Raises:
            ...: any error, if no attempt can have saved that. It is treated like an error of `check`.
        """

    def shortfall(self, position: JsonValue) -> str | None:  # noqa: ARG002
        """How many of the announced elements came before `elements` ended, such as `17 of 20 rows`; None if all came.

        Args:
            position: at the end; None if that is not known.
        """
        return None

    def check(self, position: JsonValue) -> None:
        """Raise any error for a position that no attempt can have saved. It makes no call to the outside.

        Such a record was edited by hand or damaged, and the loop's `on_unreadable` applies. This does not check whether
        a valid position still means the same; `changes` does.

        Args:
            position: the position in the record.

        Raises:
            ...: any error, for such a position.
        """

    def expires(self, position: JsonValue) -> bool:
        """Whether the position needs something that expires.

        Args:
            position: that is about to be saved.
        """
        return self.max_age is not None and position is not None

    def expiring(self, position: JsonValue) -> JsonValue:
        """The part of the position that expires: all of it (default), or a part that several positions share.

        Args:
            position: that is about to be saved.
        """
        return position

    def received(self, position: JsonValue) -> datetime | None:  # noqa: ARG002
        """When the part that expires was received in this attempt.

        None (default) for the time at which the loop first came to the position.

        Args:
            position: that is about to be saved.
        """
        return None

    def age_now(self) -> datetime | None:
        """The time by the clock that `received` uses; None (default) for the clock of the loop."""
        return None

    def take_up(self, position: JsonValue, received: datetime) -> None:
        """Note when an earlier attempt received the part that expires, if this source checks the age before a fetch.

        Args:
            position: the position that the earlier attempt saved.
            received: the time, with its zone.
        """

    def chunks(self, position: JsonValue) -> Iterator[Chunk[T_co]] | None:  # noqa: ARG002
        """The same elements in chunks, if positions follow from counting. Then a plain `for` is much faster.

        None (default) if positions do not follow from counting.

        Args:
            position: where to begin.
        """
        return None

    def achunks(self, position: JsonValue) -> AsyncIterator[Chunk[T_co]] | None:
        """As `chunks`, for `async for`. By default these are the `chunks`; their items are taken on the event loop.

        Args:
            position: where to begin.
        """
        chunks = self.chunks(position)
        return None if chunks is None else _in_turn(chunks)

    @abstractmethod
    def elements(self, position: JsonValue) -> Iterator[tuple[T_co, JsonValue]]:
        """The elements from `position` on, each with the position after it.

        Args:
            position: where to begin: a position that an earlier attempt saved, or `first()`.

        Raises:
            TokenExpiredError: `position` is no longer valid.
            SourceChangedError: there is no such position any more.
        """

    async def aelements(self, position: JsonValue) -> AsyncIterator[tuple[T_co, JsonValue]]:
        """As `elements`, for `async for`. By default `elements` is iterated on the event loop.

        Args:
            position: where to begin.
        """
        for found in self.elements(position):
            yield found


def chunks_of(source: Source[T], position: JsonValue) -> Iterator[Chunk[T]] | None:
    """The chunks of a source; None if a subclass overrides `elements` and not `chunks`, which may differ then."""
    return source.chunks(position) if _overrides(source, ("chunks",), "elements") else None


def achunks_of(source: Source[T], position: JsonValue) -> AsyncIterator[Chunk[T]] | None:
    """The same for `async for`; also None if a subclass overrides `aelements` and neither kind of chunks."""
    if not _overrides(source, ("achunks", "chunks"), "elements"):
        return None
    return source.achunks(position) if _overrides(source, ("achunks", "chunks"), "aelements") else None


def _overrides(source: Source[Any], names: tuple[str, ...], other: str) -> bool:
    """Whether a class of the source has one of `names`, and no subclass of that class has only `other`."""
    for kind in type(source).__mro__:
        if any(name in vars(kind) for name in names):
            return True
        if other in vars(kind):
            return False
    return False


async def _in_turn(chunks: Iterator[Chunk[T]]) -> AsyncIterator[Chunk[T]]:
    for chunk in chunks:
        yield chunk


def check_place(position: JsonValue) -> dict[str, Any]:
    """The members of a position that must be a JSON object, or None.

    Raises:
        TypeError: it is something else.
    """
    if position is not None and not isinstance(position, dict):
        raise TypeError(f"it must be a JSON object, and is a {type(position).__name__}")
    return members(position)


def members(position: JsonValue) -> dict[str, Any]:
    """The members of a position; none if it is no JSON object, which means the start."""
    return dict(position) if isinstance(position, dict) else {}


class closed_at_end(Generic[T]):  # noqa: N801  it is used like a function
    """Close an asynchronous generator when the block is left, and not when it is garbage-collected.

    Like `contextlib.aclosing`, for any iterator. It is not a generator itself. The event loop closes generators at its
    end, and would interrupt this one while it closes the other one.
    """

    def __init__(self, elements: AsyncIterator[T]) -> None:
        self._elements = elements

    async def __aenter__(self) -> AsyncIterator[T]:
        return self._elements

    async def __aexit__(self, *_error: object) -> None:
        close = getattr(self._elements, "aclose", None)
        if close is not None:
            await close()
