"""Pages of an API that counts: pages from a first number, or items from an offset."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from airflow_resume.arguments import check_whole
from airflow_resume.errors import PageTooLongError, RepeatedPageError
from airflow_resume.loops.pages import Ask, Found, Page, PagedSource, Walk, as_page
from airflow_resume.loops.source import members

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")

Answer: TypeAlias = "Iterable[T] | Page[T]"


class PageNumber(PagedSource[T]):
    """The pages of an API that numbers them.

    `fetch(number)` returns the items of a page, or a `Page(items, total=..., pages=...)` where the API says how many
    there are. It may be a coroutine function, for `async for`. The loop ends at an empty page, before the page `stop`
    (as `range` does), after the last of `Page.pages`, or when `Page.total` items were delivered. An empty page with
    `Page.pages` still ahead does not end it, nor does a total that is less than what came. An element is a
    `Page` whose `next` is the next number. A position is that number and the number of items before it:
    `{"page": ..., "rows": ...}`, with `"end": true` after what the API called its last page.

    >>> answers = {1: ["a", "b"], 2: ["c"], 3: []}
    >>> [page.items for page, _ in PageNumber(answers.get).elements(None)]
    [['a', 'b'], ['c']]
    >>> [page.items for page, _ in PageNumber(answers.get, stop=2).elements(None)]
    [['a', 'b']]

    Args:
        fetch: as above.
        start: the number of the first page; 1 by default.
        stop: the number of the page before which to end.
        size: items a page, where fetch chooses it: a page number means something else with another size, so a change
            follows the loop's `on_change`.
        check_repeats: whether two equal pages in a row are an error; False where they may be right.

    Raises:
        RepeatedPageError: see `check_repeats`.
        WrongAnswerError: fetch returned neither items nor a `Page`.
    """

    kind = "page_number"
    _shifts = True

    def __init__(
        self,
        fetch: Callable[[int], Answer[T] | Awaitable[Answer[T]]],
        *,
        start: int = 1,
        stop: int | None = None,
        size: int | None = None,
        check_repeats: bool = True,
    ) -> None:
        super().__init__(fetch)
        check_whole("start", start)
        if stop is not None:
            check_whole("stop", stop, least=start)
        if size is not None:
            check_whole("size", size, least=1)
        self._start, self._stop, self._page_size = start, stop, size
        self._check_repeats = check_repeats

    def definition(self) -> Mapping[str, object]:
        """The first number and, where it is known, the size: both change what a number means."""
        return {"start": self._start} | ({} if self._page_size is None else {"size": self._page_size})

    def numbering(self) -> JsonValue:
        """A page is known by its number."""
        return True

    def total(self, position: JsonValue) -> int | None:
        """How many pages there are, once a page has said so, and no more than `stop` allows."""
        pages = super().total(position)
        if pages is None or self._stop is None:
            return pages
        return min(pages, self._stop - self._start)

    def shortfall(self, position: JsonValue) -> str | None:
        """Fewer items or pages than were announced, unless it ended where it was told to."""
        return None if self._is_behind(self._next_number) else super().shortfall(position)

    def _short_of_pages(self) -> str | None:
        done = self._next_number - self._start
        return f"{done:,} of {self._pages:,} pages" if self._pages is not None and done < self._pages else None

    @property
    def _next_number(self) -> int:
        number: int = members(self._last).get("page", self._start)
        return number

    def _walk(self, position: JsonValue) -> Walk[T]:
        place = members(position)
        number, rows = place.get("page", self._start), place.get("rows", 0)
        before: Page[T] | None = None
        while not place.get("end") and not self._is_behind(number):
            call = f"fetch({number})"
            page = as_page((yield Ask((number,))), call)
            number, rows = number + 1, rows + len(page.items)
            announced = 0 if page.pages is None else page.pages
            if len(page.items) == 0 and number - self._start >= announced:
                return
            if self._check_repeats:
                refuse_repeated(page, before, call)
            place = {"page": number, "rows": rows}
            self._doubt(page, rows)
            if 0 < announced <= number - self._start or is_complete(page, rows, self._page_size):
                place["end"] = True
            before = replace(page, next=None if place.get("end") or self._is_behind(number) else number)
            yield Found(before, place)

    def _is_behind(self, number: int) -> bool:
        return self._stop is not None and number >= self._stop


class Offset(PagedSource[T]):
    """The pages of an API that is asked for the items from an offset on.

    `fetch(offset, limit)` returns up to `limit` items, or a `Page(items, total=...)` where the API says how many there
    are in all. It may be a coroutine function, for `async for`. With a total the loop ends there; without one it ends
    at an empty page only, which is one request more: an API may give fewer items than asked for wherever it likes, such
    as 100 for `limit=1000`, and the loop goes on by what it got. An empty page before the total is asked for once more.
    A total that is less than what came is not believed, nor one that is no more than a full first page. An element is
    a `Page` whose `next` is the next offset. A position is that offset, `{"offset": ...}`, with `"end": true` after
    the last page; `limit` may change between attempts.

    >>> letters = "abcde"
    >>> source = Offset(lambda offset, limit: list(letters[offset : offset + limit]), limit=2)
    >>> [page.items for page, _ in source.elements({"offset": 2})]
    [['c', 'd'], ['e']]

    Args:
        fetch: as above.
        limit: items a page.
        check_repeats: whether two equal pages in a row are an error; False where they may be right.

    Raises:
        PageTooLongError: fetch returned more than `limit` items.
        RepeatedPageError: see `check_repeats`.
        WrongAnswerError: fetch returned neither items nor a `Page`.
    """

    kind = "offset"
    _shifts = True

    def __init__(
        self,
        fetch: Callable[[int, int], Answer[T] | Awaitable[Answer[T]]],
        *,
        limit: int,
        check_repeats: bool = True,
    ) -> None:
        super().__init__(fetch)
        check_whole("limit", limit, least=1)
        self._limit = self._page_size = limit
        self._check_repeats = check_repeats

    def rows(self, position: JsonValue) -> int | None:
        """The offset: it counts the items before it."""
        offset: int = members(position).get("offset", 0)
        return offset

    def _walk(self, position: JsonValue) -> Walk[T]:
        place = members(position)
        offset = place.get("offset", 0)
        before: Page[T] | None = None
        while not place.get("end"):
            call = f"fetch({offset}, {self._limit})"
            page = as_page((yield Ask((offset, self._limit))), call)
            if len(page.items) == 0 and _is_more(page, offset):  # it contradicts itself, so it is asked once more
                page = as_page((yield Ask((offset, self._limit))), call)
            if len(page.items) == 0:
                return
            self._refuse_too_long(page, call)
            if self._check_repeats:
                refuse_repeated(page, before, call)
            offset += len(page.items)
            place = {"offset": offset}
            self._doubt(page, offset)
            if is_complete(page, offset, self._limit):
                place["end"] = True
            before = replace(page, next=None if place.get("end") else offset)
            yield Found(before, place)

    def _refuse_too_long(self, page: Page[T], call: str) -> None:
        if len(page.items) > self._limit:
            raise PageTooLongError(
                f"{call} returned {len(page.items)} items and limit={self._limit}: the offsets after it would mean"
                " other items.",
                "Hand the limit on to the API, or set it to what the API gives.",
            )


def is_complete(page: Page[T], rows: int, size: int | None) -> bool:
    """Whether these rows are all there are.

    A total that is less than what came is not believed. Nor is one that is a full first page: it may be the count of
    that page, and one request more tells.
    """
    return page.total == rows and not (size is not None and rows == len(page.items) >= size)


def _is_more(page: Page[T], offset: int) -> bool:
    return page.total is not None and page.total > offset


def refuse_repeated(page: Page[T], before: Page[T] | None, call: str) -> None:
    """Refuse a page with the items of the one before it.

    Raises:
        RepeatedPageError: naming the call.
    """
    if before is None or len(page.items) == 0 or not _are_equal(page.items, before.items):
        return
    raise RepeatedPageError(
        f"{call} returned the same {len(page.items)} items as the call before it, so the loop would never end.",
        "Hand the argument of fetch on to the API; if equal pages are right here, say check_repeats=False.",
    )


def _are_equal(items: object, others: object) -> bool:
    """Arrays and data frames do not compare to a yes or no; they are not looked into."""
    try:
        return bool(items == others)
    except (TypeError, ValueError):
        return False
