"""Which elements of a loop are delivered, and which of them are acked.

Theory of operation. An element is *delivered* when it is yielded, *acked* when the consumer asks for the next one (or
calls `ack`), and *committed* when a store write that contains it has returned: committed <= acked <= delivered, always.
A body that is left by `break`, `return` or an exception never acks its element. Methods that return whether to flush
never wait for the store.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from airflow_resume.loops.keeping.loop_session import LoopSession
from airflow_resume.loops.plan import Plan
from airflow_resume.loops.progress import Pace
from airflow_resume.loops.sources.places import named
from airflow_resume.loops.wake_flag import WakeFlag
from airflow_resume.shown import get_logger

if TYPE_CHECKING:
    from pydantic import JsonValue

log = get_logger(__name__)


class Deliveries:
    """The deliveries of one loop in one attempt.

    Args:
        plan: of the loop.
        session: of the loop, with its record.
        wake_flag: of the loop; it is set when there is more to do than to count acks.
    """

    def __init__(self, plan: Plan[Any], session: LoopSession, wake_flag: WakeFlag) -> None:
        self._plan, self._session, self._ledger, self._wake_flag = plan, session, session.ledger, wake_flag
        self.in_hand: tuple[int, JsonValue, JsonValue] | None = None
        """The element in hand (delivered, and not acked yet): its number, and the positions before and after it. While
        elements are only counted, the ledger is ahead of this."""
        self.unacked: list[tuple[int, JsonValue, JsonValue]] = []
        """With `ack="manual"`, the elements that were delivered since the last `ack`."""
        self.is_given = False
        """Whether the consumer of a `map` has a result in hand."""
        self.flush_wanted = False
        """Whether a manual `ack` must be written before the next element is delivered."""
        self.pace = Pace(n=session.ledger.count, now=plan.monotonic())
        self._failed: Exception | None = None
        self._quiet_until = -inf

    @property
    def has_work(self) -> bool:
        """Whether there may be work of an element that is not acked."""
        return bool(self.in_hand or self.unacked or self.is_given)

    def deliver(self, number: int, before: JsonValue, after: JsonValue) -> bool:
        """Note that the element will be delivered to the body of a `for`. Returns whether to flush first."""
        self.in_hand = (number, before, after)
        if self._plan.ack == "manual":
            self.unacked.append((number, before, after))
        return self.before_work(number, before, after)

    def take_back(self) -> bool:
        """Ack or skip the element in hand, as the consumer asked for the next one. Returns whether to flush first.

        With `ack="manual"` nothing is acked here.
        """
        in_hand, error = self.in_hand, self._failed
        self.in_hand = self._failed = None
        if self._plan.ack == "manual" and self._session.stop_request.is_watched:
            self._session.stop_request.look(self._plan.monotonic())
        if in_hand is None or self._plan.ack == "manual":
            return self.takes_wanted_flush()
        if error is not None:
            return self.skip(*in_hand, error)
        return self.after_work(*in_hand)

    def before_work(self, number: int, before: JsonValue, after: JsonValue) -> bool:
        """Note that work on the element will begin. Returns whether to flush first."""
        if self._plan.delivery == "at_most_once":
            self._ack(number, before, after)
            return True
        return False

    def after_work(self, number: int, before: JsonValue, after: JsonValue) -> bool:
        """Ack the element, unless it was acked before: its work is finished. Returns whether to flush."""
        return False if self._plan.delivery == "at_most_once" else self._ack(number, before, after)

    def _ack(self, number: int, before: JsonValue, after: JsonValue) -> bool:
        self._ledger.ack(number, before, after)
        return self._note_ack()

    def ack_all(self) -> bool:
        """Ack all elements that were delivered so far. Returns whether to flush."""
        for number, before, after in self.unacked:
            self._ledger.ack(number, before, after)
        self.unacked.clear()
        return self._note_ack()

    def takes_wanted_flush(self) -> bool:
        """Whether a flush is wanted. The caller does it, so a second call returns False."""
        wanted, self.flush_wanted = self.flush_wanted, False
        return wanted

    def skip(self, number: int, before: JsonValue, after: JsonValue, error: Exception | str) -> bool:
        """Ack the element as skipped. Returns whether to flush."""
        self._ledger.skip(number, before, after, error)
        log.warning("Loop %r: skipped %s %r: %s", self._plan.name, self._plan.source.noun, named(before), error)
        return self._note_ack()

    def may_skip(self, error: Exception) -> bool:
        """Whether the policy skips an element whose work ended with this error."""
        return self._plan.skip is not None and self._plan.skip.covers(error, skipped=self._ledger.skipped)

    def fail_in_hand(self, error: Exception) -> None:
        """Have the element in hand skipped when the consumer asks for the next one."""
        self._failed = error
        self._wake_flag.append("")

    def quiet_seconds(self, now: float) -> float:
        """For how many seconds acks need only be counted: no write, no line in the log and no look is due."""
        session = self._session
        return min(
            session.keeper.quiet_seconds(now), self.pace.until_line(now), session.stop_request.quiet_seconds(now)
        )

    def _note_ack(self) -> bool:
        """Note that something was acked. Returns whether to flush."""
        now, keeper = self._plan.monotonic(), self._session.keeper
        if now < self._quiet_until and not self._wake_flag:
            keeper.is_dirty = True
            return False
        self._wake_flag.clear()  # first, so that a flag that is set during the checks below is not lost
        if self.pace.is_line_due(now):
            log.info("Loop %r: %s", self._plan.name, self.pace.line(self._ledger.counted(), now))
        self._session.stop_request.look(now)
        must_flush = keeper.note(now)
        self._quiet_until = now + self.quiet_seconds(now)
        return must_flush
