"""Windows that a run names, in the zone of the watermark: backfills of local days, partitions, and a run's conf."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from itertools import pairwise
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock
from zoneinfo import ZoneInfo

import pendulum
import pytest
from airflow.sdk import DAG, Asset, BaseOperator, CronDataIntervalTimetable, CronPartitionTimetable
from airflow.timetables.trigger import CronPartitionTimetable as CoreCronPartitionTimetable

from airflow_resume import watermark
from airflow_resume.errors import CursorTypeError, WatermarkError, WatermarkInputError, WatermarkWarning
from airflow_resume.testing import TaskAttempt
from airflow_resume.watermarks import Cursor
from airflow_resume.watermarks.checks import remarks_on_zone
from airflow_resume.watermarks.cursors.forms import formatted
from airflow_resume.watermarks.schedule import end_of_partition, written, zone_of_schedule
from tests.support.kit.raised import having
from tests.support.watermarks.whole_numbers import NUMBERS, a_try, load
from tests.support.watermarks.whole_numbers import bounds as bounds_of

UTC = timezone.utc
WEST, EAST = "America/Los_Angeles", "Asia/Tokyo"
LATER = datetime(2026, 12, 1, tzinfo=UTC)
ZONES = ["Europe/Berlin", WEST, EAST, "Australia/Lord_Howe", "America/Santiago"]


def bounds(window: Any) -> tuple[Any, Any]:
    """Plain ones, whatever Airflow gave."""
    start, end = bounds_of(window)
    assert {type(start), type(end)} in ({date}, {datetime})
    assert type(window.plan.cursor.dump(start)) is str
    return start, end


def naive(*fields: int) -> datetime:
    return datetime(*fields)  # type: ignore[arg-type]  # noqa: DTZ001


def of_days(tz: str | None) -> Any:
    return watermark(NUMBERS, initial="2026-01-01", cursor=Cursor.date(tz), now=lambda: LATER, delay=timedelta(0))


def of_times(cursor: Any, **options: Any) -> Any:
    is_naive = cursor.definition()["tz"] is None
    initial = "2026-01-01T00:00:00" if is_naive else "2026-01-01T00:00:00Z"
    now = {"now": lambda: naive(2026, 12, 1)} if is_naive and cursor.home is None else {"now": lambda: LATER}
    return watermark(NUMBERS, **{"initial": initial, "cursor": cursor, "delay": timedelta(0), **now, **options})


def backfilling(start: datetime | None, end: datetime | None, *, schedule: Any = None, **more: Any) -> TaskAttempt:
    attempt = a_try()
    attempt.context["dag_run"].run_type = SimpleNamespace(value="backfill")
    of_airflow = {"data_interval_start": start, "data_interval_end": end, **more}
    for name, value in of_airflow.items():
        attempt.context[name] = pendulum.instance(value) if isinstance(value, datetime) else value
    if schedule is not None:
        attempt.context["dag"] = DAG("d", schedule=schedule, start_date=datetime(2026, 1, 1, tzinfo=UTC))
    return attempt


def local(name: str, *fields: int) -> datetime:
    return datetime(*fields, tzinfo=ZoneInfo(name)).astimezone(UTC)  # type: ignore[arg-type,misc]


def daily(name: str) -> Any:
    return CronDataIntervalTimetable("@daily", timezone=name)


# --- backfills of local days --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ZONES)
def test_a_run_of_a_local_day_loads_that_day(name: str) -> None:
    start, end = local(name, 2026, 1, 2), local(name, 2026, 1, 3)
    attempt = backfilling(start, end, schedule=daily(name))
    assert bounds(load(attempt, of_days(name))) == (date(2026, 1, 2), date(2026, 1, 3))
    attempt = backfilling(start, end, schedule=daily(name))
    assert bounds(load(attempt, of_times(Cursor.datetime(name)))) == (start, end)
    attempt = backfilling(start, end, schedule=daily(name))
    window = load(attempt, of_times(Cursor.datetime(name, naive=True)))
    assert bounds(window) == (naive(2026, 1, 2), naive(2026, 1, 3))


@pytest.mark.parametrize("name", ["UTC", *ZONES])
@pytest.mark.parametrize("schedule", ["UTC", *ZONES])
def test_of_runs_that_follow_each_other_every_day_is_loaded_by_one(name: str, schedule: str) -> None:
    """Also where the schedule has another zone than the watermark, over the whole year."""
    cursor = Cursor.date(name)
    borders = [datetime(2026, 1, 1, tzinfo=ZoneInfo(schedule)) + timedelta(days=number) for number in range(366)]
    found = [cursor.interval(start.astimezone(UTC), end.astimezone(UTC)) for start, end in pairwise(borders)]
    assert [end for _, end in found[:-1]] == [start for start, _ in found[1:]]
    assert all(end - start == timedelta(days=1) for start, end in found)


def test_an_interval_in_which_no_day_ends_is_refused_with_that_reason() -> None:
    attempt = backfilling(local(WEST, 2026, 1, 2, 5), local(WEST, 2026, 1, 2, 6))
    with pytest.raises(
        WatermarkInputError,
        match=r"no day ends, it is 2026-01-02 all the time.\nUse a schedule of whole days",
        check=having(given="window"),
    ):
        load(attempt, of_days(WEST))
    attempt = backfilling(local(WEST, 2026, 1, 2, 23), local(WEST, 2026, 1, 3))
    assert bounds(load(attempt, of_days(WEST))) == (date(2026, 1, 2), date(2026, 1, 3))


@pytest.mark.parametrize(
    ("mark", "remedy"),
    [
        (of_days(None), "cursor=Cursor.date('Asia/Tokyo')"),
        (of_times(Cursor.datetime(tz=None)), "cursor=Cursor.datetime('Asia/Tokyo', naive=True)"),
    ],
)
def test_whose_days_they_are_is_not_guessed(mark: Any, remedy: str) -> None:
    attempt = backfilling(local(EAST, 2026, 1, 2), local(EAST, 2026, 1, 3), schedule=daily(EAST))
    with pytest.raises(
        WatermarkInputError, match="does not say which of the two", check=having(given="window")
    ) as caught:
        load(attempt, mark)
    assert remedy in str(caught.value.remedy)


def test_a_day_that_is_the_same_in_utc_and_in_the_zone_of_the_schedule_needs_no_guess() -> None:
    attempt = backfilling(local(WEST, 2026, 1, 2), local(WEST, 2026, 1, 3), schedule=daily(WEST))
    assert bounds(load(attempt, of_days(None))) == (date(2026, 1, 2), date(2026, 1, 3))
    attempt = backfilling(local("UTC", 2026, 1, 2), local("UTC", 2026, 1, 3), schedule=daily("UTC"))
    assert bounds(load(attempt, of_times(Cursor.datetime(tz=None)))) == (naive(2026, 1, 2), naive(2026, 1, 3))


# --- partitions ---------------------------------------------------------------------------------------------------


def of_partition(name: str, when: datetime | None, schedule: Any, key: str = "a") -> TaskAttempt:
    return backfilling(None, None, schedule=schedule, partition_key=key, partition_date=when)


@pytest.mark.parametrize("name", ZONES)
def test_a_backfill_of_a_partition_loads_from_its_date_to_that_of_the_next(name: str) -> None:
    schedule = CronPartitionTimetable("0 0 * * *", timezone=name)
    window = load(of_partition(name, local(name, 2026, 1, 2), schedule), of_days(name))
    assert (bounds(window), window.origin) == ((date(2026, 1, 2), date(2026, 1, 3)), "backfill")
    window = load(of_partition(name, local(name, 2026, 1, 2), schedule), of_times(Cursor.datetime(name)))
    assert bounds(window) == (local(name, 2026, 1, 2), local(name, 2026, 1, 3))
    hourly = CronPartitionTimetable("0 * * * *", timezone=name)
    window = load(of_partition(name, local(name, 2026, 1, 2), hourly), of_times(Cursor.datetime(name, naive=True)))
    assert bounds(window) == (naive(2026, 1, 2), naive(2026, 1, 2, 1))


@pytest.mark.parametrize("name", ZONES)
@pytest.mark.parametrize("cron", ["0 0 * * *", "0 * * * *", "30 2 * * *", "*/30 * * * *", "0 0 * * 1", "0 0 1 * *"])
def test_a_partition_ends_where_airflow_lets_the_next_one_begin(name: str, cron: str) -> None:
    dag = SimpleNamespace(timetable=CronPartitionTimetable(cron, timezone=name))
    core: Any = CoreCronPartitionTimetable(cron, timezone=name)
    count = 900 if cron == "0 * * * *" else 60 if "* * *" not in cron else 400
    for first in (
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 3, 20, tzinfo=UTC),
        datetime(2026, 9, 1, tzinfo=UTC),
    ):
        tick = core._align_to_next(pendulum.instance(first))
        for _ in range(count):
            following = core._get_next(tick)
            assert end_of_partition(dag, tick) == following
            tick = following


def test_the_core_s_own_timetable_is_read_as_that_of_the_sdk() -> None:
    dag = SimpleNamespace(timetable=CoreCronPartitionTimetable("@daily", timezone=EAST))
    assert end_of_partition(dag, local(EAST, 2026, 1, 2)) == local(EAST, 2026, 1, 3)
    assert zone_of_schedule(dag) is not None


def test_a_partition_of_an_expression_that_cannot_be_read_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    when = local(EAST, 2026, 1, 2)
    for expression in ("every day", 5, None):
        timetable = CronPartitionTimetable("@daily", timezone=EAST)
        object.__setattr__(timetable, "expression", expression)
        with pytest.raises(
            WatermarkInputError, match=r"ends cannot be found .*\nCorrect the expression", check=having(given="window")
        ) as caught:
            end_of_partition(SimpleNamespace(timetable=timetable), when)
        assert caught.value.__cause__ is not None
    monkeypatch.setitem(sys.modules, "croniter", None)
    with pytest.raises(
        WatermarkInputError, match=r"croniter.*\n.*install the package croniter", check=having(given="window")
    ):
        end_of_partition(SimpleNamespace(timetable=CronPartitionTimetable("@daily", timezone=EAST)), when)


def test_a_schedule_in_a_zone_that_is_not_known_says_so_and_a_stand_in_says_nothing() -> None:
    with pytest.raises(WatermarkError, match=r"'Europe/Nowhere', which is not known.*\nCorrect the name"):
        zone_of_schedule(SimpleNamespace(timetable=SimpleNamespace(timezone="Europe/Nowhere")))
    assert zone_of_schedule(MagicMock()) is None


class OwnTimetable(CronPartitionTimetable):
    """Of which nothing is known."""


@pytest.mark.parametrize(
    ("when", "schedule", "reason"),
    [
        (None, CronPartitionTimetable("@daily", timezone="UTC"), "does not know the date of that"),
        (local("UTC", 2026, 1, 2), OwnTimetable("@daily", timezone="UTC"), "OwnTimetable does not say when that ends"),
    ],
)
def test_a_partition_of_which_it_is_not_known_how_long_it_is_is_refused_with_the_true_reason(
    when: Any, schedule: Any, reason: str
) -> None:
    with pytest.raises(
        WatermarkInputError, match="it is for the partition 'eu'", check=having(given="window")
    ) as caught:
        load(of_partition("UTC", when, schedule, key="eu"), of_days("UTC"))
    assert reason in caught.value.message
    assert 'a run with the conf {"watermark"' in str(caught.value.remedy)


def test_a_partition_that_is_not_of_a_backfill_changes_nothing() -> None:
    attempt = a_try()
    attempt.context.update(partition_key="2026-01-02", partition_date=local("UTC", 2026, 1, 2))
    assert load(attempt, of_days("UTC")).origin == "mark"


# --- a run's conf -------------------------------------------------------------------------------------------------


def wishing(start: Any, end: Any) -> TaskAttempt:
    attempt = a_try()
    attempt.context["dag_run"].conf = {"watermark": {"watermark": {"from": start, "to": end}}}
    return attempt


@pytest.mark.parametrize(
    ("cursor", "start", "end", "window"),
    [
        (Cursor.date(WEST), "2026-01-02", "2026-01-03", (date(2026, 1, 2), date(2026, 1, 3))),
        (Cursor.date(WEST), "2026-01-02T08:00:00Z", "2026-01-03T08:00:00Z", (date(2026, 1, 2), date(2026, 1, 3))),
        (Cursor.date(WEST), "2026-01-02T07:00:00Z", "2026-01-03T09:00Z", (date(2026, 1, 1), date(2026, 1, 4))),
        (Cursor.date(EAST), "2026-01-02T00:00+09:00", "2026-01-03T00:00+09:00", (date(2026, 1, 2), date(2026, 1, 3))),
        (
            Cursor.datetime(WEST, naive=True),
            "2026-01-02T08:00:00Z",
            "2026-01-03T00:00:00",
            (naive(2026, 1, 2), naive(2026, 1, 3)),
        ),
        (
            Cursor.datetime(WEST, naive=True),
            "2026-11-01T08:30:00Z",  # 1:30, for the first time
            "2026-11-01T09:30:00Z",  # 1:30, for the second time
            (naive(2026, 11, 1, 1), naive(2026, 11, 1, 2)),
        ),
        (
            Cursor.datetime(WEST),
            "2026-01-02T00:00:00-08:00",
            "2026-01-03T08:00:00Z",
            (local(WEST, 2026, 1, 2), local(WEST, 2026, 1, 3)),
        ),
    ],
)
def test_a_conf_is_turned_into_the_zone_and_never_cut_short(cursor: Any, start: str, end: str, window: Any) -> None:
    mark = of_days(cursor.tz) if cursor.type == "date" else of_times(cursor)
    assert bounds(load(wishing(start, end), mark)) == window


@pytest.mark.parametrize(
    ("cursor", "start", "remedy"),
    [
        (Cursor.date(), "2026-01-02T08:00:00Z", "Write it as 2026-01-01"),
        (Cursor.datetime(tz=None), "2026-01-02T08:00:00Z", "Write it without"),
        (Cursor.datetime(WEST), "2026-01-02T08:00:00", "Write 2026-01-02T08:00:00+00:00 if"),
        (Cursor.date(WEST), "2026-02-30T08:00:00Z", "Write it as 2026-01-01"),
    ],
)
def test_a_conf_whose_zone_is_not_known_is_refused(cursor: Any, start: str, remedy: str) -> None:
    mark = of_days(cursor.tz) if cursor.type == "date" else of_times(cursor)
    with pytest.raises(WatermarkInputError, check=having(given="window")) as caught:
        load(wishing(start, None), mark)
    assert remedy in str(caught.value.remedy)


# --- who says whose days they are ---------------------------------------------------------------------------------


@pytest.fixture
def in_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    def move(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield move
    monkeypatch.undo()
    time.tzset()


def warned(**options: Any) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        watermark(Asset("reports"), **{"initial": "2026-01-01", "delay": timedelta(0), **options})
    return found


def test_days_without_a_zone_are_warned_of_where_the_machine_has_another_than_utc(in_zone: Any) -> None:
    in_zone(WEST)
    (warning,) = warned()
    message, remedy = str(warning.message).split("\n")
    assert "'watermark' on 'reports' is of days without a time zone" in message
    assert "PST/PDT" in message
    assert "cursor=Cursor.date('America/Los_Angeles'), or Cursor.date('UTC')" in remedy
    assert (warning.category, warning.filename) == (WatermarkWarning, __file__)
    assert not warned(cursor=Cursor.date(WEST))
    assert not warned(cursor=Cursor.date("UTC"))
    assert not warned(now=lambda: date(2026, 1, 1))
    assert not warned(initial=0, delay=0)
    in_zone("UTC")
    assert not warned()
    assert not warned(**UNKNOWN)


UNKNOWN: dict[str, Any] = {"initial": "2026-01-01T00:00", "cursor": Cursor.datetime(tz=None), "advance": "observed"}


def test_naive_times_without_a_zone_are_warned_of_in_the_same_way(in_zone: Any) -> None:
    in_zone("Europe/London")
    (warning,) = warned(**UNKNOWN)
    message, remedy = str(warning.message).split("\n")
    assert "'watermark' on 'reports' is of naive times without a time zone: when clocks are set back" in message
    assert "naive=True" in remedy
    assert not warned(**UNKNOWN, lookback=timedelta(hours=2))
    assert not warned(**{**UNKNOWN, "cursor": Cursor.datetime(naive=True)})


@pytest.mark.parametrize(
    ("schedule", "cursor", "words"),
    [
        (daily(WEST), Cursor.date(), "of days without a time zone"),
        (daily(WEST), Cursor.datetime(tz=None), "cursor=Cursor.datetime('America/Los_Angeles', naive=True)"),
        (CronPartitionTimetable("@daily", timezone=EAST), Cursor.date(), "Cursor.date('Asia/Tokyo')"),
        (daily("UTC"), Cursor.date(), None),
        (daily(WEST), Cursor.date(WEST), None),
        (daily(WEST), Cursor.date("UTC"), None),
        (daily(WEST), Cursor.datetime(), None),
        ("@daily", Cursor.date(), None),
        (None, Cursor.date(), None),
    ],
)
def test_days_without_a_zone_are_remarked_on_where_the_schedule_has_another_than_utc(
    schedule: Any, cursor: Any, words: str | None
) -> None:
    options: dict[str, Any] = {"initial": "2026-01-01", "cursor": cursor, "delay": timedelta(0)}
    mark = of_times(cursor) if cursor.type == "datetime" else watermark(NUMBERS, **options)
    with DAG("d", schedule=schedule, start_date=datetime(2026, 1, 1, tzinfo=UTC)):
        task = BaseOperator(task_id="t")
    remarks = remarks_on_zone(task, mark._options)
    assert (words is None and not remarks) or str(words) in remarks[0]


def test_the_zone_of_the_dag_counts_where_the_schedule_has_none(caplog: pytest.LogCaptureFixture) -> None:
    with DAG("d", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=ZoneInfo(EAST))) as dag:
        task = BaseOperator(task_id="t", inlets=[NUMBERS], outlets=[NUMBERS])
    assert str(zone_of_schedule(dag)) == EAST
    assert zone_of_schedule(None) is None
    assert (written(ZoneInfo(EAST)), written(timezone(timedelta(hours=2)))) == ("'Asia/Tokyo'", "...")
    load(a_try(task=task), watermark(NUMBERS, initial="2026-01-01", cursor=Cursor.date(), delay=timedelta(0)))
    assert "is of days without a time zone" in caplog.text
    assert "Cursor.date('Asia/Tokyo')" in caplog.text


def test_days_go_on_where_they_are_when_their_zone_is_named_and_when_it_is_left_out() -> None:
    """What is kept says nothing about the zone, so a mark of 0.1 is one of a watermark with a zone too."""
    attempt = a_try()
    options: dict[str, Any] = {"initial": "2026-01-01", "cursor": Cursor.date(), "delay": timedelta(0)}
    load(attempt, watermark(NUMBERS, now=lambda: date(2026, 1, 5), **options))
    window = load(attempt.next_run(), of_days(WEST))
    assert bounds(window) == (date(2026, 1, 5), LATER.astimezone(ZoneInfo(WEST)).date())
    assert load(attempt.next_run().next_run(), of_days(None)).start == window.end


def test_naive_times_go_on_where_they_are_when_their_zone_is_named() -> None:
    attempt = a_try()
    load(attempt, of_times(Cursor.datetime(tz=None), now=lambda: naive(2026, 1, 5)))
    assert load(attempt.next_run(), of_times(Cursor.datetime(WEST, naive=True))).start == naive(2026, 1, 5)


def test_a_naive_time_is_told_what_it_is_and_what_is_wanted() -> None:
    with pytest.raises(CursorTypeError) as caught:
        watermark(NUMBERS, initial=naive(2026, 1, 1))
    assert all(word in str(caught.value) for word in ("naive", "aware", "time zone"))
    with pytest.raises(CursorTypeError) as caught:
        watermark(NUMBERS, initial=LATER, cursor=Cursor.datetime(WEST, naive=True))
    assert all(word in str(caught.value) for word in ("naive", "aware", "time zone"))


# --- bounds as another system wants them ----------------------------------------------------------------------------


def test_days_and_naive_times_are_counted_from_1970_in_their_zone() -> None:
    window = load(wishing("2026-01-02", "2026-01-03"), of_days(WEST))
    assert window.start_as("epoch") == local(WEST, 2026, 1, 2).timestamp()
    assert window.end_as("epoch") == local(WEST, 2026, 1, 3).timestamp()
    assert window.start_as("epoch", "Asia/Tokyo") == window.start_as("epoch")
    assert window.start_as("%Y-%m-%dT%H:%M%z") == "2026-01-02T00:00-0800"
    assert (window.start_as("iso"), window.end_as("date", EAST)) == ("2026-01-02", "2026-01-03")
    window = load(wishing("2026-11-01T01:30:00", "2026-11-01T01:45:00"), of_times(Cursor.datetime(WEST, naive=True)))
    assert window.start_as("epoch") == datetime(2026, 11, 1, 8, 30, tzinfo=UTC).timestamp()  # the first 1:30
    assert window.end_as("epoch") == datetime(2026, 11, 1, 9, 45, tzinfo=UTC).timestamp()  # the second 1:45
    assert (window.start_as("iso"), window.start_as("iso", "UTC")) == (
        "2026-11-01T01:30:00",
        "2026-11-01T08:30:00+00:00",
    )
    lag = window.lag()
    assert lag is not None
    assert lag == pytest.approx((datetime.now(UTC) - datetime(2026, 11, 1, 8, 45, tzinfo=UTC)).total_seconds(), abs=60)


def test_a_bound_that_the_clock_passes_over_is_where_it_is_set() -> None:
    set_forward = datetime(2026, 3, 8, 10, tzinfo=UTC)
    for up in (False, True):
        assert formatted(naive(2026, 3, 8, 2, 30), "epoch", None, up=up, home=WEST) == set_forward.timestamp()
