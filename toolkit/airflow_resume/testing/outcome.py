"""Trying until an attempt succeeds, as Airflow does, and what came of it."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from airflow.sdk.exceptions import AirflowFailException

from airflow_resume.testing.child import in_child
from airflow_resume.testing.crash_world import CrashWorld
from airflow_resume.testing.errors import NeverSucceededError, TooManyPointsError
from airflow_resume.testing.points import CrashedError, Effect

W = TypeVar("W", bound=CrashWorld)


@dataclass(frozen=True, kw_only=True)
class Outcome(Generic[W]):
    """What an oracle judges: the world after the last attempt, and what that attempt returned.

    Args:
        clean: the outcome without any crash; of that outcome itself, None.
    """

    world: W
    result: Any
    clean: Outcome[W] | None = None

    @property
    def effects(self) -> list[Effect]:
        """The outside effects that took place, in order."""
        return self.world.points.effects

    @property
    def marks(self) -> list[Any]:
        """What the mark was after each store call, see `CrashWorld.follow`."""
        return self.world.points.marks

    @property
    def crashes(self) -> int:
        """How many armed points have fired."""
        return len(self.world.points.fired)


@dataclass(frozen=True, kw_only=True)
class Tries(Generic[W]):
    """How an attempt is tried.

    Args:
        most: so many attempts are made.
        retry_on: errors after which Airflow's next try is part of the design.
        forked: each attempt gets a child process.
    """

    attempt: Callable[[W], Any]
    most: int
    retry_on: tuple[type[Exception], ...]
    forked: bool

    def run(self, world: W) -> Any:
        """Try until an attempt returns, and return what it does.

        Raises:
            NeverSucceededError: none does, or one fails in a way that no retry follows.
            TooManyPointsError: the points have no end.
        """
        last = ""
        for _ in range(self.most):
            world.points.begin_attempt()
            with _last_words_ignored():
                returned, value = self._try_once(world)
            if returned:
                return value
            last = value
        raise NeverSucceededError(f"{self.most} attempts, and none succeeded. The last: {last}.")

    def _try_once(self, world: W) -> tuple[bool, Any]:
        """Whether the attempt returned, and what; or the text of its error, as the error itself keeps objects alive."""
        try:
            value = in_child(self.attempt, world) if self.forked else self.attempt(world)
        except BaseException as error:
            self._check_limit(world)
            if self._is_retried(world, error):
                # Take the attempt apart now: a loop that was left ends here, and not in the middle of the next attempt.
                traceback.clear_frames(error.__traceback__)
                return False, repr(error)
            if not isinstance(error, Exception):
                raise
            raise NeverSucceededError(
                f"attempt {world.attempt} failed, and not by the crash itself: {error!r}.{_hint(error)}"
            ) from error
        self._check_limit(world)
        return not world.points.dead, value

    def _is_retried(self, world: CrashWorld, error: BaseException) -> bool:
        points = world.points
        if points.dead or isinstance(error, CrashedError):
            return True
        if isinstance(error, self.retry_on):
            return True
        return points.faulty and isinstance(error, Exception) and not isinstance(error, AirflowFailException)

    def _check_limit(self, world: CrashWorld) -> None:
        if world.points.overrun:
            raise TooManyPointsError(
                f"More than {world.points.limit} points were passed. Try less at once, or raise max_points; if the"
                f" attempt never ends, that is the bug."
            )


@contextmanager
def _last_words_ignored() -> Iterator[None]:
    """A generator that a dead attempt has left dies once more when it is closed, and nobody can catch that."""
    report = sys.unraisablehook

    def report_others(unraisable: sys.UnraisableHookArgs) -> None:
        if not isinstance(unraisable.exc_value, CrashedError):
            report(unraisable)

    sys.unraisablehook = report_others
    try:
        yield
    finally:
        sys.unraisablehook = report


def _hint(error: Exception) -> str:
    if isinstance(error, AirflowFailException):
        return " Airflow does not try again after an AirflowFailException."
    return f" If another try by Airflow is part of the design, pass retry_on=({type(error).__name__},)."
