"""Columns of frames: numbers, decimals or text that a library compares, and what they mean for a cursor.

Times and days are compared as whole numbers, as libraries store them. So nothing depends on how a library compares
units or time zones.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import cached_property
from typing import Any, ClassVar

from airflow_resume.watermarks.cursors.scalars import EPOCH, TICKS, moment

_EXACT = Context(prec=8_000)


class Meaning(ABC):
    """What the elements of a column mean for a cursor."""

    kinds: ClassVar[frozenset[type]]
    """The types of cursor values (`CursorType.plain`) with which these elements can be compared."""

    def read(self, raw: Any) -> Any:
        """The element as a value of Python, never rounded up."""
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
    """Whole numbers as floats. pandas makes floats of a column of whole numbers in which a value is missing."""

    def read(self, raw: Any) -> int:
        """The whole number."""
        return int(raw)


@dataclass(frozen=True)
class Digits(Meaning):
    """Decimals with `scale` digits after the point."""

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
    """Points in time as numbers of units since 1970-01-01 00:00, in UTC if the column has a time zone."""

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
    """Days, as their number since 1970-01-01."""

    kinds = frozenset({date})

    def read(self, raw: int) -> date:
        """The day."""
        return EPOCH.date() + timedelta(days=raw)

    def least(self, value: date) -> int:
        """The number of the day."""
        return (value - EPOCH.date()).days

    most = least


class FrameColumn(ABC):
    """A column whose elements a library compares.

    Args:
        data: numbers, decimals or text, as the library has them. `meaning`: what they mean for a cursor.
    """

    def __init__(self, data: Any, meaning: Meaning) -> None:
        self.data, self.meaning = data, meaning

    @cached_property
    def bounds(self) -> tuple[Any, Any]:
        """The smallest and the greatest element; None and None if there are no elements."""
        return self._extremes()

    def at_least(self, element: Any) -> Any:
        """The library's mask of the rows whose element is not below this one; None if there are none.

        An element outside the column's own bounds is not compared by the library: its type may not be able to hold it.
        """
        low, high = self.bounds
        if low is None or element > high:
            return None
        return self.present() if element <= low else self._at_least(element)

    def below(self, element: Any) -> Any:
        """The mask of the rows whose element is below this one; None if there are none."""
        low, high = self.bounds
        if low is None or element <= low:
            return None
        return self.present() if element > high else self._below(element)

    def between(self, least: Any, most: Any) -> Any:
        """The mask of the rows whose element lies between these two, both included; None if there are none."""
        low, high = self.bounds
        if low is None or least > most or least > high or most < low:
            return None
        return self._between(max(least, low), min(most, high))

    @abstractmethod
    def missing(self) -> int:
        """How many rows have no element."""

    @abstractmethod
    def absent(self) -> Any:
        """The mask of the rows without an element."""

    @abstractmethod
    def present(self) -> Any:
        """The mask of the rows with an element."""

    @abstractmethod
    def is_ascending(self) -> bool:
        """Whether no element is below the one before; rows without an element do not count."""

    @abstractmethod
    def taken(self, mask: Any) -> FrameColumn:
        """The column with the rows of this mask alone."""

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
    """An expression that gives its rows one by one, for messages."""

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
        """Whether `name` is the number of a column."""
        return isinstance(name, int) and name in range(len(self.names()))

    @abstractmethod
    def column(self, name: str | int) -> FrameColumn | None:
        """The column, if its library can compare the elements exactly; None: compare them in Python."""

    @abstractmethod
    def elements(self, name: str | int, mask: Any = None, *, exact: bool = False) -> list[Any]:
        """The elements of the column, in the rows of the mask.

        Times are rounded down to microseconds; with `exact` they keep all their digits, in any form.
        """

    def remedy(self, name: str | int) -> str | None:  # noqa: ARG002  by default nothing is known
        """What to do if the elements of a column are refused."""
        return None

    @abstractmethod
    def places(self, mask: Any) -> list[int]:
        """The row numbers of the mask."""

    @abstractmethod
    def mask(self, flags: list[bool]) -> Any:
        """A mask from a flag for each row."""

    @abstractmethod
    def count(self, mask: Any) -> int:
        """How many rows the mask has."""

    @abstractmethod
    def without(self, masks: list[Any]) -> Any:
        """The library's frame without the rows of these masks; without masks, the same object."""
