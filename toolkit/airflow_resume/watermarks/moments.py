"""Cursors over time: points in time, and days."""

from __future__ import annotations

import builtins
import re
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, TypeGuard, TypeVar
from zoneinfo import ZoneInfo

from airflow_resume.arguments import check_duration
from airflow_resume.watermarks.cursor_type import CursorType, Span, refusal

if TYPE_CHECKING:
    from pydantic import JsonValue

D = TypeVar("D", bound=date)

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt ](?P<minute>[0-9]{2}:[0-9]{2})(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]+))?)?"
    r" ?(?P<offset>[Zz]|[+-][0-9]{2}(?::?[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{6})?)?)?)?)?"
)


class _Counted(CursorType[D]):
    """What points in time and days have in common: a clock, and spans that are lengths of time."""

    has_spans: ClassVar[bool] = True
    has_clock: ClassVar[bool] = True

    @property
    @abstractmethod
    def _bounds(self) -> tuple[D, D]:
        """The first and the last value that Python has."""

    @property
    def no_span(self) -> timedelta:
        """No time at all."""
        return timedelta(0)

    def check_span(self, name: str, span: object) -> None:
        """Refuse a span that is not a length of time.

        Raises:
            CursorTypeError: not a timedelta, or for days one with a part of a day. ValueError: a negative one.
        """
        self._length(name, span)

    def plus(self, value: D, span: Span) -> D:
        """The value `span` later, or the last one there is."""
        length = self._length("span", span)
        try:
            return value + length
        except OverflowError:
            return self._bounds[1]

    def minus(self, value: D, span: Span) -> D:
        """The value `span` earlier, or the first one there is."""
        length = self._length("span", span)
        try:
            return value - length
        except OverflowError:
            return self._bounds[0]

    def _length(self, name: str, span: object) -> timedelta:
        if not isinstance(span, timedelta):
            raise refusal(span, f"Write a length of time, such as {name}=timedelta(days=1).", what=name)
        check_duration(name, span)
        return _plain_length(span)


# --- points in time -------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class DatetimeCursor(_Counted[datetime]):
    """Points in time, exact to the microsecond; what is finer is cut off.

    With a zone, values are aware, compared and kept in UTC, and counted with in UTC: `plus` of a day is 24 hours, in
    the night of a clock change too, and the two 02:30 of such a night are two points in time. `tz` is only how
    a window's bounds are shown to the body, so it can be changed at any time.

    Without a zone (`tz=None`), values are naive, as a column without a zone has them. Aware and naive values never
    mix. Where such a column has the time of a place, an hour repeats in autumn: give a `lookback` of more than it.

    Args:
        tz: the name of the zone of the window's bounds, or None.
        granularity: `floor` goes down to a multiple of it since 1970-01-01 00:00, in UTC: days are those of UTC.
    """

    type: ClassVar[str] = "datetime"
    plain: ClassVar[builtins.type] = datetime

    tz: str | None = "UTC"
    granularity: timedelta | None = None

    def __post_init__(self) -> None:
        """Refuse a zone that is none, and a granularity that nothing can be rounded to."""
        _check_zone(self.tz)
        if self.granularity is None:
            return
        check_duration("granularity", self.granularity)
        if not self.granularity:
            raise ValueError(
                "granularity must be more than nothing, such as timedelta(seconds=1).\nGive that, or leave it out."
            )
        object.__setattr__(self, "granularity", _plain_length(self.granularity))

    def definition(self) -> dict[str, JsonValue]:
        """Whether values have a zone. Which one is shown to the body does not matter: they are kept in UTC."""
        return {"type": self.type, "tz": None if self.tz is None else "UTC"}

    def parse(self, value: object, *, what: str) -> datetime:
        """The value as a plain datetime: in UTC, or naive where the cursor is.

        Raises:
            CursorTypeError: not a datetime or its ISO 8601 text, or an aware one for a naive cursor, or the reverse.
        """
        moment = _moment_of_text(value, what) if isinstance(value, str) else value
        if type(moment) is datetime and moment.tzinfo is timezone.utc and self.tz is not None and not moment.fold:
            return moment  # most are, and records are full of them
        if not _is_moment(moment):
            raise refusal(value, _remedy_for_other(value), what=what)
        moment = _plain(moment)
        return _naive(moment, value, what) if self.tz is None else _in_utc(moment, value, what)

    def dump(self, value: datetime) -> str:
        """ISO 8601."""
        return value.isoformat()

    def floor(self, value: datetime) -> datetime:
        """The value rounded down to a multiple of the granularity since 1970-01-01 00:00."""
        if self.granularity is None:
            return value
        epoch = datetime(1970, 1, 1, tzinfo=value.tzinfo)
        try:
            return epoch + (value - epoch) // self.granularity * self.granularity
        except OverflowError:
            return self._bounds[0]

    def present(self, value: datetime) -> datetime:
        """The same point in time in the cursor's zone.

        Python compares two datetimes of one zone by what their clocks show, so in the night of a clock change an
        earlier one may count as the later. Compare values as they come from `parse`, in UTC.
        """
        if self.tz is None or self.tz == "UTC":
            return value
        try:
            return value.astimezone(ZoneInfo(self.tz))
        except OverflowError:  # the zone's clock shows a year before 1 or after 9999
            return value

    def now(self, clock: Callable[[], object]) -> datetime:
        """The point in time of this moment on `clock`.

        Raises:
            CursorTypeError: it gives none, or an aware one to a naive cursor: this machine's clock knows nothing of
                the zone that the source's times are in.
        """
        moment = clock()
        if self.tz is None and _is_moment(moment) and moment.utcoffset() is not None:
            remedy = (
                "Give `now=` a clock of the source, such as a query of its LOCALTIMESTAMP, or name the zone of its"
                " times:"
                ' lambda: datetime.now(ZoneInfo("Europe/Berlin")).replace(tzinfo=None)'
            )
            raise refusal(moment, remedy, what="now()", why="The values of this watermark have no zone (tz=None).")
        return self.parse(moment, what="now()")

    @property
    def _bounds(self) -> tuple[datetime, datetime]:
        zone = None if self.tz is None else timezone.utc
        return datetime.min.replace(tzinfo=zone), datetime.max.replace(tzinfo=zone)


def looks_like_moment(text: str) -> bool:
    """Whether the text is written as a point in time, or as a day."""
    return _MOMENT.fullmatch(text.strip()) is not None


def _check_zone(tz: object) -> None:
    remedy = 'Write the name of a time zone, such as tz="Europe/Berlin", or tz=None for a column without zone.'
    if tz is not None and not isinstance(tz, str):
        raise TypeError(f"tz={tz!r} is not text.\n{remedy}")
    try:
        if tz is not None:
            ZoneInfo(tz)
    except (LookupError, ValueError, OSError) as error:  # OSError: the name of a folder of zones, such as Europe
        raise ValueError(f"tz={tz!r} is no time zone known here.\n{remedy}") from error


def _is_moment(value: object) -> TypeGuard[datetime]:
    return isinstance(value, datetime) and isinstance(value.year, int)  # a NaT of pandas has nan there


def _plain(moment: datetime) -> datetime:
    """A plain datetime whatever came in: a pendulum DateTime, say, counts by rules of its own."""
    day = (moment.year, moment.month, moment.day)
    clock = (moment.hour, moment.minute, moment.second, moment.microsecond)
    return datetime(*day, *clock, tzinfo=moment.tzinfo, fold=moment.fold)


def _plain_length(span: timedelta) -> timedelta:
    """A plain timedelta: added to a datetime, one of pandas would give a Timestamp."""
    return timedelta(days=span.days, seconds=span.seconds, microseconds=span.microseconds)


def _naive(moment: datetime, value: object, what: str) -> datetime:
    if moment.utcoffset() is None:
        return moment.replace(tzinfo=None, fold=0)
    raise refusal(
        value,
        "Take value.replace(tzinfo=None) once it is in the zone of the source, or use cursor=Cursor.datetime() where"
        " all values have one.",
        what=what,
        why="It has an offset from UTC, and the values of this watermark have none (tz=None).",
    )


def _in_utc(moment: datetime, value: object, what: str) -> datetime:
    if moment.utcoffset() is None:
        raise refusal(
            value,
            f"Write {moment.isoformat()}+00:00 if it is in UTC, or use cursor=Cursor.datetime(tz=None) if no value of"
            " the source has an offset.",
            what=what,
            why="It has no offset from UTC, so it is not a point in time.",
        )
    try:
        return moment.astimezone(timezone.utc).replace(fold=0)
    except OverflowError as error:
        why = "In UTC it is outside the years 1 to 9999."
        raise refusal(value, "Take a nearer one.", what=what, why=why) from error


def _moment_of_text(text: str, what: str) -> datetime:
    """Read the extended form of ISO 8601, and the same of it with every version of Python."""
    try:
        return _read(text)
    except ValueError as error:
        why = f"It is not ISO 8601 ({error})." if looks_like_moment(text) else "It is not ISO 8601."
        raise refusal(text, "Write it as 2026-01-01T00:00:00Z.", what=what, why=why) from error


@lru_cache(maxsize=512)  # a window parses the few texts of its records again and again
def _read(text: str) -> datetime:
    found = _MOMENT.fullmatch(text.strip())
    if found is None:
        raise ValueError(text)
    return datetime.fromisoformat(_normalised(found))


def _normalised(found: re.Match[str]) -> str:
    """As Python 3.10 reads it: with seconds, six digits of a fraction and a colon in the offset."""
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


# --- days -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DateCursor(_Counted[date]):
    """Days. A datetime is none: which day it is on depends on the zone, and that is for the user to say."""

    type: ClassVar[str] = "date"
    plain: ClassVar[builtins.type] = date

    def parse(self, value: object, *, what: str) -> date:
        """The value as a plain date.

        Raises:
            CursorTypeError: not a date or its ISO 8601 text.
        """
        if isinstance(value, str):
            return _day_of_text(value, what)
        if _is_moment(value):
            remedy = "Take its .date() in the zone that you mean, or use cursor=Cursor.datetime()."
            raise refusal(value, remedy, what=what, why="It has a time of day.")
        if not isinstance(value, date) or isinstance(value, datetime):
            remedy = "Give a date or its ISO 8601 text, such as 2026-01-01, or use the cursor= that fits."
            raise refusal(value, remedy, what=what)
        return date(value.year, value.month, value.day)

    def dump(self, value: date) -> str:
        """ISO 8601."""
        return value.isoformat()

    def now(self, clock: Callable[[], object]) -> date:
        """Today on `clock`; a clock that gives a datetime means the day in the zone it is given in."""
        moment = clock()
        return self.parse(moment.date() if _is_moment(moment) else moment, what="now()")

    def _length(self, name: str, span: object) -> timedelta:
        length = super()._length(name, span)
        if length % timedelta(days=1):
            remedy = f"Give whole days, such as {name}=timedelta(days=1)."
            raise refusal(span, remedy, what=name, why="Days are counted in whole ones.")
        return length

    @property
    def _bounds(self) -> tuple[date, date]:
        return date.min, date.max


def looks_like_day(text: str) -> bool:
    """Whether the text is written as a day, without a time."""
    return _DATE.fullmatch(text.strip()) is not None


def _day_of_text(text: str, what: str) -> date:
    try:
        return date.fromisoformat(text.strip() if looks_like_day(text) else "")
    except ValueError as error:
        why = f"It is not an ISO 8601 date ({error})." if looks_like_day(text) else "It is not an ISO 8601 date."
        raise refusal(text, "Write it as 2026-01-01.", what=what, why=why) from error
