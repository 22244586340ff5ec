"""Bounds on the clock of a zone: each row lies in one window, and none before its time."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from airflow_resume.watermarks.cursors.zones import latest_reading, lowest_from, now_on_clock

UTC = timezone.utc
ZONES = ["Europe/Berlin", "America/New_York", "Australia/Sydney", "Australia/Lord_Howe", "America/Havana", "Asia/Tokyo"]
STEP = timedelta(minutes=11, seconds=7, microseconds=3)


def naive(*fields: int) -> datetime:
    return datetime(*fields)  # type: ignore[arg-type]  # noqa: DTZ001


def changes_of(zone: str) -> list[datetime]:
    """The hours of a year, and beside each change of the clock every few minutes."""
    hours = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=number) for number in range(8760)]
    offsets = [hour.astimezone(ZoneInfo(zone)).utcoffset() for hour in hours]
    near = [
        hour + STEP * number
        for hour, before, after in zip(hours, offsets, offsets[1:], strict=False)
        if before != after
        for number in range(-12, 20)
    ]
    return sorted([*hours, *near])


def shown(moment: datetime, zone: str) -> datetime:
    return moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None)


@pytest.mark.parametrize("zone", ZONES)
def test_over_a_year_no_bound_goes_back_and_none_lies_after_what_is_still_to_come(zone: str) -> None:
    moments = changes_of(zone)
    bounds = [lowest_from(moment, ZoneInfo(zone)) for moment in moments]
    assert bounds == sorted(bounds)
    least = naive(9999, 12, 31)
    for moment, bound in zip(reversed(moments), reversed(bounds), strict=True):
        least = min(least, shown(moment, zone))
        assert bound <= least


@pytest.mark.parametrize("zone", ZONES)
def test_what_the_clock_shows_once_is_its_bound_and_is_read_back(zone: str) -> None:
    for moment in changes_of(zone):
        naive = shown(moment, zone)
        if latest_reading(naive, zone) == moment:
            assert lowest_from(moment, ZoneInfo(zone)) == naive
        else:
            assert lowest_from(moment, ZoneInfo(zone)) < naive + timedelta(hours=1)
            assert latest_reading(naive, zone) > moment


def test_in_autumn_the_bound_waits_for_the_second_hour() -> None:
    first = datetime(2026, 10, 25, 0, 30, 0, 5, tzinfo=UTC)
    assert [lowest_from(first + timedelta(hours=hour), ZoneInfo("Europe/Berlin")) for hour in (-1, 0, 1)] == [
        naive(2026, 10, 25, 1, 30, 0, 5),
        naive(2026, 10, 25, 2),
        naive(2026, 10, 25, 2, 30, 0, 5),
    ]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("delay", [timedelta(0), timedelta(minutes=2), timedelta(hours=3), timedelta(days=1)])
def test_a_delay_may_be_subtracted_from_now_in_the_nights_of_changes(zone: str, delay: timedelta) -> None:
    for moment in changes_of(zone):
        assert now_on_clock(moment, zone) - delay <= lowest_from(moment - delay, ZoneInfo(zone))


def test_the_ends_of_time_have_no_clock_in_every_zone() -> None:
    with pytest.raises(OverflowError):
        lowest_from(datetime.max.replace(tzinfo=UTC), ZoneInfo("Asia/Tokyo"))
