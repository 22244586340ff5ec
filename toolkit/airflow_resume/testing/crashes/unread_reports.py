"""Reports with findings that nobody has read: with `find_all`, a test that does not read them would pass."""

from __future__ import annotations

from typing import Any

_MOST = 100
_UNREAD: dict[int, TrackedReport] = {}
"""Reports by their ids."""


class TrackedReport:
    """A report that knows whether its `findings` were read. Showing the report does not count as reading."""

    def __post_init__(self) -> None:
        if object.__getattribute__(self, "findings"):
            _UNREAD[id(self)] = self
            for oldest in list(_UNREAD)[:-_MOST]:  # outside of pytest nobody takes them
                del _UNREAD[oldest]

    def __getattribute__(self, name: str) -> Any:
        if name == "findings":
            _UNREAD.pop(id(self), None)
        return object.__getattribute__(self, name)

    @property
    def shown_findings(self) -> list[Any]:
        """Its findings, for code that only shows them."""
        found: list[Any] = object.__getattribute__(self, "findings")
        return found


def take_unread() -> list[TrackedReport]:
    """The reports since the last call that nobody has read."""
    found = list(_UNREAD.values())
    _UNREAD.clear()
    return found
