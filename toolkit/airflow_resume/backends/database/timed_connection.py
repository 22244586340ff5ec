"""A connection whose calls each have a time limit.

A call that is given up may still be on its way to the server, may be in the buffer of a proxy, or may wait for a lock
on the server. If it were executed later, it would overwrite newer values that were acknowledged. So its session is
ended before the next connection is used. That needs the number of the session, which a pooler does not tell. So through
a pooler, a call that is given up is only cancelled.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from time import monotonic, sleep
from typing import TypeVar

from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from airflow_resume.backends.database.watchdog import TimedCall, abort, watchdog, within
from airflow_resume.backends.dialects.base import BUSY_SECONDS, Dialect, ServerSession
from airflow_resume.backends.span import OverdueError, PassingError, Span, span_of
from airflow_resume.shown import get_logger

T = TypeVar("T")

log = get_logger(__name__)

CLOSING_SECONDS = 1.0
"""How long to wait for the server when a connection is closed."""

ENDING_SECONDS = 0.02
"""How often to check whether a session has ended."""
FILE_CHECK_SECONDS = 0.1
"""For how long values may still be read from a file that was removed or replaced."""


class TimedConnection:
    """A connection whose calls have a time limit. One thread at a time uses it. After any error it is dropped."""

    def __init__(self, connection: Connection, dialect: Dialect) -> None:
        self._connection = connection
        self._dialect = dialect
        self._is_new = True
        self._waits: float = BUSY_SECONDS
        self._driver = connection.connection.driver_connection
        self._abort = partial(abort, partial(dialect.socket_number, self._driver))
        self.session: ServerSession | None = None
        """The server's session; None if a pooler hides it."""
        self._path = dialect.path_of(self._driver)
        self._file = None if self._path is None else _identity_of(self._path)
        self._next_look = 0.0

    def file_is_elsewhere(self, *, only_reads: bool) -> bool:
        """Whether the path now leads to another file or to no file. Then nobody would find what is written here.

        This is checked before each write. It is not checked before each read, because it takes as long as the read.
        """
        if self._file is None or self._path is None:
            return False
        now = monotonic()
        if only_reads and now < self._next_look:
            return False
        self._next_look = now + FILE_CHECK_SECONDS
        return _identity_of(self._path) != self._file

    def call(self, work: Callable[[Connection], T], span: Span) -> T:
        """The result of the work.

        Raises:
            OverdueError: the work was ended, because its time was over.
        """
        if not self._dialect.is_server:
            left = span.end - monotonic()
            waits: float = BUSY_SECONDS if left >= BUSY_SECONDS else max(0.0, left)
            if waits != self._waits:
                self._dialect.limit_wait(self._driver, waits)
                self._waits = waits
            return work(self._connection)
        began = monotonic()
        ends = span.end if self._is_new or began >= span.half else span.half
        self._is_new = False
        call = TimedCall(self._abort, self._cancel, ends)
        watchdog.add(call)
        try:
            return work(self._connection)
        except Exception as error:
            if call.is_overdue:
                raise OverdueError(f"No answer came within {monotonic() - began:.3g} s") from error
            raise
        finally:
            watchdog.remove(call)

    def _cancel(self, seconds: float) -> None:
        """Ask the server to end the call. This runs in a thread of its own, and may wait for a connection."""
        try:
            if self._dialect.cancel(self._driver, seconds):
                return
        except Exception as error:  # noqa: BLE001  as where the connection was closed in the meantime
            log.debug("A statement could not be cancelled: %s", error)
        if self.session is None:
            return
        with self._connection.engine.connect() as connection:
            self._dialect.end_session(connection, self.session)

    def close(self) -> None:
        """Close the connection while no call is on its way. It is not an error if the server does not answer."""
        if self._dialect.is_server:
            try:
                self.call(lambda connection: connection.rollback(), span_of(CLOSING_SECONDS))
            except (DBAPIError, PassingError) as error:
                log.debug("A connection was lost before it was closed: %s", type(error).__name__)
                self.drop()
                return
        with watchdog.closing:
            self._connection.close()

    def drop(self) -> None:
        """Close the connection without telling the server, as a call may still be on its way."""
        with watchdog.closing:
            if self._dialect.is_server:
                self._abort()
            if not isinstance(self._connection.engine.pool, StaticPool):  # closing it would lose a database in memory
                self._connection.invalidate()
            self._connection.close()


def _identity_of(path: str) -> tuple[int, int] | None:
    """The device and the inode of a file; None if there is no file."""
    try:
        found = os.stat(path)  # noqa: PTH116  a Path would cost more than this, and it comes with every call
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def connect(engine: Engine, dialect: Dialect, span: Span, left_behind: set[ServerSession]) -> TimedConnection:
    """A new connection. The sessions of calls that were given up are ended first, and taken out of the set.

    Raises:
        OverdueError: there was no connection in time.
        DBAPIError: no connection can be opened.
    """
    if not dialect.is_server:
        return TimedConnection(engine.connect(), dialect)
    made = within(
        span.left(),
        lambda: TimedConnection(engine.connect(), dialect),
        TimedConnection.drop,
        "No connection could be made",
    )
    try:
        made.session = made.call(dialect.session, span)
        for session in tuple(left_behind - {made.session}):
            made.call(partial(_end_session, dialect, session, span), span)
            left_behind.discard(session)
    except BaseException:
        made.drop()
        raise
    return made


def _end_session(dialect: Dialect, session: ServerSession, span: Span, connection: Connection) -> None:
    """End a session, because a statement of a given-up call must not be executed after later statements.

    Raises:
        OverdueError: the session has not ended in time.
    """
    while dialect.end_session(connection, session):
        if span.is_over():
            raise OverdueError("The server did not end an earlier session of this process")
        sleep(ENDING_SECONDS)
