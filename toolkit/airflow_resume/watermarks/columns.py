"""Columns of frames: numbers, decimals or text that a library compares, and what they mean to a cursor.

Times and days are compared as the whole numbers that they are inside, so nothing depends on how a library compares
units or zones.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import cached_property
from typing import Any, ClassVar

from airflow_resume.watermarks.scalars import EPOCH, TICKS, moment

_EXACT = Context(prec=8_000)


class Meaning(ABC):
    """What the elements of a column are to a cursor."""

    kinds: ClassVar[frozenset[type]]
    """Plain types of cursors (`CursorType.plain`) whose values these elements can be compared with."""

    def read(self, raw: Any) -> Any:
        """An element as Python has it, never rounded up."""
        return raw

    def least(self, value: Any) -> Any:
        """The smallest element that is not below the value."""
        return value

    def most(self, value: Any) -> Any:
        """The greatest element that is not above the value."""
        return value


class Whole(Meaning):
    """Whole numbers."""

    kinds = frozenset({int, Decimal})

    def least(self, value: Any) -> int:
        """The smallest whole number that is not below the value."""
        least: int = math.ceil(value)
        return least

    def most(self, value: Any) -> int:
        """The greatest whole number that is not above the value."""
        most: int = math.floor(value)
        return most


class WholeFloats(Whole):
    """Floats that are whole numbers, as a column of pandas has them that some row has no number in."""

    def read(self, raw: Any) -> int:
        """The number that it is."""
        return int(raw)


@dataclass(frozen=True)
class Digits(Meaning):
    """Decimals with so many digits after the point."""

    scale: int
    kinds = frozenset({Decimal})

    def least(self, value: Any) -> Decimal:
        """The value rounded up to the column's digits."""
        return self._rounded(value, ROUND_CEILING)

    def most(self, value: Any) -> Decimal:
        """The value rounded down to the column's digits."""
        return self._rounded(value, ROUND_FLOOR)

    def _rounded(self, value: Decimal, rounding: str) -> Decimal:
        return value.quantize(Decimal(1).scaleb(-self.scale), rounding=rounding, context=_EXACT)


class Text(Meaning):
    """Text in the order of code points."""

    kinds = frozenset({str})


@dataclass(frozen=True)
class Ticks(Meaning):
    """Points in time as so many units after 1970-01-01 00:00, in UTC where the column has a zone."""

    unit: str
    is_aware: bool
    kinds = frozenset({datetime})

    def read(self, raw: int) -> datetime:
        """The point in time, rounded down to microseconds."""
        return moment(raw, self.unit, is_aware=self.is_aware)

    def least(self, value: datetime) -> int:
        """The first tick that is not before the value."""
        return -(-self._microseconds(value) * TICKS[self.unit] // TICKS["us"])

    def most(self, value: datetime) -> int:
        """The last tick before the next microsecond."""
        return ((self._microseconds(value) + 1) * TICKS[self.unit] - 1) // TICKS["us"]

    def _microseconds(self, value: datetime) -> int:
        epoch = EPOCH.replace(tzinfo=timezone.utc) if self.is_aware else EPOCH
        return (value - epoch) // timedelta(microseconds=1)


class Days(Meaning):
    """Days after 1970-01-01."""

    kinds = frozenset({date})

    def read(self, raw: int) -> date:
        """The day."""
        return EPOCH.date() + timedelta(days=raw)

    def least(self, value: date) -> int:
        """The number of the day."""
        return (value - EPOCH.date()).days

    most = least


class Column(ABC):
    """A column whose elements a library compares.

    Args:
        data: of the library, numbers, decimals or text. `meaning`: of them.
    """

    def __init__(self, data: Any, meaning: Meaning) -> None:
        self.data, self.meaning = data, meaning

    @cached_property
    def bounds(self) -> tuple[Any, Any]:
        """The smallest and the greatest element; None and None where there is none."""
        return self._extremes()

    def at_least(self, element: Any) -> Any:
        """Which rows have an element that is not below this one, as the library's mask; None where none has.

        An element that lies beyond the column's own is not compared with them: their type may not have it.
        """
        low, high = self.bounds
        if low is None or element > high:
            return None
        return self.present() if element <= low else self._at_least(element)

    def below(self, element: Any) -> Any:
        """Which rows have an element below this one, as the library's mask; None where none has."""
        low, high = self.bounds
        if low is None or element <= low:
            return None
        return self.present() if element > high else self._below(element)

    def between(self, least: Any, most: Any) -> Any:
        """Which rows have an element in these bounds, both included, as the library's mask; None where none has."""
        low, high = self.bounds
        if low is None or least > most or least > high or most < low:
            return None
        return self._between(max(least, low), min(most, high))

    @abstractmethod
    def missing(self) -> int:
        """How many rows have no element."""

    @abstractmethod
    def absent(self) -> Any:
        """Which rows have no element, as the library's mask."""

    @abstractmethod
    def present(self) -> Any:
        """Which rows have one."""

    @abstractmethod
    def is_ascending(self) -> bool:
        """Whether each element is at least the one before; rows without one are passed over."""

    @abstractmethod
    def taken(self, mask: Any) -> Column:
        """The elements of these rows."""

    @abstractmethod
    def _extremes(self) -> tuple[Any, Any]: ...

    @abstractmethod
    def _at_least(self, element: Any) -> Any: ...

    @abstractmethod
    def _below(self, element: Any) -> Any: ...

    @abstractmethod
    def _between(self, least: Any, most: Any) -> Any: ...


class Frame(ABC):
    """A frame of a library.

    Args:
        data: the frame itself.
    """

    rows: ClassVar[str]
    """How to have its rows one by one, as an expression."""

    def __init__(self, data: Any) -> None:
        self.data = data

    @property
    @abstractmethod
    def size(self) -> int:
        """How many rows it has."""

    @abstractmethod
    def names(self) -> list[Any]:
        """The names of its columns."""

    def has_place(self, name: object) -> bool:
        """Whether a number is the place of a column."""
        return isinstance(name, int) and name in range(len(self.names()))

    @abstractmethod
    def column(self, name: str | int) -> Column | None:
        """The column for its library to compare; None where only Python can compare its elements."""

    @abstractmethod
    def elements(self, name: str | int, mask: Any = None, *, exact: bool = False) -> list[Any]:
        """What the column has, row by row, in the rows of the mask.

        Times finer than a microsecond are rounded down, or keep all their digits in whatever form, if `exact`.
        """

    def remedy(self, name: str | int) -> str | None:  # noqa: ARG002  by default nothing is known
        """What to do where the elements of a column are refused."""
        return None

    @abstractmethod
    def places(self, mask: Any) -> list[int]:
        """The numbers of the mask's rows."""

    @abstractmethod
    def mask(self, flags: list[bool]) -> Any:
        """A mask of a flag for each row."""

    @abstractmethod
    def count(self, mask: Any) -> int:
        """How many rows a mask has."""

    @abstractmethod
    def without(self, masks: list[Any]) -> Any:
        """The library's frame without the rows of these masks; where there are none, the very same frame."""
