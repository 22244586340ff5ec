"""One scope of a backend as a `StateStore`: for scripts, notebooks, tests and the demo, without an Airflow."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from airflow.sdk.state import TaskScope

from airflow_resume.attempt import utc_now
from airflow_resume.backends.backend import SqlStoreBackend
from airflow_resume.backends.extras import Version
from airflow_resume.backends.scopes import AnyScope
from airflow_resume.values import check

if TYPE_CHECKING:
    from pydantic import JsonValue


class SqlStateStore:
    """Keeps JSON values by key in one scope of a backend.

        with closing(SqlStoreBackend("sqlite:///state.db")) as backend:
            for page in checkpoint(source, name="orders", store=SqlStateStore(backend, "nightly orders")):
                ...

    Args:
        backend: where. It stays yours: close it yourself.
        scope: whose values they are: that of a task or an asset, or any text of your own.
    """

    def __init__(self, backend: SqlStoreBackend, scope: AnyScope | str) -> None:
        self._backend = backend
        self._scope = TaskScope(dag_id="", run_id="", task_id=scope) if isinstance(scope, str) else scope

    def __repr__(self) -> str:
        return f"<SqlStateStore in {self._backend!r}>"

    def get(self, key: str, default: JsonValue = None) -> JsonValue:
        """The value, or `default` when there is none."""
        text = self._backend.get(self._scope, key)
        return default if text is None else json.loads(text)

    def set(self, key: str, value: JsonValue, *, retention: timedelta | None = None) -> None:
        """Keep the value, for ever, or for so long; after that a cleanup may delete it.

        Raises:
            InvalidKeyError, InvalidValueError, ValueTooLargeError: before anything is written.
        """
        expires_at = None if retention is None else utc_now() + retention
        self._backend.set(self._scope, key, _text(value), expires_at=expires_at)

    def set_many(self, values: Mapping[str, JsonValue], *, retention: timedelta | None = None) -> None:
        """Keep several values, all of them or none. It raises as `set` does."""
        expires_at = None if retention is None else utc_now() + retention
        texts = {key: _text(value) for key, value in values.items()}
        self._backend.set_many(self._scope, texts, expires_at=expires_at)

    def delete(self, key: str) -> None:
        """Remove the value, if there is one."""
        self._backend.delete(self._scope, key)

    def clear(self) -> None:
        """Remove all values of the scope."""
        self._backend.clear(self._scope)

    def scan(self, prefix: str) -> list[str]:
        """The keys that begin with it, sorted."""
        return self._backend.scan(self._scope, prefix)

    def compare_and_set(self, key: str, expected_version: int, value: JsonValue) -> int | None:
        """Keep the value if the key has that version (0: if there is no such key).

        Returns:
            The new version, or None when it is another one and nothing was written.
        """
        return self._backend.compare_and_set(self._scope, key, expected_version, _text(value))

    def history(self, key: str) -> Sequence[Version]:
        """The version that is there now, and those before it that were kept, newest first.

        How many those are is the backend's `keep_versions`.
        """
        return self._backend.history(self._scope, key)


def _text(value: JsonValue) -> str:
    check(value)
    return json.dumps(value, ensure_ascii=False)
