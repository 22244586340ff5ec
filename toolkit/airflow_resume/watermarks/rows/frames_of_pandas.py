"""DataFrames of pandas."""

from __future__ import annotations

import sys
from functools import reduce
from operator import or_
from typing import Any

from airflow_resume.watermarks.rows.columns import Frame, FrameColumn, Meaning, Text, Ticks, Whole, WholeFloats
from airflow_resume.watermarks.rows.frames_of_arrow import arrow_column, as_numpy

NAT = -(2**63)
EXACT_FLOATS = 2**53
"""Below it, floats hold every whole number exactly."""


class PandasFrame(Frame):
    """A DataFrame of pandas."""

    rows = "df.itertuples(index=False)"

    @property
    def size(self) -> int:
        """How many rows it has."""
        return len(self.data)

    def names(self) -> list[Any]:
        """The names of its columns."""
        return list(self.data.columns)

    def has_place(self, name: object) -> bool:  # noqa: ARG002  a number is a name
        """False: pandas finds columns by name only."""
        return False

    def column(self, name: str | int) -> FrameColumn | None:
        """The column, if pandas can compare it."""
        series = self.data[name]
        dtype = series.dtype
        if type(dtype).__name__ == "ArrowDtype":
            return arrow_column(series.array.__arrow_array__(), as_numpy)
        if type(dtype).__name__ == "StringDtype":
            return PandasText(series, Text())
        if dtype.kind == "M":
            unit = str(getattr(dtype, "unit", None) or sys.modules["numpy"].datetime_data(dtype)[0])
            ticks = series.to_numpy(f"datetime64[{unit}]").view("i8")
            return PandasNumbers(ticks, Ticks(unit, is_aware=getattr(dtype, "tz", None) is not None), ticks == NAT)
        if dtype.kind in "iu":
            absent = series.isna().to_numpy()
            numbers = series.to_numpy(getattr(dtype, "numpy_dtype", dtype), na_value=0) if absent.any() else series
            return PandasNumbers(_plain_numpy(numbers), Whole(), absent)
        return self._whole_floats(series) if dtype.kind == "f" else None

    def _whole_floats(self, series: Any) -> FrameColumn | None:
        """Whole numbers that pandas has converted to floats because some are missing; None for other floats."""
        absent = series.isna().to_numpy()
        if not absent.any():
            return None
        floats = _plain_numpy(series.fillna(0.0))
        is_whole = bool((abs(floats) < EXACT_FLOATS).all()) and bool((floats % 1 == 0).all())
        return PandasNumbers(floats, WholeFloats(), absent) if is_whole else None

    def elements(self, name: str | int, mask: Any = None, *, exact: bool = False) -> list[Any]:
        """The elements; Timestamps have all their digits."""
        series = self.data[name]
        series = series if mask is None else series[mask]
        column = None if exact or series.dtype.kind != "M" else self.column(name)
        if not isinstance(column, PandasNumbers):
            return list(series.to_list())
        numbers = column if mask is None else column.taken(mask)
        read = numbers.meaning.read  # faster than Timestamps
        return [None if tick == NAT else read(tick) for tick in numbers.data.tolist()]

    def remedy(self, name: str | int) -> str | None:
        """What to do about floats."""
        if self.data[name].dtype.kind != "f":
            return None
        return (
            f"Read whole numbers as such: dtype={{{name!r}: 'Int64'}} or dtype_backend='numpy_nullable' in read_sql, or"
            f" have the source CAST them."
        )

    def places(self, mask: Any) -> list[int]:
        """The numbers of the mask's rows."""
        return list(mask.nonzero()[0].tolist())

    def mask(self, flags: list[bool]) -> Any:
        """A mask of a flag for each row."""
        return sys.modules["numpy"].array(flags, dtype=bool)

    def count(self, mask: Any) -> int:
        """How many rows a mask has."""
        return int(mask.sum())

    def without(self, masks: list[Any]) -> Any:
        """The frame without these rows: a copy, so that pandas does not warn when the body writes into it."""
        return self.data[~reduce(or_, masks)].copy() if masks else self.data


class PandasNumbers(FrameColumn):
    """Numbers in an array of NumPy, and a mask of those that are missing."""

    def __init__(self, data: Any, meaning: Meaning, absent: Any) -> None:
        super().__init__(data, meaning)
        self._absent = absent
        self._missing = int(absent.sum())

    def missing(self) -> int:
        """How many rows have no number."""
        return self._missing

    def absent(self) -> Any:
        """Which rows have no number."""
        return self._absent

    def present(self) -> Any:
        """Which rows have one."""
        return ~self._absent

    def is_ascending(self) -> bool:
        """Whether each number is at least the one before."""
        there = self._there()
        return bool((there[1:] >= there[:-1]).all())

    def taken(self, mask: Any) -> FrameColumn:
        """The numbers of these rows."""
        return PandasNumbers(self.data[mask], self.meaning, self._absent[mask])

    def _there(self) -> Any:
        return self.data[~self._absent] if self._missing else self.data

    def _extremes(self) -> tuple[Any, Any]:
        there = self._there()
        return (there.min().item(), there.max().item()) if len(there) else (None, None)

    def _at_least(self, element: Any) -> Any:
        return ~self._absent & (self.data >= self.data.dtype.type(element))

    def _below(self, element: Any) -> Any:
        return ~self._absent & (self.data < self.data.dtype.type(element))

    def _between(self, least: Any, most: Any) -> Any:
        return self._at_least(least) & (self.data <= self.data.dtype.type(most))


class PandasText(FrameColumn):
    """Text in a Series."""

    def missing(self) -> int:
        """How many rows have no text."""
        return int(self.absent().sum())

    def absent(self) -> Any:
        """Which rows have no text."""
        return self.data.isna().to_numpy()

    def present(self) -> Any:
        """Which rows have one."""
        return self.data.notna().to_numpy()

    def is_ascending(self) -> bool:
        """Whether each text is at least the one before."""
        return bool(self.data.dropna().is_monotonic_increasing)

    def taken(self, mask: Any) -> FrameColumn:
        """The texts of these rows."""
        return PandasText(self.data[mask], self.meaning)

    def _extremes(self) -> tuple[Any, Any]:
        there = self.data.dropna()
        return (there.min(), there.max()) if len(there) else (None, None)

    def _at_least(self, element: Any) -> Any:
        return (self.data >= element).to_numpy(bool, na_value=False)

    def _below(self, element: Any) -> Any:
        return (self.data < element).to_numpy(bool, na_value=False)

    def _between(self, least: Any, most: Any) -> Any:
        return self._at_least(least) & (self.data <= most).to_numpy(bool, na_value=False)


def _plain_numpy(numbers: Any) -> Any:
    return sys.modules["numpy"].asarray(numbers)
