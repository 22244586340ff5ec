"""A change by a person: the new record, with the one before it. Pure: nothing is read or written.

Each change puts the record as it was into the new record (`ByHand.before`), so one write is all that a change needs: a
kill leaves the old record or the new one. The next attempt goes by the new record even if it comes from a clear, and
drops what was before. So a change can be undone until then, and not later, when other work depends on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from airflow_resume import values
from airflow_resume.errors import ChangeRefusedError
from airflow_resume.loops.loop_record import LoopRecord
from airflow_resume.record import SUMMARY, ByHand, Record
from airflow_resume.watermarks.marks.mark_record import MarkRecord
from airflow_resume.watermarks.marks.outbox import outbox_of, with_outbox

MAX_BEFORE_BYTES = 25_000
"""A larger record is not kept for an undo: both have to fit into one."""


@dataclass(frozen=True, kw_only=True)
class Person:
    """Who changes a record, when and why."""

    who: str
    at: datetime
    why: str | None = None


@dataclass(frozen=True, kw_only=True)
class Change:
    """What a change would write.

    Args:
        record: the new record.
        risks: what would be lost; each has to be accepted, by `--force` or on the page.
        notes: what else somebody should know.
    """

    record: Record
    risks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def by_hand(record: Record, person: Person, what: str, *, start_over: bool = False) -> ByHand:
    """What the new record says of the change; with the record before it, unless that is too large."""
    before = record.to_json()
    fits = len(values.dumps(before).encode()) <= MAX_BEFORE_BYTES
    return ByHand(
        at=person.at,
        who=person.who,
        what=what,
        why=person.why,
        claim=record.claimed_as(),
        before=before if fits else None,
        start_over=True if start_over else None,
    )


def noted_on(record: Record, note: ByHand) -> ByHand:
    """The note, for a record that was made anew."""
    return note.changed(claim=record.claimed_as())


def unfit(message: str, remedy: str | None = None) -> ChangeRefusedError:
    """The error for a change that cannot be made of this record."""
    return ChangeRefusedError(message, remedy, why="unfit")


def undo(record: Record) -> Change:
    """The record as it was before the change.

    Raises:
        ChangeRefusedError: there is no change that can be undone.
    """
    done = record.set_by_hand
    if done is None:
        used = "" if record.by_hand is None else f" An attempt has gone by what was {record.by_hand}."
        raise unfit(f"There is nothing to undo.{used}")
    if done.before is None:
        raise unfit("The record before the change was too large to be kept.", "Set it back by another change.")
    stored = dict(done.before) if isinstance(done.before, dict) else {}
    words = stored.pop(SUMMARY, None)
    before = type(record).model_validate(stored)
    if isinstance(before, LoopRecord) and isinstance(words, str):  # only its writer can make them
        return Change(record=before.changed(in_words=words.partition("; ")[0]))
    if isinstance(before, MarkRecord) and isinstance(record, MarkRecord):
        # What was published stays published.
        return Change(record=with_outbox(before.changed(rev=record.rev + 1), outbox_of(record)))
    return Change(record=before)
