"""DataFrames of polars."""

from __future__ import annotations

import sys
from functools import reduce
from operator import or_
from typing import Any

from airflow_resume.watermarks.rows.columns import Days, Frame, FrameColumn, Text, Ticks, Whole


class PolarsFrame(Frame):
    """A DataFrame of polars."""

    rows = "df.iter_rows(named=True)"

    @property
    def size(self) -> int:
        """How many rows it has."""
        return int(self.data.height)

    def names(self) -> list[Any]:
        """The names of its columns."""
        return list(self.data.columns)

    def column(self, name: str | int) -> FrameColumn | None:
        """The column, if polars can compare it."""
        series = self._series(name)
        dtype, kind = series.dtype, type(series.dtype).__name__
        if kind == "Datetime":
            return PolarsColumn(series.to_physical(), Ticks(dtype.time_unit, is_aware=dtype.time_zone is not None))
        if kind == "Date":
            return PolarsColumn(series.to_physical(), Days())
        if kind == "String":
            return PolarsColumn(series, Text())
        return PolarsColumn(series, Whole()) if dtype.is_integer() else None

    def _series(self, name: str | int) -> Any:
        return self.data.to_series(name) if isinstance(name, int) else self.data.get_column(name)

    def elements(self, name: str | int, mask: Any = None, *, exact: bool = False) -> list[Any]:
        """The elements; polars itself rounds times down to microseconds."""
        series = self._series(name)
        series = series if mask is None else series.filter(mask)
        return list((series.to_physical() if exact and series.dtype.is_temporal() else series).to_list())

    def places(self, mask: Any) -> list[int]:
        """The numbers of the mask's rows."""
        return list(mask.arg_true().to_list())

    def mask(self, flags: list[bool]) -> Any:
        """A mask of a flag for each row."""
        polars = sys.modules["polars"]
        return polars.Series(flags, dtype=polars.Boolean)

    def count(self, mask: Any) -> int:
        """How many rows a mask has."""
        return int(mask.sum())

    def without(self, masks: list[Any]) -> Any:
        """The rows that are in none of these masks."""
        return self.data.filter(~reduce(or_, masks)) if masks else self.data


class PolarsColumn(FrameColumn):
    """A Series of polars."""

    def missing(self) -> int:
        """How many rows have no element."""
        return int(self.data.null_count())

    def absent(self) -> Any:
        """Which rows have no element."""
        return self.data.is_null()

    def present(self) -> Any:
        """Which rows have one."""
        return self.data.is_not_null()

    def is_ascending(self) -> bool:
        """Whether each element is at least the one before."""
        return bool(self.data.drop_nulls().is_sorted())

    def taken(self, mask: Any) -> FrameColumn:
        """The elements of these rows."""
        return PolarsColumn(self.data.filter(mask), self.meaning)

    def _extremes(self) -> tuple[Any, Any]:
        return self.data.min(), self.data.max()

    def _at_least(self, element: Any) -> Any:
        return (self.data >= element).fill_null(value=False)

    def _below(self, element: Any) -> Any:
        return (self.data < element).fill_null(value=False)

    def _between(self, least: Any, most: Any) -> Any:
        return self._at_least(least) & (self.data <= most).fill_null(value=False)
