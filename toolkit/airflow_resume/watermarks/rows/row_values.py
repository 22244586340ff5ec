"""Reads columns of rows of any kind: dicts, tuples, named tuples, objects, rows of database drivers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias, TypeVar

from airflow_resume import values
from airflow_resume.errors import ColumnError
from airflow_resume.watermarks.cursors.scalars import is_finer, plain

RowT = TypeVar("RowT")

Key: TypeAlias = "str | int | Sequence[str | int] | Callable[[RowT], Any]"
"""A column's name or a tuple's position, several of them, or a function of the row."""
Unique: TypeAlias = "Key[RowT] | Literal[True] | None"

TIE_DIGITS = 12
"""Two rows with the same digits would be taken for one, and one of them skipped: 2^48 values are enough."""
OLD_TIE_DIGITS = 8
"""As many digits as version 0.1 kept."""
THE_ONE = "="
"""The tie of a row whose cursor value is unique by itself."""


def reader(key: Key[RowT]) -> Callable[[RowT], Any]:
    """A function that finds the value in a row.

    Raises:
        LookupError, AttributeError, TypeError: from that function, for a row without such a column.
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
    """The column of this name. If there is none, `a.b` is `b` in `a`, or None if `a` is None."""
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
    except ValueError as error:  # from a record of NumPy without such a field
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


def column_names(row: object) -> list[str]:
    """The names of the row's columns, if they can be found."""
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


def column_error(row: object, error: Exception, column: str | int | None, what: str = "cursor value") -> ColumnError:
    """The error for a row in which a value cannot be found."""
    names = column_names(row)
    found = f"A row has no {what} ({error!r}); it has {', '.join(names) or 'no columns'}."
    if names or not isinstance(row, (tuple, list)):
        remedy = "Select the column, or give track() another name or a function of the row."
    elif len(row) == 2 and type(row[1]).__name__ == "Series":  # noqa: PLR2004
        remedy = "These are the pairs of iterrows(): hand over the DataFrame, df = window.track(df, name)."
    else:
        remedy = (
            "It is a tuple without names: give the position instead, such as track(rows, 0), or a function of the row,"
            " or use the driver's cursor that gives dicts."
        )
    return ColumnError(found, remedy, column=column, columns=tuple(names))


def tie_reader(
    unique: Unique[RowT], version: Key[RowT] | None = None, *, key: Key[RowT] | None = None
) -> Callable[[RowT], str | None] | None:
    """A function that gives a row's tie: a few digits that identify it among rows with the same cursor value.

    The tie is None for a row without a unique value. Values of different types differ, such as 1 and "1". So if a row's
    id comes in another type, the row is loaded again. With `unique=True`, the cursor value itself, read by `key`, is
    compared with all its digits, even those below microseconds.

    Raises:
        ValueError: `version` without `unique`. ColumnError: from the function, for a row without such a column.
    """
    if unique is None:
        if version is not None:
            raise ValueError("version= says in which state a row was loaded, but not which row.\nGive unique= too.")
        return None
    if unique is True and version is None:
        if key is None:
            return lambda _: THE_ONE
        value_of = reader(key)

        def read_value(row: RowT) -> str | None:
            value = value_of(row)
            return tie_of(value) if is_finer(value) else THE_ONE

        return read_value
    read = (lambda _: THE_ONE) if unique is True else _reader_of("unique", unique)
    if version is None:
        return lambda row: tie_of(read(row))
    read_version = _reader_of("version", version)

    def read_both(row: RowT) -> str | None:
        found = _identity(read(row))
        return None if found is None else _digits((found, _identity(read_version(row))))

    return read_both


def _reader_of(argument: str, key: Key[RowT]) -> Callable[[RowT], Any]:
    """As `reader`, for an argument of `track`; the function raises ColumnError for a row without such a column."""
    if not callable(key) and not isinstance(key, (str, int)):
        readers: list[Callable[[RowT], Any]] = [_reader_of(argument, part) for part in key]
        return lambda row: tuple(read(row) for read in readers)
    read_one, column = reader(key), key if isinstance(key, (str, int)) else None

    def read(row: RowT) -> Any:
        try:
            return read_one(row)
        except (LookupError, AttributeError, TypeError) as error:
            raise column_error(row, error, column, f"value for {argument}=") from error

    return read


def tie_of(value: Any) -> str | None:
    """The tie for the value that makes a row unique; None: there is no value."""
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
