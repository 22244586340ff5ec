"""Empty databases of our own to test with, thrown away afterwards: a file, and one on each server that answers."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from sqlalchemy import URL, create_engine, make_url


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server that tests may make databases on."""

    variable: str
    url: str
    """Where it is looked for when the variable is not set."""

    def found(self) -> URL:
        """Where it is; the test is skipped where it is nowhere."""
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
MYSQL = Server(variable="AIRFLOW_RESUME_TEST_MYSQL_URL", url="mysql+pymysql://root@127.0.0.1:3306/mysql")


@contextmanager
def schema_on_postgresql() -> Iterator[str]:
    """The URL of an empty schema."""
    server, name = POSTGRESQL.found(), f"airflow_resume_test_{secrets.token_hex(6)}"
    with made(server, f"CREATE SCHEMA {name}", f"DROP SCHEMA {name} CASCADE"):
        yield text_of(server.update_query_dict({"options": f"-csearch_path={name}"}))


@contextmanager
def database_on_mysql() -> Iterator[str]:
    """The URL of an empty database, with the server's own character set."""
    server, name = MYSQL.found(), f"airflow_resume_test_{secrets.token_hex(6)}"
    with made(server, f"CREATE DATABASE {name}", f"DROP DATABASE {name}"):
        yield text_of(server.set(database=name))


@contextmanager
def made(server: URL, make: str, drop: str) -> Iterator[None]:
    ask(server, make)
    yield
    ask(server, drop)


def ask(server: URL | str, statement: str) -> object:
    """What a statement gives, on a connection of its own."""
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        done = connection.exec_driver_sql(statement)
        answer = [tuple(row) for row in done] if done.returns_rows else None
    engine.dispose()
    return answer


def text_of(url: URL) -> str:
    return url.render_as_string(hide_password=False)
