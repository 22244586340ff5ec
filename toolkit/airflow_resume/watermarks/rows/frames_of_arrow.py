"""Tables and record batches of Arrow."""

from __future__ import annotations

import importlib
import sys
from functools import reduce
from typing import Any

from airflow_resume.watermarks.rows.columns import Days, Digits, Frame, FrameColumn, Meaning, Text, Ticks, Whole


class ArrowFrame(Frame):
    """A Table or a RecordBatch of Arrow."""

    rows = "table.to_pylist()"

    @property
    def size(self) -> int:
        """How many rows it has."""
        return int(self.data.num_rows)

    def names(self) -> list[Any]:
        """The names of its columns."""
        return list(self.data.schema.names)

    def column(self, name: str | int) -> FrameColumn | None:
        """The column, if Arrow can compare it."""
        return arrow_column(self.data.column(name))

    def elements(self, name: str | int, mask: Any = None, *, exact: bool = False) -> list[Any]:
        """The elements: times in nanoseconds are rounded down, or with `exact` given as numbers."""
        column = self.data.column(name)
        column = column if mask is None else column.filter(mask)
        if getattr(column.type, "unit", None) == "ns" and hasattr(column.type, "tz"):
            if exact:
                return list(column.cast("int64").to_pylist())
            arrow = sys.modules["pyarrow"]
            column = _compute().floor_temporal(column, unit="microsecond").cast(arrow.timestamp("us", column.type.tz))
        return list(column.to_pylist())

    def places(self, mask: Any) -> list[int]:
        """The numbers of the mask's rows."""
        return list(_compute().indices_nonzero(mask).to_pylist())

    def mask(self, flags: list[bool]) -> Any:
        """A mask of a flag for each row."""
        return sys.modules["pyarrow"].array(flags, "bool")

    def count(self, mask: Any) -> int:
        """How many rows a mask has."""
        return int(_compute().sum(mask).as_py() or 0)

    def without(self, masks: list[Any]) -> Any:
        """The rows that are in none of these masks."""
        compute = _compute()
        return self.data.filter(compute.invert(reduce(compute.or_, masks))) if masks else self.data


class ArrowColumn(FrameColumn):
    """An Array or a ChunkedArray of Arrow.

    Args:
        to_mask: converts a mask of Arrow to one of the frame's library.
    """

    def __init__(self, data: Any, meaning: Meaning, to_mask: Any) -> None:
        super().__init__(data, meaning)
        self._to_mask = to_mask

    def missing(self) -> int:
        """How many rows have no element."""
        return int(self.data.null_count)

    def absent(self) -> Any:
        """Which rows have no element."""
        return self._to_mask(self.data.is_null())

    def present(self) -> Any:
        """Which rows have one."""
        return self._to_mask(self.data.is_valid())

    def is_ascending(self) -> bool:
        """Whether each element is at least the one before."""
        there = self.data.drop_null()
        pairs = _compute().greater_equal(there.slice(1), there.slice(0, max(len(there) - 1, 0)))
        return bool(_compute().all(pairs, min_count=0).as_py())

    def taken(self, mask: Any) -> FrameColumn:
        """The elements of these rows."""
        mask = sys.modules["pyarrow"].array(mask) if self._to_mask is as_numpy else mask
        return ArrowColumn(self.data.filter(mask), self.meaning, self._to_mask)

    def _extremes(self) -> tuple[Any, Any]:
        found = _compute().min_max(self.data).as_py()
        return found["min"], found["max"]

    def _at_least(self, element: Any) -> Any:
        return self._compared("greater_equal", element)

    def _below(self, element: Any) -> Any:
        return self._compared("less", element)

    def _between(self, least: Any, most: Any) -> Any:
        one, other = self._at_least(least), self._compared("less_equal", most)
        return one & other if self._to_mask is as_numpy else _compute().and_(one, other)

    def _compared(self, how: str, element: Any) -> Any:
        scalar = sys.modules["pyarrow"].scalar(element, self.data.type)
        found = getattr(_compute(), how)(self.data, scalar)
        return self._to_mask(found.fill_null(False))


def arrow_column(data: Any, to_mask: Any = lambda mask: mask) -> FrameColumn | None:
    """The column, if Arrow can compare its elements exactly; else None."""
    types, kind = sys.modules["pyarrow"].types, data.type
    if types.is_timestamp(kind):
        return ArrowColumn(data.cast("int64"), Ticks(kind.unit, is_aware=kind.tz is not None), to_mask)
    if types.is_date(kind):
        return ArrowColumn(data.cast("date32").cast("int32"), Days(), to_mask)
    if types.is_string(kind) or types.is_large_string(kind):
        return ArrowColumn(data, Text(), to_mask)
    if types.is_decimal(kind):
        return ArrowColumn(data, Digits(kind.scale), to_mask)
    return ArrowColumn(data, Whole(), to_mask) if types.is_integer(kind) else None


def as_numpy(mask: Any) -> Any:
    """A mask of Arrow as one of NumPy, for pandas."""
    return mask.to_numpy(zero_copy_only=False).astype(bool)


def _compute() -> Any:
    return importlib.import_module("pyarrow.compute")
