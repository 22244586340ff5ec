"""The changes of a mark: set it, set it back, begin at its initial value again. Pure."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from uuid import uuid4

from airflow_resume import values
from airflow_resume.errors import CursorTypeError, InvalidValueError
from airflow_resume.operating.changes import Change, Person, by_hand, noted_on, unfit
from airflow_resume.operating.mark_rows import initial_of
from airflow_resume.record import SUMMARY
from airflow_resume.shown import short_repr
from airflow_resume.watermarks.cursors.cursor import CursorType, restored_cursor
from airflow_resume.watermarks.marks.mark_record import MarkRecord, Move, age_seconds
from airflow_resume.watermarks.marks.outbox import outbox_of, with_outbox
from airflow_resume.watermarks.windows.window import lag_of

if TYPE_CHECKING:
    from pydantic import JsonValue

Order: TypeAlias = Literal["earlier", "same", "later", "unknown"]
"""Where a value lies, seen from the mark."""
MAX_MOVES = 10


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
        raise unfit(f"{to} is not before the mark, {record.at}.", "To any other value it can be set, and not rewound.")
    risks = ((_skipped(record, to),) if order == "later" else ()) + _to_come(to, parsed, cursor, person)
    notes = ("it is not known which rows lie between the two values",) if order == "unknown" else ()
    what = f"set to {to} (it was {values.dumps(record.at)})"
    when = person.at.replace(microsecond=0)
    move = Move(to=at, run_id="", for_person=True, when=when, who=person.who, why=person.why)
    history = (*record.history, move)[-MAX_MOVES:]
    new = _made_anew(record).changed(
        at=at, pending="rewind", ties=(), islands=(), by=None, lag_seconds=age_seconds(parsed), history=history
    )
    noted = new.changed(by_hand=noted_on(new, by_hand(record, person, what)))
    return Change(record=with_outbox(noted, outbox_of(record)), risks=risks, notes=notes)


def _made_anew(record: MarkRecord) -> MarkRecord:
    """The same mark with another epoch, so that no run that has begun before can move it."""
    made = {**record.to_json(), "rev": record.rev + 1, "epoch": uuid4().hex[:12]}
    made.pop(SUMMARY, None)
    return MarkRecord.model_validate(made)


def rewind_mark(record: MarkRecord, by: timedelta | int, person: Person) -> Change:
    """Set a mark back by a duration, or by a number.

    Raises:
        ChangeRefusedError: the mark is not a time or a number.
    """
    cursor = restored_cursor({"type": record.type, **record.definition})
    try:
        earlier = None if cursor is None else cursor.dump(cursor.parse(record.at, what="the mark") - by)
    except (TypeError, ValueError, OverflowError) as error:
        raise unfit(
            f"{record.at} cannot be set back by {by}: the mark is one of the type {record.type!r}.",
            "Give the earlier value itself.",
        ) from error
    if earlier is None:
        raise unfit(
            f"A mark of the type {record.type!r} cannot be set back by a distance.", "Give the earlier value itself."
        )
    return set_mark(record, earlier if isinstance(earlier, str) else json.dumps(earlier), person, backwards=True)


def reset_mark(record: MarkRecord, person: Person) -> Change:
    """Have the next run set the mark to its initial value."""
    new, initial = _made_anew(record), initial_of(record)
    note = by_hand(record, person, "set to the initial value", start_over=True)
    changed = new.changed(by_hand=noted_on(new, note))
    if initial is None:
        return Change(record=changed, notes=("the initial value is not known here: it is in the code of the Dag",))
    cursor = restored_cursor({"type": record.type, **record.definition})
    to = initial if isinstance(initial, str) else json.dumps(initial)
    _, parsed, order = _value(record, cursor, to)
    risks = (_skipped(record, to),) if order == "later" else ()
    return Change(record=changed, risks=(*risks, *_to_come(to, parsed, cursor, person)))


def _skipped(record: MarkRecord, to: str) -> str:
    return f"rows between {record.at} and {to} that were not loaded are skipped"


def _to_come(to: str, parsed: Any, cursor: CursorType[Any] | None, person: Person) -> tuple[str, ...]:
    """What a value leads to that lies in the future: a run would have nothing to load."""
    behind = None if cursor is None else lag_of(parsed, cursor.home, person.at)
    return (f"{to} has not come yet: until then each run is refused",) if behind is not None and behind < 0 else ()


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
            raise unfit(f"{to} is not of the form of the mark, {values.dumps(record.at)}.", "Write it as JSON.")
        return given, None, "unknown"
    try:
        parsed, now = cursor.parse(given, what="the value"), cursor.parse(record.at, what="the mark")
    except (CursorTypeError, InvalidValueError, ValueError) as error:
        raise unfit(f"{short_repr(to)} is not a value of the mark: {error}") from error
    if not cursor.is_ordered:
        return cursor.dump(parsed), parsed, "unknown"
    return cursor.dump(parsed), parsed, "later" if parsed > now else "earlier" if parsed < now else "same"
