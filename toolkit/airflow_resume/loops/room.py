"""Whether what a loop comes to next will fit into its record, asked before anything is done for it.

Theory of operation. A record that is too large is found out when it is written, and then the work that it tells of is
done already: the next attempt would do it again, and fail there again. So the size is looked at before an element is
delivered, with the position after it. Small positions and states need no look. Of larger ones the whole record is
measured, and not again before they have grown by `STEP`. `SPARE` bytes must be left then: for that, for what is done
ahead, for times and counts that get longer, and for a state that grows: where a body has made its state larger, half of
them suffice, so that it is the next element which is refused, before its body.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow_resume import values
from airflow_resume.errors import ValueTooLargeError
from airflow_resume.loops.record import Level, LoopRecord

if TYPE_CHECKING:
    from pydantic import JsonValue

SPARE = 3_000
_SPARE_AFTER = SPARE // 2
STEP = 250

CheckRoom = Callable[[int, int, str], None]
"""See that so many bytes more, of what is named, fit into the record, and so many are left then."""


class Growth:
    """How large the position and the state of one loop have become since the record was measured.

    Args:
        place: what the loop is called in messages.
        level: as the record has it.
    """

    def __init__(self, place: str, level: Level) -> None:
        self._place = place
        self._position, self._state = _size(level.pos), _size(level.state)
        self._measured = {SPARE: STEP, _SPARE_AFTER: STEP}
        """Up to which size nothing need be measured, by what must be left."""
        self.check_room: CheckRoom = lambda _more, _left, _what: None
        """By whoever has the record."""

    def see_position(self, position: JsonValue, *, copies: int = 1) -> None:
        """The position after the element that is to be delivered.

        Args:
            position: as it will be kept.
            copies: how often; twice where elements before it are not done yet.

        Raises:
            ValueTooLargeError: the record would be too large with it.
        """
        self._see(copies * _size(position), self._state, SPARE, "position")

    def see_next(self) -> None:
        """Another element will be delivered, which may make the state larger.

        Raises:
            ValueTooLargeError: as `see_position`.
        """
        self._see(self._position, self._state, SPARE, "state")

    def see_state(self, size: int) -> None:
        """The state of an element whose body has finished, in bytes.

        Raises:
            ValueTooLargeError: as `see_position`.
        """
        self._see(self._position, size, _SPARE_AFTER, "state")

    def has_seen(self, size: int) -> bool:
        """Whether a state of so many bytes has room, and the next element after it, with nothing to be measured."""
        size += self._position
        return size <= self._measured[SPARE] and size <= self._measured[_SPARE_AFTER]

    def _see(self, position: int, state: int, left: int, what: str) -> None:
        size = position + state
        if size > self._measured[left]:
            self.check_room(size - self._position - self._state, left, f"the {what} of {self._place!r}")
            self._measured[left] = size + STEP
        elif size + STEP < self._measured[left]:
            self._measured[left] = max(STEP, size + STEP)
        self._position, self._state = position, state


def _size(value: JsonValue) -> int:
    return len(json.dumps(value))


def check_room(record: LoopRecord, more: int, left: int, what: str) -> None:
    """See that the record may grow.

    Args:
        record: as it would be written now.
        more: bytes that are to come.
        left: bytes that must be left then.
        what: they are of.

    Raises:
        ValueTooLargeError: it may not, not even without the skips that it names.
    """
    limit = values.MAX_BYTES - left
    stored = record.to_json()
    while (size := _size(stored)) + more > limit and (shorter := record.with_less_history()) is not None:
        record, stored = shorter, shorter.to_json()
    if size + more <= limit:
        return
    raise ValueTooLargeError(
        f"The record {record.key!r} has {size:,} bytes, and would have some {size + more:,} with {what}, where"
        f" {limit:,} are allowed. {values.biggest_part(stored)}",
        values.KEEP_ELSEWHERE,
    )
