"""A claimed position in a SQL database, and the transactions that move it.

Theory of operation. The connection belongs to the loop from the claim until it is closed, and its user gets it. A
transaction begins when the connection is asked for (or used, if the body has kept it), so that nothing is locked while
the loop fetches the next page. The commit writes the position with a compare-and-set on the claim and the version. So
of two attempts only the one that claimed last commits, whoever is slow or frozen. If the commit raises an error, the
row tells whether it took place.

A body that ends the transaction by itself would separate its rows from the position. SQLAlchemy tells us before it
commits, and before it executes a statement, and then we refuse. The driver's own connection tells us nothing: for that
there is the guard, see `databases`. It begins with a note, see `rows`. If the body commits, the note is in the table,
also if the process dies right after that, and no attempt goes on until a person has looked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, NestedTransaction, event
from sqlalchemy.exc import DBAPIError

from airflow_resume.errors import ResumeError, SinkError, SinkUnsafeError, SupersededError
from airflow_resume.shown import get_logger
from airflow_resume.sink_protocol import Claimant
from airflow_resume.sinks.databases import Database
from airflow_resume.sinks.decide import (
    Committed,
    Stamp,
    decide_commit,
)
from airflow_resume.sinks.refusals import busy, kept_without_position
from airflow_resume.sinks.rows import FoundRow, PositionRow, Unfinished

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import JsonValue
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


class SqlPosition:
    """A position that this attempt has claimed. Made by `claim.Claim`.

    Args:
        connection: that is used for nothing else.
        row: of the position.
        database: of the connection.
        target: what it is called in messages.
        claimant: who has claimed it.
        found: the row as the claim left it.
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
        found: FoundRow,
        patience: float,
    ) -> None:
        self._connection, self._row, self._database, self._target = connection, row, database, target
        self._claimant, self._stamp, self.position = claimant, found.stamp, found.position
        self._patience = patience
        self._is_ours = False
        """Whether it is we who end the transaction at the moment."""
        self._has_guard = False
        self._transaction: int | None = None
        """Its number, where transactions have one."""
        self._problem: str | None = None
        """Why the transaction cannot be committed any more; None if it can."""
        self._broken: SinkError | None = None
        """Why nothing more may be done before a roll back; None if it may."""
        self._check_use: Callable[[], None] | None = None
        """Raises an error if the body may not use the connection now."""
        self._is_lost = False
        """Whether another attempt has claimed the position."""
        self._is_eager = False
        """Whether the body may have kept the driver's connection, whose use nobody sees. Then each transaction begins,
        with its guard, as soon as the one before is committed."""
        connection.__class__ = LentConnection
        vars(connection)["tell"] = self._lends_driver
        event.listen(connection, "begin", self._begun)
        event.listen(connection, "commit", self._about_to_commit)
        event.listen(connection, "rollback", self._about_to_roll_back)
        event.listen(connection, "before_cursor_execute", self._about_to_execute)

    # --- the body's transaction -------------------------------------------------------------------------------

    @property
    def connection(self) -> Connection:
        """The connection, in a transaction.

        Raises:
            SinkBusyError: another transaction has locked the database.
        """
        if self._broken is not None:
            raise self._broken
        self._begin()
        if not self._has_guard:
            self._set_guard()
        return self._connection

    @property
    def version(self) -> int:
        """How many commits the row has seen, as far as is known."""
        return self._stamp.version

    def _lends_driver(self) -> None:
        if not self._is_ours:
            self._is_eager = True

    def _begin(self) -> None:
        with self._ourselves():
            if not self._connection.in_transaction():
                self._connection.begin()

    def _begun(self, _connection: Connection) -> None:
        self._has_guard = False

    def _set_guard(self) -> None:
        """Begin the transaction in the database too, if it has not begun there, and set the guard."""
        with self._ourselves(), self._busy():
            self._database.begin(self._connection)
            self._database.set_savepoint(self._connection)
            self._transaction = self._row.note(self._connection, self._claimant, self._stamp)
        self._has_guard = True

    @contextmanager
    def _busy(self) -> Iterator[None]:
        """Name the error of a lock that was not given."""
        try:
            yield
        except DBAPIError as error:
            if self._database.was_locked(error):
                raise busy(self._row.identity, self._target) from error
            raise

    def _about_to_commit(self, connection: Connection) -> None:
        if not self._is_ours:
            self._problem = "committed"
            # After an error here SQLAlchemy takes the transaction for ended, and would not roll it back any more.
            connection.dialect.do_rollback(connection.connection)
            raise self._ended("The body commits the transaction by itself.")

    def _about_to_roll_back(self, _connection: Connection) -> None:
        if not self._is_ours:
            self._problem = "rolled back"

    def _about_to_execute(self, _c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if self._is_ours:
            return
        if self._check_use is not None:
            self._check_use()
        if self._is_begun_by_engine(statement):
            return
        if self._broken is not None:
            raise self._broken
        if not self._has_guard:
            self._set_guard()
        elif self._has_ended():
            raise self._found_ended()
        if (found := self._database.ends.match(statement)) is not None:
            raise self._ended(
                f"The body executes {' '.join(found['what'].upper().split())}, which ends the transaction."
            )

    def _is_begun_by_engine(self, statement: str) -> bool:
        """Whether a listener of the engine begins the transaction, as recipes for SQLite do."""
        return not self._has_guard and self._database.is_begin(self._connection, statement)

    def _has_ended(self) -> bool:
        with self._ourselves():
            return self._database.has_ended(self._connection, self._transaction)

    def _found_ended(self) -> SinkError:
        """The error for a transaction that has ended in the body, found before anything else is written."""
        may_be_kept = self._may_have_kept()
        self._drop_connection()
        self._has_guard = False
        unfinished = self._read()[1]
        if unfinished is not None:
            self._broken = kept_without_position(self._row, unfinished, self._target)
        else:
            self._broken = self._left_note() if may_be_kept else self._rolled_back()
        return self._broken

    def _may_have_kept(self) -> bool:
        """Whether the body may have written something after it had rolled the transaction back, which was kept then.

        What SQLAlchemy executes is refused from then on. So that takes the connection of the driver.
        """
        if not (self._has_guard and self._is_eager) or self._connection.invalidated:
            return False
        try:
            with self._ourselves():
                return self._database.keeps_each(self._connection, self._transaction)
        except Exception as error:  # noqa: BLE001  the connection is lost, and so is what was not committed
            log.debug("%s: it is not known whether rows were kept: %r", self._target, error)
            return False

    def _left_note(self) -> SinkUnsafeError:
        """Commit a note, so that no attempt goes on until a person has looked. Returns the error that says so."""
        with self._ourselves(), self._database.short_transaction(self._connection, self._patience):
            unfinished = self._row.unfinished(self._connection)
            if unfinished is None:
                self._row.note(self._connection, self._claimant, self._stamp)
                unfinished = self._row.unfinished(self._connection)
                self._connection.commit()
        assert unfinished is not None  # noqa: S101  it was written above
        return kept_without_position(self._row, unfinished, self._target, rolled_back=True)

    def _ended(self, what: str) -> SinkUnsafeError:
        return SinkUnsafeError(
            f"{what} The rows would be kept without the position.",
            "Leave the commit to the loop or the window, and use its `connection` for what belongs to it only. Make"
            " tables before, on another connection. For an Airflow hook, use airflow_resume.sinks.hook_on.",
            problem="ended",
            sink=self._target,
        )

    @contextmanager
    def _ourselves(self) -> Iterator[None]:
        before, self._is_ours = self._is_ours, True
        try:
            yield
        finally:
            self._is_ours = before

    # --- its end ----------------------------------------------------------------------------------------------

    def commit(self, position: JsonValue) -> None:
        """Commit what the body did, together with the position.

        Raises:
            SupersededError: another attempt has claimed the position. The transaction was rolled back.
            SinkUnsafeError: the body has ended the transaction by itself.
            SinkError: the transaction was rolled back by the database, or the row of the position is gone.
            SinkBusyError: another transaction has locked the database.
            DBAPIError: the database refused the commit, so nothing of it is kept.
        """
        if self._broken is not None:
            raise self._broken
        if self._problem is not None:
            raise self._ended(f"The body has {self._problem} the transaction by itself.")
        error: Exception | None = None
        with self._ourselves():
            try:
                if self._try_commit(position):
                    self._begin_eagerly()
                    return
            except Exception as failure:  # noqa: BLE001  raised again, unless the commit took place
                error = failure
            except BaseException:
                self._drop_connection()
                raise
            may_be_kept = error is None and self._may_have_kept()
            self._drop_connection()
            self._resolve(error, may_be_kept=may_be_kept)

    def _try_commit(self, position: JsonValue) -> bool:
        """Whether the rows and the position were committed; False if this transaction or this attempt may not."""
        self._begin()
        connection, has_note = self._connection, self._has_guard
        if has_note and not self._database.has_kept(connection):
            return False
        if not has_note:
            self._database.begin(connection)
        elif not self._row.forget(connection, self._stamp, self._transaction):
            return False
        if not self._row.advance(connection, self._stamp, position):
            return False
        connection.commit()
        self._moved()
        return True

    def _begin_eagerly(self) -> None:
        if not self._is_eager:
            return
        try:
            _ = self.connection
        except (DBAPIError, SinkError) as error:
            # The commit took place. The next use begins the transaction, on a new connection: on this one the body
            # could write without a guard.
            log.warning("%s: the next transaction did not begin yet: %r", self._target, error)
            self._drop_connection()

    def _drop_connection(self) -> None:
        """Have the database roll back, and use a new connection from now on.

        SQLAlchemy takes a transaction for ended when its commit has raised an error. In the database it may go on, and
        the row would be read as this transaction has written it.
        """
        self._connection.invalidate()
        self._connection.rollback()

    def _moved(self) -> None:
        self._stamp = Stamp(self._stamp.nonce, self._stamp.version + 1)

    def _resolve(self, error: Exception | None, *, may_be_kept: bool) -> None:
        """Ask the row what became of a commit.

        Args:
            error: of the commit; None if the transaction was not the one that was begun.
            may_be_kept: whether rows may be there that the body wrote in no transaction.

        Raises:
            As `commit`.
        """
        found, unfinished = self._read()
        if unfinished is not None:
            self._is_lost = True
            raise kept_without_position(self._row, unfinished, self._target) from error
        became = decide_commit(None if found is None else found.stamp, self._stamp)
        match became:
            case Committed.YES:
                how = "was interrupted" if error is None else f"raised {error!r}"
                log.warning("%s: a commit %s, and took place; its reply was lost", self._target, how)
                self._moved()
            case Committed.SUPERSEDED:
                self._is_lost = True
                raise SupersededError(key=self._row.identity) from error
            case Committed.GONE:
                raise SinkError(
                    f"The row of {self._row.identity} is gone from {self._target}, as after a restore. Nothing was"
                    " committed.",
                    "A retry continues where the sink stands.",
                    sink=self._target,
                ) from error
            case Committed.NO if may_be_kept:
                raise self._left_note() from error
            case Committed.NO:
                raise self._refused(error) from error

    def _refused(self, error: Exception | None) -> Exception:
        """The error for a commit that did not take place."""
        if isinstance(error, DBAPIError) and self._database.was_locked(error):
            return busy(self._row.identity, self._target)
        return error or self._rolled_back()

    def _rolled_back(self) -> SinkError:
        return SinkError(
            f"The transaction of {self._row.identity} in {self._target} was rolled back before its end, by the database"
            " (as after a deadlock) or by the body; or the body has changed the row of the position. Nothing of it was"
            " committed.",
            "A retry does it again, from the position on.",
            sink=self._target,
        )

    def _read(self) -> tuple[FoundRow | None, Unfinished | None]:
        """The row and a note, read in a transaction of its own.

        Where rows can be locked, this waits for a commit that is still under way, whose reply was lost.
        """
        with self._ourselves(), self._database.short_transaction(self._connection, self._patience):
            found = self._row.read(self._connection, lock=True)
            return found, self._row.unfinished(self._connection)

    def rollback(self) -> None:
        """Undo what the body did since the last commit."""
        may_be_kept = self._may_have_kept()
        with self._ourselves():
            try:
                self._roll_back()
            except Exception as error:  # noqa: BLE001  without its connection, the database rolls back by itself
                log.debug("%s: the roll back failed: %r", self._target, error)
                self._connection.invalidate()
                self._connection.rollback()
        self._problem = self._broken = None
        if self._has_guard:
            self._has_guard = False
            self._tell_unfinished(may_be_kept=may_be_kept)

    def _roll_back(self) -> None:
        """Roll back, also what was executed by a connection of the driver that the body has kept."""
        if self._connection.in_transaction():
            self._connection.rollback()
            return
        with suppress(Exception):  # some drivers refuse it if no transaction has begun
            self._connection.dialect.do_rollback(self._connection.connection)

    def _tell_unfinished(self, *, may_be_kept: bool) -> None:
        """Log it if rows of the transaction that was to be rolled back are kept. The next claim refuses it."""
        try:
            unfinished = self._read()[1]
            if unfinished is None and may_be_kept:
                self._drop_connection()  # it may commit each statement
                log.error("%s", self._left_note())
        except Exception as error:  # noqa: BLE001  the next claim looks again
            log.debug("%s: it is not known whether rows were kept: %r", self._target, error)
        else:
            if unfinished is not None:
                self._connection.invalidate()  # whatever the body has set in it
                self._connection.rollback()
                log.error("%s", kept_without_position(self._row, unfinished, self._target))

    def check_use(self, check: Callable[[], None]) -> None:
        """Call this before whatever the body executes, also with a connection that it has kept.

        Args:
            check: raises an error if that may not be.
        """
        self._check_use = check

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """A block whose work is undone if it raises an error.

        Raises:
            SinkUnsafeError: the database has no savepoints; or the block has committed.
            SinkError: the whole transaction was rolled back in the block, or the connection was lost.
        """
        if not self._database.has_savepoints:
            raise SinkUnsafeError(
                f"{self._target} has no savepoints, so the rows of a skipped element cannot be undone.",
                "Leave out skipping(), or check an element before anything is written.",
                problem="database",
                sink=self._target,
            )
        nested = self.connection.begin_nested()
        try:
            yield
        except BaseException as error:
            self._end_savepoint(nested, error)
            raise
        self._end_savepoint(nested, None)

    def _end_savepoint(self, nested: NestedTransaction, error: BaseException | None) -> None:
        """Roll back to the savepoint, or release it. If it is gone, so is the transaction.

        Args:
            nested: the savepoint.
            error: of the block; None if there was none.

        Raises:
            SinkUnsafeError, SinkError: as `savepoint`.
        """
        if isinstance(error, ResumeError) and not nested.is_active:
            return
        with self._ourselves():
            try:
                nested.commit() if error is None else nested.rollback()
            except DBAPIError as failure:
                cause: BaseException = error or failure
            else:
                if not self._connection.invalidated:
                    return
                cause = error or RuntimeError("the connection was lost")
            raise self._found_ended() from cause

    def close(self) -> None:
        """Undo what was not committed, give the claim back, and give the connection back to its pool."""
        if self._connection.closed:
            return
        try:
            if self._may_have_kept():
                self.rollback()
            with self._ourselves():
                self._roll_back()
                if not self._is_lost:
                    self._begin()
                    self._database.begin(self._connection)
                    if self._row.release(self._connection, self._stamp, self._claimant):
                        self._connection.commit()
        except Exception as error:  # noqa: BLE001  the claim is then taken over by the next attempt all the same
            log.debug("%s: the claim of %s was not given back: %r", self._target, self._row.identity, error)
        finally:
            with self._ourselves():
                self._connection.close()
