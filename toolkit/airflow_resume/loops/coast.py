"""A part of a loop in which elements are only counted, and what is to be known of them is worked out when asked for.

What is worked out is set, and never added to what was there: a time-out may come between any two instructions, and the
next one who asks begins from the same numbers again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow_resume.loops.chunks import Reel
from airflow_resume.loops.ledger import Ledger


class Coast:
    """From one element of a reel on.

    Args:
        reel: of the elements.
        ledger: where those done are counted.
        in_hand: which element of this part is in hand, from 0; less while there was none.
    """

    def __init__(self, reel: Reel[Any], ledger: Ledger, in_hand: Callable[[], int]) -> None:
        self._reel = reel
        self._ledger = ledger
        self._in_hand = in_hand
        self._passed, self._number, self._count = reel.passed, ledger.frontier.next_number, ledger.count

    @property
    def has_one_in_hand(self) -> bool:
        """Whether an element of this part was delivered."""
        return self._in_hand() >= 0

    @property
    def count(self) -> int:
        """Elements done, in this part and before it. Only looks: another thread may ask."""
        return self._count + max(self._in_hand(), 0)

    @property
    def is_settled(self) -> bool:
        """Whether all that are done are acked."""
        return self._ledger.count == self.count

    def settle(self) -> None:
        """Ack those before the one in hand."""
        done = self._in_hand()
        self._reel.move_to(self._passed + done)
        self._ledger.set_done(self._count + done, self._number + done, self._reel.here)
