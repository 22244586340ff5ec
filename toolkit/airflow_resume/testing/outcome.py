"""Trying until an attempt succeeds, as Airflow does, and what came of it."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from airflow.sdk.exceptions import AirflowFailException, AirflowTaskTimeout

from airflow_resume.testing.child import in_child
from airflow_resume.testing.comeback import come_back, keep_backups
from airflow_resume.testing.crash_world import CrashWorld
from airflow_resume.testing.errors import NeverSucceededError, TooManyPointsError
from airflow_resume.testing.points import CrashedError, Effect

W = TypeVar("W", bound=CrashWorld)


@dataclass(frozen=True, kw_only=True)
class Outcome(Generic[W]):
    """What an oracle judges: the world after the last attempt, and what that attempt returned.

    Args:
        result: of the attempt that succeeded; None when none did.
        error: that `allowed_to_fail` names, and with which the last attempt failed for good.
        clean: the outcome without any crash; of that outcome itself, None.
    """

    world: W
    result: Any
    error: BaseException | None = None
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


class Ending(NamedTuple):
    """What the last attempt returned, or with which error it failed for good."""

    result: Any
    error: BaseException | None = None


@dataclass(frozen=True, kw_only=True)
class Tries(Generic[W]):
    """How an attempt is tried.

    Args:
        most: so many attempts are made.
        retry_on: errors after which Airflow's next try is part of the design.
        forked: each attempt gets a child process.
        allowed_to_fail: errors after which no attempt follows.
    """

    attempt: Callable[[W], Any]
    most: int
    retry_on: tuple[type[Exception], ...]
    forked: bool
    allowed_to_fail: tuple[type[BaseException], ...] = ()

    def run(self, world: W) -> Any:
        """Try until an attempt returns, and return what it does.

        Raises:
            NeverSucceededError: none does, or one fails in a way that no retry follows.
            TooManyPointsError: the points have no end.
        """
        ending = self.run_to_end(world)
        if ending.error is not None:
            raise NeverSucceededError(f"attempt {world.attempt} failed: {ending.error!r}.") from ending.error
        return ending.result

    def run_to_end(self, world: W) -> Ending:
        """Try until an attempt returns, or fails as it is allowed to.

        Raises:
            NeverSucceededError: neither happens, or one fails in another way that no retry follows.
            TooManyPointsError: the points have no end.
        """
        with last_words_ignored():
            return self.until_the_end(world)

    def until_the_end(self, world: W) -> Ending:
        """As `run_to_end`, for a caller that has `last_words_ignored` itself."""
        last = ""
        for _ in range(self.most):
            world.points.begin_attempt()
            keep_backups(world, forked=self.forked)
            ending = self.try_once(world)
            if world.points.comes_back:
                come_back(world)
            if isinstance(ending, Ending):
                return ending
            last = ending
        raise NeverSucceededError(f"{self.most} attempts, and none succeeded. The last: {last}.")

    def try_once(self, world: W) -> Ending | str:
        """How the last attempt ended; or the text of an error, as the error itself keeps objects alive."""
        try:
            value = in_child(self.attempt, world) if self.forked else self.attempt(world)
            world.points.reach_end()
        except BaseException as error:
            self._check_limit(world)
            if isinstance(error, self.allowed_to_fail) and not world.points.dead:
                traceback.clear_frames(error.__traceback__)
                return Ending(None, error)
            if self._is_retried(world, error):
                # Take the attempt apart now: a loop that was left ends here, and not in the middle of the next attempt.
                traceback.clear_frames(error.__traceback__)
                return repr(error)
            if not isinstance(error, Exception):
                raise
            raise NeverSucceededError(
                f"attempt {world.attempt} failed, and not by the crash itself: {error!r}.{_hint(error)}"
            ) from error
        self._check_limit(world)
        return "it returned, though it had crashed" if world.points.dead else Ending(value)

    def _is_retried(self, world: CrashWorld, error: BaseException) -> bool:
        points = world.points
        if points.dead or isinstance(error, CrashedError):
            return True
        if isinstance(error, self.retry_on):
            return True
        if not points.faulty or isinstance(error, AirflowFailException):
            return False
        return isinstance(error, (Exception, AirflowTaskTimeout))

    def _check_limit(self, world: CrashWorld) -> None:
        if world.points.overrun:
            raise TooManyPointsError(
                f"More than {world.points.limit} points were passed. Try less at once, or raise max_points; if the"
                f" attempt never ends, that is the bug."
            )


@contextmanager
def last_words_ignored() -> Iterator[None]:
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
