"""The journal: a line about the mark in the asset event of every run that loaded a window.

An event is written atomically with the task's success, and it stays when the asset's state is lost: it is the
evidence that a missing mark is a lost one, the copy it can be recovered from, and what tells consumers which windows
were loaded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import Asset
    from pydantic import JsonValue

    from airflow_resume.attempt import AnyContext

EXTRA_KEY = "watermark"
NEWEST = 100
"""How many events are looked through for a line of ours; others may write events of the same asset."""


def write_entry(context: AnyContext, asset: Asset, name: str, entry: Mapping[str, JsonValue]) -> None:
    """Add the line to the event that this task sends when it succeeds.

    Args:
        context: of the task.
        asset: that was loaded.
        name: of the watermark, with its partition.
        entry: `from`, `to`, `at`, `outcome`, `type`, and `partition` and `origin` where there are such.
    """
    events: Any = context.get("outlet_events")
    if events is not None:
        events[asset].extra.setdefault(EXTRA_KEY, {})[name] = dict(entry)


def last_mark(context: AnyContext, asset: Asset, name: str) -> JsonValue:
    """Where the newest line says that the mark stood; None when no run has ever moved it.

    It asks the supervisor, so it must be called on the channel.
    """
    for event in _newest_events(context, asset):
        entry = entries_of(event).get(name)
        if isinstance(entry, dict) and entry.get("at") is not None:
            found: JsonValue = entry["at"]
            return found
    return None


def entries_of(event: Any) -> dict[str, Any]:
    """The lines of one event, by the name of the watermark."""
    entries = (event.extra or {}).get(EXTRA_KEY)
    return entries if isinstance(entries, dict) else {}


def _newest_events(context: AnyContext, asset: Asset) -> Iterable[Any]:
    events: Any = context.get("inlet_events")
    if events is None or asset not in list(events):
        return []
    found = events[asset]
    if hasattr(found, "ascending"):
        return list(found.ascending(False).limit(NEWEST))
    return list(found)[::-1]


# --- a second copy, with the task ------------------------------------------------------------------------------
# The events of an asset whose URI was changed belong to the asset that it was. XComs of earlier runs are still there:
# of those whose logical date, or for lack of one the date they ran after, is no later than this run's.


def note_with_task(context: AnyContext, key: str, at: JsonValue, when: datetime) -> None:
    """Keep where the mark stands as an XCom of this run. It asks the supervisor."""
    push = getattr(context.get("ti"), "xcom_push", None)
    if push is not None:
        push(key=key, value={"at": at, "when": when.isoformat()})


def noted_with_task(context: AnyContext, asset: Asset, key: str) -> JsonValue:
    """Where an earlier run of this Dag noted last that the mark stood; None where none did. It asks the supervisor."""
    ti: Any = context.get("ti")
    if not hasattr(ti, "xcom_pull"):
        return None
    # Of every map index, as a partition may have had another one, and of every run of before, in no order.
    notes = ti.xcom_pull(task_ids=_writers(context, asset), key=key, include_prior_dates=True)
    newest = max((note for note in notes if isinstance(note, dict)), key=_when, default={})
    found: JsonValue = newest.get("at")
    return found


def _when(note: Mapping[str, Any]) -> str:
    return str(note.get("when", ""))


def _writers(context: AnyContext, asset: Asset) -> list[str]:
    """The tasks of this Dag that may have committed a window: this one or, if it only stages, another one."""
    own: Any = context.get("ti")
    tasks: Iterable[Any] = getattr(context.get("dag"), "tasks", ())
    return sorted({own.task_id, *(task.task_id for task in tasks if asset in (task.outlets or ()))})
