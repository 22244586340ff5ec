"""A claimed position in a SQL database, and the transactions that move it.

Theory of operation. The connection belongs to the loop from the claim until it is closed, and its user gets it, see
`guard`. The commit writes the position with a compare-and-set on the claim and the version. So of two attempts only the
one that claimed last commits, whoever is slow or frozen. If the commit raises an error, the row tells whether it took
place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlalchemy import Connection, NestedTransaction
from sqlalchemy.exc import DBAPIError

from airflow_resume.errors import ResumeError, SinkError, SinkUnsafeError, SupersededError
from airflow_resume.shown import get_logger
from airflow_resume.sinks.decide import Committed, Stamp, decide_commit
from airflow_resume.sinks.guard import Guard
from airflow_resume.sinks.refusals import busy, kept_without_position, rolled_back

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import JsonValue

log = get_logger(__name__)


class SqlPosition:
    """A position that this attempt has claimed. Made by `claim.Claim`.

    Args:
        guard: of the transactions of the connection.
        position: as the claim has found it; None if there is none.
    """

    def __init__(self, guard: Guard, position: JsonValue) -> None:
        self._guard, self.position = guard, position
        self._connection, self._row, self._database = guard.connection, guard.row, guard.database
        self._target = guard.target
        self._is_lost = False
        """Whether another attempt has claimed the position."""

    @property
    def connection(self) -> Connection:
        """The connection, in a transaction.

        Raises:
            SinkBusyError: another transaction has locked the database.
        """
        return self._guard.lend()

    @property
    def version(self) -> int:
        """How many commits the row has seen, as far as is known."""
        return self._guard.stamp.version

    def check_use(self, check: Callable[[], None]) -> None:
        """Call this before whatever the body executes, also with a connection that it has kept.

        Args:
            check: raises an error if that may not be.
        """
        self._guard.check_use = check

    # --- the end of a transaction -----------------------------------------------------------------------------

    def commit(self, position: JsonValue) -> None:
        """Commit what the body did, together with the position.

        Raises:
            SupersededError: another attempt has claimed the position. The transaction was rolled back.
            SinkUnsafeError: the body has ended the transaction by itself.
            SinkError: the transaction was rolled back by the database, or the row of the position is gone.
            SinkBusyError: another transaction has locked the database.
            DBAPIError: the database refused the commit, so nothing of it is kept.
        """
        self._guard.check()
        error: Exception | None = None
        with self._guard.ourselves():
            try:
                if self._try_commit(position):
                    self._begin_eagerly()
                    return
            except Exception as failure:  # noqa: BLE001  raised again, unless the commit took place
                error = failure
            except BaseException:
                self._guard.drop_connection()
                raise
            may_be_kept = error is None and self._guard.may_have_kept()
            self._guard.drop_connection()
            self._resolve(error, may_be_kept=may_be_kept)

    def _try_commit(self, position: JsonValue) -> bool:
        """Whether the rows and the position were committed; False if this transaction or this attempt may not."""
        guard = self._guard
        guard.begin()
        connection, has_note = self._connection, guard.is_set
        if has_note and not self._database.has_kept(connection):
            return False
        if not has_note:
            self._database.begin(connection)
        elif not self._row.forget(connection, guard.stamp, guard.transaction):
            return False
        if not self._row.advance(connection, guard.stamp, position):
            return False
        connection.commit()
        self._moved()
        return True

    def _begin_eagerly(self) -> None:
        if not self._guard.is_eager:
            return
        try:
            self._guard.lend()
        except (DBAPIError, SinkError) as error:
            # The commit took place. The next use begins the transaction, on a new connection: on this one the body
            # could write without a guard.
            log.warning("%s: the next transaction did not begin yet: %r", self._target, error)
            self._guard.drop_connection()

    def _moved(self) -> None:
        self._guard.stamp = Stamp(self._guard.stamp.nonce, self._guard.stamp.version + 1)

    def _resolve(self, error: Exception | None, *, may_be_kept: bool) -> None:
        """Ask the row what became of a commit.

        Args:
            error: of the commit; None if the transaction was not the one that was begun.
            may_be_kept: whether rows may be there that the body wrote in no transaction.

        Raises:
            As `commit`.
        """
        found, unfinished = self._guard.read()
        if unfinished is not None:
            self._is_lost = True
            raise kept_without_position(self._row, unfinished, self._target) from error
        became = decide_commit(None if found is None else found.stamp, self._guard.stamp)
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
                raise self._guard.left_note() from error
            case Committed.NO:
                raise self._refused(error) from error

    def _refused(self, error: Exception | None) -> Exception:
        """The error for a commit that did not take place."""
        if isinstance(error, DBAPIError) and self._database.was_locked(error):
            return busy(self._row.identity, self._target)
        return error or rolled_back(self._row.identity, self._target)

    def rollback(self) -> None:
        """Undo what the body did since the last commit. A fork of the process undoes nothing."""
        if not self._guard.is_of_parent:
            self._guard.undo()

    # --- a part of a transaction ------------------------------------------------------------------------------

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
        if self._guard.is_of_parent or (isinstance(error, ResumeError) and not nested.is_active):
            return
        with self._guard.ourselves():
            try:
                nested.commit() if error is None else nested.rollback()
            except DBAPIError as failure:
                cause: BaseException = error or failure
            else:
                if not self._connection.invalidated:
                    return
                cause = error or RuntimeError("the connection was lost")
            raise self._guard.found_ended() from cause

    # --- its end ----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Undo what was not committed, give the claim back, and give the connection back to its pool.

        A fork of the process does nothing.
        """
        if self._guard.is_of_parent or self._connection.closed:
            return
        try:
            if self._guard.may_have_kept():
                self.rollback()
            with self._guard.ourselves():
                self._guard.roll_back()
                if not self._is_lost:
                    self._give_back()
        except Exception as error:  # noqa: BLE001  the claim is then taken over by the next attempt all the same
            log.debug("%s: the claim of %s was not given back: %r", self._target, self._row.identity, error)
        finally:
            self._guard.close()

    def _give_back(self) -> None:
        self._guard.begin()
        self._database.begin(self._connection)
        if self._row.release(self._connection, self._guard.stamp, self._guard.claimant):
            self._connection.commit()
