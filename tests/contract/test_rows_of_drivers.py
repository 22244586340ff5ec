"""Rows as drivers of databases and SQLAlchemy give them go through a window: by name, by position, or with one line."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timedelta, timezone
from typing import Any

import pandas as pd
import psycopg
import psycopg2
import psycopg2.extras
import pymysql
import pymysql.cursors
import pytest
from airflow.sdk import Asset
from psycopg import rows as psycopg_rows
from sqlalchemy import Engine, create_engine, insert, make_url, select, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from airflow_resume import watermark
from airflow_resume.errors import ColumnError
from airflow_resume.testing import task_context
from airflow_resume.watermarks import Window

ROWS = Asset("rows")
SELECT = "SELECT id, count FROM tracked WHERE id < 3 OR id > 5 ORDER BY id"
Rows = Callable[[Any], Any]


class Base(DeclarativeBase):
    """The tables here."""


class Tracked(Base):
    """A table with a column that is named like a method of every tuple."""

    __tablename__ = "tracked"

    id: Mapped[int] = mapped_column(primary_key=True)
    count: Mapped[int]


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    made = create_engine(url)
    Base.metadata.create_all(made)
    with made.begin() as connection:
        connection.execute(insert(Tracked), [{"id": n, "count": 10 * n} for n in range(1, 8)])
    yield made
    made.dispose()


def window_of() -> Window[Any]:
    return watermark(ROWS, initial=0).begin(task_context(assets=[ROWS]).context)


def seen(rows: Any, key: Any, **options: Any) -> tuple[int, Any]:
    window = window_of()
    passed = window.track(rows, key, **options)
    count = len(passed) if isinstance(passed, pd.DataFrame) else len(list(passed))
    return count, window.tally.top


SQLALCHEMY: dict[str, Rows] = {
    "rows": lambda session: session.execute(text(SELECT)),
    "mappings": lambda session: session.execute(text(SELECT)).mappings(),
    "all": lambda session: session.execute(select(Tracked.id, Tracked.count).where(Tracked.id > 3)).all(),
    "objects": lambda session: session.scalars(select(Tracked).where(Tracked.id.in_([1, 2, 6, 7]))),
    "streamed": lambda session: session.execute(text(SELECT).execution_options(stream_results=True, yield_per=2)),
    "read_sql": lambda session: pd.read_sql(text(SELECT), session.connection()),
    "read_sql in chunks": lambda session: pd.read_sql(text(SELECT), session.connection(), chunksize=2),
}


@pytest.mark.parametrize("name", list(SQLALCHEMY))
@pytest.mark.parametrize("options", [{}, {"unique": "id"}, {"ordered": True}])
def test_what_sqlalchemy_gives(engine: Engine, name: str, options: Any) -> None:
    with Session(engine) as session:
        rows = SQLALCHEMY[name](session)
        delivered, top = seen(rows, "id", **options)
    parts = {"read_sql in chunks": 2}
    assert (delivered, top) == (parts.get(name, 4), 7)


@pytest.mark.parametrize("name", list(SQLALCHEMY))
def test_a_column_may_be_named_like_a_method_of_a_row(engine: Engine, name: str) -> None:
    with Session(engine) as session:
        assert seen(SQLALCHEMY[name](session), "count")[1] == 70


def by_psycopg(url: str, factory: Any) -> Any:
    with psycopg.connect(dsn(url), row_factory=factory) as connection:
        return connection.execute(SELECT).fetchall()


def by_psycopg2(url: str, factory: Any) -> Any:
    with closing(psycopg2.connect(dsn(url), cursor_factory=factory)) as connection, connection.cursor() as cursor:
        cursor.execute(SELECT)
        return cursor.fetchall()


def dsn(url: str) -> str:
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def by_pymysql(url: str, factory: Any) -> Any:
    at = make_url(url)
    given = {
        "host": at.host,
        "port": at.port,
        "user": at.username,
        "password": at.password or "",
        "database": at.database,
    }
    with closing(pymysql.connect(**given, cursorclass=factory)) as connection, connection.cursor() as cursor:
        cursor.execute(SELECT)
        return list(cursor)


def by_sqlite3(url: str, factory: Any) -> Any:
    with closing(sqlite3.connect(make_url(url).database or "")) as connection:
        connection.row_factory = factory
        return connection.execute(SELECT).fetchall()


DRIVERS: dict[str, list[tuple[Any, Any, bool]]] = {
    "postgresql": [
        (by_psycopg, psycopg_rows.tuple_row, False),
        (by_psycopg, psycopg_rows.dict_row, True),
        (by_psycopg, psycopg_rows.namedtuple_row, True),
        (by_psycopg2, None, False),
        (by_psycopg2, psycopg2.extras.DictCursor, True),
        (by_psycopg2, psycopg2.extras.RealDictCursor, True),
        (by_psycopg2, psycopg2.extras.NamedTupleCursor, True),
    ],
    "mysql": [
        (by_pymysql, pymysql.cursors.Cursor, False),
        (by_pymysql, pymysql.cursors.DictCursor, True),
        (by_pymysql, pymysql.cursors.SSCursor, False),
    ],
    "sqlite": [(by_sqlite3, None, False), (by_sqlite3, sqlite3.Row, True)],
}


@pytest.mark.usefixtures("engine")
def test_what_drivers_give(url: str) -> None:
    """Of rows without names the error says so."""
    for read, factory, has_names in DRIVERS[make_url(url).get_backend_name()]:
        rows = read(url, factory)
        if has_names:
            assert seen(rows, "id") == seen(rows, "id", unique="count") == (4, 7)
        else:
            assert seen(rows, 0) == seen(rows, 0, unique=1) == (4, 7)
            with pytest.raises(ColumnError, match=r"track\(rows, 0\), or a function .* cursor that gives dicts"):
                seen(rows, "id")


def test_times_come_as_the_driver_gives_them(engine: Engine) -> None:
    """A frame of them and the rows by themselves mean the same."""
    moments = [datetime(2026, 1, 1, 0, minute, 0, minute, tzinfo=timezone.utc) for minute in (1, 30)]
    kind = "TIMESTAMP WITH TIME ZONE" if engine.dialect.name == "postgresql" else "TEXT"
    with engine.begin() as connection:
        connection.execute(text(f"CREATE TABLE moments (u {kind})"))
        for moment in moments:
            given = moment if engine.dialect.name == "postgresql" else moment.isoformat()
            connection.execute(text("INSERT INTO moments VALUES (:u)"), {"u": given})
    mark = watermark(ROWS, initial="2026-01-01T00:00:00Z", advance="observed", delay=timedelta(0))
    tops = []
    for whole in (True, False):
        window = mark.begin(task_context(assets=[ROWS]).context)
        with engine.connect() as connection:
            found = text("SELECT u FROM moments")
            rows: Any = pd.read_sql(found, connection) if whole else connection.execute(found)
            passed = window.track(rows, "u")
            assert len(passed if whole else list(passed)) == 2
        tops.append(window.tally.top)
    assert tops == [moments[1]] * 2
