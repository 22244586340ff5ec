"""What differs between SQLite, PostgreSQL and MySQL or MariaDB; the rest of the backend knows none of them by name."""

from __future__ import annotations

import json
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any, ClassVar

from sqlalchemy import URL, Connection, Delete, Executable, Table, func, select, text
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from airflow_resume.errors import InvalidStoreUrlError, StoreUnavailableError

CONNECT_SECONDS = 10
"""How long to wait for a server to answer at first."""
BUSY_SECONDS = 5
"""How long SQLite waits for another writer before it is asked again."""

_LOCK = 0x61_69_72_66
"""The number of the advisory lock on PostgreSQL."""
_LOCK_SECONDS = 60


def byte_size(value: str) -> int:
    """The bytes of a text.

    Raises:
        UnicodeEncodeError: it has half a surrogate pair in it.
    """
    return len(value) if value.isascii() else len(value.encode())


class Trouble(Enum):
    """What an error of a database means for a call."""

    PASSING = "passing"
    """Made again, the same call may succeed."""
    READ_ONLY = "read only"
    FULL = "full"
    TOO_LARGE = "too large"
    NOT_OPENED = "not opened"
    """A file, or one beside it, cannot be opened or made."""
    EXISTS = "exists"
    """There is a row of the same identity already."""
    OTHER = "other"


class Dialect(ABC):
    """One kind of database."""

    names: ClassVar[tuple[str, ...]]
    driver: ClassVar[str]
    """Used where the URL names none."""
    extra: ClassVar[str]
    """Of this distribution: what to install for the driver."""

    product: ClassVar[str]
    ask_version: ClassVar[str]
    ask_time: ClassVar[str | None] = None
    """Gives the server's clock, in seconds since 1970. A file has none."""

    begin: ClassVar[str] = "BEGIN"
    """Begins a transaction in which something may be read and then written."""

    @abstractmethod
    def stand_alone(self, connection: Any) -> None:
        """Have every statement of a driver's connection be a transaction of its own, unless one was begun."""

    def closes_before_fork(self, url: URL) -> bool:  # noqa: ARG002  of others it matters
        """Whether no connection may be open while the process is forked."""
        return False

    def engine_options(self, url: URL) -> Mapping[str, Any]:  # noqa: ARG002  of others it matters
        """What `create_engine` is told besides."""
        return {"connect_args": {"connect_timeout": CONNECT_SECONDS}}

    def prepare_database(self, connection: Connection) -> None:  # noqa: B027  most need nothing
        """Set what is kept in the database itself, before the tables are made."""

    @contextmanager
    def schema_lock(self, connection: Connection) -> Iterator[None]:  # noqa: ARG002  of others it matters
        """Let nobody else change the tables. The connection is in a transaction: on SQLite that is enough."""
        yield

    @abstractmethod
    def upsert(self, table: Table, identity: list[str], changed: list[str]) -> Executable:
        """Insert a row, or change that of the same identity to the values that were to be inserted."""

    @abstractmethod
    def trouble(self, error: DBAPIError) -> Trouble:
        """What the error means, by its code."""

    def is_passing(self, error: BaseException) -> bool:
        """Whether the same call may succeed when it is made again."""
        return isinstance(error, DBAPIError) and (
            error.connection_invalidated or self.trouble(error) is Trouble.PASSING
        )

    def packet_limit(self, connection: Connection) -> int | None:  # noqa: ARG002  of others it matters
        """The largest statement that the server takes, in bytes."""
        return None

    def delete_these(self, connection: Connection, statement: Delete, ids: Sequence[int]) -> int:
        """Delete the rows with these ids that the statement is about; how many there were.

        The ids are words of the statement: there may be more of them than a driver takes as parameters. It never comes
        again, so it goes past SQLAlchemy's cache of statements.
        """
        these = statement.where(text(f"id IN ({','.join(map(str, ids))})"))
        words = str(these.compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True}))
        return connection.exec_driver_sql(words).rowcount

    def weight(self, value: str) -> int:
        """The bytes that a value has in a statement."""
        return byte_size(value)


class Sqlite(Dialect):
    """A file, or memory of this process.

    Whoever writes after a read begins with the lock for it: SQLite refuses at once to get it in the middle.
    """

    names = ("sqlite",)
    driver = "sqlite+pysqlite"
    extra = "sql"
    product = "SQLite"
    ask_version = "SELECT sqlite_version()"
    begin = "BEGIN IMMEDIATE"

    def stand_alone(self, connection: Any) -> None:
        connection.isolation_level = None
        # What was acknowledged survives a loss of power too; the default may lose the last of it in WAL mode.
        connection.execute("PRAGMA synchronous = FULL")

    def closes_before_fork(self, url: URL) -> bool:
        """A file's locks are not inherited, but a child believes that it has them, and writes into a deleted log."""
        in_memory = not url.database or ":memory:" in url.database or url.query.get("mode") == "memory"
        return not in_memory

    def engine_options(self, url: URL) -> Mapping[str, Any]:  # noqa: ARG002  all are alike
        from sqlalchemy.pool import QueuePool

        # In memory, too, threads share the one connection, each in its turn: it has all that there is.
        return {"poolclass": QueuePool, "connect_args": {"timeout": BUSY_SECONDS, "check_same_thread": False}}

    def prepare_database(self, connection: Connection) -> None:
        """Readers do not wait for a writer."""
        if connection.exec_driver_sql("PRAGMA journal_mode").scalar() not in {"wal", "memory"}:
            connection.exec_driver_sql("PRAGMA journal_mode = WAL")

    def delete_these(self, connection: Connection, statement: Delete, ids: Sequence[int]) -> int:
        """The ids are one parameter: its driver keeps the last 128 statements, however long each may be."""
        listed = func.json_each(json.dumps(ids)).table_valued("value")
        return connection.execute(statement.where(statement.table.c.id.in_(select(listed.c.value)))).rowcount

    def upsert(self, table: Table, identity: list[str], changed: list[str]) -> Executable:
        statement = sqlite.insert(table)
        return statement.on_conflict_do_update(
            index_elements=identity, set_={name: statement.excluded[name] for name in changed}
        )

    def trouble(self, error: DBAPIError) -> Trouble:
        code = _sqlite_code(error.orig)
        return _SQLITE.get(code, _SQLITE.get(code & 0xFF, Trouble.OTHER))


_SQLITE = {
    5: Trouble.PASSING,  # BUSY
    6: Trouble.PASSING,  # LOCKED
    8: Trouble.READ_ONLY,
    13: Trouble.FULL,
    14: Trouble.NOT_OPENED,
    18: Trouble.TOO_LARGE,
    2067: Trouble.EXISTS,  # CONSTRAINT_UNIQUE
}
"""By the whole code, or by its first byte, which names the kind."""

_SQLITE_TEXTS = {
    "locked": 5,
    "readonly": 8,
    "is full": 13,
    "unable to open": 14,
    "too big": 18,
    "UNIQUE constraint": 2067,
}
"""Python 3.10 does not give the code."""


def _sqlite_code(error: BaseException | None) -> int:
    code = getattr(error, "sqlite_errorcode", None)
    if isinstance(code, int):
        return code
    if not isinstance(error, sqlite3.Error):
        return 0
    return next((number for words, number in _SQLITE_TEXTS.items() if words in str(error)), 0)


class PostgreSQL(Dialect):
    """A PostgreSQL server."""

    names = ("postgresql", "postgres")
    driver = "postgresql+psycopg"
    extra = "postgresql"
    product = "PostgreSQL"
    ask_version = "SHOW server_version"
    ask_time = "SELECT extract(epoch FROM clock_timestamp())"

    def stand_alone(self, connection: Any) -> None:
        connection.autocommit = True

    @contextmanager
    def schema_lock(self, connection: Connection) -> Iterator[None]:
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        yield

    def upsert(self, table: Table, identity: list[str], changed: list[str]) -> Executable:
        statement = postgresql.insert(table)
        return statement.on_conflict_do_update(
            index_elements=identity, set_={name: statement.excluded[name] for name in changed}
        )

    def trouble(self, error: DBAPIError) -> Trouble:
        code: str | None = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)
        if code is None:
            return _without_code(error.orig)
        if code in {"40001", "40P01", "55P03"} or code.startswith(("08", "57P0")):
            return Trouble.PASSING
        return _POSTGRESQL.get(code, Trouble.OTHER)


_POSTGRESQL = {
    "23505": Trouble.EXISTS,
    "25006": Trouble.READ_ONLY,
    "53100": Trouble.FULL,
    "54000": Trouble.TOO_LARGE,
}


def _without_code(error: BaseException | None) -> Trouble:
    """No answer came, or the driver does not give its code: then a refusal is told by its words, as far as known."""
    refused = any(words in str(error) for words in ("does not exist", "authentication failed"))
    return Trouble.PASSING if type(error).__name__ == "OperationalError" and not refused else Trouble.OTHER


class MySQL(Dialect):
    """A MySQL or MariaDB server.

    It ends a transaction where a table is made, so the lock is one of the session.
    """

    names = ("mysql", "mariadb")
    driver = "mysql+pymysql"
    extra = "mysql"
    product = "MySQL"
    ask_version = "SELECT version()"
    ask_time = "SELECT unix_timestamp(now(6))"

    def stand_alone(self, connection: Any) -> None:
        connection.autocommit(True)

    def engine_options(self, url: URL) -> Mapping[str, Any]:
        return {"connect_args": {"connect_timeout": CONNECT_SECONDS, "charset": url.query.get("charset", "utf8mb4")}}

    @contextmanager
    def schema_lock(self, connection: Connection) -> Iterator[None]:
        # Locks are the server's, and are named for the database, as there may be several with tables of ours.
        lock = {"lock": f"airflow_resume.{connection.engine.url.database}"[:64], "seconds": _LOCK_SECONDS}
        if connection.execute(text("SELECT GET_LOCK(:lock, :seconds)"), lock).scalar() != 1:
            raise StoreUnavailableError(f"Another process has been making the tables for {_LOCK_SECONDS} s")
        try:
            yield
            connection.exec_driver_sql("COMMIT")  # nobody may have the lock before the rows are there
        finally:
            connection.execute(text("SELECT RELEASE_LOCK(:lock)"), lock)

    def upsert(self, table: Table, identity: list[str], changed: list[str]) -> Executable:  # noqa: ARG002  any unique
        statement = mysql.insert(table)
        # The inserted value is referred to: said twice, a large one does not fit into a packet.
        return statement.on_duplicate_key_update({name: statement.inserted[name] for name in changed})

    def trouble(self, error: DBAPIError) -> Trouble:
        arguments = getattr(error.orig, "args", ())
        return _MYSQL.get(arguments[0] if arguments else None, Trouble.OTHER)

    def packet_limit(self, connection: Connection) -> int | None:
        return int(connection.execute(text("SELECT @@max_allowed_packet")).scalar_one())

    def weight(self, value: str) -> int:
        return super().weight(value) + sum(map(value.count, "\"'\\\n\r\x1a"))


_MYSQL: Mapping[object, Trouble] = {
    1040: Trouble.PASSING,  # too many connections
    1203: Trouble.PASSING,  # too many of this user
    1205: Trouble.PASSING,  # waited too long for a lock
    1213: Trouble.PASSING,  # deadlock
    1226: Trouble.PASSING,  # too many of this user, by a limit of its own
    1927: Trouble.PASSING,  # the connection was killed
    2003: Trouble.PASSING,  # cannot connect
    2006: Trouble.PASSING,  # the server has gone away
    2013: Trouble.PASSING,  # the connection was lost
    1290: Trouble.READ_ONLY,
    1792: Trouble.READ_ONLY,
    1836: Trouble.READ_ONLY,
    1021: Trouble.FULL,
    1114: Trouble.FULL,
    1153: Trouble.TOO_LARGE,
    1062: Trouble.EXISTS,
}

_DIALECTS: tuple[Dialect, ...] = (Sqlite(), PostgreSQL(), MySQL())


def read_url(url: str | URL) -> tuple[URL, Dialect]:
    """The URL, with a driver, and the dialect that it asks for.

    Raises:
        InvalidStoreUrlError: it is none, or is that of another kind of database. The message does not show it, as
            there may be a password in it.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:  # ValueError: the port is no number
        raise InvalidStoreUrlError(
            "The URL of the state backend cannot be read.",
            "Write it as SQLAlchemy does, such as sqlite:////srv/airflow/state.db or"
            " postgresql://user:password@host/database.",
        ) from error
    name = parsed.drivername.partition("+")[0]
    dialect = next((dialect for dialect in _DIALECTS if name in dialect.names), None)
    if dialect is None:
        kinds = ", ".join(name for known in _DIALECTS for name in known.names)
        raise InvalidStoreUrlError(f"The state backend does not work on {name!r}.", f"Take one of {kinds}.")
    named = "+" in parsed.drivername and name != "postgres"
    return parsed if named else parsed.set(drivername=dialect.driver), dialect
