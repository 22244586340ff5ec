"""Cursors over numbers, exact ones only: a float may be the neighbour of what the source has."""

from __future__ import annotations

import builtins
import operator
import re
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact
from typing import ClassVar, SupportsIndex

from airflow_resume.errors import CursorTypeError
from airflow_resume.watermarks.cursor_type import CursorType, Span, refusal

MAX_DIGITS = 4_000
"""Python itself reads and writes no integer of more than 4300 digits."""
SURELY_SHORT_BITS = 3 * MAX_DIGITS
"""A number of fewer bits has no more digits than that, and there is no need to count them."""

_INT = r"[+-]?[0-9]+"
_DECIMAL = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)"
_SHORTER = "Use a shorter key, or cursor=Cursor.text()."
_EXACT = Context(prec=3 * MAX_DIGITS, traps=[Inexact])
"""Digits enough for every sum and remainder; the usual 28 would round, and perhaps up."""


@dataclass(frozen=True, kw_only=True)
class IntCursor(CursorType[int]):
    """Whole numbers of any size.

    Args:
        granularity: `floor` goes down to a multiple of it.
    """

    type: ClassVar[str] = "int"
    plain: ClassVar[builtins.type] = int
    has_spans: ClassVar[bool] = True

    granularity: int | None = None

    def __post_init__(self) -> None:
        """Refuse a granularity that nothing can be rounded to."""
        if self.granularity is not None:
            granularity = self.parse(self.granularity, what="granularity")
            _check_granularity(granularity)
            object.__setattr__(self, "granularity", granularity)

    def parse(self, value: object, *, what: str) -> int:
        """The value as a plain int.

        Raises:
            CursorTypeError: neither a whole number nor text of its digits. A Decimal is one where it is whole, as a
                NUMERIC column gives it. A float is refused, for it is not exact above 2**53, and so is a bool.
        """
        if type(value) is int and value.bit_length() < SURELY_SHORT_BITS:
            return value
        if isinstance(value, str) and re.fullmatch(_INT, value.strip()):
            return _checked_int(value.strip(), value, what)
        if isinstance(value, SupportsIndex) and not isinstance(value, bool):
            return _checked_int(_index(value, what), value, what)
        if isinstance(value, Decimal) and value.is_finite() and _is_whole(value, what):
            return int(value)
        raise _other(value, "an int or text of its digits", what)

    def dump(self, value: int) -> str:
        """Its digits."""
        return str(value)

    def floor(self, value: int) -> int:
        """The value rounded down to a multiple of the granularity."""
        return value if self.granularity is None else value // self.granularity * self.granularity

    def check_span(self, name: str, span: object) -> None:
        """Refuse a span that is not a whole number.

        Raises:
            CursorTypeError: not an int. ValueError: a negative one.
        """
        self._distance(name, span)

    def plus(self, value: int, span: Span) -> int:
        """The value and `span`."""
        return value + self._distance("span", span)

    def minus(self, value: int, span: Span) -> int:
        """The value less `span`."""
        return value - self._distance("span", span)

    def _distance(self, name: str, span: object) -> int:
        if not isinstance(span, int) or isinstance(span, bool):
            raise refusal(span, f"Write a whole number, such as {name}=1000.", what=name)
        _check_not_negative(name, span)
        return span


@dataclass(frozen=True, kw_only=True)
class DecimalCursor(CursorType[Decimal]):
    """Numbers with digits after the point, all of them kept: 30 digits stay 30 digits. 1.0 and 1.00 are one value.

    Args:
        granularity: `floor` goes down to a multiple of it.
    """

    type: ClassVar[str] = "decimal"
    plain: ClassVar[builtins.type] = Decimal
    has_spans: ClassVar[bool] = True

    granularity: Decimal | int | None = None

    def __post_init__(self) -> None:
        """Refuse a granularity that nothing can be rounded to."""
        if self.granularity is not None:
            granularity = self.parse(self.granularity, what="granularity")
            _check_granularity(granularity)
            object.__setattr__(self, "granularity", granularity)

    def parse(self, value: object, *, what: str) -> Decimal:
        """The value as a plain Decimal, without zeros at the end of a fraction.

        Raises:
            CursorTypeError: not a finite number, or a float, which is not exact: it is the neighbour of 0.1 and not
                0.1; or text with an exponent.
        """
        if isinstance(value, str) and re.fullmatch(_DECIMAL, value.strip()):
            return _checked_decimal(Decimal(value.strip()), value, what)
        if isinstance(value, Decimal):
            if not value.is_finite():
                raise refusal(value, "Leave such rows out.", what=what, why="It is not a number.")
            return _checked_decimal(value, value, what)
        if isinstance(value, SupportsIndex) and not isinstance(value, bool):
            return _checked_decimal(Decimal(_index(value, what)), value, what)
        raise _other(value, "a Decimal, an int or text of its digits, without exponent", what)

    def dump(self, value: Decimal) -> str:
        """Its digits, without exponent and without zeros at the end of a fraction."""
        return _digits(value)

    def floor(self, value: Decimal) -> Decimal:
        """The value rounded down to a multiple of the granularity."""
        if self.granularity is None:
            return value
        rest = _EXACT.remainder(value, Decimal(self.granularity))  # has the sign of the value
        lower = _EXACT.subtract(value, rest)
        return _short(lower if rest >= 0 else _EXACT.subtract(lower, Decimal(self.granularity)))

    def check_span(self, name: str, span: object) -> None:
        """Refuse a span that is not an exact number.

        Raises:
            CursorTypeError: neither a Decimal nor an int. ValueError: a negative one.
        """
        self._distance(name, span)

    def plus(self, value: Decimal, span: Span) -> Decimal:
        """The value and `span`, exactly."""
        return _short(_EXACT.add(value, self._distance("span", span)))

    def minus(self, value: Decimal, span: Span) -> Decimal:
        """The value less `span`, exactly."""
        return _short(_EXACT.subtract(value, self._distance("span", span)))

    def _distance(self, name: str, span: object) -> Decimal:
        if not isinstance(span, (Decimal, int)) or isinstance(span, bool):
            raise refusal(span, f'Write an exact number, such as {name}=Decimal("0.5").', what=name)
        distance = self.parse(span, what=name)
        _check_not_negative(name, distance)
        return distance


def _index(value: SupportsIndex, what: str) -> int:
    try:
        return operator.index(value)
    except TypeError as error:  # as a bool of NumPy says
        raise _other(value, "an int or text of its digits", what) from error


def _is_whole(value: Decimal, what: str) -> bool:
    return not int(_checked_decimal(value, value, what).as_tuple().exponent)  # the short form of a whole one has none


def _checked_int(number: int | str, value: object, what: str) -> int:
    if isinstance(number, str) and len(number) > MAX_DIGITS + 1:  # Python would not read it
        raise _too_long(value, what)
    if abs(int(number)) >= 10**MAX_DIGITS:
        raise _too_long(value, what)
    return int(number)


def _checked_decimal(number: Decimal, value: object, what: str) -> Decimal:
    before, after = max(number.adjusted(), 0), max(-int(number.as_tuple().exponent), 0)
    if before + after >= MAX_DIGITS:
        raise _too_long(value, what)
    return _short(number)


def _short(number: Decimal) -> Decimal:
    """The one form of equal numbers: without exponent and without zeros at the end of a fraction."""
    return Decimal(_digits(number))


def _digits(number: Decimal) -> str:
    text = format(number, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if not number else text


def _check_granularity(granularity: Decimal | int) -> None:
    if granularity <= 0:
        raise ValueError(f"granularity={granularity!r} must be a number above 0.\nGive one, or leave it out.")


def _check_not_negative(name: str, span: Decimal | int) -> None:
    if span < 0:
        raise ValueError(f"{name}={span!r} is a distance, and may not be negative")


def _other(value: object, accepted: str, what: str) -> CursorTypeError:
    """The error for a value of a type that the cursor does not read."""
    why, remedy = "", f"Give {accepted}, or use the cursor= that fits."
    if isinstance(value, float):
        why = "A float is not exact (above 2**53 not even a whole one), so rows beside it could be skipped."
        remedy = f"Have the source give {accepted}: CAST it there to BIGINT, DECIMAL or text."
    elif isinstance(value, bool):
        why, remedy = "True and False are not numbers.", f"Give {accepted}."
    elif isinstance(value, Decimal):
        why, remedy = "It is not a whole number.", "Use cursor=Cursor.decimal()."
    return refusal(value, remedy, what=what, why=why)


def _too_long(value: object, what: str) -> CursorTypeError:
    return refusal(value, _SHORTER, what=what, why=f"It has more than {MAX_DIGITS} digits.")
