"""What consumers of the asset learn: each window exactly as it was loaded, once, by the event of some run.

An asset event is written when a task succeeds, which is after the mark has moved. Where a task moves the mark and then
fails for good, the mark remembers it as untold, and the next run tells of it together with what it loads itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_resume.watermarks.cursor import CursorType
from airflow_resume.watermarks.record import MarkRecord, ToldWindow, Untold, WindowRecord
from airflow_resume.watermarks.track import THE_ONE
from airflow_resume.watermarks.window import Window

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")


def told_of(window: Window[T], record: WindowRecord, cursor: CursorType[T]) -> ToldWindow | None:
    """What the event of this run tells of: what was loaded, and not what the window was to load; None: nothing."""
    reached: Any = None if record.reached is None else cursor.parse(record.reached, what="the slices done")
    end: Any = None if window.is_sample else window.loaded_to()
    if end is not None and (reached is None or not cursor.is_ordered or not end < reached):
        to, is_upto = cursor.dump(end), window.includes(end)
    elif reached is not None:  # nothing was seen but what slices, or an earlier attempt, have loaded
        end, to, is_upto = reached, record.reached, record.reached_whole is True
    elif record.told_from is not None and not window.is_sample:  # nor that, but what an earlier run does not tell of
        end, to, is_upto = window.mark, record.start if record.at is None else record.at, THE_ONE in (record.ties or ())
    else:
        return None
    start = record.start if record.told_from is None else record.told_from
    is_after = window.begins_after_start if record.told_from is None else record.told_after
    first: Any = cursor.parse(start, what="where the line begins")
    if first == end if not cursor.is_ordered else not first < end and not (first == end and is_upto and not is_after):
        return None
    return ToldWindow(
        start=start,
        end=to,
        bounds=f"{'(' if is_after else '['}{']' if is_upto else ')'}",
        new_from=None if record.told_from is not None else _new_from(record),
    )


def _new_from(record: WindowRecord) -> JsonValue:
    return record.new_from if record.at in (None, record.start) or record.new_from is not None else record.at


def untold_before(mark: MarkRecord, *, has_told: Callable[[Untold], bool]) -> Untold | None:
    """What a run loaded that moved the mark, if no asset event tells of it.

    Args:
        mark: where a window begins.
        has_told: whether the event of a task instance is there.
    """
    return None if mark.untold is None or has_told(mark.untold) else mark.untold


def told_beside(untold: Untold | None, mark: MarkRecord, start: T, cursor: CursorType[T]) -> dict[str, Any]:
    """What a window's record keeps of what is untold: the line of the window tells of it as well."""
    if untold is None:
        return {}
    if _lies_before(untold, start, mark, cursor):
        return {"told_from": untold.start, "told_after": untold.after}
    return {"new_from": untold.start}


def _lies_before(untold: Untold, start: T, mark: MarkRecord, cursor: CursorType[T]) -> bool:
    """Whether a window from `start` on does not cover what is untold."""
    first: Any = cursor.parse(untold.start, what="the untold window")
    has_start = untold.after or THE_ONE not in (mark.ties or ())
    return not ((first == start and has_start) or (cursor.is_ordered and start < first))
