"""A loop in one attempt: it is opened, is left in one of several ways, and is closed once.

The methods `open`, `close` and `leave` wait for the store. On an event loop they are called in another thread.
"""

from __future__ import annotations

import logging
import threading
from functools import partial
from types import GeneratorType
from typing import Any, Generic, TypeVar
from weakref import ref

from airflow_resume import sink_body
from airflow_resume.errors import InvalidValueError, LoopError, ResumeError, SinkUnsafeError, SupersededError
from airflow_resume.loops.keeping.inner_session import InnerSession
from airflow_resume.loops.keeping.loop_session import LoopSession
from airflow_resume.loops.keeping.outer_session import OuterSession
from airflow_resume.loops.keeping.state import hand_of
from airflow_resume.loops.open_loop import OpenLoop
from airflow_resume.loops.plan import Plan
from airflow_resume.shown import get_logger

T = TypeVar("T")

log = get_logger(__name__)


class LoopRun(Generic[T]):
    """One loop in one attempt.

    Args:
        plan: what the user asked for.
        within: the loop around it.

    Raises:
        ValueError: an inner loop has options that only the outermost one may have.
    """

    def __init__(self, plan: Plan[T], within: LoopRun[Any] | None = None) -> None:
        if within is not None and (chosen := plan.keeping.chosen()):
            raise ValueError(
                f"{', '.join(chosen)} cannot be chosen for {plan.name!r}, which is kept in the record of the loop"
                f" around it.\nChoose it there."
            )
        self.plan = plan
        self.managed = False
        """Whether a `with` statement closes the loop."""
        self.awaited = False
        """Whether the loop runs on an event loop, which no method may block."""
        self.is_begun = False
        """Whether an iteration has begun; it may have ended."""
        self._within = within
        self._loop: OpenLoop[T] | None = None
        self._iterator: ref[object] | None = None
        self.exit: BaseException | str | None = None
        """The error, or the reason in words, after which the loop gives no more elements; None before that."""
        self._lock, self._closing = threading.Lock(), threading.RLock()
        self._opening: threading.Event | None = None
        self._is_left = False
        """Whether `leave` was called, perhaps while the loop is being opened."""

    @property
    def is_open(self) -> bool:
        """Whether the loop was opened; it may be closed by now."""
        return self._loop is not None

    @property
    def loop(self) -> OpenLoop[T]:
        """The loop that was opened; it may be closed by now.

        Raises:
            LoopError: it was not opened.
        """
        if self._loop is None:
            raise LoopError(
                f"The loop {self.plan.name!r} is not open yet.",
                "Iterate it, or use it in a `with` statement.",
                loop=self.plan.name,
            )
        return self._loop

    def open(self) -> None:
        """Read the record, check it, and write the claim. A second call does nothing."""
        if self.is_open:
            self.check_exit()
            return
        with self._lock:
            if self._is_left:
                raise LoopError(f"The loop {self.plan.name!r} was left before it was open.", loop=self.plan.name)
            self._opening = threading.Event()
        try:
            session: LoopSession
            if self._within is None:
                session = OuterSession.open(self.plan, self.end, self._is_abandoned)
            else:
                session = self._within._inner_session(self.plan)  # noqa: SLF001  of the same class
            try:
                # Inner loops are opened and finished too often for a line at INFO.
                self._loop = OpenLoop(self.plan, session, logging.INFO if self._within is None else logging.DEBUG)
            except BaseException as error:
                session.close(error)
                raise
            if self._within is None:
                session.keeper.check_use_with(partial(sink_body.check_connection, self))
            self._loop.log_opened()
        except ResumeError as error:
            self._told(error)
            raise
        finally:
            self._opening.set()

    def begin(self) -> None:
        """Note that an iteration begins, in the context of whoever iterates."""
        self.is_begun = True
        sink_body.begin(self)

    @property
    def is_over(self) -> bool:
        """Whether the loop was closed."""
        return self._loop is not None and self._loop.is_closed

    def harm(self, *, to_itself: bool) -> SinkUnsafeError | None:
        """Why the body of this loop may not use the connection of a sink; see `sink_body`."""
        loop = self._loop
        if loop is None:
            return None
        if hand_of(loop) is not None:
            return SinkUnsafeError(
                f"The workers of the map() of {self.plan.name!r} use the connection of a sink, which is that of one"
                " transaction.",
                "Let the function return rows, and write them in the body of the `for`.",
                problem="use",
            )
        if to_itself or self._within is not None or not (loop.in_hand() or loop.deliveries.is_given):
            return None
        return SinkUnsafeError(
            f"The loop {self.plan.name!r} has an element in hand, and a position of its own: it counts the element as"
            " done, although the rows that it writes with the connection of a sink around it may be rolled back. They"
            " would be lost.",
            "Give it within= the loop with the sink. In a window, use a plain loop, or split().",
            problem="use",
        )

    @property
    def has_sink(self) -> bool:
        """Whether the record is kept in a sink."""
        return self.plan.keeping.sink is not None if self._within is None else self._within.has_sink

    @property
    def place(self) -> str:
        """The name of the loop, after those of the loops around it."""
        return self.plan.name if self._within is None else f"{self._within.place}/{self.plan.name}"

    @property
    def key(self) -> str:
        """Of the record, which is that of the outermost loop."""
        return self.plan.key if self._within is None else self._within.key

    def _told(self, error: BaseException) -> None:
        """Note in an error, such as one of the source, which does not know it, in which loop it was raised."""
        if isinstance(error, LoopError):
            error.loop = error.loop or self.place
        elif isinstance(error, InvalidValueError):
            error.key = error.key or self.key

    def _inner_session(self, plan: Plan[Any]) -> InnerSession:
        """The session of a loop inside the element in hand.

        Raises:
            LoopError: there is no element in hand, or there are several.
        """
        if self.plan.delivery == "at_most_once" or self.plan.ack == "manual":
            raise LoopError(
                f"The loop {plan.name!r} cannot be within={self.plan.name!r}: a loop around another one acks each"
                f" element by itself, when its body has finished",
                loop=plan.name,
            )
        loop = self._loop
        in_hand = None if loop is None or loop.is_closed else loop.in_hand()
        if loop is None or in_hand is None:
            raise LoopError(
                f"The loop {plan.name!r} is within={self.plan.name!r}, which has no element in hand.",
                "Use it inside the body of that loop, which may not be a map().",
                loop=plan.name,
            )
        loop.counting.end_for_good()
        return InnerSession.open(plan, loop.session, self.plan.source.identity(*in_hand[1:]))

    # --- how it is left ---------------------------------------------------------------------------------------

    def close(self, error: BaseException | None) -> None:
        """Save what is acked. A second call does nothing.

        Raises:
            IncompleteLoopError: the source is exhausted, and some elements are not acked.
        """
        loop = self._loop
        if loop is None:
            return
        with self._closing:  # a second thread waits until all is saved
            if loop.is_closed:
                return
            try:
                loop.end(saves_state=error is None and (loop.exhausted or not self.is_begun))
            except BaseException as failure:
                error = failure
                raise
            finally:
                # After an interrupt before this line the loop is still open. `last_message` closes it.
                if not loop.is_closed:
                    loop.close(error)
        if error is None:
            loop.check_done()

    def leave(self, error: BaseException, seconds: float | None = None) -> None:
        """Close the loop, even if another thread is just opening it.

        Args:
            error: the error by which the loop is left.
            seconds: how long to wait for a store.
        """
        with self._lock:
            self._is_left, opening = True, self._opening
        if opening is not None:
            opening.wait(seconds)
        if self._loop is not None:
            self._loop.session.seconds = seconds
        self.close(error)

    def left_early(self) -> None:
        """Note that the iterator of the outermost loop was closed before its end, within a `with` statement."""
        if self._within is None and self._loop is not None and not self._loop.is_closed:
            self._loop.session.keeper.abandon()

    def left_by(self, error: BaseException) -> None:
        """Note the error by which the loop was left. It gives no more elements."""
        self._told(error)
        if isinstance(error, SupersededError):
            self.exit = error
        elif self.exit is None:
            self.exit = type(error).__name__

    def left_by_with(self) -> None:
        """Note that the `with` statement of the loop ends. After that, nothing that an iterator gives can be saved."""
        if self._loop is None or not self._loop.exhausted:
            self.exit = self.exit or "the end of its `with` statement"

    def check_exit(self) -> None:
        """Check that the loop may give another element. Without this, an error would look like the end of the source.

        Raises:
            As `OpenLoop.stop`, if it was stopped.
            SupersededError: the loop was left by this error.
            LoopError: the loop was left by another error.
        """
        if self.exit is None:
            return
        if self._loop is not None and self._loop.session.stop_request.is_made:
            self._loop.stop()
        if isinstance(self.exit, SupersededError):
            raise SupersededError(key=self.plan.key)
        raise LoopError(
            f"The loop {self.plan.name!r} was left by {self.exit}, so it gives nothing more. It is not done.",
            "A retry goes on there, and so does another checkpoint(...) of this name.",
            loop=self.plan.name,
        )

    # --- the end of the attempt -------------------------------------------------------------------------------

    def iterated_by(self, iterator: object) -> None:
        """Remember the iterator of the loop: a generator, or on an event loop the object that is used like one."""
        self._iterator = ref(iterator)

    def _is_abandoned(self) -> bool:
        return self._iterator is not None and self._iterator() is None and not self.managed

    def end(self, seconds: float) -> None:
        """Close the loop at the end of the attempt, when something such as a traceback still refers to its iterator."""
        self.exit = self.exit or "the end of its task"
        loop = self._loop
        if loop is not None and not loop.is_closed and (error := loop.unacked_error()) is not None:
            log.warning("%s `with` raises IncompleteLoopError for this.", error)
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
                if loop is not None:
                    loop.session.seconds = seconds
                iterator.close()
        finally:
            self.leave(GeneratorExit(), seconds)
