"""The rules for which rows the body gets, and what each row means for the mark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from airflow_resume.errors import ColumnError, RowOrderError
from airflow_resume.watermarks.cursors.cursor import CursorType
from airflow_resume.watermarks.cursors.scalars import plain
from airflow_resume.watermarks.rows.row_values import OLD_TIE_DIGITS, column_error
from airflow_resume.watermarks.rows.tally import Tally

RowT = TypeVar("RowT")

Nulls = Literal["raise", "skip", "keep"]
Future = Literal["exclude", "clamp", "fail"]


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The rules for which rows the body gets.

    Args:
        cursor: of the watermark. `at`, `start`, `end`: of the window.
        nulls: what is done with rows without a value; None is "raise". `future`: with rows at the end or after it.
        known: the ties of rows at `at` that are loaded already.
        column: the column that has the value, for errors; None: a function of the row finds the value.
    """

    cursor: CursorType[Any]
    at: Any
    start: Any
    end: Any
    nulls: Nulls | None
    future: Future
    known: frozenset[str] = field(default_factory=frozenset)
    column: str | int | None = None

    def admits(
        self,
        row: RowT,
        key_of: Callable[[RowT], Any],
        unique_of: Callable[[RowT], str | None] | None,
        tally: Tally,
    ) -> bool:
        """Whether the body gets the row; it is added to the tally.

        Raises:
            ColumnError, CursorTypeError, RowOrderError: as the rules say.
        """
        value = self.value_of(row, key_of)
        if value is None:
            keeps = self.keeps_nulls(1, str(row))
            tally.nulls += 1
            tally.rows += keeps
            return keeps
        if self.end is not None and not value < self.end:
            keeps = self.keeps_future(1, value)
            tally.future += 1
            if keeps:
                tally.rows += 1
                tally.see(self.end)
            return keeps
        tie = None if unique_of is None or value < self.at else unique_of(row)
        if value == self.at and self.knows(tie):
            tally.known += 1
            return False
        tally.rows += 1
        tally.late += value < self.at
        # A row without a unique value is not among the known ones: it alone is delivered again.
        tally.see(value, None if unique_of is None or value < self.at else set() if tie is None else {tie})
        return True

    def value_of(self, row: RowT, key_of: Callable[[RowT], Any]) -> Any:
        """The row's value as the cursor reads it; None if it has none.

        Raises:
            ColumnError: there is no such column. CursorTypeError: its value is not of the cursor's type.
        """
        try:
            found = plain(key_of(row))
        except (LookupError, AttributeError, TypeError) as error:
            raise column_error(row, error, self.column) from error
        return None if found is None else self.cursor.parse_row(found, what="the cursor value of a row")

    def knows(self, tie: str | None) -> bool:
        """Whether a row at the mark was loaded before."""
        return tie is not None and (tie in self.known or tie[:OLD_TIE_DIGITS] in self.known)

    def keeps_nulls(self, count: int, example: str) -> bool:
        """Whether rows without a value are delivered.

        Raises:
            ColumnError: they are an error.
        """
        if self.nulls in {"skip", "keep"}:
            return self.nulls == "keep"
        which = "A row has" if count == 1 else f"{count} rows have"
        raise ColumnError(
            f"{which} no cursor value: {example[:200]}.",
            "Pass over such rows by nulls='skip', or load them in every run by nulls='keep'.",
            column=self.column,
        )

    def keeps_future(self, count: int, value: Any) -> bool:
        """Whether rows at or after the window's end are delivered.

        There are `count` of them, and the last has `value`.

        Raises:
            RowOrderError: they are an error.
        """
        if self.future != "fail":
            return self.future == "clamp"
        which = "A row has" if count == 1 else f"The last of {count} rows has"
        raise RowOrderError(
            f"{which} {value!r}, which is not before the window's end {self.end!r}.",
            "Give the query the window's end as well, or choose future='exclude' (a later run loads it) or"
            " future='clamp' (loaded now and later).",
            value=value,
            limit=self.end,
        )


class RowOrder:
    """Checks that rows come in the order of the cursor."""

    def __init__(self) -> None:
        self._before: Any = None

    def check(self, value: Any) -> None:
        """Check the next value; None is ignored.

        Raises:
            RowOrderError: it belongs before the last one.
        """
        if value is None:
            return
        if self._before is not None and value < self._before:
            raise RowOrderError(
                f"The row with {value!r} comes after one with {self._before!r}, and ordered=True says that it does"
                " not.",
                "Sort the rows by the cursor column, or leave ordered=True out.",
                value=value,
                limit=self._before,
            )
        self._before = value
