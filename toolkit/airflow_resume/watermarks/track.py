"""Rows on their way through a window: counted, and their cursor values watched.

`tracked` is the one place of this package that runs once a row, so it is written for speed: one test tells a row that
needs nothing from one that does. What it found is put together when the rows are at their end, or the consumer is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_resume.watermarks.frames import frame_of
from airflow_resume.watermarks.rows import THE_ONE, Key, RowT, Unique, reader, tie_reader
from airflow_resume.watermarks.rules import Future, Nulls, Order, Rules
from airflow_resume.watermarks.tally import Tally, kept_ties, warn_of_ties

if TYPE_CHECKING:
    from airflow_resume.watermarks.columns import Frame

__all__ = ["THE_ONE", "Future", "Key", "Nulls", "Tally", "Tracker", "Unique", "check_rows", "kept_ties", "warn_of_ties"]

_LEFT_OUT = object()


def check_rows(rows: object) -> None:
    """See that these can be gone through row by row.

    Raises:
        TypeError: they cannot; with what to hand over instead.
    """
    name = type(rows).__name__
    if name == "LazyFrame":
        remedy = "It has no rows yet: give rows.collect()."
    elif name == "DataFrame":
        remedy = "Give one of pandas or polars, or a Table of Arrow, such as rows.to_pandas(), or the rows one by one."
    elif hasattr(rows, "__iter__") or hasattr(rows, "__getitem__"):
        return
    elif hasattr(rows, "__aiter__"):
        remedy = "Read the rows first: [row async for row in rows]."
    elif hasattr(rows, "to_batches"):
        remedy = "Give its batches: rows.to_batches()."
    elif hasattr(rows, "__arrow_c_stream__"):
        remedy = "Make a Table of it: pyarrow.table(rows)."
    else:
        remedy = "Give a list or an iterator of rows, or a DataFrame."
    raise TypeError(f"window.track() cannot go through the rows of a {type(rows).__module__}.{name}.\n{remedy}")


@dataclass(frozen=True, kw_only=True)
class Tracker(Rules):
    """How rows are watched, one by one or frame by frame."""

    def tracked(
        self,
        rows: Iterable[RowT],
        key: Key[RowT],
        tally: Tally,
        *,
        unique: Unique[RowT] = None,
        version: Key[RowT] | None = None,
        ordered: bool = False,
    ) -> Iterator[RowT]:
        """The rows, or the frames, each watched as it passes.

        Raises:
            CursorColumnError, CursorTypeError, NullCursorError, FutureRowError, UnsortedRowsError: at the row.
            ValueError: a version without unique.
        """
        # No generator itself: each that stands between the rows and the body costs as much as all it does for a row.
        is_simple = unique is None and version is None and not ordered
        # Where the mark is at the window's end or after it, as in a backfill, a value at the mark is in the future.
        if is_simple and isinstance(key, (str, int)) and (self.end is None or self.at < self.end):
            return self._fast(rows, key, tally)
        tie_reader(unique, version)  # at the call, not at the first row
        return self._careful(rows, key, tally, unique=unique, version=version, ordered=ordered)

    def framed(
        self, frame: Frame, key: Any, tally: Tally, *, unique: Any = None, version: Any = None, ordered: bool = False
    ) -> Any:
        """The library's frame with the rows that the body gets, watched.

        Raises:
            CursorColumnError, CursorTypeError, NullCursorError, FutureRowError, UnsortedRowsError: as for rows.
            TypeError: a function of a row is given. ValueError: a version without unique.
        """
        from airflow_resume.watermarks.frame_watch import watched  # of what few watermarks have, when one comes

        order = Order() if ordered else None
        return watched(self, frame, key, tally, unique=unique, version=version, order=order)

    def _fast(self, rows: Iterable[RowT], key: str | int, tally: Tally) -> Iterator[RowT]:
        """Rows whose value has the cursor's own type and lies in the window cost two comparisons.

        Times of one zone are compared by the clock on its walls, so in the hour that a zone has twice the greatest
        value may be found too low: its rows are read again then, and none is skipped.
        """
        kind, at, end = self.cursor.plain, self.at, self.end
        key_of: Any = reader(key)
        top, count = at, 0
        try:
            for row in rows:
                try:
                    value = row[key]  # type: ignore[index]
                    if value.__class__ is not kind:
                        is_plain = False
                    elif value > top:  # so it is not before the mark either
                        is_plain = end is None or value < end
                        if is_plain:
                            top = value
                    else:
                        is_plain = value >= at
                except (TypeError, ValueError, LookupError, ArithmeticError):
                    is_plain = False
                if is_plain:
                    count += 1
                    yield row
                elif (passed := self._looked_at(row, key, key_of, tally)) is not _LEFT_OUT:
                    yield passed
        finally:
            tally.rows += count
            if count:
                tally.see(self.cursor.parse(top, what=f"the greatest {key!r}"))

    def _looked_at(self, row: RowT, key: str | int, key_of: Callable[[RowT], Any], tally: Tally) -> Any:
        frame = frame_of(row)
        if frame is not None:
            return self.framed(frame, key, tally)
        return row if self.admits(row, key_of, None, tally) else _LEFT_OUT

    def _careful(
        self,
        rows: Iterable[RowT],
        key: Key[RowT],
        tally: Tally,
        *,
        unique: Unique[RowT],
        version: Key[RowT] | None,
        ordered: bool,
    ) -> Iterator[RowT]:
        from airflow_resume.watermarks.frame_watch import watched

        key_of, unique_of = reader(key), tie_reader(unique, version, key=key)
        order = Order() if ordered else None
        row_kind: Any = None
        frame: Frame | None = None
        for row in rows:
            if row.__class__ is not row_kind:
                row_kind, frame = row.__class__, frame_of(row)
            if frame is not None:
                row_kind = None
                yield watched(self, frame, key, tally, unique=unique, version=version, order=order)
                continue
            if order is not None:
                order.check(self.value_of(row, key_of))
            if self.admits(row, key_of, unique_of, tally):
                yield row
