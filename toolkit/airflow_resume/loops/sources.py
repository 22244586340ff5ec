"""Where the elements come from, and what a position in each is.

A position says what to do *next*, absolutely. A source yields every element with the position after it, so that the
loop can save a position without knowing what it means.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from airflow_resume import values
from airflow_resume.loops.source import Source
from airflow_resume.loops.pages import Page
from airflow_resume.errors import RepeatedTokenError, SourceChangedError

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

log = logging.getLogger(__name__)


class CursorToken(Source[T]):
    """The pages of an API that hands out a token for the next page with every page.

    Args:
        fetch: `fetch(token)` returns the `Page` of the token, and the first page for None.
    """

    kind = "cursor_token"

    def __init__(self, fetch: Callable[[Any], Page[T]]) -> None:
        if not callable(fetch):
            raise TypeError(f"CursorToken needs a function fetch(token) -> Page, not {type(fetch).__name__}")
        self._fetch = fetch

    def definition(self) -> Mapping[str, object]:
        """Tokens stand for themselves."""
        return {}

    def total(self, position=None) -> int | None:
        """Unknown: the last page is known by having no next."""
        return None

    def elements(self, position: JsonValue) -> Iterator[tuple[Page[T], JsonValue]]:
        """The pages. A position is `{"token": ...}`, or `{"end": true}` behind the last page."""
        place: dict[str, JsonValue] = position if isinstance(position, dict) else {}
        token = place.get("token")
        while not place.get("end"):
            page = self._page(token)
            place = {"end": True} if _is_end(page.next) else {"token": page.next}
            yield page, place
            token = page.next

    def _page(self, token: JsonValue) -> Page[T]:
        page = self._fetch(token)
        if not isinstance(page, Page):
            raise TypeError(
                f"fetch({token!r}) returned a {type(page).__name__}; return a Page(items, next) of airflow_resume.loops"
            )
        if _is_end(page.next):
            return page
        values.check(page.next, at=f"the token after {token!r}")
        values.check_size("the token", page.next)
        if page.next == token:
            raise RepeatedTokenError(
                f"The page of token {token!r} names that same token as the next one, so the loop would never end."
                f" If the API signals its last page like this, return Page(items, None) from fetch."
            )
        return page


def _is_end(token: JsonValue) -> bool:
    return token is None or token == ""


class Batches(Source[T]):
    """The elements of an iterable, one by one (`size=1`, as they are) or in lists of `size`.

    A sequence is entered by its index. Any other iterable is gone through from its start, without delivering what
    was done before; the iterable must give the same elements in the same order in every attempt.
    """

    kind = "batches"

    def __init__(self, iterable: Iterable[T], size: int = 1) -> None:
        if isinstance(iterable, AbstractSet):
            raise TypeError("A set has no order that lasts, so no position in it means anything; pass sorted(...)")
        if size < 1:
            raise ValueError(f"size={size} must be at least 1")
        self._iterable = iterable
        self._size = size

    def definition(self) -> Mapping[str, object]:
        """A position counts elements, so not even the batch size matters."""
        return {}

    def total(self, position=None) -> int | None:
        """The number of deliveries, where the length is known."""
        try:
            return -(-len(self._iterable) // self._size)  # type: ignore[arg-type]
        except TypeError:
            return None

    def elements(self, position: JsonValue) -> Iterator[tuple[Any, JsonValue]]:
        """The elements or lists. A position is the number of elements done."""
        done = position if isinstance(position, int) else 0
        items = self._from(done)
        if self._size == 1:
            yield from zip(items, _counting_from(done + 1), strict=False)
            return
        while batch := list(islice(items, self._size)):
            done += len(batch)
            yield batch, done

    def _from(self, done: int) -> Iterator[T]:
        if isinstance(self._iterable, Sequence):
            if done > len(self._iterable):
                raise SourceChangedError(
                    f"{done} elements were done before, and now there are {len(self._iterable)}: the listing shrank, so"
                    f" the position means nothing in it. Clear the task to start over."
                )
            if isinstance(self._iterable, deque):  # a sequence that cannot be sliced
                return islice(self._iterable, done, None)
            return iter(self._iterable[done:])
        items = iter(self._iterable)
        if done:
            log.info("Going through %d elements that are done, as the source cannot be entered in its middle", done)
            skipped = sum(1 for _ in islice(items, done))
            if skipped < done:
                raise SourceChangedError(f"{done} elements were done before, and now there are {skipped} in all.")
        return items


def _counting_from(first: int) -> Iterator[int]:
    while True:
        yield first
        first += 1


def as_source(source: Source[T] | Iterable[T]) -> Source[Any]:
    """The source itself, or a bare iterable as `Batches`.

    Raises:
        TypeError: neither.
    """
    if callable(getattr(source, "elements", None)) and hasattr(source, "kind"):
        return source  # type: ignore[return-value]
    if isinstance(source, Iterable):
        return Batches(source)
    raise TypeError(
        f"checkpoint() needs a source of airflow_resume.loops or an iterable, not {type(source).__name__}."
        f" A function that fetches pages goes into a source: checkpoint(CursorToken(fetch), name=...)."
    )
