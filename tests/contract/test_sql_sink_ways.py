"""The ways in which a body writes into the transaction of a sink, and the databases that are refused."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from airflow.providers.common.sql.hooks.sql import DbApiHook
from sqlalchemy import Engine, create_engine, make_url, text

from airflow_resume.errors import SinkTableError, SinkUnsafeError
from airflow_resume.sink_protocol import Claimant
from airflow_resume.sinks import SqlSink, hook_on
from airflow_resume.sinks.transaction import SqlPosition
from tests.support.backends.databases import POSTGRESQL, ask, made
from tests.support.sinks.places import KINDS, place_of, rows_in


@pytest.fixture(params=[kind for kind in KINDS if kind != "duckdb"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    with place_of(request.param, tmp_path) as url:
        engine = create_engine(url)
        yield engine
        engine.dispose()


@pytest.fixture
def position(engine: Engine) -> Iterator[SqlPosition]:
    with closing(SqlSink(engine).claim(["loop", "orders"], Claimant())) as position:
        yield position


class Hook(DbApiHook):
    """A hook of a driver, without an Airflow connection."""

    conn_name_attr = "conn_id"
    supports_autocommit = True

    def __init__(self, engine: Engine) -> None:
        super().__init__(conn_id="warehouse")
        self.placeholder_of_driver = "?" if engine.dialect.name == "sqlite" else "%s"

    @property
    def placeholder(self) -> str:
        return self.placeholder_of_driver

    def _generate_insert_sql(self, table: str, values: Any, *_: Any, **__: Any) -> str:
        return f"INSERT INTO {table} VALUES ({', '.join([self.placeholder] * len(values))})"  # noqa: S608


def test_the_rows_of_a_hook_are_committed_with_the_position(position: SqlPosition, engine: Engine) -> None:
    for rolls_back in (True, False):
        hook = hook_on(Hook(engine), position.connection)
        hook.insert_rows("flights", [(1, "a"), (2, "b"), (3, "c")], commit_every=2)
        hook.run(f"INSERT INTO flights VALUES (4, {hook.placeholder})", parameters=("d",))  # noqa: S608
        if rolls_back:
            position.rollback()
            assert rows_in(engine) == []
    position.commit(4)
    assert rows_in(engine) == [1, 2, 3, 4]


def test_a_hook_may_not_commit_each_statement_or_roll_back(position: SqlPosition, engine: Engine) -> None:
    hook = hook_on(Hook(engine), position.connection)
    with pytest.raises(SinkUnsafeError, match="autocommit=False"):
        hook.run("INSERT INTO flights VALUES (4, 'd')", autocommit=True)
    with pytest.raises(SinkUnsafeError, match="rolls the transaction back"):
        hook.get_conn().rollback()


def test_the_drivers_cursor_writes_into_the_transaction(position: SqlPosition, engine: Engine) -> None:
    with closing(position.connection.connection.cursor()) as cursor:
        cursor.execute("INSERT INTO flights VALUES (1, 'a')")
    position.rollback()
    with closing(position.connection.connection.cursor()) as cursor:
        cursor.execute("INSERT INTO flights VALUES (2, 'b')")
    position.commit(2)
    assert rows_in(engine) == [2]


def test_pandas_appends_to_a_table_that_is_there(position: SqlPosition, engine: Engine) -> None:
    frame = pd.DataFrame({"id": [1, 2], "name": ["a", "b"]})
    frame.to_sql("flights", position.connection, if_exists="append", index=False)
    position.rollback()
    frame.to_sql("flights", position.connection, if_exists="append", index=False)
    position.commit(2)
    assert rows_in(engine) == [1, 2]


def test_a_copy_of_postgresql_is_a_part_of_the_transaction(tmp_path: Path) -> None:
    with place_of("postgresql", tmp_path) as url:
        engine = create_engine(url)
        with closing(SqlSink(engine).claim(["loop", "orders"], Claimant())) as position:
            raw: Any = position.connection.connection.dbapi_connection
            with raw.cursor().copy("COPY flights FROM STDIN") as copied:
                copied.write_row((1, "a"))
            position.commit(1)
        assert rows_in(engine) == [1]
        engine.dispose()


# --- refused ------------------------------------------------------------------------------------------------------


def test_a_role_that_may_not_make_tables_gets_the_statement_for_one_that_may() -> None:
    server, name = POSTGRESQL.found(), f"airflow_resume_test_{secrets.token_hex(6)}"
    with (
        made(server, f"CREATE SCHEMA {name}", f"DROP SCHEMA {name} CASCADE"),
        made(server, f"CREATE ROLE {name} LOGIN", f"DROP OWNED BY {name}; DROP ROLE {name}"),
    ):
        ask(server, f"GRANT USAGE ON SCHEMA {name} TO {name}")
        place = server.set(username=name).update_query_dict({"options": f"-csearch_path={name}"})
        sink = SqlSink(place)
        with pytest.raises(SinkTableError, match="CREATE TABLE IF NOT EXISTS airflow_resume_positions") as raised:
            sink.claim(["loop"], Claimant())
        assert raised.value.statement == " ".join(sink.ddl().split())
        assert "@" not in str(raised.value)
        ask(server, f"SET search_path = {name}; {sink.ddl()}; GRANT ALL ON airflow_resume_positions TO {name}")
        sink.claim(["loop"], Claimant()).close()
        sink.engine.dispose()


def test_a_table_of_positions_without_transactions_is_refused_and_others_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with place_of("mysql", tmp_path) as url:
        engine = create_engine(url)
        ask(url, "CREATE TABLE old_orders (id int) ENGINE = MyISAM")
        SqlSink(engine).claim(["loop"], Claimant()).close()
        assert "what is written to old_orders is committed at once" in caplog.text
        ask(url, "ALTER TABLE airflow_resume_positions ENGINE = MyISAM")
        with pytest.raises(SinkUnsafeError, match="ENGINE = InnoDB") as raised:
            SqlSink(engine).claim(["loop"], Claimant())
        assert raised.value.problem == "engine"
        engine.dispose()


def test_a_driver_that_commits_each_statement_is_refused(tmp_path: Path) -> None:
    with place_of("mysql", tmp_path) as url:
        engine = create_engine(make_url(url), connect_args={"autocommit": True})
        with pytest.raises(SinkUnsafeError, match="autocommit"):
            SqlSink(engine).claim(["loop"], Claimant())
        engine.dispose()


def test_a_person_can_read_whose_a_position_is(position: SqlPosition, engine: Engine) -> None:
    position.commit({"at": 7})
    with engine.connect() as connection:
        found = connection.execute(
            text("SELECT identity, claim, version, position FROM airflow_resume_positions")
        ).one()
    assert found == ('["loop","orders"]', '{"owner": "", "started": null, "try": 1, "released": false}', 1, '{"at":7}')
