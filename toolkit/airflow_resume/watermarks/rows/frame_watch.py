"""Frames in `window.track`: rows are counted and chosen by columns, with the same rules as for single rows.

If a library can compare a column exactly, it takes a few passes over the column. Other columns (Python objects, pairs
of columns) are read value by value; the frame's other columns are not touched.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Any

from airflow_resume.errors import ColumnError, CursorTypeError, RowOrderError
from airflow_resume.watermarks.commit import MAX_TIES
from airflow_resume.watermarks.cursors.cursor_type import refusal
from airflow_resume.watermarks.cursors.scalars import is_finer
from airflow_resume.watermarks.rows.columns import Frame, FrameColumn
from airflow_resume.watermarks.rows.row_values import tie_of as tie_of_value
from airflow_resume.watermarks.rows.row_values import tie_reader
from airflow_resume.watermarks.rows.rules import RowOrder, Rules
from airflow_resume.watermarks.rows.tally import Tally

_VALUE, _UNIQUE, _VERSION = 0, 1, 2


def watched(
    rules: Rules,
    frame: Frame,
    key: Any,
    tally: Tally,
    *,
    unique: Any = None,
    version: Any = None,
    order: RowOrder | None = None,
) -> Any:
    """The library's frame with the rows that the body gets; the same object if it gets all.

    `key`, `unique` and `version` are names of columns, or several names. An `order` is kept over several frames.

    Raises:
        ColumnError, CursorTypeError, RowOrderError: as for rows.
        TypeError: a function of a row.
    """
    if not frame.size and not frame.names():  # such as a frame made from an empty list
        return frame.data
    watch = _FrameWatch(rules, frame, tally, key=key, unique=unique, version=version, order=order)
    if not frame.size:
        return frame.data
    column = frame.column(key) if isinstance(key, (str, int)) else None
    by_columns = column is not None and rules.cursor.plain in column.meaning.kinds
    try:
        masks = watch.by_columns(column) if column is not None and by_columns else watch.by_values()
    except CursorTypeError as error:
        remedy = frame.remedy(key) if isinstance(key, (str, int)) else None
        if remedy is None:
            raise
        raise CursorTypeError(error.message, remedy, what=error.what, type_name=error.type_name) from error
    return frame.without(masks)


class _FrameWatch:
    """One frame, for one window."""

    def __init__(
        self, rules: Rules, frame: Frame, tally: Tally, *, key: Any, unique: Any, version: Any, order: RowOrder | None
    ) -> None:
        self._rules, self._frame, self._tally, self._order = rules, frame, tally, order
        self._key, self._version = key, version
        self._unique = None if unique is True else unique
        self._tie_of = tie_reader(
            unique if self._unique is None else itemgetter(_UNIQUE), None if version is None else itemgetter(_VERSION)
        )
        for name, given in (("key", key), ("unique", self._unique), ("version", version)):
            _check_columns(frame, name, given)

    def by_values(self) -> list[Any]:
        """Masks of the rows that the body does not get; each value is read as that of a single row."""
        rules, order, value_of = self._rules, self._order, itemgetter(_VALUE)
        flags = []
        for row in zip(self._elements(self._key), *self._identities(None)[1:], strict=True):
            if order is not None:
                order.check(rules.value_of(row, value_of))
            flags.append(not rules.admits(row, value_of, self._tie_of, self._tally))
        return [self._frame.mask(flags)] if any(flags) else []

    def by_columns(self, column: FrameColumn) -> list[Any]:
        """Masks of the rows that the body does not get; the library compares the column."""
        rules, tally, least = self._rules, self._tally, column.meaning.least
        masks = self._missing(column)
        if column.missing() == self._frame.size:
            return masks
        low, top = (self._read(column, element) for element in column.bounds)
        self._check_order(column, low, top)
        count = self._frame.size - column.missing()
        if rules.end is not None and not top < rules.end:
            masks += self._future(column, top)
            inside = column.below(least(rules.end))
            count = self._count(inside)
            top = self._greatest(column, inside)
        if not count:
            return masks
        before = column.below(least(rules.at if rules.end is None else min(rules.at, rules.end)))
        tally.late += self._count(before)
        known, left = self._known(column)
        count -= len(known)
        tally.known += len(known)
        if known:
            flags = [False] * self._frame.size
            for place in known:
                flags[place] = True
            masks.append(self._frame.mask(flags))
        if known and not left and top == rules.at:
            top = self._greatest(column, before)
        tally.rows += count
        if top is not None:
            is_late = top < rules.at or self._tie_of is None
            ties = left if known and top == rules.at else None if is_late else self._ties(column, self._at(column, top))
            tally.see(top, _kept_apart(ties))
        return masks

    # --- the parts of it --------------------------------------------------------------------------------------

    def _missing(self, column: FrameColumn) -> list[Any]:
        count = column.missing()
        if not count:
            return []
        keeps = self._rules.keeps_nulls(count, f"{self._key!r} is missing")
        self._tally.nulls += count
        self._tally.rows += count if keeps else 0
        return [] if keeps else [column.absent()]

    def _check_order(self, column: FrameColumn, low: Any, high: Any) -> None:
        if self._order is None:
            return
        self._order.check(low)
        if not column.is_ascending():
            raise RowOrderError(
                f"The rows are not in the order of {self._key!r}, and ordered=True says that they are.",
                "Sort the rows by the cursor column, or leave ordered=True out.",
            )
        self._order.check(high)

    def _future(self, column: FrameColumn, top: Any) -> list[Any]:
        mask = column.at_least(column.meaning.least(self._rules.end))
        count = self._count(mask)
        keeps = self._rules.keeps_future(count, top)
        self._tally.future += count
        if not keeps:
            return [mask]
        self._tally.rows += count
        self._tally.see(self._rules.end)
        return []

    def _known(self, column: FrameColumn) -> tuple[list[int], list[str | None]]:
        """The numbers of the rows at the mark that were loaded before, and the ties of the other rows at the mark."""
        rules = self._rules
        if self._tie_of is None or not rules.known or (rules.end is not None and not rules.at < rules.end):
            return [], []
        here = self._at(column, rules.at)
        places = [] if here is None else self._frame.places(here)
        ties = list(zip(places, self._ties(column, here), strict=False))
        known = [place for place, tie in ties if rules.knows(tie)]
        return known, [tie for _, tie in ties if not rules.knows(tie)]

    def _ties(self, column: FrameColumn, mask: Any) -> Iterable[str | None]:
        tie_of: Any = self._tie_of
        if self._unique is None and self._version is None:  # the value itself is unique
            if getattr(column.meaning, "unit", "") != "ns":
                return [tie_of(None)] * self._count(mask)
            values = self._elements(self._key, mask, exact=True)
            return [tie_of_value(value) if is_finer(value) else tie_of(None) for value in values]
        return map(tie_of, zip(*self._identities(mask), strict=True))

    def _identities(self, mask: Any) -> list[list[Any]]:
        """Three lists, of a placeholder for the value, of `unique`, and of `version`, with an item for each row."""
        names = (self._unique, self._version)
        size = self._frame.size if mask is None else self._count(mask)
        found = [[None] * size if name is None else self._elements(name, mask, exact=True) for name in names]
        return [[None] * size, *found]

    def _elements(self, name: Any, mask: Any = None, *, exact: bool = False) -> list[Any]:
        if isinstance(name, (str, int)):
            return self._frame.elements(name, mask, exact=exact)
        return list(zip(*(self._frame.elements(part, mask, exact=exact) for part in name), strict=True))

    def _at(self, column: FrameColumn, value: Any) -> Any:
        """The mask of the rows with this value; None if there are none."""
        return column.between(column.meaning.least(value), column.meaning.most(value))

    def _greatest(self, column: FrameColumn, mask: Any) -> Any:
        return None if mask is None else self._read(column, column.taken(mask).bounds[1])

    def _count(self, mask: Any) -> int:
        return 0 if mask is None else self._frame.count(mask)

    def _read(self, column: FrameColumn, element: Any) -> Any:
        what = f"a value of {self._key!r}"
        try:
            value = column.meaning.read(element)
        except OverflowError as error:
            raise refusal(
                element, "Leave such rows out.", what=what, why="It is outside the years 1 to 9999."
            ) from error
        return self._rules.cursor.parse(value, what=what)


def _kept_apart(ties: Iterable[str | None] | None) -> set[str] | None:
    """The ties without None, and no more of them than are needed to see that they are too many."""
    if ties is None:
        return None
    found: set[str] = set()
    for tie in ties:
        if tie is None:
            continue
        found.add(tie)
        if len(found) > MAX_TIES:
            break
    return found


def _check_columns(frame: Frame, name: str, given: Any) -> None:
    """See that the frame has these columns.

    Raises:
        ColumnError: it has not, or several of that name. TypeError: a function is given.
    """
    if callable(given):
        raise TypeError(
            f"{name}= is a function of a row, and a {type(frame.data).__name__} is read by columns.\n"
            f"Give the name of a column, or the rows one by one: window.track({frame.rows}, ...)."
        )
    names = frame.names()
    for column in [] if given is None else [given] if isinstance(given, (str, int)) else given:
        count = 1 if frame.has_place(column) else names.count(column)
        if count != 1:
            what = "has several columns" if count else "has no column"
            raise ColumnError(
                f"The {type(frame.data).__name__} {what} {column!r}; it has {', '.join(map(str, names)) or 'none'}.",
                "Select the column under a name of its own; from the index of pandas, reset_index() makes it one.",
                column=column,
                columns=tuple(map(str, names)),
            )
