"""What differs between the databases that a position can be kept in.

The body of a loop may end the transaction in ways that SQLAlchemy does not see: by the driver's own connection, or on
MySQL by a DDL statement. So each transaction begins with a *guard*, and before the commit it is looked at. It is the
note in the table of positions (see `rows`), and what tells whether the transaction is still the one of the note: the
number of the transaction, or a savepoint, which is gone when the transaction has ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import DBAPIError, IntegrityError

if TYPE_CHECKING:
    from sqlalchemy import Connection

SAVEPOINT = "airflow_resume_guard"

_ENDS = r"commit|rollback(?!\s+(work\s+|transaction\s+)?to\b)|begin|start\s+transaction|end\b|abort"
_COMMITS_ON_MYSQL = (
    r"alter|analyze\s+((no_write_to_binlog|local)\s+)?table|cache\s+index|change|check"
    r"|create(?!\s+(or\s+replace\s+)?temporary)|drop(?!\s+temporary)|flush|grant|install|load\s+index|lock|optimize"
    r"|purge|rename|repair|reset|revoke|set\s+(@@)?(session\.|session\s+)?autocommit|set\s+password|start|stop"
    r"|truncate|uninstall|unlock"
)
_ROWS_ONLY = re.compile(
    r"\s*(?:insert|update|delete|select|with|replace|merge|savepoint|release|rollback\s+to)\b", re.IGNORECASE
)
_COMMENTS = r"^\s*(?:(?:--[^\n]*\n|/\*.*?\*/)\s*)*"


@dataclass(frozen=True, kw_only=True)
class Database:
    """One kind of database.

    Args:
        begins: a statement that begins a transaction in which the position can be updated; None if the driver's own
            way is right.
        numbers: whether transactions have a number (`txid_current()`). If not, the guard has a savepoint.
        lock_timeout: a statement that limits how long a lock is waited for, with `{seconds}` and `{milliseconds}`; and
            one that ends this. Empty if there is none.
        locked: words in the error of a statement that did not get its lock in time.
        in_use: words in the error of a connection that another process keeps out.
        denied: words in the error of a statement for which the user has no right, or the database is read-only.
        no_schema: words in the error of a statement whose schema does not exist.
        longest_name: how many characters a name may have; None if there is no limit.
        raced: words in the error of a statement that met another transaction, and may succeed when it is repeated.
        table_options: for the table of positions.
        ends: the statements that end a transaction.
        has_savepoints: whether a part of a transaction can be undone.
        locks_rows: whether `SELECT ... FOR UPDATE` locks a row.
        asks_number: whether only the number of the transaction tells that it has ended, as the driver does not know.
    """

    begins: str | None = None
    numbers: bool = True
    lock_timeout: tuple[str, str] | None = None
    locked: re.Pattern[str]
    in_use: re.Pattern[str] = re.compile(r"(?!)")
    raced: re.Pattern[str]
    denied: re.Pattern[str]
    no_schema: re.Pattern[str]
    longest_name: int | None = None
    table_options: dict[str, str]
    ends: re.Pattern[str]
    has_savepoints: bool = True
    locks_rows: bool = True
    asks_number: bool = False

    @property
    def has_engines(self) -> bool:
        """Whether a table may be in an engine without transactions."""
        return bool(self.table_options)

    def begin(self, connection: Connection) -> None:
        """Begin the transaction, if the driver's own way is not right."""
        raw: Any = connection.connection.dbapi_connection
        if self.begins is not None and not getattr(raw, "in_transaction", False):
            executed(connection, self.begins)

    def is_begin(self, connection: Connection, statement: str) -> bool:
        """Whether a statement begins the transaction that our own statement would begin otherwise."""
        raw: Any = connection.connection.dbapi_connection
        is_first = self.begins is not None and not getattr(raw, "in_transaction", False)
        return is_first and statement.lstrip().upper().startswith("BEGIN")

    @contextmanager
    def short_transaction(self, connection: Connection, patience: float) -> Iterator[None]:
        """A transaction that waits for a lock no longer than this, in seconds.

        At its end it is rolled back, unless it was committed.
        """
        seconds = max(1, round(patience))
        try:
            connection.begin()
            self.begin(connection)
            if self.lock_timeout is not None:
                limit = self.lock_timeout[0].format(seconds=seconds, milliseconds=seconds * 1000)
                executed(connection, limit)
            yield
        finally:
            connection.rollback()
            if self.lock_timeout is not None:
                executed(connection, self.lock_timeout[1])
                connection.rollback()

    def set_savepoint(self, connection: Connection) -> None:
        """Set the savepoint, if transactions have no number."""
        if not self.numbers:
            executed(connection, f"SAVEPOINT {SAVEPOINT}")

    def has_kept(self, connection: Connection) -> bool:
        """Whether the savepoint is still there; a number is compared when the note is deleted."""
        if self.numbers:
            return True
        try:
            executed(connection, f"RELEASE SAVEPOINT {SAVEPOINT}")
        except DBAPIError as error:
            if "savepoint" in str(error.orig).lower():
                return False
            raise
        return True

    def has_ended(self, connection: Connection, transaction: int | None) -> bool:
        """Whether the transaction of the guard has certainly ended. Most drivers know that without asking.

        Args:
            connection: on which the guard was set.
            transaction: its number; None where transactions have none.
        """
        if self.asks_number:
            return _number_of(connection, transaction) != transaction
        raw: Any = connection.connection.dbapi_connection
        status = getattr(getattr(raw, "info", None), "transaction_status", None)
        return status == _IDLE if status is not None else getattr(raw, "in_transaction", True) is False

    def goes_on_after(self, statement: str) -> bool:
        """Whether a statement cannot end the transaction, unless it fails.

        No database lets a function or a trigger commit, only what is called by `CALL` and the like. A comment at the
        beginning may be a statement on MySQL, and with a semicolon the text may be several.
        """
        return _ROWS_ONLY.match(statement) is not None and ";" not in statement

    def keeps_each(self, connection: Connection, transaction: int | None) -> bool:
        """Whether a statement that is executed now would be kept by itself, after the transaction of the guard.

        That is so if the driver begins no transaction, because it was told not to, or because it believes that it is
        in one. What the body wrote before may have been kept in the same way.

        Args:
            connection: on which the guard was set.
            transaction: its number; None where transactions have none.
        """
        raw: Any = connection.connection.dbapi_connection
        asks = getattr(raw, "get_autocommit", None)
        if (asks() if callable(asks) else getattr(raw, "autocommit", False)) is True:
            return True
        if not self.has_ended(connection, transaction):
            return False
        is_deceived = getattr(raw, "status", None) == _BEGUN
        begins_nothing = getattr(raw, "isolation_level", "") is None and self.begins is not None
        return self.asks_number or is_deceived or begins_nothing

    def was_locked(self, error: DBAPIError) -> bool:
        """Whether a lock was not given in time."""
        return self.locked.search(str(error.orig)) is not None

    def is_in_use(self, error: DBAPIError) -> bool:
        """Whether another process keeps all others out."""
        return self.in_use.search(str(error.orig)) is not None

    def was_denied(self, error: DBAPIError) -> bool:
        """Whether the user has no right to do this."""
        return self.denied.search(str(error.orig)) is not None

    def lacks_schema(self, error: DBAPIError) -> bool:
        """Whether the schema does not exist."""
        return self.no_schema.search(str(error.orig)) is not None

    def was_raced(self, error: DBAPIError) -> bool:
        """Whether another transaction came in between."""
        return isinstance(error, IntegrityError) or self.raced.search(str(error.orig)) is not None


def executed(connection: Connection, statement: str) -> Any:
    """The result of one of our own statements, whatever options the body has given the connection."""
    return connection.exec_driver_sql(statement, execution_options=OUR_OPTIONS)


OUR_OPTIONS: dict[str, Any] = {"stream_results": False, "yield_per": None, "schema_translate_map": None}
"""Options of SQLAlchemy for our own statements: no cursor of the server, and the schema as it was given."""

_IDLE, _BEGUN = 0, 2
"""What psycopg and psycopg2 say of a connection in no transaction; and psycopg2 of one for which it has said BEGIN."""


def _number_of(connection: Connection, otherwise: int | None) -> int | None:
    """The number of the transaction; `otherwise` if it has failed, and takes no statement."""
    try:
        return int(executed(connection, "SELECT txid_current()").scalar_one())
    except DBAPIError:
        return otherwise


def _ending(more: str = "") -> re.Pattern[str]:
    return re.compile(rf"{_COMMENTS}(?P<what>{_ENDS}{more})\b", re.IGNORECASE | re.DOTALL)


_NEVER = re.compile(r"(?!)")
_MYSQL = Database(
    numbers=False,
    lock_timeout=("SET innodb_lock_wait_timeout = {seconds}", "SET innodb_lock_wait_timeout = DEFAULT"),
    locked=re.compile(r"Lock wait timeout"),
    raced=re.compile(r"Deadlock"),
    denied=re.compile(r"command denied|Access denied", re.IGNORECASE),
    no_schema=re.compile(r"Unknown database", re.IGNORECASE),
    longest_name=64,
    table_options={"mysql_engine": "InnoDB", "mariadb_engine": "InnoDB", "mysql_charset": "utf8mb4"},
    ends=_ending(f"|{_COMMITS_ON_MYSQL}"),
)

DATABASES: dict[str, Database] = {
    "postgresql": Database(
        lock_timeout=("SET LOCAL lock_timeout = {milliseconds}", "SET LOCAL lock_timeout TO DEFAULT"),
        locked=re.compile(r"lock timeout"),
        raced=re.compile(r"deadlock detected|could not serialize"),
        denied=re.compile(r"permission denied|read-only"),
        no_schema=re.compile(r"schema .* does not exist"),
        longest_name=63,
        table_options={},
        ends=_ending(),
    ),
    "mysql": _MYSQL,
    "mariadb": _MYSQL,
    "sqlite": Database(
        begins="BEGIN IMMEDIATE",
        numbers=False,
        locked=re.compile(r"database is locked|database table is locked"),
        raced=_NEVER,
        denied=re.compile(r"readonly database"),
        no_schema=re.compile(r"unknown database"),
        table_options={},
        ends=_ending(),
        locks_rows=False,
    ),
    "duckdb": Database(
        locked=_NEVER,
        in_use=re.compile(r"Could not set lock on file|file is already open|being used by another process"),
        raced=re.compile(r"conflict", re.IGNORECASE),
        denied=re.compile(r"read-only mode"),
        no_schema=re.compile(r"(Schema|Catalog)[^\n]* does not exist"),
        table_options={},
        ends=_ending(),
        has_savepoints=False,
        locks_rows=False,
        asks_number=True,
    ),
}
"""By the name of the dialect of SQLAlchemy."""
