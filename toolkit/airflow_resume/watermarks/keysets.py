"""The cursor over several columns that are in order only together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_resume.watermarks.cursor_type import CursorType, refusal

if TYPE_CHECKING:
    from pydantic import JsonValue


@dataclass(frozen=True)
class KeysetCursor(CursorType[tuple[Any, ...]]):
    """Several values, compared from the first on: `(updated_at, id)`, where many rows have one `updated_at`.

    It is not rounded: to lower the first value would leave the others without their meaning.

    Args:
        parts: the cursors of the columns, at least two.
    """

    type: ClassVar[str] = "keyset"

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

    def definition(self) -> dict[str, JsonValue]:
        """The definitions of the parts."""
        return {"type": self.type, "parts": [part.definition() for part in self.parts]}

    def parse(self, value: object, *, what: str) -> tuple[Any, ...]:
        """The values as a tuple, each as its part reads it.

        Raises:
            CursorTypeError: not as many values as parts, or one of them not of its part's type.
        """
        names = ", ".join(part.type for part in self.parts)
        if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
            raise refusal(value, f"Give a tuple ({names}).", what=what)
        if len(value) != len(self.parts):
            raise refusal(value, f"Give {len(self.parts)}: ({names}).", what=what, why=f"It has {len(value)} values.")
        pairs = zip(self.parts, value, strict=True)
        return tuple(part.parse(item, what=f"{what}[{at}]") for at, (part, item) in enumerate(pairs))

    def dump(self, value: tuple[Any, ...]) -> list[JsonValue]:
        """The values as their parts keep them."""
        return [part.dump(item) for part, item in zip(self.parts, value, strict=True)]

    def present(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        """The values as their parts present them."""
        return tuple(part.present(item) for part, item in zip(self.parts, value, strict=True))
