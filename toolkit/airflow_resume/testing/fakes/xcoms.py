"""The XComs of a fake Airflow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Place: TypeAlias = tuple[str, str, str, int, str]
"""Dag id, run id, task id, map index and key."""


@dataclass
class XComs:
    """Every XCom of every run.

    Values are kept by Airflow's serializer: what it refuses is refused, and what is pulled is a copy.
    """

    kept: dict[Place, Any] = field(default_factory=dict)
    """Serialized values, in the order in which they were pushed."""

    def push(self, place: Place, value: Any) -> None:
        """Keep a value."""
        from airflow_resume.compat import serialize

        kept = serialize(value)
        self.kept.pop(place, None)
        self.kept[place] = kept

    def read(self, place: Place) -> Any:
        """A new copy of what was pushed."""
        from airflow_resume.compat import deserialize

        return deserialize(self.kept[place])

    def forget(self, *begins: object) -> None:
        """Delete what a run or a task instance pushed, given the beginning of its places."""
        for place in [place for place in self.kept if place[: len(begins)] == begins]:
            del self.kept[place]

    def find(self, dag_id: str, task_id: str, key: str) -> Iterator[Place]:
        """The places of all runs and map indices where something was pushed, newest first."""
        for place in reversed(self.kept):
            if (place[0], *place[2::2]) == (dag_id, task_id, key):
                yield place
