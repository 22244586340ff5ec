"""What a column of a database is: its type, its time zone, and how it writes times as text."""

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
from airflow_resume.watermarks.clocks import latest_reading
from airflow_resume.watermarks.cursor import CursorType
from airflow_resume.watermarks.keysets import KeysetCursor
from airflow_resume.watermarks.moments import is_moment
from airflow_resume.watermarks.zones import check_zone

if TYPE_CHECKING:
    from airflow_resume.watermarks.text_forms import TextForm

ColumnTypeName = Literal[
    "timestamptz", "timestamp", "datetime", "date", "text", "seconds", "milliseconds", "microseconds", "binary"
]

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
DIGITS = {"seconds": 0, "milliseconds": 3, "microseconds": 6}
"""How many digits of a second a whole number of each unit has."""


@dataclass(frozen=True)
class SqlColumn:
    """What a column of a database is: its type, and the zone whose clock it shows.

    Args:
        type: None: as the driver adapts the value. `"timestamptz"` of PostgreSQL, and `"timestamp"` of MySQL and
            MariaDB, are points in time. `"timestamp"` of PostgreSQL and `"datetime"` show the clock of a zone. `"date"`
            is for `Cursor.date()`. In any database a time may be kept as `"text"`, or as whole `"seconds"`,
            `"milliseconds"` or `"microseconds"` since 1970. `"binary"` is for `Cursor.uuid()`: the 16 bytes of a UUID.
        tz: the zone whose clock a column without one shows, such as `"UTC"` or `"Europe/Berlin"`. Rows of the hour that
            comes twice in autumn are loaded with its second half. For `"timestamp"` of MySQL it is the session's zone,
            which only `track` needs.
        like: for `"text"`, a value as the column has it: `"2026-01-31 23:59:59"`, `"2026-01-31T23:59:59.999Z"`. All
            values must be written alike.
        digits: how many digits of a fraction of a second the column keeps, 6 by default; of text, as many as `like`
            has.
        driver: the name of the driver's module, such as `"psycopg2"`, for a `window.sql` that is given no connection.

    Raises:
        TypeError, ValueError: at once, for a type that cannot be compared exactly, a zone that is none, and the like.
    """

    type: ColumnTypeName | None = None
    _: KW_ONLY
    tz: str | None = None
    like: str | None = None
    digits: int | None = None
    driver: str | None = None

    def __post_init__(self) -> None:
        """Refuse what no bound can be written for, and what would have no effect."""
        if self.type is not None and self.type not in get_args(ColumnTypeName):
            raise ValueError(
                f"A column of type {self.type!r} cannot be compared exactly, or is not known here.\n"
                f"Take one of {', '.join(map(repr, get_args(ColumnTypeName)))}, or CAST the column to one of them in"
                " the query."
            )
        check_zone(self.tz, without=", or leave tz= out")
        if self.digits is not None:
            check_whole("digits", self.digits, least=0)
        if self.driver is not None:
            from airflow_resume.watermarks.drivers import driver_of

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
            from airflow_resume.watermarks.text_forms import LIKES

            raise ValueError(
                f"like={self.like!r} is none of the formats of text that are known here.\n"
                f"Give one of {LIKES}; or CAST the column in the query."
            )
        if self.form and self.form.is_utc and self.tz not in {None, "UTC"}:
            raise ValueError(
                f"like={self.like!r} is in UTC, and tz={self.tz!r} is not.\nLeave tz= out, or give another value."
            )

    def _check_effect(self) -> None:
        named = f"a column of type {self.type!r}" if self.type else "a column whose type is not told"
        if self.digits is not None and (self.type in {None, "binary"} or self.is_day):
            remedy = "Tell the type too" if self.type is None else "Leave digits= out"
            raise ValueError(f"digits={self.digits} has no effect on {named}.\n{remedy}.")
        if self.digits is not None and self.type in DIGITS and self.digits > DIGITS[self.type]:
            raise ValueError(
                f"digits={self.digits}: whole {self.type} have {DIGITS[self.type]} digits of a fraction of a second.\n"
                'Leave digits= out, or say in which unit the column counts, such as SqlColumn("milliseconds").'
            )
        if self.tz is not None and (self.type == "binary" or self.is_day):
            raise ValueError(
                f"tz={self.tz!r} has no effect on {named}{', which has days' if self.is_day else ''}.\n"
                "Leave tz= out; whose days they are is for the cursor to say, such as Cursor.date('Europe/Berlin')."
            )

    @cached_property
    def form(self) -> TextForm | None:
        """How its text is written; None: it is no text."""
        if self.like is None:
            return None
        from airflow_resume.watermarks.text_forms import form_of

        return form_of(self.like)

    @property
    def is_day(self) -> bool:
        """Whether it has no time of day."""
        return self.type == "date" or (self.form is not None and self.form.is_day)

    @property
    def zone(self) -> str | None:
        """The zone whose clock the column shows; None: it is not told."""
        return "UTC" if self.form and self.form.is_utc else self.tz

    @property
    def kept_digits(self) -> int:
        """How many digits of a fraction of a second it keeps."""
        natural = self.form.digits if self.form else DIGITS.get(str(self.type), 6)
        return min(6, natural if self.digits is None else self.digits)

    def read(self, value: object) -> object:
        """A value of the column as a cursor of points in time reads it: with its zone, if that is told.

        A clock that shows a time twice is taken to mean the second one, as the condition does.
        """
        found = self.shown(value)
        return latest_reading(found, self.zone) if is_moment(found) and not found.tzinfo and self.zone else found

    def shown(self, value: object) -> object:
        """A value of the column as it stands there: what a clock shows, without its zone; a point in time with it."""
        if isinstance(value, str) and self.form is not None and not self.form.is_day:
            return self.form.read(value)
        if self.type == "binary" and isinstance(value, (bytes, bytearray, memoryview)) and len(value) == 16:  # noqa: PLR2004
            return UUID(bytes=bytes(value))
        if self.type in DIGITS and isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
            return _moment_of_number(value, Decimal(10) ** (6 - DIGITS[self.type]))
        return value


def _moment_of_number(number: float | Decimal, microseconds: Decimal) -> object:
    """A number of so many microseconds each since 1970, rounded down; of what is no time, such as NaN, the number."""
    try:
        return EPOCH + timedelta(microseconds=math.floor(Decimal(number) * microseconds))
    except (ArithmeticError, ValueError):
        return number


Columns: TypeAlias = "SqlColumn | ColumnTypeName | Sequence[SqlColumn | ColumnTypeName | None] | None"
"""What one column is, or each of a keyset's."""


def columns_of(columns: Columns, cursor: CursorType[Any]) -> tuple[SqlColumn, ...]:
    """What each column of a cursor is.

    Raises:
        TypeError, ValueError: not one for each.
    """
    count = len(parts_of(cursor))
    if isinstance(columns, str) or not isinstance(columns, Sequence):
        one = _column_of(columns)
        if count > 1 and one.type is not None:
            raise ValueError(
                f"One column of type {one.type!r} is told, and the keyset has {count}.\n"
                "Give a list with one for each, and None where there is nothing to tell."
            )
        return (one,) * count
    found = tuple(map(_column_of, columns))
    if len(found) != count:
        raise ValueError(f"{len(found)} columns are told, and the cursor has {count}.\nGive one for each.")
    drivers = list(dict.fromkeys(column.driver for column in found if column.driver is not None))
    if len(drivers) > 1:
        raise ValueError(f"A query has one driver, and {drivers[0]!r} and {drivers[1]!r} are told.\nGive one of them.")
    return found


def _column_of(given: object) -> SqlColumn:
    if isinstance(given, str):
        return SqlColumn(cast("ColumnTypeName", given))
    if given is not None and not isinstance(given, SqlColumn):
        raise TypeError(f'{given!r} says nothing about a column.\nGive SqlColumn("timestamp", tz="UTC"), say.')
    return SqlColumn() if given is None else given


def parts_of(cursor: CursorType[Any]) -> tuple[CursorType[Any], ...]:
    """The cursor of each column."""
    return cursor.parts if isinstance(cursor, KeysetCursor) else (cursor,)
