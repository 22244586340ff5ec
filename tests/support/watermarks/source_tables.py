"""Source tables on real databases, read by several drivers in sessions of several time zones."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import psycopg
import psycopg2
import pymysql
from airflow.providers.common.sql.hooks.sql import DbApiHook
from sqlalchemy import URL, create_engine, make_url, text
from sqlalchemy.engine import Connection
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

UTC = timezone.utc
BERLIN = "Europe/Berlin"
SESSIONS = {"UTC": "+00:00", "America/New_York": "-05:00", "Asia/Tokyo": "+09:00"}
"""Time zones of sessions, each with its offset for a server that knows no names."""


@dataclass(frozen=True)
class Driver:
    """How a source is read: `connect(url, zone)` gives a connection for the window, and `fetch` queries it."""

    name: str
    connect: Callable[[str, str], Any]
    fetch: Callable[[Any, str, Any], list[Any]]

    def __str__(self) -> str:
        return self.name


def _cursor_fetch(connection: Any, query: str, parameters: Any) -> list[Any]:
    cursor = connection.cursor()
    cursor.execute(query, parameters)
    found = list(cursor.fetchall())
    cursor.close()
    return found


def _text_fetch(connection: Connection, query: str, parameters: Any) -> list[Any]:
    return list(connection.execute(text(query), parameters))


def _session_fetch(session: Session, query: str, parameters: Any) -> list[Any]:
    return list(session.execute(text(query), parameters))


def libpq(url: str, zone: str) -> str:
    place = make_url(url)
    options = f"{place.query['options']} -ctimezone={zone}"
    return (
        f"host={place.host} port={place.port or 5432} user={place.username} dbname={place.database}"
        f" options='{options}'" + (f" password={place.password}" if place.password else "")
    )


def mysql_arguments(url: str) -> dict[str, Any]:
    place = make_url(url)
    found = {"host": place.host, "port": place.port or 3306, "user": place.username, "database": place.database}
    return {**found, "password": place.password} if place.password else found


def _engine(url: str, driver: str, zone: str) -> Any:
    place: URL = make_url(url).set(drivername=driver)
    if driver.startswith("postgresql"):
        place = place.update_query_dict({"options": f"{place.query['options']} -ctimezone={zone}"})
        return create_engine(place, poolclass=NullPool)
    return create_engine(
        place, poolclass=NullPool, connect_args={"init_command": f"SET time_zone = '{SESSIONS[zone]}'"}
    )


class PostgresHook(DbApiHook):
    """As Airflow's, whose provider is not installed here: `%s`, on psycopg2."""

    conn_name_attr = "postgres_conn_id"
    placeholder = "%s"

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    def get_conn(self) -> Any:
        return psycopg2.connect(self.dsn)

    def records(self, query: str, parameters: Any) -> list[Any]:
        connection = self.get_conn()
        try:
            return _cursor_fetch(connection, query, parameters)
        finally:
            connection.close()


def _mysql_connector(url: str, zone: str) -> Any:
    import mysql.connector

    return mysql.connector.connect(**mysql_arguments(url), time_zone=SESSIONS[zone], autocommit=True)


def _pymysql(url: str, zone: str) -> Any:
    return pymysql.connect(**mysql_arguments(url), init_command=f"SET time_zone = '{SESSIONS[zone]}'", autocommit=True)


POSTGRESQL = [
    Driver("psycopg", lambda url, zone: psycopg.connect(libpq(url, zone), autocommit=True), _cursor_fetch),
    Driver("psycopg2", lambda url, zone: _autocommitting(psycopg2.connect(libpq(url, zone))), _cursor_fetch),
    Driver("sqlalchemy", lambda url, zone: _committing(_engine(url, "postgresql+psycopg", zone)), _text_fetch),
    Driver(
        "session", lambda url, zone: Session(_committing(_engine(url, "postgresql+psycopg2", zone))), _session_fetch
    ),
    Driver("hook", lambda url, zone: PostgresHook(libpq(url, zone)), PostgresHook.records),
]
RAW_POSTGRESQL = Driver(
    "raw",
    lambda url, zone: psycopg.connect(libpq(url, zone), autocommit=True, cursor_factory=psycopg.RawCursor),
    _cursor_fetch,
)
MYSQL = [
    Driver("pymysql", _pymysql, _cursor_fetch),
    Driver("mysql.connector", _mysql_connector, _cursor_fetch),
    Driver("sqlalchemy", lambda url, zone: _committing(_engine(url, "mysql+pymysql", zone)), _text_fetch),
]
SQLITE = [
    Driver("sqlite3", lambda url, _: sqlite3.connect(str(make_url(url).database)), _cursor_fetch),
    Driver("sqlalchemy", lambda url, _: create_engine(url, poolclass=NullPool).connect(), _text_fetch),
]


def _autocommitting(connection: Any) -> Any:
    connection.autocommit = True
    return connection


def _committing(engine: Any) -> Connection:
    connection: Connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
    return connection


@contextmanager
def connected(url: str, driver: str, zone: str) -> Iterator[Connection]:
    """A connection of SQLAlchemy in a session of a time zone."""
    engine = create_engine(url, poolclass=NullPool) if driver == "sqlite" else _engine(url, driver, zone)
    with _committing(engine) as connection:
        yield connection


def close(on: Any) -> None:
    if isinstance(on, Session):
        on.connection().close()
    if hasattr(on, "close"):
        on.close()


@contextmanager
def filled(
    url: str, declared: str, *, table: str = "source", column: str = "u"
) -> Iterator[Callable[[dict[int, object]], None]]:
    """An empty table with a column, and a function that writes rows, in a session of UTC."""
    place = make_url(url)
    options = {"init_command": "SET time_zone = '+00:00'"} if place.get_backend_name() == "mysql" else {}
    engine = create_engine(place, connect_args=options, poolclass=NullPool)

    def write(rows: dict[int, object]) -> None:
        quoted = {number: f"'{value}'" if isinstance(value, str) else value for number, value in rows.items()}
        shown = [f"({number}, {'NULL' if value is None else value})" for number, value in quoted.items()]
        connection.exec_driver_sql(f"INSERT INTO {table} VALUES {', '.join(shown)}")  # noqa: S608  our own
        connection.commit()

    with engine.connect() as connection:
        connection.exec_driver_sql(f"DROP TABLE IF EXISTS {table}")
        connection.exec_driver_sql(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, {column} {declared} NULL)")
        connection.commit()
        yield write


def nights() -> list[datetime]:
    """Points in time around both clock changes of Berlin, with and without fractions, some of them twice."""
    fractions = [0, 0, 500_000, 123_456]
    found: list[datetime] = []
    for first in (datetime(2025, 10, 25, 22, tzinfo=UTC), datetime(2026, 3, 28, 23, tzinfo=UTC)):
        found += [first + timedelta(seconds=611 * n, microseconds=fractions[n % 4]) for n in range(35)]
        found.append(found[-1])
    return found


def local(moment: datetime, zone: str = BERLIN) -> datetime:
    return moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
