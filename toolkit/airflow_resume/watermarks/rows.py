"""What a row of any kind has in a column: a dict, a tuple, a named tuple, an object, a row of a database driver."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias, TypeVar

from airflow_resume import values
from airflow_resume.watermarks.scalars import is_finer, plain

RowT = TypeVar("RowT")

Key: TypeAlias = "str | int | Sequence[str | int] | Callable[[RowT], Any]"
"""A column's name or a tuple's position, several of them, or a function of the row."""
Unique: TypeAlias = "Key[RowT] | Literal[True] | None"

TIE_DIGITS = 12
"""A row that is by chance taken for another would be passed over: of 2^48, that is never."""
OLD_TIE_DIGITS = 8
"""As many as version 0.1 kept."""
THE_ONE = "="
"""The tie of a row whose cursor value is unique by itself."""


def reader(key: Key[RowT]) -> Callable[[RowT], Any]:
    """What finds the value in a row.

    Raises:
        LookupError, AttributeError, TypeError: by what is returned, for a row without such a column.
    """
    if callable(key):
        return key
    if isinstance(key, int):
        return lambda row: row[key]  # type: ignore[index]
    if not isinstance(key, str):
        readers: list[Callable[[RowT], Any]] = [reader(part) for part in key]
        return lambda row: tuple(read(row) for read in readers)
    return lambda row: _named(row, key)


def _named(row: Any, name: str) -> Any:
    """The column of this name; where there is none, `a.b` is `b` in `a`, and nothing in an `a` that is None."""
    try:
        return _column(row, name)
    except (LookupError, AttributeError, TypeError):
        first, dot, rest = name.partition(".")
        if not dot or not has_column(row, first):
            raise
    inner = _column(row, first)
    return None if inner is None else _named(inner, rest)


def _column(row: Any, name: str) -> Any:
    try:
        return row[name]
    except ValueError as error:  # so NumPy says that a record has no such field
        raise LookupError(str(error)) from error
    except TypeError:
        mapping = getattr(row, "_mapping", None)  # SQLAlchemy's Row has methods of its own, such as `count`
        return getattr(row, name) if mapping is None else mapping[name]


def has_column(row: object, name: str) -> bool:
    """Whether the row has a column of this name."""
    try:
        _column(row, name)
    except (LookupError, AttributeError, TypeError):
        return False
    return True


def columns(row: object) -> list[str]:
    """The names of the row's columns, as far as it tells them."""
    given: Any = row
    if callable(getattr(given, "keys", None)):
        return [str(name) for name in given.keys()]  # noqa: SIM118  a row of sqlite3 is no mapping
    if dataclasses.is_dataclass(given):
        return [field.name for field in dataclasses.fields(given)]
    names: Any = (
        getattr(given, "_fields", None)
        or getattr(getattr(given, "dtype", None), "names", None)
        or getattr(given, "__slots__", None)
        or getattr(given, "__dict__", ())
    )
    return [str(name) for name in names if not str(name).startswith("_")]


def tie_reader(
    unique: Unique[RowT], version: Key[RowT] | None = None, *, key: Key[RowT] | None = None
) -> Callable[[RowT], str | None] | None:
    """What tells a row from others of the same cursor value, in a few digits; None for a row without such a value.

    Values are told apart by their type as well: 1 and "1" are two. So a row whose id comes in another type is loaded
    again, and never taken for one that was loaded. A value that is unique by itself, read by `key`, is told apart from
    others of the same microsecond where it has more digits.

    Raises:
        ValueError: a version of nothing.
    """
    if unique is None:
        if version is not None:
            raise ValueError("version= says in which state a row was loaded.\nGive unique= too: which row it is.")
        return None
    if unique is True and version is None:
        return _the_one(reader(key)) if key is not None else lambda _: THE_ONE
    read = (lambda _: THE_ONE) if unique is True else reader(unique)
    if version is None:
        return lambda row: tie_of(read(row))
    read_version = reader(version)

    def read_both(row: RowT) -> str | None:
        found = _identity(read(row))
        return None if found is None else _digits((found, _identity(read_version(row))))

    return read_both


def _the_one(read: Callable[[RowT], Any]) -> Callable[[RowT], str | None]:
    def tie(row: RowT) -> str | None:
        value = read(row)
        return tie_of(value) if is_finer(value) else THE_ONE

    return tie


def tie_of(value: Any) -> str | None:
    """The digits kept for what makes a row unique; None: nothing does."""
    found = _identity(value)
    return None if found is None else _digits(found)


def _digits(identity: object) -> str:
    return values.fingerprint(repr(identity), length=TIE_DIGITS)


def _identity(value: Any) -> Any:
    if type(value) in {tuple, list}:
        parts = [_identity(part) for part in value]
        return None if all(part is None for part in parts) else tuple(parts)
    found = plain(value)
    return value if isinstance(found, datetime) else found  # with all its digits
