"""Whether the position and the state after the next element will fit into the record, checked before its body runs.

Theory of operation. A record that is too large fails when it is written. By then the work that it describes is done, so
the next attempt would do it again, and fail at the same place. So the size is checked before an element is delivered,
with the position after it. Small positions and states need no check. For larger ones the whole record is measured, and
measured again only when they have grown by `STEP`. `SPARE` bytes must be free then: for that growth, for elements that
are done ahead, for times and counts that get longer, and for a state that grows. After a body has made its state
larger, half of that is enough. So the next element is refused, before its body runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow_resume import values
from airflow_resume.errors import ValueTooLargeError
from airflow_resume.loops.loop_record import Level, LoopRecord

if TYPE_CHECKING:
    from pydantic import JsonValue

SPARE = 3_000
_SPARE_AFTER = SPARE // 2
STEP = 250

CheckRoom = Callable[[int, int, str], None]
"""Checks the room in the record. Takes the bytes to add, the bytes that must then be free, and what the bytes are of.
"""


class Growth:
    """How large the position and the state of one loop have become since the record was measured.

    Args:
        place: the name of the loop in messages.
        level: as the record has it.
    """

    def __init__(self, place: str, level: Level) -> None:
        self._place = place
        self._position, self._state = _size(level.pos), _size(level.state)
        self._measured = {SPARE: STEP, _SPARE_AFTER: STEP}
        """Up to which size nothing need be measured, for each number of bytes that must be free."""
        self._check_room: CheckRoom = lambda _more, _left, _what: None
        """The function of the session that measures the record; see `measure_with`."""

    def measure_with(self, check_room: CheckRoom) -> None:
        """Check the room in the record with this function. Without one, there is always enough room."""
        self._check_room = check_room

    def see_position(self, position: JsonValue, *, copies: int = 1) -> None:
        """Check the position after the element that is to be delivered.

        Args:
            position: as it will be saved.
            copies: how many times it may be saved; 2 if elements before it are not done yet.

        Raises:
            ValueTooLargeError: the record would be too large with it.
        """
        self._see(copies * _size(position), self._state, SPARE, "position")

    def see_next(self) -> None:
        """Check that the state may grow, as another element will be delivered.

        Raises:
            ValueTooLargeError: as `see_position`.
        """
        self._see(self._position, self._state, SPARE, "state")

    def see_state(self, size: int) -> None:
        """Check the size of the state after an element, in bytes.

        Raises:
            ValueTooLargeError: as `see_position`.
        """
        self._see(self._position, size, _SPARE_AFTER, "state")

    def has_seen(self, size: int) -> bool:
        """Whether a state of this size fits, and the next element too, without measuring the record."""
        size += self._position
        return size <= self._measured[SPARE] and size <= self._measured[_SPARE_AFTER]

    def _see(self, position: int, state: int, spare: int, what: str) -> None:
        size = position + state
        if size > self._measured[spare]:
            self._check_room(size - self._position - self._state, spare, f"the {what} of {self._place!r}")
            self._measured[spare] = size + STEP
        elif size + STEP < self._measured[spare]:
            self._measured[spare] = max(STEP, size + STEP)
        self._position, self._state = position, state


def _size(value: JsonValue) -> int:
    return len(json.dumps(value))


def check_room(record: LoopRecord, more: int, spare: int, what: str) -> None:
    """Check that the record may grow.

    Args:
        record: as it would be written now.
        more: how many bytes will be added.
        spare: how many bytes must be free after that.
        what: what the added bytes are, for messages.

    Raises:
        ValueTooLargeError: the record would be too large, even without its list of skips.
    """
    limit = values.MAX_BYTES - spare
    stored = record.to_json()
    while (size := _size(stored)) + more > limit and (shorter := record.with_less_history()) is not None:
        record, stored = shorter, shorter.to_json()
    if size + more <= limit:
        return
    raise ValueTooLargeError(
        f"The record {record.key!r} has {size:,} bytes. With {what} it would have about {size + more:,}, and"
        f" {limit:,} are allowed. {values.biggest_part(stored)}",
        values.KEEP_ELSEWHERE,
        key=record.key,
        size=size + more,
        limit=limit,
    )
