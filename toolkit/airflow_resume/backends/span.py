"""How long a call of a database may take, and how long it is repeated after a transient error (its *patience*)."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from airflow_resume.patience import Patience, for_seconds, random_growing

if TYPE_CHECKING:
    from tenacity import RetryCallState

PATIENCE_SECONDS = 30.0
"""How long a call is repeated."""
FIRST_WAIT, LONGEST_WAIT = 0.02, 2.0
SHORTEST_TRY = 1.0
"""The least time that a call has. With a patience of 0 it is made only once, but a server still needs some time."""


class PassingError(Exception):
    """A call failed without an error of the driver. If it is repeated, it may succeed."""


class OverdueError(PassingError):
    """A wait took longer than its time limit."""


class WrongReplyError(PassingError):
    """The answer belongs to another question. More such answers may follow, so the connection is given up."""


class Span(NamedTuple):
    """The time that a call has, by the monotonic clock, in seconds."""

    half: float
    """Until when to wait for the connection of an earlier call. It may be dead, and then a new connection works."""
    end: float

    def left(self) -> float:
        """Seconds until the end; never less than 0."""
        return max(0.0, self.end - monotonic())

    def is_over(self) -> bool:
        """Whether there is no time left."""
        return monotonic() >= self.end


def span_of(seconds: float) -> Span:
    """The span of a call that begins now, with this patience."""
    if seconds < SHORTEST_TRY:  # noqa: PLR1730  comes with every call, and max() takes longer
        seconds = SHORTEST_TRY
    now = monotonic()
    return Span(now + seconds / 2, now + seconds)


def patience_of(
    is_passing: Callable[[BaseException], bool],
    seconds: Callable[[], float],
    *,
    say: Callable[[RetryCallState], None] | None = None,
) -> Patience:
    """The patience with a database: a call is repeated after a transient error, until this time from now is over."""
    return Patience(
        is_passing=is_passing,
        is_enough=for_seconds(seconds),
        pause=random_growing(FIRST_WAIT, LONGEST_WAIT),
        say=say,
    )
