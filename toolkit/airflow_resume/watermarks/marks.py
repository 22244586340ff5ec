"""The mark in the asset's store: found, made, set by a person or a program, and moved.

Theory of operation. The asset's store takes writes from any attempt of any task, and has no compare-and-set. So a write
is read back, and merged again when somebody else won; and each record bears an epoch, so that a run which began before
the mark was set anew cannot move it. A bare value, as a person types it in Airflow's UI, is a mark set anew.
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
        """
        stored, lost = self._stored_or_lost()
        if isinstance(stored, dict):
            return self._of_this_cursor(self._slot.decode(stored), before_write)
        before_write()
        if stored is None:
            made = self._first(last_journaled, lost)
        else:
            made = self._codec.made(self._codec.typed(stored), pending="rewind")
            log.warning("The mark %r was set to %r by hand; loading from there", self.key, stored)
        self._slot.write(made)
        found = self._slot.read()  # of two runs that are first, one has written last
        if found is None:
            raise WatermarkError(f"{self.key!r} was deleted while it was made")
        return found

    def _stored_or_lost(self) -> tuple[JsonValue, DanglingReferenceError | None]:
        """What is there; a reference to a value that a state backend has lost is none, and shows that there was one."""
        try:
            return self.store.get(self.key), None
        except DanglingReferenceError as error:
            return None, error

    def is_pending(self, epoch: str) -> bool:
        """Whether the mark is of this epoch, and nothing was loaded from it yet."""
        stored = self.store.get(self.key)
        record = self._slot.decode(stored) if isinstance(stored, dict) else None
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
            stored = self.store.get(self.key)
            # A bare value was typed by a person while the window was loaded.
            record = self._slot.decode(stored) if isinstance(stored, dict) else None
            outcome, mark = decide_commit(
                None if record is None else self._codec.parsed(record),
                loaded,
                ordered=self._cursor.is_ordered,
                on_gap=self._options.on_gap,
            )
            if record is None or mark is None:
                return outcome, record
            written = self._codec.moved(record, mark, attempt)
            self._slot.write(written)
            if self._slot.read() == written:
                return outcome, written
        raise WatermarkError(f"Other runs kept writing {self.key!r}.", "A retry loads the window again.")

    # --- making -----------------------------------------------------------------------------------------------

    def _first(self, last_journaled: Callable[[], JsonValue], lost: DanglingReferenceError | None) -> MarkRecord:
        stood = None if self._options.on_missing == "initial" else last_journaled()
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

    # --- reading ----------------------------------------------------------------------------------------------

    def _of_this_cursor(self, record: MarkRecord, before_write: Callable[[], None]) -> MarkRecord:
        if record.type == self._cursor.type and record.definition in ({}, self._cursor.definition()):
            return record
        if self._options.migrate is None:
            raise WatermarkChangedError(
                f"{self.key!r} is a mark of {record.definition or record.type!r}, and this watermark is one of"
                f" {self._cursor.definition()!r}.",
                f"Give migrate= a function that makes one of the other (it gets {record.at!r}), or this watermark"
                " another name, or type the new value under the key in Airflow's UI.",
            )
        at = self._cursor.parse(self._options.migrate(record.at), what="what migrate() returned")
        before_write()
        log.warning("The mark %r was migrated from %r to %r", self.key, record.at, self._cursor.dump(at))
        migrated = self._codec.made(at, pending=None).model_copy(
            update={"rev": record.rev + 1, "history": record.history}
        )
        self._slot.write(migrated)
        return migrated


@dataclass(frozen=True, kw_only=True)
class MarkCodec(Generic[T]):
    """A mark as values of its cursor, and as the record that is kept."""

    key: str
    cursor: CursorType[T]
    history: int = 10

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
