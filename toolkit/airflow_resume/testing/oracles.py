"""Oracles: plain functions that take an `Outcome` and raise `AssertionError` when it is wrong.

Effects are counted by name against the run without a crash: an effect that it causes twice is "once" when it is
there twice. Any function of an outcome that asserts is an oracle as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeAlias

from airflow_resume.testing.errors import OracleBrokenError
from airflow_resume.testing.outcome import Outcome

Oracle: TypeAlias = "Callable[[Outcome[Any]], object]"


def each_effect_exactly_once(outcome: Outcome[Any]) -> None:
    """No effect was lost, and none was repeated."""
    each_effect_at_least_once(outcome)
    each_effect_at_most(1)(outcome)


def each_effect_at_least_once(outcome: Outcome[Any]) -> None:
    """No effect was lost.

    Raises:
        OracleBrokenError: there is none that could be.
    """
    if not _wanted(outcome):
        raise OracleBrokenError(
            "The attempt registers no effect, so none can be lost.\nRegister what it does with world.effect; if it is"
            " to do nothing, ask each_effect_at_most(1)."
        )
    wanted, seen = _wanted(outcome), _seen(outcome)
    lost = {what: wanted[what] - seen[what] for what in wanted if seen[what] < wanted[what]}
    if lost:
        raise AssertionError(f"lost: {_listed(lost)}")


def each_effect_at_most(times: int) -> Oracle:
    """No effect took place more than `times` times, and none that the run without a crash does not cause."""

    def each_effect_at_most_so_often(outcome: Outcome[Any]) -> None:
        wanted, seen = _wanted(outcome), _seen(outcome)
        repeated = {what: seen[what] for what in seen if seen[what] > times * wanted[what]}
        if repeated:
            raise AssertionError(f"repeated: {_listed(repeated)}; at most {times} x is right")

    return each_effect_at_most_so_often


def same_result(outcome: Outcome[Any]) -> None:
    """The last attempt returned what the run without a crash did."""
    if outcome.clean is not None and outcome.result != outcome.clean.result:
        raise AssertionError(f"the result is {outcome.result!r}; without a crash it is {outcome.clean.result!r}")


def mark_never_decreases(outcome: Outcome[Any]) -> None:
    """The mark that `CrashWorld.follow` reads never went back, and never got lost once it was there.

    Raises:
        OracleBrokenError: there is no such mark.
    """
    if outcome.world.points.read_mark is None:
        raise OracleBrokenError("The world follows no mark.\nLet the function that makes it call world.follow.")
    latest: Any = None
    for mark in outcome.marks:
        if latest is not None and (mark is None or mark < latest):
            raise AssertionError(f"the mark went back from {latest!r} to {mark!r}")
        latest = mark


def nothing_left_behind(left: Callable[[Any], Any]) -> Oracle:
    """`left(world)` is empty or zero at the end: keys of a store, live jobs, temporary files."""

    def nothing_is_left(outcome: Outcome[Any]) -> None:
        remains = left(outcome.world)
        if remains:
            raise AssertionError(f"left behind: {remains!r}")

    return nothing_is_left


def _seen(outcome: Outcome[Any]) -> Counter[str]:
    return Counter(effect.what for effect in outcome.effects)


def _wanted(outcome: Outcome[Any]) -> Counter[str]:
    return _seen(outcome.clean or outcome)


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{what!r} {count} x" for what, count in counts.items())
