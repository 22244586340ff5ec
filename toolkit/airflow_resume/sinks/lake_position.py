"""How a position in a table of a lake is claimed, and the commits that move it.

Theory of operation. A commit of such a table replaces its current state by a new one, if no other commit came first.
Each of our commits carries the record of the position, so rows and position become visible together. `LakeTable.put`
commits only if no record of this key was written since the table was looked at. So of two attempts only the one that
claimed last can commit, and the other one looks, and finds the claim of its successor. Rows are kept in memory until
the commit. If the commit raises an error, the table is looked at: it contains our record, or it does not.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from airflow_resume.errors import SinkError, SinkUnsafeError, SupersededError
from airflow_resume.shown import get_logger
from airflow_resume.sink_protocol import Claimant
from airflow_resume.sinks.contention import LOOK_SECONDS, MOST_RACES, Watch, raced, refusal
from airflow_resume.sinks.decide import Claiming, Committed, Held, OnContention, Stamp, decide_claim, decide_commit
from airflow_resume.sinks.lake_record import LakeKey, LakeRecord

if TYPE_CHECKING:
    import pyarrow as pa
    from pydantic import JsonValue

log = get_logger(__name__)

_MOST_TRIES = 20
"""How often a commit is tried when commits of others to the same table come first."""


class TableMovedError(Exception):
    """Commits of others came first, so nothing was committed. Look at the table, and try again."""


class LakeTable(Protocol):
    """A table that takes rows and a record in one commit."""

    target: str
    """What it is called in messages, without anything secret."""
    key: LakeKey
    """Of the position."""

    def look(self) -> LakeRecord | None:
        """Read the newest record of the key; None if there is none."""
        ...

    def put(self, record: LakeRecord, rows: Sequence[pa.Table]) -> None:
        """Commit rows and a record, if no record of this key was written since `look` or the last `put`.

        Raises:
            TableMovedError: others came first.
            Exception: whatever the table raises. What became of the commit is not known.
        """
        ...

    def fitted(self, rows: Any) -> pa.Table:
        """Rows with the columns of the table.

        Raises:
            TypeError, ValueError: they do not fit.
        """
        ...


class LakeWriter:
    """What the body of a loop or a window appends to. It is committed together with the position."""

    def __init__(self, fitted: Callable[[Any], pa.Table]) -> None:
        self._fitted = fitted
        self.rows: list[pa.Table] = []
        self.is_closed = False

    def append(self, rows: Any) -> None:
        """Append rows. They are in memory until the commit, and then in the table.

        Args:
            rows: a list of dicts, an Arrow table, a record batch, or whatever Arrow can read, such as a data frame of
                pandas or polars. Columns that are not given are null.

        Raises:
            TypeError, ValueError: they do not fit the table. Nothing was appended.
            SinkUnsafeError: the loop or the window is over.
        """
        if self.is_closed:
            raise SinkUnsafeError("The loop or the window is over, and its last commit too.", problem="use")
        self.rows.append(self._fitted(rows))


class LakePosition:
    """A position in a table that this attempt has claimed. Made by `claim_in_lake`.

    Args:
        table: that was looked at.
        record: of the claim.
        gives_back: whether to give the claim back at the end, in a commit of its own.
        sleep: waits for a number of seconds.
    """

    def __init__(
        self,
        table: LakeTable,
        record: LakeRecord,
        *,
        gives_back: bool,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._table, self._record, self._gives_back, self._sleep = table, record, gives_back, sleep
        self.position = record.position
        self._writer = LakeWriter(table.fitted)
        self._is_lost = self._is_in_doubt = False

    @property
    def connection(self) -> LakeWriter:
        """What takes rows."""
        return self._writer

    def commit(self, position: JsonValue) -> None:
        """Commit the rows and the position.

        Raises:
            SupersededError: another attempt has claimed the position. Nothing was committed.
            SinkError: the record is gone, or it is not known what became of an earlier commit.
            Exception: the error of the table. Nothing was committed.
        """
        if self._is_in_doubt:
            raise SinkError(
                f"It is not known what became of the last commit to {self._table.target}.",
                "A retry looks, and continues where the sink stands.",
                sink=self._table.target,
            )
        self._commit(self._record.moved(position))
        self._writer.rows.clear()

    def _commit(self, record: LakeRecord) -> None:
        tries = 0
        while not self._try(record, may_try_again=tries < _MOST_TRIES):
            tries += 1
            self._sleep(random.random() * 0.05 * tries)  # noqa: S311  so that two do not meet again and again

    def _try(self, record: LakeRecord, *, may_try_again: bool) -> bool:
        """Whether the commit took place; False if it did not, and may be tried again."""
        self._is_in_doubt = True
        try:
            self._table.put(record, self._writer.rows)
        except Exception as error:
            found = self._table.look()
            self._is_in_doubt = False
            match decide_commit(None if found is None else found.stamp, self._record.stamp):
                case Committed.YES:
                    log.warning("%s: a commit raised %r, and took place; its reply was lost", self._table.target, error)
                case Committed.NO if may_try_again and isinstance(error, TableMovedError):
                    return False
                case Committed.NO:
                    raise
                case Committed.SUPERSEDED:
                    self._is_lost = True
                    raise SupersededError(key=self._table.key.identity) from error
                case Committed.GONE:
                    raise SinkError(
                        f"The position of {self._table.key.identity} is gone from {self._table.target}, as after a"
                        " restore. Nothing was committed.",
                        "A retry continues where the sink stands.",
                        sink=self._table.target,
                    ) from error
        self._is_in_doubt = False
        self._record = record
        return True

    def rollback(self) -> None:
        """Forget the rows since the last commit."""
        self._writer.rows.clear()

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """A block whose rows are forgotten if it raises an error."""
        before = len(self._writer.rows)
        try:
            yield
        except BaseException:
            del self._writer.rows[before:]
            raise

    def close(self) -> None:
        """Forget what was not committed. Give the claim back, if others may wait for it."""
        if self._writer.is_closed:
            return
        self._writer.is_closed = True
        self._writer.rows.clear()
        if not self._gives_back or self._is_lost or self._is_in_doubt:
            return
        try:
            self._commit(self._record.released())
        except Exception as error:  # noqa: BLE001  the claim is then taken over by the next attempt all the same
            log.debug("%s: the claim of %s was not given back: %r", self._table.target, self._table.key.identity, error)


def claim_in_lake(
    table: LakeTable,
    claimant: Claimant,
    *,
    on_contention: OnContention,
    patience: float,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> LakePosition:
    """Claim a position, by a commit without rows.

    Args:
        table: that keeps it.
        claimant: the running attempt.
        on_contention: what to do about another run.
        patience: how long to wait for a run that says nothing, in seconds.
        monotonic: a clock, in seconds.
        sleep: waits for a number of seconds.

    Raises:
        SupersededError: a later attempt has claimed it. Nothing was touched.
        SinkBusyError: another run works on it.
        SinkError: it cannot be claimed.
    """
    watch, races = Watch(patience, monotonic), 0
    while races < MOST_RACES:
        found = table.look()
        decision = Claiming.INSERT
        if found is not None:
            decision = decide_claim(found.held, claimant, on_contention, watch.sign_of(found.stamp))
            if decision is Claiming.WAIT:
                sleep(LOOK_SECONDS)
                continue
            if decision is not Claiming.TAKE_OVER:
                raise refusal(decision, table.key.identity, found.held.by, table.target)
        nonce = secrets.token_hex(16)
        before = found or LakeRecord(held=Held(by=claimant), stamp=Stamp(nonce, -1))
        record = before.taken_over(claimant, nonce)
        if _is_put(table, record, before):
            return LakePosition(table, record, gives_back=on_contention != "take_over", sleep=sleep)
        races += 1
        sleep(random.random() * 0.05 * races)  # noqa: S311  so that two do not meet again and again
    raise raced(table.key.identity, table.target)


def _is_put(table: LakeTable, record: LakeRecord, before: LakeRecord) -> bool:
    """Whether a claim was committed; False if others came first."""
    try:
        table.put(record, [])
    except Exception as error:
        found = table.look()
        if found is not None and found.stamp == record.stamp:
            return True
        if isinstance(error, TableMovedError) or (found is not None and found.stamp != before.stamp):
            return False
        raise
    return True
