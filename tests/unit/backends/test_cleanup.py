from __future__ import annotations

from datetime import datetime, timedelta, timezone
from itertools import product
from typing import Any

import pytest
from airflow.sdk.state import TaskScope
from sqlalchemy import event

from airflow_resume.backends import PlansCleanup, Reason, SqlStoreBackend
from airflow_resume.backends.cleanup import judge
from airflow_resume.errors import StoreUnavailableError

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


def test_a_batch_that_fails_is_reported_and_the_others_go(backend: SqlStoreBackend) -> None:
    backend.set_many(SCOPE, {str(number): "1" for number in range(10)}, expires_at=PAST)
    database: Any = backend._database
    transaction, calls = database.transaction, iter(range(100))

    def failing_once(work: Any) -> Any:
        if next(calls) == 1:
            raise StoreUnavailableError("for this batch")
        return transaction(work)

    database.transaction = failing_once
    report = backend.clean(batch=3)
    assert (report.expired, report.failures) == (7, ("for this batch",))
    assert str(report) == "Deleted 7 expired and 0 orphaned values; 1 batches failed: for this batch"
    assert backend.clean().expired == 3


def test_no_statement_has_more_rows_than_a_batch(backend: SqlStoreBackend) -> None:
    backend.set_many(SCOPE, {str(number): "1" for number in range(100)}, expires_at=PAST)
    sizes: list[int] = []

    def listener(_connection: Any, _cursor: Any, text: str, parameters: Any, *_: Any) -> None:
        if text.startswith("DELETE FROM airflow_resume_state"):
            sizes.append(len(parameters))

    event.listen(backend._database.opened().engine, "before_cursor_execute", listener)
    assert backend.clean(batch=10).expired == 100
    assert len(sizes) == 10
    assert max(sizes) < 15


def test_the_history_of_what_goes_goes_with_it() -> None:
    backend = SqlStoreBackend("sqlite://", keep_versions=5)
    for number in range(3):
        backend.set(SCOPE, "key", str(number), expires_at=PAST)
    assert len(backend.history(SCOPE, "key")) == 3
    backend.cleanup()
    count = "SELECT COUNT(*) FROM airflow_resume_history"
    assert backend._database.alone(lambda connection: connection.exec_driver_sql(count).scalar()) == 0
