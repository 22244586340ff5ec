"""What a SQL sink raises when the database, its rights or its locks are the trouble, and what a person can do then."""

from __future__ import annotations

import secrets
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event, insert
from sqlalchemy.engine import URL

from airflow_resume import checkpoint
from airflow_resume.compat import AirflowFailException
from airflow_resume.errors import SinkBusyError, SinkError, SinkTableError
from airflow_resume.sink_protocol import Claimant
from airflow_resume.sinks import SqlSink
from airflow_resume.store import MemoryStore
from tests.support.backends.databases import MYSQL, POSTGRESQL, ask, kill_connections, made
from tests.support.sinks.places import KINDS, ROWS, place_of, rows_in

SERVERS = ("postgresql", "mysql")


@contextmanager
def engine_of(kind: str, folder: Path, **options: Any) -> Iterator[Engine]:
    with place_of(kind, folder) as url:
        engine = create_engine(url, **options)
        try:
            yield engine
        finally:
            engine.dispose()


# --- the table cannot be made ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SERVERS)
def test_a_connection_that_is_lost_while_the_table_is_made_is_tried_again_by_a_retry(kind: str, tmp_path: Path) -> None:
    with engine_of(kind, tmp_path) as engine:
        lost: list[str] = []

        def lose(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
            if statement.startswith("CREATE TABLE") and not lost:
                lost.append(statement)
                kill_connections(engine.url.render_as_string(hide_password=False))

        event.listen(engine, "before_cursor_execute", lose)
        with pytest.raises(SinkError, match="was lost while the table") as raised:
            SqlSink(engine).claim(["loop"], Claimant())
        assert lost
        assert not isinstance(raised.value, AirflowFailException)
        SqlSink(engine).claim(["loop"], Claimant()).close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_that_is_missing_is_named(kind: str, tmp_path: Path) -> None:
    with engine_of(kind, tmp_path) as engine:
        with pytest.raises(SinkTableError, match="has no schema 'airflow_resume_test_no_such'") as raised:
            SqlSink(engine, schema="airflow_resume_test_no_such").claim(["loop"], Claimant())
        assert "\\n" not in str(raised.value)
        assert "Make the schema" in str(raised.value)
        assert "who may do that" not in str(raised.value)


@contextmanager
def role(kind: str, *, may_create: bool = False) -> Iterator[tuple[URL, Callable[[str], object]]]:
    """A user who may do nothing with a new schema or database; and a function that executes what an owner says."""
    name = f"airflow_resume_test_{secrets.token_hex(6)}"
    with ExitStack() as at_end:
        if kind == "postgresql":
            server = POSTGRESQL.found()
            at_end.enter_context(made(server, f"CREATE ROLE {name} LOGIN", f"DROP ROLE {name}"))
            at_end.enter_context(made(server, f"CREATE SCHEMA {name}", f"DROP SCHEMA {name} CASCADE"))
            ask(server, f"GRANT USAGE {', CREATE' if may_create else ''} ON SCHEMA {name} TO {name}")
            url = server.set(username=name).update_query_dict({"options": f"-csearch_path={name}"})
            yield url, lambda sql: ask(server, f"SET search_path = {name}; {sql.format(user=name, db=name)}")
        else:
            server = MYSQL.found()
            who = f"{name[:20]}{name[-6:]}"
            at_end.enter_context(made(server, f"CREATE DATABASE {name}", f"DROP DATABASE {name}"))
            at_end.enter_context(
                made(server, f"CREATE USER {who}@'127.0.0.1' IDENTIFIED BY '{who}'", f"DROP USER {who}@'127.0.0.1'")
            )
            place = server.set(database=name)
            ask(server, f"GRANT CREATE TEMPORARY TABLES ON {name}.* TO {who}@'127.0.0.1'")
            yield (
                place.set(username=who, password=who),
                lambda sql: ask(place, sql.format(user=f"{who}@'127.0.0.1'", db=name)),
            )


@pytest.mark.parametrize("kind", SERVERS)
def test_a_user_who_may_make_no_table_gets_the_statement_on_one_line(kind: str) -> None:
    with role(kind) as (url, as_owner):
        sink = SqlSink(url)
        with pytest.raises(SinkTableError, match="CREATE TABLE IF NOT EXISTS") as raised:
            sink.claim(["loop"], Claimant())
        assert "\\t" not in str(raised.value)
        assert "\\n" not in str(raised.value)
        as_owner(raised.value.statement)
        as_owner("GRANT SELECT, INSERT, UPDATE, DELETE ON airflow_resume_positions TO {user}")
        sink.claim(["loop"], Claimant()).close()
        sink.engine.dispose()


RIGHTS = ["SELECT", "INSERT", "UPDATE", "DELETE"]


@pytest.mark.parametrize("missing", RIGHTS)
@pytest.mark.parametrize("kind", SERVERS)
def test_a_right_that_is_missing_is_named_with_the_grant_before_anything_is_written(kind: str, missing: str) -> None:
    with role(kind) as (url, as_owner):
        sink = SqlSink(url)
        as_owner(sink.ddl())
        as_owner("CREATE TABLE flights (id int, name varchar(40))")
        as_owner("GRANT ALL ON flights TO {user}")
        rest = ", ".join(right for right in RIGHTS if right != missing)
        as_owner(f"GRANT {rest} ON airflow_resume_positions TO {{user}}")
        reached = []
        with (
            pytest.raises(SinkTableError, match="GRANT SELECT, INSERT, UPDATE, DELETE ON") as raised,
            checkpoint([1], name="rows", sink=sink, store=MemoryStore()),
        ):
            reached.append("the body")
        assert not reached
        assert raised.value.statement.startswith("GRANT")
        as_owner(f"GRANT {missing} ON airflow_resume_positions TO {{user}}")
        with checkpoint([1], name="rows", sink=sink, store=MemoryStore()) as loop:
            for number in loop:
                loop.connection.execute(insert(ROWS), {"id": number})
        sink.engine.dispose()


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_that_is_too_long_for_the_database_is_told_so(kind: str, tmp_path: Path) -> None:
    with engine_of(kind, tmp_path) as engine:
        sink = SqlSink(engine, table="t" * 100)
        if kind in SERVERS:
            for use in (lambda: sink.claim(["loop"], Claimant()), sink.ddl, sink.make_table):
                with pytest.raises(SinkTableError, match="is longer than the") as raised:
                    use()
                assert "Give table= a shorter name" in str(raised.value)
        else:
            sink.claim(["loop"], Claimant()).close()


# --- locks ----------------------------------------------------------------------------------------------------------

FROZEN = """
    import sys, time
    from sqlalchemy import create_engine, event, insert
    from airflow_resume import checkpoint
    from airflow_resume.sinks import SqlSink
    from airflow_resume.store import MemoryStore
    from tests.support.sinks.places import ROWS

    engine = create_engine(sys.argv[1])
    with checkpoint([1, 2, 3], name="rows", sink=SqlSink(engine, script="s"), store=MemoryStore()) as loop:
        for number in loop:
            loop.connection.execute(insert(ROWS), {"id": number})
            if number == 2:
                if sys.argv[2] == "in the commit":
                    def freeze(*_):
                        print("frozen", flush=True)
                        time.sleep(60)
                    commit, engine.dialect.do_commit = engine.dialect.do_commit, freeze
                else:
                    print("frozen", flush=True)
                    time.sleep(60)
"""


@contextmanager
def frozen(engine: Engine, where: str) -> Iterator[None]:
    url = engine.url.render_as_string(hide_password=False)
    with said([FROZEN, url, where], "frozen"):
        yield


@contextmanager
def said(script: list[str], what: str) -> Iterator[None]:
    """A process that runs until the end of the block, once it has said this."""
    code, *arguments = script
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            while (line := process.stdout.readline()) != f"{what}\n":
                assert line, "it has ended"
            yield
        finally:
            process.kill()


def load(engine: Engine) -> list[int]:
    given = []
    sink = SqlSink(engine, script="s", patience=timedelta(seconds=1))
    with checkpoint([1, 2, 3], name="rows", sink=sink, store=MemoryStore()) as loop:
        for number in loop:
            loop.connection.execute(insert(ROWS), {"id": number})
            given.append(number)
    return given


@pytest.mark.parametrize("where", ["in the body", "in the commit"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "duckdb"])
def test_a_frozen_holder_is_an_error_by_name_or_is_passed(kind: str, where: str, tmp_path: Path) -> None:
    with engine_of(kind, tmp_path, **({"connect_args": {"timeout": 1}} if kind == "sqlite" else {})) as engine:
        with frozen(engine, where):
            if where == "in the body" and kind != "sqlite":
                assert load(engine) == [2, 3]
            else:
                with pytest.raises(SinkBusyError, match="was locked for too long"):
                    load(engine)
        if kind in SERVERS:
            kill_connections(engine.url.render_as_string(hide_password=False))
            engine.dispose()
        load(engine)
        assert rows_in(engine) == [1, 2, 3]


def test_a_lock_in_the_middle_of_a_loop_is_named_too(tmp_path: Path) -> None:
    with engine_of("sqlite", tmp_path, connect_args={"timeout": 0.2}) as engine:
        sink, store = SqlSink(engine), MemoryStore()
        with (
            pytest.raises(SinkBusyError, match="was locked for too long"),
            checkpoint([1, 2], name="rows", sink=sink, store=store) as loop,
        ):
            for number in loop:
                with engine.connect() as other:
                    if number == 2:
                        other.exec_driver_sql("BEGIN IMMEDIATE")
                    loop.connection.execute(insert(ROWS), {"id": number})
        assert rows_in(engine) == [1]


def test_so_is_one_at_the_commit(tmp_path: Path) -> None:
    with engine_of("sqlite", tmp_path, connect_args={"timeout": 0.2}) as engine:
        sink, store = SqlSink(engine), MemoryStore()
        with (
            pytest.raises(SinkBusyError, match="was locked for too long"),
            checkpoint([1, 2], name="rows", sink=sink, store=store) as loop,
        ):
            for number in loop:
                loop.connection.execute(insert(ROWS), {"id": number})
                if number == 2:
                    reader = engine.connect()
                    reader.exec_driver_sql("BEGIN")
                    reader.exec_driver_sql("SELECT * FROM flights").all()
        reader.close()
        assert rows_in(engine) == [1]
        with checkpoint([1, 2], name="rows", sink=sink, store=store) as loop:
            for number in loop:
                loop.connection.execute(insert(ROWS), {"id": number})
        assert rows_in(engine) == [1, 2]


# --- the file of another process ------------------------------------------------------------------------------------

HOLDER = """
    import sys, time
    from sqlalchemy import create_engine

    with create_engine(sys.argv[1]).connect():
        print("open", flush=True)
        time.sleep(float(sys.argv[2]))
"""


@contextmanager
def opened_by_another(url: str, seconds: float) -> Iterator[None]:
    with said([HOLDER, url, str(seconds)], "open"):
        yield


@pytest.mark.parametrize("policy", ["take_over", "fail"])
def test_a_file_of_duckdb_that_another_process_has_open_is_an_error_by_name(policy: Any, tmp_path: Path) -> None:
    with place_of("duckdb", tmp_path) as url, opened_by_another(url, 60):
        sink = SqlSink(url, on_contention=policy)
        with pytest.raises(SinkBusyError, match="has the file"):
            sink.claim(["loop"], Claimant())
        sink.engine.dispose()


@pytest.mark.parametrize(("seconds", "patience"), [(2, 30), (60, 1)])
def test_with_wait_it_is_waited_for_as_long_as_the_patience_says(seconds: int, patience: int, tmp_path: Path) -> None:
    with place_of("duckdb", tmp_path) as url, opened_by_another(url, seconds):
        sink, started = SqlSink(url, on_contention="wait", patience=timedelta(seconds=patience)), time.monotonic()
        if seconds < patience:
            sink.claim(["loop"], Claimant()).close()
        else:
            with pytest.raises(SinkBusyError, match="has the file"):
                sink.claim(["loop"], Claimant())
        assert time.monotonic() - started < 20
        sink.engine.dispose()
