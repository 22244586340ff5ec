"""Airflow's metrics of a watermark: the outcome of each window, what it has seen, and how far the mark is behind."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_resume.testing import task_context
from airflow_resume.watermarks import Cursor
from airflow_resume.watermarks.windows.window import lag_of
from tests.support.metrics import Reported, reported
from tests.support.watermarks.hourly_orders import ORDERS, Clock, at, orders
from tests.support.watermarks.whole_numbers import Counter, a_try, load, numbers, track

__all__ = ["reported"]
TAGS = {"operator", "watermark", "asset"}


def behind(moment: datetime) -> Any:
    return pytest.approx((datetime.now(timezone.utc) - moment).total_seconds(), abs=60)


def test_a_window_reports_its_outcome_what_it_saw_and_the_lag_of_the_mark(reported: Reported) -> None:
    with orders(Clock(4)).open(task_context(assets=[ORDERS]).context):
        pass
    assert reported.of("watermark.") == {
        "advanced": ("incr", 1), "rows": ("gauge", 0), "late": ("gauge", 0), "nulls": ("gauge", 0),
        "future": ("gauge", 0), "lag_seconds": ("gauge", behind(at(4))),
    }  # fmt: skip
    assert reported.tags == {frozenset(TAGS)}


def test_a_run_with_nothing_new_reports_that_the_mark_falls_behind(reported: Reported) -> None:
    attempt = task_context(assets=[ORDERS])
    load(attempt, orders(Clock(4)))
    reported.clear()
    load(attempt.next_run(), orders(Clock(4)))
    found = reported.of("watermark.")
    assert found["empty"] == ("incr", 1)
    assert found["lag_seconds"] == ("gauge", behind(at(4)))


def test_a_window_of_before_reports_the_lag_of_the_mark_and_not_its_own(reported: Reported) -> None:
    attempt = task_context(assets=[ORDERS])
    load(attempt, orders(Clock(4)))
    load(attempt.next_run(), orders(Clock(9)))
    reported.clear()
    load(attempt.clear(), orders(Clock(9)))
    found = reported.of("watermark.")
    assert found["noop"] == ("incr", 1)
    assert found["lag_seconds"] == ("gauge", behind(at(9)))


def test_a_staged_window_is_counted_by_the_task_that_commits_it(reported: Reported) -> None:
    attempt, mark = task_context(assets=[ORDERS]), orders(Clock(4))
    token = mark.begin(attempt.context).stage()
    assert reported.of("watermark.") == {}
    mark.commit(attempt.context, token)
    assert set(reported.of("watermark.")) == {"advanced", "lag_seconds"}


def test_a_mark_that_is_no_time_has_no_lag(reported: Reported) -> None:
    load(a_try(), numbers(Counter()), track(3, 4))
    found = reported.of("watermark.")
    assert found["rows"] == ("gauge", 2)
    assert "lag_seconds" not in found


NOON = datetime(2026, 1, 2, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("value", "home", "moment"),
    [
        (NOON, None, NOON),
        (NOON.replace(tzinfo=None), "Etc/GMT-2", NOON - timedelta(hours=2)),
        (date(2026, 1, 2), None, NOON - timedelta(hours=12)),
        (date(2026, 1, 2), "Etc/GMT-2", NOON - timedelta(hours=14)),
        ((NOON, 7), None, NOON),
        (7, None, None),
        ("x", None, None),
        ((), None, None),
        (None, None, None),
    ],
)
def test_a_time_and_a_day_are_behind_now(value: Any, home: str | None, moment: datetime | None) -> None:
    assert lag_of(value, home) == (None if moment is None else behind(moment))


def test_the_day_of_a_mark_is_behind_now(reported: Reported) -> None:
    mark = orders(Clock(4), cursor=Cursor.date(), initial=date(2026, 1, 1), now=lambda: date(2026, 1, 3))
    load(task_context(assets=[ORDERS]), mark)
    assert reported.of("watermark.")["lag_seconds"] == ("gauge", behind(datetime(2026, 1, 3, tzinfo=timezone.utc)))
