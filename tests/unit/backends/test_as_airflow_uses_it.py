"""Airflow's own accessors over our backend, found by its configuration; the supervisor is a dict."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.context import (
    AssetStateStoreAccessor,
    TaskStateStoreAccessor,
    _get_worker_state_store_backend,
)
from airflow.sdk.state import AssetScope, TaskScope

from airflow_resume.backends import SqlStoreBackend
from airflow_resume.errors import DanglingReferenceError
from tests.support.backends.supervisor import Supervisor

SCOPE = TaskScope(dag_id="dag", run_id="run", task_id="task")
LARGE: Any = {"rows": ["é" * 100] * 100}


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> Supervisor:
    supervisor = Supervisor()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", supervisor, raising=False)
    return supervisor


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[SqlStoreBackend]:
    monkeypatch.setenv("AIRFLOW__WORKERS__STATE_STORE_BACKEND", "airflow_resume.backends.SqlStoreBackend")
    monkeypatch.setenv("AIRFLOW__AIRFLOW_RESUME__BACKEND_URL", f"sqlite:///{tmp_path / 'state.db'}")
    _get_worker_state_store_backend.cache_clear()
    found: Any = _get_worker_state_store_backend()
    yield found
    found.close()
    _get_worker_state_store_backend.cache_clear()


@pytest.fixture
def task(supervisor: Supervisor, backend: SqlStoreBackend) -> TaskStateStoreAccessor:
    return TaskStateStoreAccessor(UUID(int=1), SCOPE)


@pytest.fixture
def asset(supervisor: Supervisor, backend: SqlStoreBackend) -> AssetStateStoreAccessor:
    return AssetStateStoreAccessor(name="orders")


def test_a_large_value_is_a_reference_in_airflow_and_comes_back(
    task: TaskStateStoreAccessor, asset: AssetStateStoreAccessor, supervisor: Supervisor
) -> None:
    stores: list[Any] = [task, asset]
    for number, store in enumerate(stores):
        store.set(f"large.{number}", LARGE)
        assert len(str(supervisor.kept[f"large.{number}"])) < 250
        assert store.get(f"large.{number}") == LARGE


def test_a_small_value_can_be_read_in_airflow(task: TaskStateStoreAccessor, supervisor: Supervisor) -> None:
    task.set("small", {"page": 3})
    assert supervisor.kept["small"] == {"__airflow_state_ref__": '{"page": 3}'}
    assert task.get("small") == {"page": 3}


def test_a_value_that_grew_and_shrank_is_the_last_one(task: TaskStateStoreAccessor) -> None:
    values: list[Any] = [1, LARGE, 2, LARGE, {}]
    for value in values:
        task.set("key", value)
        assert task.get("key") == value


def test_what_is_deleted_in_airflow_is_deleted_here(
    task: TaskStateStoreAccessor, asset: AssetStateStoreAccessor, backend: SqlStoreBackend
) -> None:
    task.set("a", LARGE)
    task.set("b", LARGE)
    asset.set("c", LARGE)
    asyncio.run(asset.aset("d", LARGE))
    task.delete("a")
    asset.delete("c")
    assert (backend.scan(SCOPE, ""), backend.scan(AssetScope(name="orders"), "")) == (["b"], ["d"])
    task.clear()
    asyncio.run(asset.aclear())
    assert list(backend.plan_cleanup()) == []


def test_a_value_that_airflow_cleared_at_success_before_its_reference_is_an_error(task: TaskStateStoreAccessor) -> None:
    task.set("key", LARGE)
    task._clear_backend_only()
    with pytest.raises(DanglingReferenceError):
        task.get("key")
