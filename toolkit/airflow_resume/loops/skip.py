"""Skipping elements that cannot be done, a bounded number of times."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_resume.arguments import check_flag, check_whole
from airflow_resume.compat import AirflowRescheduleException
from airflow_resume.errors import (
    AssetNotDeclaredError,
    BackendError,
    InvalidKeyError,
    InvalidValueError,
    JobHookError,
    LoopError,
    LoopStoppedError,
    NoStateStoreError,
    SinkError,
    StoreRefusedError,
    StoreUnavailableError,
    SupersededError,
    TaskStoppedError,
    UnreadableRecordError,
    UsageError,
)

MAX_ERROR = 160
"""Characters of an error that are kept."""
MAX_SKIPS = 50
"""How many skipped elements the record lists. The count includes all of them."""


@dataclass(frozen=True, kw_only=True)
class Skip:
    """Which elements may be skipped.

    Some errors are never the fault of an element, so none of them skips one, even with `on=(Exception,)`: the task was
    told to stop or was replaced; a store or a sink refuses or cannot be reached; airflow-resume is used in a wrong way.

    Args:
        on: errors of the body that do not stop the loop.
        limit: how many elements may be skipped in all attempts together; the error of the next one is raised.
        stalled: also skip an element at which `max_stalls` attempts died.
    """

    on: tuple[type[Exception], ...] = ()
    limit: int = 10
    stalled: bool = False

    def __post_init__(self) -> None:
        kinds = self.on if isinstance(self.on, tuple) else (self.on,)
        if not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
            raise TypeError(f"on={self.on!r} must be exception classes, such as on=(ValueError,)")
        object.__setattr__(self, "on", kinds)
        check_whole("limit", self.limit, least=1)
        check_flag("stalled", self.stalled)
        if not kinds and not self.stalled:
            raise ValueError("Skip() skips nothing.\nGive on=(ValueError,), or stalled=True.")

    def covers(self, error: Exception, *, skipped: int) -> bool:
        """Whether the element may be skipped.

        Args:
            error: the error that the body raised.
            skipped: how many elements were skipped before, in all attempts.
        """
        return isinstance(error, self.on) and not is_of_attempt(error) and skipped < self.limit


class WrongFunctionError(TypeError):
    """The function passed to `map` or `amap` did no work. That is not the fault of an element, so none is skipped."""


_OF_THE_ATTEMPT = (
    AirflowRescheduleException,
    AssetNotDeclaredError,
    BackendError,
    InvalidKeyError,
    InvalidValueError,
    JobHookError,
    LoopStoppedError,
    NoStateStoreError,
    SinkError,
    StoreRefusedError,
    StoreUnavailableError,
    SupersededError,
    TaskStoppedError,
    UnreadableRecordError,
    UsageError,
    WrongFunctionError,
)


def is_of_attempt(error: BaseException) -> bool:
    """Whether an error is one of the attempt, and not of an element.

    A plain `LoopError` tells that a loop is used in a wrong way. Its subclasses tell what is wrong with a source, which
    may be that of one element.
    """
    return isinstance(error, _OF_THE_ATTEMPT) or type(error) is LoopError


def error_in_words(error: BaseException) -> str:
    """An error in a few words. What Airflow knows to be secret is masked, as everybody can see the record."""
    text = f"{type(error).__name__}: {error}"
    try:
        from airflow_resume.compat import redact  # pyright: ignore[reportPrivateImportUsage]
    except ImportError:  # the function may move in a later Airflow; no text is better than a secret
        return type(error).__name__
    masked = str(redact(text))
    return masked if len(masked) <= MAX_ERROR else f"{masked[: MAX_ERROR - 1]}…"
