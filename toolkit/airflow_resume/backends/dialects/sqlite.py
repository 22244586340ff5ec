"""SQLite: a file, or memory of this process.

Whoever can read the file can read all state, so only its user may read it. SQLite gives the files beside it (`-wal`,
`-shm`, `-journal`) the mode of the database, so it is enough to make the database with the right mode. The mode of a
file that exists already is somebody's decision and is left as it is. The doctor warns if others may read it.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from sqlalchemy import Integer, Table, func, select
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import URL, Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool, StaticPool
from sqlalchemy.sql.expression import Delete, Executable

from airflow_resume.backends.dialects.base import BUSY_SECONDS, NUMBER, ColumnTypes, Dialect, Journal, Trouble
from airflow_resume.errors import BackendSettingError

PRIVATE = 0o600
BESIDE = ("", "-wal", "-shm", "-journal")
"""What SQLite adds to the name of the database, for the files that hold parts of it."""

_SYNCHRONOUS = ("off", "normal", "full", "extra")
"""The names of the numbers of `PRAGMA synchronous`."""
_MISPLACED_OPTION = re.compile(r"[;&#]\s*\w+\s*=")
_MOST_NAME = 255

_TROUBLE = {
    5: Trouble.PASSING,  # BUSY
    6: Trouble.PASSING,  # LOCKED
    8: Trouble.READ_ONLY,
    13: Trouble.FULL,
    14: Trouble.NOT_OPENED,
    18: Trouble.TOO_LARGE,
    2067: Trouble.EXISTS,  # CONSTRAINT_UNIQUE
}
"""By the whole code, or by its first byte, which names the kind."""

_CODES_OF_WORDS = {
    "locked": 5,
    "readonly": 8,
    "is full": 13,
    "unable to open": 14,
    "too big": 18,
    "UNIQUE constraint": 2067,
}
"""Python 3.10 does not give the code."""


class Sqlite(Dialect):
    """A file, or memory of this process.

    A transaction that will read and then write takes the write lock at its beginning, because SQLite may refuse the
    lock later, and then does so at once, without waiting.
    """

    names = ("sqlite",)
    sqlalchemy_names = ("sqlite",)
    product = "SQLite"
    url_form = "sqlite:////srv/airflow/state.db (four slashes), or sqlite:///state.db for one in the working folder"
    drivers = ("pysqlite",)
    async_drivers = ("aiosqlite",)
    extra = "sql"
    loggers = ()
    options = frozenset({"uri", "timeout", "cached_statements"})
    number_options = {"cached_statements": NUMBER, "timeout": r"\d{1,6}(\.\d{1,9})?"}  # noqa: RUF012  see the base
    option_choices = {}  # noqa: RUF012
    options_of_hooks = frozenset()

    column_types = ColumnTypes(id=Integer())  # only an INTEGER is counted up
    table_options = {}  # noqa: RUF012
    has_partial_indexes = True
    ask_version = "SELECT sqlite_version()"
    deletes_ranges = True
    begin = "BEGIN IMMEDIATE"

    # --- URLs -------------------------------------------------------------------------------------------------

    def place_faults(self, url: URL) -> Iterator[str]:
        file, is_uri = url.database or "", str(url.query.get("uri", "false")).lower()
        if url.username or url.password:
            yield "has a user, and SQLite has none"
        if url.host or url.port:
            yield "has a host where the path should be: a slash is missing"
        if file.startswith("~"):
            yield "begins its path with ~, which is not replaced by your home"
        if any(len(part.encode()) > _MOST_NAME for part in file.split("/")):
            yield f"has a name in its path of more than {_MOST_NAME} bytes"
        if _MISPLACED_OPTION.search(file):
            yield "has a path with an option in it: options begin with ? and are separated by &"
        if is_uri not in {"true", "false", "1", "0"}:
            yield "has an option uri that is neither true nor false"
        if is_uri in {"true", "1"} and not file.startswith("file:"):
            yield "has uri=true, and its path does not begin with file: (sqlite:///file:/srv/state.db?mode=ro&uri=true)"
        if is_uri in {"false", "0"} and file.startswith("file:"):
            yield "has a path that begins with file:, and not uri=true among its options"

    def checks_options(self, url: URL) -> bool:
        """True unless it is a URI, which takes any option."""
        return str(url.query.get("uri", "false")).lower() in {"false", "0"}

    def url_of_connection(self, connection: Any, options: Mapping[str, str]) -> URL:
        file = connection.host or connection.schema
        if not file:
            raise BackendSettingError(
                "names no file.",
                "Write the path of the file as its host (:memory: for none).",
                setting="backend_conn_id",
            )
        return URL.create(self.kind, database=file, query=options)

    def file_of(self, url: URL) -> Path | None:
        name = url.database or ""
        if url.query.get("mode") == "memory" or url.query.get("vfs") == "memdb":
            return None
        if name.startswith("file:"):
            path = name.removeprefix("file:")
            name = unquote(path if not path.startswith("//") else f"/{path[2:].partition('/')[2]}")
        return Path(name) if name not in {"", ":memory:"} else None

    def files_of(self, file: Path) -> Sequence[Path]:
        return [file.with_name(f"{file.name}{end}") for end in BESIDE]

    def make_private_file(self, url: URL) -> None:
        """As in the base class. If its place is wrong, SQLite itself says so later."""
        file = self.file_of(url)
        if file is None or url.query.get("mode") in {"ro", "rw"} or url.query.get("immutable") == "1":
            return
        with suppress(OSError):  # it exists, also because another process was faster; or there is no such folder
            # The real path, as SQLite finds it, even if it goes through `..` or a link to a file that does not exist
            # yet.
            os.close(os.open(os.path.realpath(file), os.O_CREAT | os.O_EXCL | os.O_RDWR, PRIVATE))

    # --- connections ------------------------------------------------------------------------------------------

    def engine_options(self, url: URL) -> Mapping[str, Any]:
        # A database in memory exists only in its one connection, so the threads share this connection, in turns.
        pool = StaticPool if self.file_of(url) is None else NullPool
        return {"poolclass": pool, "connect_args": {"timeout": BUSY_SECONDS, "check_same_thread": False}}

    def autocommit(self, connection: Any) -> None:
        connection.isolation_level = None
        # What was acknowledged survives even a loss of power. With the default, the last writes in WAL mode may be
        # lost.
        connection.execute("PRAGMA synchronous = FULL")

    def erase(self, connection: Any) -> None:
        connection.execute("PRAGMA secure_delete = ON")

    def closes_before_fork(self, url: URL) -> bool:
        """True for a file: a child does not inherit its locks, acts as if it had, and writes into a deleted log."""
        return self.file_of(url) is not None

    def limit_wait(self, connection: Any, seconds: float) -> None:
        connection.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")

    def path_of(self, connection: Any) -> str | None:
        """As in the base class. SQLite has made an absolute path of it."""
        (_, _, path), *_ = connection.execute("PRAGMA database_list").fetchall()
        return path or None

    # --- statements -------------------------------------------------------------------------------------------

    def prepare_database(self, connection: Connection) -> None:
        """Set WAL mode, so that readers do not wait for a writer."""
        if connection.exec_driver_sql("PRAGMA journal_mode").scalar() not in {"wal", "memory"}:
            connection.exec_driver_sql("PRAGMA journal_mode = WAL")

    def upsert(self, table: Table, identity: list[str], changed: list[str]) -> Executable:
        statement = sqlite.insert(table)
        return statement.on_conflict_do_update(
            index_elements=identity, set_={name: statement.excluded[name] for name in changed}
        )

    def delete_these(self, connection: Connection, statement: Delete, ids: Sequence[int]) -> int:
        """The ids are one parameter, not text: the driver keeps the last 128 statements, however long they are."""
        listed = func.json_each(json.dumps(ids)).table_valued("value")
        return connection.execute(statement.where(statement.table.c.id.in_(select(listed.c.value)))).rowcount

    # --- what it says -----------------------------------------------------------------------------------------

    def table_bytes(self, connection: Connection, name: str) -> int:  # noqa: ARG002  all are in one file
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        return int(pages * connection.exec_driver_sql("PRAGMA page_size").scalar_one())

    def journal(self, connection: Connection) -> Journal:
        synchronous = _SYNCHRONOUS[int(connection.exec_driver_sql("PRAGMA synchronous").scalar_one())]
        return Journal(str(connection.exec_driver_sql("PRAGMA journal_mode").scalar_one()), synchronous)

    def trouble(self, error: DBAPIError) -> Trouble:
        code = getattr(error.orig, "sqlite_errorcode", None)
        if not isinstance(code, int):
            words = str(error.orig) if isinstance(error.orig, sqlite3.Error) else ""
            code = next((number for known, number in _CODES_OF_WORDS.items() if known in words), 0)
        return _TROUBLE.get(code, _TROUBLE.get(code & 0xFF, Trouble.OTHER))

    def message_of(self, error: BaseException) -> str:
        """The driver's message, which quotes no values."""
        return str(error)
