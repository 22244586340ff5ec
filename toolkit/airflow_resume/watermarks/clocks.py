"""Points in time and what a clock shows: the moment that a reading is taken for, and a *now* that skips no row.

A column without a zone shows 02:30 twice in the night of an autumn change. Nobody can tell the two apart, so a bound in
the first of the two hours is written as the beginning of the second one (`zones.lowest_from`): a row that shows 02:30
is loaded with the second hour, when it is certain that no more of them will come. The bounds never go back, so each row
lies in exactly one window.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from airflow_resume.watermarks.zones import lowest_from

_DAY = timedelta(days=1)


def now_on_clock(moment: datetime, tz: str) -> datetime:
    """The time of a zone's clock from which up to a day may be subtracted without skipping a row; naive.

    In the night of a spring change the clock goes from 02:00 to 03:00, so `03:01 - two minutes` would be 02:59, while
    two minutes ago it was 01:59: for a day the hour that was left out is not counted.
    """
    zone = ZoneInfo(tz)
    before: timedelta | None = (moment - _DAY).astimezone(zone).utcoffset()
    as_before = (moment.astimezone(timezone.utc) + (before or timedelta())).replace(tzinfo=None)
    return min(lowest_from(moment, zone), as_before)


def latest_reading(naive: datetime, tz: str) -> datetime:
    """The last point in time at which the clock of a zone shows this; in UTC.

    What it passes over in spring is read as if it had been set before: too early, so a row that shows it nevertheless
    belongs to the window whose condition finds it, or to an earlier one, and not to one after it.
    """
    plain = datetime.combine(naive.date(), naive.time())  # pandas refuses a time that comes twice
    return plain.replace(tzinfo=ZoneInfo(tz), fold=1).astimezone(timezone.utc)
