"""What consumers learn of: exactly what was loaded, without overlap and without a hole."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from airflow_resume import watermark
from airflow_resume.errors import WatermarkError
from airflow_resume.testing import TaskAttempt
from airflow_resume.watermarks import Cursor, LoadedWindow, Watermark, Window, windows_from_events
from tests.support.watermarks.whole_numbers import (
    MARK,
    NUMBERS,
    BodyFailedError,
    Counter,
    a_try,
    break_down,
    load,
    numbers,
    rows,
    stands,
)


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
    assert outcomes(second) == [(0, 8, "advanced"), (8, 20, "advanced")]
    assert [window.run_id for window in told(second)] == ["run-1", "run-2"]
    clock.number = 30
    third = second.next_run()
    load(third, mark)
    assert spans(third) == [(0, 8, "[)"), (8, 20, "[)"), (20, 30, "[)")]


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
    assert outcomes(again) == [(0, 10, "advanced"), (10, 20, "advanced")]


def committed(attempt: TaskAttempt, mark: Watermark[Any], body: Callable[[Window[Any]], Any] = lambda _: None) -> None:
    """The task commits its window, and dies."""
    window = mark.begin(attempt.context)
    body(window)
    mark.commit(attempt.context, window)


def outcomes(attempt: TaskAttempt) -> list[tuple[Any, Any, str]]:
    return [(window.start, window.end, window.outcome.value) for window in told(attempt)]


def test_a_run_between_two_tries_tells_of_what_the_first_has_loaded_and_the_second_has_loaded_it_again() -> None:
    clock = Counter(10)
    mark, first = numbers(clock), a_try()
    committed(first, mark)
    first._record.state = "up_for_retry"
    clock.number = 20
    second = first.next_run()
    load(second, mark)
    load(first.retry(), mark)
    assert outcomes(second) == [(0, 10, "advanced"), (10, 20, "advanced"), (0, 10, "noop")]


@pytest.mark.parametrize("ends", ["failed", "deleted"])
def test_a_run_that_is_gone_is_told_of_by_a_window_of_a_conf_too(ends: str) -> None:
    clock = Counter(10)
    mark, first = numbers(clock), a_try()
    committed(first, mark)
    record: Any = first._record
    record.state = None if ends == "deleted" else "failed"
    second = first.next_run()
    second.context["dag_run"].conf = {"watermark": {"watermark": {"from": 10, "to": 15, "commit": True}}}
    clock.number = 20
    load(second, mark)
    assert outcomes(second) == [(0, 10, "advanced"), (10, 15, "advanced")]
    assert [window.origin for window in told(second)] == ["mark", "conf"]


def test_a_task_that_was_cleared_after_it_had_told_is_not_told_of_again() -> None:
    clock = Counter(10)
    mark, first = numbers(clock), a_try()
    load(first, mark)
    cleared = first.clear()
    break_down(cleared, mark)
    cleared.mark("failed")
    clock.number = 20
    second = cleared.next_run()
    load(second, mark)
    assert outcomes(second) == [(0, 10, "advanced"), (10, 20, "advanced")]


def test_a_reset_keeps_what_is_untold() -> None:
    clock = Counter(10)
    mark, first = numbers(clock), a_try()
    committed(first, mark)
    first.mark("failed")
    mark.reset(first.next_run("reset").context, 10)
    clock.number = 20
    second = first.next_run()
    load(second, mark)
    assert outcomes(second) == [(0, 10, "advanced"), (10, 20, "advanced")]


def test_what_is_said_to_be_read_again_is_told_by_the_same_event_at_the_latest() -> None:
    clock = Counter(10)
    mark, attempt = numbers(clock, lookback=3), a_try()
    load(attempt, mark)
    clock.number, attempt = 20, attempt.next_run()
    committed(attempt, mark)
    attempt.mark("failed")
    clock.number, attempt = 30, attempt.next_run()
    load(attempt, mark)
    assert [(window.start, window.end, window.new_from) for window in told(attempt)] == [
        (0, 10, None),
        (7, 20, 10),
        (17, 30, 20),
    ]


def test_what_slices_of_an_earlier_try_have_loaded_is_told_of_by_the_one_that_succeeds() -> None:
    mark, attempt = numbers(Counter(10), **OBSERVED), a_try()

    def dies(window: Window[Any]) -> None:
        for piece in window.split(5):
            if piece.start == 5:
                raise BodyFailedError
            list(piece.track(rows(1, 3), "n"))

    break_down(attempt, mark, dies)
    load(attempt.retry(), mark, lambda window: [list(piece.track([], "n")) for piece in window.split(5)])
    assert outcomes(attempt) == [(0, 3, "advanced")]


def test_slices_come_for_the_first_time_though_the_last_one_moves_nothing() -> None:
    mark, attempt = numbers(Counter(10), **OBSERVED), a_try()
    given = {0: [1, 3], 5: []}
    load(attempt, mark, lambda window: [list(p.track(rows(*given[p.start]), "n")) for p in window.split(5)])
    assert outcomes(attempt) == [(0, 3, "advanced")]


def test_a_retry_after_the_commit_tells_of_it_for_the_first_time() -> None:
    mark, attempt = numbers(Counter(10)), a_try()
    committed(attempt, mark)
    load(attempt.retry(), mark)
    load(attempt.clear(), mark)
    assert outcomes(attempt) == [(0, 10, "advanced"), (0, 10, "noop")]


def test_a_cleared_run_of_a_window_without_an_end_moves_nothing() -> None:
    mark, first = numbers(), a_try()
    load(first, mark, track(3, 7, unique=True))
    second = first.next_run()
    load(second, mark, track(7, 9, unique=True))
    load(first.clear(), mark, track(3, 7, 9, 12, unique=True))
    assert stands(first) == "9"
    assert [span for span, window in zip(spans(first), told(first), strict=True) if window.outcome.value != "noop"] == [
        (0, 7, "[]"),
        (7, 9, "(]"),
    ]


def test_nor_does_one_that_had_seen_nothing() -> None:
    mark, first = numbers(), a_try()
    load(first, mark, track(3, 7, unique=True))
    idle = first.next_run()
    load(idle, mark, track())
    load(idle.clear(), mark, track(8, 9, unique=True))
    assert stands(first) == "7"
    load(first.next_run(), mark, track(8, 9, unique=True))
    assert outcomes(first) == [(0, 7, "advanced"), (7, 9, "advanced")]


@pytest.mark.parametrize("say", ["advance", "fail_from"])
def test_a_window_never_ends_before_it_begins(say: str) -> None:
    clock = Counter(10)
    mark, attempt = numbers(clock), a_try()
    load(attempt, mark)
    clock.number, attempt = 20, attempt.next_run()
    load(attempt, mark, lambda window: getattr(window, say)(5))
    assert spans(attempt) == [(0, 10, "[)")]


def test_a_token_has_nothing_after_it_and_no_rows() -> None:
    window = watermark(NUMBERS, initial="t0", cursor=Cursor.token()).begin(a_try().context)
    for call in (lambda: window.fail_from("t1"), lambda: window.track(rows(1), "n")):
        with pytest.raises(WatermarkError, match="no order"):
            call()


def a_mark(mode: str, clock: Counter) -> Watermark[Any]:
    return numbers(clock, **({} if mode == "window" else OBSERVED))


class Run:
    """One run in the life of a mark: what it loads, and how it ends."""

    def __init__(self, ends: str, values: set[int], failed: int, step: int, *, idle: bool = False) -> None:
        self.ends, self.values, self.failed, self.step, self.idle = ends, values, failed, step, idle

    def __repr__(self) -> str:
        return f"Run({self.ends!r}, {self.values}, {self.failed}, {self.step}, idle={self.idle})"


ENDS = [
    "succeeds",
    "is cleared",
    "fails",
    "fails late",
    "is tried again",
    "dies at the mark",
    "dies at the mark and is tried again",
    "is a sample",
    "is reset",
]
runs = st.builds(
    Run,
    st.sampled_from(ENDS),
    st.sets(st.integers(0, 9), max_size=4),
    st.integers(1, 15),
    st.integers(0, 4),
    idle=st.booleans(),
)


@given(st.sampled_from(["window", "unique"]), st.lists(runs, min_size=1, max_size=6))
@example("unique", [Run("fails", {0}, 1, 1)])
@example("window", [Run("dies at the mark", {0}, 1, 0), Run("fails late", {0}, 1, 0, idle=True)])
@example("unique", [Run("dies at the mark and is tried again", {0, 3}, 1, 0)])
@settings(max_examples=200, deadline=None)
def test_consumers_get_each_loaded_value_once(mode: str, plan: list[Run]) -> None:
    """By windows that are new: a cleared task tells its window again, as one that came before."""
    clock, attempt, source, loaded = Counter(0), a_try(), set[int](), set[int]()
    mark = a_mark(mode, clock)
    for number, run in enumerate(plan):
        source |= {10 * number + value for value in run.values}
        clock.number = clock.number if run.idle else 10 * number + 10
        attempt = _play(attempt, mark, run, source, loaded)
    clock.number = 10 * len(plan) + 10
    _play(attempt, mark, Run("succeeds", set(), 100, 0), source, loaded)
    windows = [window for window in told(attempt) if window.outcome.value != "noop"]
    got = [value for window in windows for value in sorted(source) if _has(window, value)]
    assert sorted(set(got)) == sorted(source & loaded)
    assert len(got) == len(set(got)) or any(run.ends == "is reset" for run in plan)
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


class DiedError(Exception):
    """The process died."""


def _dies_at_the_mark(when: str, operation: str) -> None:
    if (when, operation) == ("after", f"set {MARK}"):
        raise DiedError


def _play(attempt: TaskAttempt, mark: Watermark[Any], run: Run, source: set[int], loaded: set[int]) -> TaskAttempt:
    body = _body(run, source, loaded)
    if run.ends == "is reset":
        mark.reset(attempt.context)
    if run.ends == "fails":
        break_down(attempt, mark, body)
    elif run.ends in {"fails late", "is tried again"} or run.ends.startswith("dies"):
        window = mark.begin(attempt.context)
        attempt.world.observer = _dies_at_the_mark if run.ends.startswith("dies") else None
        with suppress(DiedError):
            body(window)
            mark.commit(attempt.context, window)
        attempt.world.observer = None
    if run.ends.startswith("fails") or run.ends == "dies at the mark":
        attempt.mark("failed")
    else:
        attempt = attempt.retry() if run.ends.endswith("is tried again") else attempt
        load(attempt, mark, body)
    if run.ends == "is cleared":
        load(attempt.clear(), mark, body)
    return attempt.next_run()
