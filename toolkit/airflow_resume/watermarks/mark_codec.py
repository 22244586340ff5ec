"""A mark as values of its cursor, and as the record that is kept."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar
from uuid import uuid4

from airflow_resume.attempt import Attempt, utc_now
from airflow_resume.errors import CursorTypeError, UnreadableRecordError
from airflow_resume.watermarks.commit import Mark
from airflow_resume.watermarks.cursor import CursorType
from airflow_resume.watermarks.cursor_type import refusal
from airflow_resume.watermarks.entry import Outbox
from airflow_resume.watermarks.outbox import outbox_of, with_outbox
from airflow_resume.watermarks.record import MarkRecord, Move, Owner, Pending, Writer

if TYPE_CHECKING:
    from pydantic import JsonValue

T = TypeVar("T")

_OF_RECORDS = frozenset({"v", "key", "epoch"})
"""An object that has all of these is a record."""


@dataclass(frozen=True, kw_only=True)
class MarkCodec(Generic[T]):
    """A mark as values of its cursor, and as the record that is kept."""

    key: str
    cursor: CursorType[T]
    history: int = 10

    def is_record(self, stored: JsonValue) -> bool:
        """Whether it is meant to be a record, and not a value that a person typed; a token may be an object as well.

        One that was damaged still names its key.
        """
        if not isinstance(stored, dict):
            return False
        return self.cursor.is_ordered or stored.get("key") == self.key or stored.keys() >= _OF_RECORDS

    def typed(self, value: JsonValue) -> T:
        """A bare value that a person put in place of the record.

        Raises:
            UnreadableRecordError: it is none of the cursor.
        """
        try:
            if isinstance(value, str) and len(value) > 1 and value[0] == value[-1] == '"':
                raise refusal(value, "Type one pair of double quotes, not two.", what=self.key)
            return self.cursor.parse(value, what=self.key)
        except CursorTypeError as error:
            raise UnreadableRecordError(
                f"What stands under {self.key!r} is neither a mark nor a value to go on from: {error.message}",
                f"{self.by_hand()} Or delete the key.",
            ) from error

    def by_hand(self, value: JsonValue = None) -> str:
        """How a person sets the mark, as a sentence; with the value to type, where it is known."""
        what = "the value to go on from" if value is None else json.dumps(value)
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
        """A record made anew."""
        return MarkRecord(
            key=self.key,
            type=self.cursor.type,
            definition=self.cursor.definition(),
            at=self.cursor.dump(at),
            epoch=uuid4().hex[:12],
            pending=pending,
            ties=(),  # of the rows at it, none is known to be loaded
            by=by,
            history=self.newest(history),
            owner=owner,
            shared=_true_or_none(shared),
            first=first,
            lag_seconds=seconds_behind(at),
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

    def moved(
        self,
        record: MarkRecord,
        mark: Mark,
        attempt: Attempt,
        *,
        owner: Owner | None = None,
        shared: bool = False,
        first: JsonValue = None,
        outbox: Outbox | None = None,
    ) -> MarkRecord:
        """The record when a decision has moved its mark.

        Args:
            record: as it stands.
            mark: as it shall stand.
            attempt: that moves it.
            owner: of the mark from now on; None: as before.
            shared: by the owner with others.
            first: kept if none is kept yet.
            outbox: what consumers may not know of yet; None: as before.
        """
        dump = self.cursor.dump
        at = dump(mark.at)
        has_moved, has_more_ties = at != record.at, mark.ties != record.ties
        history = (*record.history, Move(to=at, run_id=attempt.scope.run_id)) if has_moved else record.history
        moved = record.model_copy(
            update={
                "at": at,
                "rev": record.rev + 1,
                "pending": None if has_moved or has_more_ties else record.pending,
                "ties": mark.ties,
                "islands": tuple((dump(start), dump(end)) for start, end in mark.islands),
                "by": Writer.of(attempt),
                "history": self.newest(history),
                "owner": owner or record.owner,
                "shared": _true_or_none(shared) if owner is not None else record.shared,
                "first": first if record.first is None else record.first,
                "lag_seconds": seconds_behind(mark.at),
            }
        )
        return with_outbox(moved, outbox_of(record) if outbox is None else outbox)

    def newest(self, history: tuple[Move, ...]) -> tuple[Move, ...]:
        """As many moves as are kept."""
        return history[-self.history :] if self.history else ()


def seconds_behind(value: object) -> float | None:
    """How long ago a point in time was; None for what is none."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return round((utc_now() - value).total_seconds(), 3)


def _true_or_none(flag: bool) -> Literal[True] | None:  # noqa: FBT001
    return True if flag else None
