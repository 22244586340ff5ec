"""The hold of this attempt on the record of an outermost loop: claimed, kept, and given back."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias

from airflow_resume.attempt import Attempt, how_to_start_over
from airflow_resume.channel import LatestWriter, in_process_supervisor, task_channel
from airflow_resume.errors import (
    DanglingReferenceError,
    LoopStoppedError,
    ResumeError,
    SupersededError,
    UnreadableRecordError,
)
from airflow_resume.given import GivenStore, given
from airflow_resume.killed import Ending, ending_of_kill, learn_about_kill, told_of_kill
from airflow_resume.last_message import before_last_message, end_what_is_abandoned
from airflow_resume.loops.keeper import Keeper
from airflow_resume.loops.ledger import Ledger
from airflow_resume.loops.opening import UNREADABLE, Left, Opening, decide_opening, facts_of, opening_error, stalls_of
from airflow_resume.loops.plan import Plan
from airflow_resume.loops.progress import Pace, in_words
from airflow_resume.loops.record import Level, LoopRecord, Opened
from airflow_resume.loops.room import check_room
from airflow_resume.loops.source import Source
from airflow_resume.loops.told import Meter
from airflow_resume.record import Slot
from airflow_resume.reschedule import reschedule
from airflow_resume.store import StateStore, channel_of, open_task_store

if TYPE_CHECKING:
    from datetime import datetime

    from pydantic import JsonValue

log = logging.getLogger(__name__)

Unreadable: TypeAlias = UnreadableRecordError | DanglingReferenceError
"""What is left of a record that was lost."""
_UNREADABLE = (UnreadableRecordError, DanglingReferenceError)


class Session:
    """Opened when made, by two store calls: read, check, and claim by a write before anything is delivered.

    Raises:
        LoopError, UnreadableRecordError: as the decision has it; nothing was touched.
        SupersededError: the claim was refused, so another attempt has replaced this one.
    """

    def __init__(self, plan: Plan[Any], end: Callable[[float], object], is_abandoned: Callable[[], bool]) -> None:
        store, self.attempt = open_task_store(plan.keeping.context, plan.keeping.store)
        if plan.keeping.store is not None:
            store = given(store)
        end_what_is_abandoned(owner=self.attempt.process, key=plan.key)
        self.seconds: float | None = None
        """How long a write may take when the loop is closed; None while there is no hurry."""
        self._pid = os.getpid()
        self._claims = False
        self._at_end = ExitStack()
        at_end = before_last_message(end, owner=self.attempt.process, key=plan.key, is_abandoned=is_abandoned)
        self._at_end.callback(at_end.remove)
        try:
            self._open(plan, store)
        except BaseException as error:
            self._at_end.close()
            if self._claims and not isinstance(error, ResumeError):
                self._note_left_at_once()
            raise

    def _open(self, plan: Plan[Any], store: StateStore) -> None:
        self._channel = channel_of(store)
        self._plan = plan
        self._slot = Slot(store, plan.key, LoopRecord)
        found = self._read()
        left = _left(found, plan, self.attempt)
        self.opening = decide_opening(left, plan.policy)
        """The decision."""
        self.changes: Sequence[str] = ()
        """What about the source is not as an earlier attempt had it."""
        if isinstance(left, Left):
            self.changes = left.changes
            if left.damaged is not None and self.opening in UNREADABLE:
                found = self._slot.unreadable(left.damaged)
            elif self.opening.fails and isinstance(found, LoopRecord):
                raise opening_error(self.opening, plan.name, found, left, is_task=self.attempt.has_identity)
        if isinstance(found, _UNREADABLE):
            if self.opening.fails:
                raise found
            log.warning("Loop %r: %s", plan.name, found)
            found = None
        if self.opening is Opening.NOTHING_LEFT and plan.keeping.store is not None and isinstance(found, LoopRecord):
            for_once = how_to_start_over(is_task=self.attempt.has_identity).removeprefix("pass ")
            # In a task a retry finds loops that are done; a script may never have meant to find one.
            log.warning(
                "Loop %r delivers nothing: an earlier run was done at %s\n%s",
                plan.name,
                f"{found.ts:%Y-%m-%d %H:%M} UTC",
                f"To do it all again, pass on_done='restart', or {for_once} for once, or give it another name.",
            )
        self._record = _claimed(found, self.opening, plan, self.attempt)
        take_up_age(self._record, plan.source)
        self.ledger = Ledger(plan.key, plan.source, self._record, now=plan.now)
        update = {"pos_at": self.ledger.received(), "told": self._told(self._record)}
        self._record = self._record.model_copy(update=update)
        with self.attempt.using(plan.key):
            self._claim()
        self._meter = Meter({**self.attempt.stats_tags, "loop": plan.name}, self._record)
        self._meter.opened(self.opening, self._record.at.stalls)
        self.ledger.growth.check_room = self.check_room
        self.path: list[JsonValue] = [*self.attempt.scope.identity(), plan.key]
        """What makes the loop unlike any other."""
        self.alarm = plan.alarm()
        """Calls the loops that coast back to their duties."""
        started = plan.monotonic()
        self._pace = Pace(n=self.ledger.count, now=started)
        self.keeper = Keeper(
            plan.name,
            keeping=plan.keeping,
            writer=LatestWriter(self._channel, self._write, plan.monotonic, on_failure=self.alarm.ring),
            record=self._acked,
            now=started,
            careful=self._record.at.stalls > 0 and plan.policy.max_stalls is not None,
        )
        self.inner_at: datetime | None = self._record.inner_at
        """When what was left of the loops inside was written; None where nothing was left."""
        self.stop_asked = False
        """Whether the task was told to stop."""
        self._at_end.enter_context(told_of_kill(self._ask_to_stop, plan.keeping.context))

    def _claim(self) -> None:
        """Write the record."""
        self._claims = True
        self._slot.write(self._record)

    def _note_left_at_once(self) -> None:
        """Opening was interrupted. The claim still lands, and an attempt that says that it was left did not die."""
        at = self._record.at.model_copy(update={"left": True})
        note = self._channel.submit(partial(self._slot.write, self._record.model_copy(update={"at": at})))
        attempt = self.attempt
        attempt.give_back(self._plan.key)
        before_last_message(note.result, owner=attempt.process, key=self._plan.key, is_abandoned=lambda: True)

    def check_room(self, more: int, left: int, what: str) -> None:
        """See that the record may grow by so many bytes, and so many are left then.

        Raises:
            ValueTooLargeError: it may not.
        """
        check_room(self._acked(), more, left, what)

    def unreadable(self, why: str) -> UnreadableRecordError:
        """The error for a record that is there and means nothing."""
        return self._slot.unreadable(why)

    def finished(self, now: float) -> bool:  # noqa: ARG002
        """The source is exhausted; whether to flush: this write is the one that counts."""
        self.keeper.touch()
        return True

    def close(self, error: BaseException | None) -> None:
        """Save what is acked. A write that fails here is logged, and never takes the place of the loop's own error."""
        self._at_end.close()
        self.alarm.close()
        if os.getpid() != self._pid:  # a fork, whose copy of the loop is another one's
            return
        if error is not None:
            self.attempt.give_back(self._plan.key)
        if isinstance(error, SupersededError):
            return
        try:
            self._save()
        except Exception as failure:
            if error is None:
                raise
            if failure is not error:
                self._log_unsaved(failure)

    def stop(self, where: str) -> NoReturn:
        """Save, and leave the loop, in the way that fits why the task was told to stop.

        It is saved here, and not only by `close`: a loop around this one that is iterated without `with` is closed when
        nothing refers to it any more. The traceback of an error does, for as long as somebody keeps the error.

        Args:
            where: the loop stopped, for messages.

        Raises:
            AirflowRescheduleException: the worker goes, and the same try is to go on elsewhere.
            LoopStoppedError: anything else, or nothing, was learned about why.
            SupersededError: another attempt has replaced this one.
        """
        try:
            self._save()
        except SupersededError:
            raise
        except Exception as failure:  # noqa: BLE001  the next process begins at what was saved before
            self._log_unsaved(failure)
        why = self._why_stopped()
        if why is Ending.SHUTDOWN and self._plan.keeping.on_shutdown == "reschedule":
            log.info("The worker goes, so %s; the task gives its slot back, and its try goes on there", where)
            reschedule(now=self._plan.now)
        raise LoopStoppedError(
            f"The task was told to stop ({why.value}), so {where}. What is done is saved.", "A retry goes on there."
        )

    def _why_stopped(self) -> Ending:
        if in_process_supervisor():  # it reschedules nothing
            return Ending.UNKNOWN
        facts = learn_about_kill(
            # Airflow is asked on its own channel, whatever store the loop has.
            task_channel() if isinstance(self._slot.store, GivenStore) else self._channel,
            ask_state=self.attempt.ask_state,
            sees_record=lambda: self._read() is not None,
        )
        return ending_of_kill(facts)

    def _write(self, record: LoopRecord) -> None:
        """On the channel's thread."""
        started = self._plan.monotonic()
        self._slot.write(record)
        self._meter.written(record, self._plan.monotonic() - started)

    def _save(self) -> None:
        self._note_where_it_was_left()
        self.keeper.flush_rest(self.seconds)

    def _log_unsaved(self, failure: Exception) -> None:
        log.error("The position of the loop %r could not be saved: %r", self._plan.name, failure.__cause__ or failure)

    def _note_where_it_was_left(self) -> None:
        """An attempt that came no further and lived to say so was not killed by the element in hand."""
        at = self._record.at
        if not (self.ledger.done or at.left) and self.ledger.level().where() == at.where:
            self._record = self._record.model_copy(update={"at": at.model_copy(update={"left": True})})
            self.keeper.touch()

    def _ask_to_stop(self) -> None:
        """Called in a signal handler."""
        self.stop_asked = True
        self.alarm.ring()

    def _read(self) -> LoopRecord | Unreadable | None:
        try:
            record = self._slot.read()
        except _UNREADABLE as error:
            return error
        return record and record.with_age(record.ts)

    def _acked(self) -> LoopRecord:
        """The record of all that is acked."""
        ledger, now, seconds = self.ledger, self._plan.now(), self._plan.monotonic()
        left = None if ledger.done else self._pace.left(ledger.count, ledger.total, seconds)
        update = {
            **ledger.fields(),
            "ts": now,
            "rate": self._pace.rate(ledger.count, seconds),
            "eta": None if left is None else (now + left).replace(microsecond=0),
        }
        record = self._record.model_copy(update=update)
        return record.model_copy(update={"told": self._told(record)})

    def _told(self, record: LoopRecord) -> str:
        return in_words(
            self.ledger.counted(),
            done=record.done,
            try_number=record.at.try_number,
            rate=record.rate,
            eta=record.eta,
            now=record.ts,
            inside=self.ledger.inside(),
        )


def _left(
    found: LoopRecord | Unreadable | None, plan: Plan[Any], attempt: Attempt
) -> Left | Literal["nothing", "unreadable"]:
    """What an earlier attempt left, as far as the decision needs it."""
    if found is None:
        return "nothing"
    if isinstance(found, _UNREADABLE):
        return "unreadable"
    return facts_of(found, plan.source, attempt=attempt, definition=plan.definition, now=plan.now())


def _claimed(found: LoopRecord | None, opening: Opening, plan: Plan[Any], attempt: Attempt) -> LoopRecord:
    """The record when this attempt has taken hold of it."""
    now, definition = plan.now(), plan.definition
    at = Opened(try_number=attempt.try_number, epoch=attempt.epoch)
    if found is None:
        nothing = started_over(plan.source.first())
        plan.source.recall(nothing["pos"], None)
        record = LoopRecord(key=plan.key, kind=definition.kind, at=at, t0=now, ts=now, **nothing)
    elif opening.keeps_position:
        at = at.model_copy(update={"opens": found.at.opens + 1, "stalls": stalls_of(found, attempt)})
        record = found
    else:
        at = at.model_copy(update={"opens": found.at.opens + 1})
        record = found.model_copy(update={**started_over(plan.source.first()), "t0": now})
        plan.source.recall(record.pos, None)
    total = plan.source.total(record.pos)
    return record.model_copy(
        update={
            "kind": definition.kind,
            "fp": definition.fp,
            "total": record.total if total is None else total,
            "at": at.model_copy(update={"where": record.where()}),
            "ts": now,
            "inner_at": (record.inner_at or record.ts) if record.inner else None,
            "rate": None,
            "eta": None,
        }
    )


def take_up_age(level: Level, source: Source[Any]) -> None:
    """Tell the source when what its position needs was received."""
    if level.pos_at is not None and source.expires(level.pos):
        source.take_up(level.pos, level.pos_at)


def started_over(position: object) -> dict[str, Any]:
    """The fields of a level at which nothing is done."""
    return {
        "pos": position,
        "pos_at": None,
        "ahead": None,
        "done": False,
        "n": 0,
        "total": None,
        "state": {},
        "skipped": 0,
        "skips": None,
        "seen": None,
        "short": None,
        "inner": None,
    }
