"""The journal: a line about the mark in the asset event of every run that moved it.

An event is written atomically with the task's success, and it stays when the asset's state is lost: it is the
evidence that a missing mark is a lost one, and the copy it can be recovered from.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import Asset
    from pydantic import JsonValue

    from airflow_resume.attempt import AnyContext
    from airflow_resume.watermarks.commit import Outcome
    from airflow_resume.watermarks.record import WindowRecord

EXTRA_KEY = "watermark"
NEWEST = 100
"""How many events are looked through for a line of ours; others may write events of the same asset."""


def write_entry(
    context: AnyContext, asset: Asset, name: str, *, window: WindowRecord, at: str, outcome: Outcome
) -> None:
    """Add the line to the event that this task sends when it succeeds."""
    events: Any = context.get("outlet_events")
    if events is None:
        return
    entries = events[asset].extra.setdefault(EXTRA_KEY, {})
    entries[name] = {"from": window.start, "to": window.end, "at": at, "outcome": outcome.value}


def last_entry(context: AnyContext, asset: Asset, name: str) -> dict[str, JsonValue] | None:
    """The newest line, or None when no run has ever moved this mark.

    It asks the supervisor, so it must be called on the channel.
    """
    events: Any = context.get("inlet_events")
    if events is None or asset not in list(events):
        return None
    for event in _newest_first(events[asset]):
        entry = ((event.extra or {}).get(EXTRA_KEY) or {}).get(name)
        if isinstance(entry, dict) and "at" in entry:
            return entry
    return None


def _newest_first(events: Any) -> Iterable[Any]:
    if hasattr(events, "ascending"):
        return list(events.ascending(False).limit(NEWEST))
    return list(events)[::-1]
