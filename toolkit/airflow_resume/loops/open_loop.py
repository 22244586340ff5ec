"""One loop in one attempt, from its opening until it is closed. It does not know how the loop is iterated.

`Remaining` gives the elements, `Deliveries` acks them, `Counting` makes a plain `for` faster, and the session saves
what is acked. This module has the rest: the element in hand, the state, the end of the source, and starting over.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from airflow_resume import values
from airflow_resume.attempt import how_to_start_over
from airflow_resume.errors import IncompleteLoopError, LoopError, SinkUnsafeError, SourceChangedError, TokenExpiredError
from airflow_resume.loops.counting import Counting
from airflow_resume.loops.deliveries import Deliveries
from airflow_resume.loops.keeping.loop_session import LoopSession
from airflow_resume.loops.keeping.state import hand_of, in_hand, refused_in_worker, refused_when_closed
from airflow_resume.loops.opening import Opening
from airflow_resume.loops.plan import Plan
from airflow_resume.loops.remaining import Remaining
from airflow_resume.loops.source_end import check_source_end
from airflow_resume.loops.sources.places import PlaceLostError
from airflow_resume.shown import get_logger

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")

log = get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Element:
    """The element in hand.

    Args:
        id: 32 hexadecimal digits, the same in every attempt. Use it as the key in a sink that can overwrite.
        number: how many elements were done before it was delivered, in all attempts.
    """

    id: str
    number: int


class OpenLoop(Generic[T]):
    """A loop that is open.

    Args:
        plan: what the user asked for.
        session: with the record.
        loudness: the level of the lines that every loop writes to the log.
    """

    def __init__(self, plan: Plan[T], session: LoopSession, loudness: int) -> None:
        self.plan, self.session, self.ledger = plan, session, session.ledger
        self._loudness = loudness
        self.wake_flag = session.alarm.new_flag()
        self.exhausted = self.ledger.done
        """Whether the source has no more elements, in this attempt or before."""
        self.is_closed = self._has_started_over = False
        self.deliveries = Deliveries(plan, session, self.wake_flag)
        is_stalled = session.opening is Opening.SKIP_STALLED
        stalled = f"{plan.policy.max_stalls} attempts died at this element" if is_stalled else None
        self.remaining = Remaining(plan.source, session, self.deliveries, stalled)
        self.counting = Counting(plan, session, self.remaining, self.deliveries, self.wake_flag)

    def log_opened(self) -> None:
        """Log the decision, and where the loop continues."""
        opening, count = self.session.opening, self.ledger.counted()
        changes = f" ({', '.join(self.session.changes)})" if "changed" in opening.value else ""
        log.log(
            self._loudness if opening is Opening.START else logging.INFO,
            "Loop %r: %s%s %s, try %d, %s",
            self.plan.name,
            opening.value,
            changes,
            count.done() if self.exhausted else count.opened(),
            self.session.attempt.try_number,
            count.details(),
        )

    # --- the element in hand ----------------------------------------------------------------------------------

    def in_hand(self) -> tuple[int, JsonValue, JsonValue] | None:
        """The number of the element in hand, and the positions before and after it; None if no element is in hand."""
        self.session.count_stretch()
        stretch = self.ledger.stretch
        if stretch is not None and stretch.has_begun:
            if not stretch.has_one_in_hand:
                return None
            return self.ledger.frontier.next_number, stretch.cursor.here, stretch.cursor.after_next
        return self.deliveries.in_hand

    def element(self) -> Element:
        """The element in hand. In a thread or task of a `map`, it is the element of that thread or task.

        Raises:
            LoopError: no element is in hand.
        """
        in_hand = self.in_hand()
        own = hand_of(self)
        if own is None and in_hand is None:
            raise LoopError(
                f"The loop {self.plan.name!r} has no element in hand.",
                "Use `element` in the body of the loop.",
                loop=self.plan.name,
            )
        around: Any = own[1] if own is not None else in_hand and in_hand[1:]
        path = [*self.session.path, *self.plan.source.identity(*around)]
        return Element(id=values.fingerprint(path, length=32), number=self.ledger.count)

    def set_in_hand(self, before: JsonValue, after: JsonValue) -> None:
        """Note that the element in hand, in the current context, is the one between these positions."""
        in_hand.set((self, (before, after), in_hand.get()))

    def ack_delivered(self) -> None:
        """Ack all elements that were delivered so far, with `ack="manual"`. The deliveries say whether to flush."""
        if self.ledger.done:  # code after the loop calls `ack` once more, although all is acked
            return
        must_flush = self.deliveries.ack_all()
        self.deliveries.flush_wanted = self._finish() if self.exhausted else must_flush

    # --- the state --------------------------------------------------------------------------------------------

    @property
    def state(self) -> dict[str, Any]:
        """The state, for a body to read or change.

        Raises:
            LoopError: the caller is a worker of the loop's `map`; or the loop is closed, and the state is set.
        """
        if hand_of(self) is not None:
            raise refused_in_worker(self.plan.name)
        self.counting.keep_state()
        return self.ledger.state.now

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        _ = self.state
        if self.is_closed:
            raise refused_when_closed(self.plan.name)
        self.ledger.state.replace(state)

    @property
    def connection(self) -> Any:
        """The connection of the sink.

        Raises:
            LoopError: there is none, or it may not be used here.
            SinkUnsafeError: the element in hand is acked already.
        """
        if hand_of(self) is not None:
            raise LoopError(
                f"The workers of the map() of {self.plan.name!r} use its connection, which is that of one transaction.",
                "Let the function return rows, and write them in the body of the `for`.",
                loop=self.plan.name,
            )
        if self.is_closed:
            raise LoopError(f"The loop {self.plan.name!r} is over, and its last transaction too.", loop=self.plan.name)
        keeper, deliveries = self.session.keeper, self.deliveries
        is_acked = self.plan.ack == "manual" and deliveries.in_hand is not None and not deliveries.unacked
        if keeper.has_sink and is_acked:
            raise SinkUnsafeError(
                f"The loop {self.plan.name!r} is used for writing after ack() in the same element, which is done then."
                " After an error, what is written now would be lost.",
                "Write first, and call ack() then.",
                problem="use",
            )
        return keeper.connection

    # --- the whole loop ---------------------------------------------------------------------------------------

    @property
    def must_wait_for_holes(self) -> bool:
        """Whether no element may be started while another one is in flight.

        This is so if the record is full of elements that were done out of order. It is also so if an earlier attempt
        died here, because then only one element may be in hand.
        """
        return self.ledger.frontier.is_full or self.session.keeper.is_careful(self.plan.monotonic())

    def stop(self) -> NoReturn:
        """Save, and leave the loop between two elements, as the task was told to stop. It waits for the store.

        Raises:
            As `LoopSession.stop`.
        """
        self.session.stop(f"the loop {self.plan.name!r} stopped {self.ledger.counted().opened()}")

    @contextmanager
    def recovering(self) -> Iterator[None]:
        """Start over, once, if the position is too old; or go back to the start of a page that has changed.

        The `while` loop around this block then reads the source again.

        Raises:
            SourceChangedError: a page has changed, and no row may be delivered twice.
        """
        try:
            yield
        except TokenExpiredError as error:
            if self._has_started_over or self.plan.policy.on_expired == "fail":
                raise
            self._has_started_over = True
            self.remaining.stalled = None  # the first element is not the one at which attempts died
            self.deliveries.unacked.clear()
            self.ledger.start_over(self.plan.source.first())
            self.session.keeper.is_dirty = True
            log.warning("Loop %r: started over, as the position is too old (%s)", self.plan.name, error)
        except PlaceLostError as lost:
            if self.plan.delivery == "at_most_once" or self.session.keeper.has_sink:
                start_over = how_to_start_over(is_task=self.session.attempt.has_identity)
                raise SourceChangedError(
                    f"A page of the loop {self.plan.name!r} does not begin with the {lost.done} rows that are done, so"
                    " it is unknown which rows are not. With a sink or with delivery='at_most_once', none is delivered"
                    " twice.",
                    f"To start over, {start_over}.",
                    loop=self.plan.name,
                    position=lost.position,
                ) from None
            self.remaining.stalled = None  # it is not known any more which element that was
            self.ledger.go_back(lost.position, lost.done)
            self.session.keeper.is_dirty = True

    def exhaust(self) -> bool:
        """Note that the source has no more elements. Returns whether to flush.

        Raises:
            IncompleteLoopError: as `check_source_end`.
        """
        check_source_end(self.plan, self.session, self.deliveries.unacked)
        self.exhausted = True
        return False if self.deliveries.unacked else self._finish()

    def _finish(self) -> bool:
        self.ledger.finish()
        return self.session.finished(self.plan.monotonic())

    def end(self, *, saves_state: bool) -> None:
        """Deliver no further element. If no element is in hand, the state belongs to the elements that are done."""
        self.session.count_stretch()
        self.session.alarm.remove(self.wake_flag)
        self.wake_flag.append("")  # so that an iterator that is used after this notices it
        if not saves_state or self.deliveries.unacked:
            self.session.left_early(has_work=self.deliveries.has_work)
        elif self.ledger.state.ack():
            self.session.keeper.is_dirty = True

    def close(self, error: BaseException | None) -> None:
        """Save what is acked. `error`: by which the loop was left."""
        self.is_closed = True
        self.ledger.state.close(self.plan.name)
        self.session.close(error)

    def check_done(self) -> None:
        """After the loop was closed without an error: log that it is done, if it is.

        Raises:
            IncompleteLoopError: see `unacked_error`.
        """
        if (error := self.unacked_error()) is not None:
            raise error
        if self.ledger.done:
            pace = self.deliveries.pace.line(self.ledger.counted(), self.plan.monotonic())
            log.log(self._loudness, "Loop %r: done, %s", self.plan.name, pace)

    def unacked_error(self) -> IncompleteLoopError | None:
        """The error for a source that is exhausted although some of its elements are not acked."""
        if not (self.exhausted and self.deliveries.unacked):
            return None
        return IncompleteLoopError(
            f"The loop {self.plan.name!r} delivered everything, but {len(self.deliveries.unacked)} elements were not"
            " acked, so it is not done.",
            "Call ack() when their work is finished, also after the last one.",
            problem="unacked",
            loop=self.plan.name,
            unacked=len(self.deliveries.unacked),
        )
