"""What stands between us and the database: poolers, networks through which nothing comes, locks, signals.

Every call ends within its patience, by name; and what was given up is not done later.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.state import TaskScope
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.pool import NullPool

from airflow_resume.backends import SqlStateStore, SqlStoreBackend
from airflow_resume.backends.dialects.base import ServerSession
from airflow_resume.backends.urls.read import read_url
from airflow_resume.errors import ResumeError, StoreUnavailableError
from tests.support.backends.databases import database_on_mysql, database_on_postgresql, text_of
from tests.support.backends.poolers import pgbouncer
from tests.support.backends.stalling_proxy import StallingProxy, stalling_proxy

if TYPE_CHECKING:
    from typing_extensions import Self

SCOPE = TaskScope(dag_id="dag", run_id="run", task_id="task")
BEFORE, LATE, AFTER = '"before"', '"late"', '"after"'
PATIENCE = 2.0
SPARE = 3.0
"""How much longer a call may take on a machine that is busy."""

PLACES = {
    "psycopg": (database_on_postgresql, "postgresql+psycopg", 5432),
    "psycopg2": (database_on_postgresql, "postgresql+psycopg2", 5432),
    "pymysql": (database_on_mysql, "mysql+pymysql", 3306),
}


@pytest.fixture(params=PLACES)
def server_url(request: pytest.FixtureRequest) -> Iterator[str]:
    place, driver, _ = PLACES[request.param]
    with place() as url:
        yield text_of(make_url(url).set(drivername=driver))


@pytest.fixture
def proxy(server_url: str) -> Iterator[StallingProxy]:
    url = make_url(server_url)
    with stalling_proxy(url.host or "127.0.0.1", url.port or (3306 if "mysql" in server_url else 5432)) as running:
        yield running


@pytest.fixture
def behind(server_url: str, proxy: StallingProxy) -> Iterator[SqlStoreBackend]:
    url = text_of(make_url(server_url).set(host="127.0.0.1", port=proxy.port))
    with closing(SqlStoreBackend(url, patience=PATIENCE)) as backend:
        backend.set(SCOPE, "key", BEFORE)
        yield backend


@pytest.fixture
def direct(server_url: str) -> Iterator[SqlStoreBackend]:
    with closing(SqlStoreBackend(server_url, patience=PATIENCE)) as backend:
        yield backend


# --- poolers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_behind_a_pooler_nobody_gets_the_reply_or_the_statement_of_another(mode: str) -> None:
    rounds = 150
    found: list[object] = []

    def read_only(number: int, url: str, direct: str) -> None:
        with closing(SqlStoreBackend(direct)) as backend:
            SqlStateStore(backend, f"reader {number}").set("key", number)
        with closing(SqlStoreBackend(url, patience=20)) as backend:
            store = SqlStateStore(backend, f"reader {number}")
            found.extend(value for _ in range(rounds) if (value := store.get("key")) != number)

    def delete_only(number: int, url: str) -> None:
        with closing(SqlStoreBackend(url, patience=20)) as backend:
            store = SqlStateStore(backend, f"deleter {number}")
            for _ in range(rounds):
                store.delete("key")
                store.set("other", number)

    def noted(work: Callable[..., None], *given: object) -> threading.Thread:
        def run() -> None:
            try:
                work(*given)
            except BaseException as error:  # noqa: BLE001  it is looked at below
                found.append(error)

        return threading.Thread(target=run)

    # In session mode a client keeps one of the two connections for as long as it is there.
    clients = 3 if mode == "transaction" else 1
    with database_on_postgresql() as direct, pgbouncer(direct, mode) as url:
        threads = [noted(read_only, number, url, direct) for number in range(clients)]
        threads += [noted(delete_only, number, url) for number in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        with closing(SqlStoreBackend(direct)) as backend:
            kept = [SqlStateStore(backend, f"reader {number}").get("key") for number in range(clients)]
    assert found == []
    assert kept == list(range(clients))


def test_the_tables_are_made_through_a_pooler() -> None:
    with (
        database_on_postgresql() as direct,
        pgbouncer(direct, "transaction") as url,
        closing(SqlStoreBackend(url, keep_versions=3)) as backend,
    ):
        store = SqlStateStore(backend, "scope")
        store.set_many({"a": 1, "b": 2})
        assert store.compare_and_set("a", store.history("a")[0].version, 3)
        assert (store.get("a"), store.scan("")) == (3, ["a", "b"])
        assert backend.clean().failures == ()


def test_statements_are_prepared_on_the_server_only_where_the_url_says_so() -> None:
    url, dialect = read_url("postgresql://host/db")
    assert dialect.engine_options(url)["connect_args"]["prepare_threshold"] is None
    url, dialect = read_url("postgresql://host/db?prepare_threshold=5")
    assert dialect.engine_options(url)["connect_args"]["prepare_threshold"] == 5


# --- a network through which nothing comes --------------------------------------------------------------------


def in_time(call: Callable[[], object], seconds: float = PATIENCE) -> None:
    """It is given up, by name, in time."""
    began = monotonic()
    with pytest.raises(StoreUnavailableError, match=r"could not be used for .* s: "):
        call()
    assert monotonic() - began < seconds + SPARE


def test_a_call_through_a_network_that_stalls_ends_within_its_patience(
    behind: SqlStoreBackend, proxy: StallingProxy
) -> None:
    proxy.stall()
    in_time(lambda: behind.get(SCOPE, "key"))
    in_time(lambda: behind.set_many(SCOPE, {"key": "x", "other": "y"}))
    proxy.go_on()
    assert behind.get(SCOPE, "key") == BEFORE


def test_the_first_call_ends_as_well(server_url: str, proxy: StallingProxy) -> None:
    proxy.stall()
    url = text_of(make_url(server_url).set(host="127.0.0.1", port=proxy.port))
    with closing(SqlStoreBackend(url, patience=PATIENCE)) as backend:
        in_time(lambda: backend.get(SCOPE, "key"))


def test_other_threads_do_not_wait_longer_than_their_own_patience(
    behind: SqlStoreBackend, proxy: StallingProxy
) -> None:
    proxy.stall()
    ends: list[float] = []

    def call() -> None:
        began = monotonic()
        with pytest.raises(StoreUnavailableError):
            behind.get(SCOPE, "key")
        ends.append(monotonic() - began)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(ends) == 4
    assert max(ends) < PATIENCE + SPARE


def test_an_event_loop_is_held_up_for_a_second(
    behind: SqlStoreBackend, proxy: StallingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(behind._database, "_patience", 60)
    reference = behind.serialize_task_state_store_to_ref(value="x" * 5_000, key="key", scope=SCOPE)
    proxy.stall()

    async def on_a_loop() -> Any:
        return behind.deserialize_task_state_store_from_ref(reference)

    in_time(lambda: asyncio.run(on_a_loop()), 1)


@pytest.mark.parametrize("late", ["set", "delete", "clear", "compare_and_set"])
def test_what_was_given_up_is_not_done_later(
    behind: SqlStoreBackend, direct: SqlStoreBackend, proxy: StallingProxy, late: str
) -> None:
    """The bytes are in the proxy, which delivers them when the network is well again."""
    version = direct.history(SCOPE, "key")[0].version if late == "compare_and_set" else 0
    calls: dict[str, Callable[[], object]] = {
        "set": lambda: behind.set(SCOPE, "key", LATE),
        "delete": lambda: behind.delete(SCOPE, "key"),
        "clear": lambda: behind.clear(SCOPE),
        "compare_and_set": lambda: behind.compare_and_set(SCOPE, "key", version, LATE),
    }
    proxy.stall()
    in_time(calls[late])
    threading.Timer(0.3, proxy.go_on).start()  # while the next call is made
    behind.set(SCOPE, "key", AFTER)
    for _ in range(20):
        assert direct.get(SCOPE, "key") == AFTER
        threading.Event().wait(0.05)


# --- locks ----------------------------------------------------------------------------------------------------


class LockedTable:
    """The table of values, locked by an administrator until the end of the `with` block."""

    def __init__(self, server_url: str) -> None:
        place = make_url(server_url)
        if "postgresql" in server_url:
            self._lock = "LOCK TABLE airflow_resume_state IN ACCESS EXCLUSIVE MODE"
            ours = f"datname = '{place.database}'"
            self._waiting = f"SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND {ours}"  # noqa: S608
            self._cancel = "SELECT pg_cancel_backend({})"
        else:
            self._lock = "LOCK TABLES airflow_resume_state WRITE"
            ours = f"db = '{place.database}' AND state LIKE 'Waiting for%'"
            self._waiting = f"SELECT id FROM information_schema.processlist WHERE {ours}"  # noqa: S608
            self._cancel = "KILL QUERY {}"
        self._engine = create_engine(server_url, isolation_level="AUTOCOMMIT", poolclass=NullPool)

    def __enter__(self) -> Self:
        self._administrator = self._engine.execution_options(isolation_level="READ COMMITTED").connect()
        self._administrator.execute(text(self._lock))
        self._looking = self._engine.connect()
        return self

    def until_there_wait(self, count: int) -> list[int]:
        """The sessions that wait for the lock, when there are so many."""
        end = monotonic() + 20
        while len(waiting := list(self._looking.execute(text(self._waiting)).scalars())) != count:
            assert monotonic() < end, f"{waiting} wait for the lock"
            threading.Event().wait(0.01)
        return waiting

    def cancel(self, session: int) -> None:
        self._looking.execute(text(self._cancel.format(session)))

    def __exit__(self, *error: object) -> None:
        self._looking.close()
        self._administrator.invalidate()


def test_a_call_ends_when_somebody_has_locked_the_table_and_is_not_done_when_it_is_unlocked(
    server_url: str, direct: SqlStoreBackend
) -> None:
    direct.set(SCOPE, "key", BEFORE)
    with closing(SqlStoreBackend(server_url)) as other:
        other_writes = threading.Thread(target=lambda: other.set(SCOPE, "key", AFTER))
        with LockedTable(server_url) as table:
            in_time(lambda: direct.set(SCOPE, "key", LATE))
            table.until_there_wait(0)
            other_writes.start()
            table.until_there_wait(1)
        other_writes.join(20)
        for _ in range(20):
            assert other.get(SCOPE, "key") == AFTER
            threading.Event().wait(0.02)


def test_where_a_statement_cannot_be_cancelled_its_session_is_ended(
    server_url: str, direct: SqlStoreBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when its connection was closed before the server could be told."""

    def cancel(*_: object) -> bool:
        raise OSError("the connection is closed")

    direct.set(SCOPE, "key", BEFORE)
    monkeypatch.setattr(direct._database.dialect, "cancel", cancel)
    with LockedTable(server_url) as table:
        in_time(lambda: direct.set(SCOPE, "key", LATE))
        table.until_there_wait(0)
    assert direct.get(SCOPE, "key") == BEFORE


def test_a_statement_that_a_person_cancels_is_made_again(server_url: str, direct: SqlStoreBackend) -> None:
    direct.set(SCOPE, "key", BEFORE)
    call = threading.Thread(target=lambda: direct.set(SCOPE, "key", AFTER))
    with LockedTable(server_url) as table:
        call.start()
        [session] = table.until_there_wait(1)
        table.cancel(session)
    call.join(20)
    assert direct.get(SCOPE, "key") == AFTER


def test_a_session_that_has_the_number_of_an_ended_one_is_left_alone(direct: SqlStoreBackend, server_url: str) -> None:
    """A server gives its numbers anew, after a restart at the latest."""
    direct.set(SCOPE, "key", BEFORE)
    database = direct._database
    link = next(iter(database._process._idle.values()))
    assert link.session is not None
    with closing(SqlStoreBackend(server_url)) as other:

        def end(session: ServerSession) -> bool:
            return other._database.as_it_is(lambda connection: database.dialect.end_session(connection, session))

        assert not end(link.session._replace(mark="another"))
        assert direct.get(SCOPE, "key") == BEFORE
        assert next(iter(database._process._idle.values())) is link
        assert end(link.session)
        assert direct.get(SCOPE, "key") == BEFORE
        assert next(iter(database._process._idle.values())) is not link


def test_to_close_a_connection_that_the_server_has_ended_is_no_error(direct: SqlStoreBackend, server_url: str) -> None:
    direct.set(SCOPE, "key", BEFORE)
    session = next(iter(direct._database._process._idle.values())).session
    assert session is not None
    with closing(SqlStoreBackend(server_url)) as other:
        other._database.as_it_is(lambda connection: other._database.dialect.end_session(connection, session))
    direct.close()
    assert direct.get(SCOPE, "key") == BEFORE


def test_to_close_does_not_wait_for_a_network_that_stalls(behind: SqlStoreBackend, proxy: StallingProxy) -> None:
    behind.get(SCOPE, "key")
    proxy.stall()
    began = monotonic()
    behind.close()
    assert monotonic() - began < PATIENCE + SPARE
    proxy.go_on()


def test_the_first_call_ends_while_another_process_makes_the_tables(server_url: str) -> None:
    engine = create_engine(server_url)
    name = f"airflow_resume.{make_url(server_url).database}"
    of_postgresql = f"SELECT pg_advisory_lock({0x61697266}, hashtext(current_schema()))"
    lock = f"SELECT GET_LOCK('{name}', 1)" if "mysql" in server_url else of_postgresql
    with engine.connect() as other, closing(SqlStoreBackend(server_url, patience=PATIENCE)) as backend:
        other.execute(text(lock))
        began = monotonic()
        with pytest.raises(StoreUnavailableError, match="Another process was making or changing the tables"):
            backend.get(SCOPE, "key")
        assert monotonic() - began < PATIENCE + SPARE
    engine.dispose()


def test_a_call_ends_where_there_is_no_number_for_another_file(behind: SqlStoreBackend, proxy: StallingProxy) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    proxy.stall()
    taken: list[int] = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        began = monotonic()
        with pytest.raises(ResumeError):
            behind.get(SCOPE, "key")
        assert monotonic() - began < PATIENCE + SPARE
    finally:
        for number in taken:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_what_was_waited_for_is_said(server_url: str) -> None:
    nobody = text_of(make_url(server_url).set(host="127.0.0.1", port=1))
    with (
        closing(SqlStoreBackend(nobody, patience=PATIENCE)) as backend,
        pytest.raises(StoreUnavailableError, match=r"(?i)refused|can't connect"),
    ):
        backend.get(SCOPE, "key")


# --- signals --------------------------------------------------------------------------------------------------


class Interruption(BaseException):
    """What a signal handler raises, as Airflow's does when the time of a task is over."""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # raised while garbage is collected
def test_signals_at_any_moment_leave_neither_a_wrong_value_nor_a_dead_connection(url: str) -> None:
    armed = False

    def interrupt(*_: object) -> None:
        nonlocal armed
        if armed:
            armed = False
            raise Interruption

    rounds = 3_000 if "sqlite" in url else 400  # a server takes a while for a new connection
    wrong: list[object] = []
    interrupted = 0
    previous = signal.signal(signal.SIGALRM, interrupt)
    with closing(SqlStoreBackend(url, patience=10)) as backend:
        store = SqlStateStore(backend, "interrupted")
        store.set("key", 0)
        possible: set[object] = {0}
        try:
            for number in range(1, rounds):
                try:
                    armed = True
                    signal.setitimer(signal.ITIMER_REAL, 0.00005 * (number % 60 + 1))
                    if number % 2:
                        possible.add(number)
                        store.set("key", number)
                        possible = {number}
                    else:
                        found = store.get("key")
                        if found not in possible:
                            wrong.append((found, possible))
                    armed = False
                except Interruption:
                    interrupted += 1
        finally:
            armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)
        other = threading.Thread(target=lambda: store.set("key", "by another thread"))
        other.start()
        other.join(20)
        assert store.get("key") == "by another thread"
    assert wrong == []
    assert interrupted > rounds / 100  # how often a signal comes in time depends on the machine


def test_the_turn_is_given_back_after_an_error(url: str) -> None:
    with closing(SqlStoreBackend(url, patience=1)) as backend:
        with pytest.raises(ResumeError):
            backend._database.autocommit(lambda connection: connection.execute(text("SELECT nothing FROM nowhere")))
        thread = threading.Thread(target=lambda: backend.set(SCOPE, "key", "1"))
        thread.start()
        thread.join(10)
        assert backend.get(SCOPE, "key") == "1"
