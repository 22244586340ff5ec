"""Makes a mark anew, if it is missing, belongs to another cursor, or is a value that a person typed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from airflow_resume.attempt import Attempt
from airflow_resume.errors import DanglingReferenceError, WatermarkLostError
from airflow_resume.record import ByHand, StoredRecord
from airflow_resume.shown import get_logger
from airflow_resume.watermarks.marks.journal import Journal
from airflow_resume.watermarks.marks.mark_codec import MarkCodec
from airflow_resume.watermarks.marks.mark_record import MarkRecord, Move, Writer, now_to_the_second
from airflow_resume.watermarks.marks.outbox import outbox_of, with_outbox
from airflow_resume.watermarks.marks.ownership import Mover
from airflow_resume.watermarks.options import Options

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")

log = get_logger(__name__)


def looked_up(slot: StoredRecord[MarkRecord]) -> tuple[JsonValue, DanglingReferenceError | None]:
    """The stored value, and an error if a state backend has lost it, which shows that there was one."""
    try:
        return slot.store.get(slot.key), None
    except DanglingReferenceError as error:
        return None, error


class MarkMaker(Generic[T]):
    """Makes the record of a mark anew.

    Args:
        options: of the watermark.
        attempt: the attempt that makes it.
        journal: what earlier runs wrote about the mark.
        codec: of its values. `slot`: of its record.
    """

    def __init__(
        self,
        options: Options[T],
        *,
        attempt: Attempt,
        journal: Journal,
        codec: MarkCodec[T],
        slot: StoredRecord[MarkRecord],
    ) -> None:
        self._options, self._cursor = options, options.cursor
        self._attempt, self._journal = attempt, journal
        self._codec, self._slot, self._key = codec, slot, codec.key
        self.answer: JsonValue = None
        """The answer of the function `initial`, if it was called here. It is saved with the next move."""

    def first(self, record: MarkRecord | None) -> T:
        """See `StoredMark.first`."""
        if self._options.asks_for_initial and record is not None and record.first is not None:
            return self._cursor.parse(record.first, what="the first value")
        first = self._options.first()
        if self._options.asks_for_initial:
            self.answer = self._cursor.dump(first)
        return first

    def missing(self, owner: Mover) -> MarkRecord | None:
        """A mark in place of a missing one; None if another attempt has made one by now.

        The events are read first, and then the record is read again, because a run writes its record first and its
        event last. So if there is an event, the run may have written its record since the record was found missing.
        """
        last = None if self._options.on_missing == "initial" else self._journal.last()
        stored, lost = looked_up(self._slot)
        if stored is not None:
            return None
        if last is None and (lost is None or self._options.on_missing == "initial"):
            at = self._options.first()
            first = self._cursor.dump(at) if self._options.asks_for_initial else None
            return self._codec.made(at, pending="initial", owner=owner.owner, shared=owner.shared, first=first)
        if last is None:
            raise WatermarkLostError(
                f"{lost and lost.message} No event of asset {self._options.asset.name!r} says where the mark stood.",
                f"{self._codec.by_hand()} Or set on_missing='initial' to load everything again.",
                key=self._key,
                asset=self._options.asset.name,
            ) from lost
        if self._options.on_missing == "fail":
            raise WatermarkLostError(
                f"{self._key!r} is missing from the state of asset {self._options.asset.name!r}, although {last.source}"
                f" says that it stood at {last.at!r}.",
                "Set on_missing='recover' to continue from there, or on_missing='initial' to load everything again. Or"
                f" set it by hand: {self._codec.by_hand(last.at)}",
                key=self._key,
                asset=self._options.asset.name,
                last=last.at,
            ) from lost
        log.warning(
            "The mark %r was missing; continuing at %r, where it stood according to %s", self._key, last.at, last.source
        )
        return self._codec.made(
            self._cursor.parse(last.at, what="the journal's mark"),
            pending=None,
            owner=owner.owner,
            shared=owner.shared,
            first=last.first,
            history=self._journal_moves(),
        )

    def replacing(self, stored: JsonValue, owner: Mover) -> MarkRecord:
        """A mark in place of a value that a person typed, or in place of a mark of another cursor."""
        if self._codec.is_record(stored):
            return self._migrated(self._slot.decode(stored))
        at = self._codec.typed(stored)
        log.warning("The mark %r was set to %r by hand; loading from there", self._key, stored)
        last = self._journal.last() if self._options.asks_for_initial else None
        return self._codec.made(
            at,
            pending="rewind",
            by=Writer.of(self._attempt, for_person=True),
            owner=owner.owner,
            shared=owner.shared,
            first=None if last is None else last.first,
            history=(*self._journal_moves(), self._move_to(at, for_person=True)),
        )

    def _migrated(self, record: MarkRecord) -> MarkRecord:
        migrate = self._options.migrate
        if migrate is None:
            raise self._codec.mismatch(
                record,
                f"Give migrate= a function that converts a value of the old cursor (it gets {record.at!r}), or give"
                f" this watermark another name. Or set the mark by hand: {self._codec.by_hand()}",
                asset=self._options.asset.name,
            )

        def migrated(value: JsonValue, name: str) -> JsonValue:
            if value is None:
                return None
            return self._cursor.dump(self._cursor.parse(migrate(value), what=f"migrate({name})"))

        at = self._cursor.parse(migrate(record.at), what="what migrate() returned")
        log.warning("The mark %r was migrated from %r to %r", self._key, record.at, self._cursor.dump(at))
        made = self._codec.made(at, pending=None, history=record.history).changed(
            rev=record.rev + 1,
            owner=record.owner,
            shared=record.shared,
            first=migrated(record.first, "first"),
        )
        outbox = [
            each.changed(
                start=migrated(each.start, "start"),
                end=migrated(each.end, "end"),
                new_from=migrated(each.new_from, "new_from"),
            )
            for each in outbox_of(record)
        ]
        return with_outbox(made, tuple(outbox))

    def take_up_0_1(self) -> bool:
        """Copy a mark from the key that version 0.1 gave it. Returns whether there was such a mark.

        The old record stays for a downgrade, with the note that it was taken over, so that it counts only once.

        The old key may belong to the mark of another watermark: the partition 1 of `x` and the watermark `x.1` had the
        same key. Version 0.1 had no owners, so a record with an owner belongs to the other watermark. A value that a
        person typed there is left alone, because it is not known for which of the two it is meant.
        """
        old = self._journal.keys.old
        stored = None if old is None or old.mark == self._key else self._slot.store.get(old.mark)
        if old is None or not self._codec.is_record(stored):
            return False
        before = StoredRecord(self._slot.store, old.mark, MarkRecord)
        record = before.decode(stored)
        if record.taken_up or record.owner is not None:
            return False
        self._slot.write(record.changed(key=self._key))
        before.write(record.changed(taken_up=True))
        log.info("The mark %r was taken up from %r, where version 0.1 kept it", self._key, old.mark)
        return True

    def _move_to(self, at: T, *, for_person: Literal[True] | None = None, note: ByHand | None = None) -> Move:
        return Move(
            to=self._cursor.dump(at),
            run_id=self._attempt.scope.run_id,
            for_person=for_person,
            when=now_to_the_second(),
            who=None if note is None else note.who,
            why=None if note is None else note.why,
        )

    def reset(self, at: T, before: MarkRecord | None) -> MarkRecord:
        """A mark that a program has set to `at`, in place of the previous mark."""
        made = self._codec.made(at, pending="reset", by=Writer.of(self._attempt), first=self.answer)
        if before is None:
            return made
        note = before.set_by_hand
        is_asked_for = note is not None and note.start_over
        move = self._move_to(at, for_person=True, note=note) if is_asked_for else self._move_to(at)
        history = self._codec.newest((*before.history, move))
        first = self.answer if before.first is None else before.first
        made = made.changed(
            owner=before.owner, shared=before.shared, first=first, history=history, by_hand=before.used_by_hand
        )
        return with_outbox(made, outbox_of(before))

    def _journal_moves(self) -> tuple[Move, ...]:
        """The history, from the events: a value that a person types has replaced the record with its history."""
        moves = self._journal.moves(self._options.history)
        return tuple(Move(to=last.at, run_id=last.run_id or "") for last in moves)
