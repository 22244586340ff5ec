"""The decision at the end of a window as a table. `pytest -s` prints it. Points in time are hours of one day."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_resume.watermarks.commit import (
    MAX_ISLANDS,
    MAX_TIES,
    LoadedRange,
    MarkState,
    Outcome,
    decide_commit,
)

START = datetime(2026, 1, 1, tzinfo=timezone.utc)


def at(hour: int) -> datetime:
    return START + timedelta(hours=hour)


def mark(hour: int, *islands: tuple[int, int], epoch: str = "e") -> MarkState:
    return MarkState(at=at(hour), epoch=epoch, islands=tuple((at(start), at(end)) for start, end in islands))


def loaded(start: int, end: int | None, **fields: Any) -> LoadedRange:
    return LoadedRange(start=at(start), new=None if end is None else at(end), epoch="e", **fields)


TABLE: dict[str, tuple[MarkState | None, tuple[int, int], Outcome, MarkState | None]] = {
    "follows on": (mark(5), (5, 8), Outcome.ADVANCED, mark(8)),
    "overlaps": (mark(5), (3, 8), Outcome.ADVANCED, mark(8)),
    "ends at the mark": (mark(8), (5, 8), Outcome.NOOP, None),
    "ends before the mark": (mark(9), (5, 8), Outcome.NOOP, None),
    "begins after the mark": (mark(5), (6, 8), Outcome.GAP, mark(5, (6, 8))),
    "closes a gap": (mark(5, (6, 8)), (5, 6), Outcome.ADVANCED, mark(8)),
    "closes a gap, not the next": (mark(5, (6, 8), (9, 10)), (5, 6), Outcome.ADVANCED, mark(8, (9, 10))),
    "closes two gaps": (mark(5, (6, 8), (8, 10)), (5, 7), Outcome.ADVANCED, mark(10)),
    "joins an island": (mark(5, (8, 10)), (7, 8), Outcome.GAP, mark(5, (7, 10))),
    "joins two islands": (mark(5, (6, 7), (8, 10)), (7, 8), Outcome.GAP, mark(5, (6, 10))),
    "the record was made anew": (mark(5, epoch="other"), (5, 8), Outcome.FENCED, None),
    "the record was deleted": (None, (5, 8), Outcome.FENCED, None),
}


@pytest.mark.parametrize("row", TABLE)
def test_commit(row: str) -> None:
    before, (start, end), outcome, after = TABLE[row]
    print(f"{row:30} -> {outcome.value}")
    assert decide_commit(before, loaded(start, end)) == (outcome, after)


TIED = replace(mark(5), ties=("a", "b"))
CHOICES: dict[str, tuple[MarkState | None, LoadedRange, dict[str, Any], Outcome, MarkState | None]] = {
    "nothing was seen": (mark(5), loaded(5, None), {}, Outcome.NOOP, None),
    "a gap, fail": (mark(5), loaded(6, 8), {"on_gap": "fail"}, Outcome.REFUSED, None),
    "a gap, jump": (mark(5), loaded(6, 8), {"on_gap": "jump"}, Outcome.JUMPED, mark(8)),
    "a gap, jump onto an island": (mark(5, (8, 9)), loaded(6, 8), {"on_gap": "jump"}, Outcome.JUMPED, mark(9)),
    "nothing after a gap, hold": (mark(5), loaded(8, 6), {}, Outcome.NOOP, None),
    "nothing after a gap, jump": (mark(5), loaded(8, 6), {"on_gap": "jump"}, Outcome.NOOP, None),
    "nothing after a gap, fail": (mark(5), loaded(8, 8), {"on_gap": "fail"}, Outcome.NOOP, None),
    "no gap, fail": (mark(5), loaded(5, 8), {"on_gap": "fail"}, Outcome.ADVANCED, mark(8)),
    "more ties": (TIED, loaded(5, 5, ties=("c",)), {}, Outcome.NOOP, replace(mark(5), ties=("a", "b", "c"))),
    "the same ties": (TIED, loaded(5, 5, ties=("b",)), {}, Outcome.NOOP, None),
    "ties at a mark without": (mark(5), loaded(5, 5, ties=("b",)), {}, Outcome.NOOP, None),
    "ties below the mark": (TIED, loaded(3, 4, ties=("b",)), {}, Outcome.NOOP, None),
    "other ties at a new mark": (TIED, loaded(5, 7, ties=("z",)), {}, Outcome.ADVANCED, replace(mark(7), ties=("z",))),
    "an island ends the ties": (
        replace(mark(5, (7, 9)), ties=("a",)),
        loaded(5, 7, ties=("z",)),
        {},
        Outcome.ADVANCED,
        mark(9),
    ),
    "a token": (mark(5), loaded(5, 3), {"ordered": False}, Outcome.ADVANCED, mark(3)),
    "the same token": (mark(5), loaded(5, 5), {"ordered": False}, Outcome.NOOP, None),
    "another token since": (
        replace(mark(4), rev=2),
        loaded(5, 3, base_rev=1),
        {"ordered": False},
        Outcome.CONFLICT,
        None,
    ),
    "the record was written since, and its token stayed": (
        replace(mark(5), rev=2),
        loaded(5, 3, base_rev=1),
        {"ordered": False},
        Outcome.ADVANCED,
        replace(mark(3), rev=2),
    ),
    "a token, made anew": (mark(5, epoch="o"), loaded(5, 3), {"ordered": False}, Outcome.FENCED, None),
}


@pytest.mark.parametrize("row", CHOICES)
def test_commit_by_choice(row: str) -> None:
    before, window, choices, outcome, after = CHOICES[row]
    print(f"{row:30} -> {outcome.value}")
    assert decide_commit(before, window, **choices) == (outcome, after)


def test_every_outcome_of_a_window_that_commits_is_in_a_table() -> None:
    seen = {outcome for *_, outcome, _ in TABLE.values()} | {outcome for *_, outcome, _ in CHOICES.values()}
    assert seen == set(Outcome) - {Outcome.EMPTY, Outcome.UNCOMMITTED}


def test_too_many_ties_are_not_told_apart() -> None:
    many = tuple(f"{number:08x}" for number in range(MAX_TIES))
    _, after = decide_commit(replace(mark(5), ties=("x",)), loaded(5, 5, ties=many))
    assert after == mark(5)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 6)), max_size=25), st.randoms())
def test_in_any_order_the_mark_never_moves_back_and_never_passes_what_was_not_loaded(
    spans: list[tuple[int, int]], shuffle: random.Random
) -> None:
    windows = [(start, start + length) for start, length in spans]
    shuffle.shuffle(windows)
    now, done = mark(0), set[int]()
    for start, end in windows:
        done |= set(range(start, end))
        _, after = decide_commit(now, loaded(start, end))
        if after is not None:
            assert after.at >= now.at
            now = after
        reached = (now.at - START) // timedelta(hours=1)
        assert set(range(reached)) <= done
        for island_start, island_end in now.islands:
            hours = range((island_start - START) // timedelta(hours=1), (island_end - START) // timedelta(hours=1))
            assert set(hours) <= done


def test_islands_past_the_cap_are_forgotten_from_the_far_end() -> None:
    now = mark(0)
    for hour in range(2, 2 + 4 * MAX_ISLANDS, 2):
        now = decide_commit(now, loaded(hour, hour + 1))[1] or now
    assert len(now.islands) == MAX_ISLANDS
    assert now.islands[0] == (at(2), at(3))
