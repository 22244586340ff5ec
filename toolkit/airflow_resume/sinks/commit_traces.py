"""What shows that a body has committed something after it had rolled the transaction back, by the driver's connection.

With the transaction, its note is rolled back too. So the note does not tell. If the body may use the connection of the
driver, it is noted at the beginning of each transaction what the database says of commits:

- PostgreSQL numbers the transactions of a session, with and without rows, without a gap.
- MySQL and MariaDB count the statements `COMMIT` of a session.
- SQLite tells a second connection whether anybody else has committed.
- DuckDB has nothing of this kind. There, a transaction that has ended counts as committed anyway, see `Database`.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_resume.sinks.databases import SAVEPOINT, executed

if TYPE_CHECKING:
    from sqlalchemy import Connection


class CommitTrace(ABC):
    """What the database says of the commits of one connection."""

    @abstractmethod
    def begin(self, connection: Connection, ours: int) -> None:
        """Note what it says in a transaction that has begun.

        Args:
            connection: in the transaction.
            ours: how many commits we have made.
        """

    @abstractmethod
    def shows_another(self, connection: Connection, ours: int) -> bool:
        """Whether somebody else may have committed since. Rolls back what has not ended.

        Args:
            connection: the same.
            ours: how many commits we have made.
        """

    def close(self) -> None:  # noqa: B027  most need nothing for that
        """Free what is needed for that."""


class NoTrace(CommitTrace):
    """Nothing."""

    def begin(self, connection: Connection, ours: int) -> None:
        """Nothing."""

    def shows_another(self, connection: Connection, ours: int) -> bool:  # noqa: ARG002
        """Never."""
        return False


class TransactionNumbers(CommitTrace):
    """The numbers of the transactions of a session of PostgreSQL."""

    def __init__(self) -> None:
        self._began: tuple[str, int] = ("", 0)

    def begin(self, connection: Connection, ours: int) -> None:  # noqa: ARG002
        """Note the number of the transaction."""
        self._began = self._now(connection)

    def _now(self, connection: Connection) -> tuple[str, int]:
        statement = (
            "SELECT virtualtransaction FROM pg_locks WHERE locktype = 'virtualxid' AND pid = pg_backend_pid() LIMIT 1"
        )
        session, _, number = str(executed(connection, statement).scalar_one()).partition("/")
        return session, int(number)

    def shows_another(self, connection: Connection, ours: int) -> bool:  # noqa: ARG002
        """Whether there was a transaction between that one and the present one.

        A pooler may have given the connection another session. Then nobody knows.
        """
        raw: Any = connection.connection.dbapi_connection
        is_idle = getattr(getattr(raw, "info", None), "transaction_status", None) == 0
        if not is_idle:
            connection.dialect.do_rollback(raw)
        session, number = self._now(connection)
        return session == self._began[0] and number > self._began[1] + (1 if is_idle else 2)


class CommitCount(CommitTrace):
    """The number of statements `COMMIT` of a session of MySQL or MariaDB."""

    def __init__(self) -> None:
        self._raw: Any = None
        self._others = 0

    def begin(self, connection: Connection, ours: int) -> None:
        """Note how many were not ours, if that is not known of the session."""
        raw = connection.connection.dbapi_connection
        if raw is not self._raw:
            self._raw, self._others = raw, self._now(connection) - ours

    def _now(self, connection: Connection) -> int:
        return int(executed(connection, "SHOW SESSION STATUS LIKE 'Com_commit'").one()[1])

    def shows_another(self, connection: Connection, ours: int) -> bool:
        """Whether there were more than ours."""
        if connection.connection.dbapi_connection is not self._raw:
            return False
        return self._now(connection) - ours > self._others


class DataVersion(CommitTrace):
    """A second connection to a file of SQLite. It is told a new number when another connection has committed."""

    def __init__(self) -> None:
        self._second: sqlite3.Connection | None = None
        self._began: int | None = None

    def begin(self, connection: Connection, ours: int) -> None:  # noqa: ARG002
        """Note the number. As long as the transaction goes on, nobody else can commit."""
        raw = connection.connection.dbapi_connection
        if self._second is None and isinstance(raw, sqlite3.Connection):
            file = next((row[2] for row in raw.execute("PRAGMA database_list") if row[1] == "main"), "")
            if file:  # and not in memory
                uri = f"{Path(file).absolute().as_uri()}?mode=ro"
                self._second = sqlite3.connect(uri, uri=True, timeout=0, check_same_thread=False)
        self._began = self._now()

    def _now(self) -> int | None:
        if self._second is None:
            return None
        try:
            return int(self._second.execute("PRAGMA data_version").fetchall()[0][0])
        except sqlite3.Error:  # a large transaction has locked the file, or it has another format
            return None

    def shows_another(self, connection: Connection, ours: int) -> bool:  # noqa: ARG002
        """Whether there is another number, and the transaction has ended."""
        raw: Any = connection.connection.dbapi_connection
        if self._began is None:
            return False
        try:
            raw.execute(f"ROLLBACK TO {SAVEPOINT}")
        except sqlite3.Error:
            raw.rollback()
            return self._now() not in {self._began, None}
        return False  # it goes on

    def close(self) -> None:
        """Close the second connection."""
        if self._second is not None:
            self._second.close()


TRACES: dict[str, type[CommitTrace]] = {
    "postgresql": TransactionNumbers,
    "mysql": CommitCount,
    "mariadb": CommitCount,
    "sqlite": DataVersion,
    "duckdb": NoTrace,
}
"""By the name of the dialect of SQLAlchemy."""
