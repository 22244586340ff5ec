"""What our stores can do beyond Airflow's contract, one ability a protocol, so that a caller names what it needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from pydantic import JsonValue

    from airflow_resume.backends.cleanup import Judged


@dataclass(frozen=True, kw_only=True)
class Version:
    """A value that a key had, or has."""

    version: int
    """Another number with every write, in no order."""
    value: JsonValue
    at: datetime
    """When it was written, in UTC, by the clock of the writer."""
    try_number: int
    """Of the task that wrote it; 0 when that is not known."""


@runtime_checkable
class Scans(Protocol):
    """A store that knows its keys."""

    def scan(self, prefix: str) -> list[str]:
        """The keys that begin with it, sorted."""
        ...


@runtime_checkable
class ComparesAndSets(Protocol):
    """A store in which a value can be replaced only by those who have seen it."""

    def compare_and_set(self, key: str, expected_version: int, value: JsonValue) -> int | None:
        """Write if the key has that version (0: if there is no such key).

        Returns:
            The new version, or None when it is another one and nothing was written.
        """
        ...


@runtime_checkable
class KeepsHistory(Protocol):
    """A store that knows the versions of a key."""

    def history(self, key: str) -> Sequence[Version]:
        """The version that is there now, and those before it that were kept, newest first. Empty without a value."""
        ...


@runtime_checkable
class PlansCleanup(Protocol):
    """A store that says what a cleanup would do."""

    def plan_cleanup(self) -> Iterator[Judged]:
        """Every row, with the reason why it would be deleted or kept."""
        ...
