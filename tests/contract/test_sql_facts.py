"""The facts about databases that our backend was designed against, each on every database that is there."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timedelta, timezone
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

import pytest
from airflow.sdk.state import AssetScope, TaskScope
from sqlalchemy import Connection as SqlConnection
from sqlalchemy import delete, make_url

from airflow_resume.backends import SqlStateStore, SqlStoreBackend
from airflow_resume.backends.schema import migrations
from airflow_resume.backends.schema.tables import HISTORY, META, STATE
from airflow_resume.errors import (
    DanglingReferenceError,
    SchemaError,
    StateReferenceError,
    StoreRefusedError,
    SupersededError,
)
from airflow_resume.testing import task_context
from airflow_resume.testing.contract.children import Child, run_together
from tests.support.backends.databases import ask, in_another_time_zone, kill_connections, text_of
from tests.support.kit.raised import having

SCOPE = TaskScope(dag_id="dag", run_id="run", task_id="task")
HOUR = timedelta(hours=1)
NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc)
LARGE = "x" * 70_000
ON_SERVERS = pytest.mark.parametrize("url", ["postgresql", "mysql"], indirect=True)


# --- processes ------------------------------------------------------------------------------------------------


def test_eight_processes_that_are_the_first_make_one_database(url: str) -> None:
    ids = run_together(lambda _: SqlStoreBackend(url).store_id, 8)
    assert len(set(ids)) == 1
    assert ask(url, f"SELECT COUNT(*) FROM {META.name}") == [(1,)]  # noqa: S608


PROCESSES, INCREMENTS = 8, 50


def test_no_increment_by_compare_and_set_is_lost(url: str) -> None:
    def count_up(_: int) -> None:
        store = SqlStateStore(SqlStoreBackend(url), "counter")
        for _ in range(INCREMENTS):
            increment(store)

    run_together(count_up, PROCESSES)
    with closing(SqlStoreBackend(url)) as backend:
        assert SqlStateStore(backend, "counter").get("n") == PROCESSES * INCREMENTS


def increment(store: SqlStateStore) -> None:
    while True:
        last = next(iter(store.history("n")), None)
        value: Any = 0 if last is None else last.value
        if store.compare_and_set("n", 0 if last is None else last.version, value + 1) is not None:
            return


def test_batches_in_opposite_order_do_not_hinder_each_other(url: str) -> None:
    keys = [f"key.{number}" for number in range(20)]

    def write(index: int) -> None:
        backend = SqlStoreBackend(url)
        for _ in range(10):
            backend.set_many(SCOPE, {key: str(index) for key in (keys if index % 2 else reversed(keys))})

    run_together(write, 4)
    with closing(SqlStoreBackend(url)) as backend:
        assert len({backend.get(SCOPE, key) for key in keys}) == 1


def test_what_a_forked_child_writes_outlives_the_parent_that_had_the_database_open(url: str) -> None:
    with closing(SqlStoreBackend(url)) as backend:
        backend.set(SCOPE, "parent", "1")

        def write(sender: Connection) -> None:
            backend.set(SCOPE, "before", "1")
            sender.send((None, "written"))
            receiver.recv()
            backend.set(SCOPE, "after", "1")
            sender.send((None, "written"))

        receiver, go_on = Pipe(duplex=False)
        with Child(write) as child:
            child.receive()
            backend.close()
            go_on.send("closed")
            child.receive()
        assert backend.get(SCOPE, "after") == "1"


def test_a_fork_while_another_thread_writes_goes_well(url: str) -> None:
    with closing(SqlStoreBackend(url)) as backend, ThreadPoolExecutor(1) as thread:

        def write_many() -> None:
            for number in range(100):
                backend.set(SCOPE, f"parent.{number}", "1")

        writing = thread.submit(write_many)
        for number in range(5):
            run_together(lambda _, n=number: backend.set(SCOPE, f"child.{n}", "1"), 1)  # type: ignore[misc]
        writing.result()
        assert len(backend.scan(SCOPE, "")) == 105


@ON_SERVERS  # with a file the fork waits for the call
def test_a_child_does_not_wait_for_a_call_that_another_thread_of_its_parent_is_in(backend: SqlStoreBackend) -> None:
    backend.set(SCOPE, "key", "1")
    with ThreadPoolExecutor(1) as thread:
        thread.submit(backend._database._process._turn.acquire).result()
        assert run_together(lambda _: backend.get(SCOPE, "key"), 1) == ["1"]
        thread.submit(backend._database._process._turn.release).result()


# --- connections ----------------------------------------------------------------------------------------------


def test_a_connection_that_is_killed_between_calls_is_made_again(url: str, backend: SqlStoreBackend) -> None:
    backend.set(SCOPE, "key", "1")
    kill_connections(url)
    assert backend.get(SCOPE, "key") == "1"
    kill_connections(url)
    backend.set_many(SCOPE, {"key": "2", "other": "3"})
    assert backend.get(SCOPE, "key") == "2"


def test_a_connection_that_is_killed_within_a_transaction_is_made_again_and_the_transaction_with_it(
    url: str, backend: SqlStoreBackend
) -> None:
    kills = [lambda: kill_connections(url)]

    def killed_once(connection: SqlConnection) -> None:
        connection.execute(delete(STATE))
        if kills:
            kills.pop()()
        connection.execute(delete(STATE))

    backend.set(SCOPE, "key", "1")
    backend._database.transaction(killed_once)
    assert backend.get(SCOPE, "key") is None


class Alarm(BaseException):
    """As Airflow's time-out of a task."""


@pytest.fixture
def _alarm() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@ON_SERVERS  # with a file a signal is looked at when the call has ended, so there is nothing to be waited for
@pytest.mark.usefixtures("_alarm")
def test_an_answer_that_was_not_waited_for_is_not_taken_for_that_of_the_next_call(
    url: str, backend: SqlStoreBackend
) -> None:
    sleep = {"postgresql": "SELECT 'late' FROM pg_sleep(2)", "mysql": "SELECT concat('late', sleep(2))"}
    kind = make_url(url).get_backend_name()
    backend.set(SCOPE, "key", "1")
    with pytest.raises(Alarm):
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        backend._database.autocommit(lambda connection: connection.exec_driver_sql(sleep[kind]).scalar())
    assert backend.get(SCOPE, "key") == "1"
    backend.set(SCOPE, "key", "2")
    assert backend.get(SCOPE, "key") == "2"


def test_a_database_that_is_not_there_is_not_waited_for(url: str) -> None:
    backend = SqlStoreBackend(text_of(make_url(url).set(database="/nowhere/to/be/found")))
    waits: list[float] = []
    backend._database._sleep = waits.append
    with pytest.raises(StoreRefusedError, match="nowhere"):
        backend.get(SCOPE, "key")
    assert waits == []


# --- what comes back ------------------------------------------------------------------------------------------


def test_five_megabytes_come_back(backend: SqlStoreBackend) -> None:
    text = json.dumps(['é\U0001f600"\\'] * 450_000, ensure_ascii=False)
    assert len(text.encode()) > 5_000_000
    backend.set(SCOPE, "key", text)
    assert backend.get(SCOPE, "key") == text, "it came back changed"  # no diff of megabytes


def test_a_moment_is_kept_to_the_microsecond_whatever_the_zone_of_the_server(url: str) -> None:
    with closing(SqlStoreBackend(in_another_time_zone(url), now=lambda: NOW)) as backend:
        backend.set(SCOPE, "key", "1", expires_at=NOW.astimezone(timezone(timedelta(hours=-11))))
        assert backend.history(SCOPE, "key")[0].at == NOW
    assert ask(url, f"SELECT expires_us FROM {STATE.name}") == [(1_767_323_045_678_901,)]  # noqa: S608


# --- references -----------------------------------------------------------------------------------------------


def test_a_large_value_is_a_reference_and_a_small_one_is_itself(backend: SqlStoreBackend) -> None:
    small = backend.serialize_task_state_store_to_ref(value={"page": 3, "é": None}, key="key", scope=SCOPE)
    assert small == '{"page": 3, "é": null}'
    large = backend.serialize_task_state_store_to_ref(value=LARGE, key="key:é%", scope=SCOPE)
    assert large.startswith(f"airflow-resume:1:{backend.store_id}:")
    assert large.endswith(":key%3A%C3%A9%25")
    assert [backend.deserialize_task_state_store_from_ref(stored) for stored in (small, large)] == [
        {"page": 3, "é": None},
        LARGE,
    ]


def test_a_reference_whose_value_is_gone_is_an_error_or_missing_by_policy(
    open_backend: Callable[..., SqlStoreBackend], backend: SqlStoreBackend
) -> None:
    reference = backend.serialize_task_state_store_to_ref(value=LARGE, key="key", scope=SCOPE)
    backend.clear(SCOPE)
    with pytest.raises(DanglingReferenceError, match="'key'"):
        backend.deserialize_task_state_store_from_ref(reference)
    lenient = open_backend(on_dangling="missing")
    assert lenient.deserialize_task_state_store_from_ref(reference) is None


def test_a_reference_to_another_database_is_an_error_whatever_the_policy(
    open_backend: Callable[..., SqlStoreBackend],
) -> None:
    with closing(SqlStoreBackend("sqlite://")) as elsewhere:
        reference = elsewhere.serialize_asset_state_store_to_ref(
            value=LARGE, key="key", scope=AssetScope(name="orders")
        )
    with pytest.raises(StateReferenceError, match="another host"):
        open_backend(on_dangling="missing").deserialize_asset_state_store_from_ref(reference)


EARLY, LATE = "01980000-0000-7000-8000-000000000000", "01990000-0000-7000-8000-000000000000"
RANDOM = "01980000-0000-4000-8000-000000000000"


def store_as(backend: SqlStoreBackend, value: str, *, try_number: int, attempt_id: str, task_id: str = "task") -> str:
    attempt = task_context(dag_id="dag", run_id="run", task_id=task_id)
    with attempt:
        attempt.context["ti"].try_number, attempt.context["ti"].id = try_number, attempt_id
        return backend.serialize_task_state_store_to_ref(value=value + LARGE, key="key", scope=SCOPE)


def stored(backend: SqlStoreBackend) -> str:
    return str(backend.get(SCOPE, "key"))[1]


def test_an_attempt_that_was_replaced_does_not_write_over_its_successor(backend: SqlStoreBackend) -> None:
    store_as(backend, "1", try_number=1, attempt_id=EARLY)
    store_as(backend, "2", try_number=2, attempt_id=LATE)
    with pytest.raises(SupersededError, match="'key'"):
        store_as(backend, "3", try_number=1, attempt_id=EARLY)
    assert stored(backend) == "2"


@pytest.mark.parametrize(
    ("try_number", "attempt_id", "written"),
    [
        pytest.param(2, EARLY, True, id="the same attempt"),
        pytest.param(3, EARLY, True, id="a later one, by a clock that is behind"),
        pytest.param(1, LATE, True, id="the first of a Dag run that was made again"),
        pytest.param(1, RANDOM, False, id="an earlier one, of an id that says nothing"),
    ],
)
def test_an_attempt_is_older_when_its_number_and_its_id_are(
    backend: SqlStoreBackend, *, try_number: int, attempt_id: str, written: bool
) -> None:
    store_as(backend, "1", try_number=2, attempt_id=EARLY)
    if written:
        store_as(backend, "2", try_number=try_number, attempt_id=attempt_id)
    else:
        with pytest.raises(SupersededError):
            store_as(backend, "2", try_number=try_number, attempt_id=attempt_id)
    assert stored(backend) == ("2" if written else "1")


def test_attempts_of_other_tasks_are_not_compared(backend: SqlStoreBackend) -> None:
    store_as(backend, "1", try_number=2, attempt_id=LATE)
    store_as(backend, "2", try_number=1, attempt_id=EARLY, task_id="another")
    assert stored(backend) == "2"


# --- versions -------------------------------------------------------------------------------------------------


def test_a_database_of_a_newer_version_is_refused(
    open_backend: Callable[..., SqlStoreBackend], backend: SqlStoreBackend, url: str
) -> None:
    backend.set(SCOPE, "key", "1")
    ask(url, f"UPDATE {META.name} SET version = 99")  # noqa: S608
    with pytest.raises(SchemaError, match="version 99 of the tables", check=having(problem="newer")):
        open_backend().get(SCOPE, "key")


def test_an_older_database_is_brought_up_once_and_keeps_what_it_has(
    url: str, backend: SqlStoreBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.set(SCOPE, "key", "1")

    # It fails when it is made again.
    second = migrations.Change(
        ddl=migrations.in_words("CREATE TABLE airflow_resume_next (id INTEGER)"), done=lambda _: False
    )
    monkeypatch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, migrations.Step(changes=[second])))
    found = run_together(lambda _: SqlStoreBackend(url).get(SCOPE, "key"), 4)
    assert found == ["1"] * 4
    assert ask(url, f"SELECT version, schema_version FROM {META.name}") == [(1, 3)]  # noqa: S608


def test_what_was_interrupted_while_the_tables_were_made_is_finished(
    open_backend: Callable[..., SqlStoreBackend], backend: SqlStoreBackend, url: str
) -> None:
    assert backend.get(SCOPE, "key") is None
    ask(url, f"DELETE FROM {META.name}")  # noqa: S608  the row is written last, and no value before it
    again = open_backend()
    again.set(SCOPE, "key", "1")
    assert again.get(SCOPE, "key") == "1"
    assert len(again.store_id) == 32


def test_so_many_versions_are_kept_as_was_said(open_backend: Callable[..., SqlStoreBackend]) -> None:
    store = SqlStateStore(open_backend(keep_versions=3), "script")
    for number in range(5):
        store.set("key", number)
    assert [version.value for version in store.history("key")] == [4, 3, 2]
    store.compare_and_set("key", store.history("key")[0].version, 5)
    assert [version.value for version in store.history("key")] == [5, 4, 3]
    store.delete("key")
    store.compare_and_set("key", 0, 6)
    store.set("key", 7)
    assert [version.value for version in store.history("key")] == [7, 6]


@pytest.mark.parametrize("how", ["delete", "clear", "clear all map indices"])
def test_what_is_deleted_by_one_that_keeps_no_versions_does_not_return_in_the_history_of_another(
    url: str, open_backend: Callable[..., SqlStoreBackend], how: str
) -> None:
    keeping, other = open_backend(keep_versions=3), open_backend()
    mapped = TaskScope(dag_id="dag", run_id="run", task_id="task", map_index=1)
    elsewhere = TaskScope(dag_id="dag", run_id="run", task_id="another")
    for scope in (mapped, elsewhere):
        for key in ("key", "stays"):
            for value in ("1", "2"):
                keeping.set(scope, key, value)
    if how == "delete":
        other.delete(mapped, "key")
    else:
        other.clear(SCOPE if how.endswith("indices") else mapped, all_map_indices=how.endswith("indices"))
    left = {"delete": 6}.get(how, 4)
    assert ask(url, f"SELECT COUNT(*) FROM {HISTORY.name}") == [(left,)]  # noqa: S608
    other.set(mapped, "key", "3")
    assert [version.value for version in keeping.history(mapped, "key")] == [3]
    assert [version.value for version in keeping.history(elsewhere, "key")] == [2, 1]


class Hex:
    """Makes twice as much of a text."""

    def encode(self, text: str) -> str:
        return text.encode().hex()

    def decode(self, text: str) -> str:
        return bytes.fromhex(text).decode()


@ON_SERVERS
def test_a_row_that_a_constraint_refuses_hinders_no_other_from_being_encrypted(
    url: str, open_backend: Callable[..., SqlStoreBackend]
) -> None:
    plain = open_backend()
    plain.set_many(SCOPE, {"a": '"1"', "b": json.dumps("2" * 900), "c": '"3"'})
    ask(url, f"ALTER TABLE {STATE.name} ADD CONSTRAINT short_values CHECK (LENGTH(value) < 1000)")
    report = open_backend(codec=Hex()).rotate()
    assert (report.rotated, len(report.failures)) == (2, 1)
    assert "'b' in dag_id=dag run_id=run task_id=task" in report.failures[0]
    assert "short_values" in report.failures[0]


@pytest.mark.parametrize("url", ["mysql"], indirect=True)
def test_a_value_that_is_too_large_once_it_is_encrypted_hinders_no_other(
    url: str, open_backend: Callable[..., SqlStoreBackend]
) -> None:
    packet: Any = ask(url, "SELECT @@max_allowed_packet")
    plain = open_backend(max_value_bytes=2**30)
    for key, size in (("a", 1), ("b", packet[0][0] * 6 // 10), ("c", 3)):
        plain.set(SCOPE, key, json.dumps("x" * size))
    report = open_backend(codec=Hex()).rotate()
    assert (report.rotated, len(report.failures)) == (2, 1)
    assert "'b' in dag_id=dag" in report.failures[0]
    assert "(the server's max_allowed_packet)" in report.failures[0]


def test_the_versions_of_a_value_behind_a_reference_are_kept(open_backend: Callable[..., SqlStoreBackend]) -> None:
    backend = open_backend(keep_versions=2)
    for number in range(3):
        store_as(backend, str(number), try_number=number, attempt_id=EARLY)
    assert [(str(version.value)[0], version.try_number) for version in backend.history(SCOPE, "key")] == [
        ("2", 2),
        ("1", 1),
    ]
