"""Rows of a query that is repeated for those after the last key."""

from __future__ import annotations

import reprlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from uuid import UUID

from airflow_resume import values
from airflow_resume.arguments import check_flag, check_whole
from airflow_resume.errors import ColumnError, InvalidValueError, RowOrderError
from airflow_resume.loops.sources.pages import Ask, Found, Page, PagedSource, Walk, as_page
from airflow_resume.loops.sources.source import members
from airflow_resume.loops.sources.tables import as_rows, column, column_names, head, is_table
from airflow_resume.natives import native, such_as
from airflow_resume.shown import get_logger, short_repr

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")

log = get_logger(__name__)

Answer: TypeAlias = "Iterable[T] | Page[T]"
Key: TypeAlias = "str | tuple[str, ...] | Callable[[Any], Any]"


class Keyset(PagedSource[T]):
    """The pages of a query that is repeated for the rows after the last key.

    `fetch(after, limit)` returns up to `limit` rows whose key comes after `after` (None: from the start), in the order
    of the key, or a `Page(rows, total=...)`. It may be a coroutine function, for `async for`. Rows with the same key
    would be skipped between two pages, so the key must be unique: add a column that makes it so. To check that, fetch
    is asked for one row more than `limit`, which is not delivered with the page. Only an empty page ends the loop, not
    a short one. An element is a `Page` of rows; the rows may be a data frame or an Arrow table as well. A position is
    the last key, with its type, and the number of rows before: `{"after": ..., "rows": ...}`.

    Examples:
        >>> table = [{"id": 1}, {"id": 3}, {"id": 4}]
        >>> def fetch(after, limit):
        ...     return [row for row in table if after is None or row["id"] > after][:limit]
        >>> [page.items for page, _ in Keyset(fetch, key="id", limit=2).elements(None)]
        [[{'id': 1}, {'id': 3}], [{'id': 4}]]

    Args:
        fetch: as above.
        key: the name of the key column, a tuple of several, or a function of the row. A name is looked up as
            `row[name]`, or else as an attribute. A key is a str, a number, a date or datetime, a Decimal, a UUID,
            bytes, or a tuple of these, and never None. A NumPy number and a pandas Timestamp are passed to fetch as
            Python's own types.
        limit: rows per page; it may change between attempts.
        descending: True where the keys decrease; of several columns, a tuple of the names of those that do.
        unique: True says that no two rows have the same key: then fetch is asked for `limit` rows only, for APIs that
            do not allow more.

    Raises:
        RowOrderError: a key does not come after the one before it, or cannot be compared with it.
        ColumnError: a row has no key; the message lists the columns there are.
        InvalidValueError: a key cannot be saved; its page was not delivered.
        WrongAnswerError: fetch returned neither rows nor a `Page`.
    """

    kind = "keyset"

    def __init__(
        self,
        fetch: Callable[[Any, int], Answer[T] | Awaitable[Answer[T]]],
        *,
        key: Key,
        limit: int,
        descending: bool | tuple[str, ...] = False,
        unique: bool = False,
    ) -> None:
        super().__init__(fetch)
        check_whole("limit", limit, least=1)
        check_flag("unique", unique)
        self._limit = self._page_size = limit
        self._asked = limit if unique else limit + 1
        self._key_of = _reader(key)
        self._is_tuple = isinstance(key, tuple)
        self._names = [key] if isinstance(key, str) else list(key) if isinstance(key, tuple) else None
        self._descending = _directions(descending, self._names)
        self._found: tuple[object, list[Any]] = (None, [])
        """The newest page, and its keys."""

    def definition(self) -> Mapping[str, object]:
        """The names of the key columns, if they are known, and which of them decrease."""
        names = {} if self._names is None else {"key": self._names}
        return names | ({"descending": list(self._descending)} if any(self._descending) else {})

    def within(self, page: Any, here: JsonValue) -> Callable[[int], JsonValue]:
        """The position after a row is its own key. The keys are read before a body can change a row."""
        rows = members(here).get("rows", 0)
        found, keys = self._found
        if found is not page:
            keys = self._keys(page.items, "a page")
        for key in keys:
            if not _is_surely_kept(key):
                _refuse_unstorable(key, "a key of a page")
        return lambda done: {"after": values.encode(keys[done - 1]), "rows": rows + done}

    def identity(self, before: JsonValue, after: JsonValue) -> list[JsonValue]:
        """The keys around it. The number of rows before it is another one when some of them were deleted."""
        return [members(before).get("after"), members(after).get("after")]

    def check(self, position: JsonValue) -> None:
        """It has a key that can be decoded."""
        super().check(position)
        values.decode(members(position).get("after"))

    def _walk(self, position: JsonValue) -> Walk[T]:
        place = members(position)
        after, rows = values.decode(place.get("after")), place.get("rows", 0)
        is_first, counts = True, [0]
        while True:
            call = f"fetch({reprlib.repr(after)}, {self._asked})"
            try:
                answer = yield Ask((after, self._asked))
            except Exception as error:
                add_note: Any = getattr(error, "add_note", None)  # from Python 3.11 on
                if is_first and self._asked > self._limit and add_note is not None:
                    add_note(
                        f"Keyset asked for {self._asked} rows, one more than limit={self._limit}. If that was refused,"
                        " use unique=True, if the key is unique, or a smaller limit."
                    )
                raise
            is_first, page = False, as_page(answer, call)
            if len(page.items) == 0:
                return
            self._see_extra_row(counts)
            counts = [*counts[-1:], len(page.items)]
            keys = self._keys(page.items, call)
            self._refuse_unsorted(keys, after, call)
            if len(keys) == self._limit + 1:  # the extra row has shown that its key differs from the one before
                page, keys = replace(page, items=head(page.items, self._limit)), keys[: self._limit]
            after = keys[-1]
            _refuse_unstorable(after, f"the last key that {call} returned")
            rows += len(keys)
            encoded = values.encode(after)
            page = replace(page, next=encoded)
            self._found = page, keys
            yield Found(page, {"after": encoded, "rows": rows})

    def _see_extra_row(self, counts: Sequence[int]) -> None:
        """Log once that the extra row did not come, though there are more rows.

        Args:
            counts: rows of the pages before this one.
        """
        count = counts[-1]
        is_clamped = count == self._limit or (len(counts) > 1 and 0 < count < self._limit and count == counts[0])
        if is_clamped and self._asked > self._limit and not self._has_doubted:
            self._has_doubted = True
            log.warning(
                "Asked for %d rows, fetch gives %d, though there are more: rows with the same key as the last row of a"
                " page would be lost unnoticed. Have fetch pass its limit on to the API, with limit= at least one less"
                " than the API allows, or say unique=True if no two rows have the same key",
                self._asked,
                count,
            )

    def _keys(self, rows: Any, call: str) -> list[Any]:
        """The key of each row."""
        if not is_table(rows):
            return [self._key_of(row) for row in rows]
        if self._names is None:
            return [self._key_of(row) for row in as_rows(rows)]
        names = column_names(rows)
        if missing := [name for name in self._names if name not in names]:
            raise ColumnError(
                f"What {call} returned has no column {missing[0]!r} for the key; it has {', '.join(names)}.",
                "Select it, or give key= another name or a function of the row.",
                column=missing[0],
                columns=tuple(names),
            )
        columns = [
            [_filled(native(value), f"the key column {name!r}", name) for value in column(rows, name)]
            for name in self._names
        ]
        return list(zip(*columns, strict=True)) if self._is_tuple else columns[0]

    def _refuse_unsorted(self, keys: Sequence[Any], after: Any, call: str) -> None:
        for key in keys:
            if after is not None and (objection := _objection(key, after, self._descending)) is not None:
                text = " Sort text by its code points (COLLATE C)." if isinstance(key, str) else ""
                raise RowOrderError(
                    f"In what {call} returned, the key {_shown(key)} {objection}, so rows would be skipped.",
                    f"Sort by the key, ask for rows strictly after `after`, and add a unique column to a key that"
                    f" repeats.{text}",
                    value=key,
                    limit=after,
                )
            after = key


def _directions(descending: object, names: list[str] | None) -> tuple[bool, ...]:
    """Whether each column of the key decreases; a single answer if it is the same for all."""
    if isinstance(descending, bool):
        return (descending,)
    if names is None or not isinstance(descending, tuple) or not set(descending) <= set(names):
        raise TypeError(
            f"descending={descending!r} must be True or False, or a tuple of names of the key columns"
            f" ({', '.join(names or ['none, as key= is a function'])})"
        )
    decreases = tuple(name in descending for name in names)
    return decreases if len(set(decreases)) > 1 else decreases[:1]


def _reader(key: object) -> Callable[[Any], Any]:
    """The function of a row that `key=` means."""
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
            raise ColumnError(
                f"A row has no column {name!r} for the key; it has {', '.join(_columns(row)) or 'no columns'}.",
                "Select it, or give key= another name or a function of the row.",
                column=name,
                columns=tuple(_columns(row)),
            ) from None
    return _filled(value, f"the key column {name!r}", name)


def _computed(row: Any, key: Callable[[Any], Any]) -> Any:
    try:
        value = key(row)
    except (LookupError, AttributeError) as error:
        raise ColumnError(
            f"The key function failed for a row ({short_repr(error)}); it has"
            f" {', '.join(_columns(row)) or 'no columns'}.",
            column=None,
            columns=tuple(_columns(row)),
        ) from error
    return _filled(value, "the key", None)


def _filled(value: Any, what: str, name: str | None) -> Any:
    value = native(value)
    if value is None or (isinstance(value, tuple) and None in value):
        raise ColumnError(
            f"A row has None in {what}, and no query can ask for rows after None.", "Leave such rows out.", column=name
        )
    return value


def _columns(row: Any) -> list[str]:
    """The names of the columns of a row, which may be a mapping or an object."""
    names: Any = getattr(row, "_fields", None) or getattr(row, "__dict__", ())
    if callable(getattr(row, "keys", None)):
        names = row.keys()
    return [str(name) for name in names]


def _objection(key: Any, before: Any, descending: tuple[bool, ...]) -> str | None:
    """Why a key cannot come after the one before it."""
    if _columns_in(key) != _columns_in(before):
        return f"has {_columns_in(key)} columns and {_shown(before)} before it has {_columns_in(before)}"
    try:
        is_in_order = _comes_after(key, before, descending)
    except TypeError as error:
        return f"cannot be compared with {_shown(before)} before it ({error})"
    if is_in_order:
        return None
    way = "greater" if not any(descending) else "less" if all(descending) else "further"
    return f"is not {way} than {_shown(before)} before it"


def _comes_after(key: Any, before: Any, descending: tuple[bool, ...]) -> bool:
    key, before = _in_utc(key), _in_utc(before)
    if len(descending) == 1:
        return bool(key < before if descending[0] else key > before)
    for mine, other, decreases in zip(key, before, descending, strict=True):
        if mine != other:
            return bool(mine < other if decreases else mine > other)
    return False


def _in_utc(key: Any) -> Any:
    """The key with times in UTC: Python compares two times of one zone by local time, which goes back in autumn."""
    if type(key) is tuple:
        return tuple(map(_in_utc, key))
    if isinstance(key, datetime) and key.tzinfo is not timezone.utc and key.utcoffset() is not None:
        return key.astimezone(timezone.utc)
    return key


def _shown(key: Any) -> str:
    """A key in a message; `reprlib` would shorten a datetime to its year."""
    if type(key) is tuple and len(key) <= _MAX_COLUMNS_SHOWN:
        return f"({', '.join(map(_shown, key))})"
    return key.isoformat() if isinstance(key, datetime) else reprlib.repr(key)


_MAX_COLUMNS_SHOWN = 6


def _columns_in(key: object) -> int:
    return len(key) if isinstance(key, tuple) else 1


def _is_surely_kept(key: Any) -> bool:
    """Whether a cheap look shows that a key can be saved."""
    kind = type(key)
    if kind is str:
        return len(key) < _SHORT and key.isascii() and "\x00" not in key
    if kind is int:
        return bool(values.MIN_INT <= key <= values.MAX_INT)
    return kind in _KEPT or (kind is tuple and len(key) < _FEW and all(map(_is_surely_kept, key)))


_KEPT = frozenset({datetime, date, UUID})
_SHORT, _FEW = 200, 8


def _refuse_unstorable(key: Any, at: str) -> None:
    if not values.is_exact(key):
        raise InvalidValueError(
            f"{at} is a {type(key).__name__}, which the next attempt would not get back unchanged.",
            f"Give key= a function that makes a plain value of it{such_as(key)}.",
            at=at,
        )
    values.check_sized(values.encode(key), at=at)
