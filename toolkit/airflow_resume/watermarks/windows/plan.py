"""What a window is to load: fixed before the body runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic

from typing_extensions import TypeVar

from airflow_resume.watermarks.commit import Advance
from airflow_resume.watermarks.cursors.cursor import CursorType
from airflow_resume.watermarks.marks.mark_record import Pending, WindowRecord, WindowState
from airflow_resume.watermarks.rows.row_values import THE_ONE
from airflow_resume.watermarks.rows.rules import Future, Nulls
from airflow_resume.watermarks.sql.column import Columns, SqlColumn, columns_of, reading

T = TypeVar("T", default=Any)


@dataclass(frozen=True, kw_only=True)
class WindowPlan(Generic[T]):
    """What a window is to load, and what moves the mark when it is loaded. It does not change while the body runs.

    Args:
        cursor: of the watermark.
        start, end: half-open, in the cursor's zone; without an end, load all rows from the start on.
        at: where the mark stands. With a lookback the window starts before it.
        begun: the record of the window when it began; None when there is nothing to load.
        reset: who set the mark to `at`, if nothing was loaded from there yet.
        advance, nulls, future: as in `watermark`.
        sql: the type of the column or columns in the source's database.
        label: of the watermark; no other watermark has the same.
    """

    cursor: CursorType[T]
    start: T
    end: T | None
    at: T
    begun: WindowRecord | None
    reset: Pending | None = None
    advance: Advance = "window"
    nulls: Nulls | None = None
    future: Future = "exclude"
    sql: Columns = None
    label: str = ""

    def narrowed(self, start: T, end: T) -> WindowPlan[T]:
        """The plan of a slice."""
        return replace(self, start=start, end=end)

    @property
    def is_replay(self) -> bool:
        """Whether this run has committed the window before."""
        return self.begun is not None and self.begun.state is WindowState.COMMITTED

    @property
    def follows_end(self) -> bool:
        """Whether the mark moves to the window's end, and not to the rows that were seen."""
        return self.advance == "window" or self.settles

    @property
    def settles(self) -> bool:
        """Whether nothing before the end changes any more."""
        return self.begun is not None and self.begun.settles

    @cached_property
    def known(self) -> frozenset[str]:
        """The ties of the rows at the mark that are loaded already."""
        return frozenset(() if self.begun is None else self.begun.ties or ())

    @property
    def begins_after_start(self) -> bool:
        """Whether the row at the start is loaded already, as with an id that is unique."""
        return self.start == self.at and THE_ONE in self.known

    @cached_property
    def limit(self) -> T | None:
        """The value beyond which the mark does not move, apart from the end; None: there is no limit.

        Raises:
            CursorTypeError: the record has a value that is not of the cursor's type.
        """
        if self.begun is None:
            return None
        limit = self.begun.limit
        if self.is_replay and self.end is None:
            # A cleared run moves the mark no further than it did before, even if there are more rows by now.
            limit = self.cursor.dump(self.at) if self.begun.reached is None else self.begun.reached
        return None if limit is None else self.cursor.parse(limit, what="the limit")

    @cached_property
    def columns(self) -> tuple[SqlColumn, ...]:
        """The type of each column of the cursor in the source's database."""
        return columns_of(self.sql, self.cursor)

    @cached_property
    def reader(self) -> CursorType[T]:
        """The cursor, reading values as the source's columns have them."""
        return reading(self.cursor, self.columns)
