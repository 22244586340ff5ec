"""What all rows have: where the record is, and its digest. Durations in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_resume import values
from airflow_resume.errors import ResumeError
from airflow_resume.loops.loop_record import LoopRecord
from airflow_resume.operating.places import Entry, parsed
from airflow_resume.record import SUMMARY, Record, StoredRecord
from airflow_resume.store import MemoryStore

if TYPE_CHECKING:
    from pydantic import JsonValue

RecordT = TypeVar("RecordT", bound=Record)

ACTIVE = frozenset({"running", "deferred", "up_for_reschedule", "restarting"})
"""States in which an attempt is under way."""
WAITING = frozenset({"up_for_retry", "queued", "scheduled"})
"""States from which another attempt follows by itself."""
NEVER = "never"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A record as a person sees it.

    Args:
        name: of the job, the loop or the mark. `key`: under which the record is.
        state: one word or two.
        trouble: why somebody should look at it; None if nobody needs to.
        digest: tells whether the record is still the one that was shown; `kinds.row_of` works it out.
        updated: when the record was written.
        set_by_hand: what a person has set and no attempt has gone by yet.
    """

    name: str
    key: str
    state: str
    trouble: str | None = None
    digest: str = ""
    updated: datetime | None = None
    set_by_hand: str | None = None


class Standing(Enum):
    """What the task of a record does."""

    ACTIVE = "active"
    WAITING = "waiting"
    OVER = "over"


def standing_of(state: str | None) -> Standing:
    """From the state of a task instance, which is None after a clear, until it is scheduled."""
    if state in ACTIVE:
        return Standing.ACTIVE
    return Standing.WAITING if state is None or state in WAITING else Standing.OVER


def digest_of(stored: JsonValue) -> str:
    """A short text that changes with the record."""
    try:
        return values.fingerprint(stored, length=10)
    except ResumeError:
        return "unreadable"


def decoded(entry: Entry, kind: type[RecordT]) -> RecordT:
    """The record of an entry.

    Raises:
        UnreadableRecordError: it is none, or a newer airflow-resume has written it.
    """
    if entry.text is not None:
        found: RecordT = _decoded(kind, entry.key, entry.text)
        return found
    return StoredRecord(_NOWHERE, entry.key, kind).decode(entry.value)


@lru_cache(maxsize=2_500)
def _decoded(kind: type[Record], key: str, text: str) -> Any:
    return StoredRecord(_NOWHERE, key, kind).decode(parsed(text))


_NOWHERE = MemoryStore()
"""A record that is only decoded is in no store."""


def to_be_changed(entry: Entry, kind: type[RecordT]) -> RecordT:
    """The same, and the record of a loop with its summary, which only its task can make: nothing else reads that.

    Raises:
        UnreadableRecordError: as `decoded`.
    """
    record, stored = decoded(entry, kind), entry.value
    words = stored.get(SUMMARY) if isinstance(stored, dict) else None
    if not isinstance(record, LoopRecord) or not isinstance(words, str):
        return record
    return record.changed(in_words=words.partition("; ")[0])


def in_words(duration: timedelta) -> str:
    """Two units at most, such as `3 d 4 h` or `12 s`."""
    seconds = max(round(duration.total_seconds()), 0)
    for unit, size, smaller, parts in _UNITS:
        if seconds >= size:
            count, rest = divmod(seconds, size)
            more = rest // (size // parts)
            return f"{count} {unit} {more} {smaller}" if more else f"{count} {unit}"
    return f"{seconds} s"


_UNITS = (("d", 86_400, "h", 24), ("h", 3_600, "m", 60), ("m", 60, "s", 60))
"""A unit, its seconds, the next smaller unit, and how many of those it has."""


def since(moment: datetime | None, now: datetime) -> str:
    """How long ago that was."""
    return NEVER if moment is None else in_words(now - moment)


def clock(moment: datetime | None) -> str | None:
    """A time to the second, in UTC."""
    return None if moment is None else f"{moment.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


def joined(parts: Sequence[str | None]) -> str | None:
    """Sentences in one; None if there are none."""
    return "; ".join(part for part in parts if part) or None
