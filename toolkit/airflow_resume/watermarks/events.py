"""For consumers of an asset: the windows that were loaded, from the events that triggered the run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_resume.errors import WatermarkError
from airflow_resume.watermarks.commit import Outcome
from airflow_resume.watermarks.cursors.cursor import CursorType, restored_cursor
from airflow_resume.watermarks.marks.journal import ALSO, entries_of

if TYPE_CHECKING:
    from airflow.sdk import Asset
    from pydantic import JsonValue

    from airflow_resume.attempt import AnyContext


_OF_ALL = ("name", "at", "definition", "type", "partition")
"""The members of a line that hold for all its windows."""


@dataclass(frozen=True, kw_only=True)
class LoadedWindow:
    """A window that a run has loaded: `[start, end)`.

    Args:
        name: of the watermark.
        partition: of the asset, as JSON; None: it has none.
        start: where it begins, as the cursor has it.
        end: where it ends, as the cursor has it.
        bounds: which of the two are part of it, as for ranges in SQL: `"[)"`, and `"(]"` where values are unique.
        new_from: rows before this value were loaded earlier too, and read again for a `lookback`; None: there are none.
        at: where the mark stood then.
        outcome: of the commit.
        origin: `"mark"`, `"conf"` or `"backfill"`.
        run_id: of the run that loaded it.
        map_index: of its task instance; -1: the task is not mapped.
    """

    name: str
    start: Any
    end: Any
    at: Any
    outcome: Outcome
    bounds: str = "[)"
    new_from: Any = None
    partition: JsonValue = None
    origin: str = "mark"
    run_id: str = ""
    map_index: int = -1


def windows_from_events(
    context: AnyContext, asset: Asset, *, name: str | None = None, cursor: CursorType[Any] | None = None
) -> list[LoadedWindow]:
    """The windows of `asset` whose loading triggered this run, oldest first.

    Args:
        context: of a task in a Dag that is scheduled on the asset.
        asset: as in the schedule.
        name: of the watermark; by default all.
        cursor: of the watermark; by default the one that the events name. Values of several columns, tokens, and those
            of a cursor type of your own stay JSON without it.

    Raises:
        WatermarkError: the run was not triggered by this asset, or its events are gone.
    """
    triggering: Any = context.get("triggering_asset_events") or {}
    try:
        events = list(triggering[asset])
    except KeyError:
        raise WatermarkError(
            f"This run was not triggered by the asset {asset.name!r}, so there are no windows to process.",
            "Schedule the Dag on it, and trigger it by that.",
            asset=asset.name,
        ) from None

    def when(event: Any) -> float:
        found = getattr(event, "timestamp", None)
        return found.timestamp() if isinstance(found, datetime) else 0.0

    events.sort(key=when)
    windows: list[LoadedWindow] = []
    seen: set[str] = set()
    for event in events:
        for key, line in entries_of(event).items():
            if not isinstance(line, dict) or (name is not None and line.get("name", key) != name):
                continue
            of_all = {name: line[name] for name in _OF_ALL if name in line}
            for entry in [*(line.get(ALSO) or ()), line]:
                if entry.get("to") is None or entry.get("id") in seen:
                    continue  # two runs at once may publish the same window
                if "id" in entry:
                    seen.add(entry["id"])
                windows.append(_loaded(event, key, {**of_all, **entry}, cursor))
    return windows


def _loaded(event: Any, key: str, entry: dict[str, Any], cursor: CursorType[Any] | None) -> LoadedWindow:
    known = cursor or restored_cursor({"type": entry.get("type"), **(entry.get("definition") or {})})

    def parsed(value: JsonValue) -> Any:
        if known is None or value is None:
            return value
        return known.present(known.parse(value, what=f"the event of {key!r}"))

    return LoadedWindow(
        name=entry.get("name", key),
        start=parsed(entry.get("from")),
        end=parsed(entry["to"]),
        bounds=entry.get("bounds", "[)"),
        new_from=parsed(entry.get("new_from")),
        at=parsed(entry.get("at")),
        outcome=Outcome(entry.get("outcome", Outcome.ADVANCED.value)),
        partition=entry.get("partition"),
        origin=entry.get("origin", "mark"),
        run_id=entry.get("run_id", event.source_run_id or ""),
        map_index=entry.get("map_index", -1 if event.source_map_index is None else event.source_map_index),
    )
