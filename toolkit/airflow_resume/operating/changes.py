"""The record after a change by a person, and what the next run makes of it. Pure: nothing is read or written.

Each change puts the record as it was into the new record (`ByHand.before`), so one write is all that a change needs: a
kill leaves the old record or the new one. The next attempt goes by the new record even if it comes from a clear, and
drops what was before. So a change can be undone until then, and not later, when other work depends on it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from uuid import uuid4

from airflow_resume import values
from airflow_resume.errors import ChangeRefusedError, CursorTypeError, InvalidValueError
from airflow_resume.jobs.decide import Phase
from airflow_resume.jobs.record import MAX_OWN_ID_BYTES, JobRecord
from airflow_resume.loops.loop_record import LoopRecord, SkippedElement
from airflow_resume.record import SUMMARY, ByHand, Record
from airflow_resume.shown import short_repr
from airflow_resume.watermarks.cursors.cursor import CursorType, restored_cursor
from airflow_resume.watermarks.marks.mark_record import MarkRecord, Move, age_seconds
from airflow_resume.watermarks.marks.outbox import outbox_of, with_outbox

if TYPE_CHECKING:
    from pydantic import JsonValue

Order: TypeAlias = Literal["earlier", "same", "later", "unknown"]
"""Where a value lies, seen from the mark."""
MAX_MOVES = 10
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
        risks: what would be lost; each has to be accepted by `--force`.
        notes: what else somebody should know.
    """

    record: Record
    risks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where to continue a loop.

    Args:
        element: the number of the element, page or slice that is to be next, counted from 1.
        position: instead, the position itself, in the form of the source, and `done`: how many elements are before it.
    """

    element: int | None = None
    position: JsonValue = None
    done: int | None = None
    skips: SkippedElement | None = field(default=None, repr=False)


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


# --- jobs -----------------------------------------------------------------------------------------------------


def adopt(record: JobRecord, external_id: JsonValue, person: Person) -> Change:
    """Put a job on record that a person has found in the job system.

    Raises:
        ChangeRefusedError: the id cannot be one.
    """
    if external_id in (None, "") or len(values.dumps(external_id).encode()) > MAX_OWN_ID_BYTES:
        raise _unfit(f"{short_repr(external_id)} is not the id of a job.", "Give it as the job system has it.")
    risks = (f"{record.id} is on record and may be alive: nobody will wait for it",) if _may_live(record) else ()
    changed = record.changed(
        phase=Phase.SUBMITTED,
        id=external_id,
        status=None,
        submitted_at=None,
        waiting=None,
        stray=None,
        lost=None,
        error=None,
        notes=None,
        result=None,
        by_hand=by_hand(record, person, f"adopted {values.dumps(external_id)[:60]}"),
    )
    return Change(record=changed, risks=() if record.id == external_id else risks)


def forget(record: JobRecord, person: Person) -> Change:
    """Forget the job on record, so that the next attempt submits another one."""
    risks = []
    if _may_live(record):
        risks.append(f"{record.id} is on record and may be alive: there would be two")
    changed = record.changed(
        phase=Phase.TERMINAL,
        id=None,
        status=None,
        submitted_at=None,
        waiting=None,
        stray=None,
        lost=None,
        error=None,
        notes=None,
        result=None,
        by_hand=by_hand(record, person, "forgotten" if record.id is None else f"forgotten {record.id}"),
    )
    notes = ("look in the job system first: a job that runs there is not ended by this",)
    return Change(record=changed, risks=tuple(risks), notes=notes)


def _may_live(record: JobRecord) -> bool:
    is_over = record.phase is Phase.TERMINAL or (record.status is not None and record.status.is_terminal)
    return record.id is not None and not is_over


# --- loops ----------------------------------------------------------------------------------------------------


def restart(record: LoopRecord, person: Person) -> Change:
    """Have the next attempt start over."""
    what = "set to start over"
    return Change(record=record.changed(by_hand=by_hand(record, person, what, start_over=True)))


def resume(record: LoopRecord, person: Person) -> Change:
    """Have the next attempt continue where the loop is, also if it comes from a clear.

    Raises:
        ChangeRefusedError: the loop is done.
    """
    if record.done:
        raise _unfit("The loop is done, so there is nothing to continue.", "`rewind` sets it back.")
    what = f"set to continue after {record.n} elements"
    return Change(record=record.changed(by_hand=by_hand(record, person, what)))


def rewind(record: LoopRecord, target: Target, person: Person) -> Change:
    """Have the next attempt continue at an earlier element.

    Raises:
        ChangeRefusedError: the position cannot be worked out, or it is not an earlier one.
    """
    position, done = _position(record, target)
    if done > record.n or (done == record.n and not record.done and record.ahead is None):
        raise _unfit(
            f"The loop has done {record.n} elements, so {done + 1} is no earlier one.",
            "`resume` continues where it is, and `skip` passes over the element that is next.",
        )
    return Change(record=_moved(record, position, done, person, f"set back to element {done + 1}"), notes=_kept(record))


def skip(record: LoopRecord, person: Person) -> Change:
    """Have the next attempt pass over the element that is next.

    Raises:
        ChangeRefusedError: the position after it cannot be worked out, or there is none.
    """
    if record.done:
        raise _unfit("The loop is done, so no element is next.")
    position, done = _position(record, Target(element=record.n + 2))
    why = f"skipped by {person.who}" + ("" if person.why is None else f": {person.why}")
    skips = [*(record.skips or ()), SkippedElement(pos=record.pos, error=why)][-20:]
    moved = _moved(record, position, done, person, f"set past element {done}")
    return Change(
        record=moved.changed(skipped=record.skipped + 1, skips=skips),
        risks=(f"element {done} is not delivered",),
        notes=_kept(record),
    )


def _moved(record: LoopRecord, position: JsonValue, done: int, person: Person, what: str) -> LoopRecord:
    return record.changed(
        pos=position,
        pos_at=None,
        n=done,
        done=False,
        ahead=None,
        seen=None,
        short=None,
        inner=None,
        inner_at=None,
        page_start=None,
        rate=None,
        eta=None,
        ts=person.at,
        by_hand=by_hand(record, person, what),
        in_words=f"next is element {done + 1:,}",
    )


def _kept(record: LoopRecord) -> tuple[str, ...]:
    return ("the state that the body keeps in the record stays as it is now",) if record.state else ()


def _position(record: LoopRecord, target: Target) -> tuple[JsonValue, int]:
    """The position, and how many elements are before it."""
    if target.element is None:
        if target.done is None:
            raise _unfit("It is not known how many elements are before the position.", "Give --done too.")
        return target.position, target.done
    done = target.element - 1
    if done < 0:
        raise _unfit(f"There is no element {target.element}.", "Elements are counted from 1.")
    if done == 0:
        return None, 0
    if record.kind not in _NUMBERED:
        raise _unknown(record, done)
    return _NUMBERED[record.kind](record, done), done


def _in_batches(record: LoopRecord, done: int) -> JsonValue:
    return done * _each(record, record.pos)


def _page_number(record: LoopRecord, done: int) -> JsonValue:
    place = _members(record)
    start = place["page"] - record.n
    return {"page": start + done, "rows": done * _each(record, place.get("rows", 0))}


def _offset(record: LoopRecord, done: int) -> JsonValue:
    return {"offset": done * _each(record, _members(record)["offset"])}


def _unknown(record: LoopRecord, done: int) -> ChangeRefusedError:
    return _unfit(
        f"The position of element {done + 1} of a source of the kind {record.kind!r} cannot be worked out.",
        "Give it with --position (JSON, as `show` prints it) and --done; or use `restart`.",
    )


_NUMBERED = {"batches": _in_batches, "page_number": _page_number, "offset": _offset}
"""By the kind of the source, the position after so many elements."""


def _members(record: LoopRecord) -> dict[str, Any]:
    if not isinstance(record.pos, dict) or "index" in record.pos:
        raise _unknown(record, record.n)
    return record.pos


def _each(record: LoopRecord, counted: JsonValue) -> int:
    """How much one element counts, if it is the same for all."""
    if type(counted) is int and record.n and not counted % record.n and record.ahead is None:
        return counted // record.n
    raise _unknown(record, record.n)


# --- marks ----------------------------------------------------------------------------------------------------


def set_mark(record: MarkRecord, to: str, person: Person, *, backwards: bool = False) -> Change:
    """Set a mark.

    Args:
        record: of the mark.
        to: the value as text, or as JSON.
        person: who sets it.
        backwards: refuse a value that is not before the mark.

    Raises:
        ChangeRefusedError: it is not a value of the mark's cursor, or not before the mark.
    """
    cursor = restored_cursor({"type": record.type, **record.definition})
    at, parsed, order = _value(record, cursor, to)
    if backwards and order != "earlier":
        raise _unfit(f"{to} is not before the mark, {record.at}.", "`set` sets it to any value.")
    risks = (f"rows between {record.at} and {to} that were not loaded are skipped",) if order == "later" else ()
    notes = ("it is not known which rows lie between the two values",) if order == "unknown" else ()
    what = f"set to {to} (it was {values.dumps(record.at)})"
    made = {
        **record.to_json(),
        "at": at,
        "rev": record.rev + 1,
        "epoch": uuid4().hex[:12],
        "pending": "rewind",
        "ties": [],
        "islands": [],
        "by": None,
        "lag_seconds": age_seconds(parsed),
        "by_hand": None,
    }
    made.pop(SUMMARY, None)
    history = (*record.history, Move(to=at, run_id="", for_person=True))[-MAX_MOVES:]
    new = MarkRecord.model_validate(made)
    note = _noted_on(new, by_hand(record, person, what))
    return Change(
        record=with_outbox(new.changed(history=history, by_hand=note), outbox_of(record)), risks=risks, notes=notes
    )


def rewind_mark(record: MarkRecord, by: timedelta | int, person: Person) -> Change:
    """Set a mark back by a duration, or by a number.

    Raises:
        ChangeRefusedError: the mark is not a time or a number.
    """
    cursor = restored_cursor({"type": record.type, **record.definition})
    try:
        earlier = None if cursor is None else cursor.dump(cursor.parse(record.at, what="the mark") - by)
    except (TypeError, ValueError, OverflowError) as error:
        raise _unfit(
            f"{record.at} cannot be set back by {by}: the mark is one of the type {record.type!r}.",
            "Give the value with --to.",
        ) from error
    if earlier is None:
        raise _unfit(
            f"A mark of the type {record.type!r} cannot be set back by a distance.", "Give the value with --to."
        )
    return set_mark(record, earlier if isinstance(earlier, str) else json.dumps(earlier), person, backwards=True)


def reset_mark(record: MarkRecord, person: Person) -> Change:
    """Have the next run set the mark to its initial value."""
    return Change(record=record.changed(by_hand=by_hand(record, person, "set to the initial value", start_over=True)))


def _value(record: MarkRecord, cursor: CursorType[Any] | None, to: str) -> tuple[JsonValue, Any, Order]:
    """As it is stored, as the cursor has it, and where it lies."""
    given: JsonValue = to
    if cursor is None or not isinstance(record.at, str):
        try:
            given = json.loads(to)
        except ValueError:
            given = to
    if cursor is None:
        if type(given) is not type(record.at):
            raise _unfit(f"{to} is not of the form of the mark, {values.dumps(record.at)}.", "Write it as JSON.")
        return given, None, "unknown"
    try:
        parsed, now = cursor.parse(given, what="the value"), cursor.parse(record.at, what="the mark")
    except (CursorTypeError, InvalidValueError, ValueError) as error:
        raise _unfit(f"{short_repr(to)} is not a value of the mark: {error}") from error
    if not cursor.is_ordered:
        return cursor.dump(parsed), parsed, "unknown"
    return cursor.dump(parsed), parsed, "later" if parsed > now else "earlier" if parsed < now else "same"


# --- undo -----------------------------------------------------------------------------------------------------


def undo(record: Record) -> Change:
    """The record as it was before the change.

    Raises:
        ChangeRefusedError: there is no change that can be undone.
    """
    done = record.set_by_hand
    if done is None:
        used = "" if record.by_hand is None else f" An attempt has gone by what was {record.by_hand}."
        raise _unfit(f"There is nothing to undo.{used}")
    if done.before is None:
        raise _unfit("The record before the change was too large to be kept.", "Set it back by another change.")
    stored = dict(done.before) if isinstance(done.before, dict) else {}
    words = stored.pop(SUMMARY, None)
    before = type(record).model_validate(stored)
    if isinstance(before, LoopRecord) and isinstance(words, str):  # only its writer can make them
        return Change(record=before.changed(in_words=words.partition("; ")[0]))
    if isinstance(before, MarkRecord) and isinstance(record, MarkRecord):
        restored = before.changed(rev=record.rev + 1)
        if before.set_by_hand is not None:  # an earlier change, which counts again
            restored = restored.changed(by_hand=_noted_on(restored, before.set_by_hand))
        return Change(record=with_outbox(restored, outbox_of(record)))  # what was published stays published
    return Change(record=before)


def _noted_on(record: Record, note: ByHand) -> ByHand:
    """The note, for a record that was made anew."""
    return note.changed(claim=record.claimed_as())


def _unfit(message: str, remedy: str | None = None) -> ChangeRefusedError:
    return ChangeRefusedError(message, remedy, why="unfit")
