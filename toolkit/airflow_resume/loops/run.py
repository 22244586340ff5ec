"""One loop in one attempt: what happens to an element between its delivery and its ack. Knows no way of iterating.

Theory of operation. An element is *delivered* when it is yielded, *acked* when the consumer asks for the next one (or
calls `ack`), and *committed* when a store write that contains it has returned: committed <= acked <= delivered, always.
A body that is left by `break`, `return` or an exception never acks its element. Methods that return whether to flush
never wait for the store; `open`, `flush` and `close` do, and an event loop calls them in another thread.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeAlias, TypeVar
from weakref import ref

from airflow_resume import values
from airflow_resume.attempt import how_to_start_over
from airflow_resume.errors import (
    EmptySourceError,
    LoopError,
    ShortSourceError,
    SourceChangedError,
    SupersededError,
    TokenExpiredError,
    UnackedError,
)
from airflow_resume.loops.alarm import Bell
from airflow_resume.loops.chunks import Reel
from airflow_resume.loops.coast import Coast
from airflow_resume.loops.ledger import Ledger
from airflow_resume.loops.nested import Nested
from airflow_resume.loops.opening import Opening
from airflow_resume.loops.places import PlaceLostError, named
from airflow_resume.loops.plan import Plan
from airflow_resume.loops.progress import Count, Pace
from airflow_resume.loops.session import Session
from airflow_resume.loops.source import achunks_of, chunks_of, closed_at_end
from airflow_resume.loops.state import hand_of, in_hand, refused_in_worker, refused_when_closed

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")

log = logging.getLogger(__name__)

Todo: TypeAlias = "tuple[T, int, JsonValue, JsonValue]"
"""An element that is to be done: its number in this open, and the positions before and after it."""


@dataclass(frozen=True, kw_only=True)
class Element:
    """The element in hand.

    Args:
        id: 32 hexadecimal digits, the same in every attempt: the key for a sink that can overwrite.
        number: how many elements were done before it was delivered, in all attempts.
    """

    id: str
    number: int


class LoopRun(Generic[T]):
    """One loop in one attempt.

    Args:
        plan: what the user asked for.
        within: the loop around it.
    """

    def __init__(self, plan: Plan[T], within: LoopRun[Any] | None = None) -> None:
        self.plan = plan
        self.managed = False
        """Whether a `with` statement closes it."""
        self.awaited = False
        """Whether it runs on an event loop, which no method may hold up."""
        self.exhausted = False
        """Whether the source has no more elements, in this attempt or before."""
        self._within = within
        self._hold: Session | Nested | None = None
        self._closed = self._recovered = self._flush_wanted = False
        self._pace = Pace(n=0, now=0.0)
        self._stalled: str | None = None
        self._number: int | None = None
        self._before: JsonValue = None
        self._after: JsonValue = None
        self._failed: Exception | None = None
        self._unacked: list[tuple[int, JsonValue, JsonValue]] = []
        self.bell: Bell = deque(maxlen=1)
        """Rings when a loop that only counts must do more."""
        self._only_counts = plan.delivery == "at_least_once" and plan.ack == "each"
        self.keeps_state = False
        """Whether the body changes the state, of which every ack takes a copy."""
        self._reel: Reel[T] | None = None
        self._coast: Coast | None = None
        self.is_begun = False
        """Whether it is or was iterated."""
        self._iterator: ref[object] | None = None
        self._over: BaseException | str | None = None
        self._lock, self._closing = threading.Lock(), threading.RLock()
        self._opening: threading.Event | None = None
        self._is_left = False

    # --- opening and closing ----------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether it was opened; it may be closed again."""
        return self._hold is not None

    @property
    def hold(self) -> Session | Nested:
        """The hold on the record.

        Raises:
            LoopError: the loop is not open.
        """
        if self._hold is None:
            raise LoopError(
                f"The loop {self.plan.name!r} is not open yet.", "Iterate it, or use it in a `with` statement."
            )
        return self._hold

    @property
    def ledger(self) -> Ledger:
        """What is acked."""
        return self.hold.ledger

    def open(self) -> None:
        """Read, check and claim, once."""
        if self.is_open:
            self.check_over()
            return
        with self._lock:
            if self._is_left:
                raise LoopError(f"The loop {self.plan.name!r} was left before it was open.")
            self._opening = threading.Event()
        try:
            if self._within is not None:
                self._hold = self._within.nested(self.plan)
            else:
                self._hold = Session(self.plan, self.end, self._is_abandoned)
            self._begin(self._hold)
        finally:
            self._opening.set()

    def _begin(self, hold: Session | Nested) -> None:
        self.bell = hold.alarm.bell()
        hold.ledger.settle_own = self.settle
        self.exhausted = hold.ledger.done
        self._pace = Pace(n=hold.ledger.count, now=self.plan.monotonic())
        if hold.opening is Opening.SKIP_STALLED:
            self._stalled = f"{self.plan.policy.max_stalls} attempts died at this element"
        fresh = hold.opening is Opening.START
        log.log(self._loudness if fresh else logging.INFO, "Loop %r: %s", self.plan.name, self._opened(hold))

    def nested(self, plan: Plan[Any]) -> Nested:
        """The hold on a loop inside the element in hand.

        Raises:
            LoopError: there is no element in hand, or there are several.
        """
        if self.plan.delivery == "at_most_once" or self.plan.ack == "manual":
            raise LoopError(
                f"The loop {plan.name!r} cannot be within={self.plan.name!r}: a loop around another one acks each"
                f" element by itself, when its body has finished"
            )
        self.settle()
        if self._number is None or self._closed:
            raise LoopError(
                f"The loop {plan.name!r} is within={self.plan.name!r}, which has no element in hand.",
                "Use it inside the body of that loop, which may not be a map().",
            )
        self.count_no_more()
        return Nested(plan, self.hold, named(self._before))

    def close(self, error: BaseException | None) -> None:
        """Save what is acked, once.

        Raises:
            UnackedError: the source is exhausted, and not all was acked.
        """
        with self._closing:  # whoever comes second waits until it is saved
            if self._closed or self._hold is None:
                return
            try:
                self.ledger.settle()
                self._hold.alarm.remove(self.bell)
                self.bell.append("")  # an iterator that goes on after the end is to notice
                if error is None:
                    self._ack_state_after_the_loop()
            except BaseException as failure:
                error = failure
                raise
            finally:
                # An interrupt before this leaves the loop open, for the end of the task to close.
                if not self._closed:
                    self._closed = True
                    self.ledger.close_state(self.plan.name)
                    self._hold.close(error)
        if error is None and self._unacked and self.exhausted:
            raise UnackedError(
                f"The loop {self.plan.name!r} delivered everything, but {len(self._unacked)} elements were not acked,"
                " so it is not done.",
                "Call ack() when their work is finished, also after the last one.",
            )
        if self.ledger.done and error is None:
            log.log(self._loudness, "Loop %r: done, %s", self.plan.name, self._pace.line(self._count(), self._clock()))

    def leave(self, error: BaseException, seconds: float | None = None) -> None:
        """Close the loop, also when it is just being opened in another thread.

        Args:
            error: it is left by.
            seconds: how long to wait for a store.
        """
        with self._lock:
            self._is_left, opening = True, self._opening
        if opening is not None:
            opening.wait(seconds)
        if self._hold is not None:
            self._hold.seconds = seconds
        self.close(error)

    def iterated_by(self, iterator: object) -> None:
        """By a generator, or by what stands for one on an event loop."""
        self._iterator = ref(iterator)

    def _is_abandoned(self) -> bool:
        return self._iterator is not None and self._iterator() is None and not self.managed

    def end(self, seconds: float) -> None:
        """The attempt ends, and nobody has closed the loop: somebody refers to its iterator, such as a traceback."""
        self._over = self._over or "the end of its task"
        if self.exhausted and self._unacked and not self._closed:
            log.warning(
                "The loop %r delivered everything, but %d elements were not acked, so it is not done\n%s",
                self.plan.name,
                len(self._unacked),
                "Call ack() when their work is finished, also after the last one. `with` raises UnackedError for this.",
            )
        iterator = None if self._iterator is None else self._iterator()
        try:
            if isinstance(iterator, GeneratorType):
                if iterator.gi_running:
                    log.warning(
                        "The loop %r still runs in another thread at the end of its task, so only what was written"
                        " until now is kept",
                        self.plan.name,
                    )
                    return
                if self._hold is not None:
                    self._hold.seconds = seconds
                iterator.close()
        finally:
            self.leave(GeneratorExit(), seconds)

    def is_over(self, error: BaseException) -> None:
        """The loop was left by an error, and has nothing more to give."""
        if isinstance(error, SupersededError):
            self._over = error
        elif self._over is None:
            self._over = type(error).__name__

    def leaves_with(self) -> None:
        """The `with` statement around it ends; an iterator that is asked after that could save nothing."""
        if not self.exhausted:
            self._over = self._over or "the end of its `with` statement"

    def check_over(self) -> None:
        """See that the next element is asked for of a loop that is not over by an error, which would look like its end.

        Raises:
            As `stop`, if it was stopped.
            SupersededError: that was the error.
            LoopError: it was another one.
        """
        if self._over is None:
            return
        if self._hold is not None and self.stop_asked:
            self.stop()
        if isinstance(self._over, SupersededError):
            raise SupersededError
        raise LoopError(
            f"The loop {self.plan.name!r} was left by {self._over}, so it gives nothing more. It is not done.",
            "A retry goes on there, and so does another checkpoint(...) of this name.",
        )

    # --- the state --------------------------------------------------------------------------------------------

    def use_state(self) -> dict[str, Any]:
        """The state, for a body to read or change.

        Raises:
            LoopError: the loop is not open, or the caller is a worker of its map.
        """
        ledger = self.ledger
        if hand_of(self) is not None:
            raise refused_in_worker(self.plan.name)
        if not self.keeps_state:  # from this element on every ack copies it
            self.keeps_state = True
            self.bell.append("")
        return ledger.state

    def set_state(self, state: dict[str, Any]) -> None:
        """Have another one.

        Raises:
            LoopError: as `use_state`; or the loop is closed.
        """
        self.use_state()
        if self._closed:
            raise refused_when_closed(self.plan.name)
        self.ledger.state = state

    def share_state(self) -> None:
        """Workers run from now on."""
        self.ledger.share_state(self, self.plan.name)

    def _ack_state_after_the_loop(self) -> None:
        """What is in it when no element is in hand belongs to all those that are done."""
        no_element_in_hand = (self.exhausted or not self.is_begun) and not self._unacked
        if no_element_in_hand and self.ledger.ack_state():
            self.hold.keeper.touch()

    # --- one element ------------------------------------------------------------------------------------------

    def todo(self, *, in_order: bool = True) -> Generator[Todo[T], None, None]:
        """The elements that are not done.

        Args:
            in_order: each is done before the next one is asked for.
        """
        before = self.ledger.frontier.position
        chunks = chunks_of(self.plan.source, before)
        if chunks is None:
            yield from self._todo_one_by_one(before, in_order=in_order)
            return
        try:
            for chunk in chunks:
                self.ledger.foresee(chunk.end, in_order=in_order)
                self._reel = reel = Reel(chunk, before)
                yield from self._todo_of(reel)
                reel.raise_failure()
                before = reel.here
        finally:
            self._close_reel()

    def _close_reel(self) -> None:
        """The source is closed with the loop, not with whatever refers to it: on Python 3.10 a frame may."""
        self.settle()
        if self._reel is not None:
            self._reel.close()
        self._reel = self._coast = None

    def _todo_of(self, reel: Reel[T]) -> Iterator[Todo[T]]:
        for element in reel.items:
            before, after = _passed(reel)
            number = self._take(before, after)
            if number is not None:
                yield element, number, before, after

    def _todo_one_by_one(self, before: JsonValue, *, in_order: bool) -> Iterator[Todo[T]]:
        for element, after in self.plan.source.elements(before):
            self.ledger.foresee(after, in_order=in_order)
            number = self._take(before, after)
            if number is not None:
                yield element, number, before, after
            before = after

    async def atodo(self, *, in_order: bool = True) -> AsyncGenerator[Todo[T], None]:
        """The same, for `async for`."""
        before = self.ledger.frontier.position
        chunks = achunks_of(self.plan.source, before)
        if chunks is not None:
            try:
                async with closed_at_end(chunks):
                    async for chunk in chunks:
                        self.ledger.foresee(chunk.end, in_order=in_order)
                        self._reel = reel = Reel(chunk, before)
                        for todo in self._todo_of(reel):
                            yield todo
                        reel.raise_failure()
                        before = reel.here
            finally:
                self._close_reel()
            return
        async with closed_at_end(self.plan.source.aelements(before)) as elements:
            async for element, after in elements:
                self.ledger.foresee(after, in_order=in_order)
                number = self._take(before, after)
                if number is not None:
                    yield element, number, before, after
                before = after

    def _take(self, before: JsonValue, after: JsonValue) -> int | None:
        """The number of the next element of the source; None when it is passed over."""
        number = self.ledger.take(before, after)
        if number is None or self._stalled is None:
            return number
        reason, self._stalled = self._stalled, None
        self.skip(number, before, after, reason)
        return None

    # --- elements that need only be counted -------------------------------------------------------------------

    def coast(self, in_hand: Callable[[], int]) -> Iterator[T] | None:
        """The next elements, as long as none needs more than to be counted; None while one does.

        Whoever iterates them says by `in_hand` which one is in hand, stops when the bell rings, and then `land`s.
        """
        reel = self._reel
        if reel is None or not self._only_counts:
            return None
        self.bell.clear()  # before the questions: whoever rings makes one of them come out differently
        if self.stop_asked or not self.ledger.frontier.is_plain:
            return None
        now = self._clock()
        lull = min(self.hold.keeper.lull(now), self._pace.until_line(now))
        if lull < _LEAST_LULL or not self.hold.alarm.ring_in(lull):
            return None
        self._coast = Coast(reel, self.ledger, in_hand, keeps_state=self.keeps_state)
        return reel.items

    def keep_state(self, done: int) -> bool:
        """So many elements of this part are done; False where the state needs more than a glance, and so an `ack`."""
        coast = self._coast
        return coast is not None and coast.keep(done)

    def land(self) -> None:
        """Stop counting; the last element is in hand, as if it had been delivered by itself."""
        self.settle()
        coast, self._coast = self._coast, None
        if coast is not None and coast.has_one_in_hand and self._reel is not None:
            self._before, self._after = _passed(self._reel)
            self._number = self.ledger.take(self._before, self._after)

    def settle(self) -> None:
        """Count what the loop has coasted past. To be called before anything about the loop is looked at."""
        coast, reel = self._coast, self._reel
        if coast is None or reel is None or not coast.has_begun:
            return
        if not coast.is_settled:
            self.hold.keeper.touch()
            coast.settle()
        self._number = self.ledger.frontier.next_number if coast.has_one_in_hand else None
        self._before = reel.here

    @property
    def count(self) -> int:
        """Elements done, in all attempts."""
        coast = self._coast
        count = self.ledger.count if coast is None else coast.count
        # Another thread may ask, and what it looked at be of the past by now.
        return count if self._coast is coast else self.count

    def count_no_more(self) -> None:
        """The body uses what every ack has to look at: from this element on each is acked by itself."""
        self._only_counts = False
        self.bell.append("")

    # --- one element after the other --------------------------------------------------------------------------

    def deliver(self, number: int, before: JsonValue, after: JsonValue) -> bool:
        """The element will be delivered; whether to flush first."""
        self._number, self._before, self._after = number, before, after
        if self.plan.ack == "manual":
            self._unacked.append((number, before, after))
        return self.before_work(number, before, after)

    def take_back(self) -> bool:
        """The consumer asked for the next element; whether to flush before it gets one."""
        self.check_over()
        number, error = self._number, self._failed
        self._number = self._failed = None
        if number is None or self.plan.ack == "manual":
            return self._takes_wanted_flush()
        if error is not None:
            return self.skip(number, self._before, self._after, error)
        return self.after_work(number, self._before, self._after)

    def before_work(self, number: int, before: JsonValue, after: JsonValue) -> bool:
        """Work on the element will begin; whether to flush first."""
        if self.plan.delivery == "at_most_once":
            self.ack(number, before, after)
            return True
        return False

    def after_work(self, number: int, before: JsonValue, after: JsonValue) -> bool:
        """The work of the element is finished, and what came of it was taken; whether to flush."""
        self.check_over()
        return False if self.plan.delivery == "at_most_once" else self.ack(number, before, after)

    def ack(self, number: int, before: JsonValue, after: JsonValue) -> bool:
        """Count the element as done; whether to flush."""
        self.ledger.ack(number, before, after)
        return self._noted()

    def skip(self, number: int, before: JsonValue, after: JsonValue, error: Exception | str) -> bool:
        """The element is passed over; whether to flush."""
        self.ledger.skip(number, before, after, error)
        log.warning("Loop %r: skipped %s %r: %s", self.plan.name, self.plan.source.noun, named(before), error)
        return self._noted()

    def may_skip(self, error: Exception) -> bool:
        """Whether the policy passes over an element whose work ended with this error."""
        self.settle()
        return self.plan.skip is not None and self.plan.skip.covers(error, skipped=self.ledger.skipped)

    def fail_in_hand(self, error: Exception) -> None:
        """The element in hand is to be passed over when the next one is asked for."""
        self._failed = error
        self.bell.append("")

    def ack_delivered(self) -> None:
        """All elements delivered so far are done. `flush_if_wanted` is to be called when the store may be waited for.

        Raises:
            LoopError: the loop acks by itself.
        """
        if self.plan.ack != "manual":
            raise LoopError(f"The loop {self.plan.name!r} acks every element by itself.", "Use ack='manual' for ack().")
        if self.ledger.done:  # what is after the loop acks once more, and nothing was left
            return
        for number, before, after in self._unacked:
            self.ledger.ack(number, before, after)
        self._unacked.clear()
        must_flush = self._noted()
        self._flush_wanted = self._finish() if self.exhausted else must_flush

    def flush_if_wanted(self) -> None:
        """Write what `ack_delivered` acked, if the durability asks for it."""
        if self._takes_wanted_flush():
            self.flush()

    def _takes_wanted_flush(self) -> bool:
        wanted, self._flush_wanted = self._flush_wanted, False
        return wanted

    @property
    def waits_for_acks(self) -> bool:
        """Whether there are delivered elements that only `ack_delivered` will ack."""
        return bool(self._unacked)

    # --- the whole loop ---------------------------------------------------------------------------------------

    def exhaust(self) -> bool:
        """The source has no more elements; whether to flush.

        Raises:
            EmptySourceError: it never had one, and that is no end.
            ShortSourceError: it ended too early.
        """
        is_empty = self.ledger.rows == 0 or (self.ledger.count == 0 and not self._unacked)
        if self.plan.on_empty == "fail" and is_empty:
            raise EmptySourceError(
                f"The source of the loop {self.plan.name!r} had no {self.plan.source.noun} at all.",
                "If that may be so, leave on_empty='fail' out; if not, see what the fetch was answered.",
            )
        self._look_for_shortfall()
        self.exhausted = True
        return False if self._unacked else self._finish()

    def _look_for_shortfall(self) -> None:
        """See whether all has come that the source had announced.

        Raises:
            ShortSourceError: it has not, and `on_short` does not take that for the end.
        """
        ledger, choice = self.ledger, self.plan.on_short
        position = self._unacked[-1][2] if self._unacked else ledger.frontier.position
        short, before = self.plan.source.shortfall(position), ledger.short
        if short is None and ledger.frontier.next_number == 0:  # nothing came, so what was found before holds
            short = before
        ledger.short = short
        if short is None:
            return
        said = f"The source of the loop {self.plan.name!r} ended after {short} that it had announced"
        if choice == "warn" or (choice == "retry" and short == before):
            log.warning("%s; that is taken for its end", said)
            return
        self.hold.keeper.touch()
        start_over = how_to_start_over(is_task=self.hold.attempt.has_identity)
        raise ShortSourceError(
            f"{said}.",
            f"To start over, {start_over}; or say on_short='warn' if that may be so."
            if choice == "fail"
            else "A retry asks again, and takes it for the end if nothing more has come; on_short='warn' does so at"
            " once, and 'fail' never does.",
        )

    @property
    def is_careful(self) -> bool:
        """Whether only one element may be in hand, as an attempt before this one died here."""
        return self.hold.keeper.is_careful(self._clock())

    @property
    def must_wait_for_holes(self) -> bool:
        """Whether nothing may be started while anything is in flight: the record is full of holes, or `is_careful`."""
        return self.ledger.frontier.is_full or self.is_careful

    def flush(self) -> None:
        """Write what is acked; when this returns, it is kept."""
        self.hold.keeper.flush()

    @property
    def stop_asked(self) -> bool:
        """Whether the loop must `stop` before another element is delivered."""
        return self.hold.stop_asked

    def stop(self) -> NoReturn:
        """Save, and leave the loop between two elements, as the task was told to stop. It waits for the store.

        Raises:
            As `Session.stop`.
        """
        self.hold.stop(f"the loop {self.plan.name!r} stopped {self._count().opened()}")

    @contextmanager
    def recovering(self) -> Iterator[None]:
        """Start over, once, when the position turns out to be too old, or go back to the start of a page that changed.

        The loop around this goes through it again.

        Raises:
            SourceChangedError: such a page, where no row may be delivered twice.
        """
        try:
            yield
        except TokenExpiredError as error:
            if self._recovered or self.plan.source.on_expired == "fail":
                raise
            self._recovered = True
            self._stalled = None  # the first element is not the one at which attempts died
            self._unacked.clear()
            self.ledger.start_over(self.plan.source.first())
            self.hold.keeper.touch()
            log.warning("Loop %r: started over, as the position is too old (%s)", self.plan.name, error)
        except PlaceLostError as lost:
            if self.plan.delivery == "at_most_once":
                raise SourceChangedError(
                    f"A page of the loop {self.plan.name!r} has not the same rows in front as the {lost.done} that are"
                    " done, so which of them are left is not known, and delivery='at_most_once' delivers none twice.",
                    f"To start over, {how_to_start_over(is_task=self.hold.attempt.has_identity)}.",
                ) from None
            self._stalled = None  # which element that was is not known any more
            self.ledger.go_back(lost.position, lost.done)
            self.hold.keeper.touch()

    def element(self) -> Element:
        """The element in hand: in a thread or task of a map, its own."""
        _ = self.hold  # or it is not open
        self.settle()
        here = hand_of(self)
        if here is not None:
            return self._element(here[1])
        if self._number is None:
            raise LoopError(f"The loop {self.plan.name!r} has no element in hand")
        return self._element(self._before)

    def set_in_hand(self, before: JsonValue) -> None:
        """In the current context, the element in hand is the one at this position."""
        in_hand.set((self, before, in_hand.get()))

    # --- parts ------------------------------------------------------------------------------------------------

    def _finish(self) -> bool:
        self.ledger.finish()
        return self.hold.finished(self._clock())

    def _noted(self) -> bool:
        now = self._clock()
        if self._pace.is_line_due(now):
            log.info("Loop %r: %s", self.plan.name, self._pace.line(self._count(), now))
        return self.hold.keeper.note(now)

    def _element(self, before: JsonValue) -> Element:
        return Element(id=values.fingerprint([*self.hold.path, named(before)], length=32), number=self.ledger.count)

    def _count(self) -> Count:
        return self.ledger.counted()

    def _opened(self, hold: Session | Nested) -> str:
        """What the decision was, and where that is."""
        changes = f" ({', '.join(hold.changes)})" if "changed" in hold.opening.value else ""
        count = self._count()
        where = f"{count.done()}" if self.exhausted else count.opened()
        return f"{hold.opening.value}{changes} {where}, try {hold.attempt.try_number}, {count.details()}"

    @property
    def _loudness(self) -> int:
        """Inner loops are opened and done too often for a person to read of it."""
        return logging.INFO if self._within is None else logging.DEBUG

    def _clock(self) -> float:
        return self.plan.monotonic()


_LEAST_LULL = 0.01
"""Seconds for which it is worth while to coast."""


def _passed(reel: Reel[Any]) -> tuple[JsonValue, JsonValue]:
    """Pass the next element; the positions before and after it."""
    before = reel.here
    reel.move_to(reel.passed + 1)
    return before, reel.here
