"""Converts between a mark's record and values of its cursor."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar
from uuid import uuid4

from airflow_resume.attempt import Attempt
from airflow_resume.errors import CursorTypeError, UnreadableRecordError, WatermarkMismatchError
from airflow_resume.watermarks.commit import MarkState
from airflow_resume.watermarks.cursors.cursor import CursorType
from airflow_resume.watermarks.cursors.cursor_type import refusal, shown_value
from airflow_resume.watermarks.marks.mark_record import (
    MarkRecord,
    Move,
    Owner,
    Pending,
    Writer,
    age_seconds,
    now_to_the_second,
)
from airflow_resume.watermarks.marks.outbox import Outbox, outbox_of, with_outbox

if TYPE_CHECKING:
    from pydantic import JsonValue

    from airflow_resume.record import StoredRecord

T = TypeVar("T")

_OF_RECORDS = frozenset({"v", "key", "epoch"})
"""A JSON object with all these members is a record."""


@dataclass(frozen=True, kw_only=True)
class MarkCodec(Generic[T]):
    """Converts between a mark's record and values of its cursor.

    Args:
        key: of the mark.
        cursor: of the watermark.
        history: how many of the newest moves are kept.
        initial: the initial value, if it is a constant; as it is stored.
    """

    key: str
    cursor: CursorType[T]
    history: int = 10
    initial: JsonValue = None

    def is_record(self, stored: JsonValue) -> bool:
        """Whether the stored value is a record, maybe a damaged one, and not a value that a person typed.

        A token of a cursor may be a JSON object too. But a record contains its key, or all members of a record.
        """
        if not isinstance(stored, dict):
            return False
        return self.cursor.is_ordered or stored.get("key") == self.key or stored.keys() >= _OF_RECORDS

    def typed(self, value: JsonValue) -> T:
        """A bare value that a person put in place of the record.

        Raises:
            UnreadableRecordError: it is not a value of the cursor.
        """
        try:
            if isinstance(value, str) and len(value) > 1 and value[0] == value[-1] == '"':
                raise refusal(value, "Type one pair of double quotes, not two.", what=self.key)
            return self.cursor.parse(value, what=self.key)
        except CursorTypeError as error:
            raise UnreadableRecordError(
                f"The value under {self.key!r} is neither a mark nor a value of its cursor: {error.message}",
                f"{self.by_hand()} Or delete the key.",
                key=self.key,
            ) from error

    def by_hand(self, value: JsonValue = None) -> str:
        """A sentence for messages: how a person sets the mark, with the value to type if that is known."""
        what = "the value to continue from" if value is None else json.dumps(value)
        quotes = ', as JSON: a text stands in double quotes, such as "2026-01-15T00:00:00Z"' if value is None else ""
        return f"Type {what} under {self.key!r} in the asset's state in Airflow's UI{quotes}."

    def made(
        self,
        at: T,
        *,
        pending: Pending | None,
        owner: Owner | None = None,
        shared: bool = False,
        by: Writer | None = None,
        first: JsonValue = None,
        history: tuple[Move, ...] = (),
    ) -> MarkRecord:
        """A new record."""
        return MarkRecord(
            key=self.key,
            type=self.cursor.type,
            definition=self.cursor.definition(),
            at=self.cursor.dump(at),
            epoch=uuid4().hex[:12],
            pending=pending,
            ties=(),  # no row at the mark is known to be loaded
            by=by,
            history=self.newest(history),
            owner=owner,
            shared=_true_or_none(shared),
            first=first,
            initial=self.initial,
            lag_seconds=age_seconds(at),
        )

    def is_of_this_cursor(self, record: MarkRecord) -> bool:
        """Whether the values of the record have the same meaning as the values of the cursor."""
        return record.type == self.cursor.type and record.definition in ({}, self.cursor.definition())

    def mismatch(self, record: MarkRecord, remedy: str, *, asset: str | None = None) -> WatermarkMismatchError:
        """The error for a record that does not belong to this cursor.

        Args:
            record: of another cursor, or one whose type was edited by hand.
            remedy: what to do if it is of another cursor.
            asset: its name, if it is known.
        """
        stored: JsonValue = {**record.definition, "type": record.type} if record.definition else record.type
        meant = record.definition.get("type", record.type)
        if meant != record.type:
            remedy = (
                f"Its type {record.type!r} is not that of its definition, {meant!r}, as after an edit by hand. If it"
                f" was edited, set the type back. Otherwise: {remedy}"
            )
        return WatermarkMismatchError(
            f"{self.key!r} is a mark of {stored!r}, and this watermark is one of {self.cursor.definition()!r}.",
            remedy,
            key=self.key,
            asset=asset,
            stored=stored,
            expected=self.cursor.definition(),
        )

    def decoded(self, slot: StoredRecord[MarkRecord], stored: JsonValue) -> MarkRecord:
        """The record. If it belongs to this cursor, its values are checked too.

        Raises:
            UnreadableRecordError: the value is not a record, or no attempt can have written its values.
        """
        record = slot.decode(stored)
        if self.is_of_this_cursor(record) and record.islands and self.cursor.is_ordered:
            with slot.reading():
                mark = self.parsed(record)
                upto = mark.at
                for start, end in mark.islands:
                    if not upto < start < end:
                        raise ValueError(
                            f"islands: {shown_value(start)} to {shown_value(end)} is no window beyond"
                            f" {shown_value(upto)}"
                        )
                    upto = end
        return record

    def parsed(self, record: MarkRecord) -> MarkState:
        """The part of the record that a commit decision needs."""

        def parse(value: JsonValue) -> Any:
            return self.cursor.parse(value, what=self.key)

        return MarkState(
            at=parse(record.at),
            epoch=record.epoch,
            rev=record.rev,
            ties=record.ties,
            islands=tuple((parse(start), parse(end)) for start, end in record.islands),
        )

    def moved(
        self,
        record: MarkRecord,
        mark: MarkState,
        attempt: Attempt,
        *,
        owner: Owner | None = None,
        shared: bool = False,
        first: JsonValue = None,
        outbox: Outbox | None = None,
    ) -> MarkRecord:
        """The record after a commit decision.

        Args:
            record: the present record.
            mark: the decision.
            attempt: the attempt that moves the mark.
            owner: of the mark from now on; None to keep the present owner.
            shared: whether other tasks may move it too.
            first: the initial value, if the record does not have it yet.
            outbox: the windows to publish; None to keep the present outbox.
        """
        dump = self.cursor.dump
        at = dump(mark.at)
        has_moved, has_more_ties = at != record.at, mark.ties != record.ties
        move = Move(to=at, run_id=attempt.scope.run_id, when=now_to_the_second())
        history = (*record.history, move) if has_moved else record.history
        moved = record.changed(
            at=at,
            rev=record.rev + 1,
            pending=None if has_moved or has_more_ties else record.pending,
            ties=mark.ties,
            islands=tuple((dump(start), dump(end)) for start, end in mark.islands),
            by=Writer.of(attempt),
            history=self.newest(history),
            owner=owner or record.owner,
            shared=_true_or_none(shared) if owner is not None else record.shared,
            first=first if record.first is None else record.first,
            initial=self.initial,
            lag_seconds=age_seconds(mark.at),
            by_hand=record.used_by_hand,
        )
        return with_outbox(moved, outbox_of(record) if outbox is None else outbox)

    def newest(self, history: tuple[Move, ...]) -> tuple[Move, ...]:
        """The newest moves, as many as are kept."""
        return history[-self.history :] if self.history else ()


def _true_or_none(flag: bool) -> Literal[True] | None:  # noqa: FBT001
    return True if flag else None
