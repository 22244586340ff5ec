"""Rows of a query, read as their columns have them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast
from zoneinfo import ZoneInfo

from airflow_resume.errors import CursorTypeError
from airflow_resume.watermarks.cursor import CursorType
from airflow_resume.watermarks.keysets import KeysetCursor
from airflow_resume.watermarks.sql_column import SqlColumn, parts_of, zone_of


def reading(cursor: CursorType[Any], columns: Sequence[SqlColumn], *, refuses_text: bool = False) -> CursorType[Any]:
    """The cursor, reading values as the columns have them: naive times in their zone, text, seconds since 1970.

    Args:
        cursor: to read.
        columns: as they are told.
        refuses_text: of numbers, for the query has compared it as text, without an error.
    """
    if all(column.type is None for column in columns) and not refuses_text:
        return cursor
    parts = parts_of(cursor)
    reader: Any = copy.copy(cursor)

    def parse(value: object, *, what: str) -> Any:
        if refuses_text:
            _refuse_text(parts, value, what)
        if not isinstance(cursor, KeysetCursor):
            value = _read(cursor, columns[0], value)
        elif isinstance(value, (tuple, list)) and len(value) == len(parts):
            value = tuple(_read(*each) for each in zip(parts, columns, value, strict=True))
        return cursor.parse(value, what=what)

    object.__setattr__(reader, "parse", parse)  # a frozen dataclass, of which this is a copy
    object.__setattr__(reader, "plain", object)  # no value is taken as it is
    return cast("CursorType[Any]", reader)


def _refuse_text(parts: Sequence[CursorType[Any]], value: object, what: str) -> None:
    values = value if len(parts) > 1 and isinstance(value, (tuple, list)) else [value]
    for part, one in zip(parts, values, strict=False):
        if part.type in {"int", "decimal"} and isinstance(one, str):
            raise CursorTypeError(
                f"{what} is text, and SQLite has compared it as text, which puts 10 before 9.",
                'CAST it in the condition: window.sql("CAST(id AS INTEGER)", connection).',
            )


def _read(cursor: CursorType[Any], column: SqlColumn, value: object) -> object:
    if column.type is None:
        return value
    found = column.read(value)
    if cursor.type != "date" or not isinstance(found, datetime):
        return found
    zone = zone_of(cursor) or column.zone
    return (found.astimezone(ZoneInfo(zone)) if zone and found.tzinfo else found).date()
