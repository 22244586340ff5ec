"""Describes a column of a database: its type, its time zone, and its format of times as text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args
from uuid import UUID

from airflow_resume.arguments import check_whole
from airflow_resume.shown import short_repr
from airflow_resume.watermarks.cursors.cursor import CursorType
from airflow_resume.watermarks.cursors.keysets import KeysetCursor
from airflow_resume.watermarks.cursors.moments import is_moment
from airflow_resume.watermarks.cursors.zones import check_zone, latest_reading

if TYPE_CHECKING:
    from airflow_resume.watermarks.sql.text_forms import TextForm

ColumnTypeName = Literal[
    "timestamptz", "timestamp", "datetime", "date", "text", "seconds", "milliseconds", "microseconds", "binary"
]

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
DIGITS = {"seconds": 0, "milliseconds": 3, "microseconds": 6}
"""How many digits of a fraction of a second each unit has."""


@dataclass(frozen=True)
class SqlColumn:
    """Describes a column of a database: its type, and the time zone of its values.

    Args:
        type: None: the driver adapts the values. `"timestamptz"` of PostgreSQL, and `"timestamp"` of MySQL and
            MariaDB, are points in time. `"timestamp"` of PostgreSQL and `"datetime"` are times as the clock of a zone
            shows them. `"date"` is for `Cursor.date()`. In any database a time may be kept as `"text"`, or as whole
            `"seconds"`, `"milliseconds"` or `"microseconds"` since 1970. `"binary"` is for `Cursor.uuid()`: the 16
            bytes of a UUID.
        tz: the time zone of a column that does not store one, such as `"UTC"` or `"Europe/Berlin"`. Rows of the hour
            that comes twice in autumn are loaded after the hour has come twice. For `"timestamp"` of MySQL it is the
            session's zone, which only `track` needs.
        like: for `"text"`, a value as the column has it: `"2026-01-31 23:59:59"`, `"2026-01-31T23:59:59.999Z"`. All
            values must have the same format.
        digits: how many digits of a fraction of a second the column keeps. The default is 6, and for text as many as
            `like` has.
        driver: the name of the driver's module, such as `"psycopg2"`, for `window.sql` without a connection.

    Raises:
        TypeError, ValueError: at once, for a type that cannot be compared exactly, an unknown time zone, or an argument
            that has no effect.
    """

    type: ColumnTypeName | None = None
    _: KW_ONLY
    tz: str | None = None
    like: str | None = None
    digits: int | None = None
    driver: str | None = None

    def __post_init__(self) -> None:
        """Refuse types for which no bound can be written, and arguments that have no effect."""
        if self.type is not None and self.type not in get_args(ColumnTypeName):
            raise ValueError(
                f"A column of type {short_repr(self.type)} cannot be compared exactly, or is not known.\n"
                f"Take one of {', '.join(map(repr, get_args(ColumnTypeName)))}, or CAST the column to one of them in"
                " the query."
            )
        check_zone(self.tz, without=", or leave tz= out")
        if self.digits is not None:
            check_whole("digits", self.digits, least=0)
        if self.driver is not None:
            from airflow_resume.watermarks.sql.drivers import driver_of

            driver_of(self.driver)
        self._check_text()
        self._check_effect()

    def _check_text(self) -> None:
        if (self.type == "text") != (self.like is not None):
            raise ValueError(
                f"type={self.type!r} with like={self.like!r}: text, and only text, is described by one of its values.\n"
                'Give one that sorts as time does, such as SqlColumn("text", like="2026-01-31T23:59:59Z").'
            )
        if self.like is not None and self.form is None:
            from airflow_resume.watermarks.sql.text_forms import LIKES

            raise ValueError(
                f"like={self.like!r} is not one of the known formats of text.\n"
                f"Give one of {LIKES}; or CAST the column in the query."
            )
        if self.form and self.form.is_utc and self.tz not in {None, "UTC"}:
            raise ValueError(
                f"like={self.like!r} is in UTC, and tz={self.tz!r} is not.\nLeave tz= out, or give another value."
            )

    def _check_effect(self) -> None:
        named = f"a column of type {self.type!r}" if self.type else "a column without a type"
        if self.digits is not None and (self.type in {None, "binary"} or self.is_day):
            remedy = "Give the type too" if self.type is None else "Leave digits= out"
            raise ValueError(f"digits={self.digits} has no effect on {named}.\n{remedy}.")
        if self.digits is not None and self.type in DIGITS and self.digits > DIGITS[self.type]:
            raise ValueError(
                f"digits={self.digits}: whole {self.type} have {DIGITS[self.type]} digits of a fraction of a second.\n"
                'Leave digits= out, or say in which unit the column counts, such as SqlColumn("milliseconds").'
            )
        if self.tz is not None and (self.type == "binary" or self.is_day):
            raise ValueError(
                f"tz={self.tz!r} has no effect on {named}{', which has days' if self.is_day else ''}.\n"
                "Leave tz= out. The cursor has the time zone of the days, such as Cursor.date('Europe/Berlin')."
            )

    @cached_property
    def form(self) -> TextForm | None:
        """The format of its text; None: it is not text."""
        if self.like is None:
            return None
        from airflow_resume.watermarks.sql.text_forms import form_of

        return form_of(self.like)

    @property
    def is_day(self) -> bool:
        """Whether it has no time of day."""
        return self.type == "date" or (self.form is not None and self.form.is_day)

    @property
    def zone(self) -> str | None:
        """The time zone of the column's values; None: it is not known."""
        return "UTC" if self.form and self.form.is_utc else self.tz

    @property
    def kept_digits(self) -> int:
        """How many digits of a fraction of a second it keeps."""
        natural = self.form.digits if self.form else DIGITS.get(str(self.type), 6)
        return min(6, natural if self.digits is None else self.digits)

    def read(self, value: object) -> object:
        """A value of the column for a cursor of points in time: with its time zone, if that is known.

        A time that the clock shows twice is read as the second one, as in the condition.

        Args:
            value: as the driver gives it.
        """
        found = self.shown(value)
        return latest_reading(found, self.zone) if is_moment(found) and not found.tzinfo and self.zone else found

    def shown(self, value: object) -> object:
        """A value of the column as it is stored: a time of a clock without its zone, a point in time with it.

        Args:
            value: as the driver gives it.
        """
        if isinstance(value, str) and self.form is not None and not self.form.is_day:
            return self.form.read(value)
        if self.type == "binary" and isinstance(value, (bytes, bytearray, memoryview)) and len(value) == 16:  # noqa: PLR2004
            return UUID(bytes=bytes(value))
        if self.type in DIGITS and isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
            return _moment_of_number(value, Decimal(10) ** (6 - DIGITS[self.type]))
        return value


def _moment_of_number(number: float | Decimal, microseconds: Decimal) -> object:
    """The time for a number of units since 1970, rounded down; the number itself if it is not a time, such as NaN."""
    try:
        return EPOCH + timedelta(microseconds=math.floor(Decimal(number) * microseconds))
    except (ArithmeticError, ValueError):
        return number


Columns: TypeAlias = "SqlColumn | ColumnTypeName | Sequence[SqlColumn | ColumnTypeName | None] | None"
"""The description of one column, or of each of a keyset."""


def columns_of(columns: Columns, cursor: CursorType[Any]) -> tuple[SqlColumn, ...]:
    """The descriptions of a cursor's columns.

    Raises:
        TypeError, ValueError: not one for each column.
    """
    count = len(parts_of(cursor))
    if isinstance(columns, str) or not isinstance(columns, Sequence):
        one = _column_of(columns)
        if count > 1 and one.type is not None:
            raise ValueError(
                f"One column of type {one.type!r} is given, and the keyset has {count} columns.\n"
                "Give a list with one for each, and None for a column without a type."
            )
        return (one,) * count
    found = tuple(map(_column_of, columns))
    if len(found) != count:
        raise ValueError(f"{len(found)} columns are given, and the cursor has {count}.\nGive one for each.")
    drivers = list(dict.fromkeys(column.driver for column in found if column.driver is not None))
    if len(drivers) > 1:
        raise ValueError(f"A query has one driver, and {drivers[0]!r} and {drivers[1]!r} are given.\nGive one of them.")
    return found


def _column_of(given: object) -> SqlColumn:
    if isinstance(given, str):
        return SqlColumn(cast("ColumnTypeName", given))
    if given is not None and not isinstance(given, SqlColumn):
        raise TypeError(f'sql={given!r} does not describe a column.\nGive SqlColumn("timestamp", tz="UTC"), say.')
    return SqlColumn() if given is None else given


def parts_of(cursor: CursorType[Any]) -> tuple[CursorType[Any], ...]:
    """The cursor of each column."""
    return cursor.parts if isinstance(cursor, KeysetCursor) else (cursor,)


def reading(
    cursor: CursorType[Any], columns: Sequence[SqlColumn], *, refuses_text: bool = False, checks_form: bool = False
) -> CursorType[Any]:
    """A cursor that reads values by the types of the columns: naive times in their zone, text, seconds since 1970.

    Args:
        cursor: the cursor that gets the values.
        columns: as the user describes them.
        refuses_text: refuse text for a cursor of numbers, because the query has compared it as text without an error.
        checks_form: refuse text in another form than `like`, because the query has compared it wrongly.
    """
    if all(column.type is None for column in columns) and not refuses_text:
        return cursor
    from airflow_resume.watermarks.sql.column_reader import ColumnReader

    return ColumnReader(cursor, tuple(columns), refuses_text, checks_form)
