"""Whatever stands in the row of the meta table, or is missing beside it, has one name, at once, and a remedy."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest
from airflow.sdk.state import TaskScope
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError

from airflow_resume.backends import SqlStoreBackend
from airflow_resume.backends.schema.tables import HISTORY, META, STATE
from airflow_resume.command import main
from airflow_resume.errors import BackendError, SchemaError
from tests.support.backends.databases import ask
from tests.support.kit.raised import is_one

SCOPE = TaskScope(dag_id="dag", run_id="run", task_id="task")
ID = "0123456789abcdef" * 2
LARGE = "x" * 70_000
AT_ONCE = 20.0
"""Far less than the patience of 30 seconds."""

NUMBERS: list[Any] = [None, 0, -1, 3, 2**31 - 1, 1.5, "x", "", "1", b"\x00\xff"]
TEXTS: list[Any] = [None, "", " ", "None", ID, ID[1:], f"{ID}0", ID.upper(), f"{ID} {ID}", 7, b"\x00\xff", "\n\x1b[31m"]
COLUMNS: dict[str, list[Any]] = {
    "version": NUMBERS,
    "schema_version": NUMBERS,
    "store_id": TEXTS,
    "former_ids": TEXTS,
}
COMMANDS = ("doctor", "migrate", "cleanup", "new-id")
GOOD: dict[str, set[Any]] = {
    "version": set(),
    "schema_version": {3, 2**31 - 1},
    "store_id": {ID},
    "former_ids": {None, "", " ", ID, f"{ID} {ID}"},
}
"""What a program of ours, or a newer one, could have written."""
NEWER = {3, 2**31 - 1}


def loosened(url: str, column: str) -> None:
    """A column that takes anything, as a client or a restore may have left it."""
    if url.startswith("sqlite"):
        return
    kind = "text" if url.startswith("postgresql") else "longblob"
    change = (
        f"ALTER COLUMN {column} DROP DEFAULT, ALTER COLUMN {column} DROP NOT NULL, ALTER COLUMN {column} TYPE {kind}"
        if url.startswith("postgresql")
        else f"MODIFY {column} {kind} NULL"
    )
    ask(url, f"ALTER TABLE {META.name} {change}")


def put(url: str, column: str, value: Any) -> bool:
    """Whether the database takes it there."""
    engine = create_engine(url)
    try:
        with engine.begin() as connection:
            connection.execute(text(f"UPDATE {META.name} SET {column} = :value"), {"value": value})  # noqa: S608
    except DBAPIError:
        return False
    finally:
        engine.dispose()
    return True


def unbound(url: str) -> None:
    """SQLite keeps its constraints for ever; a table without any stands for one that was restored."""
    if not url.startswith("sqlite"):
        return
    ask(url, f"ALTER TABLE {META.name} RENAME TO old")
    ask(url, f"CREATE TABLE {META.name} (id INTEGER, version, schema_version, store_id, former_ids)")
    ask(url, f"INSERT INTO {META.name} SELECT id, version, schema_version, store_id, former_ids FROM old")  # noqa: S608
    ask(url, "DROP TABLE old")


def calls(backend: SqlStoreBackend, reference: str) -> dict[str, Callable[[], Any]]:
    now = datetime.now(timezone.utc)
    return {
        "store_id": lambda: backend.store_id,
        "set": lambda: backend.set(SCOPE, "other", "1"),
        "serialize": lambda: backend.serialize_task_state_store_to_ref(value=LARGE, key="other", scope=SCOPE),
        "follow": lambda: backend.deserialize_task_state_store_from_ref(reference),
        "clean": lambda: backend.clean(live=[reference], live_as_of=now),
    }


def outcome(call: Callable[[], Any]) -> BaseException | None:
    """Any other error than one of ours ends the test."""
    began = time.monotonic()
    try:
        call()
    except BackendError as error:
        assert time.monotonic() - began < AT_ONCE
        return error
    assert time.monotonic() - began < AT_ONCE
    return None


@pytest.mark.parametrize("column", COLUMNS)
def test_whatever_a_column_has_is_read_or_named_at_once_with_what_to_do(  # noqa: C901  over columns, values and calls
    open_backend: Callable[..., SqlStoreBackend],
    url: str,
    column: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    maker = open_backend()
    reference = maker.serialize_task_state_store_to_ref(value=LARGE, key="key", scope=SCOPE)
    open_one = open_backend()
    assert open_one.store_id == maker.store_id
    unbound(url)
    loosened(url, column)
    maker.close()
    open_one.close()
    for number, value in enumerate(COLUMNS[column]):
        if not put(url, column, value):
            continue
        engine = create_engine(url)
        with engine.connect() as connection:
            stored = connection.execute(text(f"SELECT {column} FROM {META.name}")).scalar()  # noqa: S608
        engine.dispose()
        good = type(stored) in {int, str, type(None)} and stored in GOOD[column]
        good = good or (column.endswith("version") and stored in {1, 2} and type(stored) is int)
        for name, call in calls(open_backend(), reference).items():
            error = outcome(call)
            if column == "version" and type(stored) is int and stored in NEWER:
                assert is_one(error, SchemaError, problem="newer"), (stored, name)
            elif good:
                assert not is_one(error, SchemaError, problem="damaged"), (stored, name, error)
            else:
                assert is_one(error, SchemaError, problem="damaged"), (stored, name, error)
                assert column in str(error)
                assert "UPDATE" in str(error.remedy)
        for name, call in calls(open_one, reference).items():
            error = outcome(call)
            if not good and column == "store_id" and name != "set":
                assert is_one(error, SchemaError, problem="damaged"), (stored, name, error)
        for command in COMMANDS if number % 4 == 0 else COMMANDS[:1]:
            if good and command == "new-id":
                continue
            capsys.readouterr()
            code = main([command, url])
            said = "".join(capsys.readouterr())
            assert "Traceback" not in said
            assert code == (0 if good else 1), (stored, command, said)
            if not good and not (column == "version" and stored in NEWER):
                assert column in said
                assert META.name in said


def test_two_rows_are_named(
    open_backend: Callable[..., SqlStoreBackend], url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    backend = open_backend()
    reference = backend.serialize_task_state_store_to_ref(value=LARGE, key="key", scope=SCOPE)
    ask(url, f"INSERT INTO {META.name} (id, version, store_id) VALUES (2, 1, '{ID}')")  # noqa: S608
    for one in (backend, open_backend()):
        for name, call in calls(one, reference).items():
            if name != "set" or one is not backend:
                assert is_one(outcome(call), SchemaError, problem="damaged"), name
    for command in ("migrate", "doctor", "new-id"):
        assert main([command, url]) == 1
        assert "more than one row" in "".join(capsys.readouterr())


@pytest.mark.parametrize("column", ["version", "store_id", "former_ids"])
def test_a_column_that_is_missing_is_named(
    open_backend: Callable[..., SqlStoreBackend], url: str, column: str, capsys: pytest.CaptureFixture[str]
) -> None:
    reference = open_backend().serialize_task_state_store_to_ref(value=LARGE, key="key", scope=SCOPE)
    ask(url, f"ALTER TABLE {META.name} DROP COLUMN {column}")
    for name, call in calls(open_backend(), reference).items():
        error = outcome(call)
        assert is_one(error, SchemaError, problem="damaged"), name
        assert f"no column {column}" in str(error)
    assert main(["doctor", url]) == 1
    assert f"no column {column}" in "".join(capsys.readouterr())


def test_without_the_newer_column_it_is_version_1_and_is_brought_up(
    open_backend: Callable[..., SqlStoreBackend], url: str
) -> None:
    before = open_backend().store_id
    ask(url, f"ALTER TABLE {META.name} DROP COLUMN schema_version")
    assert open_backend().store_id == before


@pytest.mark.parametrize("how", ["DELETE FROM", "DROP TABLE"])
def test_values_without_a_row_get_no_new_id(
    open_backend: Callable[..., SqlStoreBackend], url: str, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """By a new one, a cleanup would delete what the references with the old one lead to."""
    backend = open_backend()
    reference = backend.serialize_task_state_store_to_ref(value=LARGE, key="key", scope=SCOPE)
    before = backend.store_id
    ask(url, f"{how} {META.name}")
    for name, call in calls(open_backend(), reference).items():
        assert is_one(outcome(call), SchemaError, problem="damaged"), name
    assert main(["migrate", url]) == 1
    assert "no row in airflow_resume_meta" in capsys.readouterr().err
    if how == "DELETE FROM":
        assert is_one(outcome(calls(backend, reference)["serialize"]), SchemaError, problem="damaged")
        ask(url, f"INSERT INTO {META.name} (id, version, store_id) VALUES (1, 1, '{before}')")  # noqa: S608
        assert open_backend().deserialize_task_state_store_from_ref(reference) == LARGE


def test_an_empty_database_whose_row_is_gone_gets_one_in_a_process_that_has_it_open(
    open_backend: Callable[..., SqlStoreBackend], url: str
) -> None:
    backend = open_backend()
    before = backend.store_id
    ask(url, f"DELETE FROM {META.name}")  # noqa: S608
    assert backend.store_id != before
    assert open_backend().store_id == backend.store_id


@pytest.mark.parametrize("table", [STATE.name, HISTORY.name])
def test_a_table_that_is_missing_is_named_until_migrate_makes_it(
    open_backend: Callable[..., SqlStoreBackend], url: str, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    backend = open_backend(keep_versions=2)
    reference = backend.serialize_task_state_store_to_ref(value=LARGE, key="key", scope=SCOPE)
    backend.set(SCOPE, "other", "0")
    ask(url, f"DROP TABLE {table}")
    assert is_one(outcome(lambda: backend.set(SCOPE, "other", "1")), SchemaError, problem="damaged")
    for name, call in calls(open_backend(), reference).items():
        error = outcome(call)
        assert is_one(error, SchemaError, problem="damaged"), name
        assert f"no {table}" in str(error)
    assert main(["doctor", url]) == 1
    assert f"no {table}" in capsys.readouterr().out
    assert main(["migrate", url, "--sql"]) == 0
    assert f"CREATE TABLE {table}" in capsys.readouterr().out
    before = backend.store_id if table == HISTORY.name else None
    assert main(["migrate", url]) == 0
    assert f"{table} made anew" in capsys.readouterr().out
    assert main(["doctor", url]) == 0
    backend.set(SCOPE, "other", "1")
    assert open_backend().get(SCOPE, "other") == "1"
    assert before in {None, backend.store_id}


@pytest.mark.parametrize("url", ["postgresql", "mysql"], indirect=True)
def test_that_a_user_may_make_no_tables_is_said(url: str, capsys: pytest.CaptureFixture[str], reader: str) -> None:
    assert main(["doctor", reader]) == 1
    said = capsys.readouterr().out
    assert "no CREATE right" in said
    assert "migrate" in said
    assert main(["migrate", url]) == 0
    assert main(["doctor", reader]) == 0


@pytest.fixture
def reader(url: str) -> Any:
    from sqlalchemy import make_url

    place = make_url(url)
    name = f"airflow_resume_reader_{str(place.query.get('application_name', place.database))[-12:]}"
    if place.get_backend_name() == "postgresql":
        schema: Any = place.query["application_name"]
        ask(url, f"CREATE ROLE {name} LOGIN")
        ask(url, f"GRANT USAGE ON SCHEMA {schema} TO {name}")
        ask(
            url, f"ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {name}"
        )
        yield place.set(username=name).render_as_string(hide_password=False)
        ask(url, f"DROP OWNED BY {name}")
        ask(url, f"DROP ROLE {name}")
    else:
        ask(url, f"CREATE USER {name}")
        ask(url, f"GRANT SELECT, INSERT, UPDATE, DELETE ON {place.database}.* TO {name}")
        yield place.set(username=name).render_as_string(hide_password=False)
        ask(url, f"DROP USER {name}")
