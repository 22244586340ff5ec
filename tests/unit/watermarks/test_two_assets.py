"""Two watermarks with one name in one task: each has the windows of its own asset."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import Asset

from airflow_resume import watermark
from airflow_resume.errors import WatermarkLostError
from airflow_resume.testing import TaskAttempt, World, task_context
from airflow_resume.watermarks import Watermark
from tests.support.watermarks.whole_numbers import NUMBERS, Counter, numbers, stands

OTHERS = Asset("others")


def others(now: Counter, **options: Any) -> Watermark[Any]:
    return watermark(OTHERS, **{"initial": 3, "now": now, **options})


def both(world: World | None = None, **options: Any) -> TaskAttempt:
    return task_context(assets=[NUMBERS, OTHERS], world=world or World(), **options)


def at(attempt: TaskAttempt) -> tuple[Any, Any]:
    return stands(attempt), attempt.asset_stores[OTHERS].values["resume.watermark.watermark"]["at"]


@pytest.mark.parametrize("nested", [True, False])
def test_each_has_its_own_window_and_mark(*, nested: bool) -> None:
    clock = Counter(10)
    one, other = numbers(clock), others(clock)
    attempt = both()
    if nested:
        with one.open(attempt.context) as first, other.open(attempt.context) as second:
            assert (first.start, second.start) == (0, 3)
    else:
        with one.open(attempt.context) as first:
            pass
        with other.open(attempt.context) as second:
            assert (second.start, second.end, second.is_replay) == (3, 10, False)
    assert at(attempt) == ("10", "10")
    assert sorted(attempt.task_store.values) == [
        "resume.window.numbers~~watermark",
        "resume.window.others~~watermark",
    ]


def test_they_may_be_of_different_types() -> None:
    attempt = both()
    with numbers(Counter(10)).open(attempt.context):
        pass
    days = watermark(OTHERS, initial="2026-01-01", now=lambda: "2026-01-05", delay=timedelta(0))
    with days.open(attempt.context) as window:
        assert str(window.start) == "2026-01-01"


def test_a_retry_after_a_death_between_the_two_goes_on_with_the_second() -> None:
    clock = Counter(10)
    attempt = both()
    with numbers(clock).open(attempt.context):
        pass
    with pytest.raises(KeyError), others(clock).open(attempt.context):
        raise KeyError
    clock.number = 20
    again = attempt.retry()
    with numbers(clock).open(again.context) as first, others(clock).open(again.context) as second:
        assert (first.start, first.end, first.is_replay) == (0, 10, True)
        assert (second.start, second.end, second.is_retry) == (3, 10, True)
    assert at(again) == ("10", "10")


def test_the_notes_of_one_are_no_evidence_for_the_other() -> None:
    clock, world = Counter(10), World()
    first = both(world)
    with numbers(clock).open(first.context):
        pass
    first.succeed()
    with others(clock).open(both(world, run_id="second").context) as window:
        assert (window.start, window.is_initial) == (3, True)


def test_a_window_of_0_1_is_taken_up_by_the_asset_whose_mark_it_began_at() -> None:
    clock = Counter(10)
    attempt = both()
    with pytest.raises(KeyError), numbers(clock).open(attempt.context):
        raise KeyError
    with others(clock).open(attempt.context):
        pass
    store = attempt.task_store
    window: Any = store.get("resume.window.numbers~~watermark")
    for key in list(store.values):
        store.delete(key)
    store.set("resume.window.watermark", {**window, "key": "resume.window.watermark"})
    clock.number = 20
    again = attempt.retry()
    with others(clock).open(again.context) as second:
        assert (second.start, second.end, second.is_retry) == (10, 20, False)
    with numbers(clock).open(again.context) as first:
        assert (first.start, first.end, first.is_retry) == (0, 10, True)


def as_0_1_kept_it(record: dict[str, Any]) -> dict[str, Any]:
    """It knew no owner."""
    return {name: value for name, value in record.items() if name not in {"owner", "lag_seconds", "first", "untold"}}


def test_the_mark_of_a_partition_is_taken_up_once_from_the_key_of_0_1() -> None:
    clock, old = Counter(10), "resume.watermark.watermark.%22eu%22"
    mark = numbers(clock, partition="eu")
    attempt = both()
    with mark.open(attempt.context):
        pass
    store = attempt.asset_stores[NUMBERS]
    record: Any = store.get("resume.watermark.watermark~~eu")
    store.delete("resume.watermark.watermark~~eu")
    store.set(old, {**as_0_1_kept_it(record), "key": old, "at": "7"})
    clock.number = 20
    second = attempt.next_run()
    with mark.open(second.context) as window:
        assert (window.start, window.end) == (7, 20)
    assert stands(second, "resume.watermark.watermark~~eu") == "20"
    assert (stands(second, old), store.values[old]["taken_up"]) == ("7", True)  # type: ignore[index,call-overload]
    store.delete("resume.watermark.watermark~~eu")
    with pytest.raises(WatermarkLostError, match="stood at '20'"):
        mark.begin(second.next_run().context)


NAMED_LIKE_A_PARTITION, OF_A_PARTITION = "resume.watermark.x.1", "resume.watermark.x~~~j1"
"""The first is the key of the watermark `x.1`, and in version 0.1 it was that of the partition 1 of `x` as well."""


def test_the_mark_of_a_watermark_that_is_named_like_a_partition_is_left_alone() -> None:
    attempt = both()
    with numbers(Counter(10), name="x.1").open(attempt.context):
        pass
    attempt.succeed()
    store = attempt.asset_stores[NUMBERS]
    before = store.get(NAMED_LIKE_A_PARTITION)
    with numbers(Counter(20), name="x", partition=1).open(attempt.next_run().context) as window:
        assert (window.start, window.end) == (0, 20)
    assert attempt.next_run().asset_stores[NUMBERS].get(NAMED_LIKE_A_PARTITION) == before


def test_what_a_person_typed_for_such_a_watermark_is_left_to_it() -> None:
    attempt = both()
    attempt.asset_stores[NUMBERS].set(NAMED_LIKE_A_PARTITION, 7)
    with numbers(Counter(20), name="x", partition=1).open(attempt.context) as window:
        assert (window.start, window.end) == (0, 20)
    with numbers(Counter(20), name="x.1").open(attempt.context) as window:
        assert (window.start, window.end) == (7, 20)


def test_nor_do_the_events_of_such_a_watermark_say_that_the_mark_of_the_partition_was_lost() -> None:
    attempt = both()
    with numbers(Counter(10), name="x.1").open(attempt.context):
        pass
    attempt.succeed()
    attempt.asset_stores[NUMBERS].delete(NAMED_LIKE_A_PARTITION)
    with numbers(Counter(20), name="x", partition=1).open(attempt.next_run().context) as window:
        assert (window.start, window.end) == (0, 20)


def test_an_event_of_0_1_says_where_the_mark_of_a_partition_stood() -> None:
    attempt = both()
    line = {"name": "x", "partition": 1, "from": "0", "to": "8", "at": "8", "outcome": "advanced"}
    attempt.context["outlet_events"][NUMBERS].extra["watermark"] = {"x.1": line}
    attempt.succeed()
    with pytest.raises(WatermarkLostError, match="stood at '8'"):
        numbers(Counter(20), name="x", partition=1).begin(attempt.next_run().context)
