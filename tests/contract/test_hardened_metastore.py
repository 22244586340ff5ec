"""Airflow's own backend, hardened, on Airflow's tables; beside it, in test_metastore_backend, is Airflow's as it is."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, insert, make_url, select, text
from sqlalchemy.exc import DBAPIError

from airflow_resume.backends import HardenedMetastoreBackend
from airflow_resume.errors import CleanupIncompleteError
from airflow_resume.testing.contract import Ability
from airflow_resume.testing.contract.children import Child, run_together
from airflow_resume.testing.contract.places import default_scopes
from tests.support.backends.cleanup_race import CleanupRace, in_another_session
from tests.support.backends.databases import ask, database_on_mysql, kill_connections, schema_on_postgresql
from tests.support.backends.metastore import only, tables_in

HOUR = timedelta(hours=1)
PATIENCE = 30.0


def sqlite_in(folder: Path) -> AbstractContextManager[str]:
    """It gives a lock up at once, so that no test waits for one."""
    return nullcontext(f"sqlite:///{folder / 'airflow.db'}?timeout=0.1")


class HardenedContract(CleanupRace):
    __test__ = False
    examples = 20  # a call takes some milliseconds
    promises = (Ability.SCOPES, Ability.DURABLE, Ability.RETENTION, Ability.CLEANUP)

    @pytest.fixture
    def open_backend(self) -> Callable[[], HardenedMetastoreBackend]:
        only(self.scopes(HardenedMetastoreBackend()))
        return HardenedMetastoreBackend

    @pytest.fixture
    def set_elsewhere(self, backend: HardenedMetastoreBackend) -> Callable[..., None]:
        return in_another_session(backend)


class TestHardenedOnSqlite(HardenedContract):
    @pytest.fixture(scope="class", autouse=True)
    def _metastore(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
        with tables_in(f"sqlite:///{tmp_path_factory.mktemp('airflow') / 'airflow.db'}"):
            yield


class TestHardenedOnPostgreSQL(HardenedContract):
    @pytest.fixture(scope="class", autouse=True)
    def _metastore(self) -> Iterator[None]:
        with schema_on_postgresql() as url, tables_in(url):
            yield


# --- where Airflow's tables are, and what is in them ----------------------------------------------------------------


@pytest.fixture(scope="module", params=["sqlite", "postgresql", "mysql"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a database with Airflow's tables, which this process uses."""
    places: dict[str, Callable[[], AbstractContextManager[str]]] = {
        "sqlite": lambda: sqlite_in(tmp_path_factory.mktemp("airflow")),
        "postgresql": schema_on_postgresql,
        "mysql": database_on_mysql,
    }
    with places[request.param]() as url, tables_in(url):
        yield url


def on(*kinds: str) -> pytest.MarkDecorator:
    """Only where the condition of a test can be made."""
    return pytest.mark.parametrize("place", kinds, indirect=True, scope="module")


@pytest.fixture
def backend(place: str) -> HardenedMetastoreBackend:
    backend = HardenedMetastoreBackend()
    only(default_scopes(backend))
    return backend


@pytest.fixture
def task(backend: HardenedMetastoreBackend) -> Any:
    return default_scopes(backend)[0]


@pytest.fixture
def batches_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    return lambda size: monkeypatch.setenv("AIRFLOW__STATE_STORE__STATE_CLEANUP_BATCH_SIZE", str(size))


@contextmanager
def session() -> Iterator[Any]:
    """One on a connection of its own."""
    from airflow.utils.session import create_session

    with create_session(scoped=False) as opened:
        yield opened


def fill(task: Any, **expiries: timedelta) -> None:
    """Let there be, by prefix, 10 rows that expire so long from now; `many` is 1,000 of them."""
    from airflow.models.dagrun import DagRun
    from airflow.models.task_state_store import TaskStateStoreModel

    now = datetime.now(timezone.utc)
    with session() as opened:
        run = opened.scalar(select(DagRun.id).where(DagRun.dag_id == task.dag_id, DagRun.run_id == task.run_id))
        same = {"dag_run_id": run, "dag_id": task.dag_id, "run_id": task.run_id, "task_id": task.task_id}
        same |= {"value": "1", "updated_at": now}
        rows = [
            {**same, "key": f"{prefix}.{number}", "expires_at": now + expires}
            for prefix, expires in expiries.items()
            for number in range(1_000 if prefix == "many" else 10)
        ]
        opened.execute(insert(TaskStateStoreModel), rows)


def keys() -> list[str]:
    from airflow.models.task_state_store import TaskStateStoreModel

    with session() as opened:
        return sorted(opened.scalars(select(TaskStateStoreModel.key)))


def ten(prefix: str) -> list[str]:
    return [f"{prefix}.{number}" for number in range(10)]


@contextmanager
def listening(name: str, listener: Callable[..., None]) -> Iterator[None]:
    """To the engines of Airflow, of which one is for the async methods."""
    from airflow import settings

    engines = [settings.engine, *([settings.async_engine.sync_engine] if settings.async_engine else [])]
    for engine in engines:
        event.listen(engine, name, listener)
    try:
        yield
    finally:
        for engine in engines:
            event.remove(engine, name, listener)


@contextmanager
def once_before(verb: str, act: Callable[[], None]) -> Iterator[list[str]]:
    """Act when the first such statement is about to be executed; every one of them is in the list."""
    seen: list[str] = []

    def listener(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith(verb):
            seen.append(statement)
            if len(seen) == 1:
                act()

    with listening("before_cursor_execute", listener):
        yield seen
    assert seen


# --- cleaning up ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("expires_at", [None, datetime.now(timezone.utc) + HOUR], ids=["for ever", "for an hour"])
def test_what_is_set_again_during_a_cleanup_is_not_collected(
    backend: HardenedMetastoreBackend, task: Any, expires_at: datetime | None
) -> None:
    fill(task, expired=-HOUR)

    def refresh() -> None:
        with session() as other:
            backend.set(task, "expired.3", "2", expires_at=expires_at, session=other)

    with once_before("DELETE", refresh):
        backend.cleanup()
    assert keys() == ["expired.3"]
    assert backend.get(task, "expired.3") == "2"


def test_rows_go_in_batches_and_nothing_else_goes(
    backend: HardenedMetastoreBackend, task: Any, batches_of: Callable[[int], None]
) -> None:
    *_, asset = default_scopes(backend)
    backend.set(asset, "key", "1")
    backend.set(task, "for ever", "1")
    fill(task, many=-HOUR, fresh=HOUR)
    batches_of(300)
    values: list[int] = []

    def listener(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if statement.startswith("DELETE"):
            values.append(len(parameters))

    with listening("before_cursor_execute", listener):
        backend.cleanup()
    assert values == [301, 301, 301, 101]  # the ids, and the moment
    assert keys() == sorted([*ten("fresh"), "for ever"])
    assert backend.get(asset, "key") == "1"


def test_the_dry_run_names_what_then_goes(backend: HardenedMetastoreBackend, task: Any) -> None:
    fill(task, expired=-HOUR, fresh=HOUR)
    named = [row.key for row in backend._summary_dry_run()["expired"]]
    assert keys() == sorted(ten("expired") + ten("fresh"))
    backend.cleanup()
    assert sorted(named) == ten("expired")
    assert keys() == ten("fresh")


def test_a_cleanup_that_was_killed_can_be_run_again(
    backend: HardenedMetastoreBackend, task: Any, batches_of: Callable[[int], None]
) -> None:
    fill(task, many=-HOUR, fresh=HOUR)
    batches_of(100)

    def clean_until_killed(_: object) -> None:
        deletes: list[str] = []

        def listener(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
            deletes.extend([statement] * statement.startswith("DELETE"))
            if len(deletes) == 4:  # in its transaction, which is not committed
                os.kill(os.getpid(), signal.SIGKILL)

        with listening("after_cursor_execute", listener):
            backend.cleanup()

    with Child(clean_until_killed) as child, pytest.raises(AssertionError, match="ended without an answer"):
        child.receive()
    assert len(keys()) == 700 + 10
    backend.cleanup()
    assert keys() == ten("fresh")


def test_two_cleanups_at_once_do_not_disturb_each_other(
    backend: HardenedMetastoreBackend, task: Any, batches_of: Callable[[int], None]
) -> None:
    fill(task, many=-HOUR, fresh=HOUR)
    batches_of(50)
    assert run_together(lambda _: backend.cleanup(), 2) == [None, None]
    assert keys() == ten("fresh")


@on("sqlite")
def test_a_batch_that_cannot_be_deleted_is_left_out_and_named(
    backend: HardenedMetastoreBackend, task: Any, place: str, batches_of: Callable[[int], None]
) -> None:
    fill(task, expired=-HOUR)
    batches_of(4)
    ask(
        place,
        "CREATE TRIGGER refuse BEFORE DELETE ON task_state_store WHEN old.key = 'expired.5'"
        " BEGIN SELECT RAISE(ABORT, 'not this one'); END",
    )
    try:
        with pytest.raises(CleanupIncompleteError, match=r"1 batches .* not this one. 6 rows were deleted"):
            backend.cleanup()
    finally:
        ask(place, "DROP TRIGGER refuse")
    assert keys() == ["expired.4", "expired.5", "expired.6", "expired.7"]
    backend.cleanup()
    assert keys() == []


@on("sqlite")
def test_what_was_deleted_before_a_look_that_fails_is_counted_and_named(
    backend: HardenedMetastoreBackend, task: Any, batches_of: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_resume.backends import hardened

    fill(task, expired=-HOUR)
    batches_of(4)
    looks, read_page = count(1), hardened._read_page

    def fails_at_the_third(*arguments: Any) -> Any:
        if next(looks) == 3:
            raise DBAPIError("SELECT", {}, RuntimeError("no such page"))
        return read_page(*arguments)

    monkeypatch.setattr(hardened, "_read_page", fails_at_the_third)
    with pytest.raises(CleanupIncompleteError, match=r"1 batches .* no such page. 8 rows were deleted"):
        backend.cleanup()
    backend.cleanup()
    assert keys() == []


@pytest.mark.parametrize(("configured", "size"), [("0", 1_000), ("-1", 1_000), ("7", 7), ("1000000", 10_000)])
def test_a_batch_is_bounded_whatever_is_configured(monkeypatch: pytest.MonkeyPatch, configured: str, size: int) -> None:
    from airflow_resume.backends.hardened import batch_size

    monkeypatch.setenv("AIRFLOW__STATE_STORE__STATE_CLEANUP_BATCH_SIZE", configured)
    assert batch_size() == size


# --- trouble that passes --------------------------------------------------------------------------------------------


@on("postgresql", "mysql")
def test_a_cleanup_that_is_the_victim_of_a_deadlock_goes_on(
    backend: HardenedMetastoreBackend, task: Any, place: str
) -> None:
    fill(task, expired=-HOUR, fresh=HOUR)
    deletes: list[str] = []

    with ThreadPoolExecutor(1) as threads, session() as other:
        if place.startswith("postgresql"):
            other.execute(text("SET LOCAL deadlock_timeout = '60s'"))  # who notices first is the victim
        else:
            for key in ten("fresh"):  # who has changed less is the victim
                other.execute(update_of(key, "2"))
        other.execute(update_of("expired.1", "2"))

        def change_the_other_one() -> None:
            other.execute(update_of("expired.0", "2"))
            other.commit()

        def cross(connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
            deletes.extend([statement] * statement.startswith("DELETE"))
            if deletes == [statement]:
                connection.execute(update_of("expired.0", "3"))
                threads.submit(change_the_other_one)
                eventually(lambda: waits_for_a_lock(place))

        with listening("before_cursor_execute", cross):
            backend.cleanup()
    assert len(deletes) == 2
    assert keys() == ten("fresh")


@on("sqlite")
def test_a_lock_is_waited_for(backend: HardenedMetastoreBackend, task: Any, place: str) -> None:
    with session() as other:
        other.execute(text("BEGIN IMMEDIATE"))
        waits: list[float] = []

        def let_go(seconds: float) -> None:
            waits.append(seconds)
            other.commit()

        HardenedMetastoreBackend(sleep=let_go).set(task, "key", "1")
    assert len(waits) == 1
    assert backend.get(task, "key") == "1"


CALLS: dict[str, Callable[[Any, Any, Any], object]] = {
    "set": lambda backend, task, _: backend.set(task, "key", "1"),
    "delete": lambda backend, task, _: backend.delete(task, "key"),
    "clear": lambda backend, task, _: backend.clear(task),
    "get": lambda backend, task, _: backend.get(task, "key"),
    "set_asset_state_store": lambda backend, _, asset: backend.set_asset_state_store(asset, "key", "1", kind=watcher()),
}


@on("postgresql", "mysql")
@pytest.mark.parametrize("name", CALLS)
def test_a_call_whose_connection_is_lost_is_made_again(
    backend: HardenedMetastoreBackend, task: Any, place: str, name: str
) -> None:
    *_, asset = default_scopes(backend)
    with once_before("", partial(lose_connections, place)) as statements:
        CALLS[name](backend, task, asset)
    assert len(statements) > 1
    if name.startswith("set"):
        assert backend.get(asset if "asset" in name else task, "key") == "1"


@on("postgresql", "mysql")
@pytest.mark.parametrize("name", ["set", "cleanup"])
def test_a_commit_whose_reply_is_lost_is_made_again_with_its_transaction(
    backend: HardenedMetastoreBackend, task: Any, place: str, name: str
) -> None:
    fill(task, expired=-HOUR, fresh=HOUR)
    with once_after_a_commit(place, verb="INSERT" if name == "set" else "DELETE") as statements:
        if name == "set":
            backend.set(task, "expired.0", "2")
        else:
            backend.cleanup()
    assert len(statements) == 2
    assert keys() == sorted(ten("fresh") + (ten("expired") if name == "set" else []))
    assert backend.get(task, "expired.0") == ("2" if name == "set" else None)


ASYNC_CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "aset": lambda backend, task, _: backend.aset(task, "key", "1"),
    "adelete": lambda backend, task, _: backend.adelete(task, "key"),
    "aclear": lambda backend, task, _: backend.aclear(task),
    "aget": lambda backend, task, _: backend.aget(task, "key"),
    "aset_asset_state_store": lambda backend, _, asset: backend.aset_asset_state_store(
        asset, "key", "1", kind=watcher()
    ),
}


@on("postgresql")  # the only server with an async driver here
@pytest.mark.parametrize("name", ASYNC_CALLS)
def test_an_async_call_whose_connection_is_lost_is_made_again(
    backend: HardenedMetastoreBackend, task: Any, place: str, name: str
) -> None:
    *_, asset = default_scopes(backend)
    with once_before("", partial(lose_connections, place)) as statements:
        asyncio.run(ASYNC_CALLS[name](backend, task, asset))
    assert len(statements) > 1
    if name.startswith("aset"):
        assert backend.get(asset if "asset" in name else task, "key") == "1"


@on("postgresql")
def test_an_async_call_in_a_transaction_of_the_caller_is_made_once(
    backend: HardenedMetastoreBackend, task: Any, place: str
) -> None:
    from airflow.utils.session import create_session_async

    async def write() -> None:
        async with create_session_async() as opened:
            await backend.aset(task, "first", "1", session=opened)
            with once_before("", partial(lose_connections, place)):
                await backend.aset(task, "second", "2", session=opened)

    with pytest.raises(DBAPIError):
        asyncio.run(write())
    assert keys() == []


@on("postgresql", "mysql")
def test_a_call_in_a_transaction_of_the_caller_is_made_once(
    backend: HardenedMetastoreBackend, task: Any, place: str
) -> None:
    def write(opened: Any) -> None:
        backend.set(task, "first", "1", session=opened)
        with once_before("", partial(lose_connections, place)) as statements:
            try:
                backend.set(task, "second", "2", session=opened)
            finally:
                assert len(statements) == 1

    with pytest.raises(DBAPIError), session() as opened:
        write(opened)
    assert keys() == []


@on("postgresql", "mysql")
def test_a_call_in_the_transaction_of_the_threads_session_is_made_once(
    backend: HardenedMetastoreBackend, task: Any, place: str
) -> None:
    from airflow.utils.session import create_session

    def write(opened: Any) -> None:
        backend.set(task, "first", "1", session=opened)
        with once_before("", partial(lose_connections, place)):
            backend.set(task, "second", "2")

    with pytest.raises(DBAPIError), create_session() as opened:
        write(opened)
    assert keys() == []


def test_an_error_that_does_not_pass_is_not_tried_again(backend: HardenedMetastoreBackend, task: Any) -> None:
    def refuse() -> None:
        raise ValueError("by the test")

    with once_before("INSERT", refuse) as statements, pytest.raises(ValueError, match="by the test"):
        backend.set(task, "key", "1")
    assert len(statements) == 1


@on("sqlite")
def test_the_patience_ends(backend: HardenedMetastoreBackend, task: Any, place: str) -> None:
    waits: list[float] = []
    impatient = HardenedMetastoreBackend(patience=1, sleep=waits.append)
    with session() as other:
        other.execute(text("BEGIN IMMEDIATE"))
        with pytest.raises(DBAPIError, match="locked"):
            impatient.set(task, "key", "1")
    assert waits


def lose_connections(place: str) -> None:
    """That in use, and those in the pool, which would be noticed only when they are used."""
    from airflow import settings

    kill_connections(place)
    settings.engine.dispose()  # type: ignore[union-attr]


@contextmanager
def once_after_a_commit(place: str, verb: str) -> Iterator[list[str]]:
    """Lose the connection when the server has committed the first such statement, and before it has said so."""
    from airflow import settings

    dialect: Any = settings.engine.dialect  # type: ignore[union-attr]
    commit, driver = dialect.do_commit, dialect.dbapi
    lost = driver.errors.AdminShutdown() if place.startswith("postgresql") else driver.OperationalError(2013, "lost")

    def commit_and_lose(connection: Any) -> None:
        commit(connection)
        if len(statements) == 1:
            raise lost

    with pytest.MonkeyPatch.context() as patch, once_before(verb, lambda: None) as statements:
        patch.setattr(dialect, "do_commit", commit_and_lose)
        yield statements


def watcher() -> Any:
    from airflow._shared.state import AssetStateStoreWriterKind

    return AssetStateStoreWriterKind.WATCHER


def update_of(key: str, value: str) -> Any:
    from airflow.models.task_state_store import TaskStateStoreModel
    from sqlalchemy import update

    return update(TaskStateStoreModel).where(TaskStateStoreModel.key == key).values(value=value)


def waits_for_a_lock(place: str) -> bool:
    """Whether one of the connections to this place does."""
    url = make_url(place)
    if url.get_backend_name() == "postgresql":
        waiting = "pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = "
        question = f"SELECT count(*) FROM {waiting} '{url.query['application_name']}'"  # noqa: S608  our own
    else:
        waiting = "innodb_trx JOIN information_schema.processlist ON id = trx_mysql_thread_id"
        where = f"trx_state = 'LOCK WAIT' AND db = '{url.database}'"
        question = f"SELECT count(*) FROM information_schema.{waiting} WHERE {where}"  # noqa: S608  our own
    answer: Any = ask(place, question)
    return bool(answer[0][0])


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# --- the page, and the import ---------------------------------------------------------------------------------------

PAGE = (Path(__file__).parents[2] / "docs" / "backends.md").read_text()


def test_the_page_names_the_backend_and_its_numbers() -> None:
    from airflow_resume.backends.hardened import BATCH, LARGEST_BATCH
    from airflow_resume.backends.span import PATIENCE_SECONDS

    (path,) = re.findall(r"^\[state_store\]\nbackend = (\S+)$", PAGE, re.MULTILINE)
    assert path == f"airflow_resume.backends.{HardenedMetastoreBackend.__name__}"
    assert f"at most {LARGEST_BATCH:,}, and {BATCH:,} if the setting is 0" in " ".join(PAGE.split())
    assert f"for up to {PATIENCE_SECONDS:.0f} seconds" in PAGE


LAZY = """
import sys
from airflow_resume import backends
print("airflow.models.task_state_store" in sys.modules, "HardenedMetastoreBackend" in dir(backends))
sys.modules["airflow.state"] = None
try:
    backends.HardenedMetastoreBackend
except ImportError as error:
    print(type(error).__name__, error)
"""


def test_airflow_is_imported_when_the_backend_is_used_and_its_absence_is_named() -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    done = subprocess.run([sys.executable, "-c", LAZY], env=env, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found, named, remedy = done.stdout.splitlines()
    assert found == "False True"
    assert remedy == "Use SqlStoreBackend on a worker."
    assert named.startswith("MissingDriverError HardenedMetastoreBackend is for `[state_store] backend` of Airflow's")
