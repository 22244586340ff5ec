"""Two versions of the program use one database at once, and a step between them may be interrupted anywhere.

The older program is the real one, from the history of this repository: version 1 of the tables was made by it.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Connection as SqlConnection
from sqlalchemy import Insert, Update, create_engine, event, inspect, make_url, text
from sqlalchemy.schema import ExecutableDDLElement

from airflow_resume.backends import SqlStateStore, SqlStoreBackend
from airflow_resume.backends.database.database import Database
from airflow_resume.backends.schema import manager, migrations
from airflow_resume.backends.schema.manager import CHECK_AGAIN_SECONDS, CHECK_SECONDS
from airflow_resume.backends.schema.migrations import Change, Step, read_state
from airflow_resume.backends.schema.tables import META, STATE
from airflow_resume.backends.span import span_of
from airflow_resume.command import main
from airflow_resume.errors import SchemaError, UnwritableStoreError
from airflow_resume.testing.contract.children import Child, run_together
from tests.support.backends.databases import ask, schema_on_postgresql
from tests.support.kit.raised import having
from tests.support.records.releases import NoHistoryError, unpack

ROOT = Path(__file__).parents[2]
VERSION_1 = "760816e"
"""The last commit whose program knew version 1 of the tables only."""


@pytest.fixture(scope="session")
def version_1(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the program of version 1."""
    folder = tmp_path_factory.mktemp("version_1")
    try:
        unpack(VERSION_1, folder)
    except NoHistoryError as error:
        pytest.skip(f"the older program is in the history only: {error}")
    return folder / "toolkit"


class Older:
    """A process of the older program."""

    def __init__(self, sources: Path, url: str, name: str = "scope") -> None:
        program = str(ROOT / "tests" / "support" / "backends" / "program_of_version_1.py")
        self.process = subprocess.Popen(
            [sys.executable, program, url, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(sources)},
        )

    def say(self, *words: object) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()

    def hear(self) -> Any:
        assert self.process.stdout
        return tuple(json.loads(self.process.stdout.readline()))

    def ask(self, *words: object) -> Any:
        self.say(*words)
        return self.hear()

    def end(self) -> None:
        self.process.kill()
        with self.process:  # which closes its pipes
            pass


@pytest.fixture
def start_older(version_1: Path, url: str) -> Iterator[Callable[..., Older]]:
    with ExitStack() as ended:

        def start(name: str = "scope") -> Older:
            older = Older(version_1, url, name)
            ended.callback(older.end)
            return older

        yield start


def indexes(url: str) -> set[str]:
    database = Database(url)
    found = database.as_it_is(lambda connection: {str(i["name"]) for i in inspect(connection).get_indexes(STATE.name)})
    database.close()
    return found


def numbers(url: str) -> object:
    return ask(url, f"SELECT version, schema_version FROM {META.name}")  # noqa: S608


def test_the_older_program_goes_on_beside_the_newer_one(
    start_older: Callable[..., Older], open_backend: Callable[..., SqlStoreBackend], url: str
) -> None:
    older = start_older()
    assert [older.ask("set", f"key {n}", n) for n in range(10)] == [("done", None)] * 10
    for number in range(200):  # on their way while the tables are changed
        older.say("set", f"way {number}", number)
    store = SqlStateStore(open_backend(), "scope")
    assert store.get("key 3") == 3
    assert [older.hear() for _ in range(200)] == [("done", None)] * 200
    assert numbers(url) == [(1, 2)]
    assert [store.get(f"way {n}") for n in range(200)] == list(range(200))
    store.set("key 3", "new")
    assert [older.ask("get", "key 3"), older.ask("set", "key 3", "old")] == [("done", "new"), ("done", None)]
    assert store.get("key 3") == "old"
    fresh = start_older()
    assert [fresh.ask("get", "key 3"), fresh.ask("delete", "key 3"), fresh.ask("clean")[0]] == [
        ("done", "old"),
        ("done", None),
        "done",
    ]
    assert store.get("key 3") is None


def test_a_step_that_breaks_the_older_program_stops_it_by_name_and_loses_nothing(
    start_older: Callable[..., Older],
    open_backend: Callable[..., SqlStoreBackend],
    url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    older = start_older()
    assert older.ask("set", "key", 1) == ("done", None)
    open_ = SqlStateStore(open_backend(patience=1), "scope")
    assert open_.get("key") == 1
    with monkeypatch.context() as newer:
        newer.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, renaming()))
        assert open_backend().store_id
    assert [older.ask("set", "key", 2), older.ask("get", "key")] == [("error", "StoreRefusedError")] * 2
    assert start_older().ask("get", "key") == ("error", "NewerSchemaError")
    words = "version 3 of the tables, and this airflow-resume knows 2"
    with pytest.raises(SchemaError, match=words, check=having(problem="newer")):
        open_.get("key")
    with pytest.raises(SchemaError, match=words, check=having(problem="newer")):
        open_.set("key", 2)
    assert ask(url, "SELECT value FROM airflow_resume_state_3") == [("1",)]


def renaming() -> Step:
    rename = migrations.in_words("ALTER TABLE airflow_resume_state RENAME TO airflow_resume_state_3")
    return Step(needs=3, changes=[Change(ddl=rename, done=lambda found: found.has_table("airflow_resume_state_3"))])


def test_a_newer_version_is_noticed_within_a_minute_or_told_once_if_it_may_be_used(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    database = Database(url, clock=lambda: now[0])

    def look() -> object:
        return database.autocommit(lambda connection: connection.exec_driver_sql("SELECT 1").scalar())

    assert look() == 1
    ask(url, f"UPDATE {META.name} SET schema_version = 3")  # noqa: S608
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            now[0] += CHECK_SECONDS
            assert look() == 1
    assert caplog.text.count("has version 3 of the tables") == 1
    ask(url, f"UPDATE {META.name} SET version = 3")  # noqa: S608
    assert look() == 1
    now[0] += CHECK_SECONDS
    with pytest.raises(SchemaError, check=having(problem="newer")):
        look()
    database.close()


@pytest.mark.parametrize("begun", [False, True], ids=["of nothing", "of version 1"])
def test_making_the_tables_is_taken_up_wherever_it_was_killed(
    url: str, start_older: Callable[..., Older], *, begun: bool
) -> None:
    if begun:
        assert start_older().ask("set", "key", 1) == ("done", None)
    killed = 0
    while killed_before_a_change(url):
        killed += 1
        assert killed < 50
    backend = SqlStoreBackend(url)
    assert SqlStateStore(backend, "scope").get("key") == (1 if begun else None)
    backend.close()
    assert killed >= (1 if begun else 2)
    assert numbers(url) == [(1, 2)]
    if not url.startswith("mysql"):
        assert ("airflow_resume_state_mapped" in indexes(url), "airflow_resume_state_family" in indexes(url)) == (
            True,
            False,
        )


def killed_before_a_change(url: str) -> bool:
    """Migrate in a child that is killed at its first change, its second where the first is in; whether it was killed.

    MySQL keeps each change. The others keep none, and so the child is killed at a later one each time.
    """
    turn = _turns[url] = _turns.get(url, 0) + 1

    def run(sender: Connection) -> None:
        left = [2 if url.startswith("mysql") else turn]

        def execute(connection: SqlConnection, statement: Any, *arguments: Any) -> Any:
            if isinstance(statement, (ExecutableDDLElement, Insert, Update)):
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            return real(connection, statement, *arguments)

        real = SqlConnection.execute
        SqlConnection.execute = execute  # type: ignore[method-assign, assignment]
        sender.send((None, SqlStoreBackend(url).store_id))

    with Child(run) as child:
        assert child.messages.poll(60)
        try:
            child.receive()
        except AssertionError as ended:
            assert "ended without an answer" in str(ended)
            return True
        return False


_turns: dict[str, int] = {}


def test_a_user_without_the_right_is_told_what_to_run(url: str) -> None:
    if url.startswith("sqlite"):
        pytest.skip("a file has no users")
    refused = pytest.raises(UnwritableStoreError, match="airflow-resume migrate", check=having(problem="no right"))
    with user_without_rights(url) as theirs, closing(SqlStoreBackend(theirs)) as backend, refused:
        _ = backend.store_id


@contextmanager
def user_without_rights(url: str) -> Iterator[str]:
    """The URL of a user who may read and write what is there, and change no table."""
    place, name = make_url(url), f"resume_{os.getpid()}"
    if url.startswith("postgresql"):
        schema_name = str(place.query["options"]).partition("=")[2]
        ask(url, f"CREATE ROLE {name} LOGIN")
        ask(url, f"GRANT USAGE ON SCHEMA {schema_name} TO {name}")
        for what in ("TABLES", "SEQUENCES"):
            ask(url, f"GRANT ALL ON ALL {what} IN SCHEMA {schema_name} TO {name}")
        drop = f"DROP OWNED BY {name}; DROP ROLE {name}"
    else:
        ask(url, f"CREATE USER {name}@'%%'")
        ask(url, f"GRANT SELECT, INSERT, UPDATE, DELETE ON {place.database}.* TO {name}@'%%'")
        drop = f"DROP USER {name}@'%%'"
    try:
        yield place.set(username=name).render_as_string(hide_password=False)
    finally:
        ask(url, drop)


# --- older tables that cannot be changed now ------------------------------------------------------------------


@pytest.fixture
def of_version_1(start_older: Callable[..., Older], url: str) -> str:
    """A database that the older program has made and used."""
    older = start_older()
    assert older.ask("set", "key", 1) == ("done", None)
    older.end()
    return url


def goes_on(backend: SqlStoreBackend, version: int) -> bool:
    store = SqlStateStore(backend, "scope")
    found = backend._database.autocommit(read_state).version
    store.set("other", 2)
    assert backend.store_id
    return (store.get("key"), store.get("other"), found) == (1, 2, version)


def test_a_user_who_may_not_change_them_uses_older_tables(of_version_1: str, caplog: pytest.LogCaptureFixture) -> None:
    if of_version_1.startswith("sqlite"):
        pytest.skip("a file has no users")
    with closing(SqlStoreBackend(of_version_1)) as owner, user_without_rights(of_version_1) as theirs:
        with caplog.at_level(logging.WARNING), closing(SqlStoreBackend(theirs, patience=5)) as backend:
            assert goes_on(backend, 1)
        assert "version 1 of the tables and is used with them" in caplog.text
        with (
            closing(Database(theirs)) as database,
            pytest.raises(UnwritableStoreError, match="airflow-resume migrate", check=having(problem="no right")),
        ):
            database.upgrade_tables()
        assert goes_on(owner, 2)
        with closing(SqlStoreBackend(theirs, patience=5)) as backend:
            assert goes_on(backend, 2)


@pytest.mark.parametrize("statement", ["SELECT * FROM airflow_resume_meta", "SELECT * FROM airflow_resume_state"])
def test_nobody_waits_for_long_behind_a_dump(of_version_1: str, url: str, statement: str) -> None:
    if url.startswith("sqlite"):
        pytest.skip("its readers keep nobody waiting")
    engine = create_engine(url)
    with engine.connect() as dump:  # which has read in a transaction that goes on
        dump.execute(text(statement)).all()
        of_state = "state" in statement
        with closing(SqlStoreBackend(of_version_1, patience=8)) as backend:
            assert goes_on(backend, 2 if of_state and url.startswith("mysql") else 1)
    engine.dispose()
    with closing(SqlStoreBackend(url)) as backend:
        assert goes_on(backend, 2)


def test_nobody_waits_for_whoever_changes_the_tables(of_version_1: str, caplog: pytest.LogCaptureFixture) -> None:
    database = Database(of_version_1)

    def hold(connection: SqlConnection) -> None:
        with database.dialect.schema_lock(connection, 1), closing(SqlStoreBackend(of_version_1, patience=8)) as backend:
            assert SqlStateStore(backend, "scope").get("key") == 1
        assert "is used with them, as they could not be changed" in caplog.text

    with caplog.at_level(logging.WARNING):
        database._process.transaction(hold, span_of(60))
    database.close()


def test_whoever_changes_the_tables_of_another_schema_does_not_matter(of_version_1: str) -> None:
    if not of_version_1.startswith("postgresql"):
        pytest.skip("of schemas")
    with schema_on_postgresql() as another, closing(Database(another)) as database:

        def hold(connection: SqlConnection) -> None:
            with database.dialect.schema_lock(connection, 1), closing(SqlStoreBackend(of_version_1)) as backend:
                assert goes_on(backend, 2)

        database._process.transaction(hold, span_of(60))


def test_a_file_that_may_only_be_read_is_read(of_version_1: str) -> None:
    if not of_version_1.startswith("sqlite"):
        pytest.skip("of files")
    path = Path(str(make_url(of_version_1).database))
    with closing(SqlStoreBackend(f"sqlite:///file:{path}?mode=ro&uri=true")) as backend:
        store = SqlStateStore(backend, "scope")
        assert store.get("key") == 1
        with pytest.raises(UnwritableStoreError, check=having(problem="read-only")):
            store.set("key", 2)


def test_large_tables_are_changed_by_the_command_only(of_version_1: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager, "LARGE_BYTES", -1)
    for _ in range(2):
        with closing(SqlStoreBackend(of_version_1)) as backend:
            assert goes_on(backend, 1)
    assert main(["migrate", of_version_1]) == 0
    with closing(SqlStoreBackend(of_version_1)) as backend:
        assert goes_on(backend, 2)


def test_a_look_that_nobody_answers_fails_no_call(url: str) -> None:
    if url.startswith("sqlite"):
        pytest.skip("its readers wait for nobody")
    now = [0.0]
    database = Database(url, patience=8, clock=lambda: now[0])

    def one() -> object:
        return database.autocommit(lambda connection: connection.exec_driver_sql("SELECT 1").scalar())

    assert one() == 1
    now[0] += CHECK_SECONDS
    engine = create_engine(url)
    with engine.connect() as connection:
        locks = "LOCK TABLE airflow_resume_meta" + (" WRITE" if url.startswith("mysql") else "")
        connection.execute(text(locks))
        assert one() == 1
        assert one() == 1
    engine.dispose()
    ask(url, f"UPDATE {META.name} SET version = 3")  # noqa: S608
    now[0] += CHECK_AGAIN_SECONDS
    with pytest.raises(SchemaError, check=having(problem="newer")):
        one()
    database.close()


def test_the_first_processes_make_one_database_whatever_transactions_are_by_default(url: str) -> None:
    if not url.startswith("postgresql"):
        pytest.skip("of PostgreSQL, whose catalogue is read in the transaction")
    place = make_url(url)
    strict = f"{place.query['options']} -cdefault_transaction_isolation=serializable"
    strict_url = place.update_query_dict({"options": strict}).render_as_string(hide_password=False)
    assert len(set(run_together(lambda _: SqlStoreBackend(strict_url).store_id, 8))) == 1


# --- families -------------------------------------------------------------------------------------------------


def test_all_instances_are_cleared_by_an_index_and_nothing_else_is(backend: SqlStoreBackend) -> None:
    here = {"dag_id": "dag", "run_id": "run", "task_id": "task"}
    mine = [SimpleNamespace(**here, map_index=n, region_id=r) for n in (-1, 0, 1) for r in (None, "a" * 36)]
    others = [SimpleNamespace(**{**here, "task_id": "other"}, map_index=n) for n in (-1, 0)]
    for scope in [*mine, *others]:
        backend.set(scope, "key", "1")
    asked: list[tuple[str, Any]] = []
    engine = backend._database.opened().engine
    event.listen(engine, "before_cursor_execute", lambda *given: asked.append(given[2:4]))
    backend.clear(mine[1], all_map_indices=True)
    assert [backend.get(scope, "key") for scope in [*mine, *others]] == [None] * 6 + ["1"] * 2
    (statement, values), *_ = asked
    assert_index_is_used(backend, statement, values)


def assert_index_is_used(backend: SqlStoreBackend, statement: str, values: Any) -> None:
    kind = backend._database.dialect.product

    def explain(connection: SqlConnection) -> str:
        if kind == "PostgreSQL":
            connection.exec_driver_sql("SET enable_seqscan = off")  # of eight rows it would read them all
        words = "EXPLAIN QUERY PLAN" if kind == "SQLite" else "EXPLAIN"
        return str(connection.exec_driver_sql(f"{words} {statement}", values).all())

    plan = backend._database.autocommit(explain)
    if kind == "SQLite":
        assert "SCAN airflow_resume_state" not in plan
        assert "airflow_resume_state_mapped" in plan
    elif kind == "PostgreSQL":
        assert "Seq Scan" not in plan
        assert "airflow_resume_state_mapped" in plan
