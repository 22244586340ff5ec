"""The clock of the source's database: in UTC whatever the session's zone is, and not asked when a Dag file is read."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import airflow.sdk
import pytest
import sqlalchemy as sa
from airflow.sdk import Asset
from sqlalchemy.orm import Session

from airflow_resume import watermark
from airflow_resume.errors import CursorTypeError, WatermarkError
from airflow_resume.watermarks import Cursor, sql_now
from airflow_resume.watermarks.cursors.zones import now_on_clock
from tests.support.backends.databases import database_on_mysql, schema_on_postgresql
from tests.support.watermarks.source_tables import MYSQL, POSTGRESQL, SESSIONS, Driver
from tests.support.watermarks.whole_numbers import a_try, load

UTC = timezone.utc
MILLISECOND = timedelta(milliseconds=1)


def is_now(clock: Callable[[], datetime]) -> bool:
    """The servers run on this machine; SQLite tells milliseconds."""
    before = datetime.now(tz=UTC)
    told = clock()
    return told.tzinfo is UTC and before - MILLISECOND <= told <= datetime.now(tz=UTC)


@pytest.mark.parametrize("zone", SESSIONS)
@pytest.mark.parametrize("driver", POSTGRESQL, ids=str)
def test_the_time_of_postgresql(driver: Driver, zone: str) -> None:
    with schema_on_postgresql() as url:
        assert is_now(sql_now(lambda: driver.connect(url, zone)))


@pytest.mark.parametrize("zone", SESSIONS)
@pytest.mark.parametrize("driver", MYSQL, ids=str)
def test_the_time_of_mysql(driver: Driver, zone: str) -> None:
    with database_on_mysql() as url:
        assert is_now(sql_now(lambda: driver.connect(url, zone)))


@pytest.fixture
def opened() -> Iterator[Any]:
    """A function that opens a connection, and what it has opened."""
    made: list[sqlite3.Connection] = []

    def connect() -> sqlite3.Connection:
        made.append(sqlite3.connect(":memory:"))
        return made[-1]

    yield SimpleNamespace(connect=connect, made=made)
    for connection in made:
        connection.close()


def test_a_connection_is_opened_for_each_question_and_closed_again(opened: Any) -> None:
    clock = sql_now(opened.connect)
    mark = watermark(Asset("numbers"), initial="2026-01-01T00:00:00Z", delay=timedelta(0), now=clock)
    assert opened.made == []
    window = load(a_try(), mark)
    assert window.end <= datetime.now(tz=UTC)
    assert len(opened.made) == 1
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        opened.made[0].execute("SELECT 1")


def test_an_engine_a_session_a_hook_and_a_conn_id(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = sa.create_engine("sqlite://")
    hook = SimpleNamespace(get_conn=opened.connect)
    monkeypatch.setattr(airflow.sdk.BaseHook, "get_hook", {"orders_db": hook}.__getitem__)
    for source in (engine, lambda: engine, engine.connect, lambda: Session(engine), hook, lambda: hook, "orders_db"):
        assert is_now(sql_now(source))
    engine.dispose()


@pytest.mark.parametrize(
    "answer",
    [
        "'2026-01-01 12:00:00.5'",
        "'2026-01-01T12:00:00.500000Z'",
        "'2026-01-01T13:00:00.5+01:00'",
        "'2026-01-01 12:00:00.5000000'",
        "'2026-01-01 13:00:00,5+0100'",
    ],
)
def test_a_query_of_ones_own(opened: Any, answer: str) -> None:
    moment = datetime(2026, 1, 1, 12, 0, 0, 500_000, tzinfo=UTC)
    assert sql_now(opened.connect, query=f"SELECT {answer}")() == moment
    with pytest.raises(CursorTypeError, match="the time of the database"):
        sql_now(opened.connect, query="SELECT 5")()


def test_an_answer_without_a_time_says_so(opened: Any) -> None:
    engine = sa.create_engine("sqlite://")
    for source in (opened.connect, engine, lambda: Session(engine)):
        with pytest.raises(WatermarkError, match=r"has no row: SELECT 1 WHERE 0\nGive sql_now\(\) a query"):
            sql_now(source, query="SELECT 1 WHERE 0")()
        with pytest.raises(CursorTypeError, match="the time of the database is None"):
            sql_now(source, query="SELECT NULL")()
        with pytest.raises(CursorTypeError, match=r"the time of the database is 'soon'.*not ISO 8601"):
            sql_now(source, query="SELECT 'soon'")()
    engine.dispose()


def test_for_a_cursor_without_a_zone_the_time_of_one(opened: Any) -> None:
    clock = sql_now(opened.connect, tz="Asia/Tokyo", query="SELECT '2026-01-01 12:00:00'")
    assert clock() == now_on_clock(datetime(2026, 1, 1, 12, tzinfo=UTC), "Asia/Tokyo")
    initial = datetime(2026, 1, 1)  # noqa: DTZ001
    mark = watermark(
        Asset("numbers"), initial=initial, cursor=Cursor.datetime(tz=None), delay=timedelta(hours=1), now=clock
    )
    assert load(a_try(), mark).end == datetime(2026, 1, 1, 20)  # noqa: DTZ001


def test_what_would_be_opened_when_the_dag_file_is_read_is_refused(opened: Any) -> None:
    with pytest.raises(TypeError, match=r"whenever the Dag file is read\.\nGive a function"):
        sql_now(SimpleNamespace(cursor=None))
    with pytest.raises(ValueError, match="Europe/Nowhere"):
        sql_now(opened.connect, tz="Europe/Nowhere")
    with closing(sqlite3.connect(":memory:")) as connection, pytest.raises(TypeError, match="Connection"):
        sql_now(connection)


def test_a_database_whose_question_is_not_known_says_so() -> None:
    other = type("Connection", (), {"__module__": "oracledb", "close": lambda _: None})
    with pytest.raises(WatermarkError, match=r"ask oracle for its time is not known\.\nGive it"):
        sql_now(other)()
