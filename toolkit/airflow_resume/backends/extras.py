"""What our stores can do beyond Airflow's contract. Each ability is a protocol, so that callers can name it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from pydantic import JsonValue

    from airflow_resume.backends.rows.cleanup import Judged


@dataclass(frozen=True, kw_only=True)
class Version:
    """A value that a key has or had."""

    version: int
    """A new number with every write. The numbers have no order."""
    value: JsonValue
    """As JSON."""
    at: datetime
    """When it was written, in UTC, by the clock of the writer."""
    try_number: int
    """The try number of the task that wrote it; 0 if that is not known."""


@runtime_checkable
class Scans(Protocol):
    """A store that knows its keys."""

    def scan(self, prefix: str) -> list[str]:
        """The keys that begin with `prefix`, sorted.

        Args:
            prefix: of the keys; an empty one gives all.
        """
        ...


@runtime_checkable
class ComparesAndSets(Protocol):
    """A store in which a value can be replaced only by those who have seen it."""

    def compare_and_set(self, key: str, expected_version: int, value: JsonValue) -> int | None:
        """Write if the key has that version (0: if there is no such key).

        Args:
            key: of the value.
            expected_version: the version that the key must have; 0: there must be no such key.
            value: JSON, not None.

        Returns:
            The new version; None if the key has another version, so that nothing was written.
        """
        ...


@runtime_checkable
class KeepsHistory(Protocol):
    """A store that knows the versions of a key."""

    def history(self, key: str) -> Sequence[Version]:
        """The current version and the older ones that were kept, newest first. Empty if there is no value.

        Args:
            key: of the value.
        """
        ...


@runtime_checkable
class PlansCleanup(Protocol):
    """A store that says what a cleanup would do."""

    def plan_cleanup(self) -> Iterator[Judged]:
        """Every row, with the reason why it would be deleted or kept."""
        ...
