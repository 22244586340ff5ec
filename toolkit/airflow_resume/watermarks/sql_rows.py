"""Rows of a query, read as their columns have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_resume.watermarks.cursor import CursorType
from airflow_resume.watermarks.sql_column import SqlColumn


def reading(cursor: CursorType[Any], columns: Sequence[SqlColumn], *, refuses_text: bool = False) -> CursorType[Any]:
    """The cursor, reading values as the columns have them: naive times in their zone, text, seconds since 1970.

    Args:
        cursor: to read.
        columns: as they are told.
        refuses_text: of numbers, for the query has compared it as text, without an error.
    """
    if all(column.type is None for column in columns) and not refuses_text:
        return cursor
    from airflow_resume.watermarks.column_reader import ColumnReader

    return ColumnReader(cursor, tuple(columns), refuses_text)
