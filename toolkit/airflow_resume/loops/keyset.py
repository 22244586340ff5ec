"""Rows of a query that is asked again for those behind the last key."""

from __future__ import annotations

import reprlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from airflow_resume import values
from airflow_resume.arguments import check_whole
from airflow_resume.errors import InvalidValueError, KeyColumnError, UnsortedKeyError
from airflow_resume.loops.pages import Ask, Found, Page, PagedSource, Walk, as_page
from airflow_resume.loops.source import members

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")

Answer: TypeAlias = "Iterable[T] | Page[T]"
Key: TypeAlias = "str | tuple[str, ...] | Callable[[Any], Any]"


class Keyset(PagedSource[T]):
    """The pages of a query that is asked again and again for the rows behind the last key.

    `fetch(after, limit)` returns up to `limit` rows whose key is greater than `after` (None: from the start), in the
    order of the key, or a `Page(rows, total=...)`. It may be a coroutine function, for `async for`. Keys strictly
    increase, within a page and from page to page: rows with the same key would be skipped at the border of a page, so
    add a column that makes it unique. Only an empty page ends the loop, not a short one. An element is a `Page` of
    rows. A position is the last key, with its type, and the number of rows before: `{"after": ..., "rows": ...}`.

    >>> table = [{"id": 1}, {"id": 3}, {"id": 4}]
    >>> def fetch(after, limit):
    ...     return [row for row in table if after is None or row["id"] > after][:limit]
    >>> [page.items for page, _ in Keyset(fetch, key="id", limit=2).elements(None)]
    [[{'id': 1}, {'id': 3}], [{'id': 4}]]

    Args:
        fetch: as above.
        key: the name of the key column, a tuple of several, or a function of the row. A name is looked up as
            `row[name]`, or else as an attribute. A key is text, a number, a date or datetime, a Decimal, a UUID, bytes,
            or a tuple of these, and never None.
        limit: rows a page; it may change between attempts.

    Raises:
        UnsortedKeyError: a key is not greater than the one before it, or does not compare with it.
        KeyColumnError: a row has no key; the message lists the columns there are.
        InvalidValueError: a key cannot be saved; its page was not delivered.
        WrongAnswerError: fetch returned neither rows nor a `Page`.
    """

    kind = "keyset"

    def __init__(self, fetch: Callable[[Any, int], Answer[T] | Awaitable[Answer[T]]], *, key: Key, limit: int) -> None:
        super().__init__(fetch)
        check_whole("limit", limit, least=1)
        self._limit = self._page_size = limit
        self._key_of = _reader(key)
        self._names = [key] if isinstance(key, str) else list(key) if isinstance(key, tuple) else None

    def definition(self) -> Mapping[str, object]:
        """The names of the key columns, where they are known."""
        return {} if self._names is None else {"key": self._names}

    def check(self, position: JsonValue) -> None:
        """It has a key that can be decoded."""
        super().check(position)
        values.decode(members(position).get("after"))

    def _walk(self, position: JsonValue) -> Walk[T]:
        place = members(position)
        after, rows = values.decode(place.get("after")), place.get("rows", 0)
        while True:
            call = f"fetch({reprlib.repr(after)}, {self._limit})"
            page = as_page((yield Ask((after, self._limit))), call)
            if len(page.items) == 0:
                return
            after = self._last_key(page.items, after, call)
            rows += len(page.items)
            encoded = values.encode(after)
            yield Found(replace(page, next=encoded), {"after": encoded, "rows": rows})

    def _last_key(self, rows: Sequence[T], after: object, call: str) -> object:
        """The key of the last row, all of them checked."""
        for row in rows:
            key = self._key_of(row)
            if after is not None:
                _refuse_unsorted(key, after, call)
            after = key
        _refuse_unstorable(after, call)
        return after


def _reader(key: object) -> Callable[[Any], Any]:
    """The function of a row that `key=` stands for."""
    if isinstance(key, str):
        return lambda row: _column(row, key)
    if isinstance(key, tuple) and key and all(isinstance(name, str) for name in key):
        return lambda row: tuple(_column(row, name) for name in key)
    if callable(key) and not isinstance(key, tuple):
        return lambda row: _computed(row, key)
    raise TypeError(f"key={key!r} must be the name of a column, a tuple of names, or a function of the row")


def _column(row: Any, name: str) -> Any:
    try:
        value = row[name]
    except (LookupError, TypeError, AttributeError):
        value = getattr(row, name, None)
        # A method, such as the `items` of a dict, is no column.
        if (value is None and name not in _columns(row)) or callable(value):
            raise KeyColumnError(
                f"A row has no column {name!r} for the key; it has {', '.join(_columns(row)) or 'no columns'}.",
                "Select it, or give key= another name or a function of the row.",
            ) from None
    return _filled(value, f"the key column {name!r}")


def _computed(row: Any, key: Callable[[Any], Any]) -> Any:
    try:
        value = key(row)
    except (LookupError, AttributeError) as error:
        raise KeyColumnError(
            f"The key function found nothing in a row ({error!r}); it has {', '.join(_columns(row)) or 'no columns'}."
        ) from error
    return _filled(value, "the key")


def _filled(value: Any, what: str) -> Any:
    if value is None or (isinstance(value, tuple) and None in value):
        raise KeyColumnError(f"A row has None in {what}, after which nothing can be asked for.", "Leave such rows out.")
    return value


def _columns(row: Any) -> list[str]:
    """The names of what is in a row, however it holds them."""
    names: Any = getattr(row, "_fields", None) or getattr(row, "__dict__", ())
    if callable(getattr(row, "keys", None)):
        names = row.keys()
    return [str(name) for name in names]


def _refuse_unsorted(key: Any, before: Any, call: str) -> None:
    objection = _objection(key, before)
    if objection is None:
        return
    text = " Sort text by its code points (COLLATE C)." if isinstance(key, str) else ""
    raise UnsortedKeyError(
        f"In what {call} returned, the key {reprlib.repr(key)} {objection}, so rows would be skipped.",
        f"Sort by the key, ask for rows strictly after `after`, and add a unique column to a key that repeats.{text}",
    )


def _objection(key: Any, before: Any) -> str | None:
    """Why a key cannot come after the one before it."""
    if _columns_in(key) != _columns_in(before):
        return f"has {_columns_in(key)} columns and {reprlib.repr(before)} before it has {_columns_in(before)}"
    try:
        is_behind = bool(key > before)
    except TypeError as error:
        return f"does not compare with {reprlib.repr(before)} before it ({error})"
    return None if is_behind else f"is not greater than {reprlib.repr(before)} before it"


def _columns_in(key: object) -> int:
    return len(key) if isinstance(key, tuple) else 1


def _refuse_unstorable(key: Any, call: str) -> None:
    at = f"the last key that {call} returned"
    if not values.is_exact(key):
        raise InvalidValueError(
            f"{at} is a {type(key).__name__}, which the next attempt would not get back as it is.",
            "Give key= a function that makes a plain value of it.",
        )
    encoded = values.encode(key)
    values.check_sized(encoded, at=at)
