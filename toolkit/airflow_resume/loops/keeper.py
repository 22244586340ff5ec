"""When the record of a loop is written.

Theory of operation. In `"async"` the newest acked state is offered to the channel's thread at most once an interval, so
the loop does not wait; when the store has taken nothing for `max_uncommitted`, the loop waits for it. `note` never
waits: it says whether the owner must `flush`, which does, so that an event loop can flush in another thread.

An attempt after one that died without a word, and came no further by the record, begins *carefully*: every ack is
written before the next element is delivered, so that if it dies as well the record names the element in hand.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from math import inf

from airflow_resume.channel import LatestWriter
from airflow_resume.errors import StoreUnavailableError
from airflow_resume.loops.plan import Keeping
from airflow_resume.loops.record import LoopRecord

log = logging.getLogger(__name__)

BUSY_SHARE = 0.05
"""At most this share of the loop's time may be spent writing in `"async"`."""


class Keeper:
    """Writes the record when the durability says so.

    Args:
        name: of the loop, for messages.
        writer: of records.
        record: makes the record of all that is acked now.
        now: by the clock that `note` is given, in seconds.
        careful: whether to begin carefully, for as long as a loop may run ahead of its record.
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
    ) -> None:
        self._name = name
        self._keeping = keeping
        self._writer = writer
        self._record = record
        self._interval = keeping.interval.total_seconds()
        self._patience = keeping.max_uncommitted.total_seconds()
        self._dirty = False
        self._due = now + self._interval
        self._careful_until = now + self._patience if careful else now

    def is_careful(self, now: float) -> bool:
        """Whether the element in hand must be known from the record, if this attempt dies as the one before did."""
        return now < self._careful_until

    def lull(self, now: float) -> float:
        """For how many seconds acks need only be counted."""
        keeping = self._keeping
        if keeping.durability == "sync" or self.is_careful(now) or self._writer.failure is not None:
            return 0.0
        return inf if keeping.durability == "exit" else self._due - now

    def touch(self) -> None:
        """There is something to write when the loop is left."""
        self._dirty = True

    def note(self, now: float) -> bool:
        """Something was acked. Whether the loop must flush before it goes on.

        Raises:
            SupersededError, StoreUnavailableError, ...: what an earlier write in the background ended with.
        """
        self._dirty = True
        if self._writer.failure is not None:
            self._guarded(self._writer.raise_failure)
        if self._keeping.durability == "sync" or self.is_careful(now):
            return True
        if self._keeping.durability == "exit":
            return False
        return now >= self._due and self._write_soon(now)

    def _write_soon(self, now: float) -> bool:
        pause = max(self._interval, self._writer.write_seconds / BUSY_SHARE)
        self._due = now + min(pause, self._patience)
        if now - self._writer.written_at > self._patience:
            return True
        self._offer()
        return False

    def flush(self) -> None:
        """Write what is acked, and return when that is done."""
        self._guarded(self._write_now)

    def flush_rest(self, seconds: float | None = None) -> None:
        """The same, if there is anything to write or a write to hear of.

        Args:
            seconds: how long to wait for each.

        Raises:
            TimeoutError: the store takes longer.
        """
        self._guarded(partial(self._writer.flush, seconds))
        if self._dirty:
            self._guarded(partial(self._write_now, seconds))

    def _write_now(self, seconds: float | None = None) -> None:
        self._offer()
        self._writer.flush(seconds)

    def _offer(self) -> None:
        # Before the write: if it fails, that is kept in the writer, and the next `note` or flush raises it.
        self._writer.offer(self._record())
        self._dirty = False

    def _guarded(self, write: Callable[[], None]) -> None:
        """A store that is away may be borne by policy; a refused write never is."""
        try:
            write()
        except StoreUnavailableError:
            self._dirty = True
            if self._keeping.on_store_error == "raise":
                raise
            log.warning("The position of the loop %r could not be written; going on", self._name, exc_info=True)
        except BaseException:
            self._dirty = True
            raise
