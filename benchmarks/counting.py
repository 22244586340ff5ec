"""A store in memory that counts its calls."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from airflow_resume.channel import InlineChannel
from airflow_resume.store import MemoryStore

if TYPE_CHECKING:
    from pydantic import JsonValue


class CountingStore(MemoryStore):
    """Counts the calls, and keeps the size of the largest record that was written."""

    channel = InlineChannel()

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.largest = 0

    def get(self, key: str, default: JsonValue = None) -> JsonValue:
        self.calls += 1
        return super().get(key, default)

    def set(self, key: str, value: JsonValue) -> None:
        self.calls += 1
        self.largest = max(self.largest, size_of(value))
        super().set(key, value)


def size_of(value: object) -> int:
    """In bytes, as JSON."""
    return len(json.dumps(value).encode())
