"""The cursor over several columns, which only together give an order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from airflow_resume.watermarks.cursors.cursor_type import CursorType, Span, SqlValues, check_fits, refusal

if TYPE_CHECKING:
    from pydantic import JsonValue

    from airflow_resume.errors import CursorTypeError


@dataclass(frozen=True)
class KeysetCursor(CursorType[tuple[Any, ...]]):
    """Several values, compared from the first on: `(updated_at, id)`, where many rows have one `updated_at`.

    The clock and the spans are those of the first column. They give bounds of that column alone. As Python compares
    tuples, `(noon,)` is less than every `(noon, id)` and greater than every `(earlier, id)`. So a mark, an end and a
    value that a person types may have fewer parts than the values of rows.

    The value of a row is not rounded: with a lower first part, the other parts would have no meaning.

    It has many methods because it passes each question on to the first column.

    Args:
        parts: the cursors of the columns, at least two.
    """

    type: ClassVar[str] = "keyset"
    sql_values: ClassVar[SqlValues] = "other"

    parts: tuple[CursorType[Any], ...]

    def __post_init__(self) -> None:
        """Refuse parts that cannot be compared."""
        for part in self.parts:
            if not isinstance(part, CursorType) or not part.is_ordered or isinstance(part, KeysetCursor):
                raise TypeError(
                    f"{part!r} cannot be a part of a keyset.\n"
                    "Give cursors of one column that have an order, such as Cursor.keyset(Cursor.datetime(),"
                    " Cursor.int())."
                )
        if len(self.parts) < 2:  # noqa: PLR2004
            raise ValueError("A keyset has at least two parts.\nUse the column's own cursor for one.")
        first, *others = self.parts
        object.__setattr__(self, "parts", (first, *(part.as_tie() for part in others)))

    @classmethod
    def restored(cls, definition: Mapping[str, Any]) -> None:
        """None: values of several columns stay JSON."""

    def definition(self) -> dict[str, JsonValue]:
        """The definitions of the parts."""
        return {"type": self.type, "parts": [part.definition() for part in self.parts]}

    @property
    def leading(self) -> CursorType[Any]:
        """The cursor of the first column."""
        return self.parts[0]

    @property
    def has_spans(self) -> bool:  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the first column has spans."""
        return self.leading.has_spans

    @property
    def has_clock(self) -> bool:  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the first column has a clock."""
        return self.leading.has_clock

    def parse(self, value: object, *, what: str) -> tuple[Any, ...]:
        """The values as a tuple, each as its part reads it. A bound may have only the first values.

        Raises:
            CursorTypeError: no values, more values than parts, or a value that is not of its part's type.
        """
        names = ", ".join(part.type for part in self.parts)
        if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
            raise refusal(value, f"Give a tuple ({names}).", what=what)
        if not 0 < len(value) <= len(self.parts):
            raise self._wrong_count(value, what)
        pairs = zip(self.parts, value, strict=False)
        found = tuple(part.parse(item, what=f"{what}[{at}]") for at, (part, item) in enumerate(pairs))
        if any(part.plain is str for part in self.parts):
            check_fits("".join(item for item in found if isinstance(item, str)), what=what)
        return found

    def parse_row(self, value: object, *, what: str) -> tuple[Any, ...]:
        """As `parse`, with the values of all columns.

        Raises:
            CursorTypeError: not as many values as parts, or a value that is not of its part's type.
        """
        parsed = self.parse(value, what=what)
        if len(parsed) != len(self.parts):
            raise self._wrong_count(parsed, what)
        return parsed

    def _wrong_count(self, value: Sequence[Any], what: str) -> CursorTypeError:
        names = ", ".join(part.type for part in self.parts)
        return refusal(value, f"Give {len(self.parts)}: ({names}).", what=what, why=f"It has {len(value)} values.")

    def dump(self, value: tuple[Any, ...]) -> list[JsonValue]:
        """The values as their parts keep them."""
        return [part.dump(item) for part, item in zip(self.parts, value, strict=False)]

    def present(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        """The values as their parts present them."""
        return tuple(part.present(item) for part, item in zip(self.parts, value, strict=False))

    # --- the first column ---------------------------------------------------------------------------------------

    def led_by(self, value: Any) -> tuple[Any, ...]:
        """The bound below every row with this first value."""
        return (value,)

    @property
    def home(self) -> str | None:
        """The zone of the first column's values."""
        return self.leading.home

    @property
    def zoneless(self) -> Literal["days", "times"] | None:
        """Whether the zone of the first column's values is not known."""
        return self.leading.zoneless

    def of_moment(self, moment: datetime, *, up: bool = False) -> tuple[Any, ...]:
        """The bound for a point in time in the first column."""
        return self.led_by(self.leading.of_moment(moment, up=up))

    def interval(self, start: datetime, end: datetime) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The bounds of an interval of time in the first column."""
        first, last = self.leading.interval(start, end)
        return self.led_by(first), self.led_by(last)

    def floor(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        """The bound. One of the first column alone is rounded down by that column's cursor; others are unchanged."""
        return self.led_by(self.leading.floor(value[0])) if len(value) == 1 else value

    def now(self, clock: Callable[[], object]) -> tuple[Any, ...]:
        """The bound for now. The clock may give only the first value, or a tuple."""
        moment = clock()
        if isinstance(moment, (tuple, list)):
            return self.parse(moment, what="now()")
        return self.led_by(self.leading.now(lambda: moment))

    @property
    def no_span(self) -> Span:
        """The span of length 0 of the first column."""
        return self.leading.no_span

    def check_span(self, name: str, span: object) -> None:
        """Refuse a span that cannot be added to a value of the first column.

        Raises:
            CursorTypeError: of the wrong type. ValueError: a negative one.
        """
        self.leading.check_span(name, span)

    def plus(self, value: tuple[Any, ...], span: Span) -> tuple[Any, ...]:
        """The bound whose first value is `span` later; the value itself for a span of 0."""
        later = self.leading.plus(value[0], span)
        return value if later == value[0] else self.led_by(later)

    def step(self, value: tuple[Any, ...], span: Span) -> tuple[Any, ...]:
        """The end of a slice of `span`, as for the first column."""
        later = self.leading.step(value[0], span)
        return value if later == value[0] else self.led_by(later)

    def minus(self, value: tuple[Any, ...], span: Span) -> tuple[Any, ...]:
        """The bound whose first value is `span` earlier; the value itself for a span of 0."""
        earlier = self.leading.minus(value[0], span)
        return value if earlier == value[0] else self.led_by(earlier)
