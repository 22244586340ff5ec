"""Who may delete the values of a task that has succeeded."""

from __future__ import annotations

import logging

import pytest
from airflow.sdk.execution_time import context
from airflow.sdk.execution_time.context import TaskStateStoreAccessor
from airflow.sdk.state import TaskScope

from airflow_resume.backends import SqlStoreBackend
from airflow_resume.backends import clearing as subject
from airflow_resume.errors import StoreUnavailableError, SupersededError

SCOPE = TaskScope(dag_id="dag", run_id="run", task_id="task")


class Asked:
    """The store of the task, as it answers."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error
        self.keys: list[str] = []

    def delete(self, key: str) -> None:
        self.keys.append(key)
        if self.error is not None:
            raise self.error


def succeed(backend: SqlStoreBackend, monkeypatch: pytest.MonkeyPatch, error: Exception | None) -> Asked:
    """What Airflow does when a task has succeeded, by its own method."""
    asked = Asked(error)
    monkeypatch.setattr(subject, "wrapped", lambda _accessor, refused: asked)
    monkeypatch.setattr(context, "_get_worker_state_store_backend", lambda: backend)
    accessor = object.__new__(TaskStateStoreAccessor)
    accessor._scope = SCOPE
    backend.set(SCOPE, "key", "1")
    accessor._clear_backend_only()
    return asked


def test_at_success_the_server_is_asked_before_values_are_deleted(
    backend: SqlStoreBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert succeed(backend, monkeypatch, None).keys == ["resume.cleared"]
    assert backend.get(SCOPE, "key") is None


def test_a_replaced_attempt_deletes_nothing(backend: SqlStoreBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SupersededError):
        succeed(backend, monkeypatch, SupersededError())
    assert backend.get(SCOPE, "key") == "1"


def test_what_cannot_be_found_out_leaves_the_values(
    backend: SqlStoreBackend, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        succeed(backend, monkeypatch, StoreUnavailableError())
    assert backend.get(SCOPE, "key") == "1"
    assert "The values of the task stay" in caplog.text


def test_anywhere_else_a_scope_is_cleared_at_once(backend: SqlStoreBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "wrapped", None)
    backend.set(SCOPE, "key", "1")
    backend.clear(SCOPE)
    assert backend.get(SCOPE, "key") is None
