"""The mark in the asset's store: found, made, set by a person or a program, and moved.

Theory of operation. The asset's store takes writes from any attempt of any task, and has no compare-and-set. So a write
is read back, and merged again when somebody else won; and each record bears an epoch, so that a run which began before
the mark was set anew cannot move it. A bare value, as a person types it in Airflow's UI, is a mark set anew, wherever
it is read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from uuid import uuid4

from airflow_resume.attempt import Attempt
from airflow_resume.errors import (
    CursorTypeError,
    DanglingReferenceError,
    UnreadableRecordError,
    WatermarkChangedError,
    WatermarkError,
    WatermarkLostError,
)
from airflow_resume.record import Slot
from airflow_resume.store import StateStore
from airflow_resume.watermarks.commit import Loaded, Mark, Outcome, decide_commit
from airflow_resume.watermarks.cursor import CursorType
from airflow_resume.watermarks.options import Options
from airflow_resume.watermarks.record import MarkRecord, Move, Pending, Writer

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")

log = logging.getLogger(__name__)

MAX_MERGES = 3
_OF_RECORDS = frozenset({"v", "key", "epoch"})
"""Whichever of these an object has, it is or was a record."""


class Marks(Generic[T]):
    """The mark of one partition.

    Args:
        store: of the asset.
        key: of the record.
        options: of the watermark.
    """

    def __init__(self, store: StateStore, key: str, options: Options[T]) -> None:
        self.store, self.key = store, key
        self._options = options
        self._cursor = options.cursor
        self._slot = Slot(store, key, MarkRecord)
        self._codec = MarkCodec(key=key, cursor=options.cursor, history=options.history)

    def find(self, *, before_write: Callable[[], None], last_journaled: Callable[[], JsonValue]) -> MarkRecord:
        """The mark to begin at; a missing one is made, and a bare value taken up.

        Args:
            before_write: is called before the first write; it raises when this attempt was replaced.
            last_journaled: where the asset's events say that the mark stood; None where they say nothing.

        Raises:
            WatermarkLostError: there was a mark, and it is missing.
            WatermarkChangedError: it is one of another cursor.
            UnreadableRecordError: it is not to be understood.
            WatermarkError: others kept writing it.
        """
        for _ in range(MAX_MERGES):
            stored, _ = self._look()
            if self._codec.is_record(stored) and self._is_of_this_cursor(record := self._slot.decode(stored)):
                return record  # of two runs that are first, one has written last
            before_write()
            made = self._first(last_journaled) if stored is None else self._anew(stored)
            if made is not None:
                self._slot.write(made)
        raise WatermarkError(f"Others kept writing {self.key!r} while a window began.", "A retry begins anew.")

    def is_pending(self, epoch: str) -> bool:
        """Whether the mark is of this epoch, and nothing was loaded from it yet."""
        record = self._record()
        return record is not None and record.epoch == epoch and record.pending is not None

    def set(self, at: T, *, pending: Pending) -> MarkRecord:
        """Set the mark anew. A record that says so stays in place until something was loaded from there."""
        record = self._codec.made(at, pending=pending)
        self._slot.write(record)
        return record

    def move(self, loaded: Loaded, attempt: Attempt) -> tuple[Outcome, MarkRecord | None]:
        """What a finished window does to the mark, and the mark as it stands then.

        Raises:
            WatermarkError: others kept writing it.
        """
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
            if record is None or mark is None:
                return outcome, record
            written = self._codec.moved(record, mark, attempt)
            self._slot.write(written)
            if self._record() == written:
                return outcome, written
        raise WatermarkError(f"Other runs kept writing {self.key!r}.", "A retry loads the window again.")

    # --- making -----------------------------------------------------------------------------------------------

    def _first(self, last_journaled: Callable[[], JsonValue]) -> MarkRecord | None:
        """A mark where there is none; None where there is one by now.

        What the events say is held against a look that comes after them. A run makes the record first and writes its
        event last: one that was missing before may have been made since, by the run whose event this is.
        """
        stood = None if self._options.on_missing == "initial" else last_journaled()
        stored, lost = self._look()
        if stored is not None:
            return None
        if stood is None and (lost is None or self._options.on_missing == "initial"):
            return self._codec.made(self._options.first(), pending="initial")
        if stood is None:
            raise WatermarkLostError(
                f"{lost and lost.message} No event of asset {self._options.asset.name!r} says where the mark stood.",
                "Type the value to go on from under this key in Airflow's UI, or set on_missing='initial' to load"
                " everything again.",
            ) from lost
        if self._options.on_missing == "fail":
            raise WatermarkLostError(
                f"{self.key!r} is missing from the state of asset {self._options.asset.name!r}, although its events say"
                f" that it stood at {stood}.",
                "Set on_missing='recover' to go on from there, or on_missing='initial' to load everything again; or"
                " type the value to go on from under this key in Airflow's UI.",
            ) from lost
        log.warning("The mark %r was missing; going on at %r, where the asset's events say it stood", self.key, stood)
        return self._codec.made(self._cursor.parse(stood, what="the journal's mark"), pending=None)

    def _anew(self, stored: JsonValue) -> MarkRecord:
        """A mark in place of a value that a person typed, or of a mark of another cursor."""
        if self._codec.is_record(stored):
            return self._migrated(self._slot.decode(stored))
        made = self._codec.made(self._codec.typed(stored), pending="rewind")
        log.warning("The mark %r was set to %r by hand; loading from there", self.key, stored)
        return made

    def _migrated(self, record: MarkRecord) -> MarkRecord:
        if self._options.migrate is None:
            raise WatermarkChangedError(
                f"{self.key!r} is a mark of {record.definition or record.type!r}, and this watermark is one of"
                f" {self._cursor.definition()!r}.",
                f"Give migrate= a function that makes one of the other (it gets {record.at!r}), or this watermark"
                " another name, or type the new value under the key in Airflow's UI.",
            )
        at = self._cursor.parse(self._options.migrate(record.at), what="what migrate() returned")
        log.warning("The mark %r was migrated from %r to %r", self.key, record.at, self._cursor.dump(at))
        return self._codec.made(at, pending=None).model_copy(update={"rev": record.rev + 1, "history": record.history})

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


@dataclass(frozen=True, kw_only=True)
class MarkCodec(Generic[T]):
    """A mark as values of its cursor, and as the record that is kept."""

    key: str
    cursor: CursorType[T]
    history: int = 10

    def is_record(self, stored: JsonValue) -> bool:
        """Whether it is meant to be a record, and not a value that a person typed; a token may be an object as well."""
        return isinstance(stored, dict) and (self.cursor.is_ordered or not _OF_RECORDS.isdisjoint(stored))

    def typed(self, value: JsonValue) -> T:
        """A bare value that a person put in place of the record.

        Raises:
            UnreadableRecordError: it is none of the cursor.
        """
        try:
            return self.cursor.parse(value, what=self.key)
        except CursorTypeError as error:
            raise UnreadableRecordError(
                f"What stands under {self.key!r} is neither a mark nor a value to go on from: {error.message}",
                "Type a value of the cursor there, in Airflow's UI, or delete the key.",
            ) from error

    def made(self, at: T, *, pending: Pending | None) -> MarkRecord:
        """A record made anew."""
        return MarkRecord(
            key=self.key,
            type=self.cursor.type,
            definition=self.cursor.definition(),
            at=self.cursor.dump(at),
            epoch=uuid4().hex[:12],
            pending=pending,
            ties=(),  # of the rows at it, none is known to be loaded
        )

    def parsed(self, record: MarkRecord) -> Mark:
        """What a decision needs of the record."""

        def parse(value: JsonValue) -> Any:
            return self.cursor.parse(value, what=self.key)

        return Mark(
            at=parse(record.at),
            epoch=record.epoch,
            rev=record.rev,
            ties=record.ties,
            islands=tuple((parse(start), parse(end)) for start, end in record.islands),
        )

    def moved(self, record: MarkRecord, mark: Mark, attempt: Attempt) -> MarkRecord:
        """The record when a decision has moved its mark."""
        dump = self.cursor.dump
        at = dump(mark.at)
        has_moved = at != record.at
        history = (*record.history, Move(to=at, run_id=attempt.scope.run_id)) if has_moved else record.history
        return record.model_copy(
            update={
                "at": at,
                "rev": record.rev + 1,
                "pending": None if has_moved or mark.ties != record.ties else record.pending,
                "ties": mark.ties,
                "islands": tuple((dump(start), dump(end)) for start, end in mark.islands),
                "by": Writer.of(attempt),
                "history": history[-self.history :] if self.history else (),
            }
        )
