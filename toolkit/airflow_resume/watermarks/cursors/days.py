"""The cursor over days."""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any, ClassVar, Literal

from airflow_resume.watermarks.cursors.cursor_type import SqlValues, refusal
from airflow_resume.watermarks.cursors.moments import is_moment
from airflow_resume.watermarks.cursors.timed import TimedCursor, unboxed
from airflow_resume.watermarks.cursors.zones import check_zone, clock_reading, earliest, lowest_from, zone_of

_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"


@dataclass(frozen=True)
class DateCursor(TimedCursor[date]):
    """Days, as the source has them in its column.

    The time zone says when a day is over: a window ends at the current day there. If the clock is set back over
    midnight, the window ends at the earlier day. The zone has no effect on what is stored, so it can be added, changed
    and left out at any time. If a mark has gone too far because of a wrong zone, set the mark back by a day once.

    A datetime is refused: its day depends on the time zone, which the user has to choose.

    Args:
        tz: the name of the time zone of the days; by default UTC.
    """

    type: ClassVar[str] = "date"
    plain: ClassVar[builtins.type] = date
    sql_values: ClassVar[SqlValues] = "days"

    tz: str | None = None

    def __post_init__(self) -> None:
        """Refuse an unknown time zone."""
        check_zone(self.tz)

    @property
    def home(self) -> str | None:
        """The time zone of the days."""
        return self.tz

    @property
    def zoneless(self) -> Literal["days"] | None:
        """`"days"` if the time zone is not known."""
        return "days" if self.tz is None else None

    @classmethod
    def restored(cls, definition: Mapping[str, Any]) -> DateCursor:  # noqa: ARG003
        """The cursor without a time zone, which has no effect on stored values."""
        return cls()

    @classmethod
    def is_meant_by(cls, initial: object) -> bool:
        """A day, or its ISO 8601 text."""
        return looks_like_day(initial) if isinstance(initial, str) else isinstance(unboxed(initial), date)

    def parse(self, value: object, *, what: str) -> date:
        """The value as a plain date.

        Raises:
            CursorTypeError: not a date or its ISO 8601 text.
        """
        if isinstance(value, str):
            is_day = looks_like_day(value)
            try:
                return date.fromisoformat(value.strip() if is_day else "")
            except ValueError as error:
                why = f"It is not an ISO 8601 date ({error})." if is_day else "It is not an ISO 8601 date."
                raise refusal(value, "Write it as 2026-01-01.", what=what, why=why) from error
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
        """The current day on `clock`, in the cursor's time zone, or else in the time zone of the clock's datetime."""
        moment = clock()
        if self.tz is not None and is_moment(moment) and moment.utcoffset() is not None:
            return lowest_from(moment, zone_of(self.tz)).date()
        return self.parse(moment.date() if is_moment(moment) else moment, what="now()")

    def of_moment(self, moment: datetime, *, up: bool = False) -> date:
        """The day of a point in time in the cursor's zone. With `up`, the next day, unless a day begins then."""
        zone = zone_of(self.tz)
        day = clock_reading(moment, zone).date()
        is_over = up and earliest(datetime.combine(day, time.min), zone) < moment
        return self.plus(day, timedelta(days=1)) if is_over else day

    def interval(self, start: datetime, end: datetime) -> tuple[date, date]:
        """The days that end in the interval: if intervals follow each other, each day belongs to one of them."""
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


def looks_like_day(text: str) -> bool:
    """Whether the text is written as a day, without a time."""
    return re.fullmatch(_DATE, text.strip()) is not None
