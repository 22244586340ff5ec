"""What a consumer of the asset gets: exactly the windows that were loaded."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from airflow.sdk import Asset

from airflow_resume import watermark
from airflow_resume.errors import CursorTypeError, WatermarkError
from airflow_resume.testing import TaskAttempt, World, task_context
from airflow_resume.watermarks import Cursor, LoadedWindow, Outcome, windows_from_events
from tests.support.watermarks.whole_numbers import NUMBERS, Counter, a_try, bounds, break_down, load, numbers, track


def consumed(attempt: TaskAttempt, **options: Any) -> list[LoadedWindow]:
    """By a run that all events so far have triggered."""
    context = {"triggering_asset_events": {NUMBERS: list(attempt.world.events)}}
    return windows_from_events(context, NUMBERS, **options)


def pairs(windows: list[LoadedWindow]) -> list[tuple[Any, Any]]:
    return [(window.start, window.end) for window in windows]


def test_a_consumer_gets_the_windows_that_were_loaded_oldest_first() -> None:
    first, clock = a_try(), Counter(10)
    mark = numbers(clock)
    load(first, mark)
    load(first.next_run(), mark)  # idle
    clock.number = 20
    failed = first.next_run()
    break_down(failed, mark)
    load(failed.retry(), mark)
    windows = consumed(first)
    assert pairs(windows) == [(0, 10), (10, 20)]
    assert windows[1] == LoadedWindow(
        name="watermark", start=10, end=20, at=20, outcome=Outcome.ADVANCED, run_id="run-3", map_index=-1
    )


def test_a_cleared_run_tells_its_window_again() -> None:
    first, mark = a_try(), numbers(Counter(10))
    load(first, mark)
    load(first.clear(), mark)
    assert [window.outcome for window in consumed(first)] == [Outcome.ADVANCED, Outcome.NOOP]


def test_a_window_that_was_not_committed_says_so_and_so_does_one_that_was_fenced() -> None:
    first, mark = a_try(), numbers(Counter(10))
    first.context["dag_run"].conf = {"watermark": {"watermark": {"from": 2, "to": 5}}}
    load(first, mark)
    second = first.next_run()
    window = mark.begin(second.context)
    mark.reset(first.next_run().context)
    mark.commit(second.context, window)
    second.succeed()
    assert [(window.origin, window.outcome, window.start, window.at) for window in consumed(first)] == [
        ("conf", Outcome.UNCOMMITTED, 2, None),
        ("mark", Outcome.FENCED, 0, 0),
    ]


def test_a_staged_window_keeps_its_origin() -> None:
    first, mark = a_try(), numbers(Counter(10))
    first.context["dag_run"].conf = {"watermark": {"watermark": {"from": 2, "to": 5, "commit": True}}}
    mark.commit(first.context, mark.begin(first.context).stage())
    first.succeed()
    assert [window.origin for window in consumed(first)] == ["conf"]


def test_without_an_end_a_window_went_up_to_what_was_there() -> None:
    first = a_try()
    load(first, numbers(), track(3, 8))
    assert pairs(consumed(first)) == [(0, 8)]


def test_watermarks_and_partitions_of_one_asset_are_told_apart() -> None:
    first = a_try()
    one, other = numbers(Counter(10)), numbers(Counter(20), name="other")
    with one.open(first.context), other.open(first.context):
        pass
    first.succeed()
    world = first.world
    mapped = task_context(assets=[NUMBERS], world=world, task_id="mapped", map_index=2)
    load(mapped, numbers(Counter(30), partition="eu"))
    assert [(window.name, window.partition, window.end, window.map_index) for window in consumed(first)] == [
        ("other", None, 20, -1),
        ("watermark", None, 10, -1),
        ("watermark", "eu", 30, 2),
    ]
    assert pairs(consumed(first, name="other")) == [(0, 20)]
    assert [window.end for window in consumed(first, name="watermark")] == [10, 30]


DAY = datetime(2026, 1, 1, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("initial", "cursor", "value"),
    [
        (DAY, Cursor.datetime(), DAY + timedelta(days=1)),
        (DAY.replace(tzinfo=None), Cursor.datetime(tz=None), DAY.replace(tzinfo=None) + timedelta(days=1)),
        (date(2026, 1, 1), Cursor.date(), date(2026, 1, 2)),
        (1, Cursor.int(), 2),
        (Decimal("0.1"), Cursor.decimal(), Decimal("0.2")),
        ("a", Cursor.text(), "b"),
    ],
)
def test_values_have_the_cursors_type(initial: Any, cursor: Any, value: Any) -> None:
    first = a_try()
    clock: dict[str, Any] = {"now": lambda: value} if cursor.has_clock else {}
    mark = watermark(NUMBERS, initial=initial, cursor=cursor, advance="observed", delay=cursor.no_span, **clock)
    window = load(first, mark, lambda window: window.observe(value))
    (told,) = consumed(first)
    assert (told.start, told.at, type(told.at)) == (initial, value, type(value))
    assert bounds(window)[0] == told.start


def test_several_columns_and_tokens_are_json_unless_the_cursor_is_given() -> None:
    first, cursor = a_try(), Cursor.keyset(Cursor.int(), Cursor.date())
    mark = watermark(NUMBERS, initial=(0, date(2026, 1, 1)), cursor=cursor)
    load(first, mark, lambda window: window.observe((1, date(2026, 1, 2))))
    assert consumed(first)[0].end == ["1", "2026-01-02"]
    assert consumed(first, cursor=cursor)[0].end == (1, date(2026, 1, 2))
    with pytest.raises(CursorTypeError, match="the event of"):
        consumed(first, cursor=Cursor.int())


def test_events_of_others_are_passed_over() -> None:
    first = a_try()
    first.context["outlet_events"][NUMBERS].extra.update({"watermark": "mine", "x": 1})
    first.succeed()
    second = task_context(assets=[NUMBERS], world=first.world, task_id="other")
    second.succeed()
    assert consumed(first) == []


def test_what_others_say_about_the_asset_stays_beside_it() -> None:
    first = a_try()
    first.context["outlet_events"][NUMBERS].extra["rows"] = 5
    load(first, numbers(Counter(10)))
    assert first.world.events[-1].extra["rows"] == 5


@pytest.mark.parametrize("context", [{}, {"triggering_asset_events": None}, {"triggering_asset_events": {}}])
def test_a_run_that_was_not_triggered_by_the_asset_says_what_to_do(context: Any) -> None:
    with pytest.raises(WatermarkError, match="Schedule the Dag on it"):
        windows_from_events(context, Asset("other"))


def test_the_windows_of_many_runs_are_what_was_loaded() -> None:
    world, clock = World(), Counter(5)
    mark = numbers(clock, max_span=4)
    attempt = task_context(assets=[NUMBERS], world=world)
    for number in (5, 6, 12, 12, 12):
        clock.number = number
        load(attempt, mark)
        attempt = attempt.next_run()
    told = pairs(consumed(attempt))
    assert told == [(0, 4), (4, 6), (6, 10), (10, 12)]
