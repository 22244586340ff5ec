"""A window as the condition of a query, as text with placeholders."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

from airflow_resume import values
from airflow_resume.arguments import check_choice, check_whole
from airflow_resume.errors import CursorTypeError
from airflow_resume.watermarks.cursors.cursor import CursorType
from airflow_resume.watermarks.sql.bound_values import (
    AS_TIME_OF_MYSQL,
    IN_BYTES,
    Kind,
    bound_for,
    check_described,
    check_pair,
    compared_text,
    is_by_code_points,
    kind_of,
)
from airflow_resume.watermarks.sql.column import SqlColumn, parts_of
from airflow_resume.watermarks.sql.drivers import Driver, Style, driver_of

Parameters: TypeAlias = "dict[str, Any] | list[Any]"

_DAY = 86_400
_LAST_TIMESTAMP = 2**31 - 1


@dataclass(frozen=True)
class QueryBounds:
    """The bounds of a window, for a query.

    Args:
        start, end: values of the cursor. Without an end, all rows from the start on. `after`: without the start itself.
        lets_nulls: rows without a value are included. `refuses_nulls`: rows that lack a part of a keyset are left out.
        label: a part of the parameters' names, different from that of other windows.
    """

    cursor: CursorType[Any]
    start: Any
    end: Any
    after: bool
    lets_nulls: bool
    refuses_nulls: bool
    label: str


def predicate(
    bounds: QueryBounds,
    names: str | Sequence[str],
    columns: Sequence[SqlColumn],
    *,
    on: object = None,
    style: Style | None = None,
    first: int = 1,
) -> tuple[str, Parameters]:
    """The condition on the cursor's column or columns, and its parameters.

    Columns are put into the text as they are: they must not come from an untrusted user.

    Args:
        bounds: of the window.
        names: of the cursor's columns.
        columns: their types.
        on: what runs the query, as for `driver_of`; None: the driver that `columns` name, or an unknown one.
        style: the style of the placeholders, instead of the driver's.
        first: the number of the first placeholder, if they are numbered.
    """
    driver = found_driver(on, columns)
    style = (driver.style if driver else "named") if style is None else style
    check_choice("style", style, Style)
    check_whole("first", first, least=1)
    names = [names] if isinstance(names, str) else list(names)
    check_count(names, columns)
    if style in {"format", "pyformat"}:
        # A single % would be read as a placeholder; one that is doubled already stays.
        names = [re.sub(r"(?<!%)%(?!%)", "%%", name) for name in names]
    parameters = _Placeholders(style, label=f"{_slug(names[0])}_{bounds.label}", first=first)
    dialect = None if driver is None else driver.dialect or "other"
    has_uuid = not (driver and (driver.lacks_uuid or dialect in {"mysql", "sqlite"}))
    parts = zip(names, parts_of(bounds.cursor), columns, strict=True)
    written = [_WrittenColumn(*each, dialect, has_uuid=has_uuid) for each in parts]
    starts, is_exact = bounds_of(written, bounds.start)
    conditions = [
        _at_or_after(written, starts, parameters, "start", last=">" if bounds.after and is_exact else ">="),
        *written[0].wide(starts[0], parameters, ahead=False),
    ]
    if bounds.end is not None:
        ends, _ = bounds_of(written, bounds.end)
        if len(ends) == 1:
            before = f"{written[0].text} < {written[0].placeholder(ends[0], parameters.add, 'end')}"
        else:
            before = f"NOT {_at_or_after(written, ends, parameters, 'end', last='>=')}"
        conditions += [before, *written[0].wide(ends[0], parameters, ahead=True)]
    if bounds.refuses_nulls:
        conditions += [f"{name} IS NOT NULL" for name in names[1:]]
    text = " AND ".join(conditions)
    if bounds.lets_nulls:
        text = f"({text} OR {' OR '.join(f'{name} IS NULL' for name in names)})"
    return text, parameters.values


def check_count(given: Sequence[object], columns: Sequence[SqlColumn]) -> None:
    """Refuse another number of columns than the cursor has."""
    if len(given) != len(columns):
        raise ValueError(
            f"{len(given)} columns are given, and the cursor has {len(columns)}.\n"
            "Give the column's name, or for a keyset a list with one for each of its parts."
        )


def found_driver(on: object, columns: Sequence[SqlColumn]) -> Driver | None:
    """The driver of `on`, or else of the columns."""
    named = next((column.driver for column in columns if column.driver is not None), None)
    return driver_of(on) if on is not None else None if named is None else driver_of(named)


def _slug(column: str) -> str:
    """A few letters of the column's name, for people who read the query."""
    found: list[str] = re.findall(r"[A-Za-z][A-Za-z0-9]*", column)
    return "_".join(found)[-12:].strip("_").lower() or "value"


class _Placeholders:
    """Placeholders in the style of a driver, and their values, in the order of the text."""

    def __init__(self, style: Style, *, label: str, first: int) -> None:
        self._style, self._label, self._first = style, label, first
        self._named: dict[str, Any] = {}
        self._listed: list[Any] = []

    def add(self, name: str, value: Any) -> str:
        name = f"{self._label}_{name}"
        name = name if name[0].isalpha() else f"p_{name}"
        self._named[name] = value
        number = self._first + len(self._listed)
        self._listed.append(value)
        return {
            "named": f":{name}",
            "pyformat": f"%({name})s",
            "format": "%s",
            "qmark": "?",
            "numeric": f":{number}",
            "numeric_dollar": f"${number}",
        }[self._style]

    @property
    def values(self) -> Parameters:
        return self._named if self._style in {"named", "pyformat"} else self._listed


_CAST: Mapping[tuple[str, Kind], str] = {
    # The inner CAST is for drivers that ask the server for the type of a parameter.
    ("postgresql", "instant"): "CAST(CAST({} AS text) AS timestamptz)",
    ("postgresql", "clock"): "CAST(CAST({} AS text) AS timestamp)",
    ("postgresql", "day"): "CAST(CAST({} AS text) AS date)",
    ("mysql", "clock"): "CAST({} AS DATETIME(6))",
    ("mysql", "unix"): "CAST({} AS DECIMAL(20, 6))",
    ("mysql", "day"): "CAST({} AS DATE)",
    ("sqlite", "day"): "{}",
}
"""How a bound is written as text, so that it does not depend on the session's time zone."""


class _WrittenColumn:
    """How a column and its bounds are written in a comparison."""

    def __init__(
        self, name: str, cursor: CursorType[Any], column: SqlColumn, dialect: str | None, *, has_uuid: bool
    ) -> None:
        self._name, self._cursor, self._column, self._has_uuid = name, cursor, column, has_uuid
        self._dialect = dialect
        if dialect is None and kind_of(column, None) not in {"as it is", "number", "bytes"}:
            raise CursorTypeError(
                f"A column of type {column.type!r} is given, but its database is not known.",
                'Give the connection, such as window.sql("updated_at", connection), or say'
                ' SqlColumn(..., driver="psycopg2").',
                what="column",
                type_name=column.type,
            )
        if column.type is None and column.tz is not None:
            raise CursorTypeError(
                f"SqlColumn(tz={column.tz!r}) has no type. Without a type, its time zone has no effect on {name}.",
                f'Give the type too, such as SqlColumn("timestamp", tz={column.tz!r}).',
                what="column",
            )
        self._kind: Kind = kind_of(column, dialect)
        check_pair(cursor, column, self._kind, dialect)
        if self._kind == "as it is":
            check_described(name, cursor, dialect)
        self._cast = _CAST.get(("postgresql" if dialect == "redshift" else dialect or "", self._kind))
        is_unix = self._kind == "unix"
        self.text = f"UNIX_TIMESTAMP({name})" if is_unix else compared_text(name, cursor, self._kind, dialect)
        self._in_bytes = dialect == "mysql" and is_by_code_points(cursor, self._kind)

    def bound(self, value: Any) -> tuple[Any, bool]:
        bound, is_exact = bound_for(self._cursor, self._column, self._kind, value)
        return (bound if self._has_uuid or not isinstance(bound, UUID) else str(bound)), is_exact

    def placeholder(self, bound: Any, add: Callable[[str, Any], str], name: str) -> str:
        if self._in_bytes:
            return IN_BYTES.format(add(name, bound))
        if self._kind == "as it is" and self._dialect == "mysql" and isinstance(bound, datetime):
            return AS_TIME_OF_MYSQL.format(add(name, bound))
        if self._cast is None:
            return add(name, bound)
        written = bound.isoformat() if hasattr(bound, "isoformat") else str(bound)
        return self._cast.format(add(name, written))

    def wide(self, bound: Any, parameters: _Placeholders, *, ahead: bool) -> list[str]:
        """A condition that is a day wider, without a function over the column, so that an index can be used."""
        seconds = wide_bound(self._kind, bound, ahead=ahead)
        if seconds is None:
            return []
        name, sign = ("end_wide", "<") if ahead else ("start_wide", ">=")
        return [f"{self._name} {sign} FROM_UNIXTIME({parameters.add(name, seconds)})"]


def wide_bound(kind: Kind, bound: Any, *, ahead: bool) -> int | None:
    """A bound in seconds since 1970, wider by a day; None for other bounds, and beyond the TIMESTAMPs of MySQL."""
    if kind != "unix":
        return None
    seconds = int(bound) + (_DAY if ahead else -_DAY)
    return seconds if 0 < seconds <= _LAST_TIMESTAMP else None


def bounds_of(columns: Sequence[Any], value: Any) -> tuple[list[Any], bool]:
    """A bound for each column, up to the first one that was rounded down, and whether all are exact.

    A bound of a keyset may have the first columns alone.
    """
    found: list[Any] = []
    for column, part in zip(columns, value if len(columns) > 1 else [value], strict=False):
        bound, is_exact = column.bound(part)
        found.append(bound)
        if not is_exact:
            return found, False
    return found, True


def _at_or_after(
    columns: list[_WrittenColumn], bounds: list[Any], parameters: _Placeholders, name: str, *, last: str
) -> str:
    """`(a, b) >= (x, y)`, written so that every database can read it."""
    if len(bounds) == 1:
        return f"{columns[0].text} {last} {columns[0].placeholder(bounds[0], parameters.add, name)}"
    alternatives = []
    for place, bound in enumerate(bounds):
        comparison = last if place == len(bounds) - 1 else ">"
        terms = [(columns[i], "=", bounds[i], f"{name}_{place}_{i}") for i in range(place)]
        terms.append((columns[place], comparison, bound, f"{name}_{place}"))
        written = [
            f"{column.text} {sign} {column.placeholder(value, parameters.add, label)}"
            for column, sign, value, label in terms
        ]
        alternatives.append(" AND ".join(written))
    return f"({' OR '.join(f'({alternative})' for alternative in alternatives)})"


def label_of(*what: object) -> str:
    """A few digits, always the same for the same window and column."""
    return values.fingerprint(repr(what), length=6)
