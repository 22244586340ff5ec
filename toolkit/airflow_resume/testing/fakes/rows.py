"""The rows of the database, which outlive the attempts and their stores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn

from airflow_resume.testing.fakes.wire import received


@dataclass(frozen=True)
class StoredRow:
    """A value as JSON, and the time after which `airflow state-store clean` may delete it; None: never."""

    text: str
    expires_at: datetime | None = None


class ValuesCopy(dict[str, Any]):
    """A copy of the values. It refuses changes, which no store would see. A copy of it is a plain dict."""

    def _refuse(self, *_args: object, **_options: object) -> NoReturn:
        raise TypeError("This is a copy of the values, so a change of it would be lost.\nCall set() or delete().")

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = _refuse  # pyright: ignore[reportAssignmentType]
    __ior__ = _refuse

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        return dict, (dict(self),)


class StoredRows(dict[str, StoredRow]):
    """The rows of one task instance or of one asset, by key."""

    def values_by_key(self) -> dict[str, Any]:
        """A copy of the values that a reader would get now. It refuses changes."""
        return ValuesCopy({key: received(row.text) for key, row in self.items()})

    def replace_by(self, rows: Mapping[str, StoredRow]) -> None:
        """Replace all rows by these."""
        self.clear()
        self.update(rows)

    def collect(self, now: datetime) -> list[str]:
        """Delete expired rows, as `airflow state-store clean` does. Returns the deleted keys."""
        gone = [key for key, row in self.items() if row.expires_at is not None and row.expires_at < now]
        for key in gone:
            del self[key]
        return gone
