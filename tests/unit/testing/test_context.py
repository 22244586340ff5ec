from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any
from uuid import UUID

import pytest
from airflow.sdk import DAG, Asset, BaseOperator, get_current_context
from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.sdk.execution_time.context import NEVER_EXPIRE
from pydantic import BaseModel

from airflow_resume import checkpoint
from airflow_resume.attempt import Cleared, current_attempt
from airflow_resume.errors import SupersededError
from airflow_resume.task_stores import asset_store
from airflow_resume.testing import TaskAttempt, World, task_context
from airflow_resume.testing.fakes.task_instance import UNKNOWN, UNKNOWN_SINCE_3_4
from tests.support.kit.next_airflow import FAKES

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


def test_in_3_4_every_write_of_a_replaced_attempt_is_gone() -> None:
    first = task_context(airflow="3.4", assets=[ORDERS])
    orders = first.asset_stores[ORDERS]
    orders.set("k", 1)
    first.retry()
    writes: list[Callable[[], object]] = [
        lambda: first.task_store.set("k", 2),
        lambda: first.task_store.delete("k"),
        first.task_store.clear,
        lambda: orders.set("k", 2),
        lambda: orders.delete("k"),
        orders.clear,
    ]
    for write in writes:
        with pytest.raises(AirflowRuntimeError, match="archived") as raised:
            write()
        assert (raised.value.error.detail or {})["status_code"] == 410
    assert (first.task_store.get("k", "default"), orders.get("k")) == ("default", 1)
    with pytest.raises(SupersededError):
        asset_store(first.context, ORDERS).set("k", 2)


def test_in_3_4_an_attempt_that_was_cleared_may_write_until_the_next_one_begins() -> None:
    first = task_context(airflow="3.4")
    first.task_store.set("k", 1)
    cleared = first.clear(while_running=True)
    assert first.task_store.get("k") is None
    first.task_store.set("k", 2)
    with cleared:
        assert cleared.task_store.get("k") == 2
        with pytest.raises(AirflowRuntimeError, match="archived"):
            first.task_store.set("k", 3)


def test_in_3_4_a_task_instance_has_a_region() -> None:
    ti = task_context(airflow="3.4").ti
    assert (ti.region_id, ti.region_index) == (UUID(int=0), -1)
    with pytest.raises(AttributeError, match="note of its run"):
        _ = ti.update_dagrun_note
    with pytest.raises(AttributeError, match="none in Airflow either"):
        _ = task_context().ti.region_id


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


# --- what operators touch -----------------------------------------------------------------------------------------


class Greet(BaseOperator):
    template_fields = ("greeting",)

    def __init__(self, *, greeting: str, **options: Any) -> None:
        super().__init__(**options)
        self.greeting = greeting

    def execute(self, context: Any) -> str:
        context["ti"].xcom_push("said", self.greeting)
        return self.greeting


def greet(**options: Any) -> Greet:
    return Greet(task_id="greet", greeting="{{ ds }} {{ params.name }} {{ dag.dag_id }}", **options)


def test_the_operator_says_what_the_task_is() -> None:
    made = greet(retries=7, outlets=[ORDERS], params={"name": "Ada"})
    attempt = task_context(made, dag_id="greetings", logical_date=datetime(2026, 5, 4, tzinfo=timezone.utc))
    context = attempt.context
    assert context["task"] is attempt.ti.task is made
    assert (context["dag"].dag_id, context["dag"].task_ids) == ("greetings", ["greet"])
    assert (attempt.ti.task_id, attempt.ti.max_tries, context["outlets"], context["inlets"]) == (
        "greet",
        7,
        [ORDERS],
        [],
    )
    with attempt:
        assert attempt.ti.render_templates().execute(context) == "2026-05-04 Ada greetings"


def test_an_operator_keeps_its_dag() -> None:
    with DAG("own", schedule=None):
        made = greet()
    assert task_context(made, dag_id="another").context["dag"] is made.dag
    assert task_context(made, dag_id="another").ti.dag_id == "own"


def test_each_attempt_gets_an_operator_of_its_own_from_a_function() -> None:
    first = task_context(lambda: greet(retries=1))
    assert first.ti.task is not first.retry().ti.task


def test_conf_overrides_params() -> None:
    attempt = task_context(greet(params={"name": "Ada"}), conf={"name": "Bea"})
    assert (attempt.context["params"], attempt.context["dag_run"].conf) == ({"name": "Bea"}, {"name": "Bea"})


def test_a_run_without_a_logical_date_has_no_dates_in_its_context() -> None:
    for key in ("ds", "ts", "logical_date", "data_interval_start", "prev_data_interval_end_success", "test_mode"):
        with pytest.raises(KeyError):
            task_context().context[key]


def test_the_last_success_is_that_of_the_run_with_the_date_before() -> None:
    days = [datetime(2026, 5, day, tzinfo=timezone.utc) for day in (1, 2, 3)]
    first = task_context(logical_date=days[0])
    first.succeed()
    failed = first.next_run(logical_date=days[1])
    last = failed.next_run(logical_date=days[2])
    assert failed.context["prev_data_interval_end_success"] == days[0]
    assert last.context["prev_data_interval_start_success"] == days[0]
    assert last.context["prev_end_date_success"] == first.world.clock.now()
    assert first.context["prev_start_date_success"] == None  # noqa: E711  it is made when it is looked at


def test_xcoms_are_there_until_the_next_attempt_and_for_other_tasks() -> None:
    first = task_context(task_id="one")
    other = task_context(task_id="two", world=first.world)
    first.ti.xcom_push("k", (1, 2))
    assert other.ti.xcom_pull("one", key="k") == (1, 2)
    second = first.retry()
    assert (second.ti.xcom_pull(key="k"), first.ti.xcoms) == (None, {"k": (1, 2)})


def test_xcoms_of_a_cleared_attempt_are_there_until_the_next_one_begins() -> None:
    first = task_context()
    second = first.clear(while_running=True)
    first.ti.xcom_push("k", 1)
    assert first.ti.xcom_pull(key="k") == 1
    with second:
        assert second.ti.xcom_pull(key="k") is None


def test_of_earlier_runs_the_xcom_with_the_newest_date_is_pulled() -> None:
    first = task_context(logical_date=datetime(2026, 5, 2, tzinfo=timezone.utc))
    first.ti.xcom_push("k", "newest date")
    second = first.next_run(logical_date=datetime(2026, 5, 1, tzinfo=timezone.utc))
    second.ti.xcom_push("k", "newest push")
    third = second.next_run(logical_date=datetime(2026, 5, 3, tzinfo=timezone.utc))
    assert third.ti.xcom_pull(key="k", include_prior_dates=True, map_indexes=-1) == "newest date"
    assert second.ti.xcom_pull(key="k", include_prior_dates=True) == "newest push"


def test_a_run_is_started_again_only_by_a_clear_after_its_end() -> None:
    first = task_context(task_id="one")
    other = task_context(task_id="two", world=first.world)
    begun = first.world.run_starts["dag", "run-1"]
    assert first.clear().context["dag_run"].start_date == begun, "the other task runs"
    other.succeed()
    again = first.clear()
    assert again.context["dag_run"].start_date > begun
    assert again.ti.start_date >= again.context["dag_run"].start_date >= again.context["dag_run"].run_after


def test_ids_of_attempts_differ_and_are_in_order() -> None:
    first = task_context()
    ids = [first.ti.id, first.retry().ti.id, task_context(task_id="two", world=first.world).ti.id]
    assert ids == sorted(set(ids))
    assert {found.version for found in ids} == {7}


def test_connections_and_variables_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_PLACE", "here")
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", "http://shop.example")
    context = task_context().context
    assert (context["var"]["value"].place, context["conn"].shop.host) == ("here", "shop.example")


def test_a_dag_is_that_of_its_world_and_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    first = task_context(world=world).context["dag"]
    first.description = "changed by a test"
    assert task_context(world=world, run_id="another").context["dag"].description == "changed by a test"
    assert task_context().context["dag"].description != "changed by a test"
    monkeypatch.setenv("AIRFLOW__CORE__MAX_ACTIVE_TASKS_PER_DAG", "3")
    assert task_context(world=world).context["dag"].max_active_tasks == 3


# --- what is missing ---------------------------------------------------------------------------------------------


def test_ti_has_every_public_name_of_airflows_or_says_what_to_set() -> None:
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    real = {name for name in (*dir(RuntimeTaskInstance), *RuntimeTaskInstance.model_fields) if not name.startswith("_")}
    ti: Any = task_context(airflow=FAKES).ti
    unknown = UNKNOWN if FAKES == "3.3" else UNKNOWN | UNKNOWN_SINCE_3_4
    assert {name for name in real - set(dir(BaseModel)) if not hasattr(ti, name)} == set(unknown)
    for name in unknown:
        with pytest.raises(AttributeError, match=rf"Set it in the test: attempt\.ti\.{name} = "):
            getattr(ti, name)
    ti.get_dr_count = lambda **_: 3
    assert ti.get_dr_count(dag_id="dag") == 3
    with pytest.raises(AttributeError, match="none in Airflow either"):
        ti.nothing  # noqa: B018  it is looked up


def test_a_task_that_was_not_given_says_how_to_give_it() -> None:
    with pytest.raises(AttributeError, match=r"Give it: task_context\(lambda: Load\(task_id='task'\)\)"):
        task_context().ti.task.execution_timeout  # noqa: B018  it is looked up


def test_xcoms_are_pushed_and_pulled_async_too() -> None:
    async def use(ti: Any) -> Any:
        await ti.axcom_push("k", [1])
        return await ti.axcom_pull(key="k")

    assert asyncio.run(use(task_context().ti)) == [1]


def test_what_goes_on_after_a_deferral_is_the_same_try_with_its_xcoms() -> None:
    with task_context() as deferred:
        deferred.ti.xcom_push("page", 7)
        deferred.task_store.set("job", "a")
    with deferred.resume() as resumed:
        assert resumed.ti.try_number == deferred.ti.try_number == 1
        assert resumed.ti.xcom_pull(key="page") == 7
        assert resumed.ti.xcoms == {"page": 7}
        assert resumed.task_store.get("job") == "a"
    with resumed.retry() as retried:
        assert retried.ti.try_number == 2
        assert retried.ti.xcom_pull(key="page") is None


@pytest.mark.parametrize("world", ["w", "", 5, object()])
def test_a_world_that_is_none_is_refused(world: Any) -> None:
    with pytest.raises(TypeError, match=r"must be a World, such as attempt\.world"):
        task_context(world=world)
