"""Passing over elements that cannot be done, a bounded number of times."""

from __future__ import annotations

from dataclasses import dataclass

from airflow.sdk.exceptions import AirflowRescheduleException

from airflow_resume.errors import LoopStoppedError, SupersededError

MAX_ERROR = 160
"""Characters of an error that are kept."""
MAX_SKIPS = 50
"""Skipped elements that the record names; the count counts all."""


@dataclass(frozen=True, kw_only=True)
class Skip:
    """Which elements may be passed over.

    The end of the attempt is no fault of the element: what a loop inside the body raises when the task was told to stop
    or was replaced passes over nothing, also with `on=(Exception,)`.

    Args:
        on: errors of the body that do not stop the loop.
        limit: how many elements may be skipped in all attempts together; the error of the next one is raised.
        stalled: also pass over an element at which `max_stalls` attempts died.
    """

    on: tuple[type[Exception], ...] = ()
    limit: int = 10
    stalled: bool = False

    def __post_init__(self) -> None:
        kinds = self.on if isinstance(self.on, tuple) else (self.on,)
        if not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
            raise TypeError(f"on={self.on!r} must be errors, such as on=(ValueError,)")
        object.__setattr__(self, "on", kinds)
        if not kinds and not self.stalled:
            raise ValueError("Skip() passes over nothing.\nGive on=(ValueError,), or stalled=True.")
        if self.limit < 1:
            raise ValueError(f"limit={self.limit} must be at least 1")

    def covers(self, error: Exception, *, skipped: int) -> bool:
        """Whether the element may be passed over, when so many were before."""
        return isinstance(error, self.on) and not isinstance(error, _OF_THE_ATTEMPT) and skipped < self.limit


class WrongFunctionError(TypeError):
    """What was given to `map` or `amap` did no work: no fault of any element, so none is passed over for it."""


_OF_THE_ATTEMPT = (AirflowRescheduleException, LoopStoppedError, SupersededError, WrongFunctionError)


def described(error: BaseException) -> str:
    """An error in a few words, with what Airflow knows to be secret masked: the record is there for all to see."""
    text = f"{type(error).__name__}: {error}"
    try:
        from airflow.sdk.log import redact  # type: ignore[attr-defined]
    except ImportError:  # it may move; then no text at all is better than a secret
        return type(error).__name__
    masked = str(redact(text))
    return masked if len(masked) <= MAX_ERROR else f"{masked[: MAX_ERROR - 1]}…"
