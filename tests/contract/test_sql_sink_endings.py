"""What becomes of a body that ends the transaction where nobody sees it, on every database."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event, insert, text
from sqlalchemy.exc import DBAPIError

from airflow_resume import checkpoint
from airflow_resume.errors import SinkError, SinkUnsafeError
from airflow_resume.loops import Skip
from airflow_resume.sink_protocol import Claimant
from airflow_resume.sinks import SqlSink, hook_on
from airflow_resume.testing import TaskAttempt, task_context
from tests.support.sinks.places import KINDS, ROWS, place_of, rows_in


class BodyError(Exception):
    """What a body raises."""


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(kind: str, tmp_path: Path) -> Iterator[str]:
    with place_of(kind, tmp_path) as url:
        yield url


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    engine = create_engine(url)
    yield engine
    engine.dispose()


@pytest.fixture
def sink(engine: Engine) -> SqlSink:
    return SqlSink(engine, patience=timedelta(seconds=1))


@pytest.fixture
def attempt() -> TaskAttempt:
    return task_context(retries=9)


def by_cursor(*statements: str) -> Callable[[Any], None]:
    def execute(loop: Any) -> None:
        cursor = loop.connection.connection.cursor()
        for statement in statements:
            cursor.execute(statement)
        cursor.close()

    return execute


def by_text(*statements: str) -> Callable[[Any], None]:
    def execute(loop: Any) -> None:
        for statement in statements:
            loop.connection.execute(text(statement))

    return execute


EVERYWHERE: dict[str, Callable[[Any], object]] = {
    "connection.connection.commit()": lambda loop: loop.connection.connection.commit(),
    "driver_connection.commit()": lambda loop: loop.connection.connection.driver_connection.commit(),
    "a cursor of the driver": by_cursor("COMMIT"),
}
BY_RESULT: dict[str, Callable[[Any], object]] = {
    "result.cursor.connection": lambda loop: loop.connection.exec_driver_sql("SELECT 1").cursor.connection.commit(),
}
ENDINGS: dict[str, dict[str, Callable[[Any], object]]] = {
    "sqlite": {**EVERYWHERE, **BY_RESULT},
    "postgresql": {**EVERYWHERE, **BY_RESULT, "select 1; commit": by_text("select 1; commit")},
    "duckdb": {**EVERYWHERE, "select 1; commit": by_text("select 1; commit")},
    "mysql": {
        **EVERYWHERE,
        "result.context.cursor": lambda loop: loop.connection.exec_driver_sql(
            "SELECT 1"
        ).context.cursor.connection.commit(),
        "/*!50000 commit */": by_text("/*!50000 commit */"),
        "EXECUTE IMMEDIATE": by_text("EXECUTE IMMEDIATE 'commit'"),
        "PREPARE": by_text("PREPARE hidden FROM 'commit'", "EXECUTE hidden"),
        "CALL": by_text("CALL hidden_commit()"),
        "CREATE by the driver": by_cursor("CREATE TABLE made_by_body (id int)"),
        "autocommit(True)": lambda loop: loop.connection.connection.driver_connection.autocommit(True),
    },
}
ALL = [(kind, ending) for kind, endings in ENDINGS.items() for ending in endings]


def load(sink: SqlSink, attempt: TaskAttempt, end: Callable[[Any], object], *, fails: bool, **options: Any) -> None:
    """Append rows; the transaction of the third one is ended after its row is written."""
    with checkpoint([1, 2, 3, 4, 5], name="rows", sink=sink, context=attempt.context, **options) as loop:
        for number in loop:
            loop.connection.execute(insert(ROWS), {"id": number})
            if number == 3:
                end(loop)
                loop.connection.execute(insert(ROWS), {"id": 30})
                if fails:
                    raise BodyError


def skipped_load(sink: SqlSink, attempt: TaskAttempt, end: Callable[[Any], object]) -> None:
    skip = Skip(on=(Exception,))
    with checkpoint(
        [1, 2, 3, 4, 5], name="rows", sink=sink, context=attempt.context, skip=skip, commit_every=6
    ) as loop:
        for number in loop:
            with loop.skipping():
                loop.connection.execute(insert(ROWS), {"id": number})
                if number == 3:
                    end(loop)
                    raise BodyError


@pytest.fixture(params=ALL, ids="-".join)
def ending(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Engine, Callable[[Any], object]]]:
    kind, name = request.param
    with place_of(kind, tmp_path) as url:
        engine = create_engine(url)
        if kind == "mysql":
            with engine.begin() as connection:
                connection.execute(text("CREATE PROCEDURE hidden_commit() BEGIN COMMIT; END"))
        yield engine, ENDINGS[kind][name]
        engine.dispose()


@pytest.mark.parametrize("fails", [False, True])
def test_rows_that_are_kept_without_their_position_are_noticed_and_not_written_again(
    ending: tuple[Engine, Callable[[Any], object]], attempt: TaskAttempt, *, fails: bool
) -> None:
    engine, end = ending
    sink = SqlSink(engine)
    with pytest.raises((BodyError, SinkUnsafeError) if fails else SinkUnsafeError) as raised:
        load(sink, attempt, end, fails=fails)  # the row after the end may be refused already
    if isinstance(raised.value, SinkUnsafeError):
        assert raised.value.problem == "kept"
    kept = rows_in(engine)
    assert kept[:3] == [1, 2, 3]
    for _ in range(2):
        attempt = attempt.retry()
        with pytest.raises(SinkUnsafeError, match="was committed without its position") as refused:
            load(sink, attempt, lambda _loop: None, fails=False)
        assert refused.value.problem == "kept"
    assert rows_in(engine) == kept
    with engine.begin() as person:  # who looks at the rows, deletes them, and then does what the remedy says
        person.execute(ROWS.delete().where(ROWS.c.id.in_([3, 30])))
        person.execute(text(str(refused.value.remedy).partition("then: ")[2].rstrip(".")))
    load(sink, attempt.retry(), lambda _loop: None, fails=False)
    assert rows_in(engine) == [1, 2, 3, 4, 5, 30]


def test_a_skipped_element_does_not_hide_it(
    ending: tuple[Engine, Callable[[Any], object]], attempt: TaskAttempt
) -> None:
    engine, end = ending
    if engine.dialect.name == "duckdb":
        pytest.skip("it has no savepoints")
    sink = SqlSink(engine)
    with pytest.raises(SinkUnsafeError):
        skipped_load(sink, attempt, end)
    with pytest.raises(SinkUnsafeError, match="was committed without its position"):
        load(sink, attempt.retry(), lambda _loop: None, fails=False)
    assert rows_in(engine) == [1, 2, 3]


WHEN_99 = "BEGIN IF NEW.id = 99 THEN CALL committing(); END IF; END"
COMMITTING = {
    "postgresql": (
        "CREATE PROCEDURE committing() LANGUAGE plpgsql AS 'BEGIN COMMIT; END'",
        "CREATE FUNCTION by_itself() RETURNS int LANGUAGE plpgsql AS 'BEGIN COMMIT; RETURN 1; END'",
        "CREATE FUNCTION by_a_procedure() RETURNS int LANGUAGE plpgsql AS 'BEGIN CALL committing(); RETURN 1; END'",
        "CREATE FUNCTION by_a_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN COMMIT; RETURN NEW; END'",
        "CREATE TRIGGER by_a_row BEFORE INSERT ON flights FOR EACH ROW WHEN (NEW.id = 99) EXECUTE FUNCTION by_a_row()",
    ),
    "mysql": (
        "CREATE PROCEDURE committing() BEGIN COMMIT; END",
        "CREATE FUNCTION by_itself() RETURNS int BEGIN COMMIT; RETURN 1; END",
        "CREATE FUNCTION by_a_procedure() RETURNS int BEGIN CALL committing(); RETURN 1; END",
        f"CREATE TRIGGER by_a_row BEFORE INSERT ON flights FOR EACH ROW {WHEN_99}",
    ),
}


@pytest.mark.parametrize("kind", COMMITTING)
@pytest.mark.parametrize(
    "statement", ["SELECT by_itself()", "SELECT by_a_procedure()", "INSERT INTO flights (id) VALUES (99)"]
)
def test_no_function_and_no_trigger_can_commit(
    kind: str, statement: str, sink: SqlSink, engine: Engine, attempt: TaskAttempt
) -> None:
    """So after a statement that only inserts, updates, deletes or selects, nothing can have been kept."""
    for made in COMMITTING[kind]:
        with suppress(DBAPIError), engine.begin() as connection:  # MySQL refuses one when it is made
            connection.exec_driver_sql(made)

    def run(loop: Any) -> None:
        loop.connection.exec_driver_sql(statement)

    with pytest.raises(DBAPIError):
        load(sink, attempt, run, fails=False)
    assert rows_in(engine) == [1, 2]
    load(sink, attempt.retry(), lambda _loop: None, fails=False)
    assert rows_in(engine) == [1, 2, 3, 4, 5, 30]


KILLED = """
    import os, signal, sys
    from sqlalchemy import create_engine, insert
    from airflow_resume import checkpoint
    from airflow_resume.sinks import SqlSink
    from airflow_resume.store import MemoryStore
    from tests.support.sinks.places import ROWS

    sink = SqlSink(create_engine(sys.argv[1]), script="killed")
    with checkpoint([1, 2, 3], name="rows", sink=sink, store=MemoryStore()) as loop:
        for number in loop:
            loop.connection.execute(insert(ROWS), {"id": number})
            if number == 2:
                loop.connection.connection.driver_connection.commit()
                os.kill(os.getpid(), signal.SIGKILL)
"""


def test_nor_does_a_kill_right_after_it(url: str, engine: Engine) -> None:
    engine.dispose()
    died = subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED), url], check=False, env=os.environ)
    assert died.returncode == -signal.SIGKILL
    with pytest.raises(SinkUnsafeError, match="was committed without its position"):
        SqlSink(engine).claim(["loop", "", "", "", -1, "resume.loop.rows"], Claimant())
    assert rows_in(engine) == [1, 2]


# --- a connection that was kept ---------------------------------------------------------------------------------------


def kept_driver(loop: Any) -> Callable[[str], object]:
    raw = loop.connection.connection.driver_connection

    def execute(statement: str) -> None:
        cursor = raw.cursor()
        cursor.execute(statement)
        cursor.close()

    return execute


def kept_hook(loop: Any) -> Callable[[str], object]:
    return hook_on(DriverHook(), loop.connection).execute


class DriverHook:
    """Like a hook of Airflow: it takes its connection from `get_conn` for each statement."""

    get_conn: Callable[[], Any]

    def execute(self, statement: str) -> None:
        cursor = self.get_conn().cursor()
        cursor.execute(statement)
        cursor.close()


@pytest.mark.parametrize("keep", [kept_driver, kept_hook])
@pytest.mark.parametrize("ends", [False, True])
def test_a_connection_of_the_driver_that_was_taken_in_an_earlier_element_is_guarded_too(
    sink: SqlSink, engine: Engine, attempt: TaskAttempt, keep: Callable[[Any], Callable[[str], object]], *, ends: bool
) -> None:
    def append(attempt: TaskAttempt, fail_at: int | None) -> None:
        with checkpoint([1, 2, 3, 4], name="rows", sink=sink, context=attempt.context) as loop:
            execute: Callable[[str], object] | None = None
            for number in loop:
                execute = execute or keep(loop)  # in the first element
                execute(f"INSERT INTO flights (id) VALUES ({number})")  # noqa: S608  a number
                if number == fail_at:
                    if ends:
                        execute("COMMIT")
                    raise BodyError

    with pytest.raises(BodyError):
        append(attempt, 3)
    if ends:
        with pytest.raises(SinkUnsafeError, match="was committed without its position"):
            append(attempt.retry(), None)
        assert rows_in(engine) == [1, 2, 3]
    else:
        append(attempt.retry(), None)
        assert rows_in(engine) == [1, 2, 3, 4]


@pytest.mark.parametrize("ends", [False, True])
def test_nor_does_the_driver_hide_behind_a_connection_that_was_kept(
    sink: SqlSink, engine: Engine, attempt: TaskAttempt, *, ends: bool
) -> None:
    """The driver's connection is asked for in the third element, before `loop.connection` was used there."""

    def append(attempt: TaskAttempt, fail_at: int | None) -> None:
        with checkpoint([1, 2, 3, 4], name="rows", sink=sink, context=attempt.context) as loop:
            kept: Any = None
            for number in loop:
                if kept is None or number != 3:
                    kept = loop.connection
                    kept.execute(insert(ROWS), {"id": number})
                    continue
                cursor = kept.connection.cursor()
                cursor.execute("INSERT INTO flights (id) VALUES (3)")
                if ends:
                    cursor.execute("COMMIT")
                cursor.close()
                if number == fail_at:
                    raise BodyError

    with pytest.raises(BodyError):
        append(attempt, 3)
    if ends:
        with pytest.raises(SinkUnsafeError, match="was committed without its position"):
            append(attempt.retry(), None)
        assert rows_in(engine) == [1, 2, 3]
    else:
        append(attempt.retry(), None)
        assert rows_in(engine) == [1, 2, 3, 4]


# --- what was rolled back -------------------------------------------------------------------------------------------


UNDONE: dict[str, Callable[[Any], object]] = {
    "the driver's rollback()": lambda loop: loop.connection.connection.rollback(),
    "a cursor of the driver": by_cursor("ROLLBACK"),
}


@pytest.mark.parametrize("how", UNDONE)
def test_a_transaction_that_was_rolled_back_is_done_again_by_a_retry(
    sink: SqlSink, engine: Engine, attempt: TaskAttempt, how: str
) -> None:
    if engine.dialect.name == "duckdb":
        pytest.skip("it is in no transaction afterwards, see below")
    with pytest.raises(SinkError, match="was rolled back") as raised:
        load(sink, attempt, UNDONE[how], fails=False)
    assert not isinstance(raised.value, SinkUnsafeError)
    assert rows_in(engine) == [1, 2]
    load(sink, attempt.retry(), lambda _loop: None, fails=False)
    assert rows_in(engine) == [1, 2, 3, 4, 5, 30]


def with_the_recipe(url: str) -> Engine:
    """An engine for SQLite that begins transactions as the documentation of SQLAlchemy says."""
    engine = create_engine(url)

    @event.listens_for(engine, "connect")
    def no_begin_of_the_driver(raw: Any, _record: Any) -> None:
        raw.isolation_level = None

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN")

    return engine


AUTOCOMMITTING: dict[str, Callable[[str], Engine]] = {
    "sqlite": with_the_recipe,
    "postgresql": lambda url: create_engine(url.replace("+psycopg:", "+psycopg2:")),
    "duckdb": create_engine,
}


@pytest.fixture(params=AUTOCOMMITTING)
def autocommitting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """An engine whose driver begins no transaction after a ROLLBACK that it has not seen."""
    with place_of(request.param, tmp_path) as url:
        engine = AUTOCOMMITTING[request.param](url)
        yield engine
        engine.dispose()


@pytest.mark.parametrize("ends_by", ["the end of the element", "an error", "a statement"])
def test_what_is_written_in_no_transaction_after_a_roll_back_is_not_written_again(
    autocommitting: Engine, attempt: TaskAttempt, ends_by: str
) -> None:
    sink = SqlSink(autocommitting)

    def run(attempt: TaskAttempt, *, wrong: bool) -> None:
        with checkpoint([1, 2, 3], name="rows", sink=sink, context=attempt.context) as loop:
            for number in loop:
                loop.connection.execute(insert(ROWS), {"id": number})
                if number == 2 and wrong:
                    by_cursor("ROLLBACK", "INSERT INTO flights (id) VALUES (20)")(loop)
                    if ends_by == "an error":
                        raise BodyError
                    if ends_by == "a statement":
                        with suppress(SinkError):
                            loop.connection.execute(insert(ROWS), {"id": 21})

    with pytest.raises(BodyError if ends_by == "an error" else SinkUnsafeError) as raised:
        run(attempt, wrong=True)
    if isinstance(raised.value, SinkUnsafeError):
        assert raised.value.problem == "kept"
    assert rows_in(autocommitting) == [1, 20]
    for again in (attempt.retry(), attempt.retry()):
        with pytest.raises(SinkUnsafeError, match="was committed without its position") as refused:
            run(again, wrong=False)
    assert rows_in(autocommitting) == [1, 20]
    with autocommitting.begin() as person:
        person.execute(ROWS.delete().where(ROWS.c.id == 20))
        person.execute(text(str(refused.value.remedy).partition("then: ")[2].rstrip(".")))
    run(attempt.retry(), wrong=False)
    assert rows_in(autocommitting) == [1, 2, 3]


def by_methods(loop: Any) -> None:
    raw = loop.connection.connection.driver_connection
    raw.rollback()
    by_cursor("INSERT INTO flights (id) VALUES (20)")(loop)
    raw.commit()


BY_STATEMENTS = by_cursor("ROLLBACK", "BEGIN", "INSERT INTO flights (id) VALUES (20)", "COMMIT")
DRIVERS: dict[str, tuple[Callable[[str], Engine], Callable[[Any], object]]] = {
    "sqlite": (create_engine, by_methods),
    "sqlite with the recipe": (with_the_recipe, BY_STATEMENTS),
    "postgresql": (create_engine, by_methods),
    "postgresql by statements": (create_engine, BY_STATEMENTS),
    "postgresql by psycopg2": (AUTOCOMMITTING["postgresql"], by_methods),
    "mysql": (create_engine, by_methods),
    "mysql by statements": (create_engine, BY_STATEMENTS),
    "duckdb": (create_engine, BY_STATEMENTS),
}


@pytest.mark.parametrize("ends_by", ["the end of the element", "an error"])
@pytest.mark.parametrize("name", DRIVERS)
def test_what_is_committed_by_the_driver_after_a_roll_back_is_not_written_again(
    name: str, ends_by: str, tmp_path: Path, attempt: TaskAttempt
) -> None:
    make, end = DRIVERS[name]
    with place_of(name.partition(" ")[0], tmp_path) as url:
        engine = make(url)
        sink = SqlSink(engine)

        def run(attempt: TaskAttempt, *, wrong: bool) -> None:
            with checkpoint([1, 2, 3], name="rows", sink=sink, context=attempt.context) as loop:
                for number in loop:
                    loop.connection.execute(insert(ROWS), {"id": number})
                    if number == 2 and wrong:
                        end(loop)
                        if ends_by == "an error":
                            raise BodyError

        with pytest.raises(BodyError if ends_by == "an error" else SinkUnsafeError):
            run(attempt, wrong=True)
        for again in (attempt.retry(), attempt.retry()):
            with pytest.raises(SinkUnsafeError, match="was committed without its position") as refused:
                run(again, wrong=False)
        assert refused.value.problem == "kept"
        assert rows_in(engine) == [1, 20]
        engine.dispose()


@pytest.mark.parametrize("name", DRIVERS)
def test_an_error_after_the_driver_was_used_as_it_should_be_is_done_again(
    name: str, tmp_path: Path, attempt: TaskAttempt
) -> None:
    with place_of(name.partition(" ")[0], tmp_path) as url:
        engine = DRIVERS[name][0](url)

        def run(attempt: TaskAttempt, fail_at: int | None) -> None:
            with checkpoint([1, 2, 3], name="rows", sink=SqlSink(engine), context=attempt.context) as loop:
                for number in loop:
                    by_cursor(f"INSERT INTO flights (id) VALUES ({number})")(loop)  # noqa: S608  a number
                    if number == fail_at:
                        with suppress(DBAPIError):
                            loop.connection.execute(text("SELECT * FROM no_such_table"))
                        raise BodyError

        for fail_at in (2, 2, 3):
            with pytest.raises(BodyError):
                run(attempt, fail_at)
            attempt = attempt.retry()
        run(attempt, None)
        assert rows_in(engine) == [1, 2, 3]
        engine.dispose()


OR_ROLLBACK = ROWS.insert().prefix_with("OR ROLLBACK").values(id=1)


def fails_and_rolls_back(loop: Any) -> None:
    statement = {
        "sqlite": "INSERT OR ROLLBACK INTO flights (id) VALUES (1)",
        "postgresql": "PREPARE TRANSACTION 'airflow_resume_test'",
    }[loop.connection.dialect.name]
    with suppress(DBAPIError):
        loop.connection.execute(text(statement))


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_after_an_error_that_rolls_back_nothing_is_written_in_no_transaction(
    kind: str, tmp_path: Path, attempt: TaskAttempt
) -> None:
    with place_of(kind, tmp_path) as url:
        engine = AUTOCOMMITTING[kind](url)
        with engine.begin() as connection:
            connection.execute(text("CREATE UNIQUE INDEX once ON flights (id)"))
        sink = SqlSink(engine)
        with pytest.raises(SinkError, match="was rolled back") as raised:
            load(sink, attempt, fails_and_rolls_back, fails=False)
        assert not isinstance(raised.value, SinkUnsafeError)
        assert rows_in(engine) == [1, 2]
        load(sink, attempt.retry(), lambda _loop: None, fails=False)
        assert rows_in(engine) == [1, 2, 3, 4, 5, 30]
        engine.dispose()


@pytest.mark.parametrize("fails", [False, True])
def test_so_is_a_text_that_rolls_back_and_commits(tmp_path: Path, attempt: TaskAttempt, *, fails: bool) -> None:
    with place_of("postgresql", tmp_path) as url:
        engine = create_engine(url.replace("+psycopg:", "+psycopg2:"))
        sink = SqlSink(engine)
        end = by_text("DO $$ BEGIN END $$; ROLLBACK; INSERT INTO flights (id) VALUES (777); COMMIT")
        with pytest.raises((BodyError, SinkUnsafeError)):
            load(sink, attempt, end, fails=fails)
        with pytest.raises(SinkUnsafeError, match="was committed without its position"):
            load(sink, attempt.retry(), lambda _loop: None, fails=False)
        assert rows_in(engine) == [1, 2, 777]
        engine.dispose()


def test_psycopg2_that_is_set_to_autocommit_is_noticed_too(tmp_path: Path, attempt: TaskAttempt) -> None:
    with place_of("postgresql", tmp_path) as url:
        engine = AUTOCOMMITTING["postgresql"](url)
        sink = SqlSink(engine)

        def set_autocommit(loop: Any) -> None:
            loop.connection.connection.driver_connection.set_isolation_level(0)
            by_cursor("INSERT INTO flights (id) VALUES (20)")(loop)

        with pytest.raises(SinkUnsafeError):
            load(sink, attempt, set_autocommit, fails=False)
        with pytest.raises(SinkUnsafeError, match="was committed without its position"):
            load(sink, attempt.retry(), lambda _loop: None, fails=False)
        assert rows_in(engine) == [1, 2, 20]
        engine.dispose()


@pytest.mark.parametrize("statement", [text("INSERT OR ROLLBACK INTO flights (id) VALUES (1)"), OR_ROLLBACK])
def test_so_is_one_that_sqlite_has_rolled_back_because_of_a_row(
    tmp_path: Path, attempt: TaskAttempt, statement: Any
) -> None:
    with place_of("sqlite", tmp_path) as url:
        engine = create_engine(url)
        sink = SqlSink(engine)
        with engine.begin() as connection:
            connection.execute(text("CREATE UNIQUE INDEX once ON flights (id)"))

        def roll_back(loop: Any) -> None:
            with suppress(DBAPIError):
                loop.connection.execute(statement)

        with pytest.raises(SinkError, match="was rolled back"):
            load(sink, attempt, roll_back, fails=False)
        assert rows_in(engine) == [1, 2]
        load(sink, attempt.retry(), lambda _loop: None, fails=False)
        assert rows_in(engine) == [1, 2, 3, 4, 5, 30]
        engine.dispose()


BY_TEXT = (
    text("UPDATE flights SET name = 'a' WHERE id = 100"),
    text("UPDATE flights SET name = 'a' WHERE id = 101"),
)
BUILT = tuple(ROWS.update().where(ROWS.c.id == number).values(name="a") for number in (100, 101))
# Its result tells no status of the transaction, in which pymysql could see that it has ended.
RETURNING = (ROWS.insert().values(id=50).returning(ROWS.c.id), *BUILT)


@pytest.mark.parametrize("updates", [BY_TEXT, BUILT, RETURNING], ids=["text", "built", "returning"])
@pytest.mark.parametrize("skips", [False, True])
def test_and_the_victim_of_a_deadlock(tmp_path: Path, attempt: TaskAttempt, updates: Any, *, skips: bool) -> None:
    """Two transactions update two rows in opposite orders; that of the loop has done less, and is the victim."""
    with place_of("mysql", tmp_path) as url:
        engine = create_engine(url)
        sink = SqlSink(engine)
        with engine.begin() as connection:
            connection.execute(text("ALTER TABLE flights ADD PRIMARY KEY (id)"))
            connection.execute(insert(ROWS), [{"id": number} for number in range(100, 200)])
        skip = Skip(on=(Exception,)) if skips else None

        def deadlock(loop: Any) -> None:
            other = subprocess.Popen([sys.executable, "-c", textwrap.dedent(OTHER), url], stdout=subprocess.PIPE)
            assert other.stdout is not None
            other.stdout.readline()
            try:
                for update in updates:
                    loop.connection.execute(update)
            finally:
                other.communicate(timeout=30)

        def run(attempt: TaskAttempt, act: Callable[[Any], object]) -> None:
            with checkpoint(
                [1, 2, 3, 4], name="rows", sink=sink, context=attempt.context, skip=skip, commit_every=3
            ) as loop:
                for number in loop:
                    loop.connection.execute(insert(ROWS), {"id": number})
                    if number != 2:
                        continue
                    if skips:
                        with loop.skipping():
                            act(loop)
                    else:
                        with suppress(DBAPIError):
                            act(loop)

        with pytest.raises(SinkError, match="was rolled back"):
            run(attempt, deadlock)
        assert [number for number in rows_in(engine) if number < 100] == []
        run(attempt.retry(), lambda _loop: None)
        assert [number for number in rows_in(engine) if number < 100] == [1, 2, 3, 4]
        engine.dispose()


OTHER = """
    import sys, time
    from sqlalchemy import create_engine, text

    with create_engine(sys.argv[1]).begin() as connection:
        connection.execute(text("UPDATE flights SET name = 'b' WHERE id > 101"))
        connection.execute(text("UPDATE flights SET name = 'b' WHERE id = 101"))
        print("locked", flush=True)
        time.sleep(1)
        connection.execute(text("UPDATE flights SET name = 'b' WHERE id = 100"))
"""


@pytest.mark.parametrize("kind", ["sqlite", "mysql"])  # on PostgreSQL and DuckDB the transaction is of no use then
def test_an_error_that_undoes_one_statement_only_may_be_caught(
    sink: SqlSink, engine: Engine, attempt: TaskAttempt
) -> None:
    with engine.begin() as connection:
        connection.execute(text("CREATE UNIQUE INDEX once ON flights (id)"))
    with checkpoint([1, 2, 3], name="rows", sink=sink, context=attempt.context) as loop:
        for number in loop:
            loop.connection.execute(insert(ROWS), {"id": number})
            with suppress(DBAPIError):
                loop.connection.execute(insert(ROWS), {"id": 1})
            if number == 2:
                loop.connection.execute(insert(ROWS), {"id": 20})
    assert rows_in(engine) == [1, 2, 3, 20]


def test_a_body_that_deletes_its_position_is_told_so(sink: SqlSink, engine: Engine, attempt: TaskAttempt) -> None:
    def forget(loop: Any) -> None:
        loop.connection.execute(sink.positions.delete())

    with pytest.raises(SinkError, match="row of the position"):
        load(sink, attempt, forget, fails=False)
    assert rows_in(engine) == [1, 2]


# --- at rest --------------------------------------------------------------------------------------------------------


def test_nothing_but_the_position_is_left_in_the_table(sink: SqlSink, engine: Engine, attempt: TaskAttempt) -> None:
    load(sink, attempt, lambda _loop: None, fails=False)
    with suppress(BodyError):
        load(sink, attempt.clear(), lambda _loop: None, fails=True)
    with engine.connect() as connection:
        assert len(connection.execute(sink.positions.select()).all()) == 1


def test_a_commit_without_rows_needs_no_note(sink: SqlSink, engine: Engine) -> None:
    position = sink.claim(["loop"], Claimant())
    seen: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *a: seen.append(a[2].split()[0]))
    position.commit(1)
    position.close()
    assert "INSERT" not in seen
