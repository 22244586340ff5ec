"""A backend of Airflow as a `StateStore`, and the scopes of its state."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from airflow_resume.values import check

if TYPE_CHECKING:
    from pydantic import JsonValue

Scope: TypeAlias = Any
"""A `TaskScope` or an `AssetScope`. Airflow has these classes twice, for the worker and for the server."""


class Backend(Protocol):
    """The part of Airflow's `BaseStoreBackend` that is used. Values are JSON text."""

    def get(self, scope: Any, key: str) -> str | None:
        """The text, or None."""
        ...

    def set(self, scope: Any, key: str, value: str, *, expires_at: datetime | None = None) -> None:
        """Keep the text."""
        ...

    def delete(self, scope: Any, key: str) -> None:
        """Remove it."""
        ...

    def clear(self, scope: Any, *, all_map_indices: bool = False) -> None:
        """Remove everything in the scope."""
        ...


def _now() -> datetime:
    return datetime.now(timezone.utc)


class BackendStore:
    """One scope of a backend, used as Airflow's API server uses it.

    Args:
        backend: a `BaseStoreBackend` of Airflow's.
        scope: a `TaskScope` or `AssetScope`, of the module that the backend is of.
        now: the clock that retention is counted from.
    """

    def __init__(self, backend: Backend, scope: Scope, *, now: Callable[[], datetime] = _now) -> None:
        self.backend = backend
        """As it was given."""
        self.scope = scope
        """As it was given."""
        self._now = now

    def get(self, key: str, default: JsonValue = None) -> JsonValue:
        """The value, or `default` if there is no value.

        Args:
            key: of the value.
            default: what is returned when there is no value.
        """
        text = self.backend.get(self.scope, key)
        return default if text is None else json.loads(text)

    def set(self, key: str, value: JsonValue, *, retention: timedelta | None = None) -> None:
        """Keep the value for ever, or for the retention.

        Args:
            key: of the value.
            value: JSON, not None.
            retention: how long it is kept from now on; None keeps it for ever.

        Raises:
            InvalidValueError: it is None, or is not JSON.
        """
        check(value)
        expires_at = None if retention is None else self._now() + retention
        self.backend.set(self.scope, key, json.dumps(value), expires_at=expires_at)

    def delete(self, key: str) -> None:
        """Remove the value, if there is one.

        Args:
            key: of the value.
        """
        self.backend.delete(self.scope, key)

    def close(self) -> None:
        """Close the backend, if it can be closed."""
        close = getattr(self.backend, "close", None)
        if close is not None:
            close()


def default_scopes(backend: object) -> list[Scope]:
    """Scopes that must not share anything, some of which look alike; the first is that of the store."""
    from airflow.sdk import state

    base = _base_of(backend)
    home: Any = state if base is None else sys.modules[base.__module__]  # the scopes that the backend knows
    task = partial(home.TaskScope, dag_id="dag", run_id="run", task_id="task", map_index=-1)
    return [
        task(),
        *(task(map_index=index) for index in (0, 1, 10)),
        *(task(task_id=name) for name in ("task2", "Task", "task.1", "task/1", "task_1", "tásk")),
        *(task(run_id=name) for name in ("run2", "Run", "manual__2026-01-01T00:00:00+00:00")),
        *(task(dag_id=name) for name in ("dag2", "Dag")),
        task(dag_id="dag.run", run_id="task", task_id="key"),
        task(dag_id="dag", run_id="run.task", task_id="key"),
        *(home.AssetScope(asset_id=number, name=f"asset{number}", uri=f"s3://asset{number}") for number in (1, 2)),
    ]


def has_cleanup(backend: object) -> bool:
    """Whether the backend has its own `cleanup`, not only the empty one that all inherit."""
    inherited = getattr(_base_of(backend), "cleanup", None)
    return getattr(type(backend), "cleanup", None) is not inherited


def _base_of(backend: object) -> type | None:
    """The worker's `BaseStoreBackend` or the server's: two classes with the same name."""
    return next((kind for kind in type(backend).__mro__ if kind.__name__ == "BaseStoreBackend"), None)
