"""The items of pages, one by one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, MutableSequence, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_resume.arguments import check_whole
from airflow_resume.errors import WrongAnswerError
from airflow_resume.loops.sources.chunks import IN_MEMORY, Chunk
from airflow_resume.loops.sources.order import is_unordered
from airflow_resume.loops.sources.pages import Page
from airflow_resume.loops.sources.places import Place, PlaceLostError, Prints, is_proven
from airflow_resume.loops.sources.source import Source, check_place, closed_at_end, members
from airflow_resume.loops.sources.tables import is_table, rows_line
from airflow_resume.shown import get_logger

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

log = get_logger(__name__)


class Each(Source[T_co]):
    """The items of the pages (or lists) of another source, one by one.

    If the rows have keys (`Source.within`), a position within a page is the one after the row's own key. Otherwise it
    is the position of the page in its source, how many of its items are done, how many it has, and a fingerprint of
    those done: `{"page": ..., "index": 2, "of": 50, "print": ...}`. After the last item of a page it is that of the
    next page, with `"index": 0`. A later attempt gets the page again: if it does not begin with the same items, no
    index in it is valid, and it is delivered from its start, which is logged.

    >>> from airflow_resume.loops.sources.batches import Batches
    >>> (_, place), *_ = Each(Batches("ab cd e".split(), size=2)).elements(None)
    >>> place
    {'page': None, 'index': 1, 'of': 2}
    >>> list(Each(Batches("ab cd e".split(), size=2)).elements(place.proven()))
    [('cd', {'page': 2, 'index': 0}), ('e', {'page': 3, 'index': 0})]

    Args:
        source: of pages or lists.

    Raises:
        WrongAnswerError: an element of the source is no page and no list.
        PlaceLostError: to the loop, see above.
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

    def identity(self, before: JsonValue, after: JsonValue) -> list[JsonValue]:
        """Its key, or else its place and its content: when a row is removed, the next one takes its place."""
        if isinstance(after, Place):
            place = members(before)
            return [place.get("page"), place.get("index", 0), after.last_item()]
        key = members(after).get("page")
        return self._source.identity(key, key)

    def first(self) -> JsonValue:
        """The first item of the first page."""
        page = self._source.first()
        return None if page is None else _before(page)

    def total(self, position: JsonValue) -> int | None:
        """The number of items on all pages, if the source knows it."""
        return self._source.total_rows(members(position).get("page"))

    def changes(self, position: JsonValue) -> Sequence[str]:
        """Those of the source."""
        return self._source.changes(members(position).get("page"))

    def seen(self, position: JsonValue) -> JsonValue:
        """What the source has seen."""
        return self._source.seen(members(position).get("page"))

    def recall(self, position: JsonValue, seen: JsonValue) -> None:
        """For the source."""
        self._source.recall(members(position).get("page"), seen)

    def shortfall(self, position: JsonValue) -> str | None:  # noqa: ARG002
        """That of the source. The last pages may be empty, which a position here does not show."""
        return self._source.shortfall(None)

    def check(self, position: JsonValue) -> None:
        """It has the position of a page, and how many of its items are done."""
        place = check_place(position)
        self._source.check(place.get("page"))
        check_whole("index", place.get("index", 0), least=0)
        if place.get("index"):
            check_whole("of", place.get("of"), least=place["index"])

    def expires(self, position: JsonValue) -> bool:
        """Whether that of the page expires: also within a page, as a later attempt gets it again."""
        return self._source.expires(members(position).get("page"))

    def expiring(self, position: JsonValue) -> JsonValue:
        """That of the page, which is the same for all its rows."""
        return self._source.expiring(members(position).get("page"))

    def received(self, position: JsonValue) -> datetime | None:
        """When that of the page was received."""
        return self._source.received(members(position).get("page"))

    def age_now(self) -> datetime | None:
        """That of the source."""
        return self._source.age_now()

    def take_up(self, position: JsonValue, received: datetime) -> None:
        """For the page."""
        self._source.take_up(members(position).get("page"), received)

    def chunks(self, position: JsonValue) -> Iterator[Chunk[T_co]]:
        """The items of each page. A page without any leaves no position: the next item's page comes with its own."""
        place = members(position)
        here = place.get("page")
        for page, after in self._source.elements(here):
            yield self._chunk(page, place, here, after)
            place, here = {}, after

    def elements(self, position: JsonValue) -> Iterator[tuple[T_co, JsonValue]]:
        """The items, each with the position after it."""
        for chunk in self.chunks(position):
            yield from chunk.elements()

    async def achunks(self, position: JsonValue) -> AsyncIterator[Chunk[T_co]]:
        """The same for `async for`."""
        place = members(position)
        here = place.get("page")
        async with closed_at_end(self._source.aelements(here)) as pages:
            async for page, after in pages:
                yield self._chunk(page, place, here, after)
                place, here = {}, after

    async def aelements(self, position: JsonValue) -> AsyncIterator[tuple[T_co, JsonValue]]:
        """The items, for `async for`."""
        async with closed_at_end(self.achunks(position)) as chunks:
            async for chunk in chunks:
                for found in chunk.elements():
                    yield found

    def _chunk(self, page: Any, place: dict[str, Any], here: JsonValue, after: JsonValue) -> Chunk[T_co]:
        """The items of one page, from the position on."""
        items = _items_of(page)
        within = self._source.within(page, here)
        start = _entry(items, place, here, has_keys=within is not None)
        of = len(items)
        by_number = _by_number(here, of, _before(after), Prints(items), start)
        position = by_number if within is None else lambda done: _before(within(done))
        return Chunk(islice(items, start, None), position, may_fail=type(items) not in IN_MEMORY, end=_before(after))


def _entry(items: Sequence[object], place: dict[str, Any], here: JsonValue, *, has_keys: bool) -> int:
    """How many items of the page are done.

    Raises:
        PlaceLostError: the page does not begin with the items that are done.
    """
    index: int = place.get("index", 0)
    if not index or (not has_keys and is_proven(place, items)):
        return index
    if place["of"] == len(items):
        log.warning(
            "A page has %d items, of which %d were done, but not certainly the same ones: delivering it from its start",
            len(items),
            index,
        )
    else:
        log.warning(
            "A page had %s items, of which %d were done, and has %d now: delivering it from its start",
            place["of"],
            index,
            len(items),
        )
    raise PlaceLostError(_before(here), index)


def _before(page: JsonValue) -> JsonValue:
    return {"page": page, "index": 0}


def _by_number(here: JsonValue, of: int, end: JsonValue, prints: Prints, start: int) -> Callable[[int], JsonValue]:
    """A function that gives the position after the nth item from `start` on."""

    def position(done: int) -> JsonValue:
        index = start + done
        place = {"page": here, "index": index, "of": of} if index < of else members(end)
        return Place(place, prints, index)

    return position


def _items_of(element: object) -> Sequence[Any]:
    items = element.items if isinstance(element, Page) else element
    if type(items) is list:  # nearly always, and asked for every page
        return items[:]
    if isinstance(items, Sequence) and not isinstance(items, (str, bytes, bytearray)):
        # A fetch may return a list of its own, from which the body removes what is done: rows would be skipped.
        return list(items) if isinstance(items, MutableSequence) else items
    # Iterating a data frame gives its columns, and the order of a set differs every time.
    if is_table(items) or not isinstance(items, Iterable) or isinstance(items, (str, bytes, bytearray, Mapping)):
        raise _not_items(items)
    if hasattr(items, "columns") or is_unordered(items):
        raise _not_items(items)
    return list(items)


def _not_items(items: object) -> WrongAnswerError:
    return WrongAnswerError(
        f"each=True needs pages or lists, and the source gave a {type(items).__name__}.",
        f"Make it a list of rows, such as {rows_line(items)}, or leave each=True out.",
    )
