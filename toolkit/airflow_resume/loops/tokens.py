"""Pages of an API that hands out a token for the next page with every page."""

from __future__ import annotations

import reprlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from airflow_resume import values
from airflow_resume.arguments import check_choice, check_duration, check_whole
from airflow_resume.attempt import how_to_start_over, utc_now
from airflow_resume.errors import EndlessPagesError, RepeatedTokenError, TokenExpiredError, WrongAnswerError
from airflow_resume.loops.age import Received
from airflow_resume.loops.pages import Ask, Found, Page, PagedSource, Walk, as_page
from airflow_resume.loops.source import OnExpired, members
from airflow_resume.natives import native

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")

Expired: TypeAlias = "type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool]"


class CursorToken(PagedSource[T]):
    """The pages of an API that hands out a token for the next page with every page.

    `fetch(token)` returns the `Page(items, next)` of that token, and the first page for None. It may be a coroutine
    function, for `async for`. The last page is the one whose `next` is None or ""; any other JSON is a token, 0 too,
    and so is a datetime, a Decimal, a UUID, bytes or a tuple. Numbers of NumPy and the like become Python's own.
    An element is a page, also one without items. A position is the token of the next page and the number of items
    before it: `{"token": ..., "rows": ...}`, or `{"end": true, "rows": ...}` after the last page.

    >>> answers = {None: Page(["a", "b"], "t1"), "t1": Page(["c"])}
    >>> [page.items for page, _ in CursorToken(answers.get).elements(None)]
    [['a', 'b'], ['c']]
    >>> [page.items for page, _ in CursorToken(answers.get).elements({"token": "t1", "rows": 2})]
    [['c']]

    Args:
        fetch: as above.
        expired: how to know that a fetch failed because its token is too old: an exception class, several, or a
            function of the exception. Without it such a failure is like any other. The first page has no token, so its
            failures never count.
        max_age: how long a token is good for after it was received, where the API says. It is looked at when the loop
            is opened and before every fetch, so that a token which is too old is not sent at all.
        on_expired: `"restart"` (default) starts the loop over, once; `"fail"` fails the task.
        max_empty: how many pages without an item may follow each other; 1,000 by default. No page is skipped for it.
        now, monotonic: the clocks, for `max_age`.

    Raises:
        TokenExpiredError: see `expired`, the failure of the fetch is its cause; and see `max_age`.
        RepeatedTokenError: tokens come round, after however many others.
        EndlessPagesError: more than `max_empty` pages had no item.
        WrongAnswerError: fetch returned no `Page`.
        InvalidValueError: a token cannot be saved; its page was not delivered.
    """

    kind = "cursor_token"

    def __init__(
        self,
        fetch: Callable[[Any], Page[T] | Awaitable[Page[T]]],
        *,
        expired: Expired | None = None,
        max_age: timedelta | None = None,
        on_expired: OnExpired = "restart",
        max_empty: int = 1000,
        now: Callable[[], datetime] = utc_now,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(fetch)
        self._is_expired = _test_of(expired)
        if max_age is not None:
            check_duration("max_age", max_age)
        check_choice("on_expired", on_expired, OnExpired)
        check_whole("max_empty", max_empty, least=0)
        self.max_age = max_age
        self.on_expired = on_expired
        self._max_empty = max_empty
        self._first_page, self._pages_done = False, 0
        self._now = now
        self._received = Received(now, monotonic)

    def expires(self, position: JsonValue) -> bool:
        """Whether there is a token in it, and tokens expire."""
        return self.max_age is not None and members(position).get("token") is not None

    def received(self, position: JsonValue) -> datetime | None:
        """When its token was received."""
        return self._received.when(values.decode(members(position).get("token")))

    def age_now(self) -> datetime | None:
        """By the clock it was given, where tokens get too old."""
        return None if self.max_age is None else self._now()

    def take_up(self, position: JsonValue, received: datetime) -> None:
        """An earlier attempt received its token then."""
        self._received.take_up(values.decode(members(position).get("token")), received)

    def _walk(self, position: JsonValue) -> Walk[T]:
        place = members(position)
        token, rows, empty = values.decode(place.get("token")), place.get("rows", 0), 0
        self._first_page, self._pages_done = place == {}, 0
        cycle = _Cycle(token)
        while not place.get("end"):
            self._refuse_too_old(token)
            try:
                answer = yield Ask((token,))
            except Exception as error:
                if token is not None and self._is_expired(error):
                    raise _expired_error(token, error) from error
                raise
            page = _checked_page(answer, token)
            rows += len(page.items)
            self._pages_done += 1
            empty = 0 if len(page.items) else empty + 1
            place = {"end": True, "rows": rows}
            if not _is_end(page.next):
                place = {"token": _kept(page.next, token), "rows": rows}
            if "token" in place:
                cycle.refuse(page.next, token)
                self._refuse_endless(empty)
                if self.max_age is not None:
                    self._received.note(values.decode(place["token"]))
            yield Found(page, place)
            token = page.next

    def _short_of_pages(self) -> str | None:
        """Positions do not count pages, so that is known only of an attempt that began at the first one."""
        if self._pages is None or not self._first_page or self._pages_done >= self._pages:
            return None
        return f"{self._pages_done:,} of {self._pages:,} pages"

    def _refuse_too_old(self, token: JsonValue) -> None:
        if self.max_age is not None and token is not None and self._received.age(token) > self.max_age:
            raise TokenExpiredError(
                f"The token {reprlib.repr(token)} of the next page was received {self._received.age(token)} ago, and"
                f" max_age={self.max_age}.",
                _remedy(),
            )

    def _refuse_endless(self, empty: int) -> None:
        if empty > self._max_empty:
            raise EndlessPagesError(
                f"{empty:,} pages in a row had no item, and each names a next one.",
                "If that is right, allow more with CursorToken(fetch, max_empty=...).",
            )


class _Cycle:
    """Finds that tokens come round, with whatever period, while it keeps one of them only (Brent's algorithm).

    The kept token is replaced after 1, 2, 4, 8, ... others, so one day it lies in the circle and is kept for longer
    than the circle is long. Until then at most three times the distinct tokens have been seen.
    """

    def __init__(self, first: JsonValue) -> None:
        self._kept = first
        self._seen, self._room = 0, 1

    def refuse(self, token: JsonValue, asked: JsonValue) -> None:
        """Take the next token.

        Raises:
            RepeatedTokenError: it was there before.
        """
        if token in (asked, self._kept):
            raise RepeatedTokenError(
                f"The page of token {reprlib.repr(asked)} names {_as_named(token, asked)} as the next one, so the loop"
                " would never end.",
                "If the API signals its last page like this, return Page(items, None) from fetch.",
            )
        self._seen += 1
        if self._seen == self._room:
            self._kept, self._seen, self._room = token, 0, 2 * self._room


def _as_named(token: JsonValue, asked: JsonValue) -> str:
    return "that same token" if token == asked else f"{reprlib.repr(token)}, which was fetched before,"


def _checked_page(answer: object, token: JsonValue) -> Page[Any]:
    call = f"fetch({reprlib.repr(token)})"
    if not isinstance(answer, Page):
        raise WrongAnswerError(
            f"{call} returned a {type(answer).__name__}.", "Return a Page(items, next) of airflow_resume.loops."
        )
    next_token = native(answer.next)
    if next_token is not answer.next:
        answer = replace(answer, next=next_token)
    return as_page(answer, call)


def _kept(token: Any, asked: Any) -> JsonValue:
    """A token as it is saved."""
    encoded = values.encode(token)
    at = f"the token after {reprlib.repr(asked)}"
    if not values.is_exact(token):
        values.check(token, at=at)
    values.check(encoded, at=at)
    values.check_size("the token", encoded)
    return encoded


def _is_end(token: object) -> bool:
    return token is None or (isinstance(token, str) and token == "")


def _test_of(expired: Any) -> Callable[[Exception], bool]:
    """The test that `expired=` stands for."""
    if expired is None:
        return lambda _error: False
    kinds = expired if isinstance(expired, tuple) else (expired,)
    if all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
        return lambda error: isinstance(error, kinds)
    if callable(expired) and not isinstance(expired, type):
        return cast("Callable[[Exception], bool]", expired)
    raise TypeError(f"expired={expired!r} must be an exception class, a tuple of them, or a function of the exception")


def _expired_error(token: JsonValue, error: Exception) -> TokenExpiredError:
    return TokenExpiredError(
        f"The API no longer takes the token {reprlib.repr(token)} of the next page ({error!r}).",
        _remedy(),
    )


def _remedy() -> str:
    return (
        f"To start over, {how_to_start_over()}; CursorToken(fetch, on_expired='restart') does that by itself, once. If"
        f" it expires again, ask for smaller pages, or do less between two of them."
    )
