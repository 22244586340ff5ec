"""What clocks show, in every zone there is, around every change of them."""

from __future__ import annotations

import time
from datetime import date, datetime, timedelta, timezone
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_resume.watermarks.cursors.cursor import Cursor
from airflow_resume.watermarks.cursors.zones import earliest, highest_until, host_zone, latest, lowest_from

UTC = timezone.utc
MICROSECOND = timedelta(microseconds=1)
# Changes at midnight and over it, of half an hour and of two, of a whole day, back in summer, and none.
NAMES = [
    "Africa/Abidjan", "Africa/Cairo", "Africa/Casablanca", "Africa/Monrovia", "America/Asuncion", "America/Caracas",
    "America/Goose_Bay", "America/Havana", "America/Juneau", "America/Los_Angeles", "America/New_York",
    "America/Santiago", "America/St_Johns", "Antarctica/Troll", "Asia/Amman", "Asia/Beirut", "Asia/Gaza",
    "Asia/Kathmandu", "Asia/Kolkata", "Asia/Manila", "Asia/Pyongyang", "Asia/Tehran", "Asia/Tokyo", "Atlantic/Azores",
    "Australia/Lord_Howe", "Australia/Sydney", "Europe/Berlin", "Europe/Dublin", "Europe/Lisbon", "Pacific/Apia",
    "Pacific/Chatham", "Pacific/Kwajalein", "UTC",
]  # fmt: skip
BERLIN, SANTIAGO, LORD_HOWE = ZoneInfo("Europe/Berlin"), ZoneInfo("America/Santiago"), ZoneInfo("Australia/Lord_Howe")


def utc(*fields: int) -> datetime:
    return datetime(*fields, tzinfo=UTC)  # type: ignore[arg-type,misc]


def naive(*fields: int) -> datetime:
    return datetime(*fields)  # type: ignore[arg-type]  # noqa: DTZ001


def changes_of(name: str) -> list[datetime]:
    """Where its clock is set, to the second, from 1900 on."""
    zone, found, week = ZoneInfo(name), [], timedelta(days=7)
    for number in range(52 * 137):
        low = utc(1900, 1, 1) + number * week
        high = low + week
        if low.astimezone(zone).utcoffset() == high.astimezone(zone).utcoffset():
            continue
        while high - low > timedelta(seconds=1):
            middle = low + timedelta(seconds=(high - low) // timedelta(seconds=2))
            same = middle.astimezone(zone).utcoffset() == low.astimezone(zone).utcoffset()
            low, high = (middle, high) if same else (low, middle)
        found.append(high)
    return found


CHANGES: dict[str, list[datetime]] = {}
HOURS = st.timedeltas(timedelta(0), timedelta(hours=4))
PLACES, NEAR = st.integers(0, 2**16), st.timedeltas(timedelta(hours=-4), timedelta(hours=4))


def draw_moment(data: st.DataObject, name: str, *, near: bool = True) -> datetime:
    """One within hours of a change, or the change itself."""
    if name not in CHANGES:
        CHANGES[name] = changes_of(name) or [utc(2026, 1, 1)]
    return CHANGES[name][data.draw(PLACES) % len(CHANGES[name])] + (data.draw(NEAR) if near else timedelta(0))


def shows(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None, fold=0)


@given(data=st.data(), name=st.sampled_from(NAMES))
@settings(max_examples=100, deadline=None)
def test_the_lowest_reading_is_below_all_that_come_and_never_goes_down(data: st.DataObject, name: str) -> None:
    zone = ZoneInfo(name)
    one, other = sorted([draw_moment(data, name), draw_moment(data, name)])
    near = one + data.draw(HOURS)
    for later in (other, near):
        assert lowest_from(one, zone) <= lowest_from(later, zone) <= shows(later, zone)


@given(data=st.data(), name=st.sampled_from(NAMES))
@settings(max_examples=100, deadline=None)
def test_the_highest_reading_is_above_all_that_came_and_never_goes_down(data: st.DataObject, name: str) -> None:
    zone = ZoneInfo(name)
    one, other = sorted([draw_moment(data, name), draw_moment(data, name)])
    near = other - data.draw(HOURS)
    for earlier in (one, near):
        assert shows(earlier, zone) <= highest_until(earlier, zone) <= highest_until(other, zone)


@given(data=st.data(), name=st.sampled_from(NAMES))
@settings(max_examples=100, deadline=None)
def test_a_reading_comes_between_its_earliest_and_its_latest_moment(data: st.DataObject, name: str) -> None:
    zone = ZoneInfo(name)
    # Often one that the clock is set over: the moment just before a change, and up to an hour on.
    at = draw_moment(data, name) if data.draw(st.booleans()) else draw_moment(data, name, near=False) - MICROSECOND
    reading = shows(at, zone) + timedelta(minutes=data.draw(st.integers(0, 60)))
    first, last = earliest(reading, zone), latest(reading, zone)
    assert first <= last
    assert shows(first - MICROSECOND, zone) < reading <= shows(first, zone)
    assert shows(last, zone) >= reading
    assert shows(last + MICROSECOND, zone) > reading
    if shows(first, zone) != reading:  # the clock was set forward over it
        assert first == last


@pytest.mark.parametrize(
    ("zone", "moment", "lowest", "highest"),
    [
        (BERLIN, utc(2026, 10, 24, 23, 59), naive(2026, 10, 25, 1, 59), naive(2026, 10, 25, 1, 59)),
        (BERLIN, utc(2026, 10, 25, 0), naive(2026, 10, 25, 2), naive(2026, 10, 25, 2)),
        (BERLIN, utc(2026, 10, 25, 0, 59), naive(2026, 10, 25, 2), naive(2026, 10, 25, 2, 59)),
        (BERLIN, utc(2026, 10, 25, 1), naive(2026, 10, 25, 2), naive(2026, 10, 25, 3)),
        (BERLIN, utc(2026, 10, 25, 1, 59), naive(2026, 10, 25, 2, 59), naive(2026, 10, 25, 3)),
        (BERLIN, utc(2026, 10, 25, 2), naive(2026, 10, 25, 3), naive(2026, 10, 25, 3)),
        (BERLIN, utc(2026, 3, 29, 1), naive(2026, 3, 29, 3), naive(2026, 3, 29, 3)),
        (LORD_HOWE, utc(2026, 4, 4, 14, 45), naive(2026, 4, 5, 1, 30), naive(2026, 4, 5, 1, 45)),
        (LORD_HOWE, utc(2026, 4, 4, 15, 15), naive(2026, 4, 5, 1, 45), naive(2026, 4, 5, 2)),
        (SANTIAGO, utc(2026, 4, 5, 2, 30), naive(2026, 4, 4, 23), naive(2026, 4, 4, 23, 30)),
    ],
)
def test_the_hour_that_comes_twice(zone: ZoneInfo, moment: datetime, lowest: datetime, highest: datetime) -> None:
    assert (lowest_from(moment, zone), highest_until(moment, zone)) == (lowest, highest)


def test_a_day_whose_midnight_never_comes_begins_when_the_clock_is_set() -> None:
    assert earliest(naive(2026, 9, 6), SANTIAGO) == latest(naive(2026, 9, 6), SANTIAGO) == utc(2026, 9, 6, 4)


def test_the_zone_of_this_machine_is_named_unless_it_is_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, shown in {"UTC": None, "Europe/London": "GMT/BST", "Asia/Tokyo": "JST", "Africa/Abidjan": None}.items():
        monkeypatch.setenv("TZ", name)
        time.tzset()
        assert host_zone() == shown
    monkeypatch.undo()
    time.tzset()


# --- cursors ------------------------------------------------------------------------------------------------------

SPANS = st.timedeltas(timedelta(microseconds=1), timedelta(days=3))


@given(data=st.data(), name=st.sampled_from(NAMES), span=SPANS)
@settings(max_examples=100, deadline=None)
def test_counting_on_a_zones_clock_goes_on_and_errs_to_the_early_side(
    data: st.DataObject, name: str, span: timedelta
) -> None:
    cursor, moment = Cursor.datetime(name, naive=True), draw_moment(data, name)
    value = shows(moment, ZoneInfo(name)) + data.draw(HOURS)
    assert cursor.parse(cursor.dump(value), what="v") == value
    assert cursor.minus(value, span) < value < cursor.plus(value, span)
    assert value < cursor.step(value, span)
    assert cursor.plus(value, timedelta(0)) == cursor.minus(value, timedelta(0)) == value
    # A delay is never less than it says: what comes up to so long before now may be later than that on the clock.
    now = cursor.now(lambda: moment)
    assert cursor.minus(now, span) <= cursor.now(lambda: moment - span)


@given(data=st.data(), name=st.sampled_from(NAMES), days=st.integers(1, 9))
@settings(max_examples=100, deadline=None)
def test_local_days_are_rounded_down_to_and_gone_over_one_by_one(data: st.DataObject, name: str, days: int) -> None:
    cursor = Cursor.datetime(name, granularity=timedelta(days=days))
    value = draw_moment(data, name)
    floor = cursor.floor(value)
    assert floor <= value
    assert cursor.floor(floor) == floor
    assert cursor.parse(cursor.dump(floor), what="v") == floor
    assert value - floor <= timedelta(days=days, hours=26)
    zone = ZoneInfo(name)
    assert shows(floor - MICROSECOND, zone).date() < shows(floor, zone).date()
    border, borders = floor, [floor]
    while border <= value + timedelta(days=3):
        border = cursor.step(border, timedelta(days=1))
        borders.append(border)
    assert borders == sorted(set(borders))
    assert all(shows(one - MICROSECOND, zone).date() < shows(one, zone).date() for one in borders)


Row = tuple[datetime, Any]


@given(data=st.data(), name=st.sampled_from(NAMES), delay=st.integers(0, 90))
@settings(max_examples=100, deadline=None)
@pytest.mark.parametrize("kind", ["days", "naive"])
def test_windows_that_end_now_tile_time(kind: str, data: st.DataObject, name: str, delay: int) -> None:
    """Each row, up to `delay` minutes late, is there when its window ends; and windows go up, so there is no hole."""
    zone, at = ZoneInfo(name), draw_moment(data, name)
    cursor: Any = Cursor.date(name) if kind == "days" else Cursor.datetime(name, naive=True)
    lag = timedelta(0) if kind == "days" else timedelta(minutes=delay)
    nows = sorted(at + timedelta(minutes=one) for one in data.draw(st.lists(st.integers(-600, 2_000), min_size=2)))
    ends = [cursor.minus(cursor.now(lambda now=now: now), lag) for now in nows]
    assert ends == sorted(ends)
    for minute in data.draw(st.lists(st.integers(-600, 2_000), min_size=5)):
        made = at + timedelta(minutes=minute)
        value = shows(made, zone).date() if kind == "days" else shows(made, zone)
        loading = next((now for now, end in zip(nows, ends, strict=True) if value < end), None)
        assert loading is None or made + lag <= loading


@given(data=st.data(), name=st.sampled_from(NAMES))
@settings(max_examples=100, deadline=None)
def test_what_came_in_a_stretch_of_time_is_in_its_interval(data: st.DataObject, name: str) -> None:
    zone, cursor = ZoneInfo(name), Cursor.datetime(name, naive=True)
    start, made, end = sorted(draw_moment(data, name) for _ in range(3))
    first, last = cursor.interval(start, end)
    assert made == end or first <= shows(made, zone) < last
    days, borders = Cursor.date(name), sorted([start, made, end])
    ends = [days.interval(borders[0], border)[1] for border in borders]
    assert days.interval(start, end) == (ends[0], ends[-1])


def test_a_clock_of_the_source_that_gives_naive_times_waits_for_the_second_of_two_hours() -> None:
    cursor = Cursor.datetime("Europe/Berlin", naive=True)
    shown = [naive(2026, 10, 25, 1, 59), naive(2026, 10, 25, 2, 30), naive(2026, 10, 25, 2, 59), naive(2026, 10, 25, 3)]
    nows = [cursor.now(partial(naive, *one.timetuple()[:5])) for one in shown]
    assert nows == [naive(2026, 10, 25, 1, 59), naive(2026, 10, 25, 2), naive(2026, 10, 25, 2), naive(2026, 10, 25, 3)]
    assert cursor.now(lambda: naive(1, 1, 1)) == naive(1, 1, 1)
    assert cursor.plus(naive(9999, 12, 31, 23), timedelta(days=2)) == datetime.max  # noqa: DTZ901
    assert cursor.minus(naive(1, 1, 1, 2), timedelta(days=2)) == datetime.min  # noqa: DTZ901


def test_days_of_a_point_in_time_are_rounded_to_either_side() -> None:
    cursor = Cursor.date("America/Santiago")
    assert [cursor.of_moment(utc(2026, 9, 6, 4), up=up) for up in (False, True)] == [date(2026, 9, 6)] * 2
    assert cursor.of_moment(utc(2026, 9, 6, 5), up=True) == date(2026, 9, 7)
