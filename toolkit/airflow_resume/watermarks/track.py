"""Rows on their way through a window: counted, and their cursor values watched.

`tracked` is the one place of this package that runs once a row, so it is written for speed: one test tells a row that
needs nothing from one that does. What it found is put together when the rows are at their end, or the consumer is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar

from airflow_resume import values
from airflow_resume.errors import (
    CursorColumnError,
    FutureRowError,
    NullCursorError,
    UnsortedRowsError,
)
from airflow_resume.watermarks.commit import MAX_TIES
from airflow_resume.watermarks.cursor import CursorType

RowT = TypeVar("RowT")

Nulls = Literal["raise", "skip", "keep"]
Future = Literal["exclude", "clamp", "fail"]

Unique: TypeAlias = "str | Callable[[RowT], Any] | Literal[True] | None"

TIE_DIGITS = 8
THE_ONE = "="
"""The tie of a row whose cursor value is unique by itself."""


@dataclass(kw_only=True)
class Tally:
    """What went through a window.

    Args:
        rows: delivered to the body. `late`: those of them that lie before the mark, as a lookback reads them again.
        nulls: without a cursor value. `future`: at or behind the window's end. `known`: loaded before, so passed over.
        top: the greatest value of a row that counts.
        ties: which rows had it, where they can be told apart.
    """

    rows: int = 0
    late: int = 0
    nulls: int = 0
    future: int = 0
    known: int = 0
    top: Any = None
    ties: set[str] | None = None

    def add(self, other: Tally) -> None:
        """What went through a slice."""
        self.rows += other.rows
        self.late += other.late
        self.nulls += other.nulls
        self.future += other.future
        self.known += other.known
        if other.top is not None:
            self.see(other.top, other.ties)

    def see(self, value: Any, ties: set[str] | None = None) -> None:
        """A value was loaded."""
        if self.top is None or value > self.top:
            self.top, self.ties = value, ties
        elif value == self.top:
            self.ties = self.ties | ties if self.ties is not None and ties is not None else None


@dataclass(frozen=True, kw_only=True)
class Tracker:
    """How rows are watched.

    Args:
        cursor: of the watermark. `at`, `start`, `end`: of the window.
        known: rows at `at` that are loaded already, by a hash of what makes each unlike the others.
    """

    cursor: CursorType[Any]
    at: Any
    start: Any
    end: Any
    nulls: Nulls
    future: Future
    known: frozenset[str] = field(default_factory=frozenset)

    def tracked(
        self,
        rows: Iterable[RowT],
        key: str | Callable[[RowT], Any],
        tally: Tally,
        *,
        unique: Unique[RowT] = None,
        ordered: bool = False,
    ) -> Iterator[RowT]:
        """The rows, each watched as it passes.

        Raises:
            CursorColumnError, CursorTypeError, NullCursorError, FutureRowError, UnsortedRowsError: at the row.
        """
        # No generator itself: each that stands between the rows and the body costs as much as all it does for a row.
        if unique is None and not ordered and isinstance(key, str):
            return self._fast(rows, key, tally)
        return self._careful(rows, key, tally, unique=unique, ordered=ordered)

    def _fast(self, rows: Iterable[RowT], key: str, tally: Tally) -> Iterator[RowT]:
        """Rows whose value has the cursor's own type and lies in the window cost two comparisons.

        Times of one zone are compared by the clock on its walls, so in the hour that a zone has twice the greatest
        value may be found too low: its rows are read again then, and none is skipped.
        """
        kind, at, end = self.cursor.plain, self.at, self.end
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
                except (TypeError, LookupError, ArithmeticError):
                    is_plain = False
                if is_plain:
                    count += 1
                    yield row
                elif self._admits(row, _reader(key), None, tally):
                    yield row
        finally:
            tally.rows += count
            if count:
                tally.see(self.cursor.parse(top, what=f"the greatest {key!r}"))

    def _careful(
        self,
        rows: Iterable[RowT],
        key: str | Callable[[RowT], Any],
        tally: Tally,
        *,
        unique: Unique[RowT],
        ordered: bool,
    ) -> Iterator[RowT]:
        key_of, unique_of = _reader(key), _tie_reader(unique)
        before: Any = None
        for row in rows:
            if ordered:
                before = self._in_order(row, key_of, before)
            if self._admits(row, key_of, unique_of, tally):
                yield row

    def _admits(
        self, row: RowT, key_of: Callable[[RowT], Any], unique_of: Callable[[RowT], str] | None, tally: Tally
    ) -> bool:
        """Whether the body gets the row; what it means for the mark is added up."""
        value = self._value_of(row, key_of)
        if value is None:
            return self._admits_null(row, tally)
        if self.end is not None and not value < self.end:
            return self._admits_future(value, tally)
        tie = None if unique_of is None or value < self.at else unique_of(row)
        if value == self.at and tie in self.known:
            tally.known += 1
            return False
        tally.rows += 1
        tally.late += value < self.at
        tally.see(value, None if tie is None else {tie})
        return True

    def _value_of(self, row: RowT, key_of: Callable[[RowT], Any]) -> Any:
        try:
            found = key_of(row)
        except (LookupError, AttributeError, TypeError) as error:
            raise CursorColumnError(
                f"A row has no cursor value ({error!r}); it has {', '.join(_columns(row)) or 'no columns'}.",
                "Select the column, or give track() another name or a function of the row.",
            ) from error
        missing = found is None or (isinstance(found, tuple) and None in found)
        return None if missing else self.cursor.parse_row(found, what="the cursor value of a row")

    def _admits_null(self, row: object, tally: Tally) -> bool:
        tally.nulls += 1
        if self.nulls == "raise":
            raise NullCursorError(
                f"A row has no cursor value: {str(row)[:200]}.",
                "Pass over such rows by nulls='skip', or load them in every run by nulls='keep'.",
            )
        tally.rows += self.nulls == "keep"
        return self.nulls == "keep"

    def _admits_future(self, value: Any, tally: Tally) -> bool:
        tally.future += 1
        if self.future == "fail":
            raise FutureRowError(
                f"A row bears {value!r}, which is not before the window's end {self.end!r}.",
                "Read with the window's end as well, or choose future='exclude' (a later run loads it) or"
                " future='clamp' (loaded now and later).",
            )
        if self.future == "exclude":
            return False
        tally.rows += 1
        tally.see(self.end)
        return True

    def _in_order(self, row: RowT, key_of: Callable[[RowT], Any], before: Any) -> Any:
        value = self._value_of(row, key_of)
        if value is None:
            return before
        if before is not None and value < before:
            raise UnsortedRowsError(
                f"The row with {value!r} comes after one with {before!r}, and ordered=True says that it does not.",
                "Sort the rows by the cursor column, or leave ordered=True out.",
            )
        return value


def _reader(key: str | Callable[[RowT], Any]) -> Callable[[RowT], Any]:
    if callable(key):
        return key

    def read(row: RowT) -> Any:
        try:
            return row[key]  # type: ignore[index]
        except TypeError:
            return getattr(row, key)

    return read


def _columns(row: object) -> list[str]:
    given: Any = row
    names: Any = given.keys() if hasattr(row, "keys") else getattr(row, "_fields", None) or getattr(row, "__dict__", ())
    return [str(name) for name in names]


def _tie_reader(unique: Unique[RowT]) -> Callable[[RowT], str] | None:
    """What tells a row from others of the same cursor value, in a few digits."""
    if unique is None:
        return None
    if unique is True:
        return lambda _: THE_ONE
    read = _reader(unique)
    return lambda row: values.fingerprint(repr(read(row)), length=TIE_DIGITS)


def kept_ties(ties: set[str] | None) -> tuple[str, ...] | None:
    """The ties as they are kept; None when there are too many to tell apart."""
    return None if ties is None or len(ties) > MAX_TIES else tuple(sorted(ties))
