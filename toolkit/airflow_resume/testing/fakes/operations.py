"""The calls of stores: they are observed, logged, and fail during an outage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, TypeVar

from airflow_resume.testing.fakes.refusals import refusal
from airflow_resume.testing.points import note_unwatched

T = TypeVar("T")

Observer: TypeAlias = Callable[[str, str], None]
"""Called with "before" or "after" and the operation, such as "set resume.job.x"."""


class Operation(NamedTuple):
    """One call of a store."""

    name: str
    """get, set, delete or clear; also for the async methods."""
    key: str = ""
    error: str = ""
    """The name of the exception that it raised."""

    def __str__(self) -> str:
        return f"{self.name} {self.key}" if self.key else self.name


@dataclass
class Outage:
    """How many of the next calls fail, and how."""

    calls: int = 0
    status: int | None = None

    def check(self) -> None:
        """Fail, if there is an outage.

        Raises:
            AirflowRuntimeError: with the status of the outage.
        """
        if self.calls > 0:
            self.calls -= 1
            raise refusal(self.status, "the API server is away")


@dataclass
class CallRecorder:
    """Observes and logs every call of some stores."""

    observer: Observer | None = None
    log: list[Operation] = field(default_factory=list)
    outage: Outage = field(default_factory=Outage)

    def pass_through(self, name: str, key: object, call: Callable[[], T]) -> T:
        """Make the call, and report it to the observer and the log.

        An error of the observer is raised by the call. At "before", nothing was done yet; at "after", the call was
        applied. A call that fails has no "after".
        """
        operation = Operation(name, str(key))
        if self.observer is None:
            note_unwatched(str(operation))
        else:
            self.observer("before", str(operation))
        try:
            self.outage.check()
            result = call()
        except Exception as error:
            self.log.append(Operation(name, str(key), type(error).__name__))
            raise
        self.log.append(operation)
        if self.observer is not None:
            self.observer("after", str(operation))
        return result
