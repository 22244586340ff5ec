"""Every way of autocommit is refused by name before anything is written, and what only looks like one is not."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event, insert, inspect, make_url
from sqlalchemy.engine import URL

from airflow_resume import checkpoint
from airflow_resume.errors import SinkUnsafeError
from airflow_resume.sinks import SqlSink
from airflow_resume.store import MemoryStore
from tests.support.sinks.places import ROWS, place_of, rows_in


class BodyError(Exception):
    """What a body raises."""


def on_connect(act: Callable[[Any], object]) -> Callable[[URL], Engine]:
    def make(url: URL) -> Engine:
        engine = create_engine(url)
        event.listen(engine, "connect", lambda raw, _record: act(raw))
        return engine

    return make


def on_checkout(act: Callable[[Any], object]) -> Callable[[URL], Engine]:
    def make(url: URL) -> Engine:
        engine = create_engine(url)
        event.listen(engine, "checkout", lambda raw, _record, _proxy: act(raw))
        return engine

    return make


def attribute(name: str, value: object) -> Callable[[Any], None]:
    return lambda raw: setattr(raw, name, value)


def by_options(**options: Any) -> Callable[[URL], Engine]:
    return lambda url: create_engine(url).execution_options(**options)


def by_arguments(**options: Any) -> Callable[[URL], Engine]:
    return lambda url: create_engine(url, **options)


EVERYWHERE: dict[str, Callable[[URL], Engine]] = {
    "create_engine(isolation_level=)": by_arguments(isolation_level="AUTOCOMMIT"),
    "and skip_autocommit_rollback=": by_arguments(isolation_level="AUTOCOMMIT", skip_autocommit_rollback=True),
    "in execution_options": by_options(isolation_level="AUTOCOMMIT"),
    "in execution_options of the engine": by_arguments(execution_options={"isolation_level": "AUTOCOMMIT"}),
}
WAYS: dict[str, dict[str, Callable[[URL], Engine]]] = {
    "sqlite": {
        **EVERYWHERE,
        "connect_args": by_arguments(connect_args={"isolation_level": None}),
        "the driver's connection": on_connect(attribute("isolation_level", None)),
    },
    "postgresql": {
        **EVERYWHERE,
        "connect_args": by_arguments(connect_args={"autocommit": True}),
        "the driver's connection": on_connect(attribute("autocommit", True)),
        "at each checkout": on_checkout(attribute("autocommit", True)),
        "psycopg2": lambda url: on_connect(attribute("autocommit", True))(url.set(drivername="postgresql+psycopg2")),
    },
    "mysql": {
        **EVERYWHERE,
        "connect_args": by_arguments(connect_args={"autocommit": True}),
        "the driver's connection": on_connect(lambda raw: raw.autocommit(True)),
        "at each checkout": on_checkout(lambda raw: raw.autocommit(True)),
        "a statement": on_connect(lambda raw: raw.cursor().execute("SET autocommit = 1")),
        "init_command": by_arguments(connect_args={"init_command": "SET autocommit = 1", "autocommit": None}),
    },
    "duckdb": {},
}
if hasattr(sqlite3, "LEGACY_TRANSACTION_CONTROL"):
    WAYS["sqlite"]["autocommit="] = by_arguments(connect_args={"autocommit": True})
ALL = [(kind, way) for kind, ways in WAYS.items() for way in ways]


@contextmanager
def disposed(engine: Engine) -> Iterator[Engine]:
    try:
        yield engine
    finally:
        engine.dispose()


@pytest.mark.parametrize(("kind", "way"), ALL, ids=str)
def test_it_is_refused_before_anything_is_written(kind: str, way: str, tmp_path: Path) -> None:
    with place_of(kind, tmp_path) as url, disposed(WAYS[kind][way](make_url(url))) as engine:
        reached = []
        with (
            pytest.raises(SinkUnsafeError, match="autocommit") as raised,
            checkpoint([1], name="rows", sink=SqlSink(engine), store=MemoryStore()),
        ):
            reached.append("the body")
        assert raised.value.problem == "autocommit"
        assert not reached
        with disposed(create_engine(url)) as plain, plain.connect() as connection:
            assert rows_in(plain) == []
            if inspect(connection).has_table("airflow_resume_positions"):
                assert connection.execute(SqlSink(plain).positions.select()).all() == []


@pytest.mark.parametrize("way", [*WAYS["postgresql"], "mysql"])
def test_what_the_connection_does_not_say_is_found_out_by_a_roll_back(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_resume.sinks.claim.check_autocommit", lambda *_: None)
    kind = "mysql" if way == "mysql" else "postgresql"
    make = WAYS["mysql"]["at each checkout"] if way == "mysql" else WAYS[kind][way]
    with place_of(kind, tmp_path) as url, disposed(make(make_url(url))) as engine:
        with pytest.raises(SinkUnsafeError, match="autocommit"):
            checkpoint([1], name="rows", sink=SqlSink(engine), store=MemoryStore()).__enter__()
        with disposed(create_engine(url)) as plain, plain.connect() as connection:
            assert connection.execute(SqlSink(plain).positions.select()).all() == []


# --- what is not autocommit ----------------------------------------------------------------------------------------


def by_recipe(statement: str = "BEGIN") -> Callable[[URL], Engine]:
    """The engine that SQLAlchemy's documentation recommends for transactions with SQLite."""

    def make(url: URL) -> Engine:
        engine = create_engine(url)
        event.listen(engine, "connect", lambda raw, _record: setattr(raw, "isolation_level", None))
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(statement))
        return engine

    return make


ENGINES: dict[str, Callable[[URL], Engine]] = {
    "plain": create_engine,
    "recipe": by_recipe(),
    "recipe, immediate": by_recipe("BEGIN IMMEDIATE"),
    "recipe, exclusive": by_recipe("begin exclusive transaction"),
    "isolation_level=SERIALIZABLE": by_arguments(isolation_level="SERIALIZABLE"),
    "isolation_level=IMMEDIATE": by_arguments(connect_args={"isolation_level": "IMMEDIATE"}),
}


@pytest.mark.parametrize("commit_every", [1, 2])
@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("how", ENGINES)
def test_an_engine_of_sqlite_that_begins_transactions_by_itself_works(
    how: str, tmp_path: Path, commit_every: int, *, kept: bool
) -> None:
    with place_of("sqlite", tmp_path) as url, disposed(ENGINES[how](make_url(url))) as engine:
        store = MemoryStore()
        for fail_at in (2, 3, None):
            with (
                suppress(BodyError),
                checkpoint(
                    [1, 2, 3, 4], name="rows", sink=SqlSink(engine), store=store, commit_every=commit_every
                ) as loop,
            ):
                connection = None
                for number in loop:
                    if connection is None or not kept:
                        connection = loop.connection
                    connection.execute(insert(ROWS), {"id": number})
                    if number == fail_at:
                        raise BodyError
        assert rows_in(engine) == [1, 2, 3, 4]


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_other_isolation_levels_work(kind: str, level: Any, tmp_path: Path) -> None:
    with place_of(kind, tmp_path) as url, disposed(create_engine(url, isolation_level=level)) as engine:
        with checkpoint([1, 2], name="rows", sink=SqlSink(engine), store=MemoryStore()) as loop:
            for number in loop:
                loop.connection.execute(insert(ROWS), {"id": number})
        assert rows_in(engine) == [1, 2]
