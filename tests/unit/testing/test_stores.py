from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.sdk.execution_time.context import (
    NEVER_EXPIRE,
    AssetStateStoreAccessor,
    AssetStateStoreAccessors,
    TaskStateStoreAccessor,
)
from pydantic import ValidationError

from airflow_resume import checkpoint
from airflow_resume.channel import InlineChannel
from airflow_resume.errors import StoreRefusedError, StoreUnavailableError, SupersededError
from airflow_resume.store import RETRY_SECONDS, channel_of
from airflow_resume.task_stores import asset_store, task_store
from airflow_resume.testing import FakeAssetStore, FakeAssetStores, FakeTaskStore
from airflow_resume.testing.fakes.operations import Operation
from airflow_resume.testing.fakes.stores import AsyncFakeTaskStore
from tests.support.kit.next_airflow import FAKES
from tests.support.kit.raised import having

ORDERS = Asset("orders", uri="s3://orders/all")

METHODS = ("get", "set", "delete", "clear", "aget", "aset", "adelete", "aclear")

Store = FakeTaskStore | FakeAssetStore


@pytest.fixture(params=[FakeTaskStore, FakeAssetStore])
def store(request: pytest.FixtureRequest) -> Store:
    made: Store = request.param()
    return made


def status(call: Callable[[], object]) -> int | None:
    """The status with which the call is refused."""
    with pytest.raises(AirflowRuntimeError) as caught:
        call()
    code: int | None = caught.value.error.detail["status_code"]  # type: ignore[index]
    return code


@pytest.mark.parametrize(
    ("fake", "real"),
    [
        (FakeTaskStore if FAKES == "3.3" else AsyncFakeTaskStore, TaskStateStoreAccessor),
        (FakeAssetStore, AssetStateStoreAccessor),
        (FakeAssetStores, AssetStateStoreAccessors),
    ],
)
def test_the_methods_have_airflows_signatures(fake: type, real: type) -> None:
    names = [
        name for name in ("get", "set", "delete", "clear", "aget", "aset", "adelete", "aclear") if name in dir(real)
    ]
    signatures = [inspect.signature(getattr(kind, name)).parameters for kind in (fake, real) for name in names]
    assert signatures[: len(names)] == signatures[len(names) :]
    assert hasattr(fake, "aget") == hasattr(real, "aget")


def test_a_value_is_a_copy_both_ways(store: Store) -> None:
    value: Any = {"a": [1]}
    store.set("k", value)
    value["a"].append(2)
    read: Any = store.get("k")
    read["a"].append(3)
    assert store.get("k") == {"a": [1]} == store.values["k"]


@pytest.mark.parametrize("value", [(1, 2), {1: "a"}, {"a": (1,)}])
def test_what_json_would_change_is_refused(store: Store, value: Any) -> None:
    with pytest.raises(ValidationError):
        store.set("k", value)


def test_a_nested_nan_silently_becomes_none(store: Store) -> None:
    store.set("k", {"a": float("nan")})
    assert store.get("k") == {"a": None}


def test_a_value_nested_too_deeply_can_be_written_and_never_read(store: Store) -> None:
    value: Any = []
    for _ in range(249):
        value = [value]
    store.set("k", value)
    assert status(lambda: store.get("k")) is None


def test_a_large_value_is_kept_with_a_warning(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    store.set("k", "x" * 65_533)
    assert caplog.messages == []
    store.set("k", "x" * 65_534)
    assert ["65536 bytes" in message for message in caplog.messages] == [True]


def test_deleting_a_dot_deletes_all_keys_of_a_task_and_one_of_an_asset() -> None:
    task, asset = FakeTaskStore(), FakeAssetStore()
    for store in (task, asset):
        store.set("a", 1)
        store.delete(".")
    assert (task.values, asset.values) == ({}, {"a": 1})


@pytest.mark.parametrize(("key", "refused"), [("", 422), (".", 405), ("..", 404), ("a\nb", 404)])
def test_keys_that_a_path_cannot_hold_are_refused(key: str, refused: int) -> None:
    assert status(lambda: FakeTaskStore().set(key, 1)) == refused


def test_a_replaced_attempt_reads_defaults_and_cannot_write() -> None:
    old = FakeTaskStore()
    old.set("k", 1)
    new = FakeTaskStore(old.rows)
    old.replaced = True
    assert (old.get("k", "default"), new.get("k")) == ("default", 1)
    assert [status(call) for call in (lambda: old.set("k", 2), lambda: old.delete("k"), old.clear)] == [404] * 3
    assert new.values == {"k": 1}


def test_a_replaced_attempt_reads_an_asset_and_deletes_but_cannot_set() -> None:
    store = FakeAssetStore()
    store.set("k", 1)
    store.replaced = True
    assert (store.get("k"), status(lambda: store.set("k", 2))) == (1, 404)
    store.delete("k")
    assert store.values == {}


def test_an_inactive_asset_reads_defaults_and_cannot_be_written() -> None:
    store = FakeAssetStore(active=False)
    assert store.get("k", "default") == "default"
    assert status(lambda: store.set("k", 1)) == 404


def test_keys_expire_by_the_clock_when_garbage_is_collected() -> None:
    store = FakeTaskStore()
    store.set("kept", 1, retention=NEVER_EXPIRE)
    store.set("default", 1)
    store.set("hour", 1, retention=timedelta(hours=1))
    store.clock.advance(timedelta(hours=2))
    assert store.get("hour") == 1, "what has expired is readable until it is collected"
    assert store.collect_garbage() == ["hour"]
    store.clock.advance(timedelta(days=30))
    assert store.collect_garbage() == ["default"]
    assert store.values == {"kept": 1}


def test_another_write_renews_the_retention() -> None:
    store = FakeTaskStore()
    store.set("k", 1)
    store.clock.advance(timedelta(days=29))
    store.set("k", 2)
    store.clock.advance(timedelta(days=29))
    assert store.collect_garbage() == []


def test_the_clock_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="back"):
        FakeTaskStore().clock.advance(timedelta(seconds=-1))


# --- looking on -----------------------------------------------------------------------------------------------


def test_the_log_has_every_call_in_order_and_why_it_failed(store: Store) -> None:
    store.set("k", 1)
    with pytest.raises(ValueError, match="None"):
        store.set("k", None)
    store.get("k")
    store.delete("k")
    store.clear()
    assert [str(operation) for operation in store.log] == ["set k", "set k", "get k", "delete k", "clear"]
    assert store.log[1] == Operation("set", "k", error="ValueError")


def test_the_observer_sees_the_call_before_it_is_applied_and_after(store: Store) -> None:
    seen: list[tuple[str, str, object]] = []
    store.observer = lambda when, what: seen.append((when, what, store.values.get("resume.job.x")))
    store.set("resume.job.x", 1)
    assert seen == [("before", "set resume.job.x", None), ("after", "set resume.job.x", 1)]


@pytest.mark.parametrize(("fatal", "kept"), [("before", {}), ("after", {"k": 1})])
def test_what_the_observer_raises_comes_out_of_the_call(store: Store, fatal: str, kept: dict[str, int]) -> None:
    def observer(when: str, _what: str) -> None:
        if when == fatal:
            raise KeyboardInterrupt

    store.observer = observer
    with pytest.raises(KeyboardInterrupt):
        store.set("k", 1)
    assert store.values == kept


def test_a_refused_call_has_no_after(store: Store) -> None:
    seen: list[str] = []
    store.observer = lambda when, _what: seen.append(when)
    with pytest.raises(ValueError, match="None"):
        store.set("k", None)
    assert seen == ["before"]


@pytest.mark.parametrize("away", [503, None])
def test_an_outage_fails_so_many_calls(store: Store, away: int | None) -> None:
    store.outage(2, status=away)
    assert [status(lambda: store.set("k", 1)), status(lambda: store.get("k"))] == [away, away]
    store.set("k", 1)
    assert store.values == {"k": 1}


# --- the assets of a task -------------------------------------------------------------------------------------


def test_an_asset_is_found_as_it_was_declared() -> None:
    stores = FakeAssetStores([ORDERS, Asset.ref(name="named"), Asset.ref(uri="s3://by/uri")])
    assert stores[ORDERS] is stores[Asset.ref(name="orders")]
    assert stores[Asset("named")] is stores[Asset.ref(name="named")]
    assert stores[Asset.ref(uri="s3://by/uri")] is stores.all[-1]
    for undeclared in (Asset("other"), Asset.ref(uri="s3://orders/all")):
        with pytest.raises(KeyError):
            stores[undeclared]
    with pytest.raises(TypeError):
        stores["orders"]  # type: ignore[index]


def test_the_short_form_needs_exactly_one_asset() -> None:
    stores = FakeAssetStores([ORDERS, ORDERS])
    stores.set("k", 1)
    assert stores[ORDERS].get("k") == 1 == asyncio.run(stores.aget("k"))
    for declared in ([], [ORDERS, Asset("other")]):
        with pytest.raises(ValueError, match="concrete inlets and outlets"):
            FakeAssetStores(declared).get("k")


# --- under airflow-resume -------------------------------------------------------------------------------------


def test_values_of_ours_never_expire() -> None:
    fake = FakeTaskStore()
    task_store({"task_state_store": fake}).set("k", 1)
    fake.clock.advance(timedelta(days=999))
    assert fake.collect_garbage() == []


def test_a_refused_write_means_superseded() -> None:
    fake = FakeTaskStore()
    fake.replaced = True
    with pytest.raises(SupersededError):
        task_store({"task_state_store": fake}).set("k", 1)


def test_a_refused_write_of_an_asset_means_inactive() -> None:
    stores = FakeAssetStores([ORDERS], lambda _asset: FakeAssetStore(active=False))
    with pytest.raises(StoreRefusedError, check=having(asset=ORDERS.name)):
        asset_store({"asset_state_store": stores}, ORDERS).set("k", 1)


def test_a_replaced_attempt_that_writes_to_an_asset_is_told_so() -> None:
    """The asset is active; it is the attempt that Airflow does not know any more."""
    fake = FakeAssetStore()
    fake.replaced = True
    stores = FakeAssetStores([ORDERS], lambda _asset: fake)
    with pytest.raises(SupersededError):
        asset_store({"asset_state_store": stores}, ORDERS).set("k", 1)


def test_a_refused_value_is_refused_for_good() -> None:
    with pytest.raises(StoreRefusedError):
        task_store({"task_state_store": FakeTaskStore()}).set("k", float("nan"))


def test_an_outage_is_outlived_in_the_time_of_the_fake() -> None:
    fake = FakeTaskStore()
    fake.outage(5)
    task_store({"task_state_store": fake}).set("k", 1)
    assert fake.values == {"k": 1}
    assert 1 < fake.clock.monotonic() < RETRY_SECONDS


def test_an_outage_without_end_is_a_named_error_after_the_time_it_takes() -> None:
    fake = FakeTaskStore()
    fake.outage(10**9)
    with pytest.raises(StoreUnavailableError):
        task_store({"task_state_store": fake}).set("k", 1)
    assert RETRY_SECONDS - 6 < fake.clock.monotonic() < RETRY_SECONDS + 6


def test_calls_are_made_in_the_callers_thread() -> None:
    assert isinstance(channel_of(task_store({"task_state_store": FakeTaskStore()})), InlineChannel)


def test_what_an_observer_raises_ends_a_loop_at_once() -> None:
    """A crash must come out of the channel as it is, whatever the surface catches."""
    fake = FakeTaskStore()
    fake.observer = lambda when, what: (
        (_ for _ in ()).throw(SystemExit) if (when, what[:3]) == ("after", "set") else None
    )
    with pytest.raises(SystemExit):
        list(checkpoint([1, 2, 3], name="l", store=task_store({"task_state_store": fake})))
    assert "resume.loop.l" in fake.values


def test_the_copy_of_the_values_refuses_changes_which_would_be_lost() -> None:
    store = FakeTaskStore()
    store.set("k", {"a": 1})
    changes: list[Callable[[dict[str, Any]], object]] = [
        lambda values: values.__setitem__("x", 1),
        lambda values: values.__delitem__("k"),
        lambda values: values.update(x=1),
        lambda values: values.pop("k"),
        lambda values: values.clear(),
    ]
    for change in changes:
        with pytest.raises(TypeError, match=r"is a copy of the values.*\nCall set\(\) or delete\(\)"):
            change(store.values)
    for copied in (dict(store.values), copy.deepcopy(store.values), store.values | {}):
        copied["x"] = 1
    assert store.values == {"k": {"a": 1}}
