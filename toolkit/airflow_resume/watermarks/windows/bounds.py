"""The decision at the beginning of a window: its bounds. Pure and total."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Generic, TypeVar

from airflow_resume.watermarks.cursors.cursor import CursorType

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Bounds(Generic[T]):
    """The bounds of a window, half-open; without an end, everything from the start on is loaded."""

    start: T
    end: T | None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to load."""
        return self.end is not None and not self.start < self.end  # type: ignore[operator]

    def check(self, cursor: CursorType[T], *, done: T | None) -> None:
        """Check that the bounds of a stored record are in order, and that `done` lies between them.

        Raises:
            ValueError: they are not in order.
        """
        known: list[Any] = [each for each in (self.start, done, self.end) if each is not None]
        if cursor.is_ordered and any(later < earlier for earlier, later in pairwise(known)):
            raise ValueError("from, done and to do not come in this order")


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
        at: the mark.
        first: the initial value; a lookback does not go before it. None if nothing was loaded from `at` yet.
        ceiling: rows with this value or a greater one may still change; None if that is not known.
        cursor: of the watermark.
        lookback: how far before the mark the window starts.
        max_span: the longest that a window may be, measured from the mark.
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
