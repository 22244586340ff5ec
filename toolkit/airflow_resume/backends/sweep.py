"""Deleting, batch by batch, the rows of a table of which a condition is true.

A batch is found by walking up the primary key, and deleted by its ids. The delete says the condition again: a row that
was written between the look and the delete, so that the condition is no longer true of it, stays. Each batch is a
transaction of its own and locks nothing but its rows. So memory and waiting of others are bounded by the batch however
large the table is, and a walk that was interrupted can simply be made again.

A batch that fails is left out, with its error, and the walk goes on behind it. Without an answer to a look there is no
behind; then it ends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from sqlalchemy import ColumnElement, Connection, Delete, Row, Select, Table, delete, select

from airflow_resume.backends.database import Database
from airflow_resume.errors import ResumeError

log = logging.getLogger(__name__)

MOST = 10_000
"""Rows in one statement: on servers their ids stand in its text, which databases bound."""


@dataclass
class Swept:
    """What came of it."""

    deleted: int = 0
    failures: list[str] = field(default_factory=list)
    """Of each batch that was left out, the error."""

    def note(self, error: ResumeError) -> None:
        """Leave out a batch."""
        log.warning("A batch of a cleanup was left out: %s", error)
        self.failures.append(str(error))


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """What to delete.

    Args:
        database: where.
        table: one with an `id`.
        doomed: what is true of a row that goes.
        columns: what `spared` needs to see of a row, beside its id.
        spared: which of them stay all the same, for a reason that the database does not know.
        after: no id up to this one needs to be looked at.
    """

    database: Database
    table: Table
    doomed: ColumnElement[bool]
    columns: Sequence[ColumnElement[Any]] = ()
    spared: Callable[[Row[Any]], bool] | None = None
    after: int = 0

    def run(self, batch: int) -> Swept:
        """Delete all of them."""
        swept = Swept()
        try:
            for page in self._pages(min(batch, MOST)):
                self._delete(page, swept)
        except ResumeError as error:
            swept.note(error)
        return swept

    def _pages(self, size: int) -> Iterator[Sequence[Row[Any]]]:
        after = self.after
        while True:
            page = self.database.alone(partial(read_page, self._look, after, size))
            if page:
                yield page
            if len(page) < size:
                return
            after = page[-1].id

    def _delete(self, page: Sequence[Row[Any]], swept: Swept) -> None:
        ids = [row.id for row in page if self.spared is None or not self.spared(row)]
        if not ids:
            return
        try:
            swept.deleted += self.database.alone(lambda c: self.database.dialect.delete_these(c, self._again, ids))
        except ResumeError as error:
            swept.note(error)

    @cached_property
    def _look(self) -> Select[Any]:
        return select(self.table.c.id, *self.columns).where(self.doomed)

    @cached_property
    def _again(self) -> Delete:
        return delete(self.table).where(self.doomed)


def read_page(statement: Select[Any], after: int, size: int, connection: Connection) -> Sequence[Row[Any]]:
    """What a statement gives, in the order of its first column, which is the id, so many rows behind another."""
    (number, *_) = statement.selected_columns
    return connection.execute(statement.where(number > after).order_by(number).limit(size)).all()
