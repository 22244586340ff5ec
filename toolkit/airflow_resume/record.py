"""One record under one key: versioned, naming its own key, keeping the fields it does not know.

Everything that must stay consistent lives in one record, because the store has neither transactions nor
compare-and-set. A record names its own key, so that an answer meant for another key is recognised and refused.

A record is also what a person sees in Airflow's UI. So it begins with one line in words, `summary`, and the fields that
people look for. The line is written and never read: what a record means stands in its fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from airflow_resume import values
from airflow_resume.attempt import how_to_delete_a_key
from airflow_resume.errors import UnreadableRecordError, ValueTooLargeError, WrongRecordError
from airflow_resume.store import StateStore

if TYPE_CHECKING:
    from pydantic import JsonValue
    from typing_extensions import Self


class Record(BaseModel):
    """What is stored under one key."""

    model_config = ConfigDict(defer_build=True, extra="allow", frozen=True, populate_by_name=True)

    VERSION: ClassVar[int] = 1
    FIRST: ClassVar[tuple[str, ...]] = ()
    """The fields that people look for, in the order in which they are stored, after the summary."""
    BY_ITSELF: ClassVar[str] = ""
    """How a record that cannot be read is started over without a person, for a remedy."""

    v: int = 1
    key: str

    def summary(self) -> str | None:
        """What the record says, in one line without secrets, for a person; None for no line."""
        return None

    def to_json(self) -> dict[str, JsonValue]:
        """The record as it is stored, what people look for first; fields without a value are left out."""
        stored = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        words = self.summary()
        told = {} if words is None else {SUMMARY: words}
        return {**told, **{name: stored[name] for name in self.FIRST if name in stored}, **stored}

    def with_less_history(self) -> Self | None:
        """The record without a part of what it keeps for people to read, the oldest first; None: that is gone."""
        return None


SUMMARY = "summary"

RecordT = TypeVar("RecordT", bound=Record)


class Slot(Generic[RecordT]):
    """The place of one record: a store and a key."""

    def __init__(self, store: StateStore, key: str, kind: type[RecordT]) -> None:
        self.store = store
        self.key = key
        self._kind = kind

    def read(self) -> RecordT | None:
        """The record; None when the store has none, or when this attempt was replaced.

        Raises:
            UnreadableRecordError: of a newer version, or not a record at all.
            WrongRecordError: the store answered with the record of another key.
        """
        stored = self.store.get(self.key)
        return self.decode(stored) if values.is_json(stored) and stored is not None else None

    def write(self, record: RecordT) -> RecordT:
        """Write the record. It counts as saved when this returns, and not before.

        One that is too large is written without the oldest of what is only history.

        Returns:
            It as it was written.

        Raises:
            InvalidValueError: it holds something the store would refuse; nothing was written.
            ValueTooLargeError: it is too large without any history; nothing was written.
            SupersededError: this attempt was replaced; nothing was written.
        """
        fitted, stored = self.fitted(record)
        self.store.set(self.key, stored)
        return fitted

    def fitted(self, record: RecordT) -> tuple[RecordT, JsonValue]:
        """The record without the oldest of its history, as far as it is too large, and as it is stored.

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
        """The record as it is stored, checked."""
        stored = record.to_json()
        values.check_sized(stored, at=self.key)
        return stored

    def delete(self) -> None:
        """Remove the record."""
        self.store.delete(self.key)

    def decode(self, stored: JsonValue) -> RecordT:
        """The record that `stored` is.

        Raises: as `read`.
        """
        version = stored.get("v") if isinstance(stored, dict) else None
        if not isinstance(stored, dict) or not isinstance(version, int):
            raise self.unreadable("it is not a record of airflow-resume")
        if version > self._kind.VERSION:
            raise self.unreadable(
                f"it was written by a newer version of airflow-resume (record version {version}, and this one knows"
                f" {self._kind.VERSION})",
                "Upgrade airflow-resume on this worker. ",
            )
        if stored.get("key") != self.key:
            raise WrongRecordError(f"Asked for {self.key!r}, the store answered with {stored.get('key')!r}.")
        try:
            return self._kind.model_validate({name: value for name, value in stored.items() if name != SUMMARY})
        except ValidationError as error:
            places = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:3])
            raise self.unreadable(f"it was changed by hand or damaged ({places})") from error

    def unreadable(self, why: str, remedy: str = "") -> UnreadableRecordError:
        """The error for a record that is there and means nothing."""
        return UnreadableRecordError(
            f"The record under {self.key!r} cannot be read: {why}. Nothing was touched.",
            f"{remedy}To start over, {how_to_delete_a_key()}{self._kind.BY_ITSELF}.",
        )
