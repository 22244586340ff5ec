"""What consumers learn of: exactly what was loaded, without overlap and without a hole."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numbered import NUMBERS, BodyFailedError, Counter, a_try, break_down, load, numbers, rows, stands

from airflow_resume import watermark
from airflow_resume.testing import TaskAttempt
from airflow_resume.watermarks import Cursor, LoadedWindow, Watermark, Window, windows_from_events


def told(attempt: TaskAttempt) -> list[LoadedWindow]:
    """By all events so far."""
    events = [
        SimpleNamespace(extra=event.extra, source_run_id=event.source_run_id, source_map_index=event.source_map_index)
        for event in attempt.world.events
    ]
    return windows_from_events({"triggering_asset_events": {NUMBERS: events}}, NUMBERS)


def spans(attempt: TaskAttempt) -> list[tuple[Any, Any, str]]:
    return [(window.start, window.end, window.bounds) for window in told(attempt)]


def track(*values: int, **options: Any) -> Callable[[Window[Any]], Any]:
    return lambda window: list(window.track(rows(*values), "n", **options))


def failing_from(value: int) -> Callable[[Window[Any]], Any]:
    return lambda window: window.fail_from(value)


def told_until(value: int) -> Callable[[Window[Any]], Any]:
    return lambda window: window.advance(value)


OBSERVED: dict[str, Any] = {"advance": "observed"}
CASES: list[tuple[str, dict[str, Any], Callable[[Window[Any]], Any], list[tuple[Any, Any, str]]]] = [
    ("the whole window", {}, lambda _: None, [(0, 10, "[)")]),
    ("a part failed", {}, failing_from(6), [(0, 6, "[)")]),
    ("all of it failed", {}, failing_from(0), []),
    ("the body says how far", {}, told_until(4), [(0, 4, "[)")]),
    ("what was seen", OBSERVED, track(3, 7), [(0, 7, "[)")]),
    ("nothing was seen", OBSERVED, track(), []),
    ("only rows at the start", OBSERVED, track(0), []),
    ("unique values", OBSERVED, track(3, 7, unique=True), [(0, 7, "[]")]),
    ("some failed", OBSERVED, lambda window: [*track(3, 7)(window), window.fail_from(5)], [(0, 5, "[)")]),  # type: ignore[func-returns-value]
    ("a sample", {}, lambda window: window.sampled(), []),
]


@pytest.mark.parametrize(("options", "body", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_one_window(options: dict[str, Any], body: Any, expected: list[Any]) -> None:
    attempt = a_try()
    load(attempt, numbers(Counter(10), **options), body)
    assert spans(attempt) == expected


def test_with_unique_values_the_next_window_begins_after_the_last() -> None:
    attempt, mark = a_try(), numbers()
    load(attempt, mark, track(3, 7, unique=True))
    second = attempt.next_run()
    load(second, mark, track(7, 9, unique=True))
    assert spans(second) == [(0, 7, "[]"), (7, 9, "(]")]


def test_a_token_is_told_from_the_old_to_the_new_one() -> None:
    mark = watermark(NUMBERS, initial="t0", cursor=Cursor.token())
    attempt = a_try()
    load(attempt, mark, lambda window: window.advance("t1"))
    load(attempt.next_run(), mark, lambda window: window.advance("t1"))
    assert [(window.start, window.end) for window in told(attempt)] == [("t0", "t1")]


def test_a_lookback_says_from_where_on_it_is_new() -> None:
    clock = Counter(10)
    mark, attempt = numbers(clock, lookback=4), a_try()
    load(attempt, mark)
    clock.number = 20
    second = attempt.next_run()
    load(second, mark)
    assert [(window.start, window.new_from, window.end) for window in told(second)] == [(0, None, 10), (6, 10, 20)]


def test_an_isolated_backfill_is_told_of_and_the_mark_stays() -> None:
    attempt = a_try()
    attempt.context["dag_run"].conf = {"watermark": {"watermark": {"from": 2, "to": 5}}}
    load(attempt, numbers(Counter(10), **OBSERVED), track(3))
    assert [(*span, window.origin) for span, window in zip(spans(attempt), told(attempt), strict=True)] == [
        (2, 5, "[)", "conf")
    ]
    assert stands(attempt) == "0"


def test_slices_of_an_observed_window_move_the_mark_to_what_was_seen_and_no_further() -> None:
    attempt, seen = a_try(), []

    def body(window: Window[Any]) -> None:
        for piece in window.split(4):
            list(piece.track(rows(*[n for n in (1, 2, 9) if piece.start <= n < piece.end]), "n"))
            seen.append(stands(attempt))

    load(attempt, numbers(Counter(12), **OBSERVED), body)
    assert (seen, stands(attempt)) == (["0", "2", "2"], "9")
    assert spans(attempt) == [(0, 9, "[)")]


def test_slices_that_were_committed_before_the_task_failed_for_good_are_told_of_by_the_next_run() -> None:
    clock = Counter(10)
    mark, attempt = numbers(clock), a_try()

    def body(window: Window[Any]) -> None:
        for piece in window.split(4):
            if piece.start == 8:
                raise BodyFailedError

    break_down(attempt, mark, body)
    assert stands(attempt) == "8"
    attempt.mark("failed")
    clock.number = 20
    second = attempt.next_run()
    window = load(second, mark)
    assert (window.start, window.end) == (8, 20)
    assert spans(second) == [(0, 20, "[)")]
    clock.number = 30
    third = second.next_run()
    load(third, mark)
    assert spans(third) == [(0, 20, "[)"), (20, 30, "[)")]


def test_a_window_whose_task_failed_after_the_commit_is_told_of_by_the_next_run() -> None:
    clock = Counter(10)
    mark, attempt = numbers(clock), a_try()
    mark.commit(attempt.context, mark.begin(attempt.context))
    attempt.mark("failed")
    clock.number = 20
    second = attempt.next_run()
    break_down(second, mark)
    again = second.retry()
    load(again, mark)
    assert spans(again) == [(0, 20, "[)")]


def a_mark(mode: str, clock: Counter) -> Watermark[Any]:
    return numbers(clock, **({} if mode == "window" else OBSERVED))


class Run:
    """One run in the life of a mark: what it loads, and how it ends."""

    def __init__(self, ends: str, values: set[int], failed: int, step: int) -> None:
        self.ends, self.values, self.failed, self.step = ends, values, failed, step


runs = st.builds(
    Run,
    st.sampled_from(["succeeds", "fails", "fails late", "is tried again", "is a sample"]),
    st.sets(st.integers(0, 9), max_size=4),
    st.integers(1, 15),
    st.integers(0, 4),
)


@given(st.sampled_from(["window", "unique"]), st.lists(runs, min_size=1, max_size=6))
@example("unique", [Run("fails", {0}, 1, 1)])
@settings(max_examples=150, deadline=None)
def test_consumers_get_each_loaded_value_once(mode: str, plan: list[Run]) -> None:
    clock, attempt, source, loaded = Counter(0), a_try(), set[int](), set[int]()
    mark = a_mark(mode, clock)
    for number, run in enumerate(plan):
        source |= {10 * number + value for value in run.values}
        clock.number = 10 * number + 10
        attempt = _play(attempt, mark, run, source, loaded)
    clock.number += 10
    _play(attempt, mark, Run("succeeds", set(), 100, 0), source, loaded)
    windows = told(attempt)
    got = [value for window in windows for value in sorted(source) if _has(window, value)]
    assert sorted(got) == sorted(source & loaded)
    assert source <= loaded


def _has(window: LoadedWindow, value: int) -> bool:
    is_after = value > window.start if window.bounds[0] == "(" else value >= window.start
    is_before = value <= window.end if window.bounds[1] == "]" else value < window.end
    return bool(is_after and is_before)


def _body(run: Run, source: set[int], loaded: set[int]) -> Callable[[Window[Any]], None]:
    def load_rows(window: Window[Any]) -> None:
        found = [{"n": n} for n in sorted(source) if window.start <= n < window.end]
        for row in window.track(found, "n", unique=True):
            if row["n"] % 16 == run.failed:
                window.fail_from(row["n"])
            loaded.add(row["n"])

    def body(window: Window[Any]) -> None:
        if run.ends == "is a sample":
            window.sampled()
        for piece in window.split(run.step) if run.step and not window.empty else [window]:
            if not piece.empty:
                load_rows(piece)
        if run.ends == "fails":
            raise BodyFailedError

    return body


def _play(attempt: TaskAttempt, mark: Watermark[Any], run: Run, source: set[int], loaded: set[int]) -> TaskAttempt:
    body = _body(run, source, loaded)
    if run.ends == "fails":
        break_down(attempt, mark, body)
    elif run.ends in {"fails late", "is tried again"}:
        window = mark.begin(attempt.context)
        body(window)
        mark.commit(attempt.context, window)
    if run.ends.startswith("fails"):
        attempt.mark("failed")
    else:
        attempt = attempt.retry() if run.ends == "is tried again" else attempt
        load(attempt, mark, body)
    return attempt.next_run()
