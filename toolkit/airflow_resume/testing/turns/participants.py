"""What takes turns: several runs at once, or an attempt that is frozen and its successor."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from airflow_resume.testing.crashes.crash_world import CrashWorld
from airflow_resume.testing.crashes.outcome import AttemptRunner, Ending, ExplorationOutcome
from airflow_resume.testing.crashes.point_listing import Steps
from airflow_resume.testing.errors import NeverSucceededError
from airflow_resume.testing.points import Point
from airflow_resume.testing.turns.turn_taking import TurnTaking

W = TypeVar("W", bound=CrashWorld)


class Participants(Protocol[W]):
    """What `TurnExplorer` needs to know of the runs that take turns."""

    count: int
    """How many runs there are."""
    starts: Sequence[int]
    """The runs that may be the first."""
    ends_without_a_switch: bool
    """Whether the runs one after the other count as an interleaving."""
    call: str
    """The beginning of the call that repeats an interleaving."""
    actions: Sequence[str]
    """The names of switches."""

    def name(self, run: int) -> str:
        """The name of a run."""
        ...

    def action(self, run: int, target: int, /) -> str:
        """The name of the switch from a run to another one."""
        ...

    def target(self, action: str) -> int:
        """The run that a switch of this name lets continue."""
        ...

    def begun(self, steps: Steps) -> dict[int, str]:
        """The steps, with the first run named where any run may be the first."""
        ...

    def heading(self, point: Point, run: int, /) -> str:
        """The heading above the points of one attempt in a listing."""
        ...

    def calls(self, world: W, turns: Callable[[], TurnTaking], /) -> list[Callable[[], Any]]:
        """The runs, as functions without arguments."""
        ...

    def outcome(self, world: W, results: list[Any], clean: ExplorationOutcome[W] | None) -> ExplorationOutcome[W]:
        """What the oracles judge."""
        ...


@dataclass(frozen=True, kw_only=True)
class FreezeOutcome(ExplorationOutcome[W]):
    """The outcome of a task of which one attempt was frozen; `result` is that of its successor.

    Args:
        woken: what the frozen attempt returned in the end, or the error that it raised; without a freeze, `result`.
    """

    woken: Any = None


class ConcurrentRuns(Generic[W]):
    """Several runs, each of which may be the first."""

    ends_without_a_switch = True

    def __init__(self, tries: Sequence[AttemptRunner[W]]) -> None:
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

    def calls(self, world: W, _relay: Callable[[], TurnTaking]) -> list[Callable[[], Any]]:
        return [partial(self._to_the_end, one, world) for one in self.tries]

    def _to_the_end(self, tries: AttemptRunner[W], world: W) -> Any:
        ending = tries.until_the_end(world)
        return ending.result if ending.error is None else ending.error

    def outcome(self, world: W, results: list[Any], clean: ExplorationOutcome[W] | None) -> ExplorationOutcome[W]:
        return ExplorationOutcome(world=world, result=results, clean=clean)


class FrozenAttempt(Generic[W]):
    """One attempt, and the one that follows when it is given up."""

    count = 2
    starts: Sequence[int] = range(1)
    ends_without_a_switch = False
    actions: Sequence[str] = ("freeze", "wake")

    def __init__(self, tries: AttemptRunner[W]) -> None:
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

    def calls(self, world: W, turns: Callable[[], TurnTaking]) -> list[Callable[[], Any]]:
        return [
            lambda: self._first(world, lambda: turns().was_frozen(0)),
            lambda: self.tries.until_the_end(world).result if turns().was_frozen(0) else None,
        ]

    def _first(self, world: W, was_frozen: Callable[[], bool]) -> Any:
        """Try until it succeeds. An attempt that was frozen is not tried again: that is its successor's part."""
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

    def outcome(self, world: W, results: list[Any], clean: ExplorationOutcome[W] | None) -> ExplorationOutcome[W]:
        if clean is None:
            return FreezeOutcome(world=world, result=results[0], woken=results[0])
        return FreezeOutcome(world=world, result=results[1], clean=clean, woken=results[0])


def _name(attempt: object) -> str:
    return getattr(attempt, "__name__", "attempt")
