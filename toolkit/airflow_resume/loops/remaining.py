"""The elements of a loop that are not done, as the source gives them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterator
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from airflow_resume.loops.deliveries import Deliveries
from airflow_resume.loops.keeping.loop_session import LoopSession
from airflow_resume.loops.sources.chunks import ChunkCursor
from airflow_resume.loops.sources.source import Source, achunks_of, chunks_of, closed_at_end

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")

RemainingElement: TypeAlias = "tuple[T, int, JsonValue, JsonValue]"
"""An element that is not done: its number in this open, and the positions before and after it."""


class Remaining(Generic[T]):
    """The elements that are not done, beginning with the first one. The source may be read more than once.

    Args:
        source: of the elements.
        session: with the record of the loop.
        deliveries: of the loop; they skip the first element if it is to be skipped.
        stalled: why the first element is to be skipped; None if it is not.
    """

    def __init__(self, source: Source[T], session: LoopSession, deliveries: Deliveries, stalled: str | None) -> None:
        self._source, self._session, self._ledger, self._deliveries = source, session, session.ledger, deliveries
        self.stalled = stalled
        self.cursor: ChunkCursor[T] | None = None
        """The cursor in the current chunk, if the source gives chunks."""

    def elements(self, *, in_order: bool = True) -> Generator[RemainingElement[T], None, None]:
        """The elements.

        Args:
            in_order: whether each element is done before the next one is taken from the source.
        """
        before = self._ledger.frontier.position
        chunks = chunks_of(self._source, before)
        if chunks is None:
            for element, after in self._source.elements(before):
                self._ledger.foresee(after, in_order=in_order)
                number = self._take(before, after)
                if number is not None:
                    yield element, number, before, after
                before = after
            return
        try:
            for chunk in chunks:
                self._ledger.foresee(chunk.end, in_order=in_order)
                self.cursor = cursor = ChunkCursor(chunk, before)
                yield from self._of_chunk(cursor)
                cursor.raise_failure()
                before = cursor.here
        finally:
            self._close_cursor()

    async def aelements(self, *, in_order: bool = True) -> AsyncGenerator[RemainingElement[T], None]:
        """The same for `async for`."""
        before = self._ledger.frontier.position
        chunks = achunks_of(self._source, before)
        if chunks is None:
            async with closed_at_end(self._source.aelements(before)) as elements:
                async for element, after in elements:
                    self._ledger.foresee(after, in_order=in_order)
                    number = self._take(before, after)
                    if number is not None:
                        yield element, number, before, after
                    before = after
            return
        try:
            async with closed_at_end(chunks):
                async for chunk in chunks:
                    self._ledger.foresee(chunk.end, in_order=in_order)
                    self.cursor = cursor = ChunkCursor(chunk, before)
                    for remaining in self._of_chunk(cursor):
                        yield remaining
                    cursor.raise_failure()
                    before = cursor.here
        finally:
            self._close_cursor()

    def _of_chunk(self, cursor: ChunkCursor[T]) -> Iterator[RemainingElement[T]]:
        for element in cursor.items:
            before, after = cursor.advance()
            number = self._take(before, after)
            if number is not None:
                yield element, number, before, after

    def _take(self, before: JsonValue, after: JsonValue) -> int | None:
        """The number of the next element of the source; None when it is done already, or skipped."""
        number = self._ledger.take(before, after)
        if number is None or self.stalled is None:
            return number
        reason, self.stalled = self.stalled, None
        self._deliveries.skip(number, before, after, reason)
        return None

    def _close_cursor(self) -> None:
        """Close the source together with the loop: on Python 3.10 a frame may refer to it for longer."""
        self._session.count_stretch()
        if self.cursor is not None:
            self.cursor.close()
        self.cursor = self._ledger.stretch = None
