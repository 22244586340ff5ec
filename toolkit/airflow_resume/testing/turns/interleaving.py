"""`explore_freezes` and `explore_interleavings`: several runs at once, in every order that a few switches allow."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from airflow_resume.arguments import check_flag, check_function, check_number, check_type, check_whole
from airflow_resume.testing.crashes.crash_world import CrashWorld
from airflow_resume.testing.crashes.log_levels import errors_only
from airflow_resume.testing.crashes.mistakes import ENDS_WITH_ANY, RETRIES_ALL, check_errors_are_named, warn_of_one_way
from airflow_resume.testing.crashes.outcome import AttemptRunner, Oracle
from airflow_resume.testing.errors import InvalidWayError
from airflow_resume.testing.kinds import check_kinds_are_listed
from airflow_resume.testing.points import IN_PROCESS, CrashKind
from airflow_resume.testing.turns.participants import ConcurrentRuns, FreezeOutcome, FrozenAttempt
from airflow_resume.testing.turns.turn_explorer import TurnExplorer
from airflow_resume.testing.turns.turn_report import InterleavingReport

W = TypeVar("W", bound=CrashWorld)

WATCHDOG = 60.0
"""If no point is passed for this many seconds, it is a deadlock."""


FreezeOracle: TypeAlias = "Callable[[FreezeOutcome[Any]], object]"


def explore_interleavings(
    runs: Sequence[Callable[[W], Any]],
    *,
    oracle: Oracle | Sequence[Oracle],
    world: Callable[[], W] = CrashWorld,  # type: ignore[assignment]
    switches: int = 2,
    kinds: Sequence[CrashKind] = (),
    prune: bool = True,
    max_points: int = 1_000,
    max_ways: int = 20_000,
    max_pairs: int = 1_000,
    max_attempts: int = 8,
    retry_on: tuple[type[BaseException], ...] = (),
    may_fail: tuple[type[Exception], ...] = (),
    only: str | None = None,
    find_all: bool = False,
    watchdog: float = WATCHDOG,
) -> InterleavingReport:
    """Let two or more runs take turns at every point, in every order with a few switches, and ask the oracle.

    The points are the calls of stores, the registered effects, and every call of a `FakeJobs`. Each run is once the
    first. Two Dag runs are two attempts of `task_context(world=..., run_id=...)`; two deployments, or two scripts, are
    runs with stores of their own and one job system.

    Whatever else the runs share (a list, a clock) must be used inside `world.effect(...)`: the order of anything that
    is not a point is not explored. A run must work in one thread and must not wait for another run.

    Args:
        runs: each is tried until it succeeds, like the attempt of `explore_crashes`.
        oracle: one or more functions that take the `ExplorationOutcome` and assert. Its `result` is the list of what
            the runs returned, and its `clean` the outcome of the runs one after the other.
        world: makes what the runs share, afresh for every interleaving.
        switches: how often at most another run takes over at a point. That the next run starts when one has ended is
            not counted.
        kinds: crashes to try at every point as well: `"crash"`, `"reply_lost"`, `"refused"`.
        prune: leave out interleavings that must end like another one because they differ only in the order of calls
            that touch nothing in common. Store calls with different keys need only one order; effects and jobs need
            every order. `airflow_resume.testing.turns.commuting` says why.
        max_points: the most points of the runs one after the other; more are an error.
        max_ways: the most interleavings for each number of switches; if there are more, this many are tried, evenly
            spread.
        max_pairs: the same for interleavings with a crash in them.
        max_attempts: after this many attempts a run counts as never succeeding.
        retry_on: errors of a run after which Airflow's next try is part of the design.
        may_fail: errors with which a run may end; the error is its result.
        only: try only this interleaving, written as in a failure: `"0:run 2,5:run 1"`.
        find_all: put failures in the report instead of raising the first.
        watchdog: if no point is passed for this many seconds, it is a deadlock.

    Returns:
        How many interleavings there were, and with `find_all` what was found.

    Raises:
        InterleavingFoundError: an interleaving ends wrongly. It is the smallest one; the message has its trace and a
            line that repeats it.
        CleanRunError: the oracle refuses the runs one after the other, or one of them does not succeed then.
        NothingTriedError: there are fewer than two runs, a run passes no point, or there is nothing to try.
        NotDeterministicError: the same switches lead to different points.
        NeverFiredError: `only` names a switch that cannot take place.
        DeadlockError: a run waits for something that another one holds.
        AttemptNotRunError, UnwatchedError, SharedWorldError, SkippedError: as `explore_crashes`.
        OracleBrokenError, TooManyPointsError, InvalidWayError: likewise.
    """
    _check_kinds(kinds)
    _check_options(
        flags={"find_all": find_all, "prune": prune},
        counts={"switches": switches, "max_points": max_points, "max_ways": max_ways, "max_pairs": max_pairs},
        watchdog=watchdog,
    )
    check_errors_are_named(retry_on, "retry_on", hides=RETRIES_ALL)
    check_errors_are_named(may_fail, "may_fail", hides=ENDS_WITH_ANY)
    check_type("runs", runs, (list, tuple), "a list of functions of the world")
    for run in runs:
        check_function("runs", run, "a list of functions of the world")
    participants = ConcurrentRuns(
        [
            AttemptRunner(attempt=run, most=max_attempts, retry_on=retry_on, forked=False, allowed_to_fail=may_fail)
            for run in runs
        ]
    )
    steps = None if only is None else _read_steps(only, participants.actions)
    exploration = TurnExplorer(
        participants, world, oracle, max_points * max(1, len(runs)), find_all=find_all, prune=prune, watchdog=watchdog
    )
    if steps is not None:
        report = exploration.explore_one(steps)
        warn_of_one_way(str(only))
        return report
    with errors_only():
        return exploration.explore_all(switches, kinds, max_ways=max_ways, max_pairs=max_pairs)


def explore_freezes(
    attempt: Callable[[W], Any],
    *,
    oracle: FreezeOracle | Sequence[FreezeOracle],
    world: Callable[[], W] = CrashWorld,  # type: ignore[assignment]
    switches: int = 2,
    kinds: Sequence[CrashKind] = (),
    prune: bool = True,
    max_points: int = 1_000,
    max_ways: int = 20_000,
    max_pairs: int = 1_000,
    max_attempts: int = 8,
    retry_on: tuple[type[BaseException], ...] = (),
    only: str | None = None,
    find_all: bool = False,
    watchdog: float = WATCHDOG,
) -> InterleavingReport:
    """Freeze an attempt at every point, let its successor run, wake it at every point of that, and ask the oracle.

    Airflow gives the frozen attempt up: its successor begins as another call of `attempt`, so
    `task_context(world=...)` replaces its stores. The frozen attempt wakes at a point of the successor, or after the
    successor's end, and continues to its own end, whatever that is; then the successor continues.

    Args:
        attempt: one try of the task, as for `explore_crashes`.
        oracle: takes a `FreezeOutcome`: `result` is what the successor returned, `woken` how the frozen one ended.
        world: makes what outlives an attempt, afresh each time.
        switches: 1: the attempt wakes when its successor has ended. 2: also at any point of the successor. 3: and it
            is frozen again at any of its own points, until the successor has ended.
        kinds: crashes to try at every point after the freeze as well, of the successor or of the woken attempt.
        prune: as in `explore_interleavings`.
        max_points: the most points of the run without a freeze; more are an error.
        max_ways: as in `explore_interleavings`.
        max_pairs: as in `explore_interleavings`.
        max_attempts: after this many attempts the successor counts as never succeeding.
        retry_on: errors of the attempt after which Airflow's next try is part of the design.
        only: try only this interleaving, written as in a failure: `"3:freeze,12:wake"`.
        find_all: put failures in the report instead of raising the first.
        watchdog: if no point is passed for this many seconds, it is a deadlock.

    Returns:
        How many interleavings there were, and with `find_all` what was found.

    Raises:
        AssertionError: as `explore_interleavings`, which also lists the others.
    """
    _check_kinds(kinds)
    _check_options(
        flags={"find_all": find_all, "prune": prune},
        counts={"switches": switches, "max_points": max_points, "max_ways": max_ways, "max_pairs": max_pairs},
        watchdog=watchdog,
    )
    check_errors_are_named(retry_on, "retry_on", hides=RETRIES_ALL)
    participants = FrozenAttempt(AttemptRunner(attempt=attempt, most=max_attempts, retry_on=retry_on, forked=False))
    steps = None if only is None else _read_steps(only, participants.actions)
    exploration = TurnExplorer(
        participants, world, oracle, max_points, find_all=find_all, prune=prune, watchdog=watchdog
    )
    if steps is not None:
        report = exploration.explore_one(steps)
        warn_of_one_way(str(only))
        return report
    with errors_only():
        return exploration.explore_all(switches, kinds, max_ways=max_ways, max_pairs=max_pairs)


def _check_options(*, flags: Mapping[str, object], counts: Mapping[str, object], watchdog: object) -> None:
    for name, flag in flags.items():
        check_flag(name, flag)
    for name, count in counts.items():
        check_whole(name, count)
    check_number("watchdog", watchdog, least=0)


def _check_kinds(kinds: Sequence[str]) -> None:
    check_kinds_are_listed(kinds)
    if others := set(kinds) - set(IN_PROCESS):
        raise InvalidWayError(
            f"kinds={sorted(others)} cannot be tried, as runs that take turns live in one process.\n"
            f"Kinds here are {', '.join(IN_PROCESS)}."
        )


def _read_steps(text: str, actions: Sequence[str]) -> dict[int, str]:
    check_type("only", text, str, "a way as a failure writes it")
    steps: dict[int, str] = {}
    for step in text.split(","):
        found = re.fullmatch(r"\s*(\d+):(.+?)\s*", step)
        if found is None or found[2] not in {*actions, *IN_PROCESS}:
            raise InvalidWayError(
                f"only={text!r}: {step!r} is not a number and one of {', '.join([*actions, *IN_PROCESS])}."
            )
        steps[int(found[1])] = found[2]
    return steps
