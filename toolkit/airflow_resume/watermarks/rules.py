"""Which rows a window delivers, and what each means for the mark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from airflow_resume.errors import CursorColumnError, FutureRowError, NullCursorError, UnsortedRowsError
from airflow_resume.watermarks.cursor import CursorType
from airflow_resume.watermarks.rows import OLD_TIE_DIGITS, columns
from airflow_resume.watermarks.scalars import plain
from airflow_resume.watermarks.tally import Tally

RowT = TypeVar("RowT")

Nulls = Literal["raise", "skip", "keep"]
Future = Literal["exclude", "clamp", "fail"]


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Which rows a window delivers.

    Args:
        cursor: of the watermark. `at`, `start`, `end`: of the window.
        nulls: what becomes of rows without a value; None is "raise". `future`: of those at the end or after it.
        known: rows at `at` that are loaded already, by a hash of what makes each unlike the others.
    """

    cursor: CursorType[Any]
    at: Any
    start: Any
    end: Any
    nulls: Nulls | None
    future: Future
    known: frozenset[str] = field(default_factory=frozenset)

    def admits(
        self,
        row: RowT,
        key_of: Callable[[RowT], Any],
        unique_of: Callable[[RowT], str | None] | None,
        tally: Tally,
    ) -> bool:
        """Whether the body gets the row; what it means for the mark is added up.

        Raises:
            CursorColumnError, CursorTypeError, NullCursorError, FutureRowError: as the rules say.
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
        # A row that nothing makes unique is none of those that are known: it is delivered again, and only it.
        tally.see(value, None if unique_of is None or value < self.at else set() if tie is None else {tie})
        return True

    def value_of(self, row: RowT, key_of: Callable[[RowT], Any]) -> Any:
        """The row's value as the cursor reads it; None where it has none.

        Raises:
            CursorColumnError: there is no such column. CursorTypeError: its value is none of the cursor's.
        """
        try:
            found = plain(key_of(row))
        except (LookupError, AttributeError, TypeError) as error:
            raise column_error(row, error) from error
        return None if found is None else self.cursor.parse_row(found, what="the cursor value of a row")

    def knows(self, tie: str | None) -> bool:
        """Whether a row at the mark was loaded before."""
        return tie is not None and (tie in self.known or tie[:OLD_TIE_DIGITS] in self.known)

    def keeps_nulls(self, count: int, example: str) -> bool:
        """Whether rows without a value are delivered.

        Raises:
            NullCursorError: they are an error.
        """
        if self.nulls in {"skip", "keep"}:
            return self.nulls == "keep"
        which = "A row has" if count == 1 else f"{count} rows have"
        raise NullCursorError(
            f"{which} no cursor value: {example[:200]}.",
            "Pass over such rows by nulls='skip', or load them in every run by nulls='keep'.",
        )

    def keeps_future(self, count: int, value: Any) -> bool:
        """Whether rows at or after the window's end are delivered.

        There are `count` of them, and the last has `value`.

        Raises:
            FutureRowError: they are an error.
        """
        if self.future != "fail":
            return self.future == "clamp"
        which = "A row has" if count == 1 else f"The last of {count} rows has"
        raise FutureRowError(
            f"{which} {value!r}, which is not before the window's end {self.end!r}.",
            "Read with the window's end as well, or choose future='exclude' (a later run loads it) or"
            " future='clamp' (loaded now and later).",
        )


def column_error(row: object, error: Exception) -> CursorColumnError:
    """The error for a row that the value cannot be found in."""
    names = columns(row)
    found = f"A row has no cursor value ({error!r}); it has {', '.join(names) or 'no columns'}."
    if names or not isinstance(row, (tuple, list)):
        remedy = "Select the column, or give track() another name or a function of the row."
    elif len(row) == 2 and type(row[1]).__name__ == "Series":  # noqa: PLR2004
        remedy = "These are the pairs of iterrows(): hand over the DataFrame, df = window.track(df, name)."
    else:
        remedy = (
            "It is a tuple without names: give the position instead, such as track(rows, 0), or a function of the row,"
            " or use the driver's cursor that gives dicts."
        )
    return CursorColumnError(found, remedy)


class Order:
    """Rows that are said to come in the order of the cursor."""

    def __init__(self) -> None:
        self._before: Any = None

    def check(self, value: Any) -> None:
        """The next value; None has no place in the order.

        Raises:
            UnsortedRowsError: it belongs before the last one.
        """
        if value is None:
            return
        if self._before is not None and value < self._before:
            raise UnsortedRowsError(
                f"The row with {value!r} comes after one with {self._before!r}, and ordered=True says that it does"
                " not.",
                "Sort the rows by the cursor column, or leave ordered=True out.",
            )
        self._before = value
