"""Whether a connection can keep rows and a position in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_resume.errors import SinkUnsafeError
from airflow_resume.shown import get_logger

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Table

log = get_logger(__name__)

_MOST_NAMED = 5


def check_autocommit(connection: Connection, target: str) -> None:
    """Check that nothing is committed by itself, as far as the connection says so. Writes nothing.

    The driver of SQLite begins no transactions with `isolation_level=None`. That is right only if a listener of the
    engine begins them, as in the recipe of SQLAlchemy's documentation.

    Args:
        connection: to look at.
        target: what its database is called in messages.

    Raises:
        SinkUnsafeError: each statement is.
    """
    raw: Any = connection.connection.dbapi_connection
    asks = getattr(raw, "get_autocommit", None)
    by_driver = asks() if callable(asks) else getattr(raw, "autocommit", False)
    by_options = connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT"
    connection.begin()
    begins_nothing = getattr(raw, "isolation_level", "") is None and getattr(raw, "in_transaction", None) is False
    connection.rollback()
    if by_driver is True or by_options or begins_nothing:
        raise autocommits(target)


def check_pool(engine: Engine, target: str) -> None:
    """Check that a connection of the pool is given to nobody else while it is in use.

    Args:
        engine: whose pool it is.
        target: what its database is called in messages.

    Raises:
        SinkUnsafeError: others get the same one, and would end the transaction.
    """
    from sqlalchemy.pool import SingletonThreadPool, StaticPool

    if isinstance(engine.pool, (SingletonThreadPool, StaticPool)):
        name = type(engine.pool).__name__
        raise SinkUnsafeError(
            f"The pool of the engine of {target} ({name}) gives one connection to everybody, who would commit the rows"
            " of a body without the position, or roll them back.",
            "Give the sink an engine with another pool. One of SQLite in memory has no other by default: use a file.",
            problem="pool",
            sink=target,
        )


def autocommits(target: str) -> SinkUnsafeError:
    """The error for a connection that commits each statement.

    Args:
        target: what its database is called in messages.
    """
    return SinkUnsafeError(
        f"The connection to {target} commits each statement by itself (autocommit).",
        "Give the sink an engine without isolation_level='AUTOCOMMIT' and without autocommit=True.",
        problem="autocommit",
        sink=target,
    )


def check_engine(connection: Connection, table: Table, target: str) -> None:
    """Check that the table of positions is in InnoDB, and warn of others in its schema that are not.

    Args:
        connection: to MySQL or MariaDB.
        table: of positions, which exists.
        target: what the database is called in messages.

    Raises:
        SinkUnsafeError: its engine has no transactions.
    """
    rows = connection.exec_driver_sql(
        "SELECT table_name, engine FROM information_schema.tables WHERE table_schema = COALESCE(%s, DATABASE())"
        " AND table_type = 'BASE TABLE' AND engine <> 'InnoDB'",
        (table.schema,),
    ).all()
    connection.rollback()
    names = [str(name) for name, _ in rows]
    if table.name in names:
        raise SinkUnsafeError(
            f"The table of positions, {table.fullname!r} in {target}, is not in InnoDB, so it has no transactions.",
            f"ALTER TABLE {table.fullname} ENGINE = InnoDB",
            problem="engine",
            sink=target,
        )
    if names:
        more = "" if len(names) <= _MOST_NAMED else " and others"
        log.warning(
            "%s: what is written to %s%s is committed at once, as these tables are not in InnoDB",
            target,
            ", ".join(names[:_MOST_NAMED]),
            more,
        )
