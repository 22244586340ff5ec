"""The decision at the end of a window as a table. `pytest -s` prints it. Points in time are hours of one day."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_resume.watermarks.commit import MAX_ISLANDS, Mark, Outcome, decide_commit

START = datetime(2026, 1, 1, tzinfo=timezone.utc)


def at(hour: int) -> datetime:
    return START + timedelta(hours=hour)


def mark(hour: int, *islands: tuple[int, int], epoch: str = "e") -> Mark:
    return Mark(at=at(hour), epoch=epoch, islands=tuple((at(start), at(end)) for start, end in islands))


TABLE = {
    "follows on": (mark(5), (5, 8), Outcome.ADVANCED, mark(8)),
    "overlaps": (mark(5), (3, 8), Outcome.ADVANCED, mark(8)),
    "ends at the mark": (mark(8), (5, 8), Outcome.NOOP, None),
    "ends before the mark": (mark(9), (5, 8), Outcome.NOOP, None),
    "begins behind the mark": (mark(5), (6, 8), Outcome.GAP, mark(5, (6, 8))),
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
    assert decide_commit(before, epoch="e", start=at(start), end=at(end)) == (outcome, after)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 6)), max_size=25), st.randoms())
def test_in_any_order_the_mark_never_moves_back_and_never_passes_what_was_not_loaded(
    spans: list[tuple[int, int]], shuffle: random.Random
) -> None:
    windows = [(start, start + length) for start, length in spans]
    shuffle.shuffle(windows)
    now, loaded = mark(0), set[int]()
    for start, end in windows:
        loaded |= set(range(start, end))
        _, after = decide_commit(now, epoch="e", start=at(start), end=at(end))
        if after is not None:
            assert after.at >= now.at
            now = after
        reached = (now.at - START) // timedelta(hours=1)
        assert set(range(reached)) <= loaded
        for island_start, island_end in now.islands:
            hours = range((island_start - START) // timedelta(hours=1), (island_end - START) // timedelta(hours=1))
            assert set(hours) <= loaded


def test_islands_past_the_cap_are_forgotten_from_the_far_end() -> None:
    now = mark(0)
    for hour in range(2, 2 + 4 * MAX_ISLANDS, 2):
        now = decide_commit(now, epoch="e", start=at(hour), end=at(hour + 1))[1] or now
    assert len(now.islands) == MAX_ISLANDS
    assert now.islands[0] == (at(2), at(3))
