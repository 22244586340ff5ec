"""What a loop or a watermark needs of a sink: a position that is kept where the data is, in the same commit.

Loops and watermarks know these protocols only. `airflow_resume.sinks` has the sinks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from airflow_resume import values

if TYPE_CHECKING:
    from pydantic import JsonValue
    from typing_extensions import Self

    from airflow_resume.attempt import Attempt


@dataclass(frozen=True, kw_only=True)
class Claimant:
    """Who claims a position, and its place in the order of the attempts of one task instance.

    Args:
        owner: the task instance as JSON; empty for a script, whose runs have no order.
        started: when the Dag run started, if that is known. A run that was deleted and made again has a later start.
        try_number: of the attempt.
    """

    owner: str = ""
    started: datetime | None = None
    try_number: int = 1

    @classmethod
    def of(cls, attempt: Attempt) -> Self:
        """The running attempt."""
        started = attempt.epoch.run_started
        return cls(
            owner=values.dumps([*attempt.scope.identity()]) if attempt.has_identity else "",
            started=None if started is None else datetime.fromisoformat(started),
            try_number=attempt.try_number,
        )

    def is_before(self, other: Claimant) -> bool:
        """Whether this is an earlier attempt of the same task instance."""
        if self.started is None or other.started is None or self.started == other.started:
            return self.try_number < other.try_number
        return self.started < other.started


class ClaimedPosition(Protocol):
    """A position in a sink that this attempt has claimed.

    No other attempt can commit to it, unless it claims it first.
    """

    position: JsonValue
    """As it was when it was claimed; None if there was none."""

    @property
    def connection(self) -> Any:
        """A connection in a transaction, to which `commit` adds the position."""
        ...

    @property
    def version(self) -> int:
        """A number that each commit makes greater, at the moment at which it is known that the commit took place.

        So it tells what became of a `commit` that was left by an error, or by an interrupt at its very end.
        """
        ...

    def commit(self, position: JsonValue) -> None:
        """Commit what was done with the connection, and the position, together.

        Raises:
            SupersededError: another attempt has claimed the position. Nothing was committed.
            SinkError: the transaction is not the one that was begun. Nothing was committed.
        """
        ...

    def rollback(self) -> None:
        """Undo what was done with the connection since the last commit."""
        ...

    def savepoint(self) -> AbstractContextManager[object]:
        """A block whose work is undone if it raises an error.

        Raises:
            SinkUnsafeError: the database has no savepoints.
        """
        ...

    def close(self) -> None:
        """Undo what was not committed, and give the claim back."""
        ...


class Sink(Protocol):
    """A place that keeps positions in the same commit as data."""

    @property
    def target(self) -> str:
        """Where it is, without anything secret."""
        ...

    # A sink may have an attribute `script: str | None`, see `script_of`.

    def claim(self, identity: Sequence[JsonValue], claimant: Claimant) -> ClaimedPosition:
        """Claim the position of a loop or a watermark.

        Args:
            identity: what identifies it among all others that use this sink.
            claimant: the running attempt.

        Raises:
            SupersededError: a later attempt has claimed it already. Nothing was touched.
            SinkError: it cannot be claimed.
        """
        ...


def append_to(connection: Any, rows: Any) -> None:
    """Append rows to what the body of a loop or a window writes with.

    Args:
        connection: of the sink.
        rows: as the sink takes them.

    Raises:
        TypeError: the sink has a connection of another kind.
    """
    append = getattr(connection, "append", None)
    if append is None:
        raise TypeError(
            f"append() is for the tables of a lake, and this sink has a {type(connection).__name__}."
            "\nUse it: `connection` is what one writes with."
        )
    append(rows)


def script_of(sink: Sink) -> str | None:
    """The name that a script has given to itself in its sink; None if it has none, or if the sink takes no names."""
    script: object = getattr(sink, "script", None)
    return script if isinstance(script, str) else None


def check_use_in(position: ClaimedPosition, check: Callable[[], None]) -> None:
    """Have a connection that the body has kept call this before each use, if the sink can do that.

    A claimed position that can has a method `check_use(check)`.

    Args:
        position: of the connection.
        check: raises an error if the connection may not be used now.
    """
    check_use = getattr(position, "check_use", None)
    if callable(check_use):
        check_use(check)
