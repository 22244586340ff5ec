"""What the explorers raise.

`CrashFoundError` and `InterleavingFoundError` are about the attempt, and are AssertionErrors. The others are about the
test, and are not: `with pytest.raises(AssertionError)` around an exploration that tries nothing must not be green.
"""

from __future__ import annotations

from airflow_resume.errors import ResumeError


class ExplorerError(ResumeError):
    """The crash explorer cannot say that the attempt survives every crash."""

    HAS_LINES = True


class CrashFoundError(ExplorerError, AssertionError):
    """After a crash the attempt did not end as the oracle asks."""


class CleanRunError(ExplorerError):
    """The oracle refuses even the run without any crash."""


class NeverSucceededError(CrashFoundError):
    """The attempt did not succeed, however often it was tried."""


class NeverFiredError(ExplorerError):
    """The point that was to crash was never reached, so nothing was tested."""


class NothingTriedError(ExplorerError):
    """The exploration would be green without having tried what it was asked to try."""


class AttemptNotRunError(ExplorerError, TypeError):
    """The attempt was called and has not run: it returned something that nobody runs."""


class SkippedError(ExplorerError):
    """Something in the exploration skips the test, which would hide what was found before."""


class UnwatchedError(ExplorerError):
    """The attempt used something that was to be a point, and was none."""


class SharedWorldError(ExplorerError):
    """Two ways were given one world, so the second found what the first had left."""


class NotDeterministicError(ExplorerError):
    """Two runs without a crash made different calls, so no point means the same twice."""


class OracleBrokenError(ExplorerError):
    """The oracle raised something other than AssertionError, or returned its judgement, so it has not judged."""


class TooManyPointsError(ExplorerError):
    """The attempt passes more points than `max_points`."""


class InvalidKindError(ExplorerError, ValueError):
    """A kind of fault has a name and perhaps a variant, such as "crash" or "wrong_once gone"."""


class InvalidWayError(ExplorerError, ValueError):
    """A way reads like "3:crash" or "3:crash,7:refused"."""


class InterleavingFoundError(ExplorerError, AssertionError):
    """When several runs took turns, it did not end as the oracle asks."""


class OneWayWarning(UserWarning):
    """`only=` is still there after the way that it names has passed, so no other way is tested."""


class DeadlockError(ExplorerError):
    """No run passes a point any more: the one whose turn it is waits for something that a frozen one holds."""


class CannotKillError(ExplorerError):
    """`check_operator` cannot kill attempts here, so it would test nothing."""


class UndisturbedRunError(ExplorerError):
    """The operator fails even if nothing happens to it, so there is no result to compare others with."""
