"""The database behind a backend: connections of this process, its tables, and calls that are made again.

Processes are forked, and two must not share a connection. So there is an engine for each process, made when it is
first needed, and the one that a child inherited is neither used nor closed in it: closing would say good-bye to the
server on the parent's behalf. SQLite does not even bear that a child inherits an open file, so that is closed before.
Threads of a process take turns on its one connection, which is kept from call to call: to take it out of a pool, to ask
whether it is alive, and to put it back would cost more than most calls do. It is given up when anything is raised in a
call; one that was lost in between is found out by the next call, which is then made again like any other.

A call that fails for a passing reason (a deadlock, a lock, a lost connection) is made again, its commit included,
until the patience is over. Any other error gets one of our names.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import RLock, local
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakSet

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, NoSuchModuleError, SQLAlchemyError
from tenacity import Retrying

from airflow_resume.backends.dialects import Dialect, Trouble, read_url
from airflow_resume.backends.event_loop import patience_here
from airflow_resume.backends.patience import PATIENCE_SECONDS, patiently
from airflow_resume.backends.schema import migrate, read_store_id
from airflow_resume.errors import (
    InvalidStoreUrlError,
    InvalidValueError,
    MissingDriverError,
    ReadOnlyStoreError,
    ResumeError,
    StoreFullError,
    StoreRefusedError,
    StoreUnavailableError,
)

if TYPE_CHECKING:
    from tenacity import RetryCallState

T = TypeVar("T")

log = logging.getLogger(__name__)

NOTABLE_WAIT = 2.0
"""So many seconds of waiting are worth a line in the log: whoever reads it wonders why the task stands still."""


def _wait(seconds: float) -> None:
    time.sleep(seconds)


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A database whose tables are as we need them."""

    engine: Engine
    store_id: str
    packet_limit: int | None


class RowExistsError(StoreRefusedError):
    """There is a row of the same identity already."""


class Database:
    """A database by its URL. Nothing is opened before it is needed."""

    def __init__(
        self, url: str | URL, *, patience: float = PATIENCE_SECONDS, sleep: Callable[[float], None] = _wait
    ) -> None:
        self.url, self.dialect = read_url(url)
        self._patience = patience
        self._sleep = sleep
        self._engines: dict[int, Engine] = {}
        self._connections: dict[int, Connection] = {}
        self._opened: dict[int, Opened] = {}
        self._turn = RLock()
        _databases.add(self)

    def alone(self, work: Callable[[Connection], T]) -> T:
        """What the statements give, each of them a transaction of its own.

        Raises:
            StoreUnavailableError: it failed for passing reasons for longer than the patience.
            RowExistsError: there is a row of the same identity already.
            BackendError, StoreRefusedError, InvalidValueError: it cannot succeed.
        """
        return self._persist(lambda: self._alone(self._open().engine, work))

    def transaction(self, work: Callable[[Connection], T]) -> T:
        """What several statements give, all of them or none. It raises as `alone` does."""
        return self._persist(lambda: self._together(self._open().engine, work))

    def as_it_is(self, work: Callable[[Connection], T]) -> T:
        """As `alone`, without making the tables or bringing them up to our version."""
        return self._persist(lambda: self._alone(self._engine(), work))

    def opened(self) -> Opened:
        """The database of this process, opened. It raises as `alone` does."""
        return self._persist(self._open)

    def opened_anew(self) -> Opened:
        """As `opened`, and what was known of the server is asked for again, on a new connection."""
        self.close()
        self._opened.pop(os.getpid(), None)
        return self.opened()

    def close(self) -> None:
        """Close the connection of this process. It may be used again afterwards."""
        with self._turn:
            self._give_up()
            engine = self._engines.get(os.getpid())
            if engine is not None:
                engine.dispose()

    def hold(self) -> bool:
        """Before a fork: wait for the end of a call in another thread, and let no other begin; whether that matters."""
        if not self.dialect.closes_before_fork(self.url):
            return False
        self._turn.acquire()
        self.close()
        return True

    def let_go(self) -> None:
        """After a fork, in the parent: let calls begin."""
        self._turn.release()

    def begin_anew(self) -> None:
        """After a fork, in the child: nobody has the turn, as the other threads are not here."""
        self._turn = RLock()

    def _open(self) -> Opened:
        found = self._opened.get(os.getpid())
        return self._opened.setdefault(os.getpid(), self._prepare(self._engine())) if found is None else found

    def _engine(self) -> Engine:
        """That of this process. No lock: one that is made twice by two threads has no connection yet."""
        found = self._engines.get(os.getpid())
        return self._engines.setdefault(os.getpid(), _make_engine(self.url, self.dialect)) if found is None else found

    def _prepare(self, engine: Engine) -> Opened:
        store_id = self._alone(engine, read_store_id)
        if store_id is None:
            self._alone(engine, self.dialect.prepare_database)
            store_id = self._together(engine, self._migrate)
        packet_limit = self._alone(engine, self.dialect.packet_limit)
        return Opened(engine=engine, store_id=store_id, packet_limit=packet_limit)

    def _alone(self, engine: Engine, work: Callable[[Connection], T]) -> T:
        with self._turn:
            connection = self._connections.get(os.getpid())
            if connection is None:
                connection = self._connections[os.getpid()] = engine.connect()
            try:
                return work(connection)
            except BaseException as error:  # who knows what is still on its way to us
                if self._is_read_only(error):
                    connection.invalidate()
                self._give_up()
                raise

    def _give_up(self) -> None:
        connection = self._connections.pop(os.getpid(), None)
        if connection is not None:
            connection.close()

    def _together(self, engine: Engine, work: Callable[[Connection], T]) -> T:
        """The transaction is begun and ended in words, as drivers differ in what their methods for it do."""

        def whole(connection: Connection) -> T:
            connection.exec_driver_sql(self.dialect.begin)
            try:
                done = work(connection)
                connection.exec_driver_sql("COMMIT")
            except BaseException:
                _roll_back(connection)
                raise
            return done

        return self._alone(engine, whole)

    def _migrate(self, connection: Connection) -> str:
        with self.dialect.schema_lock(connection):
            return migrate(connection)

    def _persist(self, call: Callable[[], T]) -> T:
        """Make the call, again while it fails for a passing reason, and name what went wrong."""
        try:
            return call()  # nearly always enough, and far cheaper than a Retrying
        except DBAPIError as error:
            if not self.dialect.is_passing(error) and not self._is_read_only(error):
                raise self._named(error) from error
        repeat = Retrying(
            sleep=self._sleep,
            before_sleep=self._say_that_it_waits,
            **patiently(self.dialect.is_passing, lambda: patience_here(self._patience)),
        )
        try:
            return repeat(call)
        except DBAPIError as error:
            raise self._named(error) from error

    def _say_that_it_waits(self, state: RetryCallState) -> None:
        """Once in a call."""
        error = state.outcome.exception() if state.outcome is not None else None
        if state.idle_for - state.upcoming_sleep < NOTABLE_WAIT <= state.idle_for and isinstance(error, DBAPIError):
            log.warning(
                "%s is away or busy, and is asked again for up to %g s: %s",
                self._where(),
                patience_here(self._patience),
                _reason(error),
            )

    def _is_read_only(self, error: BaseException) -> bool:
        """Then a new connection is tried once: one that was opened for reading stays so when that has changed."""
        return isinstance(error, DBAPIError) and self.dialect.trouble(error) is Trouble.READ_ONLY

    def _where(self) -> str:
        return self.url.render_as_string(hide_password=True)

    def _named(self, error: DBAPIError) -> Exception:
        where = self._where()
        if self.dialect.is_passing(error):
            return StoreUnavailableError(
                f"{where} could not be used for {patience_here(self._patience):g} s: {_reason(error)}"
            )
        kind, words, remedy = _NAMED[self.dialect.trouble(error)]
        return kind(words.format(where=where, reason=_reason(error)), remedy)


_NAMED: Mapping[Trouble, tuple[type[ResumeError], str, str | None]] = {
    Trouble.READ_ONLY: (ReadOnlyStoreError, "{where} can be read and not written: {reason}", None),
    Trouble.FULL: (StoreFullError, "{where} has no space left: {reason}", StoreFullError.remedy),
    Trouble.TOO_LARGE: (InvalidValueError, "{where} takes no value of this size: {reason}", None),
    Trouble.EXISTS: (RowExistsError, "{where} has such a row already: {reason}", None),
    Trouble.NOT_OPENED: (
        StoreRefusedError,
        "{where} refused the call: {reason}",
        "See whether its folder is there, and this user may write in it, also beside the file.",
    ),
    Trouble.OTHER: (StoreRefusedError, "{where} refused the call: {reason}", None),
}


def _reason(error: DBAPIError) -> object:
    """The driver's words, without the statement and its values."""
    return error.orig


def _roll_back(connection: Connection) -> None:
    try:
        connection.exec_driver_sql("ROLLBACK")
    except SQLAlchemyError:  # whatever state it is in: it is closed, and the transaction with it
        connection.invalidate()


def _make_engine(url: URL, dialect: Dialect) -> Engine:
    try:
        engine = create_engine(
            url,
            pool_size=1,
            max_overflow=0,
            pool_pre_ping=True,
            hide_parameters=True,  # in errors; state is nobody's business in a log
            **dialect.engine_options(url),
        )
    except ImportError as error:
        raise MissingDriverError(
            f"The driver {url.drivername!r} is not installed.",
            f"Install it: pip install 'airflow-resume[{dialect.extra}]'",
        ) from error
    except NoSuchModuleError as error:
        raise InvalidStoreUrlError(f"SQLAlchemy knows no driver {url.drivername!r}") from error
    event.listen(engine, "connect", lambda connection, _: dialect.stand_alone(connection))
    return engine


# --- forks ----------------------------------------------------------------------------------------------------

_databases: WeakSet[Database] = WeakSet()
_held = local()
"""The databases that the thread which forks has taken the turn on."""


def _before_fork() -> None:
    _held.databases = [database for database in list(_databases) if database.hold()]


def _after_fork_in_parent() -> None:
    for database in _held.databases:
        database.let_go()
    _held.databases = []


def _after_fork_in_child() -> None:
    for database in list(_databases):
        database.begin_anew()
    _held.databases = []


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
