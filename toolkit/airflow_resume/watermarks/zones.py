"""Readings of a time zone's clocks, and the moments that they mean, exact where clocks are set back or forward.

Where clocks are set back, they show the same times twice: readings of the clock do not grow with time there, and of a
reading it is not known which of two moments it was. Where they are set forward, some readings never come. Everything
here errs to one side, and says to which.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone, tzinfo
from datetime import time as dt_time
from zoneinfo import ZoneInfo

UTC = timezone.utc
_SECOND = timedelta(seconds=1)


def check_zone(tz: object, *, without: str = "") -> None:
    """Refuse what is not the name of a time zone; None is fine.

    Args:
        tz: to check.
        without: what `tz=None` means, for the remedy.

    Raises:
        TypeError: not text. ValueError: no zone known here.
    """
    if tz is None or tz == "UTC":  # as most are: nothing is looked up when a Dag file is read
        return
    remedy = f'Write the name of a time zone, such as tz="Europe/Berlin"{without}.'
    if not isinstance(tz, str):
        raise TypeError(f"tz={tz!r} is not text.\n{remedy}")
    try:
        ZoneInfo(tz)
    except (LookupError, ValueError, OSError) as error:  # OSError: the name of a folder of zones, such as Europe
        raise ValueError(f"tz={tz!r} is no time zone known here.\n{remedy}") from error


def zone_of(tz: str | None) -> tzinfo:
    """The zone of this name; UTC where there is none."""
    return UTC if tz is None or tz == "UTC" else ZoneInfo(tz)


def host_zone() -> str | None:
    """The names of this machine's time zone, as its clock shows them; None where it is UTC all year."""
    return "/".join(dict.fromkeys(time.tzname)) if time.timezone or time.daylight else None


def plain_datetime(moment: datetime) -> datetime:
    """A plain datetime whatever came in: a pendulum DateTime, say, counts by rules of its own."""
    day = (moment.year, moment.month, moment.day)
    clock = (moment.hour, moment.minute, moment.second, moment.microsecond)
    return datetime(*day, *clock, tzinfo=moment.tzinfo, fold=moment.fold)


def shown(moment: datetime, zone: tzinfo) -> datetime:
    """What the zone's clock shows at the moment, naive.

    Raises:
        OverflowError: a year before 1 or after 9999.
    """
    return plain_datetime(moment.astimezone(zone)).replace(tzinfo=None, fold=0)


def earliest(reading: datetime, zone: tzinfo) -> datetime:
    """The first moment at which the zone's clock shows this reading, or passes over it; in UTC.

    Raises:
        OverflowError: in UTC it is outside the years 1 to 9999.
    """
    first, second = _moments_of(reading, zone)
    return first if first <= second else _turn(second, first, zone)


def latest(reading: datetime, zone: tzinfo) -> datetime:
    """The last moment at which the zone's clock shows this reading, or passes over it; in UTC.

    Raises:
        OverflowError: in UTC it is outside the years 1 to 9999.
    """
    first, second = _moments_of(reading, zone)
    return second if first <= second else _turn(second, first, zone)


def lowest_from(moment: datetime, zone: tzinfo) -> datetime:
    """The lowest reading that the zone's clock shows at `moment` or later: naive. It never goes down with time.

    It is what the clock shows but for the hour before it is set back: then it is the time that it is set back to.

    Raises:
        OverflowError: the clock shows a year before 1 or after 9999.
    """
    moment = plain_datetime(moment)
    local = moment.astimezone(zone)
    back = _set_back(local)
    if back and not local.fold:
        local = _turn(moment, moment + back, zone).astimezone(zone)
    return local.replace(tzinfo=None, fold=0)


def highest_until(moment: datetime, zone: tzinfo) -> datetime:
    """A reading above all that the zone's clock showed before `moment`: naive. It never goes down with time.

    It is what the clock shows but for the hour after it was set back: then it is the time that it was set back at.

    Raises:
        OverflowError: the clock shows a year before 1 or after 9999.
    """
    moment = plain_datetime(moment)
    local = moment.astimezone(zone)
    back = _set_back(local)
    if back and local.fold:
        local = _turn(moment - back, moment, zone).astimezone(zone) + back
    return local.replace(tzinfo=None, fold=0)


def begins_day(moment: datetime, reading: datetime, zone: tzinfo) -> datetime | None:
    """The midnight that a day begins with at `moment`, though the clock may be set over it then; else None.

    Args:
        moment: aware.
        reading: of the zone's clock at it.
        zone: of the clock.
    """
    midnight = datetime.combine(reading.date(), dt_time.min)
    return midnight if earliest(midnight, zone) == moment else None


def _moments_of(reading: datetime, zone: tzinfo) -> tuple[datetime, datetime]:
    """In UTC, with the offset from before a change of the clock, and with the one from after it."""
    first, second = (reading.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    return first.replace(fold=0), second.replace(fold=0)


def _set_back(local: datetime) -> timedelta:
    """By how much the clock is set back, where it shows this reading twice; else nothing."""
    before, after = (local.replace(fold=fold).utcoffset() or timedelta(0) for fold in (0, 1))
    return max(before - after, timedelta(0))


def _turn(before: datetime, after: datetime, zone: tzinfo) -> datetime:
    """The moment between the two at which the clock is set, in UTC; offsets change at whole seconds."""
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
