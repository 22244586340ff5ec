"""The times that the clocks of a time zone show, and the moments that they mean, also when clocks are changed.

When a clock is set back, it shows the same times twice. So the times that it shows do not always grow, and a time may
mean two moments. When a clock is set forward, it skips some times. Each function here rounds to one side, and says to
which.

A column without a zone has 02:30 twice in the night of an autumn change, and the two cannot be told apart. So a bound
in the first of the two hours is written as the beginning of the second one (`lowest_from`): rows with 02:30 are loaded
with the second hour, when it is certain that no more of them will come. Bounds never go back, so each row belongs to
exactly one window.

A *reading* is a time that a clock shows: a naive datetime.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone, tzinfo
from datetime import time as dt_time
from zoneinfo import ZoneInfo

UTC = timezone.utc
_SECOND = timedelta(seconds=1)


def check_zone(tz: object, *, without: str = "") -> None:
    """Refuse what is not the name of a time zone; None is allowed.

    Args:
        tz: to check.
        without: the end of the remedy, which says what to give instead of a time zone.

    Raises:
        TypeError: not text. ValueError: an unknown time zone.
    """
    if tz is None or tz == "UTC":  # the usual case: nothing is looked up when a Dag file is read
        return
    remedy = f'Write the name of a time zone, such as tz="Europe/Berlin"{without}.'
    if not isinstance(tz, str):
        raise TypeError(f"tz={tz!r} is not text.\n{remedy}")
    try:
        ZoneInfo(tz)
    except (LookupError, ValueError, OSError) as error:  # OSError: the name of a folder of zones, such as Europe
        raise ValueError(f"tz={tz!r} is not a known time zone.\n{remedy}") from error


def zone_of(tz: str | None) -> tzinfo:
    """The zone with this name; UTC for None."""
    return UTC if tz is None or tz == "UTC" else ZoneInfo(tz)


def host_zone() -> str | None:
    """The names of this machine's time zone; None if it is UTC all year."""
    return "/".join(dict.fromkeys(time.tzname)) if time.timezone or time.daylight else None


def plain_datetime(moment: datetime) -> datetime:
    """A plain datetime from any subclass, such as a pendulum DateTime, which has rules of its own for adding."""
    day = (moment.year, moment.month, moment.day)
    clock = (moment.hour, moment.minute, moment.second, moment.microsecond)
    return datetime(*day, *clock, tzinfo=moment.tzinfo, fold=moment.fold)


def clock_reading(moment: datetime, zone: tzinfo) -> datetime:
    """What the zone's clock shows at the moment, naive.

    Raises:
        OverflowError: a year before 1 or after 9999.
    """
    return plain_datetime(moment.astimezone(zone)).replace(tzinfo=None, fold=0)


def earliest(reading: datetime, zone: tzinfo) -> datetime:
    """The first moment at which the zone's clock shows this reading, or skips it; in UTC.

    Raises:
        OverflowError: in UTC it is outside the years 1 to 9999.
    """
    first, second = _moments_of(reading, zone)
    return first if first <= second else _clock_change(second, first, zone)


def latest(reading: datetime, zone: tzinfo) -> datetime:
    """The last moment at which the zone's clock shows this reading, or skips it; in UTC.

    Raises:
        OverflowError: in UTC it is outside the years 1 to 9999.
    """
    first, second = _moments_of(reading, zone)
    return second if first <= second else _clock_change(second, first, zone)


def lowest_from(moment: datetime, zone: tzinfo) -> datetime:
    """The lowest reading that the zone's clock shows at `moment` or later: naive. It never goes down with time.

    It is what the clock shows, except in the hour before it is set back: then it is the time to which it is set back.

    Raises:
        OverflowError: the clock shows a year before 1 or after 9999.
    """
    moment = plain_datetime(moment)
    local = moment.astimezone(zone)
    back = _set_back(local)
    if back and not local.fold:
        local = _clock_change(moment, moment + back, zone).astimezone(zone)
    return local.replace(tzinfo=None, fold=0)


def highest_until(moment: datetime, zone: tzinfo) -> datetime:
    """A reading above all that the zone's clock showed before `moment`: naive. It never goes down with time.

    It is what the clock shows, except in the hour after it was set back: then it is the time at which it was set back.

    Raises:
        OverflowError: the clock shows a year before 1 or after 9999.
    """
    moment = plain_datetime(moment)
    local = moment.astimezone(zone)
    back = _set_back(local)
    if back and local.fold:
        local = _clock_change(moment - back, moment, zone).astimezone(zone) + back
    return local.replace(tzinfo=None, fold=0)


def begins_day(moment: datetime, reading: datetime, zone: tzinfo) -> datetime | None:
    """Midnight, if a day begins at `moment`, even if a clock change skips midnight; else None.

    Args:
        moment: aware.
        reading: of the zone's clock at it.
        zone: of the clock.
    """
    midnight = datetime.combine(reading.date(), dt_time.min)
    return midnight if earliest(midnight, zone) == moment else None


def now_on_clock(moment: datetime, tz: str) -> datetime:
    """The current time on a zone's clock, from which up to a day may be subtracted without skipping a row; naive.

    In the night of a spring change the clock goes from 02:00 to 03:00. Two minutes before 03:01 it was 01:59, while
    `03:01 - two minutes` is 02:59. So for a day after the change, the result is an hour earlier.
    """
    zone = ZoneInfo(tz)
    before: timedelta | None = (moment - timedelta(days=1)).astimezone(zone).utcoffset()
    as_before = (moment.astimezone(UTC) + (before or timedelta())).replace(tzinfo=None)
    return min(lowest_from(moment, zone), as_before)


def latest_reading(naive: datetime, tz: str) -> datetime:
    """The last point in time at which the clock of a zone shows this time; in UTC.

    A time that the clock skips in spring is read with the offset after the change, so the result is too early. A row
    with such a time then belongs to the window whose condition finds it, or to an earlier window, and never to a later
    one.
    """
    plain = datetime.combine(naive.date(), naive.time())  # pandas refuses a time that comes twice
    return plain.replace(tzinfo=ZoneInfo(tz), fold=1).astimezone(UTC)


def _moments_of(reading: datetime, zone: tzinfo) -> tuple[datetime, datetime]:
    """The reading in UTC: with the offset before a change of the clock, and with the one after it."""
    first, second = (reading.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    return first.replace(fold=0), second.replace(fold=0)


def _set_back(local: datetime) -> timedelta:
    """By how much the clock is set back, if it shows this reading twice; else 0."""
    before, after = (local.replace(fold=fold).utcoffset() or timedelta(0) for fold in (0, 1))
    return max(before - after, timedelta(0))


def _clock_change(before: datetime, after: datetime, zone: tzinfo) -> datetime:
    """The moment between the two at which the clock is changed, in UTC; offsets change at whole seconds."""
    low = before.astimezone(UTC).replace(microsecond=0)
    steps = -(-(after - low) // _SECOND)
    offset = (low + steps * _SECOND).astimezone(zone).utcoffset()
    lower, upper = 0, steps
    while upper - lower > 1:
        middle = (lower + upper) // 2
        if (low + middle * _SECOND).astimezone(zone).utcoffset() == offset:
            upper = middle
        else:
            lower = middle
    return low + upper * _SECOND
