"""Deleting values that are of no use any more, and no others.

A dry run and a real one judge by the same conditions, and the delete states them again: a row that was written between
the look and the delete is not deleted. `sweep` deletes the rows, batch by batch.

A value with an expiry is deleted when its time is over. What a worker wrote has no expiry here, as Airflow does not
tell its backends; it is deleted when Airflow has no reference to it any more, if all references are given. A value is
written before its reference, so a young one is kept whether there is a reference or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import partial
from typing import Any

from sqlalchemy import and_, false, func, not_, select
from sqlalchemy.engine import Row
from sqlalchemy.sql.expression import ColumnElement

from airflow_resume.arguments import check_duration, check_past
from airflow_resume.backends.database.database import Database
from airflow_resume.backends.rows.live import Live, is_live, read_live
from airflow_resume.backends.rows.statements import WITHOUT_VALUE, microseconds
from airflow_resume.backends.rows.sweep import Sweep, SweepResult, read_page
from airflow_resume.backends.schema.migrations import read_ids
from airflow_resume.backends.schema.tables import HISTORY, STATE
from airflow_resume.backends.values.scopes import COLUMNS

BATCH = 10_000
"""Rows that are deleted in one transaction."""
PAGE = 1_000
"""Rows that are looked at in one go."""
SETTLED = timedelta(hours=1)
"""How long after a value its reference has surely been written, the differences between clocks included."""

_MICROSECOND = timedelta(microseconds=1)


class Reason(Enum):
    """Why a row is deleted or kept."""

    EXPIRED = "its time is over"
    """It is deleted."""
    ORPHANED = "no reference leads to it"
    """It is deleted: all references were given, and none leads to it."""
    NOT_EXPIRED = "its time is not over"
    """It is kept."""
    NO_EXPIRY = "it is kept until it is deleted"
    """It is kept: it was written without an expiry, and no task's reference belongs to it."""
    REFERENCED = "a reference leads to it"
    """It is kept."""
    TOO_YOUNG = "its reference may be on its way"
    """It is kept: it was written less than `settled` before the references were collected."""
    UNKNOWN = "Airflow may have a reference to it, and the references were not given"
    """It is kept."""

    @property
    def deletes(self) -> bool:
        """Whether the row is deleted."""
        return self in {Reason.EXPIRED, Reason.ORPHANED}


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A row, and why it is deleted or kept."""

    id: int
    """The id of the row."""
    key: str
    """The key of the value."""
    scope: dict[str, object]
    """What is known of the scope, by name."""
    reason: Reason
    """Why it is deleted or kept."""


@dataclass(frozen=True, kw_only=True)
class CleanupReport:
    """What a cleanup did."""

    expired: int
    """How many values were deleted whose time was over."""
    orphaned: int
    """How many values were deleted that no reference led to."""
    failures: Sequence[str]
    """The error of each batch that was left out."""

    def __str__(self) -> str:
        failed = f"; {len(self.failures)} batches failed: {self.failures[0]}" if self.failures else ""
        return f"Deleted {self.expired} expired and {self.orphaned} orphaned values{failed}"


@dataclass(frozen=True, kw_only=True)
class Cleanup:
    """One cleanup, with the time and the references that it judges by."""

    database: Database
    now_us: int
    live: Live | None
    """What references lead to; None when they were not given."""
    settled_us: int | None
    """A value that was written before this has its reference, or will have none."""

    def plan(self) -> Iterator[Judged]:
        """Every row, judged, in pages."""
        facts = (self._expired().label("expired"), self._settled().label("settled"))
        shown = (STATE.c[name] for name in ("id", "scope_hash", "key", "expires_us", "referenced", *COLUMNS))
        statement, after = select(*shown, *facts), 0
        while page := self.database.autocommit(partial(read_page, statement, after, PAGE)):
            yield from map(self._judged, page)
            after = page[-1].id

    def clean(self, batch: int) -> CleanupReport:
        """Delete, batch by batch. It raises if the database cannot be opened."""
        self.database.opened()
        expired, orphaned = self._sweep_expired(batch), self._sweep_orphaned(batch)
        # The versions of deleted values are deleted too.
        versions = Sweep(database=self.database, table=HISTORY, condition=WITHOUT_VALUE).run(batch)
        return CleanupReport(
            expired=expired.deleted,
            orphaned=orphaned.deleted,
            failures=(*expired.failures, *orphaned.failures, *versions.failures),
        )

    def _sweep_expired(self, batch: int) -> SweepResult:
        """Delete what has expired. The index on the expiry shows where to begin, or that nothing has expired."""
        first = select(func.min(STATE.c.id)).where(STATE.c.expires_us < self.now_us)
        begin = self.database.autocommit(lambda connection: connection.execute(first).scalar())
        if begin is None:
            return SweepResult()
        return Sweep(database=self.database, table=STATE, condition=self._expired(), after=begin - 1).run(batch)

    def _sweep_orphaned(self, batch: int) -> SweepResult:
        if self.live is None:
            return SweepResult()
        return Sweep(
            database=self.database,
            table=STATE,
            condition=and_(not_(self._expired()), self._settled()),
            columns=(STATE.c.scope_hash, STATE.c.key),
            keep=self._is_live,
        ).run(batch)

    def _expired(self) -> ColumnElement[bool]:
        """What has expired. The `+ 0` keeps a planner from using the index, which would mean a sort for every batch."""
        return and_(STATE.c.expires_us.is_not(None), STATE.c.expires_us + 0 < self.now_us)

    def _settled(self) -> ColumnElement[bool]:
        """What is deleted unless one of the given references leads to it."""
        if self.settled_us is None:
            return false()
        return and_(STATE.c.referenced == 1, STATE.c.updated_us < self.settled_us)

    def _is_live(self, row: Row[Any]) -> bool:
        return self.live is not None and is_live(self.live, row)

    def _judged(self, row: Row[Any]) -> Judged:
        reason = judge(
            expired=bool(row.expired),
            expires=row.expires_us is not None,
            referenced=bool(row.referenced),
            given=self.live is not None,
            settled=bool(row.settled),
            live=bool(row.settled) and self._is_live(row),
        )
        scope = {name: getattr(row, name) for name in COLUMNS if getattr(row, name) is not None}
        return Judged(id=row.id, key=row.key, scope=scope, reason=reason)


def cleanup_of(
    database: Database,
    now: datetime,
    live: Iterable[object] | None,
    live_as_of: datetime | None,
    settled: timedelta,
) -> Cleanup:
    """The cleanup for the arguments of `SqlStoreBackend.clean`, which are checked. The references are read."""
    check_duration("settled", settled)
    if (live is None) != (live_as_of is None):
        raise ValueError("live and live_as_of go together: the references, and when they began to be collected")
    if live_as_of is not None:
        check_past("live_as_of", live_as_of, now)

    def ids() -> frozenset[str]:
        """The id of the database and its former ids. A reference with any of them leads here."""
        found = database.autocommit(read_ids)
        return frozenset((str(found.store_id), *found.former_ids))

    return Cleanup(
        database=database,
        now_us=microseconds(now),
        live=None if live is None else read_live(live, ids),
        settled_us=None if live_as_of is None else max(0, microseconds(live_as_of) - settled // _MICROSECOND),
    )


def judge(*, expired: bool, expires: bool, referenced: bool, given: bool, settled: bool, live: bool) -> Reason:
    """Why a row is deleted or kept.

    Args:
        expired: its time is over.
        expires: it has an expiry.
        referenced: Airflow was given a reference to it.
        given: we were given the references that Airflow has.
        settled: it was written long enough before they were collected.
        live: one of them leads to it.
    """
    if expired:
        return Reason.EXPIRED
    if not referenced:
        return Reason.NOT_EXPIRED if expires else Reason.NO_EXPIRY
    if not given:
        return Reason.UNKNOWN
    if not settled:
        return Reason.TOO_YOUNG
    return Reason.REFERENCED if live else Reason.ORPHANED
