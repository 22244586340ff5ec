"""What a source of elements is, and what a position in it means.

A position says what to do *next*, absolutely. A source yields every element together with the position after it, so
that the loop can save a position without knowing what it means.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from airflow_resume.loops.chunks import Chunk

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

OnExpired = Literal["restart", "fail"]


class Source(ABC, Generic[T_co]):
    """Elements in an order that is the same in every attempt.

    Only `kind` and `elements` are needed. A source is given the position that an earlier attempt saved, or `first()`.
    """

    kind: str
    """The name of this kind of source, as it stands in the record: positions of another kind mean nothing in it."""
    noun: str = "element"
    """What the log calls one element."""
    on_expired: OnExpired = "fail"
    """What the loop does when `elements` raises `TokenExpiredError`: start over once, or fail."""
    max_age: timedelta | None = None
    """How long a position is good for after its page was received, where that is known."""

    def __repr__(self) -> str:
        """The same in every process, as it may stand in a Dag, and without the elements, which may be private."""
        return f"<{type(self).__name__}>"

    def definition(self) -> Mapping[str, object]:
        """What positions depend on: when one of these differs, a saved position means something else."""
        return {}

    def first(self) -> JsonValue:
        """The position before the first element. What must not change between attempts is frozen in it."""
        return None

    def total(self, position: JsonValue) -> int | None:  # noqa: ARG002
        """How many elements there are in all, as far as that is known by now."""
        return None

    def rows(self, position: JsonValue) -> int | None:  # noqa: ARG002
        """How many rows lie before `position`, where an element has several and the position counts them."""
        return None

    def total_rows(self, position: JsonValue) -> int | None:  # noqa: ARG002
        """How many rows there are in all, as far as that is known by now, where an element has several."""
        return None

    def numbering(self) -> JsonValue:
        """Elements may be recognised by how many come before them, as long as this says the same and nothing `changes`.

        None (default) where they may not: what a page holds depends on what the API answers.
        """
        return None

    def changes(self, position: JsonValue) -> Sequence[str]:  # noqa: ARG002
        """What is no longer as it was in the part before `position`, in words; touches nothing outside."""
        return ()

    def within(self, page: Any, here: JsonValue) -> Callable[[int], JsonValue] | None:  # noqa: ARG002
        """Where the rows of a page have keys: what gives the position after so many of its rows, from 1 on.

        None (default) where they have none: then `each=True` counts them, and sees that they are the same ones when a
        later attempt gets the page again. Called for a page before the body has any row of it.

        Args:
            page: an element.
            here: the position before it.
        """
        return None

    def seen(self, position: JsonValue) -> JsonValue:  # noqa: ARG002
        """What it knows beside `position` and a later attempt could not find out; kept with it. It may be None."""
        return None

    def recall(self, position: JsonValue, seen: JsonValue) -> None:
        """Take up what an earlier attempt kept beside a position; None: nothing of before counts any more.

        Raises:
            ...: any error, where no attempt can have kept that. It is treated as one of `check` is.
        """

    def shortfall(self, position: JsonValue) -> str | None:  # noqa: ARG002
        """What was announced and has not come, such as `17 of 20 rows`; asked when `elements` has come to its end.

        Args:
            position: at the end; None where that is not known.
        """
        return None

    def check(self, position: JsonValue) -> None:
        """Refuse a position that no attempt can have saved, by any error; touches nothing outside.

        Such a record was edited by hand or damaged, and follows the loop's `on_unreadable`. Whether a good position
        still means the same is what `changes` says.
        """

    def expires(self, position: JsonValue) -> bool:
        """Whether the position needs something that gets too old."""
        return self.max_age is not None and position is not None

    def expiring(self, position: JsonValue) -> JsonValue:
        """What of the position gets too old: all of it (default), or a part that several positions have."""
        return position

    def received(self, position: JsonValue) -> datetime | None:  # noqa: ARG002
        """When that was received in this attempt; None (default): when the loop first had the position."""
        return None

    def age_now(self) -> datetime | None:
        """The time by the clock that `received` goes by; None (default): that of the loop."""
        return None

    def take_up(self, position: JsonValue, received: datetime) -> None:
        """An earlier attempt received it then. A source that looks at the age before it uses a position must know."""

    def chunks(self, position: JsonValue) -> Iterator[Chunk[T_co]] | None:  # noqa: ARG002
        """The same as `elements`, where positions can be told by counting: a plain `for` is much faster then.

        None (default) where they cannot.
        """
        return None

    def achunks(self, position: JsonValue) -> AsyncIterator[Chunk[T_co]] | None:
        """The same for `async for`; by default `chunks`, whose items are taken on the event loop."""
        chunks = self.chunks(position)
        return None if chunks is None else _in_turn(chunks)

    @abstractmethod
    def elements(self, position: JsonValue) -> Iterator[tuple[T_co, JsonValue]]:
        """The elements from `position` on, each with the position after it.

        Raises:
            TokenExpiredError: `position` is no longer good for anything.
            SourceChangedError: there is no such position any more.
        """

    async def aelements(self, position: JsonValue) -> AsyncIterator[tuple[T_co, JsonValue]]:
        """The same for `async for`; by default what `elements` gives, on the event loop."""
        for found in self.elements(position):
            yield found


def chunks_of(source: Source[T], position: JsonValue) -> Iterator[Chunk[T]] | None:
    """The chunks of a source; None where a class has its own `elements`, and no `chunks` that would say the same."""
    return source.chunks(position) if _says(source, ("chunks",), "elements") else None


def achunks_of(source: Source[T], position: JsonValue) -> AsyncIterator[Chunk[T]] | None:
    """The same for `async for`, where `aelements` counts as well."""
    if not _says(source, ("achunks", "chunks"), "elements"):
        return None
    return source.achunks(position) if _says(source, ("achunks", "chunks"), "aelements") else None


def _says(source: Source[Any], names: tuple[str, ...], other: str) -> bool:
    """Whether a class of the source has one of these, and none that comes before it has only the other."""
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
    """The members of a position that must be an object, or None.

    Raises:
        TypeError: it is something else.
    """
    if position is not None and not isinstance(position, dict):
        raise TypeError(f"an object is needed here, and not a {type(position).__name__}")
    return members(position)


def members(position: JsonValue) -> dict[str, Any]:
    """The members of a position. One that is no object has none, so it says: from the start."""
    return dict(position) if isinstance(position, dict) else {}


class closed_at_end(Generic[T]):  # noqa: N801  it is used like a function
    """Close an asynchronous generator when the block is left, and not whenever it is collected.

    As `contextlib.aclosing`, for any iterator. No generator itself: one that the event loop closes at its own end, from
    outside, would be in the middle of closing another.
    """

    def __init__(self, elements: AsyncIterator[T]) -> None:
        self._elements = elements

    async def __aenter__(self) -> AsyncIterator[T]:
        return self._elements

    async def __aexit__(self, *_error: object) -> None:
        close = getattr(self._elements, "aclose", None)
        if close is not None:
            await close()
