"""The cursor over times without a zone, as the clocks of a known time zone show them."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_resume.watermarks.cursors.cursor_type import Span, SqlValues
from airflow_resume.watermarks.cursors.moments import DatetimeCursor, floored, is_moment, naive, read_moment
from airflow_resume.watermarks.cursors.timed import TimedCursor, checked_granularity, whole_days
from airflow_resume.watermarks.cursors.zones import (
    begins_day,
    check_zone,
    earliest,
    highest_until,
    latest,
    lowest_from,
    zone_of,
)

if TYPE_CHECKING:
    from pydantic import JsonValue


@dataclass(frozen=True, kw_only=True)
class LocalCursor(TimedCursor[datetime]):
    """Naive times of a known time zone, as a column without a zone has them.

    Values are compared, kept and given to the body as the column has them. So the condition of a query needs no zone,
    and each value belongs to one window. The zone is used for *now* and for lengths of time.

    When the clock is set back, it shows the same times twice. In the hour before the change, a window ends at the time
    to which the clock will be set back, because rows with that time or a later one may still come. So both hours with
    the same times are in one window: a row waits at most for the length of the change, and none is skipped. Lengths of
    time are the real ones: if the clock went from 02:00 to 03:00, an hour before 03:10 is 01:10. If a time means two
    moments, `minus` counts from the first and `plus` from the second.

    Args:
        tz: the name of the zone.
        granularity: `floor` goes down to a multiple of it since 1970-01-01 00:00 on the zone's clock.
    """

    type: ClassVar[str] = "datetime"
    plain: ClassVar[builtins.type] = datetime
    sql_values: ClassVar[SqlValues] = "times"

    tz: str = "UTC"
    granularity: timedelta | None = None

    def __post_init__(self) -> None:
        """Refuse an unknown time zone, and a granularity that is not above 0."""
        check_zone(self.tz)
        object.__setattr__(self, "granularity", checked_granularity(self.granularity))

    @property
    def home(self) -> str:
        """The time zone."""
        return self.tz

    @classmethod
    def restored(cls, definition: Mapping[str, Any]) -> DatetimeCursor:
        """The cursor of naive times of an unknown zone, because an event does not name the zone."""
        return DatetimeCursor.restored(definition)

    def definition(self) -> dict[str, JsonValue]:
        """The same as for naive times of an unknown zone. So the zone can be added at any time."""
        return {"type": self.type, "tz": None}

    def parse(self, value: object, *, what: str) -> datetime:
        """The value as a plain naive datetime.

        Raises:
            CursorTypeError: not a datetime or its ISO 8601 text, or an aware one.
        """
        return naive(read_moment(value, what), value, what, where="naive=True")

    def dump(self, value: datetime) -> str:
        """ISO 8601."""
        return value.isoformat()

    def floor(self, value: datetime) -> datetime:
        """The value rounded down to a multiple of the granularity since 1970-01-01 00:00."""
        try:
            return value if self.granularity is None else floored(value, self.granularity)
        except OverflowError:
            return self._bounds[0]

    def now(self, clock: Callable[[], object]) -> datetime:
        """The lowest time that the zone's clock shows from now on.

        A naive time from `clock` is a time of this zone. If the zone's clock shows it twice, the result is the time to
        which the clock is set back.
        """
        moment = clock()
        if not is_moment(moment) or moment.utcoffset() is None:
            reading = self.parse(moment, what="now()")
            try:
                moment = earliest(reading, zone_of(self.tz))
            except OverflowError:
                return reading
        return self.of_moment(moment)

    def of_moment(self, moment: datetime, *, up: bool = False) -> datetime:
        """A time that is not above any that the clock shows later; with `up`, one above all that it showed before."""
        zone = zone_of(self.tz)
        reading = (highest_until if up else lowest_from)(moment, zone)
        return begins_day(moment, reading, zone) or reading

    def plus(self, value: datetime, span: Span) -> datetime:
        """The time `span` after the last moment at which the clock shows this one, or the greatest time."""
        length = self._length("span", span)
        try:
            return self.of_moment(latest(value, zone_of(self.tz)) + length) if length else value
        except OverflowError:
            return super().plus(value, span)

    def step(self, value: datetime, span: Span) -> datetime:
        """As `plus`; whole days are those of the calendar."""
        return super().plus(value, span) if whole_days(self._length("span", span)) else self.plus(value, span)

    def minus(self, value: datetime, span: Span) -> datetime:
        """The time `span` before the first moment at which the clock shows this one, or the least time."""
        length = self._length("span", span)
        try:
            return self.of_moment(earliest(value, zone_of(self.tz)) - length) if length else value
        except OverflowError:
            return super().minus(value, span)

    @property
    def _bounds(self) -> tuple[datetime, datetime]:
        return datetime.min, datetime.max  # noqa: DTZ901  without a zone
