"""Values of a query's rows, read for a cursor as their columns have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_resume.errors import CursorTypeError
from airflow_resume.watermarks.cursor import CursorType
from airflow_resume.watermarks.keysets import KeysetCursor
from airflow_resume.watermarks.sql_bounds import value_of
from airflow_resume.watermarks.sql_column import SqlColumn, parts_of

if TYPE_CHECKING:
    from pydantic import JsonValue


@dataclass(frozen=True)
class ColumnReader(CursorType[Any]):
    """Reads values for a cursor; no value is taken as it is, so `plain` is `object`.

    Args:
        cursor: whose values they are.
        columns: one for each part of the cursor.
        refuses_text: for a number.
    """

    type: ClassVar[str] = "column"

    cursor: CursorType[Any]
    columns: tuple[SqlColumn, ...]
    refuses_text: bool

    def parse(self, value: object, *, what: str) -> Any:
        """The cursor's value.

        Raises:
            CursorTypeError: it is none, or text for a number.
        """
        return self.cursor.parse(self._read(value, what), what=what)

    def parse_row(self, value: object, *, what: str) -> Any:
        """As `parse`, of all columns.

        Raises:
            CursorTypeError: it is none, or text for a number.
        """
        return self.cursor.parse_row(self._read(value, what), what=what)

    def dump(self, value: Any) -> JsonValue:
        """As the cursor keeps it."""
        return self.cursor.dump(value)

    def _read(self, value: object, what: str) -> object:
        parts, is_keyset = parts_of(self.cursor), isinstance(self.cursor, KeysetCursor)
        if self.refuses_text:
            _refuse_text(parts, value if is_keyset and isinstance(value, (tuple, list)) else [value], what)
        if not is_keyset:
            return value_of(self.cursor, self.columns[0], value)
        if isinstance(value, (tuple, list)):  # a bound may have the first ones alone
            return (*map(value_of, parts, self.columns, value), *value[len(parts) :])
        return value


def _refuse_text(parts: Sequence[CursorType[Any]], values: Sequence[object], what: str) -> None:
    for part, value in zip(parts, values, strict=False):
        if part.type in {"int", "decimal"} and isinstance(value, str):
            raise CursorTypeError(
                f"{what} is text, and SQLite has compared it as text, which puts 10 before 9.",
                'CAST it in the condition: window.sql("CAST(id AS INTEGER)", connection).',
            )
