"""On an event loop the hooks do not wait for a database that is away, and everything else does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk.state import AssetScope

from airflow_resume.backends import SqlStoreBackend
from airflow_resume.errors import StoreUnavailableError

SCOPE = AssetScope(name="orders")
AWAY = "postgresql://user@127.0.0.1:1/database"

CALLS: dict[str, Callable[[SqlStoreBackend], object]] = {
    "write": lambda backend: backend.serialize_asset_state_store_to_ref(value=1, key="key", scope=SCOPE),
    "read": lambda backend: backend.deserialize_asset_state_store_from_ref(
        f"airflow-resume:1:{32 * 'a'}:{64 * 'b'}:key"
    ),
}


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def backend(waits: list[float]) -> SqlStoreBackend:
    backend = SqlStoreBackend(AWAY, inline_bytes=0)
    backend._database._sleep = waits.append
    return backend


@pytest.mark.parametrize("call", CALLS)
def test_a_hook_gives_up_soon_on_an_event_loop(backend: SqlStoreBackend, waits: list[float], call: str) -> None:
    async def trigger() -> None:
        CALLS[call](backend)

    with pytest.raises(StoreUnavailableError, match="could not be used for 1 s"):
        asyncio.run(trigger())
    assert sum(waits) < 5


@pytest.mark.parametrize("call", CALLS)
def test_a_hook_waits_for_long_elsewhere(backend: SqlStoreBackend, waits: list[float], call: str) -> None:
    with pytest.raises(StoreUnavailableError, match="could not be used for 30 s"):
        CALLS[call](backend)
    assert sum(waits) >= 30


def test_what_is_async_waits_for_long_in_a_thread(backend: SqlStoreBackend, waits: list[float]) -> None:
    with pytest.raises(StoreUnavailableError, match="could not be used for 30 s"):
        asyncio.run(backend.aget(SCOPE, "key"))
    assert sum(waits) >= 30


def test_a_call_in_a_notebook_waits_for_long(backend: SqlStoreBackend, waits: list[float]) -> None:
    async def cell() -> None:
        backend.get(SCOPE, "key")

    with pytest.raises(StoreUnavailableError, match="could not be used for 30 s"):
        asyncio.run(cell())
    assert sum(waits) >= 30


def test_a_small_value_needs_no_database(backend: SqlStoreBackend, waits: list[float]) -> None:
    backend = SqlStoreBackend(AWAY)

    async def trigger() -> Any:
        stored = backend.serialize_asset_state_store_to_ref(value={"page": 3}, key="key", scope=SCOPE)
        return backend.deserialize_asset_state_store_from_ref(stored)

    assert asyncio.run(trigger()) == {"page": 3}


def test_a_long_wait_is_said_once_in_the_log(backend: SqlStoreBackend, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(StoreUnavailableError):
        backend.get(SCOPE, "key")
    said = [line for line in caplog.messages if "is away or busy, and is asked again for up to 30 s" in line]
    assert len(said) == 1
