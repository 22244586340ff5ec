from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Asset

from airflow_resume import store as stores
from airflow_resume.channel import InlineChannel
from airflow_resume.errors import (
    AssetNotDeclaredError,
    NoStateStoreError,
    ResumeError,
    StoreRefusedError,
    StoreUnavailableError,
    SupersededError,
)
from airflow_resume.store import AirflowStore, MemoryStore
from airflow_resume.task_stores import asset_store, open_task_store, task_store


class AirflowRuntimeError(Exception):
    """Of the shape of the Task SDK's error."""

    def __init__(self, status: int | None) -> None:
        self.error = SimpleNamespace(detail={"status_code": status})


class Accessor:
    """Of the shape of the Task SDK's accessor, failing by script."""

    def __init__(self, *script: Exception) -> None:
        self.script = list(script)
        self.sets: list[tuple[Any, ...]] = []

    def _play(self) -> None:
        if self.script:
            raise self.script.pop(0)

    def get(self, key: str, default: Any = None) -> Any:
        self._play()
        return default

    def set(self, key: str, value: Any, *, retention: timedelta | None = None) -> None:
        self._play()
        self.sets.append((key, value, retention))

    def delete(self, key: str) -> None:
        self._play()


def wrapped(accessor: Accessor, refused: Callable[[], Exception] = SupersededError) -> AirflowStore:
    return AirflowStore(
        accessor=accessor, find_channel=InlineChannel, refused=refused, options={"retention": timedelta.max}
    )


@pytest.fixture(autouse=True)
def no_sleep(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []
    monkeypatch.setattr("tenacity.nap.time.sleep", slept.append)
    return slept


def test_values_are_kept_for_ever() -> None:
    accessor = Accessor()
    wrapped(accessor).set("k", 0)
    assert accessor.sets == [("k", 0, timedelta.max)]


@pytest.mark.parametrize("status", [None, 500, 503, 429])
def test_a_call_is_repeated_while_the_api_server_is_away(status: int | None) -> None:
    accessor = Accessor(*[AirflowRuntimeError(status)] * 3)
    wrapped(accessor).set("k", 1)
    assert [key for key, *_ in accessor.sets] == ["k"]


def test_the_log_of_a_call_that_is_repeated_does_not_have_the_value(caplog: pytest.LogCaptureFixture) -> None:
    wrapped(Accessor(*[AirflowRuntimeError(503)] * 3)).set("k", "what is kept")
    assert "store_call" in caplog.text
    assert "what is kept" not in caplog.text


def test_an_api_server_that_stays_away_is_a_named_error_that_a_retry_can_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "RETRY_SECONDS", 0.0)
    with pytest.raises(StoreUnavailableError, match="a retry continues"):
        wrapped(Accessor(*[AirflowRuntimeError(503)] * 3)).get("k")


@pytest.mark.parametrize("status", [404, 409])
@pytest.mark.parametrize("refused", [SupersededError(), StoreRefusedError(asset="orders")])
def test_a_refused_write_says_what_it_means(status: int, refused: ResumeError) -> None:
    with pytest.raises(type(refused), check=lambda error: error is refused):
        wrapped(Accessor(AirflowRuntimeError(status)), lambda: refused).set("k", 1)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (404, "Task instance 0199 not found"),  # Airflow 3.3
        (404, "Task Instance not found"),  # Airflow 3.4, which does not know the attempt at all
        (410, "Task Instance not found in the working set; its attempt has been archived"),  # Airflow 3.4
        (410, "gone"),
    ],
)
def test_a_refusal_that_names_the_attempt_means_superseded_for_the_store_of_an_asset_too(
    status: int, message: str
) -> None:
    error = AirflowRuntimeError(status)
    error.error.detail["detail"] = {"detail": {"reason": "not_found", "message": message}}
    with pytest.raises(SupersededError):
        wrapped(Accessor(error), lambda: StoreRefusedError(asset="orders")).set("k", 1)


def raising_in(module: str, error: Exception) -> Callable[..., Any]:
    """A call that fails in a function of that module."""
    namespace: dict[str, Any] = {"__name__": module, "error": error}
    exec("def call(*_args, **_options): raise error", namespace)  # noqa: S102
    return namespace["call"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("error", [BrokenPipeError(), EOFError(), ConnectionResetError()])
def test_a_supervisor_that_is_gone_means_superseded_for_every_call(error: Exception) -> None:
    broken = raising_in("airflow.sdk.execution_time.comms", error)
    store = wrapped(SimpleNamespace(get=broken, set=broken, delete=broken))  # type: ignore[arg-type]
    calls: list[Callable[[], object]] = [lambda: store.get("k"), lambda: store.set("k", 1), lambda: store.delete("k")]
    for call in calls:
        with pytest.raises(SupersededError, match="supervisor"):
            call()


def test_the_broken_connection_of_a_state_backend_is_not_taken_for_the_supervisors() -> None:
    broken = raising_in("redis.connection", ConnectionResetError("redis:6379"))
    with pytest.raises(ConnectionResetError, match="redis"):
        wrapped(SimpleNamespace(set=broken)).set("k", 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("status", [400, 401, 403, 422])
def test_a_no_for_good_is_not_taken_for_a_store_that_is_away(status: int) -> None:
    with pytest.raises(StoreRefusedError, match="refused the call"):
        wrapped(Accessor(AirflowRuntimeError(status))).set("k", 1)


def test_an_error_of_the_value_is_not_disguised() -> None:
    with pytest.raises(ValueError, match="as None"):
        wrapped(Accessor(ValueError("as None"))).set("k", 1)


def test_outside_a_task_the_error_says_what_to_do() -> None:
    with pytest.raises(NoStateStoreError, match="pass `store=`"):
        open_task_store()


def test_a_store_can_be_given_outside_a_task() -> None:
    store = MemoryStore()
    assert open_task_store(store=store)[0] is store


def test_a_context_without_a_store_names_the_airflow_version() -> None:
    with pytest.raises(NoStateStoreError, match=r"Airflow 3\.3"):
        task_store({"ti": None})


@pytest.mark.parametrize("context", [{}, {"asset_state_store": {}}])
def test_an_asset_that_is_not_declared_says_what_to_declare(context: dict[str, Any]) -> None:
    with pytest.raises(AssetNotDeclaredError, match=r"'orders'.*\n.*inlets=.*outlets="):
        asset_store(context, Asset("orders"))
