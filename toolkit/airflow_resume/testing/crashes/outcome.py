"""Tries an attempt until it succeeds, as Airflow does, and the outcome of that."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from airflow_resume.arguments import check_function, check_whole
from airflow_resume.compat import (
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSensorTimeout,
    AirflowSkipException,
    TaskDeferred,
)
from airflow_resume.testing.crashes.child import in_child
from airflow_resume.testing.crashes.crash_world import CrashWorld
from airflow_resume.testing.crashes.database_changes import change_database, keep_backups
from airflow_resume.testing.crashes.driving import driven
from airflow_resume.testing.crashes.exceptions import Meaning, meaning, refuse_skip
from airflow_resume.testing.errors import (
    AttemptNotRunError,
    NeverSucceededError,
    NothingTriedError,
    SkippedError,
    TooManyPointsError,
)
from airflow_resume.testing.points import CrashedError, Effect, running

W = TypeVar("W", bound=CrashWorld)

_FOR_GOOD = (AirflowFailException, AirflowSensorTimeout, AirflowSkipException)
"""After these Airflow does not try again."""


@dataclass(frozen=True, kw_only=True)
class ExplorationOutcome(Generic[W]):
    """What an oracle judges: the world after the last attempt, and what that attempt returned.

    Args:
        result: of the attempt that succeeded; None if none did.
        error: the error, named in `allowed_to_fail`, with which the last attempt failed for good.
        clean: the outcome of the run without a crash; None in that outcome itself.
    """

    world: W
    result: Any
    error: BaseException | None = None
    clean: ExplorationOutcome[W] | None = None

    @property
    def effects(self) -> list[Effect]:
        """The outside effects that took place, in order."""
        return self.world.points.effects

    @property
    def marks(self) -> list[Any]:
        """The mark after each store call, see `CrashWorld.follow`."""
        return self.world.points.marks

    @property
    def crashes(self) -> int:
        """How many armed points have fired."""
        return len(self.world.points.fired)


Oracle: TypeAlias = "Callable[[ExplorationOutcome[Any]], object]"
"""Raises `AssertionError` if the outcome is wrong."""


class Ending(NamedTuple):
    """What the last attempt returned, or with which error it failed for good."""

    result: Any
    error: BaseException | None = None


class Rescheduled(NamedTuple):
    """An attempt that has ended with `AirflowRescheduleException`: from that date on its try continues."""

    date: datetime


@dataclass(frozen=True, kw_only=True)
class AttemptRunner(Generic[W]):
    """Tries an attempt until it succeeds.

    Args:
        most: the most attempts that are made.
        retry_on: errors after which Airflow's next try is part of the design.
        forked: whether each attempt runs in a child process.
        allowed_to_fail: errors after which no attempt follows.
    """

    attempt: Callable[[W], Any]
    most: int
    retry_on: tuple[type[BaseException], ...]
    forked: bool
    allowed_to_fail: tuple[type[BaseException], ...] = ()

    def __post_init__(self) -> None:
        check_function("attempt", self.attempt, "a function of the world: one try of the task")
        check_whole("max_attempts", self.most)
        if self.most < 1:
            raise NothingTriedError(
                f"max_attempts={self.most}: in {self.most} attempts nothing can run.\nAllow at least 1."
            )

    def run(self, world: W) -> Any:
        """Try until an attempt returns, and return its result.

        Raises:
            NeverSucceededError: no attempt returns, or one fails with an error after which there is no retry.
            TooManyPointsError: the points have no end.
        """
        ending = self.run_to_end(world)
        if ending.error is not None:
            raise NeverSucceededError(f"attempt {world.attempt} failed: {ending.error!r}.") from ending.error
        return ending.result

    def run_to_end(self, world: W) -> Ending:
        """Try until an attempt returns, or fails as it is allowed to.

        Raises:
            NeverSucceededError: neither happens, or an attempt fails with another error after which there is no retry.
            TooManyPointsError: the points have no end.
        """
        with late_crashes_ignored():
            return self.until_the_end(world)

    def until_the_end(self, world: W) -> Ending:
        """As `run_to_end`, for a caller that has `late_crashes_ignored` itself."""
        last = ""
        for _ in range(self.most):
            world.points.begin_attempt()
            keep_backups(world, forked=self.forked)
            ending = self.try_once(world)
            if world.points.state.database_change:
                change_database(world)
            if isinstance(ending, Ending):
                return ending
            last = ending
        raise NeverSucceededError(f"{self.most} attempts, and none succeeded. The last: {last}.")

    def try_once(self, world: W) -> Ending | str:
        """How the last attempt ended, or, if another one follows, why, as text: an error would keep objects alive."""
        try:
            with running(world.points):
                value = in_child(self._run, world) if self.forked else self._run(world)
            world.points.reach_end()
        except (AttemptNotRunError, NeverSucceededError, SkippedError):
            raise
        except BaseException as error:
            if meaning(error) is Meaning.STOP:
                raise
            self._check_limit(world)
            if isinstance(error, self.allowed_to_fail) and not world.points.state.dead:
                traceback.clear_frames(error.__traceback__)
                return Ending(None, error)
            if self._is_retried(world, error):
                # Free the frames now: a loop that was left open ends here, and not in the middle of the next attempt.
                traceback.clear_frames(error.__traceback__)
                return repr(error)
            raise NeverSucceededError(
                f"attempt {world.attempt} failed, and not by the crash itself: {error!r}.{_hint(error)}"
            ) from error
        self._check_limit(world)
        if world.points.state.dead:
            return "it returned, though it had crashed"
        if isinstance(value, Rescheduled):
            world.come_back(value.date)
            return f"it rescheduled itself to {value.date}"
        return Ending(value)

    def _run(self, world: W) -> Any:
        """Run one attempt, in the child process if there is one: exceptions of pytest cannot be sent from there."""
        try:
            return self._driven(world)
        except AirflowRescheduleException as error:
            if isinstance(error, self.allowed_to_fail):
                raise
            traceback.clear_frames(error.__traceback__)
            return Rescheduled(error.reschedule_date)
        except BaseException as error:
            refuse_skip(error, f"The attempt {self._driven.__name__}")
            if meaning(error) is not Meaning.FAIL:
                raise
            # Not `from error`: this one is no failure of the task, which a frozen attempt may end with.
            raise NeverSucceededError(f"attempt {world.attempt} called pytest.fail: {error}")  # noqa: B904

    @cached_property
    def _driven(self) -> Callable[[W], Any]:
        return driven(self.attempt)

    def _is_retried(self, world: CrashWorld, error: BaseException) -> bool:
        points = world.points
        if points.state.dead or isinstance(error, CrashedError):
            return True
        if isinstance(error, self.retry_on):
            return True
        return points.state.faulty and not isinstance(error, (*_FOR_GOOD, TaskDeferred))

    def _check_limit(self, world: CrashWorld) -> None:
        if world.points.overrun:
            raise TooManyPointsError(
                f"More than {world.points.rules.limit} points were passed.\nTry less at once, or raise max_points; if"
                f" the attempt never ends, that is the bug."
            )


@contextmanager
def late_crashes_ignored() -> Iterator[None]:
    """Ignore the `CrashedError` that a generator of a dead attempt raises when it is closed, as nobody can catch it."""
    report = sys.unraisablehook

    def report_others(unraisable: sys.UnraisableHookArgs) -> None:
        if not isinstance(unraisable.exc_value, CrashedError):
            report(unraisable)

    sys.unraisablehook = report_others
    try:
        yield
    finally:
        sys.unraisablehook = report


def _hint(error: BaseException) -> str:
    name = type(error).__name__
    if isinstance(error, _FOR_GOOD):
        return f" Airflow does not try again after an {name}."
    if isinstance(error, TaskDeferred):
        return (
            " A task that defers has not ended. Catch TaskDeferred in the attempt, and go on with the operator's"
            " resume_execution, see docs/testing.md."
        )
    return f" If another try by Airflow is part of the design, pass retry_on=({name},)."
