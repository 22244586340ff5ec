"""Empty databases for tests, removed afterwards: a file, and a database on each server that answers."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import URL, create_engine, make_url
from sqlalchemy.exc import DBAPIError

NO_SUCH_THREAD = 1094
"""MySQL's error code for a connection that has ended."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server that tests may make databases on."""

    variable: str
    url: str
    """The address that is tried if the variable is not set."""

    def found(self) -> URL:
        """The URL of the server. Without a server, the test is skipped."""
        if given := os.environ.get(self.variable):
            return make_url(given)
        url = make_url(self.url)
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex((url.host, url.port)) != 0:
                pytest.skip(f"nothing answers on {url.host}:{url.port}: set {self.variable} to a server of yours")
        return url


POSTGRESQL = Server(
    variable="AIRFLOW_RESUME_TEST_POSTGRESQL_URL", url="postgresql+psycopg://postgres@127.0.0.1:5432/postgres"
)
# Else each connection reads the certificates of all authorities, which takes 50 ms.
MYSQL = Server(
    variable="AIRFLOW_RESUME_TEST_MYSQL_URL", url="mysql+pymysql://root@127.0.0.1:3306/mysql?ssl_disabled=true"
)


@contextmanager
def schema_on_postgresql() -> Iterator[str]:
    """The URL of an empty schema."""
    server, name = POSTGRESQL.found(), f"airflow_resume_test_{secrets.token_hex(6)}"
    with made(server, f"CREATE SCHEMA {name}", f"DROP SCHEMA {name} CASCADE"):
        yield text_of(server.update_query_dict({"options": f"-csearch_path={name}", "application_name": name}))


@contextmanager
def database_on_postgresql() -> Iterator[str]:
    """The URL of an empty database, for tests that must not share one, which a schema would."""
    server, name = POSTGRESQL.found(), f"airflow_resume_test_{secrets.token_hex(6)}"
    with made(server, f"CREATE DATABASE {name}", f"DROP DATABASE {name} WITH (FORCE)"):
        yield text_of(server.set(database=name))


@contextmanager
def database_on_mysql() -> Iterator[str]:
    """The URL of an empty database, with the server's own character set."""
    server, name = MYSQL.found(), f"airflow_resume_test_{secrets.token_hex(6)}"
    with made(server, f"CREATE DATABASE {name}", f"DROP DATABASE {name}"):
        yield text_of(server.set(database=name))


@contextmanager
def made(server: URL, make: str, drop: str) -> Iterator[None]:
    ask(server, make)
    try:
        yield
    finally:
        ask(server, drop)


def ask(server: URL | str, statement: str) -> object:
    """The result of a statement on a connection of its own."""
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        done = connection.exec_driver_sql(statement)
        answer = [tuple(row) for row in done] if done.returns_rows else None
    engine.dispose()
    return answer


def text_of(url: URL) -> str:
    return url.render_as_string(hide_password=False)


def kill_connections(url: str) -> None:
    """End the connections of others to the database, as an administrator does."""
    place = make_url(url)
    if place.get_backend_name() == "sqlite":
        pytest.skip("a file has no connections that could be killed")
    if place.get_backend_name() == "postgresql":
        others = f"application_name = '{place.query['application_name']}' AND pid <> pg_backend_pid()"
        ask(url, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")  # noqa: S608
        return
    others = f"db = '{place.database}' AND id <> CONNECTION_ID()"
    rows: Any = ask(url, f"SELECT id FROM information_schema.processlist WHERE {others}")  # noqa: S608
    for (number,) in rows:
        _kill_on_mysql(url, number)


def _kill_on_mysql(url: str, number: int) -> None:
    try:
        ask(url, f"KILL {number}")
    except DBAPIError as error:
        # A connection that was closed a moment ago is in the list until the server has noticed.
        if error.orig is None or error.orig.args[0] != NO_SUCH_THREAD:
            raise


def in_another_time_zone(url: str) -> str:
    """The same database, from sessions in another time zone."""
    place = make_url(url)
    if place.get_backend_name() == "postgresql":
        options = {"options": f"{place.query['options']} -ctimezone=Pacific/Auckland"}
    elif place.get_backend_name() == "mysql":
        options = {"init_command": "SET time_zone = '+13:00'"}
    else:
        options = {}
    return text_of(place.update_query_dict(options))
