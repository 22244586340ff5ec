"""A part of a loop in which elements are only counted, and what is to be known of them is worked out when asked for.

What is worked out is set, and never added to what was there: a time-out may come between any two instructions, and the
next one who asks begins from the same numbers again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from airflow_resume.loops.chunks import Reel
from airflow_resume.loops.ledger import Ledger

if TYPE_CHECKING:
    from pydantic import JsonValue


class Coast:
    """From one element of a reel on.

    Args:
        reel: of the elements.
        ledger: where those done are counted.
        in_hand: which element of this part is in hand, from 0; less while there was none.
        keeps_state: whether bodies change the state; then `keep` is to be called when one has finished.
    """

    def __init__(
        self, reel: Reel[Any], ledger: Ledger, in_hand: Callable[[], int], *, keeps_state: bool = False
    ) -> None:
        self._reel = reel
        self._ledger = ledger
        self._in_hand = in_hand
        self._passed, self._number, self._count = reel.passed, ledger.frontier.next_number, ledger.count
        # How many are done and the state after them, in one: nothing can come between the two.
        self._kept: tuple[int, dict[str, JsonValue]] | None = (0, ledger.acked_state) if keeps_state else None

    def keep(self, done: int) -> bool:
        """So many are done, and the state is as it is now; False where it needs more than a glance."""
        state = self._ledger.glance_at_state()
        if state is None:
            return False
        self._kept = (done, state)
        return True

    @property
    def has_begun(self) -> bool:
        """Whether an element of this part was delivered."""
        return self._in_hand() >= 0

    @property
    def has_one_in_hand(self) -> bool:
        """Whether the element delivered last is not done."""
        return self._in_hand() >= self._done[0]

    @property
    def count(self) -> int:
        """Elements done, in this part and before it. Only looks: another thread may ask."""
        return self._count + self._done[0]

    @property
    def is_settled(self) -> bool:
        """Whether all that are done are acked."""
        return self._ledger.count == self.count

    def settle(self) -> None:
        """Ack those before the one in hand."""
        done, state = self._done
        self._reel.move_to(self._passed + done)
        self._ledger.set_done(self._count + done, self._number + done, self._reel.here, state)

    @property
    def _done(self) -> tuple[int, dict[str, JsonValue] | None]:
        return (max(self._in_hand(), 0), None) if self._kept is None else self._kept
