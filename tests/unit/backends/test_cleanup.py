from __future__ import annotations

import re
import sqlite3
from datetime import datetime, timedelta, timezone
from itertools import count, product
from typing import Any

import pytest
from airflow.sdk.state import TaskScope
from sqlalchemy import event
from sqlalchemy.exc import DatabaseError

from airflow_resume.backends import PlansCleanup, Reason, SqlStoreBackend
from airflow_resume.backends.rows.cleanup import judge

SCOPE = TaskScope(dag_id="dag", run_id="run", task_id="task", map_index=3)
PAST = datetime.now(timezone.utc) - timedelta(hours=1)

ROW: dict[str, bool] = {
    "expired": False,
    "expires": False,
    "referenced": False,
    "given": False,
    "settled": False,
    "live": False,
}


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"expires": True, "expired": True}, Reason.EXPIRED),
        ({"expires": True}, Reason.NOT_EXPIRED),
        ({}, Reason.NO_EXPIRY),
        ({"given": True}, Reason.NO_EXPIRY),
        ({"referenced": True}, Reason.UNKNOWN),
        ({"referenced": True, "given": True}, Reason.TOO_YOUNG),
        ({"referenced": True, "given": True, "settled": True}, Reason.ORPHANED),
        ({"referenced": True, "given": True, "settled": True, "live": True}, Reason.REFERENCED),
    ],
)
def test_every_row_has_a_reason(facts: dict[str, bool], reason: Reason) -> None:
    assert judge(**{**ROW, **facts}) is reason


def test_nothing_that_is_live_or_young_or_without_an_expiry_goes() -> None:
    for values in product([False, True], repeat=len(ROW)):
        facts = dict(zip(ROW, values, strict=True))
        if judge(**facts).deletes and not facts["expired"]:
            assert (facts["referenced"], facts["given"], facts["settled"], facts["live"]) == (True, True, True, False)


def test_a_plan_says_whose_row_it_is(backend: SqlStoreBackend) -> None:
    backend.set(SCOPE, "key", "1")
    (judged,) = backend.plan_cleanup()
    assert isinstance(backend, PlansCleanup)
    assert (judged.key, judged.reason, judged.reason.value) == (
        "key",
        Reason.NO_EXPIRY,
        "it is kept until it is deleted",
    )
    assert {name: judged.scope[name] for name in ("dag_id", "run_id", "task_id", "map_index")} == {
        "dag_id": "dag",
        "run_id": "run",
        "task_id": "task",
        "map_index": 3,
    }


def fail_at(backend: SqlStoreBackend, beginning: str, number: int) -> None:
    """Have the database fail for good at the n-th statement that begins so."""
    calls = count(1)

    def listener(_connection: Any, _cursor: Any, text: str, *_: Any) -> None:
        if text.startswith(beginning) and next(calls) == number:
            raise DatabaseError(text, None, sqlite3.DatabaseError("the page is malformed"))

    event.listen(backend._database.opened().engine, "before_cursor_execute", listener)


def test_a_batch_that_fails_is_reported_and_the_others_go(backend: SqlStoreBackend) -> None:
    backend.set_many(SCOPE, {str(number): "1" for number in range(10)}, expires_at=PAST)
    fail_at(backend, "DELETE FROM airflow_resume_state", 2)
    report = backend.clean(batch=3)
    assert (report.expired, len(report.failures)) == (7, 1)
    words = "Deleted 7 expired and 0 orphaned values; 1 batches failed: .* refused the call: the page is malformed"
    assert re.fullmatch(words, str(report))
    assert backend.clean().expired == 3


def test_without_an_answer_to_a_look_it_ends_and_says_what_was_done(backend: SqlStoreBackend) -> None:
    backend.set_many(SCOPE, {str(number): "1" for number in range(10)}, expires_at=PAST)
    fail_at(backend, "SELECT max(", 3)
    report = backend.clean(batch=3)
    assert (report.expired, len(report.failures)) == (6, 1)
    assert backend.clean().expired == 4


def test_no_statement_has_more_rows_than_a_batch(backend: SqlStoreBackend) -> None:
    backend.set_many(SCOPE, {str(number): "1" for number in range(100)}, expires_at=PAST)
    sizes: list[int] = []

    def listener(_connection: Any, cursor: Any, text: str, *_: Any) -> None:
        if text.startswith("DELETE FROM airflow_resume_state"):
            sizes.append(cursor.rowcount)

    event.listen(backend._database.opened().engine, "after_cursor_execute", listener)
    assert backend.clean(batch=10).expired == 100
    assert sizes == [10] * 10


def test_the_history_of_what_goes_goes_with_it() -> None:
    backend = SqlStoreBackend("sqlite://", keep_versions=5)
    for number in range(3):
        backend.set(SCOPE, "key", str(number), expires_at=PAST)
    assert len(backend.history(SCOPE, "key")) == 3
    backend.cleanup()
    left = "SELECT COUNT(*) FROM airflow_resume_history"
    assert backend._database.autocommit(lambda connection: connection.exec_driver_sql(left).scalar()) == 0


@pytest.mark.parametrize(("kept", "by_range"), [(0, True), (1_000, False)])
def test_rows_that_stay_are_not_walked_with_the_lock(backend: SqlStoreBackend, kept: int, *, by_range: bool) -> None:
    for number in range(3):
        backend.set_many(SCOPE, {f"{number} {n}": "1" for n in range(kept)})
        backend.set(SCOPE, f"expired {number}", "1", expires_at=PAST)
    asked: list[str] = []

    def listener(_connection: Any, _cursor: Any, text: str, *_: Any) -> None:
        if text.startswith("DELETE FROM airflow_resume_state"):
            asked.append(text)

    event.listen(backend._database.opened().engine, "before_cursor_execute", listener)
    assert backend.clean().expired == 3
    assert (len(asked), "id <=" in asked[0]) == (1, by_range)
    assert len(backend.scan(SCOPE, "")) == 3 * kept
