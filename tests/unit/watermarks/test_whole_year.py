"""A whole year of runs in four zones: every row is loaded once, and not before it is there.

Both hemispheres; clocks are set by an hour and by half an hour, at 2:00, at 3:00 and at midnight.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from airflow.sdk import Asset

from airflow_resume import attempt as attempt_module
from airflow_resume import watermark
from airflow_resume.testing import World, task_context
from airflow_resume.watermarks.cursors.cursor import Cursor
from airflow_resume.watermarks.windows.bounds import decide_bounds
from airflow_resume.watermarks.windows.plan import WindowPlan
from airflow_resume.watermarks.windows.window import Window

UTC = timezone.utc
SALES = Asset("sales")
ZONES = ["Europe/Berlin", "America/Los_Angeles", "Australia/Lord_Howe", "America/Santiago"]
FIRST, LAST = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 3, tzinfo=UTC)
QUARTER, HOUR, DAY = timedelta(minutes=15), timedelta(hours=1), timedelta(days=1)
LATE = timedelta(minutes=50)
"""So long a row may take to become visible."""


@dataclass(frozen=True)
class Kind:
    """Of a column: its cursor in a zone, and what it shows of a moment."""

    cursor: Any
    delay: timedelta | None = None


def kinds(zone: str) -> dict[str, Kind]:
    return {
        "days": Kind(Cursor.date(zone)),
        "days with a delay": Kind(Cursor.date(zone), DAY),
        "aware": Kind(Cursor.datetime(zone), LATE),
        "aware, by local days": Kind(Cursor.datetime(zone, granularity=DAY), LATE),
        "naive": Kind(Cursor.datetime(zone, naive=True), LATE),
        "naive, by the hour": Kind(Cursor.datetime(zone, granularity=HOUR, naive=True), LATE),
    }


def value_of(kind: str, moment: datetime, zone: ZoneInfo) -> Any:
    if kind.startswith("aware"):
        return moment
    local = moment.astimezone(zone).replace(tzinfo=None, fold=0)
    return local.date() if kind.startswith("days") else local


@pytest.fixture(scope="module")
def made() -> list[datetime]:
    """When a row was: one every quarter of an hour."""
    return [FIRST + number * QUARTER for number in range((LAST - FIRST) // QUARTER)]


@pytest.mark.parametrize("every", [HOUR, DAY], ids=["hourly", "daily"])
@pytest.mark.parametrize("kind", kinds("UTC"))
@pytest.mark.parametrize("name", ZONES)
@pytest.mark.parametrize("cut", [None, 2 * DAY], ids=["", "in two days at most"])
def test_each_row_is_in_one_window_and_there_when_that_is_read(
    name: str, kind: str, every: timedelta, cut: timedelta | None, made: list[datetime]
) -> None:
    cursor, delay, zone = kinds(name)[kind].cursor, kinds(name)[kind].delay, ZoneInfo(name)
    lag = timedelta(0) if kind == "days" else LATE
    rows = sorted((value_of(kind, moment, zone), moment + lag) for moment in made)
    keys = [value for value, _ in rows]
    first = at = cursor.parse(keys[0], what="initial")
    now, ends, loaded = FIRST + every, [at], 0
    while now < LAST:
        ceiling = cursor.now(lambda now=now: now)
        ceiling = cursor.floor(ceiling if delay is None else cursor.minus(ceiling, delay))
        bounds = decide_bounds(at=at, first=first, ceiling=ceiling, cursor=cursor, max_span=cut)
        assert bounds.start == at
        if not bounds.is_empty:
            window = rows[bisect_left(keys, bounds.start) : bisect_left(keys, bounds.end)]
            assert all(visible <= now for _, visible in window)
            loaded += len(window)
            at = bounds.end
            ends.append(at)
        now += every
    assert ends == sorted(set(ends))
    assert loaded == bisect_left(keys, at)
    assert date(2026, 12, 31) <= (at if kind.startswith("days") else at.date())  # and it got to the end of the year
    if kind == "aware, by local days" and cut is None:
        assert {end.astimezone(zone).hour for end in ends[1:]} <= {0, 1}  # 1:00 where the clock is set at midnight


@pytest.mark.parametrize("lookback", [timedelta(hours=1), timedelta(hours=25)])
@pytest.mark.parametrize("kind", ["aware", "naive"])
@pytest.mark.parametrize("name", ZONES)
def test_a_lookback_reads_what_came_up_to_so_long_before_the_mark(name: str, kind: str, lookback: timedelta) -> None:
    """Counted by a stopwatch, over every change of the clock."""
    zone, cursor = ZoneInfo(name), kinds(name)[kind].cursor
    for number in range(365 * 24):
        moment = FIRST + number * HOUR
        mark = cursor.now(lambda moment=moment: moment)
        start = cursor.minus(mark, lookback)
        assert start <= value_of(kind, moment - lookback, zone)


# --- slices -------------------------------------------------------------------------------------------------------


def slices(cursor: Any, start: Any, end: Any, step: timedelta) -> list[tuple[Any, Any]]:
    window: Window[Any] = Window(WindowPlan(cursor=cursor, start=start, end=end, at=start, begun=None))
    return [(cursor.parse(one.start, what="start"), cursor.parse(one.end, what="end")) for one in window.split(step)]


@pytest.mark.parametrize("kind", kinds("UTC"))
@pytest.mark.parametrize("name", ZONES)
def test_slices_of_days_are_local_days_and_tile_the_window(name: str, kind: str) -> None:
    cursor, zone = kinds(name)[kind].cursor, ZoneInfo(name)
    start, end = cursor.interval(
        datetime(2026, 1, 1, tzinfo=zone).astimezone(UTC), datetime(2027, 1, 1, tzinfo=zone).astimezone(UTC)
    )
    found = slices(cursor, start, end, DAY)
    assert len(found) == 365
    assert [one[1] for one in found[:-1]] == [one[0] for one in found[1:]]
    assert (found[0][0], found[-1][1]) == (start, end)
    days = [one if kind.startswith("days") else cursor.present(one).date() for one, _ in found]
    assert days == [date(2026, 1, 1) + number * DAY for number in range(365)]


@pytest.mark.parametrize("kind", ["aware", "naive"])
@pytest.mark.parametrize("name", ZONES)
def test_slices_of_hours_tile_the_window(name: str, kind: str) -> None:
    cursor = kinds(name)[kind].cursor
    start, end = cursor.interval(FIRST, LAST)
    found = slices(cursor, start, end, HOUR)
    assert [one[1] for one in found[:-1]] == [one[0] for one in found[1:]]
    assert all(one < other for one, other in found)
    assert (found[0][0], found[-1][1]) == (start, end)


def test_days_are_a_day_in_seconds_where_the_clock_is_not_set_and_23_or_25_hours_where_it_is() -> None:
    cursor = Cursor.datetime("Europe/Berlin")
    start, end = (datetime(2026, month, 1, tzinfo=ZoneInfo("Europe/Berlin")).astimezone(UTC) for month in (3, 11))
    found = slices(cursor, start, end, DAY)
    lengths = {other - one for one, other in found}
    assert lengths == {23 * HOUR, 24 * HOUR, 25 * HOUR}


def test_a_cut_of_days_settles_at_the_end_that_it_has() -> None:
    """What the beginning and the run call the end of a cut window is the same."""
    berlin = ZoneInfo("Europe/Berlin")
    mark = watermark(
        SALES,
        initial=datetime(2026, 10, 24, tzinfo=berlin),
        cursor=Cursor.datetime("Europe/Berlin"),
        delay=timedelta(0),
        max_span=DAY,
        now=lambda: datetime(2026, 12, 1, tzinfo=UTC),
        advance="observed",
    )
    world = World()
    ends = []
    for number in range(3):
        with mark.open(task_context(assets=[SALES], world=world, run_id=f"r{number}").context) as window:
            ends.append(window.end)
    assert ends == [datetime(2026, 10, day, tzinfo=berlin) for day in (25, 26, 27)]


# --- with all that a run does -------------------------------------------------------------------------------------


class Clock:
    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


AUTUMN = {
    "UTC": datetime(2026, 10, 25, tzinfo=UTC),
    "America/New_York": datetime(2026, 11, 1, 6, tzinfo=UTC),
    "America/Los_Angeles": datetime(2026, 11, 1, 9, tzinfo=UTC),
    "Asia/Tokyo": datetime(2026, 11, 1, tzinfo=UTC),
    "Australia/Lord_Howe": datetime(2026, 4, 4, 15, tzinfo=UTC),
    "America/Santiago": datetime(2026, 4, 5, 3, tzinfo=UTC),
}


@pytest.mark.parametrize("kind", ["days", "naive", "naive, observed"])
@pytest.mark.parametrize("name", AUTUMN)
def test_the_sales_of_a_shop_are_all_loaded_once_around_its_autumn_hour(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One an hour, by the shop's clock and calendar; a run every half an hour, five minutes after it."""
    zone, clock = ZoneInfo(name), Clock(AUTUMN[name] - 2 * DAY)
    monkeypatch.setattr(attempt_module, "utc_now", clock)
    options: dict[str, Any] = (
        {"initial": clock.now.astimezone(zone).date(), "cursor": Cursor.date(name), "delay": timedelta(0)}
        if kind == "days"
        else {
            "initial": clock.now.astimezone(zone).replace(tzinfo=None),
            "cursor": Cursor.datetime(name, naive=True),
            "advance": "observed" if kind.endswith("observed") else "window",
            "delay": timedelta(0),
        }
    )
    mark, world = watermark(SALES, **options), World()
    source: list[tuple[int, Any]] = []
    loaded: list[int] = []
    for number in range(2 * 24 * 4 + 2 * 60):
        if number < 2 * 24 * 4:
            source.append((number, value_of(kind, clock.now, zone)))
        clock.now += HOUR / 2
        attempt = task_context(assets=[SALES], world=world, run_id=f"r{number}")
        with mark.open(attempt.context) as window:
            if not window.empty:
                rows = [row for row in source if window.start <= row[1] < window.end]
                loaded += [row[0] for row in window.track(rows, lambda row: row[1], unique=lambda row: row[0])]
        attempt.succeed()
    assert sorted(loaded) == [number for number, _ in source]
