"""When a loop with a sink commits.

Theory of operation. The truth is in the sink, in the commit of the rows. The record in Airflow's store is written
behind, as `Keeper` does it, and only what is committed is written there. `flush` commits, and so runs before the next
element is delivered. If the loop is left early, there may be rows of an element that is not acked. They cannot be told
from the other rows of the transaction, so all of it is rolled back, and a later attempt does the elements again that
were acked since the last commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from math import inf
from typing import TYPE_CHECKING, Any

from airflow_resume.channel import LatestWriter
from airflow_resume.errors import LoopError, SinkUnsafeError
from airflow_resume.loops.keeping.keeper import Keeper
from airflow_resume.loops.loop_record import LoopRecord
from airflow_resume.loops.plan import Keeping
from airflow_resume.sink_protocol import ClaimedPosition, check_use_in

if TYPE_CHECKING:
    from pydantic import JsonValue


class CommittingKeeper(Keeper):
    """Commits rows and the record to a sink, and writes the record to Airflow's store behind.

    Args:
        name: of the loop, for messages.
        sink: the position of the loop, claimed.
        encode: makes the JSON of a record.
        committed: the record that is in the sink.
        writer, record, now, careful, claim_seconds: as for `Keeper`.
    """

    def __init__(
        self,
        name: str,
        *,
        keeping: Keeping,
        sink: ClaimedPosition,
        encode: Callable[[LoopRecord], JsonValue],
        committed: LoopRecord,
        writer: LatestWriter[LoopRecord],
        record: Callable[[], LoopRecord],
        now: float,
        careful: bool = False,
        claim_seconds: float = 0.0,
    ) -> None:
        self._committed = committed
        super().__init__(
            name,
            keeping=keeping,
            writer=writer,
            record=lambda: self._committed,
            now=now,
            careful=careful,
            claim_seconds=claim_seconds,
        )
        self._sink, self._encode, self._acked = sink, encode, record
        every = keeping.commit_every
        self._most_acks = inf if isinstance(every, timedelta) else every
        self._most_seconds = every.total_seconds() if isinstance(every, timedelta) else inf
        self._acks, self._now, self._committed_at = 0, now, now
        self._must_write = self._is_abandoned = self._has_failed = False
        self._open: dict[str, Callable[[], bool]] = {}
        self._check_body: Callable[[], None] | None = None
        check_use_in(sink, self._check_use)
        self._under_way: tuple[int, LoopRecord] | None = None
        """A commit that was begun: the version of the sink before it, and its record; None once it is noted."""

    has_sink = True

    @property
    def connection(self) -> Any:
        """The connection of the sink, in a transaction.

        Raises:
            SinkUnsafeError: the loop was left before its end, so nothing more is committed; or as `check_use_with`.
        """
        self._check_use()
        return self._sink.connection

    def check_use_with(self, check: Callable[[], None]) -> None:
        """Call this before each use of the connection; it raises an error if the body may not use it there."""
        self._check_body = check

    def _check_use(self) -> None:
        if self._is_abandoned:
            raise left_too_early(self._name)
        self._check_failed()
        if self._check_body is not None:
            self._check_body()

    @property
    def kept(self) -> LoopRecord | None:
        """What is committed, once other work was undone."""
        self._catch_up()
        return self._committed if self._is_abandoned else None

    def quiet_seconds(self, now: float) -> float:  # noqa: ARG002
        """Each ack is looked at, so none is only counted."""
        return 0.0

    def note(self, now: float) -> bool:
        """Note that something was acked. Returns whether to flush, which commits."""
        self._acks += 1
        self._now = now
        self._must_write = super().note(now)
        is_due = self._acks >= self._most_acks or now - self._committed_at >= self._most_seconds
        return is_due or self.is_careful(now)

    def flush(self) -> None:
        """Commit what is acked. The record in Airflow's store follows, and is waited for if the durability says so."""
        self._commit()
        if self._must_write:
            super().flush()

    def flush_rest(self, seconds: float | None = None) -> None:
        """Commit what is acked, and write the record."""
        self._commit()
        super().flush_rest(seconds)

    def _commit(self) -> None:
        if self._is_abandoned:  # a connection of the driver that the body has kept cannot be refused
            self._sink.rollback()
        self._open = {name: is_open for name, is_open in self._open.items() if is_open()}
        if self._open and not self._is_abandoned:
            name = next(iter(self._open))
            raise SinkUnsafeError(
                f"The loop {name!r} was left in the middle of an element, and what that has written would be committed"
                f" although the element is not done.",
                "Let the error leave the outermost loop, or use skipping(), or end the element around it next.",
                problem="use",
            )
        self._catch_up()
        self._check_failed()
        record = self._acked()
        encoded = self._encode(record)
        version = self._sink.version
        self._under_way = version, record
        try:
            self._sink.commit(encoded)
        except BaseException:
            self._has_failed = self._sink.version == version
            raise
        self._committed, self._acks, self._committed_at = record, 0, self._now
        self._under_way = None
        self.is_dirty = True

    def _check_failed(self) -> None:
        """Refuse to go on after a commit that failed, whose error the body has caught: what is acked has no rows.

        Raises:
            LoopError: it did.
        """
        if self._has_failed and not self._is_abandoned:
            raise LoopError(
                f"Loop {self._name!r}: a commit has failed, and its rows were rolled back. The body has caught the"
                " error, and would go on without them."
                "\nLet the error leave the loop. A retry continues after what is committed."
            )

    def _catch_up(self) -> None:
        """Note a commit that took place, although an error or an interrupt came before it was noted.

        Otherwise the end of the loop would write the position before it over the one that was committed.
        """
        if self._under_way is not None:
            version, record = self._under_way
            if self._sink.version > version:
                self._committed = record
            self._under_way = None

    def abandon(self) -> None:
        """Undo the work since the last commit, and let nothing more be written."""
        if not self._is_abandoned:
            self._is_abandoned = True
            self._sink.rollback()

    def leave_open(self, name: str, is_open: Callable[[], bool]) -> None:
        """Commit nothing while there is work of an element that is not acked."""
        self._open[name] = is_open

    @contextmanager
    def undoing(self) -> Iterator[None]:
        """Undo the work of the block if it raises an error."""
        with self._sink.savepoint():
            yield

    def release(self) -> None:
        """Give the claim and the connection back."""
        self._sink.close()


def left_too_early(name: str) -> SinkUnsafeError:
    """The error for what is written after a loop was left by a `break` or an error, and before its `with` ends.

    Args:
        name: of the loop.
    """
    return SinkUnsafeError(
        f"The loop {name!r} was left before its end, by a `break` or by an error that was caught. What is written now"
        " would be rolled back, together with the work of its last element.",
        "Write it in the body of the loop, or on another connection, or after the loop has come to its end.",
        problem="use",
    )
