"""Bounds of a window as a column of a database has its values, so that it compares them as the cursor does.

A driver writes a point in time as it thinks best, and the database reads it in the time zone of the session. Where the
column has no zone of its own, or is no time at all but text or a number, that finds other rows, or none, without an
error. Told what the column is, we write the bound in full.

Rounding: a bound that the column cannot show exactly is rounded down, at the start and at the end alike. What lies
between is then in no window yet, and the next one, which begins at the same rounded bound, has it.
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, Literal
from zoneinfo import ZoneInfo

from airflow_resume.errors import CursorTypeError
from airflow_resume.watermarks.cursor import CursorType
from airflow_resume.watermarks.drivers import driver_of
from airflow_resume.watermarks.local import LocalCursor
from airflow_resume.watermarks.moments import DatetimeCursor
from airflow_resume.watermarks.sql_column import DIGITS, EPOCH, Columns, SqlColumn, columns_of, parts_of
from airflow_resume.watermarks.zones import earliest, lowest_from

Kind = Literal["as it is", "instant", "clock", "unix", "day", "text", "number", "bytes"]
"""What a bound is written as. `unix`: a point in time that is compared by its seconds since 1970."""


def kind_of(column: SqlColumn, dialect: str | None) -> Kind:
    """What a bound of the column is written as in a database.

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
        )
    if dialect == "mysql" and column.type == "timestamptz":
        raise CursorTypeError(
            "MySQL and MariaDB have no type 'timestamptz'.",
            'Say SqlColumn("timestamp") for a TIMESTAMP, and SqlColumn("datetime", tz="UTC") for a DATETIME.',
        )
    if dialect == "mysql" and column.type == "timestamp":
        return "unix"
    return "instant" if column.type == "timestamptz" else "clock"


def check_columns(columns: Columns, cursor: CursorType[Any]) -> None:
    """Refuse, when the Dag file is read, columns whose values cannot be compared with the cursor's.

    Raises:
        CursorTypeError, TypeError, ValueError: so it is.
    """
    for part, column in zip(parts_of(cursor), columns_of(columns, cursor), strict=True):
        dialect = None if column.driver is None else driver_of(column.driver).dialect
        kind = kind_of(column, dialect)
        is_open = column.type == "timestamp" and column.tz is None and dialect is None  # of MySQL it needs no zone
        if not is_open:
            check_pair(part, column, kind, dialect)


def check_pair(cursor: CursorType[Any], column: SqlColumn, kind: Kind, dialect: str | None) -> None:
    """Refuse a cursor and a column that cannot be compared exactly.

    Args:
        cursor: of the column.
        column: as it is told.
        kind: what its bounds are written as.
        dialect: of the database; None: not known.

    Raises:
        CursorTypeError: with the remedy.
    """
    check_number(cursor, dialect)
    if kind == "as it is":
        return
    named = f"A column of type {column.type!r} cannot be compared exactly with {cursor!r}"
    if kind == "bytes":
        if cursor.type != "uuid":
            raise CursorTypeError(
                f"{named}: it has the bytes of UUIDs.", "Use cursor=Cursor.uuid(), or leave the type out."
            )
        return
    if cursor.type not in {"datetime", "date"}:
        raise CursorTypeError(f"{named}: it has times.", "Use cursor=Cursor.datetime(), or leave the type out.")
    if cursor.type == "datetime":
        _check_moments(cursor, column, kind, named)
    elif kind in {"instant", "unix", "number"} and not (cursor.home or column.zone):
        raise CursorTypeError(
            f"{named}: where a day begins depends on the time zone.",
            f'Say whose days they are: SqlColumn({column.type!r}, tz="Europe/Berlin").',
        )
    # A clock in one zone may well be read by days of another, and so may a session of MySQL.
    is_twice = column.zone is not None and (isinstance(cursor, LocalCursor) or kind in {"instant", "number"})
    if is_twice and cursor.home not in {None, column.zone}:
        raise CursorTypeError(
            f"{named}: of the column the time zone is {column.zone!r}, and of the cursor it is {cursor.home!r}.",
            "Give the zone once, or the same in both places.",
        )


def _check_moments(cursor: CursorType[Any], column: SqlColumn, kind: Kind, named: str) -> None:
    if column.is_day:
        raise CursorTypeError(f"{named}: it has no time of day.", "Use cursor=Cursor.date().")
    if not is_aware(cursor):
        how = "naive=True" if isinstance(cursor, LocalCursor) else "tz=None"
        if kind in {"instant", "unix", "number"}:
            raise CursorTypeError(
                f"{named}: it has points in time, and the cursor's values have no time zone ({how}).",
                "Use cursor=Cursor.datetime().",
            )
        if cursor.home is None and column.zone:
            raise CursorTypeError(
                f"{named}: its time zone is told, and the cursor's values have none ({how}).",
                "Use cursor=Cursor.datetime(), or leave the column's tz= out.",
            )
    elif kind in {"clock", "text"} and not column.zone:
        raise CursorTypeError(
            f"{named}: it shows the clock of a time zone that is not told.",
            f'Say which: SqlColumn({column.type!r}, ..., tz="UTC") or "Europe/Berlin", say; or use'
            " cursor=Cursor.datetime(tz=None), whose values have none.",
        )
    elif kind == "number" and column.tz:
        raise CursorTypeError(
            f"{named}: it counts since 1970 in UTC, so its tz={column.tz!r} has no effect.",
            "Leave the column's tz= out.",
        )


def check_number(cursor: CursorType[Any], dialect: str | None) -> None:
    """Refuse numbers that the database does not keep exactly.

    Raises:
        CursorTypeError: decimals on SQLite.
    """
    if cursor.type == "decimal" and dialect == "sqlite":
        raise CursorTypeError(
            f"SQLite keeps a number with digits after the point as a float, which is not exact, as {cursor!r} is.",
            'Compare whole ones: cursor=Cursor.int() and window.sql("CAST(ROUND(amount * 100) AS INTEGER)",'
            " connection), say.",
        )


def is_aware(cursor: CursorType[Any]) -> bool:
    """Whether the cursor's values are points in time, and not what a clock shows."""
    return isinstance(cursor, DatetimeCursor) and cursor.tz is not None


def bound_for(cursor: CursorType[Any], column: SqlColumn, kind: Kind, value: Any) -> tuple[Any, bool]:
    """A bound as the column has its values, and whether it is exactly the cursor's value, and not rounded down.

    Args:
        cursor: of the column.
        column: as it is told, and checked with the cursor.
        kind: what its bounds are written as.
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
    """A value of the column as the cursor has it, or as near as can be for the cursor to refuse it.

    Of a cursor of points in time with the column's zone, of one without a zone as the column shows it.
    """
    if column.type is None:
        return found
    if isinstance(cursor, LocalCursor):
        shown = column.shown(found)
        # Text is compared by what the clock shows, whatever offset stands after it.
        return shown.replace(tzinfo=None) if column.type == "text" and isinstance(shown, datetime) else shown
    value = column.read(found)
    if cursor.type != "date" or not isinstance(value, datetime):
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
    return _shown(column, kind, floored if moment.tzinfo is None else _on_clock(floored, column.zone or "UTC"))


def _bound_of_day(cursor: CursorType[Any], column: SqlColumn, kind: Kind, day: date) -> Any:
    if column.is_day:
        return day if kind == "day" else day.isoformat()
    zone = cursor.home or column.zone
    midnight = datetime.combine(day, time.min)
    if kind in {"clock", "text"} and column.zone in {None, zone}:
        return _shown(column, kind, midnight)
    return _bound_of_moment(column, kind, _in_utc(midnight, str(zone)))


def _shown(column: SqlColumn, kind: Kind, reading: datetime) -> Any:
    return reading if column.form is None or kind == "clock" else column.form.write(reading)


def _in_utc(midnight: datetime, zone: str) -> datetime:
    try:
        return earliest(midnight, ZoneInfo(zone))
    except OverflowError:  # a year before 1 or after 9999
        return midnight.replace(tzinfo=timezone.utc)


def _on_clock(moment: datetime, zone: str) -> datetime:
    """No row comes before its bound: of the hour that comes twice the bound is the second's beginning."""
    try:
        return lowest_from(moment, ZoneInfo(zone))
    except OverflowError:
        return moment.replace(tzinfo=None)


def _seconds(moment: datetime) -> Decimal:
    return Decimal((moment - EPOCH) // timedelta(microseconds=1)).scaleb(-6)
