"""When a loop only counts its elements, because nothing else has to be done for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from airflow_resume.loops.deliveries import Deliveries
from airflow_resume.loops.keeping.loop_session import LoopSession
from airflow_resume.loops.plan import Plan
from airflow_resume.loops.remaining import Remaining
from airflow_resume.loops.wake_flag import WakeFlag

T = TypeVar("T")

_LEAST_QUIET = 0.01
"""In seconds. A shorter stretch is not worth the effort to begin it."""


class Counting(Generic[T]):
    """Begins and ends stretches: series of elements that are only counted.

    Args:
        plan: of the loop.
        session: of the loop, with its record.
        remaining: the elements that are not done.
        deliveries: the deliveries of the elements that are not only counted.
        wake_flag: ends a stretch.
    """

    def __init__(
        self,
        plan: Plan[Any],
        session: LoopSession,
        remaining: Remaining[T],
        deliveries: Deliveries,
        wake_flag: WakeFlag,
    ) -> None:
        self._plan, self._session, self._remaining, self._deliveries = plan, session, remaining, deliveries
        self._wake_flag = wake_flag
        self._is_possible = plan.delivery == "at_least_once" and plan.ack == "each"
        self.keeps_state = False
        """Whether bodies change the state. Then a copy of it is taken after each body."""

    def begin(self, in_hand: Callable[[], int]) -> Iterator[T] | None:
        """Begin a stretch, and return its elements; None if the next element cannot only be counted.

        Only a source that gives chunks has stretches. The caller iterates the elements, stops when the flag is set, and
        then calls `end`. Its function `in_hand` says which element is in hand.
        """
        cursor, ledger = self._remaining.cursor, self._session.ledger
        if cursor is None or not self._is_possible:
            return None
        self._wake_flag.clear()  # first, so that a flag that is set during the checks below is not lost
        now = self._plan.monotonic()
        self._session.stop_request.look(now)
        if self._session.stop_request.is_made or not ledger.frontier.is_plain:
            return None
        seconds = self._deliveries.quiet_seconds(now)
        if seconds < _LEAST_QUIET or not self._session.alarm.wake_in(seconds):
            return None
        ledger.begin_stretch(cursor, in_hand, keeps_state=self.keeps_state)
        return cursor.items

    def end(self) -> None:
        """End the stretch. Its last element is then in hand, as if it had been delivered by itself."""
        ledger = self._session.ledger
        self._session.count_stretch()
        stretch, ledger.stretch = ledger.stretch, None
        if stretch is not None and stretch.has_one_in_hand:
            before, after = stretch.cursor.advance()
            number = ledger.take(before, after)
            self._deliveries.in_hand = None if number is None else (number, before, after)

    def keep_state(self) -> None:
        """Note that the body changes the state. From this element on, a copy of it is taken after every element."""
        if not self.keeps_state:
            self.keeps_state = True
            self._wake_flag.append("")

    def end_for_good(self) -> None:
        """Begin no further stretch: the body uses something that each ack has to check."""
        self._is_possible = False
        self._wake_flag.append("")
