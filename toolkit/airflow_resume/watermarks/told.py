"""What consumers of the asset learn: each window exactly as it was loaded, once, by the event of some run.

An asset event is written when a task succeeds, which is after the mark has moved. Where a task moves the mark and then
fails for good, the mark remembers it as untold, and the next run tells of it together with what it loads itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from airflow_resume.attempt import Scope
from airflow_resume.watermarks.cursor import CursorType
from airflow_resume.watermarks.record import MarkRecord, ToldWindow, Untold, WindowRecord
from airflow_resume.watermarks.track import THE_ONE
from airflow_resume.watermarks.window import Window

T = TypeVar("T")

_WITHOUT_EVENT = {"failed", "upstream_failed", "skipped", "removed"}
"""States of a task instance that has sent no asset event."""


def told_of(window: Window[T], record: WindowRecord, cursor: CursorType[T]) -> ToldWindow | None:
    """What the event of this run tells of: what was loaded, and not what the window was to load; None: nothing."""
    if window.is_sample:
        return None
    end = window.loaded_to()
    if end is not None:
        to, is_upto = cursor.dump(end), window.includes(end)
    elif record.told_from is not None:  # nothing was seen but what an earlier run does not tell of
        to, is_upto = record.start if record.at is None else record.at, THE_ONE in (record.ties or ())
    else:
        return None
    start = record.start if record.told_from is None else record.told_from
    is_after = window.begins_after_start if record.told_from is None else record.told_after
    if start == to and (is_after or not is_upto):
        return None
    return ToldWindow(
        start=start,
        end=to,
        bounds=f"{'(' if is_after else '['}{']' if is_upto else ')'}",
        new_from=None if record.at in (None, record.start) else record.at,
    )


def untold_before(
    mark: MarkRecord, start: T, cursor: CursorType[T], *, state_of: Callable[[Scope], str | None]
) -> Untold | None:
    """What a run loaded that moved the mark and then did not succeed, if a window from `start` on does not cover it.

    Args:
        mark: where the window begins.
        start: of the window.
        cursor: of the watermark.
        state_of: the state of a task instance in Airflow; None where that is not known, and then it has told.
    """
    untold = mark.untold
    if untold is None:
        return None
    first: Any = cursor.parse(untold.start, what="the untold window")
    has_start = untold.after or THE_ONE not in (mark.ties or ())
    if (first == start and has_start) or (cursor.is_ordered and start < first):
        return None
    return untold if state_of(untold.scope) in _WITHOUT_EVENT else None
