from __future__ import annotations

import pytest
from airflow.sdk import Asset, BaseOperator, get_current_context
from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.sdk.execution_time.context import NEVER_EXPIRE

from airflow_resume import checkpoint
from airflow_resume.attempt import Cleared, current_attempt
from airflow_resume.testing import TaskAttempt, World, task_context

ORDERS = Asset("orders", uri="s3://orders/all")


def seen(attempt: TaskAttempt) -> tuple[int, int, int]:
    return attempt.ti.try_number, attempt.ti.max_tries, attempt.context["dag_run"].clear_number


def test_the_context_is_current_in_the_block_only() -> None:
    with task_context() as attempt:
        assert get_current_context() is attempt.context
    with pytest.raises(RuntimeError):
        get_current_context()


def test_the_context_is_that_of_the_task() -> None:
    attempt = task_context(dag_id="d", task_id="t", run_id="r", map_index=2, retries=5)
    found = current_attempt(attempt.context)
    assert found.scope.identity() == ["d", "r", "t", 2]
    assert (found.try_number, found.epoch.max_tries, found.uncleared.max_tries) == (1, 5, 5)


def test_without_assets_the_context_has_no_asset_store() -> None:
    assert "asset_state_store" not in task_context().context


def test_an_operator_runs_in_it() -> None:
    class Count(BaseOperator):
        def execute(self, context: object) -> int:
            return sum(checkpoint([1, 2, 3], name="numbers"))

    with task_context() as first:
        assert Count(task_id="count").execute(first.context) == 6
    with first.retry() as second:
        assert Count(task_id="count").execute(second.context) == 0, "all were delivered before"


def test_a_retry_keeps_the_state_and_max_tries() -> None:
    first = task_context(retries=2)
    first.task_store.set("k", 1)
    second = first.retry()
    assert (seen(second), second.task_store.get("k")) == ((2, 2, 0), 1)
    assert first.task_store.get("k", "default") == "default"


def test_a_superseded_attempt_lives_on_and_cannot_write() -> None:
    first = task_context(assets=[ORDERS])
    with first:
        second = first.supersede()
        for write in (first.task_store.set, first.asset_stores[ORDERS].set):
            with pytest.raises(AirflowRuntimeError):
                write("k", 1)
    second.task_store.set("k", 2)
    assert second.task_store.values == {"k": 2}


def test_a_clear_keeps_the_state_and_moves_both_numbers() -> None:
    first = task_context(retries=2)
    first.task_store.set("k", 1)
    cleared = first.retry().clear()
    assert (seen(cleared), cleared.task_store.get("k")) == ((3, 4, 1), 1)
    assert (
        current_attempt(cleared.context).cleared_since(current_attempt(first.context).epoch, 1, ended=False)
        is Cleared.YES
    )


def test_in_3_4_a_clear_discards_the_state_unless_told_otherwise() -> None:
    first = task_context(airflow="3.4")
    first.task_store.set("k", 1)
    kept = first.clear(keep_state=True)
    assert kept.task_store.values == {"k": 1}
    assert kept.clear().task_store.values == {}
    assert hasattr(kept.task_store, "aget")


def test_a_clear_while_running_may_look_like_a_retry() -> None:
    first = task_context(retries=2)
    cleared = first.clear(while_running=True, moves_max_tries=False)
    assert seen(cleared) == (2, 2, 1)
    assert (
        current_attempt(cleared.context).cleared_since(current_attempt(first.context).epoch, 1, ended=False)
        is Cleared.PERHAPS
    )
    with pytest.raises(ValueError, match="moves"):
        cleared.clear(moves_max_tries=False)


def test_a_clear_of_another_task_moves_the_number_of_the_run_only() -> None:
    first = task_context(retries=2)
    first.clear_another_task()
    assert seen(first.retry()) == (2, 2, 1)


def test_time_deletes_what_was_not_written_for_ever() -> None:
    attempt = task_context(assets=[ORDERS])
    attempt.task_store.set("gone", 1)
    attempt.task_store.set("kept", 1, retention=NEVER_EXPIRE)
    attempt.asset_stores[ORDERS].set("kept", 1)
    assert attempt.expire() == ["gone"]
    assert attempt.task_store.values == attempt.asset_stores[ORDERS].values == {"kept": 1}


def test_after_a_changed_list_another_item_finds_the_state_of_the_index() -> None:
    world = World()
    for index, item in enumerate("ab"):
        task_context(map_index=index, retries=1, world=world).task_store.set("item", item)
    again = task_context(map_index=0, retries=1, world=world).remap(["b", "a", "c"])
    assert [attempt.task_store.get("item") for attempt in again] == ["a", "b", None]
    assert [seen(attempt) for attempt in again] == [(3, 3, 1), (2, 2, 1), (1, 1, 1)]


def test_a_shorter_list_replaces_the_instances_that_are_left_out_too() -> None:
    world = World()
    before = [task_context(map_index=index, world=world) for index in range(2)]
    before[0].remap(["b"])
    for attempt in before:
        with pytest.raises(AirflowRuntimeError, match="Task instance not found"):
            attempt.task_store.set("k", 1)


def test_another_run_has_the_assets_state_and_events_only() -> None:
    first = task_context(assets=[ORDERS])
    first.task_store.set("k", 1)
    first.asset_stores.set("k", 1)
    first.context["outlet_events"][ORDERS].extra["mark"] = 7
    assert list(first.next_run("not-succeeded").context["inlet_events"][ORDERS]) == []
    first.succeed()
    second = first.next_run()
    assert (second.ti.run_id, seen(second)) == ("run-3", (1, 3, 0))
    assert (second.task_store.values, second.asset_stores[ORDERS].values) == ({}, {"k": 1})
    assert [event.extra for event in second.context["inlet_events"][ORDERS]] == [{"mark": 7}]


def test_two_tasks_of_one_airflow_share_the_assets_and_the_log() -> None:
    writer = task_context(task_id="writer", assets=[ORDERS])
    reader = task_context(task_id="reader", assets=[Asset.ref(uri=ORDERS.uri)], world=writer.world)
    writer.asset_stores.set("k", 1)
    assert reader.asset_stores.get("k") == 1
    assert [str(operation) for operation in writer.world.counter.log] == ["set k", "get k"]


def test_an_asset_that_went_inactive_is_not_written() -> None:
    first = task_context(assets=[ORDERS])
    first.world.assets["orders"].active = False
    second = first.retry()
    with pytest.raises(AirflowRuntimeError):
        second.asset_stores.set("k", 1)
