"""Deleting, batch by batch, the rows of a table for which a condition is true.

A query finds a batch in the order of the primary key, and a second statement deletes it by its ids. The delete has the
condition too. So a row stays if it was written between the two, and the condition is no longer true for it. Each batch
is a transaction of its own and locks only its own rows. So the memory, and the time that others wait, depend on the
batch and not on the size of the table. A sweep that was interrupted can simply be started again.

If a statement locks the whole database anyway, and no row is kept back, a batch whose rows lie together is deleted by
the range of its ids. Then the ids are not fetched, and the database reads the rows once instead of looking each one up.
Scattered batches are still deleted by id: a range delete would hold the lock while it reads the rows that stay.

A batch that fails is left out, its error is noted, and the sweep continues after it. If the query for the next batch
fails, the sweep ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from sqlalchemy import Table, delete, func, select
from sqlalchemy.engine import Connection, Row
from sqlalchemy.sql.expression import ColumnElement, Delete, Executable, Select

from airflow_resume.backends.database.database import Database
from airflow_resume.errors import ResumeError
from airflow_resume.shown import get_logger

log = get_logger(__name__)

MOST = 10_000
"""The most rows in one statement. On servers their ids are in its text, and databases limit the size of that."""

SCATTERED = 10
"""If the range has at least this many ids for each row to delete, the rows are deleted by their ids."""


@dataclass
class SweepResult:
    """How many rows were deleted, and what failed."""

    deleted: int = 0
    failures: list[str] = field(default_factory=list)
    """The error of each batch that was left out."""

    def note(self, error: ResumeError) -> None:
        """Note that a batch was left out because of this error."""
        log.warning("A batch of a cleanup was left out: %s", error)
        self.failures.append(str(error))


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """What to delete.

    Args:
        database: where.
        table: one with an `id`.
        condition: which rows to delete.
        columns: the columns that `keep` needs, besides the id.
        keep: which of these rows stay, for a reason that the database does not know.
        after: the sweep begins after this id.
    """

    database: Database
    table: Table
    condition: ColumnElement[bool]
    columns: Sequence[ColumnElement[Any]] = ()
    keep: Callable[[Row[Any]], bool] | None = None
    after: int = 0

    def run(self, batch: int) -> SweepResult:
        """Delete all these rows."""
        result, size = SweepResult(), min(batch, MOST)
        by_ranges = self.database.dialect.deletes_ranges and self.keep is None
        try:
            for delete_batch in self._ranges(size) if by_ranges else self._pages(size):
                try:
                    result.deleted += self.database.autocommit(delete_batch)
                except ResumeError as error:  # noqa: PERF203  a batch takes far longer
                    result.note(error)
        except ResumeError as error:
            result.note(error)
        return result

    def _pages(self, size: int) -> Iterator[Callable[[Connection], int]]:
        """A function for each batch. It deletes the rows by their ids, and returns how many it has deleted."""
        after = self.after
        while True:
            page = self.database.autocommit(partial(read_page, self._look, after, size))
            ids = [row.id for row in page if self.keep is None or not self.keep(row)]
            if ids:
                yield self._of_these(ids)
            if len(page) < size:
                return
            after = page[-1].id

    def _ranges(self, size: int) -> Iterator[Callable[[Connection], int]]:
        """As `_pages`, but a batch whose rows lie together is deleted by the range of its ids."""
        number, after = self.table.c.id, self.after
        while True:
            page = select(number).where(self.condition, number > after).order_by(number).limit(size).subquery()
            ends = select(func.max(page.c.id), func.min(page.c.id), func.count()).select_from(page)
            last, first, rows = self.database.autocommit(partial(_one_row, ends))
            if not rows:
                return
            if last - first < SCATTERED * rows:
                together = self._again.where(number >= first, number <= last)
                yield partial(_row_count, together)
            else:
                scattered = self.database.autocommit(partial(read_page, self._look, after, rows))
                yield self._of_these([row.id for row in scattered])
            after = last

    def _of_these(self, ids: Sequence[int]) -> Callable[[Connection], int]:
        return partial(self.database.dialect.delete_these, statement=self._again, ids=ids)

    @cached_property
    def _look(self) -> Select[Any]:
        return select(self.table.c.id, *self.columns).where(self.condition)

    @cached_property
    def _again(self) -> Delete:
        return delete(self.table).where(self.condition)


def _one_row(statement: Executable, connection: Connection) -> Any:
    return connection.execute(statement).one()


def _row_count(statement: Delete, connection: Connection) -> int:
    return connection.execute(statement).rowcount


def read_page(statement: Select[Any], after: int, size: int, connection: Connection) -> Sequence[Row[Any]]:
    """The next `size` rows of a statement, in the order of its first column, which is the id."""
    (number, *_) = statement.selected_columns
    return connection.execute(statement.where(number > after).order_by(number).limit(size)).all()
