"""Finds the database of a connection, and the style of its driver's placeholders, without importing a driver."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Literal, cast, get_args

Style = Literal["qmark", "numeric", "named", "format", "pyformat", "numeric_dollar"]
"""As in the DB-API: `?`, `:1`, `:name`, `%s`, `%(name)s`; and `$1` of asyncpg."""


@dataclass(frozen=True)
class Driver:
    """What a query depends on.

    Args:
        dialect: the database, by its name in SQLAlchemy; None: not known, such as for ODBC.
        style: the style of the placeholders.
        lacks_uuid: the driver may not take a `uuid.UUID`, and the database reads its text.
    """

    dialect: str | None
    style: Style
    lacks_uuid: bool = field(default=False, compare=False)


_KNOWN: Mapping[str, Driver] = {
    "sqlite3": Driver("sqlite", "qmark"),
    "pysqlite3": Driver("sqlite", "qmark"),
    "aiosqlite": Driver("sqlite", "qmark"),
    "apsw": Driver("sqlite", "qmark"),
    "psycopg": Driver("postgresql", "pyformat"),
    "psycopg2": Driver("postgresql", "pyformat", lacks_uuid=True),
    "asyncpg": Driver("postgresql", "numeric_dollar"),
    "pg8000": Driver("postgresql", "format"),
    "redshift_connector": Driver("redshift", "format"),
    "pymysql": Driver("mysql", "pyformat"),
    "MySQLdb": Driver("mysql", "format"),
    "mysql.connector": Driver("mysql", "pyformat"),
    "mariadb": Driver("mysql", "qmark"),
    "aiomysql": Driver("mysql", "pyformat"),
    "asyncmy": Driver("mysql", "pyformat"),
    "oracledb": Driver("oracle", "named"),
    "cx_Oracle": Driver("oracle", "named"),
    "snowflake.connector": Driver("snowflake", "pyformat"),
    "google.cloud.bigquery": Driver("bigquery", "pyformat"),
    "duckdb": Driver("duckdb", "qmark"),
    "_duckdb": Driver("duckdb", "qmark"),
    "pymssql": Driver("mssql", "pyformat"),
    "pyodbc": Driver(None, "qmark"),
    "trino": Driver("trino", "qmark"),
    "databricks.sql": Driver("databricks", "named"),
}
"""The known drivers, by their module."""

_HOOKS = {
    "PostgresHook": "postgresql",
    "RedshiftSQLHook": "redshift",
    "MySqlHook": "mysql",
    "SqliteHook": "sqlite",
    "OracleHook": "oracle",
    "SnowflakeHook": "snowflake",
    "BigQueryHook": "bigquery",
    "DuckDBHook": "duckdb",
    "MsSqlHook": "mssql",
    "TrinoHook": "trino",
}
_PLACEHOLDERS: Mapping[str, Style] = {"%s": "format", "?": "qmark"}
_ALIASES = {"mariadb": "mysql", "postgres": "postgresql", "cockroachdb": "postgresql"}


def driver_of(on: object) -> Driver:
    """The driver with which a query is run.

    Args:
        on: what runs the query: a DB-API connection or cursor, the driver's module or its name, an SQLAlchemy engine,
            connection or session (whose `text()` takes named parameters), or an Airflow `DbApiHook`. A name must be one
            of the known ones, because which other modules are imported differs between processes.

    Raises:
        TypeError: none of them, or the driver is not known.
    """
    if isinstance(on, str):
        if named := _known(on):
            return named
        raise TypeError(
            f"{on[:40]!r} is not a known driver.\n"
            f"Give one of {', '.join(map(repr, sorted(_KNOWN)))}, or the connection itself."
        )
    names = [on.__name__] if isinstance(on, ModuleType) else list(_modules_of(on))
    if any(name.partition(".")[0] == "sqlalchemy" for name in names):
        return _of_sqlalchemy(on)
    for name in names:
        if known := _known(name):
            return Driver("postgresql", "numeric_dollar") if _is_raw(on) else known
    if hasattr(on, "get_conn") and hasattr(on, "placeholder"):
        return _of_hook(on)
    for name in names:
        if style := _style_in(name):
            return Driver(None, style)
    raise TypeError(
        f"on=<{type(on).__module__}.{type(on).__qualname__}> is not a connection of a driver that is known here.\n"
        "Give a DB-API connection or cursor, an SQLAlchemy engine, connection or session, an Airflow hook, or the"
        ' name of a driver such as "psycopg2"; or say style="named" alone.'
    )  # never the repr of a connection, which may have a password in it


def _modules_of(on: object) -> Iterator[str]:
    """The modules of the classes of an object; for a proxy, also those of the object that it stands for."""
    for kind in (type(on), getattr(on, "__class__", type(on))):
        for base in kind.__mro__:
            if base is not object:
                yield base.__module__


def _known(name: str) -> Driver | None:
    """The known driver that a module belongs to: `psycopg2.extensions` is of psycopg2."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        if found := _KNOWN.get(".".join(parts[:length])):
            return found
    return None


def _style_in(name: str) -> Style | None:
    """The `paramstyle` of a driver's module, or of the package that it is in."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        style = getattr(sys.modules.get(".".join(parts[:length])), "paramstyle", None)
        if style in get_args(Style):
            return cast("Style", style)
    return None


def _is_raw(on: object) -> bool:
    """Whether it is a raw cursor of psycopg, which takes `$1`."""
    made = (type(on), getattr(on, "cursor_factory", None))
    return any("RawCursor" in getattr(kind, "__name__", "") or "RawServerCursor" in str(kind) for kind in made)


def _of_sqlalchemy(on: Any) -> Driver:
    dialect = getattr(on, "dialect", None)
    if dialect is None and hasattr(on, "driver_connection"):  # engine.raw_connection()
        return driver_of(on.driver_connection)
    if dialect is None and callable(getattr(on, "get_bind", None)):
        dialect = getattr(on.get_bind(), "dialect", None)
    if dialect is None:
        raise TypeError(
            f"on=<{type(on).__module__}.{type(on).__qualname__}> is bound to no database.\n"
            "Give an engine, a connection, or a session that was made with one."
        )
    return Driver(plain_dialect(dialect.name), "named", lacks_uuid=getattr(dialect, "driver", None) == "psycopg2")


def _of_hook(on: Any) -> Driver:
    kinds = [base.__name__ for base in type(on).__mro__]
    dialect = next((_HOOKS[kind] for kind in kinds if kind in _HOOKS), None)
    if dialect is None:
        dialect = plain_dialect(getattr(on, "dialect_name", None))
    # A PostgresHook has psycopg 2 or 3; with both, the database converts text to the type of the column.
    return Driver(dialect, _PLACEHOLDERS.get(on.placeholder, "format"), lacks_uuid=dialect == "postgresql")


def plain_dialect(name: object) -> str | None:
    """The name of the dialect; databases with the same SQL have one name: MariaDB is `mysql`."""
    return None if not isinstance(name, str) or name == "default" else _ALIASES.get(name, name)
