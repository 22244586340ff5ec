"""What was loaded stays in the mark's record until an event tells it, whatever becomes of the run that loaded it."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_resume.testing import TaskAttempt, task_context
from airflow_resume.watermarks import AsyncWatermark, Watermark, windows_from_events
from tests.support.watermarks.whole_numbers import MARK, NUMBERS, Counter, a_try, load, marks, numbers, stands, track


def outcomes(attempt: TaskAttempt) -> list[tuple[Any, Any, str]]:
    """What all events so far tell, one run of a consumer for each."""
    return [
        (window.start, window.end, window.outcome.value)
        for event in attempt.world.events
        for window in windows_from_events({"triggering_asset_events": {NUMBERS: [event]}}, NUMBERS)
    ]


def fails_late(attempt: TaskAttempt, mark: Watermark[Any], body: Any = lambda _: None) -> TaskAttempt:
    """The task moves the mark, and fails for good; the next run."""
    window = mark.begin(attempt.context)
    body(window)
    mark.commit(attempt.context, window)
    attempt.mark("failed")
    return attempt.next_run()


def wished(attempt: TaskAttempt, start: int, end: int) -> TaskAttempt:
    attempt.context["dag_run"].conf = {"watermark": {"watermark": {"from": start, "to": end, "commit": True}}}
    return attempt


def test_a_run_with_nothing_new_tells_what_the_one_before_did_not() -> None:
    mark = numbers(Counter(10))
    idle = fails_late(a_try(), mark)
    assert load(idle, mark).empty
    assert outcomes(idle) == [(0, 10, "advanced")]
    again = idle.next_run()
    load(again, mark)
    assert outcomes(again) == [(0, 10, "advanced")]


def test_so_does_one_that_is_skipped_not_as_it_writes_no_event() -> None:
    mark = numbers(Counter(10))
    idle = fails_late(a_try(), mark)
    before = marks(idle)[MARK]
    with pytest.raises(Exception, match="Nothing is new"), numbers(Counter(10), when_empty="skip").open(idle.context):
        pass
    assert marks(idle)[MARK] == before


def test_a_run_with_nothing_new_that_was_replaced_takes_nothing_over() -> None:
    mark = numbers(Counter(10))
    idle = fails_late(a_try(), mark)
    window = mark.begin(idle.context)
    before = marks(idle)[MARK]
    idle.supersede()
    with pytest.raises(Exception, match="replaced"):
        mark.commit(idle.context, window)
    assert marks(idle)[MARK] == before


def test_a_task_that_a_person_marks_a_success_wrote_no_event_and_is_told_of_by_the_next_run() -> None:
    clock, first = Counter(10), a_try()
    mark = numbers(clock)
    mark.commit(first.context, mark.begin(first.context))
    first.mark("success")
    clock.number = 20
    second = first.next_run()
    load(second, mark)
    assert outcomes(second) == [(0, 10, "advanced"), (10, 20, "advanced")]


def test_a_run_that_is_made_again_with_its_id_tells_what_the_deleted_one_has_loaded() -> None:
    clock, first = Counter(10), a_try()
    mark = numbers(clock)
    mark.commit(first.context, mark.begin(first.context))
    clock.number = 20
    again = first.recreate()
    load(again, mark)
    assert outcomes(again) == [(0, 10, "advanced"), (10, 20, "advanced")]


def test_a_run_made_again_with_its_id_does_not_tell_what_the_deleted_one_told() -> None:
    clock, first = Counter(10), a_try()
    mark = numbers(clock)
    load(first, mark)
    clock.number = 20
    again = first.recreate()
    load(again, mark)
    assert outcomes(again) == [(0, 10, "advanced"), (10, 20, "advanced")]


@pytest.mark.parametrize(
    ("on_gap", "expected"),
    [
        ("hold", [(15, 20, "gap"), (0, 15, "advanced")]),
        ("jump", [(15, 20, "jumped")]),
    ],
)
def test_what_lies_beyond_a_gap_is_remembered_and_nothing_else_is_told(on_gap: Any, expected: Any) -> None:
    clock = Counter(30)
    mark = numbers(clock, on_gap=on_gap)
    second = fails_late(wished(a_try(), 15, 20), mark)
    clock.number = 15
    load(second, mark)
    assert outcomes(second) == expected


def test_of_windows_that_overlap_each_tells_of_itself() -> None:
    """A slow run that moves nothing does not take the place of one that has."""
    clock, slow = Counter(10), a_try()
    mark = numbers(clock)
    slow_window = mark.begin(slow.context)
    clock.number = 20
    fast = slow.next_run()
    fails_late(fast, mark)
    mark.commit(slow.context, slow_window)
    slow.succeed()
    assert outcomes(slow) == [(0, 20, "advanced"), (0, 10, "noop")]


def test_of_runs_at_once_each_tells_its_own_window() -> None:
    """The one that is still at work will tell, and if it fails, a later run does."""
    clock, slow = Counter(10), a_try()
    mark = numbers(clock)
    mark.commit(slow.context, mark.begin(slow.context))
    clock.number = 20
    fast = slow.next_run()
    load(fast, mark)
    assert outcomes(slow) == [(10, 20, "advanced")]
    slow.mark("failed")
    idle = fast.next_run()
    load(idle, mark)
    assert outcomes(slow) == [(10, 20, "advanced"), (0, 10, "advanced")]


def test_what_an_event_trigger_moves_keeps_what_is_untold() -> None:
    mark = numbers(Counter(10))
    second = fails_late(a_try(), mark)
    store = second.asset_stores[NUMBERS]

    class Store:
        async def aget(self, key: str, default: Any = None) -> Any:
            return store.get(key, default)

        async def aset(self, key: str, value: Any) -> None:
            store.set(key, value)

    async def moves() -> None:
        moved: AsyncWatermark[int] = AsyncWatermark(Store(), initial=0)
        await moved.at()
        await moved.advance(12)

    asyncio.run(moves())
    assert stands(second) == "12"
    load(second, numbers(Counter(20)))
    assert outcomes(second) == [(0, 10, "advanced"), (12, 20, "advanced")]


def test_a_mark_that_was_migrated_keeps_what_is_untold() -> None:
    from airflow_resume import watermark
    from airflow_resume.watermarks import Cursor

    second = fails_late(a_try(), numbers(Counter(10)))
    mark = watermark(NUMBERS, initial="a", cursor=Cursor.text(), migrate=lambda old: f"t{old}")
    load(second, mark, lambda window: window.observe("u"))
    assert outcomes(second) == [("t0", "t10", "advanced"), ("t10", "u", "advanced")]


def test_a_set_back_mark_tells_what_was_loaded_before_and_what_is_loaded_again() -> None:
    mark = numbers(Counter(10))
    second = fails_late(a_try(), mark)
    mark.reset(second.context, 5)
    load(second, mark)
    assert outcomes(second) == [(0, 10, "advanced"), (5, 10, "advanced")]


def test_a_reset_that_another_run_writes_over_is_done_again() -> None:
    mark, attempt = numbers(Counter(10)), a_try()
    load(attempt, mark)
    store = attempt.asset_stores[NUMBERS]
    before: Any = store.values[MARK]
    following = attempt.next_run()
    written: list[str] = []

    def overwrite(when: str, operation: str) -> None:
        if (when, operation) == ("after", f"set {MARK}") and not written:
            written.append(operation)
            following.asset_stores[NUMBERS].set(MARK, before)

    following.world.observer = overwrite
    mark.reset(following.context, 3)
    following.world.observer = None
    assert (stands(following), written) == ("3", [f"set {MARK}"])


# --- where events cannot be read, or are too many ------------------------------------------------------------------


def test_of_a_window_older_than_a_hundred_events_it_counts_whether_the_task_has_succeeded() -> None:
    clock, first = Counter(10), a_try()
    mark = numbers(clock)
    load(first, mark)
    for number in range(120):
        task_context(assets=[NUMBERS], world=first.world, task_id="other", run_id=f"other {number}").succeed()
    clock.number = 20
    second = first.next_run()
    third = fails_late(second, mark)
    assert outcomes(third) == [(0, 10, "advanced")]
    for number in range(120):
        task_context(assets=[NUMBERS], world=first.world, task_id="other", run_id=f"others {number}").succeed()
    clock.number = 30
    load(third, mark)
    assert outcomes(third) == [(0, 10, "advanced"), (10, 20, "advanced"), (20, 30, "advanced")]


@pytest.mark.parametrize(("state", "expected"), [("success", [(10, 20)]), ("failed", [(0, 10), (10, 20)])])
def test_where_no_events_can_be_read_it_counts_whether_the_task_has_succeeded(state: Any, expected: Any) -> None:
    clock, first = Counter(10), a_try()
    mark = numbers(clock)
    mark.commit(first.context, mark.begin(first.context))
    first.mark(state)
    clock.number = 20
    second = first.next_run()
    second.context["inlet_events"] = None
    load(second, mark)
    assert [pair[:2] for pair in outcomes(second)] == expected


# --- how much is kept -------------------------------------------------------------------------------------------


def test_many_windows_that_nobody_told_are_kept_as_few() -> None:
    clock, attempt = Counter(0), a_try()
    mark = numbers(clock)
    for number in range(1, 31):
        clock.number = number
        attempt = fails_late(attempt, mark)
    assert len(marks(attempt)[MARK]["outbox"]) <= 20
    clock.number = 31
    load(attempt, mark)
    told = outcomes(attempt)
    assert (told[0][0], told[-1][1]) == (0, 31)
    assert all(one[1] == other[0] for one, other in pairwise(told))


def test_what_was_told_is_forgotten_by_the_next_write() -> None:
    clock, attempt = Counter(0), a_try()
    mark = numbers(clock)
    for number in range(1, 5):
        clock.number = number
        load(attempt, mark)
        attempt = attempt.next_run()
    (kept,) = marks(attempt)[MARK]["outbox"]
    assert (kept["from"], kept["by"]["run_id"]) == ("3", "run-4")


def test_a_consumer_gets_a_window_once_that_two_events_tell() -> None:
    """Two runs at once may both tell it."""
    line = {
        "name": "watermark",
        "id": "a",
        "from": "0",
        "to": "5",
        "outcome": "advanced",
        "definition": {"type": "int"},
    }
    events = [
        SimpleNamespace(extra={"watermark": {"watermark": line}}, source_run_id=run_id, source_map_index=-1)
        for run_id in ("one", "two")
    ]
    (window,) = windows_from_events({"triggering_asset_events": {NUMBERS: events}}, NUMBERS)
    assert (window.start, window.end, window.run_id) == (0, 5, "one")


# --- of before --------------------------------------------------------------------------------------------------


LEFT: dict[str, Any] = json.loads((Path(__file__).parents[2] / "fixtures" / "records-untold.json").read_text())
"""What was kept when the record had one window that was untold, `untold`, and events had no ids of windows."""


def left(what: str, *, run_id: str = "run-1") -> TaskAttempt:
    """The last attempt, with what it left."""
    attempt = task_context(assets=[NUMBERS], run_id=run_id)
    for key, value in LEFT[what]["mark"].items():
        attempt.asset_stores[NUMBERS].set(key, value)
    for key, value in LEFT[what]["task"].items():
        attempt.task_store.set(key, value)
    for event in LEFT[what]["events"]:
        attempt.context["outlet_events"][NUMBERS].extra.update(event["extra"])
        attempt.succeed()
    return attempt


def test_what_a_record_of_before_says_is_untold_is_told() -> None:
    first = left("moved, and failed for good")
    first.mark("failed")
    second = first.next_run()
    load(second, numbers(Counter(20)))
    assert outcomes(second) == [(0, 10, "advanced"), (10, 20, "advanced")]
    assert "untold" not in marks(second)[MARK]


def test_it_is_told_with_the_row_at_its_end_where_values_are_unique() -> None:
    second = left("ids, two runs failed for good", run_id="run-2")
    second.mark("failed")
    third = second.next_run("run-3")
    load(third, numbers(), track(9, 12, unique=True))
    context = {"triggering_asset_events": {NUMBERS: list(third.world.events)}}
    assert [(w.start, w.end, w.bounds) for w in windows_from_events(context, NUMBERS)] == [
        (0, 9, "[]"),
        (9, 12, "(]"),
    ]


def test_by_a_retry_of_the_run_that_loaded_it_too() -> None:
    first = left("moved, and failed for good")
    load(first.retry(), numbers(Counter(20)))
    assert outcomes(first) == [(0, 10, "advanced")]


def test_slices_of_before_are_gone_on_with_and_told_as_one_window() -> None:
    first = left("slices")
    loaded: list[int] = []
    load(first.retry(), numbers(Counter(20)), lambda window: loaded.extend(piece.start for piece in window.split(4)))
    assert (loaded, outcomes(first)) == ([8], [(0, 10, "advanced")])


def test_a_window_that_was_begun_beside_an_untold_one_is_told_with_it() -> None:
    second = left("begun beside an untold window", run_id="run-2")
    load(second.retry(), numbers(Counter(20)))
    assert outcomes(second) == [(0, 10, "advanced"), (10, 20, "advanced")]


def test_what_an_event_of_before_has_told_is_not_told_again() -> None:
    first = left("told")
    second = first.next_run()
    load(second, numbers(Counter(20)))
    assert outcomes(second) == [(0, 10, "advanced"), (10, 20, "advanced")]


def test_a_token_that_was_staged_before_is_committed() -> None:
    first = left("staged")
    numbers(Counter(10)).commit(first.context, LEFT["staged"]["token"])
    first.succeed()
    assert outcomes(first) == [(0, 10, "advanced")]
