"""What a window tells consumers of the asset: exactly what was loaded, and not what it was to load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from airflow_resume.watermarks.cursor import CursorType
from airflow_resume.watermarks.entry import ToldWindow
from airflow_resume.watermarks.journal import ALSO
from airflow_resume.watermarks.outbox import lines_of
from airflow_resume.watermarks.record import WindowRecord
from airflow_resume.watermarks.window import Window

if TYPE_CHECKING:
    from pydantic import JsonValue

    from airflow_resume.attempt import Scope
    from airflow_resume.watermarks.commit import Outcome
    from airflow_resume.watermarks.entry import Outbox
    from airflow_resume.watermarks.options import Options
    from airflow_resume.watermarks.record import MarkRecord

T = TypeVar("T")


def told_of(window: Window[T], record: WindowRecord, end: T | None, cursor: CursorType[T]) -> ToldWindow | None:
    """What was loaded up to `end`; None: nothing."""
    if end is None or window.is_sample:
        return None
    first: Any = cursor.parse(record.start, what="the window's start")
    is_after, is_upto = window.begins_after_start, window.includes(end)
    last: Any = end
    is_nothing = first == last if not cursor.is_ordered else not first < last
    if is_nothing and (not cursor.is_ordered or first != last or is_after or not is_upto):
        return None
    return ToldWindow(
        start=record.start,
        end=cursor.dump(end),
        bounds=f"{'(' if is_after else '['}{']' if is_upto else ')'}",
        new_from=_new_from(record, first, cursor),
    )


def _new_from(record: WindowRecord, start: Any, cursor: CursorType[Any]) -> JsonValue:
    """Where the mark stood, if the window began before it."""
    if record.at in (None, record.start) or not cursor.is_ordered:
        return None
    return record.at if start < cursor.parse(record.at, what="where the mark stood") else None


def line_of(
    outbox: Outbox,
    mark: MarkRecord | None,
    options: Options[T],
    *,
    scope: Scope,
    outcome: Outcome,
    partition: JsonValue,
) -> dict[str, JsonValue]:
    """The line in the asset event of a task instance.

    Args:
        outbox: the windows that it tells. The last one, of this run, stands in the line itself, as in version 0.1.
        mark: as it stands; None: that is not known.
        options: of the watermark.
        scope: of the task instance.
        outcome: of its window, where it has loaded nothing.
        partition: of the asset.
    """
    *also, told = lines_of(outbox, scope) or [{}]
    line: dict[str, JsonValue] = {
        "name": options.name,
        "asset": options.asset.name,
        "at": None if mark is None else mark.at,
        "outcome": outcome.value,
        "definition": dict(options.cursor.definition()),
        **told,
    }
    if also:
        line[ALSO] = list(also)
    if partition is not None:
        line["partition"] = partition
    if mark is not None and mark.first is not None:
        line["first"] = mark.first
    return line
