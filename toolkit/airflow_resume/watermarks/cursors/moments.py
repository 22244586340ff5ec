"""The cursor over points in time, and how they are read."""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeGuard

from airflow_resume.watermarks.cursors.cursor_type import Span, SqlValues, refusal
from airflow_resume.watermarks.cursors.timed import TimedCursor, checked_granularity, unboxed, whole_days
from airflow_resume.watermarks.cursors.zones import (
    begins_day,
    check_zone,
    clock_reading,
    earliest,
    plain_datetime,
    zone_of,
)

if TYPE_CHECKING:
    from pydantic import JsonValue

_MOMENT = (
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt ](?P<minute>[0-9]{2}:[0-9]{2})(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]+))?)?"
    r" ?(?P<offset>[Zz]|[+-][0-9]{2}(?::?[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{6})?)?)?)?)?"
)


@dataclass(frozen=True, kw_only=True)
class DatetimeCursor(TimedCursor[datetime]):
    """Points in time, exact to the microsecond; finer digits are cut off.

    With a time zone, values are aware. They are compared, kept and calculated with in UTC. So `plus` of a day is 24
    hours, even in the night of a clock change; and if 02:30 comes twice in such a night, these are two points in time.
    `tz` is the zone in which the body gets the bounds of a window, and the zone of the days of a granularity, a slice
    or a `max_span` of whole days. It has no effect on what is stored, so it can be changed at any time.

    Without a time zone (`tz=None`), values are naive, as a column without a zone has them, and their zone is not known.
    If it is known, `LocalCursor` is used. Aware and naive values never mix.

    Args:
        tz: the name of the zone of the window's bounds, or None.
        granularity: `floor` goes down to a multiple of it since 1970-01-01 00:00. Whole days are counted in `tz`, so
            that they begin at midnight there. Anything else is counted in UTC.
    """

    type: ClassVar[str] = "datetime"
    plain: ClassVar[builtins.type] = datetime
    sql_values: ClassVar[SqlValues] = "times"

    tz: str | None = "UTC"
    granularity: timedelta | None = None

    def __post_init__(self) -> None:
        """Refuse an unknown time zone, and a granularity that is not above 0."""
        check_zone(self.tz, without=", or tz=None for a column without zone")
        object.__setattr__(self, "granularity", checked_granularity(self.granularity))

    @classmethod
    def restored(cls, definition: Mapping[str, Any]) -> DatetimeCursor:
        """The cursor in UTC, or that of naive times."""
        return cls(tz=definition.get("tz", "UTC"))

    @classmethod
    def is_meant_by(cls, initial: object) -> bool:
        """A datetime, or its ISO 8601 text."""
        if isinstance(initial, str):
            found = re.fullmatch(_MOMENT, initial.strip())
            return found is not None and found["minute"] is not None  # without a time of day it is a day
        return isinstance(unboxed(initial), datetime)

    @property
    def zoneless(self) -> Literal["times"] | None:
        """`"times"` if values are naive."""
        return "times" if self.tz is None else None

    @property
    def is_aware(self) -> bool:
        """Whether values have a zone."""
        return self.tz is not None

    def definition(self) -> dict[str, JsonValue]:
        """Whether values have a time zone. Which one does not matter, as they are stored in UTC."""
        return {"type": self.type, "tz": None if self.tz is None else "UTC"}

    def parse(self, value: object, *, what: str) -> datetime:
        """The value as a plain datetime: in UTC, or naive if the cursor is naive.

        Raises:
            CursorTypeError: not a datetime or its ISO 8601 text, or an aware one for a naive cursor, or the reverse.
        """
        moment = _moment_of_text(value, what) if isinstance(value, str) else value
        if type(moment) is datetime and moment.tzinfo is timezone.utc and self.tz is not None and not moment.fold:
            return moment  # the usual case
        moment = read_moment(moment, what)
        return naive(moment, value, what, where="tz=None") if self.tz is None else _in_utc(moment, value, what)

    def dump(self, value: datetime) -> str:
        """ISO 8601."""
        return value.isoformat()

    def floor(self, value: datetime) -> datetime:
        """The value rounded down to a multiple of the granularity since 1970-01-01 00:00."""
        if self.granularity is None:
            return value
        days = whole_days(self.granularity)
        try:
            if days and self._has_days_of_its_own:
                zone = zone_of(self.tz)
                passed = (value.astimezone(zone).date() - _FIRST_DAY).days
                day = _FIRST_DAY + timedelta(days=passed // days * days)
                return earliest(datetime.combine(day, time.min), zone)
            return floored(value, self.granularity)
        except OverflowError:
            return self._bounds[0]

    def step(self, value: datetime, span: Span) -> datetime:
        """The value `span` later; for whole days, the same time of day in the cursor's time zone."""
        days = whole_days(self._length("span", span))
        if days and self._has_days_of_its_own:
            zone = zone_of(self.tz)
            try:
                reading = clock_reading(value, zone)
                reading = begins_day(value, reading, zone) or reading
                later = earliest(reading + timedelta(days=days), zone)
            except OverflowError:
                return self._bounds[1]
            if later > value:
                return later
        return self.plus(value, span)

    def present(self, value: datetime) -> datetime:
        """The same point in time in the cursor's zone.

        Python compares two datetimes of the same zone by their clocks, so in the night of a clock change an earlier one
        may seem later. Compare values as they come from `parse`, in UTC.
        """
        if self.tz is None or self.tz == "UTC":
            return value
        try:
            return value.astimezone(zone_of(self.tz))
        except OverflowError:  # the zone's clock shows a year before 1 or after 9999
            return value

    def now(self, clock: Callable[[], object]) -> datetime:
        """The current time on `clock`.

        Raises:
            CursorTypeError: `clock` does not give a point in time; or it gives an aware one and the cursor is naive.
            That cannot be converted, as the time zone of the source is not known.
        """
        moment = clock()
        if self.tz is None and is_moment(moment) and moment.utcoffset() is not None:
            remedy = (
                'Say in which zone its times are, such as cursor=Cursor.datetime("Europe/Berlin", naive=True), or give'
                " `now=` a clock of the source, such as a query of its LOCALTIMESTAMP."
            )
            raise refusal(moment, remedy, what="now()", why="The values of this watermark have no zone (tz=None).")
        return self.parse(moment, what="now()")

    def of_moment(self, moment: datetime, *, up: bool = False) -> datetime:  # noqa: ARG002  exact as it is
        """The point in time in UTC; for a naive cursor, without its zone."""
        utc = moment.astimezone(timezone.utc)
        return plain_datetime(utc if self.tz is not None else utc.replace(tzinfo=None))

    @property
    def _has_days_of_its_own(self) -> bool:
        return self.tz is not None and self.tz != "UTC"

    @property
    def _bounds(self) -> tuple[datetime, datetime]:
        zone = None if self.tz is None else timezone.utc
        return datetime.min.replace(tzinfo=zone), datetime.max.replace(tzinfo=zone)


_FIRST_DAY = date(1970, 1, 1)


def floored(value: datetime, granularity: timedelta) -> datetime:
    """The value rounded down to a multiple of `granularity` since 1970-01-01 00:00, as its own clock counts.

    Raises:
        OverflowError: that is before the year 1.
    """
    epoch = datetime(1970, 1, 1, tzinfo=value.tzinfo)
    return epoch + (value - epoch) // granularity * granularity


# --- reading ------------------------------------------------------------------------------------------------------


def looks_like_moment(text: str) -> bool:
    """Whether the text is written as a point in time, or as a day."""
    return re.fullmatch(_MOMENT, text.strip()) is not None


def read_moment(value: object, what: str) -> datetime:
    """A plain datetime, aware or naive as it was given.

    Raises:
        CursorTypeError: not a datetime or its ISO 8601 text.
    """
    moment = _moment_of_text(value, what) if isinstance(value, str) else unboxed(value)
    if not is_moment(moment):
        raise refusal(value, _remedy_for_other(value), what=what)
    return plain_datetime(moment)


def moment_with_offset(value: object) -> datetime | None:
    """The point in time in a text with an offset from UTC; None for anything else."""
    found = re.fullmatch(_MOMENT, value.strip()) if isinstance(value, str) else None
    if found is None or not found["offset"]:
        return None
    try:
        return datetime.fromisoformat(_normalised(found))
    except ValueError:
        return None


def is_moment(value: object) -> TypeGuard[datetime]:
    """Whether it is a datetime; NaT of pandas is not, as its year is NaN."""
    return isinstance(value, datetime) and isinstance(value.year, int)


def naive(moment: datetime, value: object, what: str, *, where: str) -> datetime:
    """The naive datetime; `where` is the option that made the cursor naive.

    Raises:
        CursorTypeError: an aware one.
    """
    if moment.utcoffset() is None:
        return moment.replace(tzinfo=None, fold=0)
    bare = "Write it without" if isinstance(value, str) else "Take value.replace(tzinfo=None)"
    raise refusal(
        value,
        f"{bare} once it is in the time zone of the source, or use cursor=Cursor.datetime() where all are aware.",
        what=what,
        why=f"It has an offset from UTC, so it is aware, and the values of this watermark are naive ({where}).",
    )


def _in_utc(moment: datetime, value: object, what: str) -> datetime:
    if moment.utcoffset() is None:
        raise refusal(
            value,
            f"Write {moment.isoformat()}+00:00 if its time zone is UTC. If no value of the source has an offset, use"
            ' cursor=Cursor.datetime("Europe/Berlin", naive=True) with their time zone, or Cursor.datetime(tz=None)'
            " where that is not known.",
            what=what,
            why="It has no offset from UTC and no time zone: it is naive, and the values of this watermark are aware.",
        )
    try:
        return moment.astimezone(timezone.utc).replace(fold=0)
    except OverflowError as error:
        why = "In UTC it is outside the years 1 to 9999."
        raise refusal(value, "Use a time within these years.", what=what, why=why) from error


def _moment_of_text(text: str, what: str) -> datetime:
    """Read the extended form of ISO 8601, in the same way with every version of Python."""
    try:
        return _read(text)
    except ValueError as error:
        why = f"It is not ISO 8601 ({error})." if looks_like_moment(text) else "It is not ISO 8601."
        raise refusal(text, "Write it as 2026-01-01T00:00:00Z.", what=what, why=why) from error


@lru_cache(maxsize=512)  # the few texts of a record are parsed many times
def _read(text: str) -> datetime:
    found = re.fullmatch(_MOMENT, text.strip())
    if found is None:
        raise ValueError(text)
    return datetime.fromisoformat(_normalised(found))


def _normalised(found: re.Match[str]) -> str:
    """The text as Python 3.10 can read it: with seconds, six digits of a fraction, and a colon in the offset."""
    second = f"{found['second'] or '00'}.{(found['fraction'] or '')[:6]:0<6}"
    offset = found["offset"] or ""
    if offset in {"Z", "z"}:
        offset = "+00:00"
    elif offset and ":" not in offset:
        offset = f"{offset[:3]}:{offset[3:] or '00'}"
    return f"{found['date']}T{found['minute'] or '00:00'}:{second}{offset}"


def _remedy_for_other(value: object) -> str:
    if isinstance(value, date) and not isinstance(value, datetime):
        return "Give a point in time, such as datetime(2026, 1, 1, tzinfo=timezone.utc), or use cursor=Cursor.date()."
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return "Give a datetime: datetime.fromtimestamp(seconds, timezone.utc) makes one of a Unix time."
    return "Give a datetime or its ISO 8601 text, such as 2026-01-01T00:00:00Z, or use the cursor= that fits."
