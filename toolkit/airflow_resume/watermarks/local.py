"""The cursor over times without a zone, of a zone that is known: what its clocks show."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar

from airflow_resume.watermarks.cursor_type import Span
from airflow_resume.watermarks.moments import floored, is_moment, naive, read_moment
from airflow_resume.watermarks.timed import TimedCursor, checked_granularity, whole_days
from airflow_resume.watermarks.zones import (
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
    """Naive times, as a column without a zone has them, of which it is known what zone's clocks showed them.

    Values are compared, kept and handed to the body as the column has them, so a condition of a query needs no zone,
    and each value lies in one window. What the zone is for is *now*, and lengths of time.

    Where the clock is set back, the same readings come twice. Before it is, a window ends at the reading that it will
    be set back to: what lies at it or above it may still come. So both hours with these readings are in one window, a
    row waits up to the length of the change, and none is passed over. A length of time is one of a stopwatch: an hour
    before 03:10, where the clock went from 02:00 to 03:00, is 01:10. Where a reading means two moments, `minus` counts
    from the first and `plus` from the second.

    Args:
        tz: the name of the zone.
        granularity: `floor` goes down to a multiple of it since 1970-01-01 00:00 on the zone's clock.
    """

    type: ClassVar[str] = "datetime"
    plain: ClassVar[builtins.type] = datetime

    tz: str = "UTC"
    granularity: timedelta | None = None

    def __post_init__(self) -> None:
        """Refuse a zone that is none, and a granularity that nothing can be rounded to."""
        check_zone(self.tz)
        object.__setattr__(self, "granularity", checked_granularity(self.granularity))

    @property
    def home(self) -> str:
        """The zone."""
        return self.tz

    def definition(self) -> dict[str, JsonValue]:
        """That of naive times of an unknown zone: what is kept is the same, and the zone can be named at any time."""
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
        """The lowest reading that the zone's clock shows from this moment on.

        A clock that gives naive times is one of the source's. Where it shows a reading that comes twice, the reading
        that it is set back to counts until the second of them is over.
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
        """A reading that is not above any that comes later; `up`: above all that came before."""
        zone = zone_of(self.tz)
        reading = (highest_until if up else lowest_from)(moment, zone)
        return begins_day(moment, reading, zone) or reading

    def plus(self, value: datetime, span: Span) -> datetime:
        """The reading `span` after the last moment that has this one, or the last one there is."""
        length = self._length("span", span)
        try:
            return self.of_moment(latest(value, zone_of(self.tz)) + length) if length else value
        except OverflowError:
            return super().plus(value, span)

    def step(self, value: datetime, span: Span) -> datetime:
        """As `plus`; whole days are those of the calendar."""
        return super().plus(value, span) if whole_days(self._length("span", span)) else self.plus(value, span)

    def minus(self, value: datetime, span: Span) -> datetime:
        """The reading `span` before the first moment that has this one, or the first one there is."""
        length = self._length("span", span)
        try:
            return self.of_moment(earliest(value, zone_of(self.tz)) - length) if length else value
        except OverflowError:
            return super().minus(value, span)

    @property
    def _bounds(self) -> tuple[datetime, datetime]:
        return datetime.min, datetime.max  # noqa: DTZ901  without a zone
