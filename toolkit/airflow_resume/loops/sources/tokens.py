"""Pages of an API that returns a token for the next page with every page."""

from __future__ import annotations

import reprlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from airflow_resume import values
from airflow_resume.arguments import check_choice, check_duration, check_function, check_whole
from airflow_resume.attempt import how_to_start_over, utc_now
from airflow_resume.errors import EndlessSourceError, TokenExpiredError, WrongAnswerError
from airflow_resume.loops.sources.pages import Ask, Found, Page, PagedSource, Walk, as_page
from airflow_resume.loops.sources.source import OnExpired, members
from airflow_resume.loops.sources.token_age import Received
from airflow_resume.natives import native
from airflow_resume.shown import MOST_OF_AN_ERROR, short_repr

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")

Expired: TypeAlias = "type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool]"


class CursorToken(PagedSource[T]):
    """The pages of an API that returns a token for the next page with every page.

    `fetch(token)` returns the `Page(items, next)` of that token, and the first page for None. It may be a coroutine
    function, for `async for`. The last page is the one whose `next` is None or ""; any other JSON is a token, also 0
    and False, and so is a datetime, a Decimal, a UUID, bytes or a tuple. For an API that ends with another value, let
    fetch return None instead. Numbers of NumPy and the like become Python's own. An element is a page, also one without
    items. A position is the token of the next page and the number of items before it: `{"token": ..., "rows": ...}`, or
    `{"end": true, "rows": ...}` after the last page.

    Examples:
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
        max_age: how long a token is valid after it was received, if the API says so. It is checked when the loop is
            opened and before every fetch, so that a token which is too old is never sent.
        on_expired: `"restart"` starts the loop over, once; `"fail"` fails the task. By default `"restart"`, and with a
            sink `"fail"`.
        max_empty: how many pages without an item may follow each other; 1,000 by default. They are delivered as well.
        now: the clock of points in time, for `max_age`.
        monotonic: the clock of this process in seconds, for `max_age`.

    Raises:
        TokenExpiredError: see `expired`, with the failure of the fetch as its cause; and see `max_age`.
        EndlessSourceError: a token came again, after any number of others; or more than `max_empty` pages had no item.
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
        on_expired: OnExpired | None = None,
        max_empty: int = 1000,
        now: Callable[[], datetime] = utc_now,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(fetch)
        self._is_expired = _test_of(expired)
        if max_age is not None:
            check_duration("max_age", max_age)
        if on_expired is not None:
            check_choice("on_expired", on_expired, OnExpired)
        check_whole("max_empty", max_empty, least=0)
        check_function("now", now)
        check_function("monotonic", monotonic)
        self.max_age = max_age
        self.on_expired = on_expired
        self._max_empty = max_empty
        self._first_page, self._pages_done = False, 0
        self._now = now
        self._received = Received(now, monotonic)

    def expires(self, position: JsonValue) -> bool:
        """Whether the position has a token, and tokens expire."""
        return self.max_age is not None and members(position).get("token") is not None

    def received(self, position: JsonValue) -> datetime | None:
        """When its token was received."""
        return self._received.when(values.decode(members(position).get("token")))

    def age_now(self) -> datetime | None:
        """The time by the source's own clock, if tokens expire."""
        return None if self.max_age is None else self._now()

    def take_up(self, position: JsonValue, received: datetime) -> None:
        """Note when an earlier attempt received the token of the position."""
        self._received.take_up(values.decode(members(position).get("token")), received)

    def _walk(self, position: JsonValue) -> Walk[T]:
        place = members(position)
        token, rows, empty = values.decode(place.get("token")), place.get("rows", 0), 0
        self._first_page, self._pages_done = place == {}, 0
        cycle = _Cycle(token)
        while not place.get("end"):
            if self.max_age is not None and token is not None and (age := self._received.age(token)) > self.max_age:
                raise TokenExpiredError(
                    f"The token {reprlib.repr(token)} of the next page was received {age} ago, and"
                    f" max_age={self.max_age}.",
                    _remedy(),
                    position=token,
                    age=age,
                )
            try:
                answer = yield Ask((token,))
            except Exception as error:
                if token is not None and self._is_expired(error):
                    raise TokenExpiredError(
                        f"The API no longer accepts the token {reprlib.repr(token)} of the next page"
                        f" ({short_repr(error, most=MOST_OF_AN_ERROR)}).",
                        _remedy(),
                        position=token,
                        age=None if self.max_age is None else self._received.age(token),
                    ) from error
                raise
            page = _checked_page(answer, token)
            rows += len(page.items)
            self._pages_done += 1
            empty = 0 if len(page.items) else empty + 1
            place = {"end": True, "rows": rows}
            if not (page.next is None or (isinstance(page.next, str) and not page.next)):
                place = {"token": _kept(page.next, token), "rows": rows}
            if "token" in place:
                cycle.refuse(page.next, token)
                if empty > self._max_empty:
                    raise EndlessSourceError(
                        f"{empty:,} pages in a row had no item, and each names a next one.",
                        "If that is right, allow more with CursorToken(fetch, max_empty=...).",
                        empty_pages=empty,
                    )
                if self.max_age is not None:
                    self._received.note(values.decode(place["token"]))
            yield Found(page, place)
            token = page.next

    def _short_of_pages(self) -> str | None:
        """How many of the announced pages came. Known only to an attempt that began at the first page."""
        if self._pages is None or not self._first_page or self._pages_done >= self._pages:
            return None
        return f"{self._pages_done:,} of {self._pages:,} pages"


class _Cycle:
    """Detects that tokens repeat, with any period, while it keeps only one of them (Brent's algorithm).

    The kept token is replaced after 1, 2, 4, 8, ... others, so at some time it is part of the cycle and is kept for
    longer than one period. By then at most three times the number of distinct tokens were seen.
    """

    def __init__(self, first: JsonValue) -> None:
        self._kept = first
        self._seen, self._room = 0, 1

    def refuse(self, token: JsonValue, asked: JsonValue) -> None:
        """Take the next token.

        Raises:
            EndlessSourceError: the same token was there before.
        """
        if token in (asked, self._kept):
            named = "that same token" if token == asked else f"{reprlib.repr(token)}, which was fetched before,"
            raise EndlessSourceError(
                f"The page of token {reprlib.repr(asked)} names {named} as the next one, so the loop would never end.",
                "If the API signals its last page like this, return Page(items, None) from fetch.",
                position=asked,
            )
        self._seen += 1
        if self._seen == self._room:
            self._kept, self._seen, self._room = token, 0, 2 * self._room


def _checked_page(answer: object, token: JsonValue) -> Page[Any]:
    call = f"fetch({reprlib.repr(token)})"
    if not isinstance(answer, Page):
        raise WrongAnswerError(
            f"{call} returned a {type(answer).__name__}.",
            "Return a Page(items, next) of airflow_resume.loops.",
            call=call,
        )
    if type(answer.next) not in _USUAL_TOKENS and (next_token := native(answer.next)) is not answer.next:
        answer = replace(answer, next=next_token)
    return as_page(answer, call)


_USUAL_TOKENS = (str, int, type(None))


def _kept(token: Any, asked: Any) -> JsonValue:
    """A token as it is saved."""
    encoded = values.encode(token)
    at = f"the token after {reprlib.repr(asked)}"
    if not values.is_exact(token):
        values.check(token, at=at)
    values.check(encoded, at=at)
    values.check_size(None, encoded, at=at)
    return encoded


def _test_of(expired: Any) -> Callable[[Exception], bool]:
    """The test that `expired=` stands for."""
    if expired is None:
        return lambda _error: False
    kinds = expired if isinstance(expired, tuple) else (expired,)
    if all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
        return lambda error: isinstance(error, kinds)
    if callable(expired) and not isinstance(expired, type):
        return cast("Callable[[Exception], bool]", expired)
    raise TypeError(
        f"expired={short_repr(expired)} must be an exception class, a tuple of them, or a function of the exception"
    )


def _remedy() -> str:
    return (
        f"To start over, {how_to_start_over()}; CursorToken(fetch, on_expired='restart') does that by itself, once. If"
        f" a token expires again, ask for smaller pages, or do less between two of them."
    )
