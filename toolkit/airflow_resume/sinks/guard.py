"""The connection of a body, and the guard of its transactions: it notices who ends them.

Theory of operation. A transaction begins when the connection is asked for (or used, if the body has kept it), so that
nothing is locked while the loop fetches the next page. A body that ends the transaction by itself would separate its
rows from the position. SQLAlchemy tells us before it commits, and before it executes a statement, and then we refuse.
The driver's own connection tells us nothing, and there are many ways to get it: for that there is the guard, see
`databases`. It begins with a note, see `rows`. If the body commits, the note is in the table, also if the process dies
right after that, and no attempt goes on until a person has looked. If it rolls back and then commits, the note is gone:
for that see `commit_traces`.

A process that is forked in the body does nothing with the connection, see `forks`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, event
from sqlalchemy.exc import DBAPIError

from airflow_resume.errors import SinkError, SinkUnsafeError
from airflow_resume.shown import get_logger
from airflow_resume.sink_protocol import Claimant
from airflow_resume.sinks.commit_traces import TRACES
from airflow_resume.sinks.databases import Database
from airflow_resume.sinks.decide import Stamp
from airflow_resume.sinks.forks import ThisProcess, keep_in_forks
from airflow_resume.sinks.refusals import busy, ended_by_body, kept_without_position, rolled_back
from airflow_resume.sinks.rows import FoundRow, PositionRow, Unfinished

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import PoolProxiedConnection

log = get_logger(__name__)


class LentConnection(Connection):
    """The connection that a body gets. It tells when the body asks it for the driver's connection."""

    @property
    def connection(self) -> PoolProxiedConnection:
        """The driver's connection, as SQLAlchemy gives it."""
        tell: Callable[[], None] | None = vars(self).get("tell")
        if tell is not None:
            tell()
        return super().connection


class Guard:
    """The guard of the transactions of one connection, which only the owner of the guard may end.

    Args:
        connection: that is used for nothing else.
        row: of the position.
        database: of the connection.
        target: what it is called in messages.
        claimant: who has claimed the position.
        stamp: what the claim has left in the row.
        patience: how long to wait for a lock, in seconds.
    """

    def __init__(
        self,
        connection: Connection,
        row: PositionRow,
        database: Database,
        *,
        target: str,
        claimant: Claimant,
        stamp: Stamp,
        patience: float,
    ) -> None:
        self.connection, self.row, self.database, self.target = connection, row, database, target
        self.claimant, self._patience = claimant, patience
        self.stamp = stamp
        """What our last commit has left in the row. The note of the next transaction is named after it."""
        self.is_set = False
        """Whether the transaction has its note."""
        self._is_traced = False
        """Whether it was noted what the database says of commits."""
        self._begins = False
        """Whether SQLAlchemy begins a transaction, and is about to ask for the driver's connection itself."""
        self.transaction: int | None = None
        """The number of the transaction, where transactions have one."""
        self.is_eager = False
        """Whether the body may have kept the driver's connection, whose use nobody sees. Then each transaction begins,
        with its guard, as soon as the one before is committed."""
        self._traces = TRACES[connection.dialect.name]()
        self._process = ThisProcess()
        self._is_ours = False
        """Whether it is we who use the connection at the moment."""
        self._problem: str | None = None
        """Why the transaction cannot be committed any more; None if it can."""
        self._broken: SinkError | None = None
        """Why nothing more may be done before a roll back; None if it may."""
        self.check_use: Callable[[], None] | None = None
        """Raises an error if the body may not use the connection now."""
        keep_in_forks(connection)
        connection.__class__ = LentConnection
        vars(connection)["tell"] = self._lends_driver
        event.listen(connection, "begin", self._begun)
        event.listen(connection, "commit", self._about_to_commit)
        event.listen(connection, "rollback", self._about_to_roll_back)
        event.listen(connection, "before_cursor_execute", self._about_to_execute)

    # --- a transaction begins ---------------------------------------------------------------------------------

    def lend(self) -> Connection:
        """The connection, in a transaction with a guard.

        Raises:
            SinkBusyError: another transaction has locked the database.
            SinkUnsafeError: this is a fork of the process.
        """
        self._process.check(self.target)
        if self._broken is not None:
            raise self._broken
        self.begin()
        if not self.is_set:
            self._set()
        return self.connection

    def begin(self) -> None:
        """Begin the transaction, as SQLAlchemy sees it."""
        with self.ourselves():
            if not self.connection.in_transaction():
                self.connection.begin()

    def _set(self) -> None:
        """Begin the transaction in the database too, if it has not begun there, and set the guard."""
        with self.ourselves(), self._busy():
            self.database.begin(self.connection)
            self.database.set_savepoint(self.connection)
            self.transaction = self.row.note(self.connection, self.claimant, self.stamp)
            if self.is_eager:
                self._trace()
        self.is_set = True

    @contextmanager
    def _busy(self) -> Iterator[None]:
        """Name the error of a lock that was not given."""
        try:
            yield
        except DBAPIError as error:
            if self.database.was_locked(error):
                raise busy(self.row.identity, self.target) from error
            raise

    @contextmanager
    def ourselves(self) -> Iterator[None]:
        """A block in which it is we who use the connection."""
        before, self._is_ours = self._is_ours, True
        try:
            yield
        finally:
            self._is_ours = before

    # --- what the body does with it ---------------------------------------------------------------------------

    def _lends_driver(self) -> None:
        if self._is_ours:
            return
        if self._begins:
            self._begins = False
            return
        self._process.check(self.target)
        if self.check_use is not None:
            self.check_use()
        self.is_eager = True
        if self._problem is not None or self._broken is not None:
            return
        self.begin()
        if not self.is_set:
            self._set()
        self._trace()

    def _trace(self) -> None:
        """Note what the database says of commits, once in a transaction."""
        if not self._is_traced:
            self._is_traced = True
            with self.ourselves():
                self._traces.begin(self.connection, self.stamp.version)

    def _begun(self, _connection: Connection) -> None:
        self.is_set = self._is_traced = False
        self._begins = not self._is_ours

    def _about_to_commit(self, connection: Connection) -> None:
        self._process.check(self.target)
        if not self._is_ours:
            self._problem = "committed"
            # After an error here SQLAlchemy takes the transaction for ended, and would not roll it back any more.
            connection.dialect.do_rollback(connection.connection)
            raise ended_by_body("The body commits the transaction by itself.", self.target)

    def _about_to_roll_back(self, _connection: Connection) -> None:
        self._process.check(self.target)
        if not self._is_ours:
            self._problem = "rolled back"

    def _about_to_execute(self, _connection: Connection, _cursor: Any, statement: str, *_: Any) -> None:
        self._process.check(self.target)
        if self._is_ours:
            return
        if self.check_use is not None:
            self.check_use()
        if self._is_begun_by_engine(statement):
            return
        if self._broken is not None:
            raise self._broken
        if not self.is_set:
            self._set()
        elif self._has_ended():
            raise self.found_ended()
        if not self.database.goes_on_after(statement):
            self._trace()
        if (found := self.database.ends.match(statement)) is not None:
            what = " ".join(found["what"].upper().split())
            raise ended_by_body(f"The body executes {what}, which ends the transaction.", self.target)

    def _is_begun_by_engine(self, statement: str) -> bool:
        """Whether a listener of the engine begins the transaction, as recipes for SQLite do."""
        with self.ourselves():
            return not self.is_set and self.database.is_begin(self.connection, statement)

    def check(self) -> None:
        """Check that the transaction is still ours, as far as the body was seen.

        Raises:
            SinkUnsafeError: the body has ended it by itself, or this is a fork of the process.
            SinkError: it was rolled back.
        """
        self._process.check(self.target)
        if self._broken is not None:
            raise self._broken
        if self._problem is not None:
            raise ended_by_body(f"The body has {self._problem} the transaction by itself.", self.target)

    # --- a transaction that has ended -------------------------------------------------------------------------

    def _has_ended(self) -> bool:
        with self.ourselves():
            return self.database.has_ended(self.connection, self.transaction)

    def found_ended(self) -> SinkError:
        """The error for a transaction that has ended in the body, found before anything else is written."""
        may_be_kept = self.may_have_kept()
        self.drop_connection()
        self.is_set = False
        unfinished = self.read()[1]
        if unfinished is not None:
            self._broken = kept_without_position(self.row, unfinished, self.target)
        else:
            self._broken = self.left_note() if may_be_kept else rolled_back(self.row.identity, self.target)
        return self._broken

    def may_have_kept(self) -> bool:
        """Whether the body may have written something after it had rolled the transaction back, which was kept then.

        What SQLAlchemy executes is refused from then on. So that takes the connection of the driver, or a statement
        that does more than to insert, update, delete or select.
        """
        if not self.is_set or self.connection.invalidated:
            return False
        try:
            with self.ourselves():
                if self.is_eager and self.database.keeps_each(self.connection, self.transaction):
                    return True
                return self._is_traced and self._traces.shows_another(self.connection, self.stamp.version)
        except Exception as error:  # noqa: BLE001  the connection is lost, and so is what was not committed
            log.debug("%s: it is not known whether rows were kept: %r", self.target, error)
            return False

    def left_note(self) -> SinkUnsafeError:
        """Commit a note, so that no attempt goes on until a person has looked. Returns the error that says so."""
        with self.ourselves(), self.database.short_transaction(self.connection, self._patience):
            unfinished = self.row.unfinished(self.connection)
            if unfinished is None:
                self.row.note(self.connection, self.claimant, self.stamp)
                unfinished = self.row.unfinished(self.connection)
                self.connection.commit()
        assert unfinished is not None  # noqa: S101  it was written above
        return kept_without_position(self.row, unfinished, self.target, rolled_back=True)

    def read(self) -> tuple[FoundRow | None, Unfinished | None]:
        """The row and a note, read in a transaction of its own.

        Where rows can be locked, this waits for a commit that is still under way, whose reply was lost.
        """
        with self.ourselves(), self.database.short_transaction(self.connection, self._patience):
            found = self.row.read(self.connection, lock=True)
            return found, self.row.unfinished(self.connection)

    def drop_connection(self) -> None:
        """Have the database roll back, and use a new connection from now on.

        SQLAlchemy takes a transaction for ended when its commit has raised an error. In the database it may go on, and
        the row would be read as this transaction has written it.
        """
        with self.ourselves():
            self.connection.invalidate()
            self.connection.rollback()

    # --- a transaction is rolled back -------------------------------------------------------------------------

    def roll_back(self) -> None:
        """Roll back, also what was executed by a connection of the driver that the body has kept."""
        if self.connection.in_transaction():
            self.connection.rollback()
            return
        with suppress(Exception):  # some drivers refuse it if no transaction has begun
            self.connection.dialect.do_rollback(self.connection.connection)

    @property
    def is_of_parent(self) -> bool:
        """Whether this is a fork of the process, which may not end the transaction."""
        return self._process.is_another

    def close(self) -> None:
        """Give the connection back to its pool."""
        with self.ourselves():
            self.connection.close()
        self._traces.close()

    def undo(self) -> None:
        """Undo what the body did in the transaction, and forget what was wrong with it. Log it if rows are kept."""
        may_be_kept = self.may_have_kept()
        with self.ourselves():
            try:
                self.roll_back()
            except Exception as error:  # noqa: BLE001  without its connection, the database rolls back by itself
                log.debug("%s: the roll back failed: %r", self.target, error)
                self.drop_connection()
        self._problem = self._broken = None
        if self.is_set:
            self.is_set = False
            self._tell_unfinished(may_be_kept=may_be_kept)

    def _tell_unfinished(self, *, may_be_kept: bool) -> None:
        """Log it if rows of the transaction that was to be rolled back are kept. The next claim refuses it."""
        try:
            unfinished = self.read()[1]
            if unfinished is None and may_be_kept:
                self.drop_connection()  # it may commit each statement
                log.error("%s", self.left_note())
        except Exception as error:  # noqa: BLE001  the next claim looks again
            log.debug("%s: it is not known whether rows were kept: %r", self.target, error)
        else:
            if unfinished is not None:
                self.drop_connection()  # whatever the body has set in it
                log.error("%s", kept_without_position(self.row, unfinished, self.target))
