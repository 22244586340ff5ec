"""PostgreSQL, also behind PgBouncer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Table, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import URL, Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.expression import Executable

from airflow_resume.backends.dialects.base import (
    NUMBER,
    TABLE_LOCK_SECONDS,
    ColumnTypes,
    ServerSession,
    Trouble,
    wait_for,
    without_quoted,
)
from airflow_resume.backends.dialects.server import CONNECT_SECONDS, ServerDialect

_LOCK = 0x61_69_72_66
"""The first number of the advisory lock; the second one is of the schema, as several schemas may have our tables."""

_KEEP_ALIVE = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""Options of libpq that detect lost connections while nobody uses them. During a call, the watchdog does that. The last
one is in milliseconds, the others are in seconds."""

_LIBPQ = """
    application_name channel_binding client_encoding connect_timeout dbname fallback_application_name gssdelegation
    gssencmode gsslib host hostaddr keepalives keepalives_count keepalives_idle keepalives_interval krbsrvname
    load_balance_hosts max_protocol_version min_protocol_version oauth_client_id oauth_client_secret oauth_issuer
    oauth_scope options passfile password port replication require_auth requirepeer requiressl scram_client_key
    scram_server_key service servicefile ssl_max_protocol_version ssl_min_protocol_version sslcert sslcertmode
    sslcompression sslcrl sslcrldir sslkey sslkeylogfile sslmode sslnegotiation sslpassword sslrootcert sslsni
    target_session_attrs tcp_user_timeout user
"""
"""The options of libpq 18."""

_PASSING = {
    "40001",  # another transaction was faster
    "40P01",  # deadlock
    "55P03",  # waited too long for a lock
    "57014",  # the statement was cancelled by a person, or took longer than the server lets it
}

_TROUBLE = {
    "0A000": Trouble.STALE_PLAN,  # "cached plan must not change result type"; nothing else of ours is unsupported
    "23505": Trouble.EXISTS,
    "42501": Trouble.NO_RIGHT,
    "25006": Trouble.READ_ONLY,
    "53100": Trouble.FULL,
    "54000": Trouble.TOO_LARGE,
}

_OF_A_POOLER = "08P01"
"""A broken protocol, by its name; PgBouncer gives this code to every refusal."""

_REFUSALS = (
    "does not exist",
    "authentication failed",
    "no password supplied",
    "pg_hba.conf",
    "permission denied",
    "not permitted",
    "certificate",
    "does not support SSL",
    "SSL error",
    "SSL off",
    "no such database",
    "no such user",
    "not allowed in statement pooling mode",
    "invalid ",
)
"""Words in refusals by PostgreSQL, its client library and PgBouncer, but none for a database closed for a while."""

_OF_THE_CONNECTION = {"OperationalError", "InternalError", "DatabaseError", "ProtocolViolation"}
"""Nothing answered, or the answer belonged to another question. A new connection may help."""


class PostgreSQL(ServerDialect):
    """A PostgreSQL server."""

    names = ("postgresql", "postgres")
    sqlalchemy_names = ("postgresql",)
    product = "PostgreSQL"
    url_form = "postgresql://user:password@host:5432/database"
    drivers = ("psycopg", "psycopg2")
    async_drivers = ("asyncpg", "psycopg_async")
    extra = "postgresql"
    loggers = ("psycopg",)
    options = frozenset({*_LIBPQ.split(), "prepare_threshold"})  # the last is psycopg's own
    number_options = {  # noqa: RUF012  see the base
        "connect_timeout": NUMBER,
        "keepalives": NUMBER,
        "keepalives_count": NUMBER,
        "keepalives_idle": NUMBER,
        "keepalives_interval": NUMBER,
        "prepare_threshold": r"\d{1,9}|none",
        "tcp_user_timeout": NUMBER,
    }
    option_choices = {  # noqa: RUF012
        "channel_binding": ("disable", "prefer", "require"),
        "gssencmode": ("disable", "prefer", "require"),
        "load_balance_hosts": ("disable", "random"),
        "sslcertmode": ("disable", "allow", "require"),
        "sslmode": ("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
        "sslnegotiation": ("postgres", "direct"),
        "target_session_attrs": ("any", "read-write", "read-only", "primary", "standby", "prefer-standby"),
    }
    options_of_hooks = frozenset({
        "cursor", "enable_log_db_messages", "aws_conn_id", "redshift", "region_name", "sqlalchemy_scheme",
    })  # fmt: skip
    repeatable_options = frozenset({"host", "port"})
    encoding = "utf8"

    column_types = ColumnTypes()
    table_options = {}  # noqa: RUF012
    has_partial_indexes = True
    ask_version = "SHOW server_version"
    ask_time = "SELECT extract(epoch FROM clock_timestamp())"
    # Whatever the default of the database is, what others have committed is visible once a lock was taken.
    begin = "BEGIN ISOLATION LEVEL READ COMMITTED"

    def text_fault(self, url: str) -> str | None:
        hosts = re.match(r"postgres\S*://([^@]*@)?[^/@?]*,[^/@]*(/|$)", url)
        return "has several hosts" if hosts is not None and "@" not in url.partition("@")[2] else None

    # --- connections ------------------------------------------------------------------------------------------

    def connect_args(self, url: URL) -> dict[str, Any]:
        """By default the server prepares no statement: with a pooler, two clients may use the same name for one."""
        # Text is sent as UTF-8, whatever the environment and the database are set to.
        args: dict[str, Any] = {"connect_timeout": CONNECT_SECONDS, "client_encoding": "utf8", **_KEEP_ALIVE}
        args = {name: value for name, value in args.items() if name not in url.query}
        if url.get_driver_name() == "psycopg":
            threshold = str(url.query.get("prepare_threshold", "none"))
            args["prepare_threshold"] = None if threshold == "none" else int(threshold)
        return args

    def autocommit(self, connection: Any) -> None:
        connection.autocommit = True

    def cancel(self, connection: Any, seconds: float) -> bool:
        if not hasattr(connection, "cancel_safe"):  # other drivers than psycopg 3.2 may themselves wait for ever
            return False
        connection.cancel_safe(timeout=seconds)
        return True

    def session(self, connection: Connection) -> ServerSession | None:
        driver: Any = connection.connection.driver_connection
        mine = "SELECT pid, CAST(backend_start AS text) FROM pg_stat_activity WHERE pid = pg_backend_pid()"
        number, began = connection.exec_driver_sql(mine).one()
        return ServerSession(number, began) if number == driver.info.backend_pid else None

    def end_session(self, connection: Connection, session: ServerSession) -> bool:
        ended = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid = :number AND usename = current_user AND CAST(backend_start AS text) = :mark"
        )
        return connection.execute(text(ended), session._asdict()).first() is not None

    def socket_number(self, connection: Any) -> int:
        return int(connection.fileno())

    # --- statements -------------------------------------------------------------------------------------------

    @contextmanager
    def schema_lock(self, connection: Connection, seconds: float) -> Iterator[None]:
        take = text("SELECT pg_try_advisory_xact_lock(:lock, hashtext(coalesce(current_schema(), '')))")
        wait_for(lambda: bool(connection.execute(take, {"lock": _LOCK}).scalar()), seconds)
        # While one session waits for a lock on a table, all later ones wait too, which may be as long as a dump takes.
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{TABLE_LOCK_SECONDS}s'")
        yield

    def upsert(self, table: Table, identity: list[str], changed: list[str]) -> Executable:
        statement = postgresql.insert(table).inline()  # the id of the row is not needed
        return statement.on_conflict_do_update(
            index_elements=identity, set_={name: statement.excluded[name] for name in changed}
        )

    # --- what it says -----------------------------------------------------------------------------------------

    def table_bytes(self, connection: Connection, name: str) -> int:
        size = connection.execute(text("SELECT pg_relation_size(to_regclass(:name))"), {"name": name}).scalar()
        return int(size or 0)

    def may_create(self, connection: Connection) -> bool | None:
        return bool(connection.exec_driver_sql("SELECT has_schema_privilege(current_schema(), 'CREATE')").scalar())

    def trouble(self, error: DBAPIError) -> Trouble:
        code: str | None = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None)
        if code is None or code == _OF_A_POOLER:
            return _trouble_of_words(error.orig)
        if code in _PASSING or code.startswith(("08", "57P0")):
            return Trouble.PASSING
        return _TROUBLE.get(code, Trouble.OTHER)

    def message_of(self, error: BaseException) -> str:
        """The driver's message without its detail, because the detail shows the whole row."""
        diagnosis = getattr(error, "diag", None)
        primary = getattr(diagnosis, "message_primary", None)
        if not primary:
            return str(error)
        # These quote values: data that cannot be taken, and a syntax error where a driver writes values into the text.
        may_quote = str(getattr(diagnosis, "sqlstate", "")).startswith(("22", "42601"))
        return without_quoted(primary, '"') if may_quote else str(primary)


def _trouble_of_words(error: BaseException | None) -> Trouble:
    """What an error without a code means, such as one while a driver connects: its words show whether it is a refusal.

    Servers use the language of `lc_messages`. In a language other than English, a refusal is repeated like an outage.
    """
    words = str(error)
    if any(known in words for known in _REFUSALS) and "too many" not in words:
        return Trouble.REFUSED
    return Trouble.PASSING if type(error).__name__ in _OF_THE_CONNECTION else Trouble.OTHER
