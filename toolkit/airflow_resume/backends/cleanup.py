"""Deleting what is of no use any more, and never what is.

There is one predicate. A dry run and a real one select by it, and the delete says it again: a row that was written
between the look and the delete is not deleted. Rows go in batches of bounded size by primary key, each in a
transaction of its own, so a run that was interrupted, or of which a batch failed, can simply be run again.

What has an expiry is deleted when that is over. What a worker wrote has none here, as Airflow does not tell its
backends; it is deleted when Airflow has no reference to it any more, if all references are given. A value is written
before its reference, so one that is young is kept whether there is a reference or not.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, delete, false, or_, select

from airflow_resume.backends.database import Database
from airflow_resume.backends.references import Reference
from airflow_resume.backends.rows import forget
from airflow_resume.backends.schema import STATE
from airflow_resume.backends.scopes import COLUMNS
from airflow_resume.errors import ResumeError

log = logging.getLogger(__name__)

BATCH = 500
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
        for page in self._pages(self._select(), PAGE):
            for row in page:
                scope = {name: getattr(row, name) for name in COLUMNS if getattr(row, name) is not None}
                yield Judged(id=row.id, key=row.key, scope=scope, reason=self._reason(row))

    def clean(self, batch: int) -> CleanupReport:
        """Delete, batch by batch."""
        deleted: Counter[Reason] = Counter()
        failures: list[str] = []
        for page in self._pages(self._select().where(self._may_go()), batch):
            doomed = {reason: [row.id for row in page if self._reason(row) is reason] for reason in _DELETING}
            try:
                deleted += self.database.transaction(partial(self._delete, doomed))
            except ResumeError as error:
                log.warning("A batch of a cleanup was left out: %s", error)
                failures.append(str(error))
        self.database.transaction(forget)
        return CleanupReport(
            expired=deleted[Reason.EXPIRED], orphaned=deleted[Reason.ORPHANED], failures=tuple(failures)
        )

    def _delete(self, doomed: Mapping[Reason, Sequence[int]], connection: Connection) -> Counter[Reason]:
        """Delete those of the rows that are still as they were judged."""
        deleted: Counter[Reason] = Counter()
        for reason, ids in doomed.items():
            if ids:
                statement = delete(STATE).where(STATE.c.id.in_(ids), self._may_go())
                deleted[reason] = connection.execute(statement).rowcount
        return deleted

    def _pages(self, statement: Select[Any], size: int) -> Iterator[Sequence[Row[Any]]]:
        """What a statement gives, in the order of the primary key, so many rows at a time."""
        after = 0
        while True:
            page = self.database.alone(partial(_read_page, statement, after, size))
            if page:
                yield page
            if len(page) < size:
                return
            after = page[-1].id

    def _select(self) -> Select[Any]:
        facts = (self._expired().label("expired"), self._settled().label("settled"))
        shown = (STATE.c[name] for name in ("id", "scope_hash", "key", "expires_us", "referenced", *COLUMNS))
        return select(*shown, *facts)

    def _may_go(self) -> ColumnElement[bool]:
        """The predicate; all that it leaves open is whether a reference leads to the row."""
        may_go: ColumnElement[bool] = or_(self._expired(), self._settled())
        return may_go

    def _expired(self) -> ColumnElement[bool]:
        return and_(STATE.c.expires_us.is_not(None), STATE.c.expires_us < self.now_us)

    def _settled(self) -> ColumnElement[bool]:
        """What the references that were given decide on."""
        if self.settled_us is None:
            return false()
        return and_(STATE.c.referenced == 1, STATE.c.updated_us < self.settled_us)

    def _reason(self, row: Row[Any]) -> Reason:
        live = self.live is not None and bool(row.settled) and self._reference(row) in self.live
        return judge(
            expired=bool(row.expired),
            expires=row.expires_us is not None,
            referenced=bool(row.referenced),
            given=self.live is not None,
            settled=bool(row.settled),
            live=live,
        )

    def _reference(self, row: Row[Any]) -> str:
        store_id = self.database.opened().store_id
        return str(Reference(store_id=store_id, scope_hash=row.scope_hash, key=row.key))


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


_DELETING = tuple(reason for reason in Reason if reason.deletes)


def _read_page(statement: Select[Any], after: int, size: int, connection: Connection) -> Sequence[Row[Any]]:
    page = statement.where(STATE.c.id > after).order_by(STATE.c.id).limit(size)
    return connection.execute(page).all()
