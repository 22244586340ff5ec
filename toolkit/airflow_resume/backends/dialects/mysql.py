"""MySQL and MariaDB. Nothing tells them apart before the server says which one it is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Table, text
from sqlalchemy.dialects import mysql
from sqlalchemy.engine import URL, Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.expression import Executable

from airflow_resume.backends.dialects.base import (
    TABLE_LOCK_SECONDS,
    ColumnTypes,
    ServerSession,
    Trouble,
    wait_for,
    without_quoted,
)
from airflow_resume.backends.dialects.server import CONNECT_SECONDS, TRUTHS, ServerDialect

READ_SECONDS = 600
"""How long a driver itself waits for an answer. The watchdog ends calls; this limit ends an abandoned handshake."""

_OPTIONS = """
    bind_address charset collation connect_timeout db host init_command local_infile passwd password
    port program_name read_default_file read_default_group read_timeout sql_mode ssl_ca ssl_capath
    ssl_cert ssl_check_hostname ssl_cipher ssl_disabled ssl_key ssl_key_password ssl_verify_cert
    ssl_verify_identity unix_socket user write_timeout
"""
"""The options of PyMySQL and mysqlclient."""
_ON_OR_OFF = ("local_infile", "ssl_check_hostname", "ssl_disabled", "ssl_verify_cert", "ssl_verify_identity")
_TIMEOUTS = ("connect_timeout", "read_timeout", "write_timeout")

_LETS_CREATE = re.compile(r"GRANT (.*, )?(ALL PRIVILEGES|CREATE)(,| ON )")
_NO_SUCH_THREAD = 1094

_TROUBLE: Mapping[object, Trouble] = {
    1040: Trouble.PASSING,  # too many connections
    1047: Trouble.PASSING,  # a node of a cluster is not ready
    1053: Trouble.PASSING,  # the server shuts down
    1203: Trouble.PASSING,  # too many of this user
    1205: Trouble.PASSING,  # waited too long for a lock
    1213: Trouble.PASSING,  # deadlock
    1226: Trouble.PASSING,  # too many of this user, by a limit of its own
    1317: Trouble.PASSING,  # the statement was killed
    1927: Trouble.PASSING,  # the connection was killed
    1969: Trouble.PASSING,  # the statement took longer than the server lets it, on MariaDB
    3024: Trouble.PASSING,  # the same on MySQL
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
    1044: Trouble.NO_RIGHT,  # to the database
    1142: Trouble.NO_RIGHT,  # to a statement on a table
    1227: Trouble.NO_RIGHT,
}

_QUOTES_NAMES = frozenset({
    1040, 1044, 1045, 1046, 1049, 1051, 1054, 1114, 1130, 1142, 1143, 1146, 1203, 1226, 1227, 1290, 1698, 1836, 1927,
    2002, 2003, 2006, 2013, 2026, 2059, 2061, 4151,
})  # fmt: skip
"""Codes whose messages quote users, hosts, tables or settings; others may quote a value."""


class MySQL(ServerDialect):
    """A MySQL or MariaDB server.

    Making a table ends the transaction, so the schema lock belongs to the session.
    """

    names = ("mysql", "mariadb")
    sqlalchemy_names = ("mysql", "mariadb")
    product = "MySQL"
    url_form = "mysql://user:password@host:3306/database"
    drivers = ("pymysql", "mysqldb")
    async_drivers = ("aiomysql", "asyncmy")
    extra = "mysql"
    loggers = ("pymysql",)
    options = frozenset(_OPTIONS.split())
    number_options = dict.fromkeys(_TIMEOUTS, r"[1-9]\d{0,6}")
    option_choices = dict.fromkeys(_ON_OR_OFF, TRUTHS)
    options_of_hooks = frozenset({"cursor", "client", "aws_conn_id"})
    encoding = "utf8mb4"

    column_types = ColumnTypes(
        digest=mysql.CHAR(64, charset="ascii", collation="ascii_bin"),
        text=mysql.TEXT(charset="utf8mb4", collation="utf8mb4_bin"),
        value=mysql.MEDIUMTEXT(charset="utf8mb4", collation="utf8mb4_bin"),
    )
    table_options = {"engine": "InnoDB"}  # noqa: RUF012
    has_partial_indexes = False
    ask_version = "SELECT version()"
    ask_time = "SELECT unix_timestamp(now(6))"

    # --- connections ------------------------------------------------------------------------------------------

    def connect_args(self, url: URL) -> dict[str, Any]:
        args = {
            "connect_timeout": CONNECT_SECONDS,
            "charset": "utf8mb4",
            "read_timeout": READ_SECONDS,
            "write_timeout": READ_SECONDS,
        }
        return {name: value for name, value in args.items() if name not in url.query}

    def autocommit(self, connection: Any) -> None:
        connection.autocommit(True)

    def session(self, connection: Connection) -> ServerSession | None:
        driver: Any = connection.connection.driver_connection
        mine = "SELECT id, host FROM information_schema.processlist WHERE id = connection_id()"
        number, client = connection.exec_driver_sql(mine).one()
        return ServerSession(number, client) if number == driver.thread_id() else None

    def end_session(self, connection: Connection, session: ServerSession) -> bool:
        there = text("SELECT 1 FROM information_schema.processlist WHERE id = :number AND host = :mark")
        if connection.execute(there, session._asdict()).first() is None:
            return False
        try:
            connection.exec_driver_sql(f"KILL CONNECTION {session.number:d}")
        except DBAPIError as error:
            if _code(error.orig) != _NO_SUCH_THREAD:  # it has ended in the meantime
                raise
        return True

    def socket_number(self, connection: Any) -> int:
        own: Any = connection if hasattr(connection, "fileno") else connection._sock  # noqa: SLF001  of PyMySQL
        return int(own.fileno())

    # --- statements -------------------------------------------------------------------------------------------

    @contextmanager
    def schema_lock(self, connection: Connection, seconds: float) -> Iterator[None]:
        # A lock holds for the whole server. So its name contains the database: several databases may have our tables.
        lock = {"lock": f"airflow_resume.{connection.engine.url.database}"[:64]}
        wait_for(lambda: connection.execute(text("SELECT GET_LOCK(:lock, 0)"), lock).scalar() == 1, seconds)
        try:
            before = int(connection.exec_driver_sql("SELECT @@lock_wait_timeout").scalar_one())
            connection.exec_driver_sql(f"SET lock_wait_timeout = {TABLE_LOCK_SECONDS}")  # as on PostgreSQL
            yield
            connection.exec_driver_sql(f"SET lock_wait_timeout = {before}")
            connection.exec_driver_sql("COMMIT")  # nobody may have the lock before the rows are there
        finally:
            connection.execute(text("SELECT RELEASE_LOCK(:lock)"), lock)

    def upsert(self, table: Table, identity: list[str], changed: list[str]) -> Executable:  # noqa: ARG002  any unique
        statement = mysql.insert(table)
        # The inserted value is referred to, because a large one does not fit into a packet twice.
        return statement.on_duplicate_key_update({name: statement.inserted[name] for name in changed})

    # --- what it says -----------------------------------------------------------------------------------------

    def product_of(self, version: str) -> str:
        return "MariaDB" if "MariaDB" in version else self.product

    def may_create(self, connection: Connection) -> bool | None:
        """Whether a grant has the right, or is that of a role (without ON), which may have it."""
        grants = [str(grant) for grant in connection.exec_driver_sql("SHOW GRANTS").scalars()]
        return any(" ON " not in grant or _LETS_CREATE.match(grant) for grant in grants)

    def packet_limit(self, connection: Connection) -> int | None:
        return int(connection.execute(text("SELECT @@max_allowed_packet")).scalar_one())

    def weight(self, value: str) -> int:
        return super().weight(value) + sum(map(value.count, "\"'\\\n\r\x1a"))

    def trouble(self, error: DBAPIError) -> Trouble:
        return _TROUBLE.get(_code(error.orig), Trouble.OTHER)

    def message_of(self, error: BaseException) -> str:
        """The driver's message, without quotations where it may quote a value that the server refused."""
        code = _code(error)
        if not isinstance(code, int):
            return str(error)
        words = " ".join(map(str, error.args[1:2]))
        return words if code in _QUOTES_NAMES else without_quoted(words, "'")


def _code(error: BaseException | None) -> object:
    arguments = getattr(error, "args", ())
    return arguments[0] if arguments else None
