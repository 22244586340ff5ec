"""Pages of an API, however it numbers them.

Theory of operation. Every paginated source is one generator, `_walk`, that does no I/O: it yields an `Ask` with the
arguments of the fetch, gets what the fetch returned by `send` (or what it raised by `throw`), and yields a `Found` for
every page. Two small drivers run it: one calls the fetch, the other awaits it. So a source is written once for `for`
and for `async for`.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast

from airflow_resume.arguments import check_whole
from airflow_resume.errors import WrongAnswerError
from airflow_resume.loops.sources.order import is_unordered
from airflow_resume.loops.sources.source import Source, check_place, members
from airflow_resume.loops.sources.tables import is_table
from airflow_resume.natives import native
from airflow_resume.shown import get_logger, short_repr

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

log = get_logger(__name__)


@dataclass(frozen=True)
class Page(Generic[T_co]):
    """What a fetch of a paginated API returned.

    Args:
        items: of this page.
        next: the token of the next page; None or "" on the last one. Only `CursorToken` needs it; in the pages that
            the other sources deliver it is what they will fetch next.
        total: how many items there are on all pages, if the API says so.
        pages: how many pages there are, if the API says so.
    """

    items: Sequence[T_co]
    next: JsonValue = None
    total: int | None = None
    pages: int | None = None


@dataclass(frozen=True)
class Ask:
    """Call the fetch with these arguments."""

    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Found(Generic[T]):
    """A page, and the position after it."""

    page: Page[T]
    after: JsonValue


Walk: TypeAlias = "Generator[Ask | Found[T], Any, None]"


class PagedSource(Source[Page[T]]):
    """A source of pages, made from a fetch function, which may be a coroutine function."""

    noun = "page"
    _page_size: int | None = None
    _pages: int | None = None
    _items: int | None = None
    _shifts = False
    """Whether the largest total counts, because deleted rows move the others to another place."""
    _has_doubted = False
    _last: JsonValue = None
    """The position after the newest page."""
    _counts = frozenset({"rows", "offset", "page"})
    """Members of a position that are whole numbers."""

    def __init__(self, fetch: Callable[..., Any]) -> None:
        if not callable(fetch):
            raise TypeError(f"{type(self).__name__} needs a function to fetch with: fetch={short_repr(fetch)} is none")
        self._fetch = fetch

    def check(self, position: JsonValue) -> None:
        """Its counts are whole numbers."""
        place = check_place(position)
        for name in self._counts & place.keys():
            check_whole(name, place[name], least=None if name == "page" else 0)
        if not isinstance(place.get("end", True), bool):
            raise TypeError(f"end={place['end']!r} must be true or false")

    def total(self, position: JsonValue) -> int | None:  # noqa: ARG002
        """How many pages there are, once a page has said so."""
        if self._pages is None and self._items is not None and self._page_size is not None:
            return -(-self._items // self._page_size)
        return self._pages

    def rows(self, position: JsonValue) -> int | None:
        """How many items are before `position`."""
        rows: int = members(position).get("rows", 0)
        return rows

    def total_rows(self, position: JsonValue) -> int | None:  # noqa: ARG002
        """How many items there are on all pages, once a page has said so."""
        return self._items

    def seen(self, position: JsonValue) -> JsonValue:  # noqa: ARG002
        """The totals that the API has announced, as not every page may have them."""
        announced = {"rows": self._items, "pages": self._pages}
        return {name: count for name, count in announced.items() if count is not None} or None

    def recall(self, position: JsonValue, seen: JsonValue) -> None:
        """Restore the totals that the API announced to an earlier attempt."""
        announced = check_place(seen)
        for name in announced.keys() & {"rows", "pages"}:
            check_whole(name, announced[name])
        self._last = position
        self._items, self._pages = announced.get("rows"), announced.get("pages")

    def shortfall(self, position: JsonValue) -> str | None:  # noqa: ARG002
        """Fewer items than were announced; see `_short_of_pages` for pages."""
        rows = self.rows(self._last) or 0
        if self._items is not None and rows < self._items:
            return f"{rows:,} of {self._items:,} rows"
        return self._short_of_pages()

    def _short_of_pages(self) -> str | None:
        """Fewer pages than were announced, if pages are counted."""
        return None

    @abstractmethod
    def _walk(self, position: JsonValue) -> Walk[T]:
        """Ask for pages from `position` on, and yield those that were found. Does no I/O."""

    def elements(self, position: JsonValue) -> Iterator[tuple[Page[T], JsonValue]]:
        """The pages, each with the position after it."""
        walk, self._last = self._walk(position), position
        step = next(walk, None)
        while step is not None:
            if isinstance(step, Found):
                self._learn(step.page)
                self._last = step.after
                yield step.page, step.after
                step = next(walk, None)
                continue
            try:
                answer = self._fetch(*step.arguments)
            except Exception as error:  # noqa: BLE001  the walk knows what it means, or raises it again
                step = _next_step(walk, None, error)
                continue
            if isinstance(answer, Awaitable):
                if inspect.iscoroutine(answer):
                    answer.close()  # or Python warns that nobody has awaited it
                raise WrongAnswerError(
                    "The fetch is a coroutine function.", "Iterate the loop with `async for`.", call="fetch"
                )
            step = _next_step(walk, answer, None)

    async def aelements(self, position: JsonValue) -> AsyncIterator[tuple[Page[T], JsonValue]]:
        """The pages, for `async for`; a fetch that is no coroutine function is called on the event loop."""
        walk, self._last = self._walk(position), position
        step = next(walk, None)
        while step is not None:
            if isinstance(step, Found):
                self._learn(step.page)
                self._last = step.after
                yield step.page, step.after
                step = next(walk, None)
                continue
            try:
                answer = self._fetch(*step.arguments)
                if isinstance(answer, Awaitable):
                    answer = await answer
            except Exception as error:  # noqa: BLE001  as above
                step = _next_step(walk, None, error)
            else:
                step = _next_step(walk, answer, None)

    def _learn(self, page: Page[T]) -> None:
        """Keep the newest totals, or the largest: only some pages may have them."""
        self._pages = self._newer(page.pages, self._pages)
        self._items = self._newer(page.total, self._items)

    def _doubt(self, page: Page[T], rows: int) -> None:
        """Log once that a total was too small."""
        if page.total is not None and len(page.items) <= page.total < rows and not self._has_doubted:
            self._has_doubted = True
            log.warning("The API said total=%d, but gave %d rows: reading on to an empty page", page.total, rows)

    def _newer(self, count: int | None, before: int | None) -> int | None:
        if count is None or before is None:
            return before if count is None else count
        return max(count, before) if self._shifts else count


def _next_step(walk: Walk[T], answer: object, failure: Exception | None) -> Ask | Found[T] | None:
    """The step after a fetch that answered this or failed; None at the end."""
    try:
        return walk.send(answer) if failure is None else walk.throw(failure)
    except StopIteration:
        return None


def as_page(answer: object, call: str) -> Page[Any]:
    """What `call` returned, as a page whose items can be counted.

    Items that have a length and can be indexed (a list, an array, a data frame) stay as they are; others, such as
    those of a generator, become a list.

    Raises:
        WrongAnswerError: it has no items, or a total that is not a whole number.
    """
    page = answer if isinstance(answer, Page) else Page(answer)  # type: ignore[arg-type]
    items: object = page.items
    is_list = type(items) is list  # nearly always, and then there is nothing to refuse
    if not is_list:
        _refuse_no_items(items, call)
    if page.total is not None or page.pages is not None:
        page = _with_whole_totals(page, call)
    if is_list or (isinstance(items, Sized) and hasattr(items, "__getitem__")):
        return page
    return replace(page, items=list(cast("Iterable[Any]", items)))


def _refuse_no_items(items: object, call: str) -> None:
    if is_unordered(items):
        raise WrongAnswerError(
            f"{call} returned a {type(items).__name__}, which has no stable order.",
            "Return a list in the order of the API, or sorted(...) of it.",
            call=call,
        )
    if not is_table(items) and (isinstance(items, (str, bytes, bytearray, Mapping)) or not isinstance(items, Iterable)):
        raise WrongAnswerError(
            f"{call} returned {kind_of(items)} instead of the items of a page.",
            "Return a list of items, or a Page(items, ...) of airflow_resume.loops.",
            call=call,
        )


def _with_whole_totals(page: Page[Any], call: str) -> Page[Any]:
    """The page with totals of Python's own types."""
    total, pages = native(page.total), native(page.pages)
    if (total, pages) != (page.total, page.pages) or type(total) is not type(page.total):
        page = replace(page, total=total, pages=pages)
    for name, count in (("total", total), ("pages", pages)):
        if count is not None and (not isinstance(count, int) or isinstance(count, bool)):
            raise WrongAnswerError(
                f"{call} returned a page with {name}={count!r}.", "Give a whole number, or leave it out.", call=call
            )
    return page


def kind_of(answer: object) -> str:
    """The type of an answer in a message."""
    return "None" if answer is None else f"a {type(answer).__name__}"
