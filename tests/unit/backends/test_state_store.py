from __future__ import annotations

from airflow.sdk.state import TaskScope

from airflow_resume import checkpoint
from airflow_resume.backends import ComparesAndSets, KeepsHistory, Scans, SqlStateStore, SqlStoreBackend


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
