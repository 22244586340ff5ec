"""One scope of a backend as a `StateStore`: for scripts, notebooks, tests and the demo, without Airflow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from airflow_resume.arguments import check_type
from airflow_resume.attempt import utc_now
from airflow_resume.backends.backend import SqlStoreBackend
from airflow_resume.backends.extras import Version
from airflow_resume.backends.values.scopes import AnyScope
from airflow_resume.backends.values.texts import text_of
from airflow_resume.compat import AssetScope, TaskScope

if TYPE_CHECKING:
    from pydantic import JsonValue


class SqlStateStore:
    """Keeps JSON values by key in one scope of a backend.

        with closing(SqlStoreBackend("sqlite:///state.db")) as backend:
            for page in checkpoint(source, name="orders", store=SqlStateStore(backend, "nightly orders")):
                ...

    Args:
        backend: where the values are. Close it yourself.
        scope: whose values they are: the scope of a task or an asset, or any text of your own.
    """

    def __init__(self, backend: SqlStoreBackend, scope: AnyScope | str) -> None:
        check_type("backend", backend, SqlStoreBackend, "a SqlStoreBackend")
        check_type("scope", scope, (str, TaskScope, AssetScope), "a text, a TaskScope or an AssetScope")
        self._backend = backend
        self._scope = TaskScope(dag_id="", run_id="", task_id=scope) if isinstance(scope, str) else scope

    def __repr__(self) -> str:
        return f"<SqlStateStore in {self._backend!r}>"

    def get(self, key: str, default: JsonValue = None) -> JsonValue:
        """The value, or `default` if there is no value.

        Args:
            key: of the value.
            default: what is returned when there is no value.

        Raises:
            UnreadableRecordError: the text of the value is not JSON.
        """
        text = self._backend.get(self._scope, key)
        return default if text is None else self._backend.value_of(text, key)

    def set(self, key: str, value: JsonValue, *, retention: timedelta | None = None) -> None:
        """Keep the value, for ever or for the retention; after that a cleanup may delete it.

        Args:
            key: text of 1 to 512 characters, and no NUL.
            value: JSON, not None; its size in bytes is limited by the backend's `max_value_bytes`.
            retention: how long the value is kept from now on; None keeps it for ever.

        Raises:
            InvalidKeyError, InvalidValueError, ValueTooLargeError: before anything is written.
        """
        expires_at = _end_of(retention)
        self._backend.set(self._scope, key, text_of(value), expires_at=expires_at)

    def set_many(self, values: Mapping[str, JsonValue], *, retention: timedelta | None = None) -> None:
        """Keep several values, all of them or none. It raises as `set` does.

        Args:
            values: by key, each as for `set`.
            retention: of all of them, as for `set`.
        """
        expires_at = _end_of(retention)
        texts = {key: text_of(value) for key, value in values.items()}
        self._backend.set_many(self._scope, texts, expires_at=expires_at)

    def delete(self, key: str) -> None:
        """Remove the value, if there is one.

        Args:
            key: of the value.
        """
        self._backend.delete(self._scope, key)

    def clear(self) -> None:
        """Remove all values of the scope."""
        self._backend.clear(self._scope)

    def scan(self, prefix: str) -> list[str]:
        """The keys that begin with `prefix`, sorted.

        Args:
            prefix: of the keys; an empty one gives all.
        """
        return self._backend.scan(self._scope, prefix)

    def compare_and_set(self, key: str, expected_version: int, value: JsonValue) -> int | None:
        """Keep the value if the key has that version (0: if there is no such key).

        Args:
            key: of the value.
            expected_version: as `history` gave it, or 0.
            value: JSON, not None.

        Returns:
            The new version; None if the key has another version, so that nothing was written.
        """
        return self._backend.compare_and_set(self._scope, key, expected_version, text_of(value))

    def history(self, key: str) -> Sequence[Version]:
        """The current version and the older ones that were kept, newest first.

        The backend's `keep_versions` says how many are kept.

        Args:
            key: of the value.
        """
        return self._backend.history(self._scope, key)


def _end_of(retention: timedelta | None) -> datetime | None:
    if retention is None:
        return None
    try:
        return utc_now() + retention
    except OverflowError:
        raise ValueError(f"retention={retention!r} ends outside of the calendar") from None
