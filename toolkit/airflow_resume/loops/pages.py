"""Pages of an API, however it numbers them.

Theory of operation. Every paginated source is one generator, `_walk`, that does no I/O: it yields an `Ask` with the
arguments of the fetch, is sent what the fetch returned (or has thrown into it what the fetch raised), and yields a
`Found` for every page. Two small drivers play it: one calls the fetch, the other awaits it. So a source is written
once for `for` and for `async for`.
"""

from __future__ import annotations

import inspect
import logging
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast

from airflow_resume.arguments import check_whole
from airflow_resume.errors import WrongAnswerError
from airflow_resume.loops.order import is_unordered
from airflow_resume.loops.source import Source, check_place, members
from airflow_resume.loops.steps import sent
from airflow_resume.loops.tables import is_table
from airflow_resume.natives import native

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Page(Generic[T_co]):
    """What a fetch of a paginated API brought.

    Args:
        items: of this page.
        next: the token of the next page; None or "" on the last one. Only `CursorToken` asks for it; in the pages that
            the other sources deliver it is what they will fetch next.
        total: how many items there are on all pages, where the API says.
        pages: how many pages there are, where the API says.
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
    """Whether rows that are deleted move the others to another place, so that the largest total is what must come."""
    _has_doubted = False
    _last: JsonValue = None
    """The position after the page that came last."""
    _counts = frozenset({"rows", "offset", "page"})
    """Members of a position that are whole numbers."""

    def __init__(self, fetch: Callable[..., Any]) -> None:
        if not callable(fetch):
            raise TypeError(f"{type(self).__name__} needs a function to fetch with, not {type(fetch).__name__}")
        self._fetch = fetch

    def check(self, position: JsonValue) -> None:
        """What is counted in it is a whole number."""
        place = check_place(position)
        for name in self._counts & place.keys():
            check_whole(name, place[name], least=None if name == "page" else 0)

    def total(self, position: JsonValue) -> int | None:  # noqa: ARG002
        """How many pages there are, once a page has said so."""
        if self._pages is None and self._items is not None and self._page_size is not None:
            return -(-self._items // self._page_size)
        return self._pages

    def rows(self, position: JsonValue) -> int | None:
        """How many items lie before `position`."""
        rows: int = members(position).get("rows", 0)
        return rows

    def total_rows(self, position: JsonValue) -> int | None:  # noqa: ARG002
        """How many items there are on all pages, once a page has said so."""
        return self._items

    def seen(self, position: JsonValue) -> JsonValue:  # noqa: ARG002
        """What the API has announced: not every page may say it."""
        announced = {"rows": self._items, "pages": self._pages}
        return {name: count for name, count in announced.items() if count is not None} or None

    def recall(self, position: JsonValue, seen: JsonValue) -> None:
        """What it has announced to an earlier attempt."""
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
        """Fewer pages than were announced, where pages are counted."""
        return None

    @abstractmethod
    def _walk(self, position: JsonValue) -> Walk[T]:
        """Ask for pages from `position` on, and yield what was found. Does no I/O."""

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
                step = _thrown(walk, error)
            else:
                _refuse_awaitable(answer)
                step = sent(walk, answer)

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
            except Exception as error:  # noqa: BLE001  the walk knows what it means, or raises it again
                step = _thrown(walk, error)
            else:
                step = sent(walk, answer)

    def _learn(self, page: Page[T]) -> None:
        """Keep the newest totals, or the largest: an API may say them with some pages only."""
        self._pages = self._newer(page.pages, self._pages)
        self._items = self._newer(page.total, self._items)

    def _doubt(self, page: Page[T], rows: int) -> None:
        """Say once that a total was wrong, when more rows came."""
        if page.total is not None and len(page.items) <= page.total < rows and not self._has_doubted:
            self._has_doubted = True
            log.warning("The API said total=%d, and %d rows have come: going on to an empty page", page.total, rows)

    def _newer(self, count: int | None, before: int | None) -> int | None:
        if count is None or before is None:
            return before if count is None else count
        return max(count, before) if self._shifts else count


def _thrown(walk: Walk[T], error: Exception) -> Ask | Found[T] | None:
    try:
        return walk.throw(error)
    except StopIteration:
        return None


def _refuse_awaitable(answer: object) -> None:
    """Refuse what only `async for` can wait for, and leave no coroutine behind that nobody awaits."""
    if not isinstance(answer, Awaitable):
        return
    if inspect.iscoroutine(answer):
        answer.close()
    raise WrongAnswerError("The fetch is a coroutine function.", "Iterate the loop with `async for`.")


def as_page(answer: object, call: str) -> Page[Any]:
    """What `call` answered, as a page whose items can be counted.

    Items that have a length and can be indexed (a list, an array, a data frame) stay as they are; others, such as
    those of a generator, become a list.

    Raises:
        WrongAnswerError: it has no items, or a total that is no number.
    """
    page = answer if isinstance(answer, Page) else Page(answer)  # type: ignore[arg-type]
    items: object = page.items
    if is_unordered(items):
        raise WrongAnswerError(
            f"{call} answered with a {type(items).__name__}, which has no order that lasts.",
            "Return a list in the order of the API, or sorted(...) of it.",
        )
    if not is_table(items) and (isinstance(items, (str, bytes, bytearray, Mapping)) or not isinstance(items, Iterable)):
        raise WrongAnswerError(
            f"{call} answered with {_kind_of(items)} where the items of a page should be.",
            "Return a list of items, or a Page(items, ...) of airflow_resume.loops.",
        )
    total, pages = native(page.total), native(page.pages)
    if (total, pages) != (page.total, page.pages) or type(total) is not type(page.total):
        page = replace(page, total=total, pages=pages)
    for name, count in (("total", total), ("pages", pages)):
        if count is not None and (not isinstance(count, int) or isinstance(count, bool)):
            raise WrongAnswerError(f"{call} answered with {name}={count!r}.", "Give a whole number, or leave it out.")
    if isinstance(items, Sized) and hasattr(items, "__getitem__"):
        return page
    return replace(page, items=list(cast("Iterable[Any]", items)))


def _kind_of(items: object) -> str:
    return "None" if items is None else f"a {type(items).__name__}"
