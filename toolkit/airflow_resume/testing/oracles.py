"""Oracles: plain functions that take an `ExplorationOutcome` and raise `AssertionError` if it is wrong.

Effects are counted by name and compared with the run without a crash: an effect that happens twice there may happen
twice. Any function of an outcome that asserts is an oracle as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from airflow_resume.testing.crashes.outcome import ExplorationOutcome, Oracle
from airflow_resume.testing.errors import OracleBrokenError


def each_effect_exactly_once(outcome: ExplorationOutcome[Any]) -> None:
    """No effect was lost, and none was repeated.

    Args:
        outcome: of one way.
    """
    each_effect_at_least_once(outcome)
    each_effect_at_most(1)(outcome)


def each_effect_at_least_once(outcome: ExplorationOutcome[Any]) -> None:
    """No effect was lost.

    Args:
        outcome: of one way.

    Raises:
        OracleBrokenError: the attempt has no effect that could be lost.
    """
    if not _wanted(outcome):
        raise OracleBrokenError(
            "The attempt registers no effect, so none can be lost.\nRegister what it does with world.effect; if it"
            " should do nothing, use each_effect_at_most(1)."
        )
    wanted, seen = _wanted(outcome), _seen(outcome)
    lost = {what: wanted[what] - seen[what] for what in wanted if seen[what] < wanted[what]}
    if lost:
        raise AssertionError(f"lost: {_listed(lost)}")


def each_effect_at_most(times: int) -> Oracle:
    """No effect took place more than `times` times, or at all if the run without a crash does not have it.

    Args:
        times: how often an effect may take place for each time that it takes place in the run without a crash.
    """

    def each_effect_at_most_so_often(outcome: ExplorationOutcome[Any]) -> None:
        wanted, seen = _wanted(outcome), _seen(outcome)
        repeated = {what: seen[what] for what in seen if seen[what] > times * wanted[what]}
        if repeated:
            raise AssertionError(f"repeated: {_listed(repeated)}; at most {times} x is right")

    return each_effect_at_most_so_often


def same_result(outcome: ExplorationOutcome[Any]) -> None:
    """The last attempt returned the same as the run without a crash.

    Args:
        outcome: of one way.

    Raises:
        OracleBrokenError: the result is None, or the same object in all runs.
    """
    if (outcome.clean or outcome).result is None:
        raise OracleBrokenError(
            "The attempt returns None without a crash, so no result can differ.\nLet it return what it made, or leave"
            " same_result out."
        )
    if outcome.clean is not None and outcome.result is outcome.clean.result and type(outcome.result).__hash__ is None:
        raise OracleBrokenError(
            "The attempt returns one object in all runs, so no result can differ.\nLet it return a new one:"
            " `return list(...)`."
        )
    if outcome.clean is not None and outcome.result != outcome.clean.result:
        raise AssertionError(f"the result is {outcome.result!r}; without a crash it is {outcome.clean.result!r}")


def mark_never_decreases(outcome: ExplorationOutcome[Any]) -> None:
    """The mark that `CrashWorld.follow` reads never went back, and was never lost once it was there.

    Args:
        outcome: of one way.

    Raises:
        OracleBrokenError: there is no such mark, or it is always None.
    """
    if outcome.world.points.read_mark is None:
        raise OracleBrokenError("The world follows no mark.\nLet the function that makes it call world.follow.")
    if outcome.clean is None and all(mark is None for mark in outcome.marks):
        raise OracleBrokenError(
            "The mark is None after every store call.\nLet world.follow read what the attempt sets."
        )
    latest: Any = None
    for mark in outcome.marks:
        if latest is not None and (mark is None or mark < latest):
            raise AssertionError(f"the mark went back from {latest!r} to {mark!r}")
        latest = mark


def nothing_left_behind(left: Callable[[Any], Any]) -> Oracle:
    """`left(world)` is empty or zero at the end: keys of a store, live jobs, temporary files.

    Args:
        left: what remains in the world at the end; empty or 0 where all is well.

    Raises:
        OracleBrokenError: (the oracle does) `left` returned None.
    """

    def nothing_is_left(outcome: ExplorationOutcome[Any]) -> None:
        remains = left(outcome.world)
        if remains is None:
            raise OracleBrokenError(f"{left!r} returned None.\nLet it return what is left: an empty list is nothing.")
        if remains:
            raise AssertionError(f"left behind: {remains!r}")

    return nothing_is_left


def _seen(outcome: ExplorationOutcome[Any]) -> Counter[str]:
    return Counter(effect.what for effect in outcome.effects)


def _wanted(outcome: ExplorationOutcome[Any]) -> Counter[str]:
    return _seen(outcome.clean or outcome)


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{what!r} {count} x" for what, count in counts.items())
