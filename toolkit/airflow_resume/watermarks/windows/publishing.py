"""What a run publishes for consumers of the asset: exactly what was loaded, which may be less than the window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from airflow_resume.watermarks.cursors.cursor import CursorType
from airflow_resume.watermarks.marks.journal import ALSO
from airflow_resume.watermarks.marks.mark_record import WindowRecord
from airflow_resume.watermarks.marks.outbox import PublishedWindow, event_lines
from airflow_resume.watermarks.windows.window import Window

if TYPE_CHECKING:
    from pydantic import JsonValue

    from airflow_resume.attempt import Scope
    from airflow_resume.watermarks.commit import Outcome
    from airflow_resume.watermarks.marks.mark_record import MarkRecord
    from airflow_resume.watermarks.marks.outbox import Outbox
    from airflow_resume.watermarks.options import Options

T = TypeVar("T")


def published_window(
    window: Window[T], record: WindowRecord, end: T | None, cursor: CursorType[T]
) -> PublishedWindow | None:
    """The part of the window that was loaded, up to `end`; None: nothing was loaded."""
    if end is None or window.progress.is_sample:
        return None
    first: Any = cursor.parse(record.start, what="the window's start")
    is_after, is_upto = window.plan.begins_after_start, window.progress.includes(end)
    last: Any = end
    is_nothing = first == last if not cursor.is_ordered else not first < last
    if is_nothing and (not cursor.is_ordered or first != last or is_after or not is_upto):
        return None
    may_begin_before = record.at not in (None, record.start) and cursor.is_ordered
    begins_before_mark = may_begin_before and first < cursor.parse(record.at, what="where the mark stood")
    return PublishedWindow(
        start=record.start,
        end=cursor.dump(end),
        bounds=f"{'(' if is_after else '['}{']' if is_upto else ')'}",
        new_from=record.at if begins_before_mark else None,
    )


def event_line(
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
        outbox: the windows to publish. The last one, of this run, is written into the line itself, as in version 0.1.
        mark: as it is now; None: not known.
        options: of the watermark.
        scope: of the task instance.
        outcome: of its window, if it has loaded nothing.
        partition: of the asset.
    """
    *others, own = event_lines(outbox, scope) or [{}]
    line: dict[str, JsonValue] = {
        "name": options.name,
        "asset": options.asset.name,
        "at": None if mark is None else mark.at,
        "outcome": outcome.value,
        "definition": dict(options.cursor.definition()),
        **own,
    }
    if others:
        line[ALSO] = list(others)
    if partition is not None:
        line["partition"] = partition
    if mark is not None and mark.first is not None:
        line["first"] = mark.first
    return line
