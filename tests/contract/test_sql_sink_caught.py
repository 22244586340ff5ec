"""What becomes of a loop with a sink whose body catches an error, shares its connection, or changes its options."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, insert, select, text
from sqlalchemy.exc import DBAPIError, PendingRollbackError, SQLAlchemyError
from sqlalchemy.pool import SingletonThreadPool, StaticPool

from airflow_resume import checkpoint
from airflow_resume.errors import LoopError, SinkUnsafeError
from airflow_resume.sinks import SqlSink
from airflow_resume.sinks.databases import OUR_OPTIONS
from airflow_resume.testing import TaskAttempt, task_context
from tests.support.sinks.places import ROWS, place_of, rows_in


@pytest.fixture
def attempt() -> TaskAttempt:
    return task_context(retries=9)


@pytest.fixture
def engine(tmp_path: Path) -> Any:
    """PostgreSQL, with a table whose rows are compared at the commit."""
    with place_of("postgresql", tmp_path) as url:
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.execute(text("ALTER TABLE flights ADD UNIQUE (id) DEFERRABLE INITIALLY DEFERRED"))
        yield engine
        engine.dispose()


def break_commit(loop: Any) -> None:
    loop.connection.execute(insert(ROWS), [{"id": 100}, {"id": 100}])


def end_session(loop: Any) -> None:
    with suppress(DBAPIError):
        loop.connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))


BREAKS = [break_commit, end_session]


@pytest.mark.parametrize("commit_every", [1, 2])
@pytest.mark.parametrize("broken", BREAKS)
@pytest.mark.parametrize("acks_again", [False, True])
def test_a_loop_does_not_go_on_after_an_ack_whose_commit_failed(
    engine: Engine, attempt: TaskAttempt, broken: Any, commit_every: int, *, acks_again: bool
) -> None:
    def run(attempt: TaskAttempt, break_at: int | None) -> None:
        with checkpoint(
            [1, 2, 3, 4, 5, 6],
            name="rows",
            sink=SqlSink(engine),
            context=attempt.context,
            ack="manual",
            commit_every=commit_every,
        ) as loop:
            for number in loop:
                loop.connection.execute(insert(ROWS), {"id": number})
                if number == break_at:
                    broken(loop)
                for _ in range(1 + acks_again):
                    with suppress(Exception):
                        loop.ack()

    with pytest.raises(LoopError, match="would go on without them"):
        run(attempt, 4)
    assert rows_in(engine) == ([1, 2, 3] if commit_every == 1 or acks_again else [1, 2])  # it counts acks
    run(attempt.retry(), None)
    assert rows_in(engine) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("broken", BREAKS)
def test_an_inner_loop_whose_commit_failed_ends_the_outer_one(
    engine: Engine, attempt: TaskAttempt, broken: Any
) -> None:
    def run(attempt: TaskAttempt, break_at: int | None) -> None:
        with checkpoint([0, 10], name="outer", sink=SqlSink(engine), context=attempt.context) as outer:
            for ten in outer:
                with suppress(SQLAlchemyError), checkpoint([1, 2, 3], name="inner", within=outer) as inner:
                    for number in inner:
                        outer.connection.execute(insert(ROWS), {"id": ten + number})
                        if ten + number == break_at:
                            broken(outer)

    with pytest.raises(LoopError, match="would go on without them"):
        run(attempt, 2)
    run(attempt.retry(), None)
    assert rows_in(engine) == [1, 2, 3, 11, 12, 13]


def test_a_body_that_goes_on_after_its_connection_was_lost_fails_and_a_retry_does_it_again(
    engine: Engine, attempt: TaskAttempt
) -> None:
    def run(attempt: TaskAttempt, lose_at: int | None) -> None:
        with checkpoint([1, 2, 3], name="rows", sink=SqlSink(engine), context=attempt.context) as loop:
            for number in loop:
                loop.connection.execute(insert(ROWS), {"id": number})
                if number == lose_at:
                    end_session(loop)
                    loop.connection.execute(insert(ROWS), {"id": 100})

    with pytest.raises(PendingRollbackError):
        run(attempt, 2)
    assert rows_in(engine) == [1]
    run(attempt.retry(), None)
    assert rows_in(engine) == [1, 2, 3]


@pytest.mark.parametrize("pool", [StaticPool, SingletonThreadPool])
@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mysql"])
def test_a_pool_that_gives_one_connection_to_everybody_is_refused(
    kind: str, pool: Any, tmp_path: Path, attempt: TaskAttempt
) -> None:
    with place_of(kind, tmp_path) as url:
        engine = create_engine(url, poolclass=pool)
        with pytest.raises(SinkUnsafeError, match="gives one connection to everybody") as raised:
            list(checkpoint([1], name="rows", sink=SqlSink(engine), context=attempt.context))
        assert raised.value.problem == "pool"
        assert rows_in(engine) == []
        engine.dispose()


OPTIONS: list[Callable[[Any], object]] = [
    lambda connection: connection.execution_options(yield_per=100).execute(select(ROWS)).all(),
    lambda connection: connection.execution_options(stream_results=True).execute(select(ROWS)).all(),
    lambda connection: connection.execution_options(schema_translate_map={None: "elsewhere"}),
]


@pytest.mark.parametrize("change", OPTIONS)
def test_options_of_the_body_are_not_those_of_the_position(
    change: Callable[[Any], object], engine: Engine, attempt: TaskAttempt
) -> None:
    """SQLAlchemy sets them on the connection, not on a copy of it."""
    with checkpoint([1, 2], name="rows", sink=SqlSink(engine), context=attempt.context) as loop:
        for number in loop:
            loop.connection.execute(insert(ROWS), {"id": number}, execution_options=OUR_OPTIONS)
            change(loop.connection)
    assert rows_in(engine) == [1, 2]


def test_nor_are_those_of_the_engine(engine: Engine, attempt: TaskAttempt) -> None:
    with engine.begin() as connection:
        connection.execute(text("CREATE SCHEMA IF NOT EXISTS airflow_resume_test_elsewhere"))
        connection.execute(text("CREATE TABLE airflow_resume_test_elsewhere.flights (id int, name varchar(40))"))
    elsewhere = engine.execution_options(schema_translate_map={None: "airflow_resume_test_elsewhere"})
    try:
        with checkpoint([1, 2], name="rows", sink=SqlSink(elsewhere), context=attempt.context) as loop:
            for number in loop:
                loop.connection.execute(insert(ROWS), {"id": number})
        assert (rows_in(engine), rows_in(elsewhere)) == ([], [1, 2])
    finally:
        with engine.begin() as connection:
            connection.execute(text("DROP SCHEMA airflow_resume_test_elsewhere CASCADE"))
