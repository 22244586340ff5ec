"""The beginning: where a window comes from, what it says about itself, and which calls of the store are made."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from hypothesis import given
from hypothesis import strategies as st

from airflow_resume import watermark
from airflow_resume.errors import (
    CursorTypeError,
    UnreadableRecordError,
    WatermarkConflictError,
    WatermarkGapError,
    WatermarkLostError,
    WatermarkMismatchError,
)
from airflow_resume.testing import TaskAttempt
from airflow_resume.watermarks import Cursor, Outcome, Window
from airflow_resume.watermarks.windows.bounds import decide_bounds
from airflow_resume.watermarks.windows.run_stores import RunStores
from tests.support.watermarks.whole_numbers import (
    MARK,
    NUMBERS,
    WINDOW,
    Counter,
    a_try,
    bounds,
    break_down,
    load,
    marks,
    numbers,
    stands,
    track,
)

# --- the decision ---------------------------------------------------------------------------------------------

TABLE: dict[str, tuple[dict[str, Any], tuple[int, int | None]]] = {
    "no end": ({"ceiling": None}, (5, None)),
    "up to the ceiling": ({}, (5, 10)),
    "at the ceiling": ({"at": 10}, (10, 10)),
    "beyond the ceiling": ({"at": 12}, (12, 12)),
    "beyond the ceiling, lookback": ({"at": 12, "lookback": 5, "first": 0}, (12, 12)),
    "lookback": ({"lookback": 2, "first": 0}, (3, 10)),
    "lookback, not before the first": ({"lookback": 9, "first": 1}, (1, 10)),
    "lookback, at a mark before the first": ({"lookback": 1, "first": 7}, (5, 10)),
    "lookback, nothing loaded yet": ({"lookback": 2, "first": None}, (5, 10)),
    "a short way": ({"max_span": 20}, (5, 10)),
    "a long way": ({"max_span": 3}, (5, 8)),
    "a long way, lookback": ({"max_span": 3, "lookback": 2, "first": 0}, (3, 8)),
}


@pytest.mark.parametrize("row", TABLE)
def test_bounds(row: str) -> None:
    facts, (start, end) = TABLE[row]
    found = decide_bounds(**{"at": 5, "first": None, "ceiling": 10, "cursor": Cursor.int(), **facts})
    print(f"{row:40} -> [{start}, {end})")
    assert (found.start, found.end) == (start, end)


@given(*[st.integers(-20, 20)] * 3, st.integers(0, 30), st.integers(1, 30) | st.none())
def test_a_window_reaches_to_the_mark_and_never_beyond_the_ceiling(
    at: int, first: int, ceiling: int, lookback: int, max_span: int | None
) -> None:
    found = decide_bounds(
        at=at, first=first, ceiling=ceiling, cursor=Cursor.int(), lookback=lookback, max_span=max_span
    )
    assert found.start <= at
    assert found.is_empty == (at >= ceiling)
    assert found.is_empty or at < (found.end or 0) <= ceiling


# --- what a window says about itself --------------------------------------------------------------------------


def said(window: Window[Any]) -> str:
    names = ("is_initial", "is_retry", "is_replay", "is_reset", "empty")
    return ", ".join(name for name in names if getattr(window, name)) or "nothing"


def test_the_life_of_a_run() -> None:
    first, clock = a_try(), Counter(10)
    mark = numbers(clock)
    assert said(break_down(first, mark)) == "is_initial"
    second = first.retry()
    assert said(break_down(second, mark)) == "is_initial, is_retry"
    assert said(load(second.clear(), mark)) == "is_initial, is_retry"
    later = first.next_run()
    assert said(mark.begin(later.context)) == "empty"
    clock.number = 20
    assert said(load(later.retry(), mark)) == "nothing"
    assert said(load(later.clear(), mark)) == "is_replay"
    assert bounds(mark.begin(later.clear().context)) == (10, 20)


def test_after_a_failed_first_run_the_next_one_is_the_first() -> None:
    first, mark = a_try(), numbers(Counter(10))
    break_down(first, mark)
    assert said(load(first.next_run(), mark)) == "is_initial"


def test_a_failed_reload_stays_a_reload() -> None:
    first, mark = a_try(), numbers(Counter(10))
    load(first, mark)
    mark.reset(first.next_run().context)
    second = first.next_run()
    assert said(break_down(second, mark)) == "is_initial, is_reset"
    assert said(break_down(second.retry(), mark)) == "is_initial, is_retry, is_reset"
    third = second.next_run()
    assert said(load(third, mark)) == "is_initial, is_reset"
    assert (stands(first), said(mark.begin(third.next_run().context))) == ("10", "empty")


def test_a_reset_may_go_to_a_value_and_a_value_of_another_type_changes_nothing() -> None:
    first, mark = a_try(), numbers(Counter(10))
    load(first, mark)
    mark.reset(first.next_run().context, to=4)
    assert stands(first) == "4"
    with pytest.raises(CursorTypeError, match="to is 'x'"):
        mark.reset(first.next_run().context, to="x")
    assert bounds(load(first.next_run(), mark)) == (4, 10)


def test_a_reset_fences_what_is_under_way() -> None:
    first, mark = a_try(), numbers(Counter(10))
    window = mark.begin(first.context)
    mark.reset(first.next_run().context)
    assert mark.commit(first.context, window) is Outcome.FENCED
    assert stands(first) == "0"


# --- a person types a value -----------------------------------------------------------------------------------


@pytest.mark.parametrize("typed", ["4", 4, " 4 "])
def test_a_value_typed_by_a_person_is_where_the_next_run_begins(typed: Any, caplog: pytest.LogCaptureFixture) -> None:
    first, mark = a_try(), numbers(Counter(10), lookback=2)
    load(first, mark)
    first.asset_stores[NUMBERS].set(MARK, typed)
    window = load(first.next_run(), mark)
    assert (said(window), bounds(window), stands(first)) == ("is_reset", (4, 10), "10")
    assert "by hand" in caplog.text


def test_a_value_typed_while_a_run_is_under_way_stays() -> None:
    first, mark = a_try(), numbers(Counter(10))
    window = mark.begin(first.context)
    first.asset_stores[NUMBERS].set(MARK, "-5")
    assert mark.commit(first.context, window) is Outcome.FENCED
    assert marks(first)[MARK] == "-5"
    assert bounds(load(first.next_run(), mark)) == (-5, 10)


def test_a_value_typed_before_a_retry_leaves_the_retrys_window_and_is_not_overwritten() -> None:
    first, mark = a_try(), numbers(Counter(10))
    break_down(first, mark)
    first.asset_stores[NUMBERS].set(MARK, "3")
    assert bounds(load(first.retry(), mark)) == (0, 10)
    assert marks(first)[MARK] == "3"


def test_zero_and_the_empty_text_are_values() -> None:
    first = a_try()
    load(first, numbers(Counter(10)))
    first.asset_stores[NUMBERS].set(MARK, 0)
    assert numbers(Counter(10)).begin(first.next_run().context).start == 0
    text = watermark(NUMBERS, initial="a", cursor=Cursor.text(), name="text")
    first.asset_stores[NUMBERS].set("resume.watermark.text", "")
    assert text.begin(first.next_run().context).start == ""


@pytest.mark.parametrize("typed", ["yesterday", 0.5, True, ["4"]])
def test_what_is_neither_a_mark_nor_a_value_stops_without_a_retry(typed: Any) -> None:
    first = a_try()
    first.asset_stores[NUMBERS].set(MARK, typed)
    with pytest.raises(UnreadableRecordError, match="Type the value to continue from") as raised:
        load(first, numbers(Counter(10)))
    assert isinstance(raised.value, AirflowFailException)
    assert marks(first)[MARK] == typed


def after_write(attempt: TaskAttempt, value: Any) -> None:
    """A person types a value as soon as the mark was written, once."""
    store: Any = attempt.asset_stores[NUMBERS]
    write = store.set

    def write_and_type(key: str, written: Any) -> None:
        write(key, written)
        store.set = write
        write(key, value)

    store.set = write_and_type


def test_a_value_typed_before_a_new_mark_is_read_back_is_where_the_run_begins() -> None:
    first = a_try()
    after_write(first, "-5")
    assert bounds(load(first, numbers(Counter(10)))) == (-5, 10)
    assert stands(first) == "10"


def test_a_value_typed_before_a_commit_is_read_back_stays() -> None:
    first, mark = a_try(), numbers(Counter(10))
    window = mark.begin(first.context)
    after_write(first, "-5")
    assert mark.commit(first.context, window) is Outcome.FENCED
    assert bounds(load(first.next_run(), mark)) == (-5, 10)


def test_a_token_that_is_an_object_may_be_typed_as_well() -> None:
    first = a_try()
    mark = watermark(NUMBERS, initial={"upto": 0}, cursor=Cursor.token())
    window = mark.begin(first.context)
    first.asset_stores[NUMBERS].set(MARK, {"upto": 3})
    window.advance({"upto": 9})
    assert mark.commit(first.context, window) is Outcome.FENCED
    again = mark.begin(first.next_run().context)
    assert (again.start, again.is_reset) == ({"upto": 3}, True)


def test_a_damaged_record_is_not_taken_for_a_token() -> None:
    first = a_try()
    mark = watermark(NUMBERS, initial={"upto": 0}, cursor=Cursor.token())
    load(first, mark, lambda window: window.advance({"upto": 9}))
    damaged = {name: value for name, value in marks(first)[MARK].items() if name != "v"}
    first.asset_stores[NUMBERS].set(MARK, damaged)
    with pytest.raises(UnreadableRecordError, match="not a record"):
        mark.begin(first.next_run().context)


# --- a mark of another cursor ---------------------------------------------------------------------------------


def test_a_mark_of_another_cursor_is_refused_or_migrated() -> None:
    first = a_try()
    load(first, numbers(), track(7))
    text: dict[str, Any] = {"initial": "a", "cursor": Cursor.text()}
    with pytest.raises(WatermarkMismatchError, match="migrate=") as raised:
        load(first.next_run(), watermark(NUMBERS, **text))
    assert isinstance(raised.value, AirflowFailException)
    mark = watermark(NUMBERS, **text, migrate=lambda at: f"number {at}")
    assert load(first.next_run(), mark, track("o")).start == "number 7"
    assert [line["to"] for line in marks(first)[MARK]["history"]] == ["7", "o"]
    assert load(first.next_run(), watermark(NUMBERS, **text), track()).start == "o"


def test_a_migration_to_another_type_stops_without_touching_the_mark() -> None:
    first = a_try()
    load(first, numbers(), track(7))
    before = marks(first)
    with pytest.raises(CursorTypeError, match=r"migrate\(\)"):
        load(first.next_run(), watermark(NUMBERS, initial="a", cursor=Cursor.text(), migrate=int))
    assert marks(first) == before


def test_a_migration_fences_what_is_under_way() -> None:
    first, old = a_try(), numbers()
    load(first, old, track(7))
    second = first.next_run()
    window = old.begin(second.context)
    new = watermark(NUMBERS, initial=0, cursor=Cursor.decimal(), migrate=lambda at: at)
    new.begin(first.next_run().context)
    window.observe(9)
    assert old.commit(second.context, window) is Outcome.FENCED


def test_nor_does_one_whose_values_the_run_does_not_understand_fail_it() -> None:
    first, old = a_try(), numbers()
    window = old.begin(first.context)
    marks_of_text = watermark(NUMBERS, initial="a", cursor=Cursor.text(), migrate=lambda at: f"number {at}")
    marks_of_text.begin(first.next_run().context)
    window.observe(9)
    assert old.commit(first.context, window) is Outcome.FENCED
    assert stands(first) == "number 0"


def test_a_window_begun_with_another_cursor_stops_a_retry() -> None:
    first = a_try()
    break_down(first, numbers())
    with pytest.raises(WatermarkMismatchError, match="earlier attempt"):
        load(first.retry(), watermark(NUMBERS, initial="a", cursor=Cursor.text()))


def test_a_zone_that_is_only_shown_may_be_changed_and_the_lack_of_one_may_not() -> None:
    def moments(tz: str | None, initial: str) -> Any:
        return watermark(
            NUMBERS, initial=initial, cursor=Cursor.datetime(tz=tz), advance="observed", delay=timedelta(0)
        )

    first = a_try()
    load(first, moments("UTC", "2026-01-01T00:00:00Z"), lambda window: window.observe("2026-01-02T00:00:00Z"))
    shown = moments("Europe/Berlin", "2026-01-01T00:00:00Z").begin(first.next_run().context).start
    assert shown.isoformat() == "2026-01-02T01:00:00+01:00"
    with pytest.raises(WatermarkMismatchError, match="is a mark of"):
        moments(None, "2026-01-01T00:00:00").begin(first.next_run().context)


# --- a mark that is missing -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("on_missing", "start"), [("recover", 7), ("initial", 0)])
def test_a_lost_mark_follows_the_policy(on_missing: Any, start: int) -> None:
    first = a_try()
    load(first, numbers(), track(7))
    first.asset_stores.clear()
    with pytest.raises(WatermarkLostError, match=r"stood at .7.") as raised:
        load(first.next_run(), numbers())
    assert isinstance(raised.value, AirflowFailException)
    assert load(first.next_run(), numbers(on_missing=on_missing), track()).start == start


@pytest.mark.parametrize("on_missing", ["fail", "recover", "initial"])
def test_a_mark_that_another_run_made_while_evidence_was_looked_for_is_used(
    on_missing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other run is faster: it has made the mark, moved it, and written its event."""
    first = a_try()
    other = a_try(world=first.world, run_id="other")
    mark = numbers(on_missing=on_missing)

    def overtaken(_: RunStores[int]) -> None:
        monkeypatch.undo()
        load(other, mark, track(7))

    monkeypatch.setattr(RunStores, "claim", overtaken)
    window = mark.begin(first.context)
    assert (window.start, stands(first)) == (7, "7")


def test_a_mark_that_never_moved_is_not_lost() -> None:
    first = a_try()
    break_down(first, numbers())
    first.asset_stores.clear()
    assert said(load(first.next_run(), numbers(), track())) == "is_initial"


@pytest.mark.parametrize("initial", ["x", 0.5, None])
def test_an_initial_value_of_another_type_is_refused_when_it_is_asked_for(initial: Any) -> None:
    first = a_try()
    with pytest.raises(CursorTypeError, match="initial is"):
        load(first, watermark(NUMBERS, initial=lambda: initial, cursor=Cursor.int()))
    assert marks(first) == {}
    with pytest.raises(CursorTypeError, match="initial is"):
        watermark(NUMBERS, initial=initial, cursor=Cursor.int())


def test_an_initial_function_is_asked_once() -> None:
    asked: list[int] = []
    first = a_try()

    def initial() -> int:
        asked.append(1)
        return 3

    mark = watermark(NUMBERS, initial=initial, cursor=Cursor.int())
    assert asked == []
    load(first, mark, track(4))
    load(first.next_run(), mark, track(5))
    assert (asked, stands(first)) == ([1], "5")


# --- gaps -----------------------------------------------------------------------------------------------------


def with_a_gap(on_gap: Any) -> tuple[TaskAttempt, Any, Window[int]]:
    """A window from 10 on, under way while the mark is put to 4 by a copy of the store."""
    first, clock = a_try(), Counter(10)
    mark = numbers(clock, on_gap=on_gap)
    load(first, mark)
    clock.number = 20
    second = first.next_run()
    window = mark.begin(second.context)
    older = {**marks(first)[MARK], "at": "4"}
    first.asset_stores[NUMBERS].set(MARK, older)
    return second, mark, window


def test_after_a_gap_the_window_is_remembered_and_joined_when_the_gap_is_loaded() -> None:
    second, mark, window = with_a_gap("hold")
    assert mark.commit(second.context, window) is Outcome.GAP
    assert (stands(second), marks(second)[MARK]["islands"]) == ("4", [["10", "20"]])
    load(second.next_run(), numbers(Counter(11)))
    assert (stands(second), marks(second)[MARK]["islands"]) == ("20", [])


def test_after_a_gap_the_task_fails_without_a_retry_when_the_policy_says_so() -> None:
    """A window that a person has named, and that begins after the mark."""
    attempt = a_try()
    attempt.context["dag_run"].conf = {"watermark": {"watermark": {"from": 10, "to": 20, "commit": True}}}
    mark = numbers(Counter(20), on_gap="fail")
    window = mark.begin(attempt.context)
    with pytest.raises(WatermarkGapError, match="on_gap='hold'") as raised:
        mark.commit(attempt.context, window)
    assert isinstance(raised.value, AirflowFailException)
    assert stands(attempt) == "0"
    assert attempt.task_store.values[WINDOW]["state"] == "pending"


def test_when_another_run_has_written_the_mark_back_a_retry_begins_there() -> None:
    """The window began at the mark, so that what is missing before it is not of its own choice."""
    second, mark, window = with_a_gap("fail")
    with pytest.raises(WatermarkConflictError, match="retry begins at the mark") as raised:
        mark.commit(second.context, window)
    assert not isinstance(raised.value, AirflowFailException)
    assert stands(second) == "4"
    assert bounds(load(second.retry(), mark)) == (4, 20)
    assert stands(second) == "20"


def test_a_staged_window_after_a_mark_that_was_written_back_fails_without_a_retry() -> None:
    """Another task has loaded it, so a retry of the commit would find the same."""
    second, mark, window = with_a_gap("fail")
    with pytest.raises(WatermarkGapError):
        mark.commit(second.context, window.stage())


def test_a_gap_is_jumped_when_the_policy_says_so(caplog: pytest.LogCaptureFixture) -> None:
    second, mark, window = with_a_gap("jump")
    assert mark.commit(second.context, window) is Outcome.JUMPED
    assert stands(second) == "20"
    assert [record.levelno for record in caplog.records if "jumped" in record.message] == [logging.WARNING]


# --- what is kept, and what it costs --------------------------------------------------------------------------


@pytest.mark.parametrize(("history", "kept"), [(0, []), (2, ["30", "40"]), (10, ["10", "20", "30", "40"])])
def test_so_many_moves_are_kept(history: int, kept: list[str]) -> None:
    attempt = a_try()
    for number in (10, 20, 30, 40):
        load(attempt, numbers(Counter(number), history=history))
        attempt = attempt.next_run()
    assert [line["to"] for line in marks(attempt)[MARK]["history"]] == kept
    assert marks(attempt)[MARK]["by"] == {"dag_id": "dag", "run_id": "run-4", "task_id": "task", "try": 1}


def calls(attempt: TaskAttempt) -> list[str]:
    """What was asked of the stores since the last time: T for the task's, A for the asset's."""
    log = attempt.task_store.log
    made = [f"{'A' if call.key == MARK else 'T'} {call.name}" for call in log]
    log.clear()
    return made


BEGIN = ["T get", "A get", "T set"]
COMMIT = ["T set", "A get", "A set", "A get", "T set"]


def test_a_run_makes_eight_calls_of_the_stores_and_an_idle_one_two() -> None:
    first, clock = a_try(), Counter(10)
    mark = numbers(clock)
    load(first, mark)
    assert calls(first) == ["T get", "A get", "T set", "A get", "A set", "A get", "T set", *COMMIT]
    clock.number = 20
    second = first.next_run()
    window = mark.begin(second.context)
    assert calls(first) == BEGIN
    mark.commit(second.context, window)
    assert calls(first) == COMMIT
    load(first.next_run(), mark)
    assert calls(first) == BEGIN[:2]


def test_a_retry_asks_for_the_task_state_alone_and_a_replay_does_not_write_the_mark() -> None:
    first, clock = a_try(), Counter(5)
    mark = numbers(clock)
    load(first, mark)
    clock.number = 10
    first = first.next_run()
    break_down(first, mark)
    calls(first)
    second = first.retry()
    load(second, mark)
    assert calls(first) == ["T get", "T set", *COMMIT]
    load(second.clear(), mark)
    assert calls(first) == ["T get", "T set", "T set", "A get", "T set"]


def test_a_slice_costs_five_calls() -> None:
    first, mark = a_try(), numbers(Counter(20))
    window = mark.begin(first.context)
    calls(first)
    for _ in window.split(5):
        pass
    assert calls(first) == COMMIT * 3


def test_a_write_that_another_run_overwrote_is_merged_with_what_that_one_wrote() -> None:
    first, mark = a_try(), numbers(Counter(10))
    window = mark.begin(first.context)
    store = first.asset_stores[NUMBERS]
    set_value = store.set
    further = {**marks(first)[MARK], "at": "15", "rev": 7}

    def overwritten(key: str, value: Any) -> None:
        set_value(key, value)
        set_value(key, further)

    store.set = overwritten  # type: ignore[method-assign]
    assert mark.commit(first.context, window) is Outcome.NOOP
    assert marks(first)[MARK] == further


def test_a_window_after_a_gap_does_not_end_a_reload() -> None:
    first, mark = a_try(), numbers(Counter(20))
    first.context["dag_run"].conf = {"watermark": {"watermark": {"from": 5, "to": 9, "commit": True}}}
    load(first, mark)
    assert marks(first)[MARK]["islands"] == [["5", "9"]]
    assert mark.begin(first.next_run().context).is_initial
