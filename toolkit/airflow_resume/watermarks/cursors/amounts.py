"""Cursors over exact numbers. Floats are refused: they may be rounded."""

from __future__ import annotations

import builtins
import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact
from typing import Any, ClassVar, SupportsIndex

from airflow_resume.errors import CursorTypeError
from airflow_resume.watermarks.cursors.cursor_type import CursorType, Span, SqlValues, refusal

MAX_DIGITS = 4_000
"""The most digits of a number. Python itself reads and writes no integer of more than 4300 digits."""
SURELY_SHORT_BITS = 3 * MAX_DIGITS
"""A number with fewer bits than this has fewer than `MAX_DIGITS` digits for certain, so they need not be counted."""

_INT = r"[+-]?[0-9]+"
_DECIMAL = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)"
_SHORTER = "Use a shorter key, or cursor=Cursor.text()."
_EXACT = Context(prec=3 * MAX_DIGITS, traps=[Inexact])
"""Enough digits for every sum and remainder. With the default of 28 digits, results would be rounded, perhaps up."""


@dataclass(frozen=True, kw_only=True)
class IntCursor(CursorType[int]):
    """Whole numbers of any size.

    Args:
        granularity: `floor` goes down to a multiple of it.
    """

    type: ClassVar[str] = "int"
    plain: ClassVar[builtins.type] = int
    has_spans: ClassVar[bool] = True
    sql_values: ClassVar[SqlValues] = "whole numbers"

    granularity: int | None = None

    def __post_init__(self) -> None:
        """Refuse a granularity that is not above 0."""
        _keep_parsed_granularity(self)

    @classmethod
    def restored(cls, definition: Mapping[str, Any]) -> IntCursor:  # noqa: ARG003
        """The cursor without a granularity, which has no effect on stored values."""
        return cls()

    @classmethod
    def is_meant_by(cls, initial: object) -> bool:
        """Whether it is an integer, a bool or a float. `parse` then refuses a bool or a float, and says why."""
        return isinstance(initial, (SupportsIndex, float))

    def parse(self, value: object, *, what: str) -> int:
        """The value as a plain int.

        Raises:
            CursorTypeError: it is neither a whole number nor text of its digits. A whole Decimal, as a NUMERIC column
            has it, is accepted. Floats are refused, because they are not exact above 2**53, and so are bools.
        """
        if type(value) is int and value.bit_length() < SURELY_SHORT_BITS:
            return value
        if isinstance(value, str) and re.fullmatch(_INT, value.strip()):
            return _checked_int(value.strip(), value, what)
        if isinstance(value, SupportsIndex) and not isinstance(value, bool):
            return _checked_int(_index(value, what), value, what)
        if isinstance(value, Decimal) and value.is_finite():
            whole = _checked_decimal(value, value, what)
            if not int(whole.as_tuple().exponent):  # the short form of a whole number has none
                return int(whole)
        raise _wrong_type(value, "an int or text of its digits", what)

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
        """The value plus `span`."""
        return value + self._distance("span", span)

    def minus(self, value: int, span: Span) -> int:
        """The value minus `span`."""
        return value - self._distance("span", span)

    def _distance(self, name: str, span: object) -> int:
        if not isinstance(span, int) or isinstance(span, bool):
            raise refusal(span, f"Write a whole number, such as {name}=1000.", what=name)
        _check_not_negative(name, span)
        return span


@dataclass(frozen=True, kw_only=True)
class DecimalCursor(CursorType[Decimal]):
    """Numbers with digits after the point; all digits are kept. 1.0 and 1.00 are the same value.

    Args:
        granularity: `floor` goes down to a multiple of it.
    """

    type: ClassVar[str] = "decimal"
    plain: ClassVar[builtins.type] = Decimal
    has_spans: ClassVar[bool] = True
    sql_values: ClassVar[SqlValues] = "decimals"

    granularity: Decimal | int | None = None

    def __post_init__(self) -> None:
        """Refuse a granularity that is not above 0."""
        _keep_parsed_granularity(self)

    @classmethod
    def restored(cls, definition: Mapping[str, Any]) -> DecimalCursor:  # noqa: ARG003
        """The cursor without a granularity, which has no effect on stored values."""
        return cls()

    @classmethod
    def is_meant_by(cls, initial: object) -> bool:
        """A Decimal."""
        return isinstance(initial, Decimal)

    def parse(self, value: object, *, what: str) -> Decimal:
        """The value as a plain Decimal, without zeros at the end of a fraction.

        Raises:
            CursorTypeError: it is not a finite number, or it is text with an exponent, or a float. Floats are not
            exact: the float 0.1 is not 1/10.
        """
        if isinstance(value, str) and re.fullmatch(_DECIMAL, value.strip()):
            return _checked_decimal(Decimal(value.strip()), value, what)
        if isinstance(value, Decimal):
            if not value.is_finite():
                raise refusal(value, "Leave such rows out.", what=what, why="It is not a number.")
            return _checked_decimal(value, value, what)
        if isinstance(value, SupportsIndex) and not isinstance(value, bool):
            return _checked_decimal(Decimal(_index(value, what)), value, what)
        raise _wrong_type(value, "a Decimal, an int or text of its digits, without exponent", what)

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
        """The exact value plus `span`."""
        return _short(_EXACT.add(value, self._distance("span", span)))

    def minus(self, value: Decimal, span: Span) -> Decimal:
        """The exact value minus `span`."""
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
        raise _wrong_type(value, "an int or text of its digits", what) from error


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
    """The number without exponent and without zeros at the end of a fraction, so that equal numbers look the same."""
    return Decimal(_digits(number))


def _digits(number: Decimal) -> str:
    text = format(number, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if not number else text


def _keep_parsed_granularity(cursor: IntCursor | DecimalCursor) -> None:
    if cursor.granularity is None:
        return
    granularity = cursor.parse(cursor.granularity, what="granularity")
    if granularity <= 0:
        raise ValueError(f"granularity={granularity!r} must be a number above 0.\nGive one, or leave it out.")
    object.__setattr__(cursor, "granularity", granularity)


def _check_not_negative(name: str, span: Decimal | int) -> None:
    if span < 0:
        raise ValueError(f"{name}={span!r} is a distance, and may not be negative")


def _wrong_type(value: object, accepted: str, what: str) -> CursorTypeError:
    """The error for a value of a type that the cursor does not read."""
    why, remedy = "", f"Give {accepted}, or use the cursor= that fits."
    if isinstance(value, float):
        why = "A float is not exact, above 2**53 not even for whole numbers, so rows next to it could be skipped."
        remedy = f"Have the source give {accepted}: CAST it there to BIGINT, DECIMAL or text."
    elif isinstance(value, bool):
        why, remedy = "True and False are not numbers.", f"Give {accepted}."
    elif isinstance(value, Decimal):
        why, remedy = "It is not a whole number.", "Use cursor=Cursor.decimal()."
    return refusal(value, remedy, what=what, why=why)


def _too_long(value: object, what: str) -> CursorTypeError:
    return refusal(value, _SHORTER, what=what, why=f"It has more than {MAX_DIGITS} digits.")
