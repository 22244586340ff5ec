"""What it costs to store and read a value: ours, Airflow's own backend, and the bare driver.

All are on the same server, or each in a SQLite file of its own in one folder, in WAL mode and with synchronous=FULL:
that is what ours sets, what Airflow's engine comes to by SQLite's default, and what the driver is told. So each of the
three waits for the disk at every write. The driver's table has the columns of a minimal store and one index; ours and
Airflow's have four. Airflow is not measured on MariaDB, where it needs another driver.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import make_url

from airflow_resume.backends import SqlStoreBackend
from benchmarks.databases import found
from benchmarks.harness import Result, Scale, Work, compare, ratio_at_most
from tests.support.backends.databases import database_on_mysql, schema_on_postgresql
from tests.support.backends.metastore import metastore, only, tables_in

KEYS = 50
TEXT = '{"v": 1, "at": "' + "x" * 200 + '"}'
AIRFLOW, DRIVER = "Airflow's MetastoreBackend", "the driver alone"
TARGETS = {AIRFLOW: (ratio_at_most(1),), DRIVER: (ratio_at_most(1.5),)}

_TABLE = (
    "CREATE TABLE bare (scope VARCHAR(64), name VARCHAR(64), text {text}, updated BIGINT, expires BIGINT,"
    " PRIMARY KEY (scope, name))"
)
_ON_CONFLICT = (
    "ON CONFLICT (scope, name) DO UPDATE SET text = excluded.text, updated = excluded.updated,"
    " expires = excluded.expires"
)
_ON_DUPLICATE = "ON DUPLICATE KEY UPDATE text = VALUES(text), updated = VALUES(updated), expires = VALUES(expires)"


@dataclass(frozen=True)
class Bare:
    """A connection of a driver on which every statement is a transaction."""

    cursor: Any
    mark: str
    conflict: str

    def make(self, text: str) -> None:
        self.cursor.execute(_TABLE.format(text=text))

    def set(self, key: str) -> None:
        marks = ", ".join([self.mark] * 5)
        words = f"INSERT INTO bare VALUES ({marks}) {self.conflict}"  # noqa: S608
        self.cursor.execute(words, ("scope", key, TEXT, time.time_ns(), None))

    def get(self, key: str) -> object:
        words = f"SELECT text FROM bare WHERE scope = {self.mark} AND name = {self.mark}"  # noqa: S608
        self.cursor.execute(words, ("scope", key))
        return self.cursor.fetchone()


def measure(scale: Scale) -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as folder, closing(sqlite3.connect(f"{folder}/bare.db")) as connection:
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        bare = Bare(connection.cursor(), "?", _ON_CONFLICT)
        bare.make("TEXT")
        with airflows(metastore(Path(folder))) as airflow:
            yield from beside("SQLite", f"sqlite:///{folder}/ours.db", bare, scale, airflow)
    with (
        found(schema_on_postgresql) as url,
        found(schema_on_postgresql) as other,
        on_postgresql(url) as bare,
        airflows(tables_in(other)) as airflow,
    ):
        yield from beside("PostgreSQL", url, bare, scale, airflow)
    with found(database_on_mysql) as url, on_mysql(url) as bare:
        yield from beside("MariaDB", url, bare, scale)


def beside(
    place: str, url: str, bare: Bare, scale: Scale, airflow: tuple[Callable[[str], object], ...] | None = None
) -> Iterator[Result]:
    """A set and a get, side by side."""
    from airflow.sdk.state import TaskScope

    scope = TaskScope(dag_id="dag", run_id="run", task_id="task")
    many = scale.size(300, quick=20)
    with closing(SqlStoreBackend(url)) as backend:
        ours = (lambda key: backend.set(scope, key, TEXT), lambda key: backend.get(scope, key))
        for index, name in enumerate(("set", "get")):
            subjects: dict[str, Work] = {"SqlStoreBackend": repeated(ours[index], many)}
            if airflow is not None:
                subjects[AIRFLOW] = repeated(airflow[index], many)
            subjects[DRIVER] = repeated((bare.set, bare.get)[index], many)
            row = f"a {name} on {place}"
            options: dict[str, Any] = {"rounds": scale.rounds(15), "targets": TARGETS, "headline": name == "set"}
            yield from compare(row, subjects, per=many, unit="us", **options)


def repeated(call: Callable[[str], object], many: int) -> Callable[[], None]:
    def repeat() -> None:
        for number in range(many):
            call(f"key.{number % KEYS}")

    return repeat


@contextmanager
def airflows(tables: AbstractContextManager[None]) -> Iterator[tuple[Callable[[str], object], ...]]:
    """Set and get by Airflow's own backend, each in a session of its own, as its API server calls it."""
    with tables:
        from airflow._shared.state import TaskScope
        from airflow.state.metastore import MetastoreBackend

        backend, scope = MetastoreBackend(), TaskScope(dag_id="dag", run_id="run", task_id="task")
        only([scope])
        yield (lambda key: backend.set(scope, key, TEXT), lambda key: backend.get(scope, key))


@contextmanager
def on_postgresql(url: str) -> Iterator[Bare]:
    import psycopg

    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        bare = Bare(connection.cursor(), "%s", _ON_CONFLICT)
        bare.make("TEXT")
        yield bare


@contextmanager
def on_mysql(url: str) -> Iterator[Bare]:
    import pymysql

    at = make_url(url)
    with closing(
        pymysql.connect(
            host=at.host, port=at.port or 3306, user=at.username, password=at.password or "", database=at.database,
            autocommit=True, charset="utf8mb4",
        )
    ) as connection:  # fmt: skip
        bare = Bare(connection.cursor(), "%s", _ON_DUPLICATE)
        bare.make("MEDIUMTEXT")
        yield bare
