"""Deleting what is of no use any more, and never what is.

A dry run and a real one judge by the same conditions, and the delete says them again: a row that was written between
the look and the delete is not deleted. How the rows go, batch by batch, is `sweep`.

What has an expiry is deleted when that is over. What a worker wrote has none here, as Airflow does not tell its
backends; it is deleted when Airflow has no reference to it any more, if all references are given. A value is written
before its reference, so one that is young is kept whether there is a reference or not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, false, func, not_, select

from airflow_resume.backends.database import Database
from airflow_resume.backends.references import Reference
from airflow_resume.backends.rows import forgotten
from airflow_resume.backends.schema import HISTORY, STATE
from airflow_resume.backends.scopes import COLUMNS
from airflow_resume.backends.sweep import Sweep, Swept, read_page

BATCH = 2_000
"""Rows that are deleted in one transaction."""
PAGE = 1_000
"""Rows that are looked at in one go."""
SETTLED = timedelta(hours=1)
"""How long after a value its reference has surely been written, the differences between clocks included."""


class Reason(Enum):
    """Why a row is deleted or kept."""

    EXPIRED = "its time is over"
    ORPHANED = "no reference leads to it"
    NOT_EXPIRED = "its time is not over"
    NO_EXPIRY = "it is kept until it is deleted"
    REFERENCED = "a reference leads to it"
    TOO_YOUNG = "its reference may be on its way"
    UNKNOWN = "Airflow may have a reference to it, and the references were not given"

    @property
    def deletes(self) -> bool:
        """Whether the row goes."""
        return self in {Reason.EXPIRED, Reason.ORPHANED}


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A row, and what becomes of it."""

    id: int
    key: str
    scope: dict[str, object]
    """What is known of the scope, by name."""
    reason: Reason


@dataclass(frozen=True, kw_only=True)
class CleanupReport:
    """What a cleanup did."""

    expired: int
    orphaned: int
    failures: Sequence[str]
    """Of each batch that was left out, the error."""

    def __str__(self) -> str:
        failed = f"; {len(self.failures)} batches failed: {self.failures[0]}" if self.failures else ""
        return f"Deleted {self.expired} expired and {self.orphaned} orphaned values{failed}"


@dataclass(frozen=True, kw_only=True)
class Janitor:
    """One cleanup, with the moment and the references that it judges by."""

    database: Database
    now_us: int
    live: Collection[str] | None
    settled_us: int | None
    """What was written before has its reference, or will have none."""

    def plan(self) -> Iterator[Judged]:
        """Every row, judged, in pages."""
        facts = (self._expired().label("expired"), self._settled().label("settled"))
        shown = (STATE.c[name] for name in ("id", "scope_hash", "key", "expires_us", "referenced", *COLUMNS))
        statement, after = select(*shown, *facts), 0
        while page := self.database.alone(partial(read_page, statement, after, PAGE)):
            yield from map(self._judged, page)
            after = page[-1].id

    def clean(self, batch: int) -> CleanupReport:
        """Delete, batch by batch. What cannot even be opened raises."""
        self.database.opened()
        expired, orphaned, forgot = self._sweep_expired(batch), self._sweep_orphaned(batch), self._forget(batch)
        return CleanupReport(
            expired=expired.deleted,
            orphaned=orphaned.deleted,
            failures=(*expired.failures, *orphaned.failures, *forgot.failures),
        )

    def _sweep_expired(self, batch: int) -> Swept:
        """The index on the expiry tells where the walk begins, and that there is nothing to walk for."""
        first = select(func.min(STATE.c.id)).where(STATE.c.expires_us < self.now_us)
        begin = self.database.alone(lambda connection: connection.execute(first).scalar())
        if begin is None:
            return Swept()
        return Sweep(database=self.database, table=STATE, doomed=self._expired(), after=begin - 1).run(batch)

    def _sweep_orphaned(self, batch: int) -> Swept:
        if self.live is None:
            return Swept()
        return Sweep(
            database=self.database,
            table=STATE,
            doomed=and_(not_(self._expired()), self._settled()),
            columns=(STATE.c.scope_hash, STATE.c.key),
            spared=self._is_live,
        ).run(batch)

    def _forget(self, batch: int) -> Swept:
        """Of what is gone, the versions go too."""
        return Sweep(database=self.database, table=HISTORY, doomed=forgotten()).run(batch)

    def _expired(self) -> ColumnElement[bool]:
        """The sum keeps a planner from the index on the expiry: it would sort all that has expired for every batch."""
        return and_(STATE.c.expires_us.is_not(None), STATE.c.expires_us + 0 < self.now_us)

    def _settled(self) -> ColumnElement[bool]:
        """What the references that were given decide on."""
        if self.settled_us is None:
            return false()
        return and_(STATE.c.referenced == 1, STATE.c.updated_us < self.settled_us)

    def _is_live(self, row: Row[Any]) -> bool:
        store_id = self.database.opened().store_id
        reference = str(Reference(store_id=store_id, scope_hash=row.scope_hash, key=row.key))
        return self.live is not None and reference in self.live

    def _judged(self, row: Row[Any]) -> Judged:
        scope = {name: getattr(row, name) for name in COLUMNS if getattr(row, name) is not None}
        return Judged(id=row.id, key=row.key, scope=scope, reason=self._reason(row))

    def _reason(self, row: Row[Any]) -> Reason:
        return judge(
            expired=bool(row.expired),
            expires=row.expires_us is not None,
            referenced=bool(row.referenced),
            given=self.live is not None,
            settled=bool(row.settled),
            live=bool(row.settled) and self._is_live(row),
        )


def judge(*, expired: bool, expires: bool, referenced: bool, given: bool, settled: bool, live: bool) -> Reason:
    """What becomes of a row.

    Args:
        expired: its time is over.
        expires: it has one.
        referenced: Airflow was given a reference to it.
        given: we were given the references that Airflow has.
        settled: it was written long enough before they were collected.
        live: they lead to it.
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
