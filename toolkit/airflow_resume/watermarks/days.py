"""The cursor over days."""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import ClassVar

from airflow_resume.watermarks.cursor_type import refusal
from airflow_resume.watermarks.moments import is_moment
from airflow_resume.watermarks.timed import TimedCursor, unboxed
from airflow_resume.watermarks.zones import check_zone, earliest, lowest_from, shown, zone_of

_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"


@dataclass(frozen=True)
class DateCursor(TimedCursor[date]):
    """Days, those that the source has in its column.

    The zone says when a day is over: a window ends at today there, and where clocks go back over midnight, at the day
    that they go back to. It says nothing about what is kept, so it can be named, changed and left out at any time; but
    a mark that went too far in the wrong zone has to be set back by a day once.

    A datetime is no day: which one it is on depends on the zone, and that is for the user to say.

    Args:
        tz: the name of the zone whose days these are. Without one, today is that of UTC.
    """

    type: ClassVar[str] = "date"
    plain: ClassVar[builtins.type] = date

    tz: str | None = None

    def __post_init__(self) -> None:
        """Refuse a zone that is none."""
        check_zone(self.tz)

    @property
    def home(self) -> str | None:
        """The zone whose days these are."""
        return self.tz

    def parse(self, value: object, *, what: str) -> date:
        """The value as a plain date.

        Raises:
            CursorTypeError: not a date or its ISO 8601 text.
        """
        if isinstance(value, str):
            return _day_of_text(value, what)
        if is_moment(value):
            remedy = "Take its .date() in the zone that you mean, or use cursor=Cursor.datetime()."
            raise refusal(value, remedy, what=what, why="It has a time of day.")
        day = unboxed(value)
        if not isinstance(day, date) or isinstance(day, datetime):
            remedy = "Give a date or its ISO 8601 text, such as 2026-01-01, or use the cursor= that fits."
            raise refusal(value, remedy, what=what)
        return date(day.year, day.month, day.day)

    def dump(self, value: date) -> str:
        """ISO 8601."""
        return value.isoformat()

    def now(self, clock: Callable[[], object]) -> date:
        """Today on `clock`, in the cursor's zone; without one, in the zone that the clock gives its datetime in."""
        moment = clock()
        if self.tz is not None and is_moment(moment) and moment.utcoffset() is not None:
            return lowest_from(moment, zone_of(self.tz)).date()
        return self.parse(moment.date() if is_moment(moment) else moment, what="now()")

    def of_moment(self, moment: datetime, *, up: bool = False) -> date:
        """The day of a point in time, in the cursor's zone; `up`: the next one, unless it has just begun."""
        zone = zone_of(self.tz)
        day = shown(moment, zone).date()
        is_over = up and earliest(datetime.combine(day, time.min), zone) < moment
        return self.plus(day, timedelta(days=1)) if is_over else day

    def interval(self, start: datetime, end: datetime) -> tuple[date, date]:
        """The days that end in it: of intervals that follow each other, each day belongs to one."""
        return self.of_moment(start), self.of_moment(end)

    def _length(self, name: str, span: object) -> timedelta:
        length = super()._length(name, span)
        if length % timedelta(days=1):
            remedy = f"Give whole days, such as {name}=timedelta(days=1)."
            raise refusal(span, remedy, what=name, why="Days are counted in whole ones.")
        return length

    @property
    def _bounds(self) -> tuple[date, date]:
        return date.min, date.max


def lacks_zone(cursor: object) -> bool:
    """Whether it is a cursor of days, or begins with such, of which it is not known whose they are."""
    first, *_ = getattr(cursor, "parts", (cursor,))
    return isinstance(first, DateCursor) and first.tz is None


def looks_like_day(text: str) -> bool:
    """Whether the text is written as a day, without a time."""
    return re.fullmatch(_DATE, text.strip()) is not None


def _day_of_text(text: str, what: str) -> date:
    try:
        return date.fromisoformat(text.strip() if looks_like_day(text) else "")
    except ValueError as error:
        why = f"It is not an ISO 8601 date ({error})." if looks_like_day(text) else "It is not an ISO 8601 date."
        raise refusal(text, "Write it as 2026-01-01.", what=what, why=why) from error
