"""The mark in the asset's store: found, made, set by a person or a program, and moved.

Theory of operation. The asset's store takes writes from any attempt of any task, and has no compare-and-set. So a write
is read back, and merged again when somebody else won; and each record bears an epoch, so that a run which began before
the mark was set anew cannot move it. A bare value, as a person types it in Airflow's UI, is a mark set anew, wherever
it is read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from airflow_resume.attempt import Attempt, Scope
from airflow_resume.errors import (
    DanglingReferenceError,
    WatermarkChangedError,
    WatermarkError,
    WatermarkLostError,
)
from airflow_resume.record import Slot
from airflow_resume.store import StateStore
from airflow_resume.watermarks.commit import Loaded, Outcome, decide_commit
from airflow_resume.watermarks.entry import Entry, Origin, Outbox, ToldWindow
from airflow_resume.watermarks.journal import Journal
from airflow_resume.watermarks.mark_codec import MarkCodec
from airflow_resume.watermarks.options import Options
from airflow_resume.watermarks.outbox import outbox_of, taken_over, told_by, with_outbox, with_window
from airflow_resume.watermarks.ownership import Mover, Ownership
from airflow_resume.watermarks.record import MarkRecord, Move, WindowRecord, WindowState, Writer

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")

log = logging.getLogger(__name__)

MAX_MERGES = 3
AT_WORK = {"running", "deferred", "restarting"}
"""States of a task instance that will write its event itself, or fail and be noticed by a later run."""


class Marks(Generic[T]):
    """The mark of one partition, as one attempt sees it.

    Args:
        store: of the asset.
        options: of the watermark.
        attempt: that reads and moves it. mover: its task.
        journal: what earlier runs told of the mark.
        before_write: is called before a mark is made; it raises when this attempt was replaced.
        state_of: asks Airflow for the state of a task instance.
    """

    def __init__(
        self,
        store: StateStore,
        options: Options[T],
        *,
        attempt: Attempt,
        mover: Mover,
        journal: Journal,
        before_write: Callable[[], None],
        state_of: Callable[[Scope], str | None],
    ) -> None:
        self.store, self.key = store, journal.keys.mark
        self._options, self._cursor = options, options.cursor
        self._attempt, self._mover = attempt, mover
        self._journal, self._before_write, self._state_of = journal, before_write, state_of
        self._slot = Slot(store, self.key, MarkRecord)
        self._codec = MarkCodec(key=self.key, cursor=options.cursor, history=options.history)
        self._answer: JsonValue = None

    def find(self, *, moves: bool) -> MarkRecord:
        """The mark to begin at; a missing one is made, a bare value and a record of version 0.1 are taken up.

        Args:
            moves: this attempt means to move it, so a mark that is made is its own.

        Raises:
            WatermarkLostError: there was a mark, and it is missing.
            WatermarkChangedError: it is one of another cursor.
            UnreadableRecordError: it is not to be understood.
            WatermarkError: others kept writing it.
        """
        owner = self._mover if moves else Mover(owner=None)
        for _ in range(MAX_MERGES):
            stored, _ = self._look()
            if self._codec.is_record(stored) and self._is_of_this_cursor(record := self._slot.decode(stored)):
                return record  # of two runs that are first, one has written last
            self._before_write()
            if stored is None and self._take_up_0_1():
                continue
            made = self._first(owner) if stored is None else self._anew(stored, owner)
            if made is not None:
                self._slot.write(made)
        raise WatermarkError(f"Others kept writing {self.key!r} while a window began.", "A retry begins anew.")

    def check_owner(self, record: MarkRecord, mover: Mover | None = None) -> None:
        """See that no other task moves this mark than the mover, by default the running task.

        Raises:
            WatermarkOwnedError: one does.
        """
        by_hand = self._codec.by_hand(record.at)
        found = (mover or self._mover).check(record, asset=self._options.asset.name, by_hand=by_hand)
        if found is Ownership.LEFT:
            log.warning("Taking over the mark %r from %s, which its Dag has no longer", self.key, record.owner)

    def by_hand(self) -> str:
        """How a person sets the mark, as a sentence."""
        return self._codec.by_hand()

    def is_of(self, epoch: str) -> bool:
        """Whether a window that began at this epoch is one of this mark."""
        record = self._record()
        return record is not None and record.epoch == epoch

    def is_beyond(self, begun: WindowRecord) -> bool:
        """Whether the window of an earlier attempt could never be committed: another run has moved its token since."""
        if self._cursor.is_ordered or begun.state is WindowState.COMMITTED or begun.origin != "mark":
            return False
        record = self._record()
        if record is None or record.epoch != begun.epoch or record.rev == begun.base_rev or record.at == begun.start:
            return False
        return all(move.run_id != self._attempt.scope.run_id for move in record.history)

    def is_pending(self, epoch: str) -> bool:
        """Whether the mark is of this epoch, and nothing was loaded from it yet."""
        record = self._record()
        return record is not None and record.epoch == epoch and record.pending is not None

    def first(self, record: MarkRecord | None) -> T:
        """The initial value; a function is asked for it once in the life of a mark.

        Args:
            record: of the mark, which keeps the answer.
        """
        if self._options.asks_for_initial and record is not None and record.first is not None:
            return self._cursor.parse(record.first, what="the first value")
        first = self._options.first()
        if self._options.asks_for_initial:
            self._answer = self._cursor.dump(first)  # kept with the next move
        return first

    def reset(self, to: T | None) -> MarkRecord:
        """Set the mark anew, to a value or to the initial one.

        A record that says so stays in place until something was loaded from there.

        Raises:
            WatermarkError: others kept writing it.
        """
        for _ in range(MAX_MERGES):
            before = self._record()
            at = self.first(before) if to is None else to
            made = self._codec.made(at, pending="reset", by=Writer.of(self._attempt), first=self._answer)
            if before is not None:
                history = self._codec.newest((*before.history, self._move_to(at)))
                first = self._answer if before.first is None else before.first
                kept = {"owner": before.owner, "shared": before.shared, "first": first, "history": history}
                made = with_outbox(made.model_copy(update=kept), outbox_of(before))
            made = self._slot.write(made)
            if self.is_of(made.epoch):
                return made
        raise WatermarkError(f"Other runs kept writing {self.key!r}.", "A retry sets it again.")

    def move(
        self, loaded: Loaded, *, mover: Mover, tells: ToldWindow | None, origin: Origin, is_slice: bool = False
    ) -> tuple[Outcome, MarkRecord | None]:
        """What a finished window does to the mark, and the mark as it stands then.

        Args:
            loaded: what was loaded.
            mover: the task that has loaded it.
            tells: what consumers learn of it; None: nothing.
            origin: where its bounds come from.
            is_slice: this is not the last of the window, so no event is written yet.

        Raises:
            WatermarkOwnedError: another task moves the mark.
            WatermarkError: others kept writing it.
        """
        scope = self._attempt.scope
        for _ in range(MAX_MERGES):
            record = self._record()
            # One that was made anew may be of another cursor.
            is_the_same = record is not None and record.epoch == loaded.epoch
            outcome, mark = decide_commit(
                self._codec.parsed(record) if record is not None and is_the_same else None,
                loaded,
                ordered=self._cursor.is_ordered,
                on_gap=self._options.on_gap,
            )
            if record is None or (mark is None and is_slice):
                return outcome, record
            before = outbox_of(record)
            if mark is None and outcome is not Outcome.NOOP:
                return outcome, with_outbox(record, self._taken_over(told_by(before, scope)))
            outbox = before if is_slice else self._taken_over(before)
            if mark is None:
                if not self._has_more(outbox, before):
                    return outcome, with_outbox(record, outbox)
                self.check_owner(record, mover)
                written = with_outbox(record.model_copy(update={"rev": record.rev + 1}), outbox)
            else:
                self.check_owner(record, mover)
                if tells is not None and (outcome is not Outcome.NOOP or tells.ends_upto):
                    told_as = Outcome.ADVANCED if outcome is Outcome.NOOP else outcome  # the row at the mark is new
                    outbox = with_window(outbox, tells, scope=scope, outcome=told_as.value, origin=origin)
                written = self._codec.moved(
                    record,
                    mark,
                    self._attempt,
                    owner=mover.owner,
                    shared=mover.shared,
                    first=self._answer,
                    outbox=outbox,
                )
            written = self._slot.write(written)
            if self._record() == written:
                return outcome, written
        raise WatermarkError(f"Other runs kept writing {self.key!r}.", "A retry loads the window again.")

    def take_over(self, seen: MarkRecord | None) -> MarkRecord | None:
        """See that what no event tells is told by that of this run, which has nothing new; the mark then.

        Args:
            seen: the mark when this run began: nearly always an event tells all that is in it.

        Raises:
            WatermarkError: others kept writing it.
        """
        kept = None if seen is None else self._taken_over(outbox_of(seen))
        if seen is not None and kept is not None and not told_by(kept, self._attempt.scope):
            return with_outbox(seen, kept)
        for _ in range(MAX_MERGES):
            record = self._record()
            if record is None:
                return None
            before = outbox_of(record)
            outbox = self._taken_over(before)
            if not self._has_more(outbox, before):
                return with_outbox(record, outbox)
            self._before_write()
            written = self._slot.write(with_outbox(record.model_copy(update={"rev": record.rev + 1}), outbox))
            if self._record() == written:
                return written
        raise WatermarkError(f"Other runs kept writing {self.key!r}.", "A retry looks again.")

    def _has_more(self, outbox: Outbox, before: Outbox) -> bool:
        """Whether this run is to tell what it was not to tell before."""
        return any(each not in before for each in told_by(outbox, self._attempt.scope))

    def _taken_over(self, outbox: Outbox) -> Outbox:
        """What no event tells, as this run's to tell."""
        if not outbox:
            return ()
        found, state_of = self._journal.told(outbox), self._state_of
        return taken_over(
            outbox,
            self._attempt.scope,
            is_told=lambda each: found.has(each, state_of),
            is_at_work=lambda other: state_of(other) in AT_WORK,
        )

    # --- making -----------------------------------------------------------------------------------------------

    def _first(self, owner: Mover) -> MarkRecord | None:
        """A mark where there is none; None where there is one by now.

        What the events say is held against a look that comes after them. A run makes the record first and writes its
        event last: one that was missing before may have been made since, by the run whose event this is.
        """
        told = None if self._options.on_missing == "initial" else self._journal.last()
        stored, lost = self._look()
        if stored is not None:
            return None
        if told is None and (lost is None or self._options.on_missing == "initial"):
            at = self._options.first()
            first = self._cursor.dump(at) if self._options.asks_for_initial else None
            return self._codec.made(at, pending="initial", owner=owner.owner, shared=owner.shared, first=first)
        if told is None:
            raise WatermarkLostError(
                f"{lost and lost.message} No event of asset {self._options.asset.name!r} says where the mark stood.",
                f"{self._codec.by_hand()} Or set on_missing='initial' to load everything again.",
            ) from lost
        if self._options.on_missing == "fail":
            raise WatermarkLostError(
                f"{self.key!r} is missing from the state of asset {self._options.asset.name!r}, although {told.source}"
                f" says that it stood at {told.at!r}.",
                "Set on_missing='recover' to go on from there, or on_missing='initial' to load everything again. Or"
                f" set it by hand: {self._codec.by_hand(told.at)}",
            ) from lost
        log.warning("The mark %r was missing; going on at %r, where %s says it stood", self.key, told.at, told.source)
        return self._codec.made(
            self._cursor.parse(told.at, what="the journal's mark"),
            pending=None,
            owner=owner.owner,
            shared=owner.shared,
            first=told.first,
            history=self._told_moves(),
        )

    def _anew(self, stored: JsonValue, owner: Mover) -> MarkRecord:
        """A mark in place of a value that a person typed, or of a mark of another cursor."""
        if self._codec.is_record(stored):
            return self._migrated(self._slot.decode(stored))
        at = self._codec.typed(stored)
        log.warning("The mark %r was set to %r by hand; loading from there", self.key, stored)
        told = self._journal.last() if self._options.asks_for_initial else None
        return self._codec.made(
            at,
            pending="rewind",
            by=Writer.of(self._attempt, for_person=True),
            owner=owner.owner,
            shared=owner.shared,
            first=None if told is None else told.first,
            history=(*self._told_moves(), self._move_to(at, for_person=True)),
        )

    def _migrated(self, record: MarkRecord) -> MarkRecord:
        migrate = self._options.migrate
        if migrate is None:
            raise WatermarkChangedError(
                f"{self.key!r} is a mark of {record.definition or record.type!r}, and this watermark is one of"
                f" {self._cursor.definition()!r}.",
                f"Give migrate= a function that makes one of the other (it gets {record.at!r}), or this watermark"
                f" another name. Or set it by hand: {self._codec.by_hand()}",
            )
        at = self._cursor.parse(migrate(record.at), what="what migrate() returned")
        log.warning("The mark %r was migrated from %r to %r", self.key, record.at, self._cursor.dump(at))
        first = None if record.first is None else self._cursor.parse(migrate(record.first), what="migrate(first)")
        kept = {
            "rev": record.rev + 1,
            "owner": record.owner,
            "shared": record.shared,
            "first": None if first is None else self._cursor.dump(first),
        }
        made = self._codec.made(at, pending=None, history=record.history).model_copy(update=kept)
        return with_outbox(made, tuple(self._migrated_entry(each, migrate) for each in outbox_of(record)))

    def _migrated_entry(self, entry: Entry, migrate: Callable[[Any], object]) -> Entry:
        kept = {name: getattr(entry, name) for name in ("start", "end", "new_from")}
        values = {
            name: self._cursor.dump(self._cursor.parse(migrate(value), what=f"migrate({name})"))
            for name, value in kept.items()
            if value is not None
        }
        return entry.model_copy(update=values)

    def _take_up_0_1(self) -> bool:
        """Copy a mark from the key that version 0.1 gave it; whether there was one.

        It stays where it was, for a downgrade, and says that it was taken up: it counts only once. Under that key the
        mark of another watermark may stand: that of `x.1`, for the partition 1 of `x`. Version 0.1 knew no owners, so a
        record that has one is such a mark; and of a value that a person typed nobody knows whose it is meant to be.
        """
        old = self._journal.keys.old
        stored = None if old is None or old.mark == self.key else self.store.get(old.mark)
        if old is None or not self._codec.is_record(stored):
            return False
        before = Slot(self.store, old.mark, MarkRecord)
        record = before.decode(stored)
        if record.taken_up or record.owner is not None:
            return False
        self._slot.write(record.model_copy(update={"key": self.key}))
        before.write(record.model_copy(update={"taken_up": True}))
        log.info("The mark %r was taken up from %r, where version 0.1 kept it", self.key, old.mark)
        return True

    def _move_to(self, at: T, *, for_person: Literal[True] | None = None) -> Move:
        return Move(to=self._cursor.dump(at), run_id=self._attempt.scope.run_id, for_person=for_person)

    def _told_moves(self) -> tuple[Move, ...]:
        """The history as the asset's events have it: a value that a person types replaces the record with its own."""
        moves = self._journal.moves(self._options.history)
        return tuple(Move(to=told.at, run_id=told.run_id or "") for told in moves)

    # --- reading ----------------------------------------------------------------------------------------------

    def _look(self) -> tuple[JsonValue, DanglingReferenceError | None]:
        """What is there; a reference to a value that a state backend has lost is none, and shows that there was one."""
        try:
            return self.store.get(self.key), None
        except DanglingReferenceError as error:
            return None, error

    def _record(self) -> MarkRecord | None:
        """The mark; None where it is missing or lost, or a person has typed a value in its place."""
        stored, _ = self._look()
        return self._slot.decode(stored) if self._codec.is_record(stored) else None

    def _is_of_this_cursor(self, record: MarkRecord) -> bool:
        return record.type == self._cursor.type and record.definition in ({}, self._cursor.definition())
