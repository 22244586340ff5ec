"""When the record of a loop is written.

Theory of operation. With the durability `"async"`, the newest acked state is given to the channel's thread at most once
per interval, and the loop does not wait for the write. How long it waits between two writes is decided by `pace`. It
waits for the store only if a write has not been completed for `max_uncommitted`. `note` never waits: it returns whether
the owner must call `flush`, which waits. So an event loop can call `flush` in another thread.

An attempt begins *carefully* if the previous one died without an error and made no progress in the record. Then every
ack is written before the next element is delivered. If this attempt dies too, the record names the element in hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from math import inf
from typing import Any

from airflow_resume.channel import LatestWriter
from airflow_resume.errors import LoopError, StoreUnavailableError
from airflow_resume.loops.keeping.pace import FAST_SECONDS, FROZEN_SECONDS, Pace
from airflow_resume.loops.loop_record import LoopRecord
from airflow_resume.loops.plan import Keeping
from airflow_resume.shown import get_logger

log = get_logger(__name__)


class Keeper:
    """Writes the record when the durability says so.

    Args:
        name: of the loop, for messages.
        writer: of records.
        record: makes the record of all that is acked at the moment.
        now: the time by the clock of `note`, in seconds.
        careful: whether to begin carefully (see above), and to stay so for `max_uncommitted`.
        claim_seconds: how long the write of the claim took.
    """

    def __init__(
        self,
        name: str,
        *,
        keeping: Keeping,
        writer: LatestWriter[LoopRecord],
        record: Callable[[], LoopRecord],
        now: float,
        careful: bool = False,
        claim_seconds: float = 0.0,
    ) -> None:
        self._name = name
        self._keeping = keeping
        self._writer = writer
        self._record = record
        self._patience = keeping.max_uncommitted.total_seconds()
        self._pace = Pace(keeping.interval.total_seconds(), longest=keeping.max_interval.total_seconds())
        if FAST_SECONDS < claim_seconds < FROZEN_SECONDS:
            self._pace.note(claim_seconds)
        self.is_dirty = False
        """Whether there is something to write when the loop is left."""
        self._offered_at = self._unwritten_since = now
        """When a record was offered last, and since when no offered one has been written."""
        self._next_write = self._due = now + self._pace.pause
        """When to offer the next record, and when to look at it again: the store may not complete a write."""
        self._careful_until = now + self._patience if careful else now

    has_sink = False
    """Whether the record is kept in a sink, too."""

    @property
    def connection(self) -> Any:
        """The connection of the sink.

        Raises:
            LoopError: there is no sink.
        """
        raise LoopError(
            f"The loop {self._name!r} has no sink, and so no connection.",
            "Give it sink=SqlSink(engine).",
            loop=self._name,
        )

    def check_use_with(self, check: Callable[[], None]) -> None:
        """Call this before each use of the connection. Without a sink there is no connection, so it is never called."""

    @property
    def kept(self) -> LoopRecord | None:
        """The record of what is kept, if less is kept than is acked because work was undone; otherwise None."""
        return None

    def abandon(self) -> None:
        """Undo the work since the last commit. Without a sink there is nothing to undo."""

    def leave_open(self, name: str, is_open: Callable[[], bool]) -> None:
        """Note that there is work of an element of the loop `name` that is not acked, for as long as `is_open`."""

    @contextmanager
    def undoing(self) -> Iterator[None]:
        """Undo the work of the block if it raises an error. Without a sink there is nothing to undo."""
        yield

    def release(self) -> None:
        """The loop is closed: give back what belongs to it."""

    def is_careful(self, now: float) -> bool:
        """Whether the record must name the element in hand, as an attempt before this one died."""
        return now < self._careful_until

    def quiet_seconds(self, now: float) -> float:
        """For how many seconds nothing is to be written, so that acks need only be counted."""
        keeping = self._keeping
        if keeping.durability == "sync" or self.is_careful(now) or self._writer.failure is not None:
            return 0.0
        return inf if keeping.durability == "exit" else self._due - now

    def note(self, now: float) -> bool:
        """Note that something was acked. Returns whether the loop must flush before it continues.

        Raises:
            SupersededError, StoreUnavailableError, ...: the error of an earlier write in the background.
        """
        self.is_dirty = True
        if self._writer.failure is not None:
            self._guarded(self._writer.raise_failure)
        if self._keeping.durability == "sync" or self.is_careful(now):
            return True
        if self._keeping.durability == "exit":
            return False
        return now >= self._due and self._write_soon(now)

    def _write_soon(self, now: float) -> bool:
        is_complete = self._writer.written_at >= self._offered_at
        if is_complete and now < self._next_write:
            self._due = self._next_write
            return False
        if is_complete:
            self._pace.note(self._writer.write_seconds)
            self._unwritten_since = now
        self._next_write = now + self._pace.pause
        patient_until = self._unwritten_since + self._patience
        if now >= patient_until:
            return True
        self._due = min(self._next_write, patient_until)
        self._offered_at = now
        self._offer()
        return False

    def flush(self) -> None:
        """Write what is acked, and return when that is done."""
        self._guarded(self._write_now)

    def flush_rest(self, seconds: float | None = None) -> None:
        """As `flush`, if there is anything to write. It also waits for a write in the background.

        Args:
            seconds: how long to wait for each.

        Raises:
            TimeoutError: the store takes longer.
        """
        self._guarded(partial(self._writer.flush, seconds))
        if self.is_dirty:
            self._guarded(partial(self._write_now, seconds))

    def _write_now(self, seconds: float | None = None) -> None:
        self._offer()
        self._writer.flush(seconds)

    def _offer(self) -> None:
        # If the write fails, the writer keeps the error, and the next `note` or flush raises it.
        self._writer.offer(self._record())
        self.is_dirty = False

    def _guarded(self, write: Callable[[], None]) -> None:
        """Write; the policy may tolerate a store that is unavailable, but never a refused write."""
        try:
            write()
        except StoreUnavailableError:
            self.is_dirty = True
            if self._keeping.on_store_error == "raise":
                raise
            log.warning("The position of the loop %r could not be written; continuing", self._name, exc_info=True)
        except BaseException:
            self.is_dirty = True
            raise
