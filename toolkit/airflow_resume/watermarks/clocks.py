"""A point in time on the clock of a zone, where an hour may come twice, so that no row lies before a bound too early.

A column without a zone shows 02:30 twice in the night of an autumn change. Nobody can tell the two apart, so a bound in
the first of the two hours is written as the beginning of the second one: a row that shows 02:30 is loaded with the
second hour, when it is certain that no more of them will come. The bounds never go back, so each row lies in exactly
one window.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)


def bound_on_clock(moment: datetime, tz: str) -> datetime:
    """The least that the clock of a zone shows from `moment` on; naive.

    Raises:
        OverflowError: it shows a year before 1 or after 9999.
    """
    zone = ZoneInfo(tz)
    shown = moment.astimezone(zone)
    naive = shown.replace(tzinfo=None, fold=0)
    again = naive.replace(tzinfo=zone, fold=1)
    if shown.fold or again.utcoffset() == shown.utcoffset():
        return naive
    return _set_back(moment.astimezone(timezone.utc), again.astimezone(timezone.utc), zone)


def _set_back(before: datetime, after: datetime, zone: ZoneInfo) -> datetime:
    """What the clock shows when it has been set back, between two points in time that show the same."""
    before, after = before.replace(microsecond=0), after.replace(microsecond=0)
    old = before.astimezone(zone).utcoffset()
    while after - before > _SECOND:
        middle = (before + (after - before) / 2).replace(microsecond=0)
        if middle.astimezone(zone).utcoffset() == old:
            before = middle
        else:
            after = middle
    return after.astimezone(zone).replace(tzinfo=None, fold=0)


def now_on_clock(moment: datetime, tz: str) -> datetime:
    """The time of a zone's clock from which up to a day may be subtracted without skipping a row; naive.

    In the night of a spring change the clock goes from 02:00 to 03:00, so `03:01 - two minutes` would be 02:59, while
    two minutes ago it was 01:59: for a day the hour that was left out is not counted.
    """
    zone = ZoneInfo(tz)
    before: timedelta | None = (moment - _DAY).astimezone(zone).utcoffset()
    as_before = (moment.astimezone(timezone.utc) + (before or timedelta())).replace(tzinfo=None)
    return min(bound_on_clock(moment, tz), as_before)


def latest_reading(naive: datetime, tz: str) -> datetime:
    """The last point in time at which the clock of a zone shows this; in UTC."""
    plain = datetime.combine(naive.date(), naive.time())  # pandas refuses a time that comes twice
    return plain.replace(tzinfo=ZoneInfo(tz), fold=1).astimezone(timezone.utc)
