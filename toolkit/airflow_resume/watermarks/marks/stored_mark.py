"""The mark in the asset's store: how it is found, set and moved.

Theory of operation. The asset's store takes writes from any attempt of any task, and has no compare-and-set. So each
write is read back, and if another attempt has written in between, it is repeated with the new record. Each record has
an epoch. So a run that began before the mark was set anew cannot move it. If a person types a bare value in Airflow's
UI, this counts as a mark that was set anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from airflow_resume.attempt import Attempt, Scope
from airflow_resume.errors import SinkUnsafeError, WatermarkError
from airflow_resume.record import StoredRecord
from airflow_resume.shown import get_logger
from airflow_resume.store import StateStore
from airflow_resume.watermarks.commit import LoadedRange, Outcome, decide_commit
from airflow_resume.watermarks.marks.journal import Journal
from airflow_resume.watermarks.marks.mark_codec import MarkCodec
from airflow_resume.watermarks.marks.mark_maker import MarkMaker, looked_up
from airflow_resume.watermarks.marks.mark_record import MarkRecord, WindowRecord, WindowState
from airflow_resume.watermarks.marks.outbox import (
    Origin,
    Outbox,
    PublishedWindow,
    outbox_of,
    published_by,
    taken_over,
    with_loaded,
    with_outbox,
)
from airflow_resume.watermarks.marks.ownership import Mover, Ownership
from airflow_resume.watermarks.options import Options

T = TypeVar("T")

log = get_logger(__name__)

MAX_MERGES = 3
AT_WORK = {"running", "deferred", "restarting"}
"""States of a task instance that has not ended. It will write its event itself, or fail, which a later run notices."""


class StoredMark(Generic[T]):
    """The mark of one partition, as one attempt sees it.

    Args:
        store: of the asset.
        options: of the watermark.
        attempt: the attempt that reads and moves it. `mover`: its task.
        journal: what earlier runs wrote about the mark.
        before_write: called before a mark is made; it raises if this attempt was replaced.
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
        self.key = journal.keys.mark
        self._options, self._cursor = options, options.cursor
        self._attempt, self._mover = attempt, mover
        self._journal, self._before_write, self._state_of = journal, before_write, state_of
        self._slot = StoredRecord(store, self.key, MarkRecord)
        initial = None if options.asks_for_initial else options.cursor.dump(options.first())
        self._codec = MarkCodec(key=self.key, cursor=options.cursor, history=options.history, initial=initial)
        self._maker = MarkMaker(options, attempt=attempt, journal=journal, codec=self._codec, slot=self._slot)

    def find(self, *, moves: bool) -> MarkRecord:
        """The mark to begin at. It is made if it is missing, a bare value, or a record of version 0.1.

        Args:
            moves: whether this attempt will move the mark. Then its task becomes the owner of a mark that is made.

        Raises:
            WatermarkLostError: there was a mark, and it is missing.
            WatermarkMismatchError: the mark belongs to another cursor.
            UnreadableRecordError: the record of the mark cannot be read.
            WatermarkError: other runs kept writing it.
        """
        owner = self._mover if moves else Mover(owner=None)
        for _ in range(MAX_MERGES):
            stored, _ = looked_up(self._slot)
            if self._codec.is_record(stored) and self._codec.is_of_this_cursor(
                record := self._codec.decoded(self._slot, stored)
            ):
                if record.set_by_hand is not None and record.set_by_hand.start_over:
                    return self._started_over(record)
                return record  # if two runs have made the mark, this is the record that was written last
            self._before_write()
            if stored is None and self._maker.take_up_0_1():
                continue
            made = self._maker.missing(owner) if stored is None else self._maker.replacing(stored, owner)
            if made is not None:
                self._slot.write(made)
        raise WatermarkError(
            f"Others kept writing {self.key!r} while a window began.",
            "A retry starts over.",
            key=self.key,
            asset=self._options.asset.name,
        )

    def _started_over(self, before: MarkRecord) -> MarkRecord:
        """The mark at the initial value, as a person has asked."""
        log.warning("The mark %r starts over: %s", self.key, before.set_by_hand)
        self._before_write()
        return self._slot.write(self._maker.reset(self._maker.first(before), before))

    def check_owner(self, record: MarkRecord, mover: Mover | None = None) -> None:
        """Check that the mover, by default the running task, may move this mark.

        Raises:
            WatermarkMismatchError: the mark belongs to another task.
        """
        by_hand = self._codec.by_hand(record.at)
        found = (mover or self._mover).check(record, asset=self._options.asset.name, by_hand=by_hand)
        if found is Ownership.LEFT:
            log.warning("Taking over the mark %r from %s, which its Dag has no longer", self.key, record.owner)

    def by_hand(self) -> str:
        """A sentence for messages: how a person sets the mark."""
        return self._codec.by_hand()

    def is_of(self, epoch: str) -> bool:
        """Whether the mark still has this epoch, which it had when a window began."""
        record = self._record()
        return record is not None and record.epoch == epoch

    def is_beyond(self, begun: WindowRecord) -> bool:
        """Whether another run has moved the token since this window began, so that it could never be committed."""
        if self._cursor.is_ordered or begun.state is WindowState.COMMITTED or begun.origin != "mark":
            return False
        record = self._record()
        if record is None or record.epoch != begun.epoch or record.rev == begun.base_rev or record.at == begun.start:
            return False
        return all(move.run_id != self._attempt.scope.run_id for move in record.history)

    def is_pending(self, epoch: str) -> bool:
        """Whether the mark has this epoch, and nothing was loaded from it yet."""
        record = self._record()
        return record is not None and record.epoch == epoch and record.pending is not None

    def first(self, record: MarkRecord | None) -> T:
        """The initial value; a function is asked for it once in the life of a mark.

        Args:
            record: of the mark, which keeps the answer.
        """
        return self._maker.first(record)

    def reset(self, to: T | None) -> MarkRecord:
        """Set the mark anew, to a value or to the initial one.

        The record says that it was set until something is loaded from there.

        Raises:
            WatermarkError: others kept writing it.
        """
        for _ in range(MAX_MERGES):
            before = self._record()
            at = self._maker.first(before) if to is None else to
            made = self._maker.reset(at, before)
            made = self._slot.write(made)
            if self.is_of(made.epoch):
                return made
        raise WatermarkError(
            f"Other runs kept writing {self.key!r}.",
            "A retry sets it again.",
            key=self.key,
            asset=self._options.asset.name,
        )

    def keep_in(self, sink: str) -> None:
        """Note that a sink keeps the mark.

        Args:
            sink: what tells it from others.

        Raises:
            WatermarkError: others kept writing it.
        """
        self._before_write()
        for _ in range(MAX_MERGES):
            record = self._record()
            if record is None or record.kept_in == sink:
                return
            written = self._slot.write(record.changed(rev=record.rev + 1, sink=(record.epoch, sink)))
            if self._record() == written:
                return
        raise WatermarkError(
            f"Other runs kept writing {self.key!r}.",
            "A retry writes it again.",
            key=self.key,
            asset=self._options.asset.name,
        )

    def check_no_sink(self, mark: MarkRecord | None = None) -> None:
        """Check, for a run without a sink, that no sink keeps the mark. It may be ahead of the mark.

        Args:
            mark: the present mark, if it was read.

        Raises:
            SinkUnsafeError: one does.
        """
        record = mark or self._record()
        if record is not None and record.kept_in is not None:
            raise SinkUnsafeError(
                f"The mark {self.key!r} is kept in a sink, and this run has none. The sink may be ahead of the mark, so"
                " that rows would be written twice.",
                f"Give it the sink again. Or, to continue without it, say from where: {self._codec.by_hand()}",
                problem="option",
            )

    def move(
        self,
        loaded: LoadedRange,
        *,
        mover: Mover,
        published: PublishedWindow | None,
        origin: Origin,
        is_slice: bool = False,
    ) -> tuple[Outcome, MarkRecord | None]:
        """Move the mark for a finished window. Returns the outcome, and the mark after it.

        Args:
            loaded: the range that was loaded.
            mover: the task that has loaded it.
            published: the window for consumers; None if there is nothing to publish.
            origin: where its bounds come from.
            is_slice: whether this is a slice before the last one. Then no event is written yet.

        Raises:
            WatermarkMismatchError: another task moves the mark.
            WatermarkError: others kept writing it.
        """
        scope = self._attempt.scope
        for _ in range(MAX_MERGES):
            record = self._record()
            # A record that was made anew may belong to another cursor.
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
                return outcome, with_outbox(record, self._taken_over(published_by(before, scope)))
            outbox = before if is_slice else self._taken_over(before)
            if mark is None:
                if not self._publishes_more(outbox, before):
                    return outcome, with_outbox(record, outbox)
                self.check_owner(record, mover)
                written = with_outbox(record.changed(rev=record.rev + 1), outbox)
            else:
                self.check_owner(record, mover)
                if published is not None and (outcome is not Outcome.NOOP or published.ends_upto):
                    shown = Outcome.ADVANCED if outcome is Outcome.NOOP else outcome  # the row at the mark is new
                    outbox = with_loaded(outbox, published, scope=scope, outcome=shown.value, origin=origin)
                written = self._codec.moved(
                    record,
                    mark,
                    self._attempt,
                    owner=mover.owner,
                    shared=mover.shared,
                    first=self._maker.answer,
                    outbox=outbox,
                )
            written = self._slot.write(written)
            if self._record() == written:
                return outcome, written
        raise WatermarkError(
            f"Other runs kept writing {self.key!r}.",
            "A retry loads the window again.",
            key=self.key,
            asset=self._options.asset.name,
        )

    def take_over(self, seen: MarkRecord | None) -> MarkRecord | None:
        """For a run with nothing new: take over the windows that no event has published. Returns the mark after that.

        Args:
            seen: the mark when this run began. Nearly always, events have published all of its windows.

        Raises:
            WatermarkError: others kept writing it.
        """
        kept = None if seen is None else self._taken_over(outbox_of(seen))
        if seen is not None and kept is not None and not published_by(kept, self._attempt.scope):
            return with_outbox(seen, kept)
        for _ in range(MAX_MERGES):
            record = self._record()
            if record is None:
                return None
            before = outbox_of(record)
            outbox = self._taken_over(before)
            if not self._publishes_more(outbox, before):
                return with_outbox(record, outbox)
            self._before_write()
            written = self._slot.write(with_outbox(record.changed(rev=record.rev + 1), outbox))
            if self._record() == written:
                return written
        raise WatermarkError(
            f"Other runs kept writing {self.key!r}.",
            "A retry looks again.",
            key=self.key,
            asset=self._options.asset.name,
        )

    def _publishes_more(self, outbox: Outbox, before: Outbox) -> bool:
        """Whether this run is to publish a window that it did not publish before."""
        return any(each not in before for each in published_by(outbox, self._attempt.scope))

    def _taken_over(self, outbox: Outbox) -> Outbox:
        """The outbox without the windows that are published. This run will publish the others."""
        if not outbox:
            return ()
        found, state_of = self._journal.published(outbox), self._state_of
        return taken_over(
            outbox,
            self._attempt.scope,
            is_published=lambda each: found.has(each, state_of),
            is_at_work=lambda other: state_of(other) in AT_WORK,
        )

    # --- reading ----------------------------------------------------------------------------------------------

    def _record(self) -> MarkRecord | None:
        """The record; None if it is missing or lost, or if a person has typed a value in its place."""
        stored, _ = looked_up(self._slot)
        return self._codec.decoded(self._slot, stored) if self._codec.is_record(stored) else None
