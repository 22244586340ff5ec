"""What the crash explorer raises: `CrashFoundError` is about the attempt, the others are about the test."""

from __future__ import annotations

from airflow_resume.errors import ResumeError


class ExplorerError(ResumeError):
    """The crash explorer cannot say that the attempt survives every crash."""


class CrashFoundError(ExplorerError, AssertionError):
    """After a crash the attempt did not end as the oracle asks."""


class CleanRunError(ExplorerError, AssertionError):
    """The oracle refuses even the run without any crash."""


class NeverSucceededError(CrashFoundError):
    """The attempt did not succeed, however often it was tried."""


class NeverFiredError(ExplorerError, AssertionError):
    """The point that was to crash was never reached, so nothing was tested."""


class NothingTriedError(ExplorerError, AssertionError):
    """The exploration would be green without having tried what it was asked to try."""


class AttemptNotRunError(ExplorerError, TypeError):
    """The attempt was called and did not run: it is async, or a generator function."""


class SharedWorldError(ExplorerError, AssertionError):
    """Two ways were given one world, so the second found what the first had left."""


class NotDeterministicError(ExplorerError, AssertionError):
    """Two runs without a crash made different calls, so no point means the same twice."""


class OracleBrokenError(ExplorerError):
    """The oracle raised something other than AssertionError, or returned its judgement, so it has not judged."""


class TooManyPointsError(ExplorerError, AssertionError):
    """The attempt passes more points than `max_points`."""


class InvalidKindError(ExplorerError, ValueError):
    """A kind of fault has a name and perhaps a variant, such as "crash" or "wrong_once gone"."""


class InvalidWayError(ExplorerError, ValueError):
    """A way reads like "3:crash" or "3:crash,7:refused"."""


class InterleavingFoundError(ExplorerError, AssertionError):
    """When several runs took turns, it did not end as the oracle asks."""


class DeadlockError(ExplorerError, AssertionError):
    """No run passes a point any more: the one whose turn it is waits for something that a frozen one holds."""
