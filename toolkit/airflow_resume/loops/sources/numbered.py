"""Pages of an API that numbers its pages, or that takes an offset."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from airflow_resume.arguments import check_flag, check_whole
from airflow_resume.errors import EndlessSourceError, WrongAnswerError
from airflow_resume.loops.sources.pages import Ask, Found, Page, PagedSource, Walk, as_page
from airflow_resume.loops.sources.source import members

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")

Answer: TypeAlias = "Iterable[T] | Page[T]"


class PageNumber(PagedSource[T]):
    """The pages of an API that numbers them.

    `fetch(number)` returns the items of a page, or a `Page(items, total=..., pages=...)` if the API says how many there
    are. It may be a coroutine function, for `async for`. The loop ends at an empty page, before the page `stop` (like
    `range`), after the last of `Page.pages`, or when `Page.total` items were delivered. An empty page before the last
    of `Page.pages` does not end it, nor does a total that is less than what came. An element is a `Page` whose `next`
    is the next number. A position is that number and the number of items before it: `{"page": ..., "rows": ...}`, with
    `"end": true` after the last page according to the API.

    Examples:
        >>> answers = {1: ["a", "b"], 2: ["c"], 3: []}
        >>> [page.items for page, _ in PageNumber(answers.get).elements(None)]
        [['a', 'b'], ['c']]
        >>> [page.items for page, _ in PageNumber(answers.get, stop=2).elements(None)]
        [['a', 'b']]

    Args:
        fetch: as above.
        start: the number of the first page; 1 by default.
        stop: the number of the page before which to end.
        size: items per page, if fetch chooses it: with another size a page number means something else, so after a
            change the loop's `on_change` applies.
        check_repeats: whether two equal pages in a row are an error; False if they may be right.

    Raises:
        EndlessSourceError: see `check_repeats`.
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
        check_flag("check_repeats", check_repeats)
        self._check_repeats = check_repeats

    def definition(self) -> Mapping[str, object]:
        """The first number and, if it is known, the size: both change what a number means."""
        return {"start": self._start} | ({} if self._page_size is None else {"size": self._page_size})

    def numbering(self) -> JsonValue:
        """A page is identified by its number."""
        return True

    def steps(self, before: JsonValue, after: JsonValue) -> int | None:
        """The difference of their numbers."""
        return int(members(after).get("page", self._start) - members(before).get("page", self._start))

    def total(self, position: JsonValue) -> int | None:
        """How many pages there are, once a page has said so, limited by `stop`."""
        pages = super().total(position)
        if pages is None or self._stop is None:
            return pages
        return min(pages, self._stop - self._start)

    def shortfall(self, position: JsonValue) -> str | None:
        """Fewer items or pages than were announced, unless the loop ended at `stop`."""
        return None if self._is_past_stop(self._next_number) else super().shortfall(position)

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
        while not place.get("end") and not self._is_past_stop(number):
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
            before = replace(page, next=None if place.get("end") or self._is_past_stop(number) else number)
            yield Found(before, place)

    def _is_past_stop(self, number: int) -> bool:
        return self._stop is not None and number >= self._stop


class Offset(PagedSource[T]):
    """The pages of an API that takes an offset and a limit.

    `fetch(offset, limit)` returns up to `limit` items, or a `Page(items, total=...)` if the API says how many there are
    in all. It may be a coroutine function, for `async for`. If there is a total, the loop ends there. Without one, it
    ends only at an empty page, which costs one more request: a short page need not be the last, because an API may give
    fewer items than requested, such as 100 for `limit=1000`. The next offset follows from what it gave. An empty page
    before the total is requested once more. A total that is less than what came is ignored, and so is one that is no
    more than a full first page. An element is a `Page` whose `next` is the next offset. A position is that offset,
    `{"offset": ...}`, with `"end": true` after the last page; `limit` may change between attempts.

    Examples:
        >>> letters = "abcde"
        >>> source = Offset(lambda offset, limit: list(letters[offset : offset + limit]), limit=2)
        >>> [page.items for page, _ in source.elements({"offset": 2})]
        [['c', 'd'], ['e']]

    Args:
        fetch: as above.
        limit: items per page.
        check_repeats: whether two equal pages in a row are an error; False if they may be right.

    Raises:
        WrongAnswerError: fetch returned more than `limit` items.
        EndlessSourceError: see `check_repeats`.
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
        check_flag("check_repeats", check_repeats)
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
            if len(page.items) == 0 and page.total is not None and page.total > offset:  # a contradiction: ask again
                page = as_page((yield Ask((offset, self._limit))), call)
            if len(page.items) == 0:
                return
            if len(page.items) > self._limit:
                raise WrongAnswerError(
                    f"{call} returned {len(page.items)} items and limit={self._limit}: the offsets after it would mean"
                    " other items.",
                    "Pass the limit on to the API, or set it to what the API gives.",
                    call=call,
                    answered=len(page.items),
                )
            if self._check_repeats:
                refuse_repeated(page, before, call)
            offset += len(page.items)
            place = {"offset": offset}
            self._doubt(page, offset)
            if is_complete(page, offset, self._limit):
                place["end"] = True
            before = replace(page, next=None if place.get("end") else offset)
            yield Found(before, place)


def is_complete(page: Page[T], rows: int, size: int | None) -> bool:
    """Whether these rows are all there are.

    A total that is less than what came is ignored. So is one that equals a full first page: it may be the count of that
    page alone, and one more request shows whether it is.
    """
    return page.total == rows and not (size is not None and rows == len(page.items) >= size)


def refuse_repeated(page: Page[T], before: Page[T] | None, call: str) -> None:
    """Refuse a page with the items of the one before it.

    Raises:
        EndlessSourceError: naming the call.
    """
    if before is None or len(page.items) == 0 or not _are_equal(page.items, before.items):
        return
    raise EndlessSourceError(
        f"{call} returned the same {len(page.items)} items as the call before it, so the loop would never end.",
        "Pass the argument of fetch on to the API; if equal pages are right here, say check_repeats=False.",
        call=call,
    )


def _are_equal(items: object, others: object) -> bool:
    """Whether they are equal; False for arrays and data frames, whose comparison gives no single answer."""
    try:
        return bool(items == others)
    except (TypeError, ValueError):
        return False
