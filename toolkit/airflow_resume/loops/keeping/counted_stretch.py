"""Elements that are only counted: how many of them are done is computed when it is needed.

A computed number replaces the old one, and is never added to it. So if a time-out comes between two instructions, the
next computation begins from the same numbers again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from airflow_resume.loops.sources.chunks import ChunkCursor

if TYPE_CHECKING:
    from pydantic import JsonValue


class CountedStretch:
    """The elements of a chunk, from one element on.

    Args:
        cursor: of the chunk.
        in_hand: returns which element of the stretch is in hand, from 0 on; -1 before the first one.
        number: of the first element.
        count: how many elements of the loop were done before the first element.
        state: the state before the first element; None if no body changes the state. With a state, `keep` must be
            called whenever a body has finished.
    """

    def __init__(
        self,
        cursor: ChunkCursor[Any],
        in_hand: Callable[[], int],
        *,
        number: int,
        count: int,
        state: dict[str, JsonValue] | None = None,
    ) -> None:
        self.cursor = cursor
        self.first_passed, self.first_number, self.first_count = cursor.passed, number, count
        self._in_hand = in_hand
        # How many are done, and the state after them. They are one value, so that no time-out can come between them.
        self._kept = None if state is None else (0, state)

    def keep(self, done: int, state: dict[str, JsonValue]) -> None:
        """Note how many elements of the stretch are done, and the state after them."""
        self._kept = (done, state)

    @property
    def has_begun(self) -> bool:
        """Whether an element of the stretch was delivered."""
        return self._in_hand() >= 0

    @property
    def has_one_in_hand(self) -> bool:
        """Whether the element that was delivered last is not done."""
        return self._in_hand() >= self.done[0]

    @property
    def done(self) -> tuple[int, dict[str, JsonValue] | None]:
        """How many elements of the stretch are done, and the state after them."""
        return (max(self._in_hand(), 0), None) if self._kept is None else self._kept

    @property
    def count(self) -> int:
        """Elements of the loop that are done, in the stretch and before it. Changes nothing: another thread may ask."""
        return self.first_count + self.done[0]
