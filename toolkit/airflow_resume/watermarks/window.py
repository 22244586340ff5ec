"""The window a run loads."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from airflow_resume.watermarks.record import WindowRecord


@dataclass(frozen=True, kw_only=True)
class Window:
    """Load the rows with `start <= column < end`, and replace what an earlier attempt may have loaded of them.

    Args:
        start, end: half-open, aware, in UTC.
        is_initial: nothing was loaded before.
        is_retry: an earlier attempt of this run began the same window, and may have loaded a part of it.
        is_replay: this run finished the window before; its task was cleared.
        record: as it is kept; None when there is nothing to load.
    """

    start: datetime
    end: datetime
    is_initial: bool = False
    is_retry: bool = False
    is_replay: bool = False
    record: WindowRecord | None = None

    @property
    def empty(self) -> bool:
        """Whether there is nothing to load."""
        return self.start >= self.end

    def __str__(self) -> str:
        return f"[{self.start.isoformat()}, {self.end.isoformat()})"
