from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from benchmarks.harness import (
    Scale,
    Seconds,
    Spread,
    Target,
    at_most,
    compare,
    extra_at_most,
    ratio_at_most,
    results,
    tell,
)


class Clock:
    """Goes on only when somebody works."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def work(self, *seconds: float) -> Callable[[], None]:
        """Takes so long, one after the other."""
        left: Iterator[float] = iter(seconds)

        def do() -> None:
            self.now += next(left)

        return do


@pytest.mark.parametrize(
    ("values", "spread"),
    [
        ([3.0], (3.0, 3.0, 3.0)),
        ([1.0, 2.0], (1.5, 1.25, 1.75)),
        ([5.0, 1.0, 2.0, 4.0, 3.0], (3.0, 2.0, 4.0)),
        ([1.0, 1.0, 1.0, 1.0, 100.0], (1.0, 1.0, 1.0)),
    ],
)
def test_a_spread_is_the_median_and_the_quartiles(values: list[float], spread: tuple[float, float, float]) -> None:
    found = Spread.of(values)
    assert (found.median, found.low, found.high) == spread


def test_the_first_round_warms_up_and_the_others_are_given_for_one_operation() -> None:
    clock = Clock()
    subjects = {"ours": clock.work(99, 1, 2, 3), "theirs": clock.work(99, 10, 10, 10)}
    (result,) = compare("row", subjects, per=1_000, unit="ms", rounds=3, clock=clock)
    assert (result.subject, result.rival, result.rounds) == ("ours", "theirs", 3)
    assert result.cost.median == pytest.approx(2)
    assert result.rival_cost is not None
    assert result.rival_cost.median == pytest.approx(10)
    assert result.reached is None


def test_subjects_take_turns() -> None:
    turns: list[str] = []
    compare("row", {name: partial(turns.append, name) for name in "abc"}, rounds=2)
    assert "".join(turns) == "abcabcabc"


def test_ratio_and_difference_are_taken_within_a_round() -> None:
    """The machine became ten times slower, for both: the ratio of the medians would be 2.75."""
    (result,) = results("row", {"ours": [1, 2, 20, 30], "theirs": [2, 4, 4, 60]}, unit="us")
    assert result.ratio is not None
    assert result.extra is not None
    assert (result.ratio.median, result.extra.median) == (0.5, -1.5)


def test_each_rival_has_a_result_of_its_own_and_ours_comes_first() -> None:
    first, second = results("row", {"ours": [1], "a": [2], "b": [4]}, unit="us")
    assert [(each.rival, each.ratio and each.ratio.median) for each in (first, second)] == [("a", 0.5), ("b", 0.25)]


def test_a_subject_may_take_its_time_itself() -> None:
    (result,) = compare("row", {"ours": lambda: Seconds(0.5), "theirs": lambda: Seconds(2)}, unit="s", rounds=3)
    assert result.ratio is not None
    assert (result.cost.median, result.ratio.median) == (0.5, 0.25)


def test_a_rival_that_costs_nothing_has_no_ratio() -> None:
    (result,) = tell("row", {"ours": 3, "theirs": 0}, unit="calls", targets={"theirs": (ratio_at_most(2),)})
    assert (result.ratio, result.reached) == (None, False)


@pytest.mark.parametrize(
    ("targets", "reached"),
    [
        ((at_most(30),), True),
        ((at_most(29.9),), False),
        ((ratio_at_most(3),), True),
        ((ratio_at_most(2.9),), False),
        ((extra_at_most(20),), True),
        ((extra_at_most(19.9),), False),
        ((ratio_at_most(3), extra_at_most(19.9)), False),
        ((), None),
    ],
)
def test_all_targets_must_be_reached(targets: tuple[Target, ...], reached: object) -> None:
    (result,) = tell("row", {"ours": 30, "theirs": 10}, unit="us", targets={"theirs": targets})
    assert result.reached is reached


def test_alone_the_target_is_found_by_our_own_name() -> None:
    (result,) = tell("row", {"ours": 3}, unit="calls", targets={"ours": (at_most(2),)})
    assert (result.rival, result.ratio, result.reached) == (None, None, False)


def test_quick_is_small_and_without_others() -> None:
    quick, full = Scale(quick=True), Scale(without=frozenset({"torchdata"}))
    assert (quick.size(100, quick=1), quick.rounds(9), quick.allows("dlt")) == (1, 1, False)
    assert (full.size(100, quick=1), full.rounds(9), full.allows("dlt"), full.allows("torchdata")) == (
        100,
        9,
        True,
        False,
    )
