"""Reads the values of a query's rows for a cursor, by the types of their columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_resume.errors import CursorTypeError
from airflow_resume.watermarks.cursors.cursor import CursorType
from airflow_resume.watermarks.cursors.keysets import KeysetCursor
from airflow_resume.watermarks.sql.bound_values import value_of
from airflow_resume.watermarks.sql.column import SqlColumn, parts_of

if TYPE_CHECKING:
    from pydantic import JsonValue


@dataclass(frozen=True)
class ColumnReader(CursorType[Any]):
    """Reads values of columns for a cursor. Every value is parsed, so `plain` is `object`.

    Args:
        cursor: of the watermark.
        columns: one for each part of the cursor.
        refuses_text: whether to refuse text where the cursor has numbers.
        checks_form: whether to refuse text in another form than its column was said to have.
    """

    type: ClassVar[str] = "column"

    cursor: CursorType[Any]
    columns: tuple[SqlColumn, ...]
    refuses_text: bool
    checks_form: bool

    def parse(self, value: object, *, what: str) -> Any:
        """The cursor's value.

        Raises:
            CursorTypeError: it is not a value of the cursor, is text where the cursor has numbers, or is text in
                another form than the column was said to have.
        """
        return self.cursor.parse(self._read(value, what), what=what)

    def parse_row(self, value: object, *, what: str) -> Any:
        """As `parse`, of all columns.

        Raises:
            CursorTypeError: it is not a value of the cursor, is text where the cursor has numbers, or is text in
                another form than the column was said to have.
        """
        return self.cursor.parse_row(self._read(value, what), what=what)

    def dump(self, value: Any) -> JsonValue:
        """As the cursor keeps it."""
        return self.cursor.dump(value)

    def _read(self, value: object, what: str) -> object:
        parts, is_keyset = parts_of(self.cursor), isinstance(self.cursor, KeysetCursor)
        values = value if is_keyset and isinstance(value, (tuple, list)) else [value]
        for column, one in zip(self.columns, values, strict=False) if self.checks_form else ():
            if column.form is not None and isinstance(one, str) and not column.form.fits(one):
                raise CursorTypeError(
                    f"{what} is {one!r}, and has another form than like={column.like!r}: the query has compared it"
                    " wrongly.",
                    f'Say which form the column has: SqlColumn("text", like={one!r}). If it has several forms, CAST it'
                    " in the query.",
                    what=what,
                    type_name="text",
                )
        if self.refuses_text:
            for part, one in zip(parts, values, strict=False):
                if part.sql_values in {"whole numbers", "decimals"} and isinstance(one, str):
                    raise CursorTypeError(
                        f"{what} is text, and SQLite has compared it as text, which puts 10 before 9.",
                        'CAST it in the condition: window.sql("CAST(id AS INTEGER)", connection).',
                        what=what,
                        type_name="text",
                    )
        if not is_keyset:
            return value_of(self.cursor, self.columns[0], value)
        if isinstance(value, (tuple, list)):  # a bound may have the first ones alone
            return (*map(value_of, parts, self.columns, value), *value[len(parts) :])
        return value
