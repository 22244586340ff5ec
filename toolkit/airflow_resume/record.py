"""One record under one key. A record has a version, contains its own key, and keeps fields that it does not know.

Everything in one store that must stay consistent is in one record, because the store has neither transactions nor
compare-and-set. Because a record contains its own key, an answer for another key is recognised and refused.

People see the record in Airflow's UI. So it begins with one line in words, `summary`, and the fields that people look
for. The line is written and never read: only the fields count.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, Generic, TypedDict, TypeVar

from pydantic import JsonValue, ValidationError

from airflow_resume import values
from airflow_resume.attempt import Moment, Whole, Yes, how_to_delete_a_key
from airflow_resume.errors import (
    InvalidValueError,
    ResumeError,
    StoreUnavailableError,
    UnreadableRecordError,
    ValueTooLargeError,
)
from airflow_resume.shown import short_repr
from airflow_resume.store import StateStore
from airflow_resume.stored import StoredModel, places_of

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


class ByHandChanges(TypedDict, total=False):
    """What may change in a `ByHand`."""

    claim: str
    before: JsonValue
    start_over: Yes | None
    used: Yes | None


class ByHand(StoredModel):
    """What a person has set in a record from outside of its task, as by `airflow-resume loops rewind`.

    The next attempt goes by it, even after a clear. From then on it only says who it was.

    Args:
        at: when. `who`, `what` and `why`: in words; `why` may be missing.
        claim: what `Record.claimed_as` was. An attempt of an older release keeps this note and does not go by it, so
            the note counts only until the next claim.
        before: the record as it was, for an undo. `start_over`: the next attempt starts over.
        used: an attempt went by it. It has dropped `before` and `start_over`.
    """

    at: Moment
    who: str
    what: str
    why: str | None = None
    claim: str = ""
    before: JsonValue = None
    start_over: Yes | None = None
    used: Yes | None = None

    def __str__(self) -> str:
        reason = "" if self.why is None else f": {self.why}"
        return f"{self.what} by {self.who} at {self.at:%Y-%m-%d %H:%M} UTC{reason}"

    def as_used(self) -> ByHand:
        """The same, after an attempt went by it."""
        return self.changed(before=None, start_over=None, used=True)

    def changed(self, **changes: Unpack[ByHandChanges]) -> Self:
        """The note with these fields; raises as `with_changes`."""
        return self.with_changes(changes)


class RecordChanges(TypedDict, total=False):
    """What may change in any record."""

    key: str
    by_hand: ByHand | None


class Record(StoredModel):
    """What is stored under one key."""

    VERSION: ClassVar[int] = 1
    FIRST: ClassVar[tuple[str, ...]] = ()
    """The fields that people look for, in the order in which they are stored, after the summary."""
    BY_ITSELF: ClassVar[str] = ""
    """The end of a remedy: how a record that cannot be read is replaced without a person."""

    v: Whole = 1
    key: str
    by_hand: ByHand | None = None

    @property
    def set_by_hand(self) -> ByHand | None:
        """What a person has set and no attempt has gone by yet."""
        note = self.by_hand
        return None if note is None or note.used or note.claim != self.claimed_as() else note

    @property
    def used_by_hand(self) -> ByHand | None:
        """What an attempt writes that goes by what a person has set."""
        return None if self.by_hand is None else self.by_hand.as_used()

    def claimed_as(self) -> str:
        """A text that changes whenever an attempt claims the record, or moves what it is about."""
        return ""

    def summary(self) -> str | None:
        """The record in one line for a person, without secrets; None if there is no such line."""
        return None

    def to_json(self) -> dict[str, JsonValue]:
        """The record as it is stored. It begins with what people look for. Fields without a value are left out."""
        stored = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        words = self.summary()
        if self.set_by_hand is not None:
            words = f"{self.set_by_hand}" if words is None else f"{words}; {self.set_by_hand}"
        line = {} if words is None else {SUMMARY: words}
        return {**line, **{name: stored[name] for name in self.FIRST if name in stored}, **stored}

    def with_less_history(self) -> Self | None:
        """The record without the oldest part of what it keeps only for people; None if it has no such part."""
        return None


SUMMARY = "summary"

_NO_SUCH_RECORD = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError)
"""Errors of code that reads a damaged value. OverflowError is an ArithmeticError."""

RecordT = TypeVar("RecordT", bound=Record)


class StoredRecord(Generic[RecordT]):
    """The place of one record: a store and a key."""

    def __init__(self, store: StateStore, key: str, kind: type[RecordT]) -> None:
        self.store = store
        self.key = key
        self._kind = kind

    def read(self) -> RecordT | None:
        """The record; None if the store has no record, or if this attempt was replaced.

        Raises:
            UnreadableRecordError: the value has a newer version, or is not a record.
            StoreUnavailableError: the store answered with the record of another key.
        """
        stored = self.store.get(self.key)
        return self.decode(stored) if values.is_json(stored) and stored is not None else None

    def write(self, record: RecordT) -> RecordT:
        """Write the record. It is saved when this returns, and not before.

        A record that is too large is written without the oldest part of its history.

        Returns:
            The record as it was written.

        Raises:
            InvalidValueError: the record contains something that the store would refuse; nothing was written.
            ValueTooLargeError: the record is too large even without its history; nothing was written.
            SupersededError: this attempt was replaced; nothing was written.
        """
        fitted, stored = self.fitted(record)
        self.store.set(self.key, stored)
        return fitted

    def fitted(self, record: RecordT) -> tuple[RecordT, JsonValue]:
        """The record and its JSON. If it is too large, the oldest parts of its history are left out until it fits.

        Raises:
            InvalidValueError, ValueTooLargeError: as `write`.
        """
        try:
            return record, self.encode(record)
        except ValueTooLargeError:
            shorter = record.with_less_history()
            if shorter is None:
                raise
        return self.fitted(shorter)

    def encode(self, record: RecordT) -> JsonValue:
        """The JSON of the record, checked."""
        stored = record.to_json()
        try:
            values.check_sized(stored, at=self.key, key=self.key)
        except InvalidValueError as error:
            error.key = self.key
            raise
        return stored

    def delete(self) -> None:
        """Remove the record."""
        self.store.delete(self.key)

    def decode(self, stored: JsonValue) -> RecordT:
        """The JSON from the store as a record.

        Raises: as `read`.
        """
        version = stored.get("v") if isinstance(stored, dict) else None
        if not isinstance(stored, dict) or type(version) is not int or version < 1:
            raise self.unreadable("it is not a record of airflow-resume")
        if version > self._kind.VERSION:
            raise self.unreadable(
                f"it was written by a newer version of airflow-resume (record version {version}, and this one knows"
                f" {self._kind.VERSION})",
                "Upgrade airflow-resume on this worker. ",
            )
        if (key := stored.get("key")) != self.key:
            if not isinstance(key, str):
                raise self.damaged("its key is missing" if key is None else f"its key is {short_repr(key)}")
            raise StoreUnavailableError(
                f"Asked for {self.key!r}, the store answered with the record of {short_repr(key, most=250)}. It was not"
                " used.",
                "A retry asks again. If the key in the record was changed by hand, put it right, or"
                f" {how_to_delete_a_key()} to start over.",
                key=self.key,
            )
        fields = {name: value for name, value in stored.items() if name != SUMMARY}
        try:
            values.check(fields, at=self.key)  # refuses what no attempt can have written, such as NaN
            return self._kind.model_validate(fields)
        except Exception:
            with self.reading():  # entered only after an error, as this is faster for the many undamaged records
                raise

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn each error of reading the record, or a part of it, into one kind of error.

        Other errors of this package are not changed.

        Raises:
            UnreadableRecordError: no attempt can have saved this; its cause says why.
        """
        try:
            yield
        except ValidationError as error:
            raise self.damaged(places_of(error)) from error
        except InvalidValueError as error:
            raise self.damaged(error.message) from error
        except ResumeError:
            raise
        except _NO_SUCH_RECORD as error:
            raise self.damaged(f"{type(error).__name__}: {error}") from error

    def damaged(self, why: str) -> UnreadableRecordError:
        """The error for a record that no attempt can have written."""
        return self.unreadable(f"it was changed by hand or damaged ({why})")

    def unreadable(self, why: str, remedy: str = "") -> UnreadableRecordError:
        """The error for a record that exists and cannot be read."""
        return UnreadableRecordError(
            f"The record under {self.key!r} cannot be read: {why}. Nothing was touched.",
            f"{remedy}To start over, {how_to_delete_a_key()}{self._kind.BY_ITSELF}.",
            key=self.key,
        )
