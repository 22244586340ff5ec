"""The connection of the running process to its database.

Processes are forked, and two must not share a connection. So there is an engine for each process, made when it is first
needed, and the one that a child inherited is neither used nor closed in it: closing it would end the parent's session.
SQLite does not allow a child to inherit an open file at all, so the file is closed before a fork.

The threads of a process take turns on its one connection, which is kept from call to call: taking it out of a pool,
checking that it is alive, and putting it back would cost more than most calls do. It is given up when a call raises
anything. If it was lost in between, the next call notices that, and is repeated like any other call.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from threading import RLock, get_ident, local
from typing import TypeVar
from weakref import WeakSet

from sqlalchemy import create_engine, event
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.exc import DBAPIError, NoSuchModuleError

from airflow_resume.backends.database.timed_connection import TimedConnection, connect
from airflow_resume.backends.dialects.base import Dialect, ServerSession, Trouble
from airflow_resume.backends.schema.migrations import RowMissingError
from airflow_resume.backends.span import OverdueError, Span
from airflow_resume.backends.urls.driver_errors import reason
from airflow_resume.backends.urls.driver_logs import LOGGING_NAME, hide_values
from airflow_resume.backends.urls.shown import shown_url
from airflow_resume.errors import MissingDriverError, StoreRefusedError

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class OpenDatabase:
    """A database whose tables this process has checked."""

    engine: Engine
    packet_limit: int | None


class ProcessConnection:
    """The connection of the running process, and what this process knows of the database.

    Everything except the turn is kept by process id. What a child inherits from its parent is not used, but stays
    referenced, because it would be closed otherwise.

    Args:
        url: where the database is.
        dialect: its kind.
        erases: whether a value in a file is overwritten with zeros when it is deleted or replaced.
    """

    def __init__(self, url: URL, dialect: Dialect, *, erases: bool) -> None:
        self._url = url
        self._dialect = dialect
        self._erases = erases
        self._engines: dict[int, Engine] = {}
        self._idle: dict[int, TimedConnection] = {}
        self._left_behind: dict[int, set[ServerSession]] = {}
        self._opened: dict[int, OpenDatabase] = {}
        self._pid = os.getpid()
        self._turn = RLock()
        self._in_turn: int | None = None
        _connections.add(self)

    @property
    def opened(self) -> OpenDatabase | None:
        """The database, if this process has opened it."""
        return self._opened.get(self._pid)

    def set_opened(self, packet_limit: int | None) -> OpenDatabase:
        """Note that the tables were checked. If two threads do so, the first one counts."""
        return self._opened.setdefault(self._pid, OpenDatabase(engine=self.engine(), packet_limit=packet_limit))

    def forget_opened(self) -> None:
        """Have the next call open the database, as in a new process."""
        self._opened.pop(self._pid, None)

    def engine(self) -> Engine:
        """The engine of this process. No lock is needed: if two threads make one each, neither has a connection yet."""
        found = self._engines.get(self._pid)
        return self._engines.setdefault(self._pid, self._make_engine()) if found is None else found

    def _make_engine(self) -> Engine:
        url, dialect = self._url, self._dialect
        try:
            engine = create_engine(
                url,
                future=True,  # SQLAlchemy 1.4 then behaves as 2.0, which needs no such option
                hide_parameters=True,  # in errors; a log must not show state
                logging_name=LOGGING_NAME,
                pool_logging_name=LOGGING_NAME,
                **dialect.engine_options(url),
            )
        except (ImportError, NoSuchModuleError) as error:
            raise MissingDriverError(
                f"The driver {url.drivername!r} is not installed.",
                f"Install it: pip install 'airflow-resume[{dialect.extra}]'",
                extra=dialect.extra,
            ) from error
        hide_values(url, engine)
        event.listen(engine, "connect", lambda connection, _: dialect.autocommit(connection))
        if self._erases:
            event.listen(engine, "connect", lambda connection, _: dialect.erase(connection))
        return engine

    # --- calls ------------------------------------------------------------------------------------------------

    def autocommit(self, work: Callable[[Connection], T], span: Span, *, only_reads: bool = False) -> T:
        """The result of the work. Each of its statements is a transaction of its own.

        An exception that a signal handler raises may come after any call of a function in here. So the turn is given
        back before any other call is made, and the next call cannot find a connection that is in use. If a signal
        handler makes a call in the middle of another call of the same thread, it has the turn already, and gets a
        connection of its own.
        """
        turn, me = self._turn, get_ident()
        nested = self._in_turn == me
        try:
            # Nearly always nobody has the turn. Then taking it without a time limit is faster.
            if not nested and not turn.acquire(blocking=False) and not turn.acquire(timeout=span.left()):
                raise OverdueError("Other threads of this process were using it all the time")
            self._in_turn = me
            return self._call(work, span, only_reads=only_reads)
        finally:
            if not nested:
                if self._in_turn == me:
                    self._in_turn = None
                try:  # noqa: SIM105  a signal handler may raise in whatever is called before this
                    turn.release()
                except RuntimeError:  # it was never taken
                    pass

    def _call(self, work: Callable[[Connection], T], span: Span, *, only_reads: bool) -> T:
        connection = self._idle.pop(self._pid, None)
        if connection is None:
            connection = self._connect(span)
        elif connection.file_is_elsewhere(only_reads=only_reads):
            connection.drop()
            self.forget_opened()
            raise StoreRefusedError(
                f"{shown_url(self._url)} is not the file that was opened: it was removed or replaced since.",
                "The next call, as in a retry, uses the file that is there now.",
                where=shown_url(self._url),
            )
        try:
            done = connection.call(work, span)
        except BaseException as error:
            if self.is_row_there(error):
                self._keep(connection)
            else:  # it is not known what is still on its way to or from the server
                if connection.session is not None:
                    self._left_behind.setdefault(self._pid, set()).add(connection.session)
                connection.drop()
            if isinstance(error, RowMissingError):  # the next try makes it, as a new process does
                self.forget_opened()
            raise
        self._keep(connection)
        return done

    def _connect(self, span: Span) -> TimedConnection:
        """Connect. Drivers also raise errors that are no database errors, but of a host, a file or a number."""
        engine, left_behind = self.engine(), self._left_behind.setdefault(self._pid, set())
        self._dialect.make_private_file(self._url)
        try:
            return connect(engine, self._dialect, span, left_behind)
        except (ArithmeticError, LookupError, OSError, TypeError, ValueError) as error:
            why = reason(error, self._url)
            words = "" if isinstance(error, UnicodeError) else f": {why}"  # it quotes the password
            raise StoreRefusedError(
                f"{shown_url(self._url)} cannot be connected to, as the driver raised {type(error).__name__}{words}.",
                "See whether the URL is right, and the files that it names are there.",
                where=shown_url(self._url),
            ) from None

    def _keep(self, connection: TimedConnection) -> None:
        if self._idle.setdefault(self._pid, connection) is not connection:
            connection.drop()

    def transaction(self, work: Callable[[Connection], T], span: Span) -> T:
        """The result of the work. All of its statements have an effect, or none.

        BEGIN and COMMIT are sent as SQL, as drivers differ in what their methods for them do.
        """

        def whole(connection: Connection) -> T:
            connection.exec_driver_sql(self._dialect.begin)
            try:
                done = work(connection)
            except DBAPIError as error:
                if self.is_row_there(error):
                    connection.exec_driver_sql("ROLLBACK")
                raise  # after other errors the connection is dropped, and the transaction with it
            connection.exec_driver_sql("COMMIT")
            return done

        return self.autocommit(whole, span)

    def is_row_there(self, error: BaseException) -> bool:
        """Whether the error says only that the row exists. After such an error the connection can still be used."""
        return isinstance(error, DBAPIError) and self._dialect.trouble(error) is Trouble.EXISTS

    def close(self) -> None:
        """Close the connection of this process. It may be used again afterwards."""
        with self._turn:
            connection = self._idle.pop(self._pid, None)
            if connection is not None:
                connection.close()
            engine = self._engines.get(self._pid)
            if engine is not None:
                engine.dispose()
            self.forget_opened()  # in memory everything is gone; elsewhere others may have made it anew

    # --- forks ------------------------------------------------------------------------------------------------

    def before_fork(self) -> bool:
        """Wait until the calls of other threads have ended, and let none begin, if the database needs that.

        Returns whether it does.
        """
        if not self._dialect.closes_before_fork(self._url):
            return False
        self._turn.acquire()
        self.close()
        return True

    def after_fork_in_parent(self) -> None:
        """Let calls begin again, where `before_fork` stopped them."""
        self._turn.release()

    def after_fork_in_child(self) -> None:
        """Make the turn free, because the other threads do not exist in the child."""
        self._pid = os.getpid()
        self._turn = RLock()
        self._in_turn = None


_connections: WeakSet[ProcessConnection] = WeakSet()
_stopped = local()
"""The connections whose calls the thread that forks has stopped."""


def _before_fork() -> None:
    _stopped.connections = [each for each in list(_connections) if each.before_fork()]


def _after_fork_in_parent() -> None:
    for each in _stopped.connections:
        each.after_fork_in_parent()
    _stopped.connections = []


def _after_fork_in_child() -> None:
    for each in list(_connections):
        each.after_fork_in_child()
    _stopped.connections = []


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
