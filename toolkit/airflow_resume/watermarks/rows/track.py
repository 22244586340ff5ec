"""Rows in `window.track`: they are counted, and their cursor values are checked.

`Tracker.tracked` is the only place of this package that runs once per row, so it is written for speed: one test finds
the rows that need no further work. The result is added to the tally when the rows, or their consumer, come to an end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_resume.watermarks.rows.frames import frame_of
from airflow_resume.watermarks.rows.row_values import THE_ONE, Key, RowT, Unique, reader, tie_reader
from airflow_resume.watermarks.rows.rules import Future, Nulls, RowOrder, Rules
from airflow_resume.watermarks.rows.tally import Tally, kept_ties, warn_of_ties

if TYPE_CHECKING:
    from airflow_resume.watermarks.rows.columns import Frame

__all__ = ["THE_ONE", "Future", "Key", "Nulls", "Tally", "Tracker", "Unique", "check_rows", "kept_ties", "warn_of_ties"]

_LEFT_OUT = object()


def check_rows(rows: object) -> None:
    """See that the rows can be iterated.

    Raises:
        TypeError: they cannot; the message says what to give instead.
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


class CountedRows:
    """Rows, or frames of rows, counted as they are read."""

    def __init__(self, rows: Iterable[Any]) -> None:
        self._rows = rows
        self.count = 0

    def __iter__(self) -> Iterator[Any]:
        for row in self._rows:
            frame = frame_of(row)
            self.count += 1 if frame is None else frame.size
            yield row


@dataclass(frozen=True, kw_only=True)
class Tracker(Rules):
    """Counts and checks rows, one by one or frame by frame."""

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
        """The rows, or the frames, each checked when it is read.

        Raises:
            ColumnError, CursorTypeError, RowOrderError: at the row.
            ValueError: a version without unique.
        """
        # This is not a generator itself: one more between the rows and the body would cost as much as the checks.
        is_simple = unique is None and version is None and not ordered
        # If the mark is at the window's end or after it, as in a backfill, a value at the mark is a future one.
        if is_simple and isinstance(key, (str, int)) and (self.end is None or self.at < self.end):
            return self._fast(rows, key, tally)
        tie_reader(unique, version)  # raises at the call, and not at the first row
        return self._careful(rows, key, tally, unique=unique, version=version, ordered=ordered)

    def framed(
        self, frame: Frame, key: Any, tally: Tally, *, unique: Any = None, version: Any = None, ordered: bool = False
    ) -> Any:
        """The library's frame with the rows that the body gets, checked.

        Raises:
            ColumnError, CursorTypeError, RowOrderError: as for rows.
            TypeError: a function of a row is given. ValueError: a version without unique.
        """
        from airflow_resume.watermarks.rows.frame_watch import watched  # few watermarks have frames

        order = RowOrder() if ordered else None
        return watched(self, frame, key, tally, unique=unique, version=version, order=order)

    def _fast(self, rows: Iterable[RowT], key: str | int, tally: Tally) -> Iterator[RowT]:
        """Rows whose value has the cursor's own type and lies in the window cost two comparisons.

        Python compares times of the same zone by their clocks. So in the hour that comes twice, the greatest value may
        be found too low: rows are then read again, and none is skipped.
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
        from airflow_resume.watermarks.rows.frame_watch import watched

        key_of, unique_of = reader(key), tie_reader(unique, version, key=key)
        order = RowOrder() if ordered else None
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
