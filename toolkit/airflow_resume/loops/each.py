"""The items of pages, one by one."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_resume.arguments import check_whole
from airflow_resume.errors import WrongAnswerError
from airflow_resume.loops.chunks import IN_MEMORY, Chunk
from airflow_resume.loops.pages import Page
from airflow_resume.loops.source import Source, check_place, closed_at_end, members

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

log = logging.getLogger(__name__)


class Each(Source[T_co]):
    """The items of the pages (or lists) of another source, one by one.

    A position within a page is the position of the page in its source, how many of its items are done, and how many it
    has: `{"page": ..., "index": 2, "of": 50}`. Behind the last item of a page it is that of the next page, with
    `"index": 0`. A later attempt gets the page again: if it has another number of items then, no index in it can be
    trusted, and it is delivered from its start, which the log says.

    >>> from airflow_resume.loops.batches import Batches
    >>> list(Each(Batches("ab cd e".split(), size=2)).elements({"page": 0, "index": 1, "of": 2}))
    [('cd', {'page': 2, 'index': 0}), ('e', {'page': 3, 'index': 0})]

    Args:
        source: of pages or lists.

    Raises:
        WrongAnswerError: an element of the source is no page and no list.
        What the source raises.
    """

    noun = "row"

    def __init__(self, source: Source[Page[T_co]] | Source[Sequence[T_co]]) -> None:
        if not isinstance(source, Source):
            raise TypeError(f"Each needs a source of pages or lists, not {type(source).__name__}.\nMake it a source.")
        self._source: Source[Any] = source
        self.kind = f"each {source.kind}"
        self.on_expired = source.on_expired
        self.max_age = source.max_age

    def definition(self) -> Mapping[str, object]:
        """That of the source."""
        return self._source.definition()

    def first(self) -> JsonValue:
        """The first item of the first page."""
        page = self._source.first()
        return None if page is None else _before(page)

    def total(self, position: JsonValue) -> int | None:
        """The number of items on all pages, where the source knows it."""
        return self._source.total_rows(members(position).get("page"))

    def changes(self, position: JsonValue) -> Sequence[str]:
        """Those of the source."""
        return self._source.changes(members(position).get("page"))

    def check(self, position: JsonValue) -> None:
        """It has the position of a page, and how many of its items are done."""
        place = check_place(position)
        self._source.check(place.get("page"))
        check_whole("index", place.get("index", 0), least=0)
        if place.get("index"):
            check_whole("of", place.get("of"), least=place["index"])

    def expires(self, position: JsonValue) -> bool:
        """Whether that of the page does: also within a page, as a later attempt gets it again."""
        return self._source.expires(members(position).get("page"))

    def received(self, position: JsonValue) -> datetime | None:
        """When that of the page was received."""
        return self._source.received(members(position).get("page"))

    def take_up(self, position: JsonValue, received: datetime) -> None:
        """As of the page."""
        self._source.take_up(members(position).get("page"), received)

    def chunks(self, position: JsonValue) -> Iterator[Chunk[T_co]]:
        """The items of each page. A page without any leaves no position: the next item's page comes with its own."""
        place = members(position)
        here = place.get("page")
        for page, after in self._source.elements(here):
            items = _items_of(page)
            yield _chunk(items, self._entry(items, place), here, after)
            place, here = {}, after

    def elements(self, position: JsonValue) -> Iterator[tuple[T_co, JsonValue]]:
        """The items, each with the position after it."""
        for chunk in self.chunks(position):
            yield from chunk.elements()

    async def aelements(self, position: JsonValue) -> AsyncIterator[tuple[T_co, JsonValue]]:
        """The same for `async for`."""
        place = members(position)
        here = place.get("page")
        async with closed_at_end(self._source.aelements(here)) as pages:
            async for page, after in pages:
                items = _items_of(page)
                for found in _chunk(items, self._entry(items, place), here, after).elements():
                    yield found
                place, here = {}, after

    def _entry(self, items: Sequence[object], place: dict[str, Any]) -> int:
        """How many items of the page to pass over."""
        index: int = place.get("index", 0)
        if not index or len(items) == place["of"]:
            return index
        log.warning(
            "A page had %s items, of which %d were done, and has %d now: delivering it from its start",
            place["of"],
            index,
            len(items),
        )
        return 0


def _before(page: JsonValue) -> JsonValue:
    return {"page": page, "index": 0}


def _chunk(items: Sequence[T], start: int, here: JsonValue, after: JsonValue) -> Chunk[T]:
    """The items of one page, from one of them on."""
    of = len(items)

    def position(done: int) -> JsonValue:
        index = start + done
        return {"page": here, "index": index, "of": of} if index < of else _before(after)

    return Chunk(islice(items, start, None), position, may_fail=type(items) not in IN_MEMORY, end=_before(after))


def _items_of(element: object) -> Sequence[Any]:
    items = element.items if isinstance(element, Page) else element
    if isinstance(items, Sequence) and not isinstance(items, (str, bytes, bytearray)):
        return items
    # A data frame is iterated by columns, and a set in another order every time.
    if not isinstance(items, Iterable) or isinstance(items, (str, bytes, bytearray, Mapping, AbstractSet)):
        raise _not_items(items)
    if hasattr(items, "columns"):
        raise _not_items(items)
    return list(items)


def _not_items(items: object) -> WrongAnswerError:
    return WrongAnswerError(
        f"each=True needs pages or lists, and the source gave a {type(items).__name__}.",
        "Make it a list of rows, such as frame.to_dict('records'), or leave each=True out.",
    )
