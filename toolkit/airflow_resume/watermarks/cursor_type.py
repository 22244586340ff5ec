"""What every type of cursor can do: read a value exactly, keep it as text, round it down, count with it."""

from __future__ import annotations

import builtins
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

from airflow_resume import values
from airflow_resume.errors import CursorTypeError, ValueTooLargeError

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")

Span = timedelta | int | Decimal
"""A distance between two values: what a delay, a lookback and a largest window are given in."""

MAX_SHOWN = 200
MOST_BYTES = 12
"""Of one character, in JSON: two surrogates, each written as \\ud83d."""


@dataclass(frozen=True)
class CursorType(ABC, Generic[T]):
    """The type of the values of a watermark, whose own `<` is their order.

    Two laws hold for all of them: `parse(dump(value)) == value`, and `floor(value) <= value`. Nothing is ever rounded
    up: a mark that stands a little too low reads rows again, one that stands a little too high skips them.
    """

    type: ClassVar[str]
    """As it stands in the record."""
    plain: ClassVar[builtins.type] = object
    """The exact class of a parsed value: of what in a row needs no parsing."""
    is_ordered: ClassVar[bool] = True
    """Whether `<` means anything. Without it there is no earlier and no later, only the same and another."""
    has_spans: ClassVar[bool] = False
    """Whether a delay, a lookback or a largest window can be given."""
    has_clock: ClassVar[bool] = False
    """Whether a clock gives the value of this moment, so that a window can end at it."""

    def definition(self) -> dict[str, JsonValue]:
        """What the kept values mean. Values kept under another definition cannot be gone on from."""
        return {"type": self.type}

    @abstractmethod
    def parse(self, value: object, *, what: str) -> T:
        """The value given by a user, a row of a source, a person who typed it, or the record.

        Raises:
            CursorTypeError: it is not one; named by `what`.
        """

    @abstractmethod
    def dump(self, value: T) -> JsonValue:
        """The value as it is kept: readable and exact. Equal values are kept equal."""

    def parse_row(self, value: object, *, what: str) -> T:
        """The value of a row: as `parse`, but never a mere bound, such as a keyset's first value without the others.

        Raises:
            CursorTypeError: it is not one; named by `what`.
        """
        return self.parse(value, what=what)

    @property
    def leading(self) -> CursorType[Any]:
        """The cursor that has the clock and counts the spans: that of the first column."""
        return self

    def led_by(self, value: Any) -> T:
        """The lowest value whose leading one is `value`."""
        return cast("T", value)

    def floor(self, value: T) -> T:
        """The value rounded down to the granularity; the value itself where there is none."""
        return value

    def present(self, value: T) -> T:
        """The value as it is handed to the body as a bound of its window."""
        return value

    @property
    def home(self) -> str | None:
        """The zone of values that do not say themselves in which they are, such as days; None where it is not known."""
        return None

    def now(self, clock: Callable[[], object]) -> T:
        """The value of this moment on `clock`."""
        return self.parse(clock(), what="now()")

    def of_moment(self, moment: datetime, *, up: bool = False) -> T:  # noqa: ARG002  of those that have a clock
        """The value that a point in time has; where it has none of its own the one below, or the one above for `up`.

        Args:
            moment: aware, in any zone.
            up: round up.
        """
        return self.parse(moment, what="a point in time")

    def interval(self, start: datetime, end: datetime) -> tuple[T, T]:
        """The bounds of the values that came in a stretch of time: `start` is in it, `end` is not; both aware."""
        return self.of_moment(start), self.of_moment(end, up=True)

    @property
    def no_span(self) -> Span:
        """The span that changes nothing. It is the only one where `has_spans` is false."""
        return 0

    def check_span(self, name: str, span: object) -> None:
        """Refuse a span that cannot be counted with.

        Raises:
            CursorTypeError: of the wrong type. ValueError: a negative one.
        """
        if type(span) is not int or span:
            raise CursorTypeError(
                f"{name} is {shown(span)}, and from a value of {shown(self)} nothing can be subtracted.",
                f"Leave {name} out, or use a cursor that counts: Cursor.datetime(), date(), int() or decimal().",
            )

    def plus(self, value: T, span: Span) -> T:
        """The value `span` later, or the last one there is."""
        self.check_span("span", span)
        return value

    def step(self, value: T, span: Span) -> T:
        """Where a slice of `span` that begins at the value ends: as `plus`, but for days of a zone."""
        return self.plus(value, span)

    def minus(self, value: T, span: Span) -> T:
        """The value `span` earlier, or the first one there is."""
        self.check_span("span", span)
        return value

    def as_tie(self) -> CursorType[T]:
        """The cursor of a column that only tells rows apart which are equal in the columns before it."""
        return self


def check_fits(value: object, *, what: str) -> None:
    """Refuse a value that a record has no room for, when it is first seen and nothing is loaded yet.

    Raises:
        ValueTooLargeError: of more bytes of JSON than `values.MAX_CURSOR_BYTES`.
    """
    if isinstance(value, str) and len(value) * MOST_BYTES < values.MAX_CURSOR_BYTES:
        return
    size = values.stored_size(value)
    if size > values.MAX_CURSOR_BYTES:
        raise ValueTooLargeError(
            f"{what} has {size:,} bytes of JSON, and a value of a watermark may have {values.MAX_CURSOR_BYTES:,}.",
            "Keep it elsewhere (object storage, a table), and here where it is.",
        )


def refusal(value: object, remedy: str, *, what: str, why: str = "") -> CursorTypeError:
    """The error for a value that is none of the cursor's.

    Args:
        value: that was given.
        remedy: what to do about it, as a sentence.
        what: the value is.
        why: it is refused, as a sentence, where the type alone does not say it.
    """
    found = f"{what} is {shown(value)}, of type {type(value).__name__}."
    if not why and _stands_for_nothing(value):
        why = "It stands for a value that is missing."
        remedy = f"Leave out what has no value, or see nulls= of watermark() for rows. {remedy}"
    if isinstance(value, Enum):
        remedy = f"Take its .value. {remedy}"
    return CursorTypeError(f"{found} {why}" if why else found, remedy)


def _stands_for_nothing(value: object) -> bool:
    """As None, NaN and NaT do, and the NA of pandas and masked of NumPy."""
    if value is None or type(value).__name__ in {"NAType", "MaskedConstant"}:
        return True
    try:
        return bool(value != value)  # noqa: PLR0124  NaN and NaT alone differ from themselves
    except Exception:  # noqa: BLE001  an array, say, has many answers
        return False


def shown(value: object) -> str:
    """The value for a message, cut where it is long."""
    try:
        text = repr(value)
    except ValueError:  # Python does not write out an int of more than 4300 digits
        return "a value too long to show"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
