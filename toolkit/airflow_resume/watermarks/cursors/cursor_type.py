"""The base of all types of cursors: read a value exactly, keep it as text, round it down, and calculate with it."""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar, cast

from airflow_resume import values
from airflow_resume.errors import CursorTypeError, ValueTooLargeError

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")

Span = timedelta | int | Decimal
"""A distance between two values: the type of a delay, a lookback and a `max_span`."""

SqlValues = Literal["times", "days", "whole numbers", "decimals", "uuids", "other"]

MAX_SHOWN = 200
MOST_BYTES = 12
"""The most bytes that a character takes in JSON: two surrogates, each written as \\ud83d."""


@dataclass(frozen=True)
class CursorType(ABC, Generic[T]):
    """The type of the values of a watermark. They are ordered by Python's `<`.

    Two laws hold for all types: `parse(dump(value)) == value`, and `floor(value) <= value`. Nothing is ever rounded up:
    if a mark is a little too low, rows are read again, but if it is too high, rows are skipped.

    It has many methods, each with a default where most types agree. To add a type to this package, write a module with
    a subclass, and add it to `CURSOR_TYPES` and `Cursor` in `cursor.py`. The last part of
    `tests/unit/watermarks/test_cursors.py` fails if something is forgotten.
    """

    type: ClassVar[str]
    """The name of the type in records."""
    plain: ClassVar[builtins.type] = object
    """The exact class of parsed values. A row's value that is of this class already needs no parsing."""
    is_ordered: ClassVar[bool] = True
    """Whether values can be compared by `<`; otherwise they are only equal or different."""
    has_spans: ClassVar[bool] = False
    """Whether a delay, a lookback or a `max_span` can be given."""
    has_clock: ClassVar[bool] = False
    """Whether a clock gives a value for now, so that a window can end at it."""
    sql_values: ClassVar[SqlValues] = "other"
    """What the values are in a database, for conditions of queries. With `"other"` the driver gets them as they are."""

    @classmethod
    def restored(cls, definition: Mapping[str, Any]) -> CursorType[Any] | None:  # noqa: ARG003
        """A cursor that reads values of this type from an asset event; None if they stay JSON.

        Args:
            definition: the definition of the cursor that wrote the event.
        """
        return None

    @classmethod
    def is_meant_by(cls, initial: object) -> bool:  # noqa: ARG003
        """Whether an `initial` value without `cursor=` means this type, because it can hardly mean another one.

        Args:
            initial: the argument of `watermark`.
        """
        return False

    def definition(self) -> dict[str, JsonValue]:
        """What stored values mean. A watermark cannot continue from values with another definition."""
        return {"type": self.type}

    @abstractmethod
    def parse(self, value: object, *, what: str) -> T:
        """Read a value from a user, a row, a person who typed it, or a record.

        Args:
            value: the value to read.
            what: what the value is, for the error message.

        Raises:
            CursorTypeError: it is not a value of this type; `what` names it in the message.
        """

    @abstractmethod
    def dump(self, value: T) -> JsonValue:
        """The value for a record: readable and exact. Equal values give equal results.

        Args:
            value: a parsed value.
        """

    def parse_row(self, value: object, *, what: str) -> T:
        """Read the value of a row: as `parse`, but a keyset's value must have all its parts.

        Args:
            value: the value of the cursor's column.
            what: what the value is, for the error message.

        Raises:
            CursorTypeError: it is not a value of this type; `what` names it in the message.
        """
        return self.parse(value, what=what)

    @property
    def leading(self) -> CursorType[Any]:
        """The cursor of the first column, whose clock and spans are used."""
        return self

    def led_by(self, value: Any) -> T:
        """The lowest value whose first part is `value`.

        Args:
            value: a value of the first column.
        """
        return cast("T", value)

    def floor(self, value: T) -> T:
        """The value rounded down to the granularity, if there is one.

        Args:
            value: a parsed value.
        """
        return value

    def present(self, value: T) -> T:
        """The value in the form in which the body gets it as a bound of its window.

        Args:
            value: a parsed value.
        """
        return value

    @property
    def home(self) -> str | None:
        """The time zone of values that have none themselves, such as days; None if it is not known."""
        return None

    @property
    def zoneless(self) -> Literal["days", "times"] | None:
        """`"days"` or `"times"` if values are days or naive times whose time zone is not known; else None."""
        return None

    @property
    def is_aware(self) -> bool:
        """Whether values are points in time, and not readings of a clock."""
        return False

    @property
    def sql_collation(self) -> str | None:
        """The collation by which a database is to compare values; None: the database's own."""
        return None

    def now(self, clock: Callable[[], object]) -> T:
        """The value for now on `clock`.

        Args:
            clock: returns what `parse` reads, such as a datetime with its zone.
        """
        return self.parse(clock(), what="now()")

    def of_moment(self, moment: datetime, *, up: bool = False) -> T:  # noqa: ARG002  of types with a clock
        """The value for a point in time, rounded down, or with `up` rounded up.

        Args:
            moment: aware, in any zone.
            up: round up.
        """
        return self.parse(moment, what="a point in time")

    def interval(self, start: datetime, end: datetime) -> tuple[T, T]:
        """The bounds of the values in an interval of time, which includes `start` and not `end`; both aware.

        Args:
            start: with its zone.
            end: with its zone.
        """
        return self.of_moment(start), self.of_moment(end, up=True)

    @property
    def no_span(self) -> Span:
        """The span of length 0; the only one if `has_spans` is false."""
        return 0

    def check_span(self, name: str, span: object) -> None:
        """Refuse a span that cannot be added to a value.

        Args:
            name: the name of the argument, for the message.
            span: the span that was given.

        Raises:
            CursorTypeError: of the wrong type. ValueError: a negative one.
        """
        if type(span) is not int or span:
            raise CursorTypeError(
                f"{name} is {shown_value(span)}, and no span can be subtracted from a value of {shown_value(self)}.",
                f"Leave {name} out, or use a cursor that counts: Cursor.datetime(), date(), int() or decimal().",
                what=name,
                type_name=type(span).__name__,
            )

    def plus(self, value: T, span: Span) -> T:
        """The value `span` later, or the greatest value if there is none so late.

        Args:
            value: a parsed value.
            span: not negative: a timedelta for times and days, a number for numbers.
        """
        self.check_span("span", span)
        return value

    def step(self, value: T, span: Span) -> T:
        """The end of a slice of `span` that begins at the value: as `plus`, except for days of a time zone.

        Args:
            value: a parsed value.
            span: as for `plus`.
        """
        return self.plus(value, span)

    def minus(self, value: T, span: Span) -> T:
        """The value `span` earlier, or the least value if there is none so early.

        Args:
            value: a parsed value.
            span: as for `plus`.
        """
        self.check_span("span", span)
        return value

    def as_tie(self) -> CursorType[T]:
        """The cursor to use for a later column of a keyset. Such a column only has to tell rows apart."""
        return self


def check_fits(value: object, *, what: str) -> None:
    """Refuse a value that is too large for a record, before anything is loaded.

    Raises:
        ValueTooLargeError: it has more bytes of JSON than `values.MAX_CURSOR_BYTES`.
    """
    if isinstance(value, str) and len(value) * MOST_BYTES < values.MAX_CURSOR_BYTES:
        return
    size = values.stored_size(value)
    if size > values.MAX_CURSOR_BYTES:
        raise ValueTooLargeError(
            f"{what} has {size:,} bytes of JSON, and a value of a watermark may have {values.MAX_CURSOR_BYTES:,}.",
            "Keep it elsewhere (object storage, a table), and give the watermark only its address.",
            at=what,
            size=size,
            limit=values.MAX_CURSOR_BYTES,
        )


def refusal(value: object, remedy: str, *, what: str, why: str = "") -> CursorTypeError:
    """The error for a value that the cursor does not accept.

    Args:
        value: that was given.
        remedy: what to do, as a sentence.
        what: a name for the value.
        why: the reason, as a sentence, if the type of the value alone does not show it.
    """
    found = f"{what} is {shown_value(value)}, of type {type(value).__name__}."
    if not why and _stands_for_nothing(value):
        why = "It means a missing value."
        remedy = f"Leave out such values, or see nulls= of watermark() for rows. {remedy}"
    if isinstance(value, Enum):
        remedy = f"Take its .value. {remedy}"
    return CursorTypeError(f"{found} {why}" if why else found, remedy, what=what, type_name=type(value).__name__)


def _stands_for_nothing(value: object) -> bool:
    """Whether it means a missing value: None, NaN, NaT, the NA of pandas or `masked` of NumPy."""
    if value is None or type(value).__name__ in {"NAType", "MaskedConstant"}:
        return True
    try:
        return bool(value != value)  # noqa: PLR0124  NaN and NaT alone differ from themselves
    except Exception:  # noqa: BLE001  an array, for example, has no single truth value
        return False


def shown_value(value: object) -> str:
    """The value for a message; a long one is cut."""
    try:
        text = repr(value)
    except ValueError:  # Python does not write out an int of more than 4300 digits
        return "a value too long to show"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
