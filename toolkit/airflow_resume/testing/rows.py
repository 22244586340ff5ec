"""What the database keeps: it outlives the attempts, and the stores through which they see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow_resume.testing.wire import received


@dataclass(frozen=True)
class Row:
    """A value, as JSON, and when `airflow state-store clean` may delete it; None: never."""

    text: str
    expires_at: datetime | None = None


class Rows(dict[str, Row]):
    """The rows of one task instance or of one asset, by key."""

    def values_by_key(self) -> dict[str, Any]:
        """What a reader would get now."""
        return {key: received(row.text) for key, row in self.items()}

    def replace_by(self, rows: Mapping[str, Row]) -> None:
        """Have these rows, and no others."""
        self.clear()
        self.update(rows)

    def collect(self, now: datetime) -> list[str]:
        """Delete what has expired, as `airflow state-store clean` does; the keys that went."""
        gone = [key for key, row in self.items() if row.expires_at is not None and row.expires_at < now]
        for key in gone:
            del self[key]
        return gone
