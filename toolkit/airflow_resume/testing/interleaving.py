"""`explore_freezes` and `explore_interleavings`: several runs at once, in every order that a few switches can make."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from airflow_resume.testing.crash_world import CrashWorld
from airflow_resume.testing.errors import InvalidWayError, NeverSucceededError
from airflow_resume.testing.oracles import Oracle
from airflow_resume.testing.outcome import Ending, Outcome, Tries
from airflow_resume.testing.points import IN_PROCESS, CrashKind, Point
from airflow_resume.testing.quiet import quiet
from airflow_resume.testing.relay import Relay
from airflow_resume.testing.trace import Steps
from airflow_resume.testing.turn_explorer import Report, TurnExplorer

W = TypeVar("W", bound=CrashWorld)

WATCHDOG = 60.0
"""Seconds without any point, after which it is a deadlock."""


@dataclass(frozen=True, kw_only=True)
class FreezeOutcome(Outcome[W]):
    """The outcome of a task of which one attempt was frozen; `result` is that of its successor.

    Args:
        woken: what the frozen attempt returned in the end, or the error that it raised; without a freeze, `result`.
    """

    woken: Any = None


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
    retry_on: tuple[type[Exception], ...] = (),
    may_fail: tuple[type[Exception], ...] = (),
    only: str | None = None,
    find_all: bool = False,
    watchdog: float = WATCHDOG,
) -> Report:
    """Let two or more runs take turns at every point, in every order with a few switches, and ask the oracle.

    The points are the calls of stores, the registered effects, and all that a `FakeJobs` is asked. Every run is the
    first once. Two Dag runs are two attempts of `task_context(world=..., run_id=...)`; two deployments, or two
    scripts, are runs with stores of their own and one job system.

    What the runs share otherwise (a list, a clock) must be reached inside of `world.effect(...)`, as the order of what
    is no point is not explored. A run must do what it does in one thread, and wait for no other run.

    Args:
        runs: each is tried until it succeeds, like the attempt of `explore_crashes`.
        oracle: one or more functions that take the `Outcome` and assert. Its `result` is the list of what the runs
            returned, and its `clean` the outcome of the runs one after the other.
        world: makes what the runs share, afresh for every interleaving.
        switches: so often at most another run goes on at a point. That the next one goes on when a run has ended is
            not counted.
        kinds: of crashes, to try one at every point as well: `"crash"`, `"reply_lost"`, `"refused"`.
        prune: leave out what must end as another interleaving does, because it differs only in the order of calls
            that touch nothing in common. A call right after another one of its run, and two calls of stores by other
            keys, need no other order; effects and jobs do. See `airflow_resume.testing.commuting`, which says why.
        max_points: of the runs one after the other; more are an error.
        max_ways: of each number of switches; if there are more, so many are taken, evenly spread.
        max_pairs: with a crash in them, likewise.
        max_attempts: of a run, until it counts as never succeeding.
        retry_on: errors of a run after which Airflow's next try is part of the design.
        may_fail: errors with which a run may end; the error is its result.
        only: go this one way, as a failure names it: `"0:run 2,5:run 1"`.
        find_all: put failures in the report instead of raising the first.
        watchdog: seconds without any point after which it is a deadlock.

    Returns:
        How many there were, and with `find_all` what was found.

    Raises:
        InterleavingFoundError: one ends wrongly. It is the smallest; the message has its trace and its replay.
        CleanRunError: the oracle refuses the runs one after the other; or one of them does not even succeed so.
        NothingTriedError: there are not two runs, one of them passes no point, or nothing is asked for.
        NotDeterministicError: the same switches lead to different points.
        NeverFiredError: `only` names a switch that cannot take place.
        DeadlockError: a run waits for something that another one holds.
        OracleBrokenError, TooManyPointsError, InvalidWayError: as `explore_crashes`.
    """
    _check_kinds(kinds)
    play = _AtOnce(
        [
            Tries(attempt=run, most=max_attempts, retry_on=retry_on, forked=False, allowed_to_fail=may_fail)
            for run in runs
        ]
    )
    exploration = TurnExplorer(
        play, world, oracle, max_points * max(1, len(runs)), find_all=find_all, prune=prune, watchdog=watchdog
    )
    if only is not None:
        return exploration.go_one(_read(only, play.actions))
    with quiet():
        return exploration.go_all(switches, kinds, max_ways=max_ways, max_pairs=max_pairs)


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
    retry_on: tuple[type[Exception], ...] = (),
    only: str | None = None,
    find_all: bool = False,
    watchdog: float = WATCHDOG,
) -> Report:
    """Freeze an attempt at every point, let its successor run, wake it at every point of that, and ask the oracle.

    The frozen attempt is given up: its successor begins as another call of `attempt`, so `task_context(world=...)`
    replaces its stores. It wakes at a point of the successor's way, or after its end, and goes on to its own end,
    whichever that is; then the successor goes on.

    Args:
        attempt: one try of the task, as for `explore_crashes`.
        oracle: takes a `FreezeOutcome`: `result` is what the successor returned, `woken` how the frozen one ended.
        world: makes what outlives an attempt, afresh for every way.
        switches: 1: it wakes when its successor has ended. 2: or at any point of it. 3: and is frozen again at any of
            its own points, until the successor has ended.
        kinds: of crashes, to try one at every point after the freeze as well, of the successor or of the woken one.
        prune: as `explore_interleavings`.
        max_points: of the run without a freeze; more are an error.
        max_ways: of each number of switches; if there are more, so many are taken, evenly spread.
        max_pairs: with a crash in them, likewise.
        max_attempts: of the successor, until it counts as never succeeding.
        retry_on: errors of the attempt after which Airflow's next try is part of the design.
        only: go this one way, as a failure names it: `"3:freeze,12:wake"`.
        find_all: put failures in the report instead of raising the first.
        watchdog: seconds without any point after which it is a deadlock.

    Returns:
        How many there were, and with `find_all` what was found.

    Raises:
        As `explore_interleavings`.
    """
    _check_kinds(kinds)
    play = _Frozen(Tries(attempt=attempt, most=max_attempts, retry_on=retry_on, forked=False))
    exploration = TurnExplorer(play, world, oracle, max_points, find_all=find_all, prune=prune, watchdog=watchdog)
    if only is not None:
        return exploration.go_one(_read(only, play.actions))
    with quiet():
        return exploration.go_all(switches, kinds, max_ways=max_ways, max_pairs=max_pairs)


def _check_kinds(kinds: Sequence[str]) -> None:
    if others := set(kinds) - set(IN_PROCESS):
        raise InvalidWayError(f"runs that take turns live in one process: {sorted(others)} is not one of {IN_PROCESS}.")


def _read(text: str, actions: Sequence[str]) -> dict[int, str]:
    steps: dict[int, str] = {}
    for step in text.split(","):
        found = re.fullmatch(r"\s*(\d+):(.+?)\s*", step)
        if found is None or found[2] not in {*actions, *IN_PROCESS}:
            raise InvalidWayError(f"{step!r} is not a number and one of {', '.join([*actions, *IN_PROCESS])}.")
        steps[int(found[1])] = found[2]
    return steps


# --- what takes turns -------------------------------------------------------------------------------------------


class _AtOnce(Generic[W]):
    """Several runs, each of which may be the first."""

    ends_without_a_switch = True

    def __init__(self, tries: Sequence[Tries[W]]) -> None:
        self.tries = tries
        self.count = len(tries)
        self.starts: Sequence[int] = range(self.count)
        self.actions: Sequence[str] = [self.name(run) for run in self.starts]
        self.call = f"explore_interleavings([{', '.join(_name(one.attempt) for one in tries)}]"

    def name(self, run: int) -> str:
        return f"run {run + 1}"

    def action(self, _run: int, target: int) -> str:
        return self.name(target)

    def target(self, action: str) -> int:
        return self.actions.index(action)

    def begun(self, steps: Steps) -> dict[int, str]:
        return {0: steps.get(0, self.name(0)), **steps}

    def heading(self, point: Point, run: int) -> str:
        return f"{self.name(run)}, attempt {point.attempt}"

    def calls(self, world: W, _relay: Callable[[], Relay]) -> list[Callable[[], Any]]:
        return [partial(self._to_the_end, one, world) for one in self.tries]

    def _to_the_end(self, tries: Tries[W], world: W) -> Any:
        ending = tries.until_the_end(world)
        return ending.result if ending.error is None else ending.error

    def outcome(self, world: W, results: list[Any], clean: Outcome[W] | None) -> Outcome[W]:
        return Outcome(world=world, result=results, clean=clean)


class _Frozen(Generic[W]):
    """One attempt, and the one that follows when it is given up."""

    count = 2
    starts: Sequence[int] = range(1)
    ends_without_a_switch = False
    actions: Sequence[str] = ("freeze", "wake")

    def __init__(self, tries: Tries[W]) -> None:
        self.tries = tries
        self.call = f"explore_freezes({_name(tries.attempt)}"

    def name(self, run: int) -> str:
        return ("the attempt", "its successor")[run]

    def action(self, run: int, _target: int) -> str:
        return self.actions[run]

    def target(self, action: str) -> int:
        return 1 - self.actions.index(action)

    def begun(self, steps: Steps) -> dict[int, str]:
        return dict(steps)

    def heading(self, point: Point, _run: int) -> str:
        return f"attempt {point.attempt}"

    def calls(self, world: W, relay: Callable[[], Relay]) -> list[Callable[[], Any]]:
        return [
            lambda: self._first(world, lambda: relay().was_frozen(0)),
            lambda: self.tries.until_the_end(world).result if relay().was_frozen(0) else None,
        ]

    def _first(self, world: W, was_frozen: Callable[[], bool]) -> Any:
        """Tried until it succeeds; once an attempt was frozen, others see to that."""
        last = ""
        for _ in range(self.tries.most):
            world.points.begin_attempt()
            try:
                ending = self.tries.try_once(world)
            except NeverSucceededError as error:
                if not was_frozen() or error.__cause__ is None:
                    raise
                traceback.clear_frames(error.__cause__.__traceback__)
                return error.__cause__
            if isinstance(ending, Ending):
                return ending.result
            if was_frozen():
                return ending
            last = ending
        raise NeverSucceededError(f"{self.tries.most} attempts, and none succeeded. The last: {last}.")

    def outcome(self, world: W, results: list[Any], clean: Outcome[W] | None) -> Outcome[W]:
        if clean is None:
            return FreezeOutcome(world=world, result=results[0], woken=results[0])
        return FreezeOutcome(world=world, result=results[1], clean=clean, woken=results[0])


def _name(attempt: object) -> str:
    return getattr(attempt, "__name__", "attempt")
