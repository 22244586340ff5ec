"""Converts a window's bounds to values of a database's column, so that the database compares as the cursor does.

Each driver has its own way to pass a point in time, and the database reads it in the time zone of the session. If the
column has no time zone, or is text or a number, the query then finds other rows, or none, without an error. If the type
of the column is given, the bound is written in full.

Rounding: a bound that the column cannot hold exactly is rounded down, both at the start and at the end. Rows between
the rounded and the exact end are then left to the next window, which begins at the same rounded bound.
"""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, Literal
from zoneinfo import ZoneInfo

from airflow_resume.errors import CursorTypeError
from airflow_resume.watermarks.cursors.cursor import CursorType
from airflow_resume.watermarks.cursors.zones import earliest, lowest_from
from airflow_resume.watermarks.sql.column import DIGITS, EPOCH, Columns, SqlColumn, columns_of, parts_of
from airflow_resume.watermarks.sql.drivers import driver_of

Kind = Literal["as it is", "instant", "clock", "unix", "day", "text", "number", "bytes"]
"""How a bound is written. `unix`: a point in time that is compared by its seconds since 1970."""


BY_CODE_POINTS = "C"
_BINARY = {"postgresql": '"C"', "redshift": '"C"', "sqlite": "BINARY", "duckdb": '"C"'}
"""The collation that compares by code points."""
IN_BYTES = "CAST(CONVERT({} USING utf8mb4) AS BINARY)"
"""Text of MySQL and MariaDB in the order of its code points, for all character sets of column and connection.

Not `utf8mb4_bin`, which pads with spaces: there "a" equals "a ", and comes after "a\\t".
"""
AS_TIME_OF_MYSQL = "CAST({} AS DATETIME(6))"
"""A bound of a column whose type is not known: text that is compared with a DATETIME is read as a time."""
_QUOTED = {"postgresql", "redshift"}
_COLUMN = re.compile(r"""[\w.$"`\[\]]+""")


def kind_of(column: SqlColumn, dialect: str | None) -> Kind:
    """How a bound of the column is written for a database.

    Raises:
        CursorTypeError: the database has no such type.
    """
    if column.type is None:
        return "as it is"
    if column.type in {"text", "binary"}:
        return "text" if column.type == "text" else "bytes"
    if column.type in DIGITS:
        return "number"
    if column.type == "date":
        return "day"
    if dialect == "sqlite":
        raise CursorTypeError(
            f"SQLite has no type {column.type!r}: it keeps a time as text or as a number, whatever the column is"
            " declared as.",
            'Say how: SqlColumn("text", like="2026-01-31 23:59:59", tz="UTC"), or SqlColumn("seconds").',
            type_name=column.type,
        )
    if dialect == "mysql" and column.type == "timestamptz":
        raise CursorTypeError(
            "MySQL and MariaDB have no type 'timestamptz'.",
            'Say SqlColumn("timestamp") for a TIMESTAMP, and SqlColumn("datetime", tz="UTC") for a DATETIME.',
            type_name=column.type,
        )
    if dialect == "mysql" and column.type == "timestamp":
        return "unix"
    return "instant" if column.type == "timestamptz" else "clock"


def check_columns(columns: Columns, cursor: CursorType[Any]) -> None:
    """Refuse, when the Dag file is read, columns that cannot be compared exactly with the cursor.

    Raises:
        CursorTypeError, TypeError, ValueError: they cannot.
    """
    for part, column in zip(parts_of(cursor), columns_of(columns, cursor), strict=True):
        dialect = None if column.driver is None else driver_of(column.driver).dialect
        kind = kind_of(column, dialect)
        is_open = column.type == "timestamp" and column.tz is None and dialect is None  # on MySQL it needs no zone
        if not is_open:
            check_pair(part, column, kind, dialect)


def check_pair(cursor: CursorType[Any], column: SqlColumn, kind: Kind, dialect: str | None) -> None:
    """Refuse a cursor and a column that cannot be compared exactly.

    Args:
        cursor: of the column.
        column: as the user describes it.
        kind: how its bounds are written.
        dialect: of the database; None: not known.

    Raises:
        CursorTypeError: they cannot.
    """
    check_number(cursor, dialect)
    if kind == "as it is":
        return
    named = f"A column of type {column.type!r} cannot be compared exactly with {cursor!r}"
    if kind == "bytes":
        if cursor.sql_values != "uuids":
            raise CursorTypeError(
                f"{named}: it has the bytes of UUIDs.",
                "Use cursor=Cursor.uuid(), or leave the type out.",
                type_name=column.type,
            )
        return
    if cursor.sql_values not in {"times", "days"}:
        raise CursorTypeError(
            f"{named}: it has times.", "Use cursor=Cursor.datetime(), or leave the type out.", type_name=column.type
        )
    if cursor.sql_values == "times":
        _check_moments(cursor, column, kind, named)
    elif kind in {"instant", "unix", "number"} and not (cursor.home or column.zone):
        raise CursorTypeError(
            f"{named}: where a day begins depends on the time zone.",
            f'Give the time zone of the days: SqlColumn({column.type!r}, tz="Europe/Berlin").',
            type_name=column.type,
        )
    # Days of one zone may be compared with a clock of another, and so may a TIMESTAMP of MySQL.
    is_twice = column.zone is not None and (_is_local(cursor) or kind in {"instant", "number"})
    if is_twice and cursor.home not in {None, column.zone}:
        raise CursorTypeError(
            f"{named}: the time zone of the column is {column.zone!r}, and that of the cursor is {cursor.home!r}.",
            "Give the zone once, or the same in both places.",
            type_name=column.type,
        )


def _check_moments(cursor: CursorType[Any], column: SqlColumn, kind: Kind, named: str) -> None:
    if column.is_day:
        raise CursorTypeError(f"{named}: it has no time of day.", "Use cursor=Cursor.date().", type_name=column.type)
    if not cursor.is_aware:
        how = "naive=True" if _is_local(cursor) else "tz=None"
        if kind in {"instant", "unix", "number"}:
            raise CursorTypeError(
                f"{named}: it has points in time, and the cursor's values have no time zone ({how}).",
                "Use cursor=Cursor.datetime().",
                type_name=column.type,
            )
        if cursor.home is None and column.zone:
            raise CursorTypeError(
                f"{named}: the column has a time zone, and the cursor's values have none ({how}).",
                "Use cursor=Cursor.datetime(), or leave the column's tz= out.",
                type_name=column.type,
            )
    elif kind in {"clock", "text"} and not column.zone:
        raise CursorTypeError(
            f"{named}: it does not store a time zone, and none is given.",
            f'Say which: SqlColumn({column.type!r}, ..., tz="UTC") or "Europe/Berlin", say; or use'
            " cursor=Cursor.datetime(tz=None), whose values have none.",
            type_name=column.type,
        )
    elif kind == "number" and column.tz:
        raise CursorTypeError(
            f"{named}: it counts since 1970 in UTC, so its tz={column.tz!r} has no effect.",
            "Leave the column's tz= out.",
            type_name=column.type,
        )


def check_number(cursor: CursorType[Any], dialect: str | None) -> None:
    """Refuse numbers that the database does not keep exactly.

    Raises:
        CursorTypeError: decimals on SQLite.
    """
    if cursor.sql_values == "decimals" and dialect == "sqlite":
        raise CursorTypeError(
            f"SQLite keeps a number with digits after the point as a float, which is not exact, as {cursor!r} is.",
            'Compare whole ones: cursor=Cursor.int() and window.sql("CAST(ROUND(amount * 100) AS INTEGER)",'
            " connection), say.",
        )


def check_described(name: object, cursor: CursorType[Any], dialect: str | None) -> None:
    """Refuse a column of SQLite with times or days that is not described, as rows in another form would not be found.

    Raises:
        CursorTypeError: it is one.
    """
    if dialect != "sqlite" or cursor.sql_values not in {"times", "days"}:
        return
    described, other = 'SqlColumn("text", like="2026-01-31T23:59:59+00:00")', 'SqlColumn("seconds")'
    if cursor.sql_values == "days":
        described, other = 'SqlColumn("date") for text such as 2026-01-31', 'SqlColumn("seconds", tz="UTC")'
    elif not cursor.is_aware:
        zone = f', tz="{cursor.home}"' if cursor.home else ""
        described, other = f'SqlColumn("text", like="2026-01-31T23:59:59"{zone})', "CAST the column in the query"
    raise CursorTypeError(
        f"The type of the column {name} is not known. SQLite keeps a time as text or as a number, and compares text"
        " letter by letter, so with a bound in another form rows would be lost without an error.",
        f"Give it, with a value as the column has it: watermark(..., sql={described}), or {other}.",
        what=str(name),
    )


def _is_local(cursor: CursorType[Any]) -> bool:
    """Whether the cursor's values are naive times of a zone that is known."""
    return cursor.sql_values == "times" and not cursor.is_aware and cursor.home is not None


def bound_for(cursor: CursorType[Any], column: SqlColumn, kind: Kind, value: Any) -> tuple[Any, bool]:
    """A bound as a value of the column, and whether it is exact and not rounded down.

    Args:
        cursor: of the column.
        column: as the user describes it; it fits the cursor.
        kind: how its bounds are written.
        value: of the cursor, as `parse` gives it.
    """
    if kind == "as it is":
        return cursor.present(value), True
    if kind == "bytes":
        return value.bytes, True
    if not isinstance(value, datetime):
        return _bound_of_day(cursor, column, kind, value), True
    bound = _bound_of_moment(column, kind, value)
    return bound, _seconds(value) == bound if kind == "unix" else value_of(cursor, column, bound) == value


def value_of(cursor: CursorType[Any], column: SqlColumn, found: object) -> object:
    """A value of the column as the cursor reads it; values that do not fit are left for the cursor to refuse.

    For a cursor of points in time it gets the column's zone; for one of naive times it stays as the column has it.
    """
    if column.type is None:
        return found
    if _is_local(cursor):
        shown = column.shown(found)
        # Text is compared without its offset.
        return shown.replace(tzinfo=None) if column.type == "text" and isinstance(shown, datetime) else shown
    value = column.read(found)
    if cursor.sql_values != "days" or not isinstance(value, datetime):
        return value
    zone = cursor.home or column.zone
    return (value.astimezone(ZoneInfo(zone)) if zone and value.tzinfo else value).date()


def _bound_of_moment(column: SqlColumn, kind: Kind, moment: datetime) -> Any:
    step = 10 ** (6 - column.kept_digits)
    floored = moment.replace(microsecond=moment.microsecond // step * step)
    if kind == "instant":
        return floored
    if kind == "unix":
        return _seconds(floored)
    if kind == "number":
        return (floored - EPOCH) // timedelta(microseconds=10 ** (6 - DIGITS[str(column.type)]))
    if moment.tzinfo is None:
        return _shown(column, kind, floored)
    try:
        # No row comes before its bound: in the hour that comes twice, the bound is the beginning of the second one.
        reading = lowest_from(floored, ZoneInfo(column.zone or "UTC"))
    except OverflowError:
        reading = floored.replace(tzinfo=None)
    return _shown(column, kind, reading)


def _bound_of_day(cursor: CursorType[Any], column: SqlColumn, kind: Kind, day: date) -> Any:
    if column.is_day:
        return day if kind == "day" else day.isoformat()
    zone = cursor.home or column.zone
    midnight = datetime.combine(day, time.min)
    if kind in {"clock", "text"} and column.zone in {None, zone}:
        return _shown(column, kind, midnight)
    try:
        moment = earliest(midnight, ZoneInfo(str(zone)))
    except OverflowError:  # a year before 1 or after 9999
        moment = midnight.replace(tzinfo=timezone.utc)
    return _bound_of_moment(column, kind, moment)


def _shown(column: SqlColumn, kind: Kind, reading: datetime) -> Any:
    return reading if column.form is None or kind == "clock" else column.form.write(reading)


def _seconds(moment: datetime) -> Decimal:
    return Decimal((moment - EPOCH) // timedelta(microseconds=1)).scaleb(-6)


# --- text -----------------------------------------------------------------------------------------------------------


def is_plain_column(column: str) -> bool:
    """Whether it is a name, and not an expression."""
    return _COLUMN.fullmatch(column) is not None


def is_by_code_points(cursor: CursorType[Any], kind: Kind) -> bool:
    """Whether the column is compared as text by code points."""
    return kind == "text" or cursor.sql_collation == BY_CODE_POINTS


def compared_text(name: str, cursor: CursorType[Any], kind: Kind, dialect: str | None) -> str:
    """The column in a comparison: with the collation that the cursor, or the times in it, need."""
    if dialect == "mysql" and is_by_code_points(cursor, kind):
        return IN_BYTES.format(name)
    collation = BY_CODE_POINTS if kind == "text" and dialect in _QUOTED else cursor.sql_collation
    if collation is None:
        return name
    return f"{name if is_plain_column(name) else f'({name})'} COLLATE {collation_name(collation, dialect)}"


def collation_name(collation: str, dialect: str | None) -> str:
    """The collation as the database writes it; for `"C"` its collation by code points.

    Raises:
        CursorTypeError: the database's collation by code points is not known.
    """
    if collation == BY_CODE_POINTS and dialect not in _BINARY:
        raise CursorTypeError(
            f'Cursor.text(collation="C"): the collation by code points of {dialect or "this database"} is not known.',
            'Give the connection, such as window.sql("name", connection), or the collation\'s own name.',
            type_name="text",
        )
    if collation == BY_CODE_POINTS:
        return _BINARY[str(dialect)]
    return f'"{collation}"' if dialect in _QUOTED else collation
