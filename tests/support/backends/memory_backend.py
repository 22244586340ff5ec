"""A backend of Airflow's in a dict."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from airflow.sdk.state import BaseStoreBackend, TaskScope


class MemoryBackend(BaseStoreBackend):
    """Keeps text and its expiry by scope and key."""

    def __init__(self) -> None:
        self.rows: dict[tuple[Any, str], tuple[str, datetime | None]] = {}

    def get(self, scope: Any, key: str, *, session: Any = None) -> str | None:
        return self.rows.get((scope, key), (None, None))[0]

    def set(self, scope: Any, key: str, value: str, *, expires_at: datetime | None = None, session: Any = None) -> None:
        self.rows[scope, key] = (value, expires_at)

    def delete(self, scope: Any, key: str, *, session: Any = None) -> None:
        self.rows.pop((scope, key), None)

    def clear(self, scope: Any, *, all_map_indices: bool = False, session: Any = None) -> None:
        for row in [row for row in self.rows if self._is_cleared(scope, row[0], all_map_indices)]:
            del self.rows[row]

    def _is_cleared(self, scope: Any, other: Any, all_map_indices: bool) -> bool:  # noqa: FBT001
        if all_map_indices and isinstance(scope, TaskScope) and isinstance(other, TaskScope):
            names = ("dag_id", "run_id", "task_id")
            return all(getattr(scope, name) == getattr(other, name) for name in names)
        return bool(scope == other)

    async def aget(self, scope: Any, key: str, *, session: Any = None) -> str | None:
        return self.get(scope, key)

    async def aset(
        self, scope: Any, key: str, value: str, *, expires_at: datetime | None = None, session: Any = None
    ) -> None:
        self.set(scope, key, value, expires_at=expires_at)

    async def adelete(self, scope: Any, key: str, *, session: Any = None) -> None:
        self.delete(scope, key)

    async def aclear(self, scope: Any, *, all_map_indices: bool = False, session: Any = None) -> None:
        self.clear(scope, all_map_indices=all_map_indices)

    def cleanup(self) -> None:
        now = datetime.now(timezone.utc)
        for row in [row for row, (_, expires) in self.rows.items() if expires is not None and expires < now]:
            del self.rows[row]
