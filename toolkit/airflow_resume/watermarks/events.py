"""What a consumer of the asset is to process: the windows that were loaded, from the events that triggered it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_resume.errors import WatermarkError
from airflow_resume.watermarks.commit import Outcome
from airflow_resume.watermarks.cursor import Cursor, CursorType
from airflow_resume.watermarks.journal import ALSO, entries_of

if TYPE_CHECKING:
    from airflow.sdk import Asset
    from pydantic import JsonValue

    from airflow_resume.attempt import AnyContext


@dataclass(frozen=True, kw_only=True)
class LoadedWindow:
    """A window that a run has loaded: `[start, end)`.

    Args:
        name: of the watermark. `partition`: of the asset.
        start, end: as the cursor has them.
        bounds: which of the two are part of it, as for ranges in SQL: `"[)"`, and `"(]"` where values are unique.
        new_from: what lies before it was loaded earlier too, and read again for a `lookback`; None: nothing was.
        at: where the mark stood then.
        outcome: what became of the window.
        origin: `"mark"`, `"conf"` or `"backfill"`.
        run_id: of the run that loaded it, and `map_index` of its task instance.
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
        cursor: of the watermark; by default found out, but for those of several columns, and tokens, which stay JSON.

    Raises:
        WatermarkError: the run was not triggered by this asset, or its events are gone.
    """
    triggering: Any = context.get("triggering_asset_events") or {}
    try:
        events = sorted(triggering[asset], key=_when)
    except KeyError:
        raise WatermarkError(
            f"This run was not triggered by the asset {asset.name!r}, so there are no windows to process.",
            "Schedule the Dag on it, and trigger it by that.",
        ) from None
    windows: list[LoadedWindow] = []
    seen: set[str] = set()
    for event in events:
        for key, line in entries_of(event).items():
            if not isinstance(line, dict) or (name is not None and line.get("name", key) != name):
                continue
            for told in [*(line.get(ALSO) or ()), line]:
                if told.get("to") is None or told.get("id") in seen:
                    continue  # of runs at once two may tell the same
                if "id" in told:
                    seen.add(told["id"])
                windows.append(_loaded(event, key, {**_of_all(line), **told}, cursor))
    return windows


def _of_all(line: dict[str, Any]) -> dict[str, Any]:
    """What is said once for all windows of a line."""
    return {name: line[name] for name in ("name", "at", "definition", "type", "partition") if name in line}


def _when(event: Any) -> float:
    when = getattr(event, "timestamp", None)
    return when.timestamp() if isinstance(when, datetime) else 0.0


def _loaded(event: Any, key: str, entry: dict[str, Any], cursor: CursorType[Any] | None) -> LoadedWindow:
    known = cursor or _cursor_of(entry)

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


def _cursor_of(entry: dict[str, Any]) -> CursorType[Any] | None:
    definition = entry.get("definition") or {}
    kind = definition.get("type", entry.get("type"))
    if kind == "datetime":
        return Cursor.datetime(tz=definition.get("tz", "UTC"))
    simple: dict[str, Any] = {
        "date": Cursor.date,
        "int": Cursor.int,
        "decimal": Cursor.decimal,
        "text": Cursor.text,
        "uuid": Cursor.uuid,
        "binary": Cursor.binary,
    }
    return simple[kind]() if kind in simple else None
