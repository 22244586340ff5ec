from __future__ import annotations

import pytest
from airflow.sdk.state import TaskScope

from airflow_resume import checkpoint
from airflow_resume.backends import ComparesAndSets, KeepsHistory, Scans, SqlStateStore, SqlStoreBackend
from airflow_resume.errors import UnreadableRecordError
from airflow_resume.shown import short_repr


def test_a_loop_goes_on_where_it_was(backend: SqlStoreBackend) -> None:
    seen: list[int] = []
    for _ in range(2):
        with checkpoint([1, 2, 3], name="numbers", store=SqlStateStore(backend, "script")) as numbers:
            for number in numbers:
                if number == 2 and 2 not in seen:
                    seen.append(number)
                    break
                seen.append(number)
    assert seen == [1, 2, 2, 3]


def test_a_store_has_the_abilities_by_name(backend: SqlStoreBackend) -> None:
    store = SqlStateStore(backend, "script")
    assert [isinstance(store, ability) for ability in (Scans, ComparesAndSets, KeepsHistory)] == [True] * 3


def test_two_scripts_share_nothing(backend: SqlStoreBackend) -> None:
    SqlStateStore(backend, "one").set("key", 1)
    assert SqlStateStore(backend, "other").get("key") is None


def test_a_script_may_look_at_the_scope_of_a_task(backend: SqlStoreBackend) -> None:
    scope = TaskScope(dag_id="dag", run_id="run", task_id="task")
    backend.set(scope, "key", "1")
    assert SqlStateStore(backend, scope).get("key") == 1


def test_several_values_are_set_and_cleared_together(backend: SqlStoreBackend) -> None:
    store = SqlStateStore(backend, "script")
    store.set_many({"a": 1, "b": [2]})
    assert store.scan("") == ["a", "b"]
    store.clear()
    assert store.scan("") == []


# --- rows that were changed by hand ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["", "it's 3", '{"page": 3', "null", "NaN", "[" * 100_000, "9" * 10_000], ids=short_repr
)
def test_a_text_that_is_no_value_is_named_with_its_key(backend: SqlStoreBackend, text: str) -> None:
    store = SqlStateStore(backend, "script")
    backend.set(store._scope, "page", text)
    for read in (store.get, store.history):
        with pytest.raises(
            UnreadableRecordError, match=r"The value of 'page' .*\nTo begin anew, delete the key"
        ) as raised:
            read("page")
        assert len(str(raised.value)) < 500


def test_bytes_in_a_row_of_sqlite_are_named_too(backend: SqlStoreBackend) -> None:
    store = SqlStateStore(backend, "script")
    store.set("page", 3)
    backend._database.autocommit(
        lambda connection: connection.exec_driver_sql("UPDATE airflow_resume_state SET value = x'fffe00'")
    )
    with pytest.raises(UnreadableRecordError, match="no JSON"):
        store.get("page")


def test_a_loop_starts_over_from_such_a_row_only_if_it_may(backend: SqlStoreBackend) -> None:
    store = SqlStateStore(backend, "script")
    backend.set(store._scope, "resume.loop.l", "no json")
    with pytest.raises(UnreadableRecordError):
        list(checkpoint(range(3), name="l", store=store))
    assert list(checkpoint(range(3), name="l", store=store, on_unreadable="restart")) == [0, 1, 2]
