"""Airflow's stats, which remember what they are told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest


@dataclass
class Reported:
    """What was reported: the method, the name, the value and the tags, in order."""

    all: list[tuple[str, str, Any, dict[str, str]]] = field(default_factory=list)

    @property
    def tags(self) -> set[frozenset[str]]:
        """The names of tags."""
        return {frozenset(tags) for *_, tags in self.all}

    def of(self, prefix: str) -> dict[str, tuple[str, Any]]:
        """The last method and value of each metric with this prefix."""
        return {
            name.removeprefix(prefix): (kind, value) for kind, name, value, _ in self.all if name.startswith(prefix)
        }

    def clear(self) -> None:
        self.all.clear()


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> Reported:
    """What is reported from here on."""
    from airflow.sdk._shared.observability.metrics import stats

    seen = Reported()

    def noting(kind: str) -> Any:
        def note(name: str, value: Any = 1, *, tags: dict[str, str]) -> None:
            seen.all.append((kind, name, value, tags))

        return note

    for kind in ("incr", "gauge", "timing"):
        monkeypatch.setattr(stats, kind, noting(kind))
    return seen
