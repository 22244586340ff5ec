"""A cleanup deletes what it says it would, in bounded batches, whatever happens in the middle of it."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from datetime import datetime, timedelta, timezone
from multiprocessing.connection import Connection
from typing import Any

import pytest
from airflow.sdk.state import AssetScope, TaskScope
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event

from airflow_resume.backends import Reason, SqlStoreBackend
from airflow_resume.backends.schema.tables import HISTORY
from airflow_resume.errors import StoreRefusedError
from airflow_resume.testing.contract.children import Child, run_together
from tests.support.backends.databases import ask
from tests.support.backends.expired_rows import fill_expired

SCOPE = TaskScope(dag_id="dag", run_id="run", task_id="task")
HOUR = timedelta(hours=1)
NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc)
PAST = datetime.now(timezone.utc) - HOUR
LARGE = "x" * 70_000


def keep_some(backend: SqlStoreBackend) -> set[str]:
    """One row of each sort; the references that are live."""
    backend.set(SCOPE, "expired", "1", expires_at=NOW - HOUR)
    backend.set(SCOPE, "not yet", "1", expires_at=NOW + HOUR)
    backend.set(SCOPE, "for ever", "1")
    asset = AssetScope(name="orders")
    live = backend.serialize_asset_state_store_to_ref(value=LARGE, key="live", scope=asset)
    backend.serialize_asset_state_store_to_ref(value=LARGE, key="orphan", scope=asset)
    return {live}


def test_a_cleanup_does_what_its_plan_says_row_by_row(open_backend: Callable[..., SqlStoreBackend]) -> None:
    live = keep_some(open_backend(now=lambda: NOW - 2 * HOUR))
    sweep: dict[str, Any] = {"live": live, "live_as_of": NOW}
    later = open_backend(now=lambda: NOW)
    plan = {judged.key: judged.reason for judged in later.plan_cleanup(**sweep)}
    assert plan == {
        "expired": Reason.EXPIRED,
        "not yet": Reason.NOT_EXPIRED,
        "for ever": Reason.NO_EXPIRY,
        "live": Reason.REFERENCED,
        "orphan": Reason.ORPHANED,
    }
    report = later.clean(**sweep, batch=1)
    assert (report.expired, report.orphaned, report.failures) == (1, 1, ())
    kept = {judged.key for judged in later.plan_cleanup(**sweep)}
    assert kept == {key for key, reason in plan.items() if not reason.deletes}


def test_without_the_references_nothing_goes_that_may_have_one(open_backend: Callable[..., SqlStoreBackend]) -> None:
    keep_some(open_backend(now=lambda: NOW - 1000 * HOUR))
    backend = open_backend(now=lambda: NOW)
    backend.cleanup()
    reasons = {judged.key: judged.reason for judged in backend.plan_cleanup()}
    assert reasons["orphan"] is reasons["live"] is Reason.UNKNOWN


def test_a_value_whose_reference_may_be_on_its_way_stays(open_backend: Callable[..., SqlStoreBackend]) -> None:
    keep_some(open_backend(now=lambda: NOW - HOUR / 2))
    backend = open_backend(now=lambda: NOW)
    report = backend.clean(live=set(), live_as_of=NOW)
    assert report.orphaned == 0
    reasons = [judged.reason for judged in backend.plan_cleanup(live=set(), live_as_of=NOW)]
    assert reasons.count(Reason.TOO_YOUNG) == 2


def test_what_is_written_between_the_look_and_the_delete_stays(open_backend: Callable[..., SqlStoreBackend]) -> None:
    backend, other = open_backend(now=lambda: NOW), open_backend(now=lambda: NOW)
    keep_some(open_backend(now=lambda: NOW - 3 * HOUR))
    orphan: Any = {"value": LARGE, "key": "orphan", "scope": AssetScope(name="orders")}

    def write_again() -> None:
        other.set(SCOPE, "expired", "2", expires_at=NOW + HOUR)
        other.serialize_asset_state_store_to_ref(**orphan)

    before_the_deletes(backend, write_again)
    report = backend.clean(live=set(), live_as_of=NOW, batch=10)
    assert (report.expired, report.orphaned) == (0, 1)  # "live", of which no reference was given
    assert (backend.get(SCOPE, "expired"), backend.scan(orphan["scope"], "")) == ("2", ["orphan"])


def before_the_deletes(backend: SqlStoreBackend, act: Callable[[], None]) -> None:
    """Act once, after rows were looked at."""
    waiting = [act]

    def listener(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("DELETE") and waiting:
            waiting.pop()()

    event.listen(backend._database.opened().engine, "before_cursor_execute", listener)


# --- any history ----------------------------------------------------------------------------------------------

KEYS = st.sampled_from(["a", "b", "c", "d"])
STEPS = st.one_of(
    st.tuples(st.just("set"), KEYS, st.sampled_from([None, -1, 0, 1, 5])),
    st.tuples(st.just("refer"), KEYS, st.booleans()),
    st.tuples(st.just("delete"), KEYS, st.none()),
    st.tuples(st.just("wait"), st.none(), st.integers(1, 3)),
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, max_size=12), swept=st.booleans(), batch=st.integers(1, 3), waited=st.integers(0, 4))
def test_whatever_has_happened_a_cleanup_does_what_its_plan_says(
    backend: SqlStoreBackend, steps: list[Any], *, swept: bool, batch: int, waited: int
) -> None:
    backend.clear(SCOPE)
    now, live = NOW, set[str]()
    backend._now = lambda: now
    object.__setattr__(backend._values, "now", lambda: now)
    for step, key, argument in steps:
        if step == "set":
            backend.set(SCOPE, key, "1", expires_at=None if argument is None else now + argument * HOUR)
        elif step == "refer":
            reference = backend.serialize_task_state_store_to_ref(value="x" * 5_000, key=key, scope=SCOPE)
            (live.add if argument else live.discard)(reference)
        elif step == "delete":
            backend.delete(SCOPE, key)
        else:
            now += argument * HOUR
    now += waited * HOUR
    sweep: dict[str, Any] = {"live": live, "live_as_of": now} if swept else {}
    plan = list(backend.plan_cleanup(**sweep))
    report = backend.clean(**sweep, batch=batch)
    counts = Counter(judged.reason for judged in plan)
    assert (report.expired, report.orphaned) == (counts[Reason.EXPIRED], counts[Reason.ORPHANED])
    assert list(backend.plan_cleanup(**sweep)) == [judged for judged in plan if not judged.reason.deletes]


# --- bounded --------------------------------------------------------------------------------------------------


DELETES, LOOKS = "DELETE FROM airflow_resume_state", "SELECT airflow_resume_state.id"


def test_twenty_thousand_go_in_statements_of_a_batch(backend: SqlStoreBackend) -> None:
    fill_expired(backend, 20_000)
    backend.set(SCOPE, "kept", "1")
    deleted: list[int] = []
    looks: list[str] = []

    def listener(_connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith(DELETES):
            deleted.append(cursor.rowcount)
        elif LOOKS in statement:  # on SQLite it is within another one
            looks.append(statement)

    event.listen(backend._database.opened().engine, "after_cursor_execute", listener)
    assert backend.clean(batch=2_000).expired == 20_000
    assert deleted == [2_000] * 10
    assert len(looks) == 11
    assert backend.clean().expired == 0
    assert len(looks) == 11  # nothing has expired, so nothing is walked over
    assert backend.scan(SCOPE, "") == ["kept"]


def test_a_batch_larger_than_a_statement_may_be_is_made_smaller(backend: SqlStoreBackend) -> None:
    fill_expired(backend, 11_000)
    report = backend.clean(batch=10**6)
    assert (report.expired, report.failures) == (11_000, ())


def test_versions_of_what_is_gone_go_in_batches_too(open_backend: Callable[..., SqlStoreBackend], url: str) -> None:
    backend = open_backend(keep_versions=3)
    for _ in range(3):
        backend.set_many(SCOPE, {"a": "1", "b": "1"}, expires_at=PAST)
        backend.set(SCOPE, "kept", "1")
    backend.clean(batch=2)
    assert ask(url, f"SELECT COUNT(*) FROM {HISTORY.name}") == [(3,)]  # noqa: S608


# --- in the middle --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("moment", "batches"), [("before_cursor_execute", 2), ("after_cursor_execute", 3)])
def test_a_cleanup_that_was_killed_can_be_run_again(
    url: str, backend: SqlStoreBackend, moment: str, batches: int
) -> None:
    backend.set_many(SCOPE, {f"key.{number}": "1" for number in range(60)}, expires_at=PAST)
    backend.set(SCOPE, "kept", "1")

    def clean(_: Connection) -> None:
        cleaner, deletes = SqlStoreBackend(url), []

        def die(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
            deletes.extend([1] if statement.startswith("DELETE") else [])
            if len(deletes) == 3:
                os.kill(os.getpid(), signal.SIGKILL)

        event.listen(cleaner._database.opened().engine, moment, die)
        cleaner.clean(batch=10)

    with Child(clean) as child, pytest.raises(AssertionError, match="without an answer"):
        child.receive()
    assert len(backend.scan(SCOPE, "key")) == 60 - 10 * batches
    assert backend.clean(batch=7).expired == 60 - 10 * batches
    assert backend.scan(SCOPE, "") == ["kept"]


def test_two_at_once_share_the_work(url: str, backend: SqlStoreBackend) -> None:
    backend.set_many(SCOPE, {f"key.{number}": "1" for number in range(300)}, expires_at=PAST)

    def clean(_: int) -> tuple[int, int]:
        with closing(SqlStoreBackend(url)) as cleaner:
            report = cleaner.clean(batch=10)
        return report.expired, len(report.failures)

    reports = run_together(clean, 2)
    assert (sum(expired for expired, _ in reports), sum(failed for _, failed in reports)) == (300, 0)


# --- rows that somebody holds ---------------------------------------------------------------------------------

HELD = {
    "sqlite": "CREATE TRIGGER held BEFORE DELETE ON airflow_resume_state WHEN OLD.key = 'held'"
    " BEGIN SELECT RAISE(ABORT, 'held'); END",
    "postgresql": "CREATE TABLE held AS SELECT id FROM airflow_resume_state WHERE key = 'held';"
    " ALTER TABLE held ADD FOREIGN KEY (id) REFERENCES airflow_resume_state (id)",
    "mysql": "CREATE TABLE held (FOREIGN KEY (id) REFERENCES airflow_resume_state (id))"
    " AS SELECT id FROM airflow_resume_state WHERE `key` = 'held'",
}
REFUSED = {
    "sqlite": "CREATE TRIGGER refused BEFORE INSERT ON airflow_resume_state BEGIN SELECT RAISE(ABORT, 'refused'); END",
    "postgresql": "ALTER TABLE airflow_resume_state ADD CONSTRAINT refused CHECK (try_number > 0)",
    "mysql": "ALTER TABLE airflow_resume_state ADD CONSTRAINT refused CHECK (try_number > 0)",
}


def kind(url: str) -> str:
    return url.partition(":")[0].partition("+")[0]


def test_a_batch_that_the_database_refuses_is_named_and_the_others_go(url: str, backend: SqlStoreBackend) -> None:
    for key in ("a", "b", "held", "c", "d"):
        backend.set(SCOPE, key, "1", expires_at=PAST)
    ask(url, HELD[kind(url)])
    report = backend.clean(batch=2)
    assert (report.expired, len(report.failures)) == (3, 1)
    assert "refused the call" in report.failures[0]
    assert "held" in report.failures[0]
    assert backend.scan(SCOPE, "") == ["c", "held"]
    assert backend.clean(batch=1).expired == 1


def test_a_new_value_that_the_database_refuses_is_an_error_and_not_tried_for_ever(
    url: str, backend: SqlStoreBackend
) -> None:
    _ = backend.store_id
    ask(url, REFUSED[kind(url)])
    with pytest.raises(StoreRefusedError, match="refused"):
        backend.serialize_task_state_store_to_ref(value=LARGE, key="key", scope=SCOPE)
    with pytest.raises(StoreRefusedError, match="refused"):
        backend.compare_and_set(SCOPE, "key", 0, "1")
