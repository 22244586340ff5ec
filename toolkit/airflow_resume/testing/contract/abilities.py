"""What a store can do besides keeping values, and how that is detected."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import Enum
from typing import Any, TypeAlias, TypeVar

Test = TypeVar("Test", bound=Callable[..., Any])

Fixture: TypeAlias = Callable[[str], Any]
"""Gives the value of a fixture by its name. Nothing is opened before that."""


class Ability(Enum):
    """An optional ability of a store; the value is its name in reports."""

    SCOPES = "several scopes"
    """Keeps several scopes apart."""
    DURABLE = "durable over processes"
    """Can be opened again, by another process."""
    RETENTION = "retention"
    """Keeps a value for a given time."""
    CLEANUP = "cleanup"
    """Deletes what has expired."""
    COMPARE_AND_SET = "compare_and_set"
    """Replaces a value only where it has a given version."""
    SCAN = "scan"
    """Lists its keys."""

    @property
    def how(self) -> str:
        """How to supply it."""
        return _HOW[self]

    def found(self, fixture: Fixture) -> bool:
        """Whether the store has it.

        Args:
            fixture: gives the value of a fixture by its name.
        """
        return _FOUND[self](fixture)


def needs(*abilities: Ability) -> Callable[[Test], Test]:
    """Mark a test that is skipped where one of the abilities is missing."""

    def mark(test: Test) -> Test:
        test.needs = abilities  # type: ignore[attr-defined]
        return test

    return mark


_HOW = {
    Ability.SCOPES: "supply a fixture `backend` or `open_backend`",
    Ability.DURABLE: "supply a fixture `open_store` or `open_backend`, a function that opens the same place again",
    Ability.RETENTION: "give the store's `set` a parameter `retention`",
    Ability.CLEANUP: "give the store or the backend a method `cleanup`, or supply a fixture `cleanup`",
    Ability.COMPARE_AND_SET: "give the store a method `compare_and_set(key, expected_version, value)`",
    Ability.SCAN: "give the store a method `scan(prefix)`",
}


_FOUND: dict[Ability, Callable[[Fixture], bool]] = {
    Ability.SCOPES: lambda fixture: fixture("backend") is not None,
    Ability.DURABLE: lambda fixture: fixture("open_store") is not None,
    Ability.RETENTION: lambda fixture: "retention" in inspect.signature(fixture("store").set).parameters,
    Ability.CLEANUP: lambda fixture: fixture("cleanup") is not None,
    Ability.COMPARE_AND_SET: lambda fixture: hasattr(fixture("store"), "compare_and_set"),
    Ability.SCAN: lambda fixture: hasattr(fixture("store"), "scan"),
}
