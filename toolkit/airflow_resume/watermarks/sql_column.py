"""What a column of a database is, so that a bound is written as the database compares it.

A driver writes a point in time as it thinks best, and the database reads it in the time zone of the session. Where the
column has no zone of its own, or is no time at all but text or a number, that finds other rows, or none, without an
error. Told what the column is, we write the bound in full.

Rounding: a bound that the column cannot show exactly is rounded down, at the start and at the end alike. What lies
between is then in no window yet, and the next one, which begins at the same rounded bound, has it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Literal, TypeAlias, cast, get_args
from uuid import UUID
from zoneinfo import ZoneInfo

from airflow_resume.arguments import check_whole
from airflow_resume.errors import CursorTypeError
from airflow_resume.watermarks.clocks import bound_on_clock, latest_reading
from airflow_resume.watermarks.cursor import CursorType
from airflow_resume.watermarks.drivers import driver_of
from airflow_resume.watermarks.keysets import KeysetCursor

ColumnTypeName = Literal[
    "timestamptz", "timestamp", "datetime", "date", "text", "seconds", "milliseconds", "microseconds", "binary"
]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_DIGITS = {"seconds": 0, "milliseconds": 3, "microseconds": 6}
_LIKE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:(?P<separator>[T ])[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.(?P<fraction>[0-9]{1,6}))?"
    r"(?P<zone>Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)
LIKES = (
    "2026-01-31 alone, or with T or one space and 23:59:59, then up to six digits of a fraction such as .999, then Z,"
    " +01:00 or +0100"
)
"""The formats of text, for people."""
_UTC_SIGNS = {"Z", "+00:00", "+0000"}


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
        """Refuse what no bound can be written for."""
        if self.type is not None and self.type not in get_args(ColumnTypeName):
            raise ValueError(
                f"A column of type {self.type!r} cannot be compared exactly, or is not known here.\n"
                f"Take one of {', '.join(map(repr, get_args(ColumnTypeName)))}, or CAST the column to one of them in"
                " the query."
            )
        if self.tz is not None:
            _check_zone(self.tz)
        if self.digits is not None:
            check_whole("digits", self.digits, least=0)
        if self.driver is not None:
            driver_of(self.driver)
        self._check_text()

    def _check_text(self) -> None:
        found = None if self.like is None else _LIKE.fullmatch(self.like)
        if (self.type == "text") != (self.like is not None):
            raise ValueError(
                f"type={self.type!r} with like={self.like!r}: text, and only text, is described by one of its values.\n"
                'Give one that sorts as time does, such as SqlColumn("text", like="2026-01-31T23:59:59Z").'
            )
        if self.like is not None and found is None:
            raise ValueError(
                f"like={self.like!r} is none of the formats of text that are known here.\n"
                f"Give one of {LIKES}; or CAST the column in the query."
            )
        if found and found["zone"] in _UTC_SIGNS and self.tz not in {None, "UTC"}:
            raise ValueError(
                f"like={self.like!r} is in UTC, and tz={self.tz!r} is not.\nLeave tz= out, or give another value."
            )

    @property
    def is_day(self) -> bool:
        """Whether it has no time of day."""
        return self.type == "date" or (self.type == "text" and len(str(self.like)) == len("2026-01-31"))

    @property
    def zone(self) -> str | None:
        """The zone whose clock the column shows; None: it is not told."""
        found = _LIKE.fullmatch(self.like or "")
        return "UTC" if found and found["zone"] in _UTC_SIGNS else self.tz

    @property
    def kept_digits(self) -> int:
        """How many digits of a fraction of a second it keeps."""
        found = _LIKE.fullmatch(self.like or "")
        natural = len(found["fraction"] or "") if found else _DIGITS.get(str(self.type), 6)
        return min(6, natural if self.digits is None else self.digits)

    def read(self, value: object) -> object:
        """A value of the column as the cursor reads it: with its zone, if that is told.

        A clock that shows a time twice is taken to mean the second one, as the condition does.
        """
        if isinstance(value, str) and self.type == "text" and not self.is_day:
            value = _moment_of_text(value)
        elif self.type == "binary" and isinstance(value, (bytes, bytearray, memoryview)) and len(value) == 16:  # noqa: PLR2004
            value = UUID(bytes=bytes(value))
        elif self.type in _DIGITS and isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
            value = _moment_of_number(value, Decimal(10) ** (6 - _DIGITS[self.type]))
        if isinstance(value, datetime) and isinstance(value.year, int) and value.tzinfo is None and self.zone:
            return latest_reading(value, self.zone)
        return value

    def text_of(self, moment: datetime) -> str:
        """A time of its clock, or a bound between two of its values, as the column's text sorts.

        Without the sign of the zone, and without zeros at the end of a fraction: the shortest text that all values from
        there on begin with or lie behind, however many digits they have.
        """
        found = _LIKE.fullmatch(self.like or "")
        text = moment.replace(tzinfo=None).isoformat(sep=(found and found["separator"]) or "T", timespec="microseconds")
        return text.rstrip("0").rstrip(".") if moment.microsecond else text.partition(".")[0]


def _moment_of_number(number: float | Decimal, microseconds: Decimal) -> object:
    """A number of so many microseconds each since 1970, rounded down; of what is no time, such as NaN, the number."""
    try:
        return _EPOCH + timedelta(microseconds=math.floor(Decimal(number) * microseconds))
    except (ArithmeticError, ValueError):
        return number


def _moment_of_text(text: str) -> datetime | str:
    """As Python 3.10 reads it: six digits of a fraction, a colon in the offset. Of other text, the text."""
    found = _LIKE.fullmatch(text)
    if found is None or found["separator"] is None:
        return text
    seconds, offset = text[: len("2026-01-31T23:59:59")], (found["zone"] or "").replace("Z", "+00:00")
    offset = offset if ":" in offset or not offset else f"{offset[:3]}:{offset[3:]}"
    try:
        return datetime.fromisoformat(f"{seconds}.{found['fraction'] or '':0<6}{offset}")
    except ValueError:  # such as a month 13
        return text


def _check_zone(tz: str) -> None:
    try:
        ZoneInfo(tz)
    except (LookupError, ValueError, OSError, TypeError) as error:
        raise ValueError(f'tz={tz!r} is no time zone known here.\nWrite its name, such as "Europe/Berlin".') from error


Columns: TypeAlias = "SqlColumn | ColumnTypeName | Sequence[SqlColumn | ColumnTypeName | None] | None"
"""What one column is, or each of a keyset's."""


def columns_of(told: Columns, cursor: CursorType[Any]) -> tuple[SqlColumn, ...]:
    """What each column of a cursor is.

    Raises:
        TypeError, ValueError: not one for each.
    """
    count = len(parts_of(cursor))
    if isinstance(told, str) or not isinstance(told, Sequence):
        one = _column_of(told)
        if count > 1 and one.type is not None:
            raise ValueError(
                f"One column of type {one.type!r} is told, and the keyset has {count}.\n"
                "Give a list with one for each, and None where there is nothing to tell."
            )
        return (one,) * count
    found = tuple(map(_column_of, told))
    if len(found) != count:
        raise ValueError(f"{len(found)} columns are told, and the cursor has {count}.\nGive one for each.")
    return found


def _column_of(told: object) -> SqlColumn:
    if isinstance(told, str):
        return SqlColumn(cast("ColumnTypeName", told))
    if told is not None and not isinstance(told, SqlColumn):
        raise TypeError(f'{told!r} says nothing about a column.\nGive SqlColumn("timestamp", tz="UTC"), say.')
    return SqlColumn() if told is None else told


def parts_of(cursor: CursorType[Any]) -> tuple[CursorType[Any], ...]:
    """The cursor of each column."""
    return cursor.parts if isinstance(cursor, KeysetCursor) else (cursor,)


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
    if column.type in _DIGITS:
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


def check_columns(told: Columns, cursor: CursorType[Any]) -> None:
    """Refuse, when the Dag file is read, columns whose values cannot be compared with the cursor's.

    Raises:
        CursorTypeError, TypeError, ValueError: so it is.
    """
    for part, column in zip(parts_of(cursor), columns_of(told, cursor), strict=True):
        dialect = None if column.driver is None else driver_of(column.driver).dialect
        kind = kind_of(column, dialect)
        is_open = column.type == "timestamp" and column.tz is None and dialect is None  # of MySQL it needs no zone
        if not is_open:
            check_pair(part, column, kind)


def check_pair(cursor: CursorType[Any], column: SqlColumn, kind: Kind) -> None:
    """Refuse a cursor and a column that cannot be compared exactly.

    Raises:
        CursorTypeError: with the remedy.
    """
    if kind == "as it is":
        return
    named = f"A column of type {column.type!r} cannot be compared exactly with {cursor!r}"
    if kind == "bytes":
        if cursor.type != "uuid":
            raise CursorTypeError(
                f"{named}: it has the bytes of UUIDs.", "Use cursor=Cursor.uuid(), or leave the type out."
            )
        return
    if cursor.type == "datetime" and column.is_day:
        raise CursorTypeError(f"{named}: it has no time of day.", "Use cursor=Cursor.date().")
    if cursor.type == "datetime" and zone_of(cursor) is None and kind in {"instant", "unix", "number"}:
        raise CursorTypeError(
            f"{named}: it has points in time, and the cursor's values have no time zone (tz=None).",
            "Use cursor=Cursor.datetime().",
        )
    if cursor.type == "datetime" and zone_of(cursor) is None and column.zone:
        raise CursorTypeError(
            f"{named}: its time zone is told, and the cursor's values have none (tz=None).",
            "Use cursor=Cursor.datetime(), or leave the column's tz= out.",
        )
    if cursor.type == "datetime" and zone_of(cursor) is not None and kind in {"clock", "text"} and not column.zone:
        raise CursorTypeError(
            f"{named}: it shows the clock of a time zone that is not told.",
            f'Say which: SqlColumn({column.type!r}, ..., tz="UTC") or "Europe/Berlin", say; or use'
            " cursor=Cursor.datetime(tz=None), whose values have none.",
        )
    if cursor.type == "date" and kind in {"instant", "unix", "number"} and not (zone_of(cursor) or column.zone):
        raise CursorTypeError(
            f"{named}: where a day begins depends on the time zone.",
            f'Say whose days they are: SqlColumn({column.type!r}, tz="Europe/Berlin").',
        )
    if cursor.type not in {"datetime", "date"}:
        raise CursorTypeError(f"{named}: it has times.", "Use cursor=Cursor.datetime(), or leave the type out.")


def zone_of(cursor: CursorType[Any]) -> str | None:
    """The zone of a cursor's values; None: they have none."""
    return cast("str | None", getattr(cursor, "tz", None))


def bound_for(cursor: CursorType[Any], column: SqlColumn, kind: Kind, value: Any) -> tuple[Any, bool]:
    """A bound as the column has its values, and whether it is exactly the cursor's value, and not rounded down.

    Args:
        cursor: of the column.
        column: as it is told.
        kind: what its bounds are written as.
        value: of the cursor, as `parse` gives it.
    """
    check_pair(cursor, column, kind)
    if kind == "as it is":
        return cursor.present(value), True
    if kind == "bytes":
        return value.bytes, True
    if not isinstance(value, datetime):
        return _bound_of_day(cursor, column, kind, value), True
    bound = _bound_of_moment(column, kind, value)
    return bound, column.read(bound) == value if kind != "unix" else _seconds(value) == bound


def _bound_of_moment(column: SqlColumn, kind: Kind, moment: datetime) -> Any:
    step = 10 ** (6 - column.kept_digits)
    floored = moment.replace(microsecond=moment.microsecond // step * step)
    if kind == "instant":
        return floored
    if kind == "unix":
        return _seconds(floored)
    if kind == "number":
        return (floored - _EPOCH) // timedelta(microseconds=10 ** (6 - _DIGITS[str(column.type)]))
    naive = floored
    if moment.tzinfo is not None:
        naive = _on_clock(floored, column.zone or "UTC")
    return naive if kind == "clock" else column.text_of(naive)


def _bound_of_day(cursor: CursorType[Any], column: SqlColumn, kind: Kind, day: date) -> Any:
    if column.is_day:
        return day if kind == "day" else day.isoformat()
    zone = zone_of(cursor) or column.zone
    midnight = datetime(day.year, day.month, day.day)  # noqa: DTZ001  of the zone, which follows
    if kind in {"clock", "text"} and column.zone in {None, zone}:
        return midnight if kind == "clock" else column.text_of(midnight)
    return _bound_of_moment(column, kind, _in_utc(midnight, str(zone)))


def _in_utc(naive: datetime, zone: str) -> datetime:
    try:
        return naive.replace(tzinfo=ZoneInfo(zone)).astimezone(timezone.utc)
    except OverflowError:  # a year before 1 or after 9999
        return naive.replace(tzinfo=timezone.utc)


def _on_clock(moment: datetime, zone: str) -> datetime:
    try:
        return bound_on_clock(moment, zone)
    except OverflowError:
        return moment.replace(tzinfo=None)


def _seconds(moment: datetime) -> Decimal:
    return Decimal((moment - _EPOCH) // timedelta(microseconds=1)).scaleb(-6)
