"""The decision at the beginning of a window: its bounds. Pure and total."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from airflow_resume.watermarks.cursor import CursorType

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Bounds(Generic[T]):
    """From `start` on, up to `end` and without it; no end: whatever is there."""

    start: T
    end: T | None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to load."""
        return self.end is not None and not self.start < self.end  # type: ignore[operator]


def decide_bounds(
    *,
    at: T,
    first: T | None,
    ceiling: T | None,
    cursor: CursorType[T],
    lookback: Any = None,
    max_span: Any = None,
) -> Bounds[T]:
    """The bounds of a new window.

    Args:
        at: where the mark stands.
        first: the initial value, before which a lookback does not go; None where nothing was loaded from `at` yet.
        ceiling: what lies at it or beyond may still change; None where that is not known.
        cursor: knows how to count.
        lookback: how far before the mark the window starts.
        max_span: how long it may be from the mark on.
    """
    end: Any = ceiling
    mark: Any = at
    if end is not None and not mark < end:
        return Bounds(start=at, end=at)
    if max_span is not None:
        furthest: Any = cursor.step(at, max_span)
        end = furthest if end is None else min(end, furthest)
    if lookback is None or first is None:
        return Bounds(start=at, end=end)
    # A lookback widens what is read. It never goes before the first value, nor after the mark.
    earlier: Any = cursor.minus(at, lookback)
    return Bounds(start=min(mark, max(earlier, first)), end=end)
