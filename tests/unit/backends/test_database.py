"""Calls are made again for passing reasons, and for no others; with transactions whole or not at all."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
from airflow.sdk.state import TaskScope
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from airflow_resume.backends import SqlStateStore, SqlStoreBackend
from airflow_resume.backends.dialects.base import Trouble
from airflow_resume.backends.dialects.mysql import MySQL
from airflow_resume.backends.dialects.postgresql import PostgreSQL
from airflow_resume.backends.dialects.sqlite import Sqlite
from airflow_resume.errors import StoreRefusedError, StoreUnavailableError

SCOPE = TaskScope(dag_id="dag", run_id="run", task_id="task")

BUSY, CORRUPT = 5, 11


def driver_error(text: str, code: int) -> sqlite3.OperationalError:
    """As Python 3.11 and later make it."""
    error: Any = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    return error  # type: ignore[no-any-return]


def failing(backend: SqlStoreBackend, statement: str, times: int, *, code: int = BUSY) -> list[str]:
    """Have the driver fail so many times before a statement that begins so; gives the list of what it was asked."""
    asked: list[str] = []
    error = driver_error("made to fail", code)

    def listener(_connection: Any, _cursor: Any, text: str, *_: Any) -> None:
        if text.startswith(statement):
            asked.append(text)
            if len(asked) <= times:
                raise OperationalError(text, None, error)

    event.listen(backend._database.opened().engine, "before_cursor_execute", listener)
    return asked


@pytest.fixture
def waits(backend: SqlStoreBackend) -> list[float]:
    waits: list[float] = []
    backend._database._sleep = waits.append
    return waits


@pytest.mark.parametrize(
    ("statement", "call"),
    [
        ("SELECT", lambda backend: backend.get(SCOPE, "key")),
        ("INSERT", lambda backend: backend.set(SCOPE, "key", "1")),
        ("DELETE FROM airflow_resume_state", lambda backend: backend.delete(SCOPE, "key")),
        ("BEGIN", lambda backend: backend.set_many(SCOPE, {"key": "1", "other": "2"})),
        ("COMMIT", lambda backend: backend.set_many(SCOPE, {"key": "1", "other": "2"})),
    ],
)
def test_what_failed_for_a_passing_reason_is_made_again(
    backend: SqlStoreBackend, waits: list[float], statement: str, call: Callable[[SqlStoreBackend], object]
) -> None:
    asked = failing(backend, statement, times=3)
    call(backend)
    assert (len(asked), len(waits)) == (4, 2)


def test_it_is_not_made_again_for_ever(backend: SqlStoreBackend, waits: list[float]) -> None:
    failing(backend, "SELECT", times=10**6)
    with pytest.raises(StoreUnavailableError, match="made to fail"):
        backend.get(SCOPE, "key")
    assert 30 <= sum(waits) < 35


def test_what_failed_for_good_is_not_made_again_and_the_message_has_no_value(
    backend: SqlStoreBackend, waits: list[float]
) -> None:
    asked = failing(backend, "INSERT", times=1, code=CORRUPT)
    with pytest.raises(StoreRefusedError, match="made to fail") as caught:
        backend.set(SCOPE, "key", '"secret"')
    assert (len(asked), waits) == (1, [])
    assert "secret" not in str(caught.value)
    assert isinstance(caught.value.__cause__, OperationalError)


def test_several_values_are_kept_all_or_none(backend: SqlStoreBackend) -> None:
    failing(backend, "COMMIT", times=1, code=CORRUPT)
    with pytest.raises(StoreRefusedError):
        backend.set_many(SCOPE, {"key": "1", "other": "2"})
    assert backend.scan(SCOPE, "") == []


@pytest.mark.parametrize("versions", [1, 3])
def test_a_writer_whose_answer_was_lost_knows_that_it_wrote(versions: int) -> None:
    backend = SqlStoreBackend("sqlite://", keep_versions=versions)
    store = SqlStateStore(backend, "script")
    lose_answers(backend)
    first = store.compare_and_set("key", 0, "a")
    assert first
    second = store.compare_and_set("key", first, "b")
    assert second
    assert store.compare_and_set("key", first, "c") is None
    assert store.get("key") == "b"


def lose_answers(backend: SqlStoreBackend) -> None:
    """Have every other call of the database done and then fail."""
    database: Any = backend._database
    turns = iter(range(10**6))
    error = driver_error("the answer was lost", BUSY)

    def losing(run: Callable[..., Any]) -> Callable[..., Any]:
        def done_and_lost(*arguments: Any, **options: Any) -> Any:
            done = run(*arguments, **options)
            if next(turns) % 2 == 0:
                raise OperationalError("", None, error)
            return done

        return done_and_lost

    _ = backend.store_id
    database._sleep = lambda _: None
    process = database._process
    process.autocommit = losing(process.autocommit)  # a transaction goes through it too


def test_after_close_it_is_opened_again(tmp_path: Path) -> None:
    backend = SqlStoreBackend(f"sqlite:///{tmp_path / 'state.db'}")
    backend.set(SCOPE, "key", "1")
    backend.close()
    assert backend.get(SCOPE, "key") == "1"
    backend.close()


def test_nothing_is_opened_before_it_is_needed(tmp_path: Path) -> None:
    SqlStoreBackend(f"sqlite:///{tmp_path / 'state.db'}")
    small = SqlStoreBackend(f"sqlite:///{tmp_path / 'state.db'}")
    assert small.serialize_task_state_store_to_ref(value=1, key="key", scope=SCOPE) == "1"
    assert list(tmp_path.iterdir()) == []


class AnswerError(Exception):
    """Of a driver."""

    def __init__(self, *arguments: object, sqlstate: str | None = None) -> None:
        super().__init__(*arguments)
        self.sqlstate = sqlstate


@pytest.mark.parametrize(
    ("sqlstate", "trouble"),
    [
        *((code, Trouble.PASSING) for code in ("40001", "40P01", "55P03", "57014", "08006", "57P01", "57P03")),
        ("25006", Trouble.READ_ONLY),
        ("53100", Trouble.FULL),
        ("23505", Trouble.EXISTS),
        ("23503", Trouble.OTHER),
    ],
)
def test_an_error_of_postgresql_is_judged_by_its_code(sqlstate: str, trouble: Trouble) -> None:
    assert PostgreSQL().trouble(OperationalError("", None, AnswerError(sqlstate=sqlstate))) is trouble


@pytest.mark.parametrize(
    ("code", "trouble"),
    [
        *((code, Trouble.PASSING) for code in (1040, 1203, 1205, 1213, 1226, 1317, 1927, 1969, 3024, 2003, 2006, 2013)),
        (1290, Trouble.READ_ONLY),
        (1114, Trouble.FULL),
        (1153, Trouble.TOO_LARGE),
        (1062, Trouble.EXISTS),
        (1045, Trouble.OTHER),
    ],
)
def test_an_error_of_mysql_is_judged_by_its_code(code: int, trouble: Trouble) -> None:
    assert MySQL().trouble(OperationalError("", None, AnswerError(code, "text"))) is trouble


@pytest.mark.parametrize(
    ("text", "trouble"),
    [
        ("database is locked", Trouble.PASSING),
        ("database table is locked: t", Trouble.PASSING),
        ("attempt to write a readonly database", Trouble.READ_ONLY),
        ("database or disk is full", Trouble.FULL),
        ("UNIQUE constraint failed: t.a", Trouble.EXISTS),
        ("no such table: t", Trouble.OTHER),
    ],
)
def test_an_error_of_sqlite_without_a_code_is_judged_by_its_text(text: str, trouble: Trouble) -> None:
    assert Sqlite().trouble(OperationalError("", None, sqlite3.OperationalError(text))) is trouble


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (psycopg.OperationalError("connection timeout expired"), Trouble.PASSING),
        (psycopg.InternalError("received 2 results from command 'ROLLBACK'"), Trouble.PASSING),  # through PgBouncer
        (psycopg.DatabaseError("error with status PGRES_TUPLES_OK and no message from the libpq"), Trouble.PASSING),
        (psycopg.OperationalError("too many connections for role"), Trouble.PASSING),
        (psycopg.OperationalError("database is not currently accepting connections"), Trouble.PASSING),
        (psycopg.OperationalError('no pg_hba.conf entry for host "::1"'), Trouble.REFUSED),
        (psycopg.OperationalError("fe_sendauth: no password supplied"), Trouble.REFUSED),
        (psycopg.OperationalError("server does not support SSL, but SSL was required"), Trouble.REFUSED),
        (psycopg.OperationalError("permission denied for database x"), Trouble.REFUSED),
        (psycopg.ProgrammingError("the query has 2 placeholders but 1 was passed"), Trouble.OTHER),
    ],
    ids=str,
)
def test_an_error_of_postgresql_without_a_code_is_judged_by_its_kind_and_words(
    error: psycopg.Error, trouble: Trouble
) -> None:
    assert PostgreSQL().trouble(OperationalError("", None, error)) is trouble


@pytest.mark.parametrize("call", ["get", "set"])
def test_a_connection_that_is_lost_before_a_statement_is_made_is_replaced(tmp_path: Path, call: str) -> None:
    backend = SqlStoreBackend(f"sqlite:///{tmp_path / 'state.db'}")
    backend.set(SCOPE, "key", "1")
    (link,) = backend._database._process._idle.values()
    cast("Any", link._driver).close()  # then `cursor()` raises, as that of psycopg does
    if call == "set":
        backend.set(SCOPE, "key", "2")
    assert backend.get(SCOPE, "key") == ("1" if call == "get" else "2")
    backend.close()
