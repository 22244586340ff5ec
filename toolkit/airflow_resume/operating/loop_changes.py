"""The changes of a loop: continue, go back, pass over an element, start over. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_resume.errors import ChangeRefusedError
from airflow_resume.loops.loop_record import LoopRecord, SkippedElement
from airflow_resume.operating.changes import Change, Person, by_hand, unfit
from airflow_resume.shown import short_repr

if TYPE_CHECKING:
    from pydantic import JsonValue


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
        raise unfit("The loop is done, so there is nothing to continue.", "Rewind the loop, or restart it.")
    what = f"set to continue after {record.n} elements"
    return Change(record=record.changed(by_hand=by_hand(record, person, what)))


def rewind(record: LoopRecord, target: Target, person: Person) -> Change:
    """Have the next attempt continue at an earlier element.

    Raises:
        ChangeRefusedError: the position cannot be worked out, or it is not an earlier one.
    """
    position, done = _position(record, target)
    if done > record.n or (done == record.n and not record.done and record.ahead is None):
        raise unfit(
            f"The loop has done {record.n} elements, so {done + 1} is no earlier one.",
            "To continue where it is, resume the loop; to pass over the element that is next, skip it.",
        )
    return Change(record=_moved(record, position, done, person, f"set back to element {done + 1}"), notes=_kept(record))


def skip(record: LoopRecord, person: Person) -> Change:
    """Have the next attempt pass over the element that is next.

    Raises:
        ChangeRefusedError: the position after it cannot be worked out, or there is none.
    """
    if record.done:
        raise unfit("The loop is done, so no element is next.")
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


def is_numbered(record: LoopRecord) -> bool:
    """Whether the position of an element can be worked out from its number."""
    try:
        _position(record, Target(element=2))
    except ChangeRefusedError:
        return False
    return True


def _position(record: LoopRecord, target: Target) -> tuple[JsonValue, int]:
    """The position, and how many elements are before it."""
    if target.element is None:
        if target.done is None:
            raise unfit("It is not known how many elements are before the position.", "Give that number too.")
        if _form(target.position) != _form(record.pos) and None not in {_form(target.position), _form(record.pos)}:
            raise unfit(
                f"The position {short_repr(target.position)} has another form than that of the record,"
                f" {short_repr(record.pos)}.",
                "Give it in the form of the record, with other values.",
            )
        return target.position, target.done
    done = target.element - 1
    if done < 0:
        raise unfit(f"There is no element {target.element}.", "Elements are counted from 1.")
    if done == 0:
        return None, 0
    if record.kind not in _NUMBERED:
        raise _unknown(record, done)
    return _NUMBERED[record.kind](record, done), done


def _form(position: JsonValue) -> object:
    """What positions of one source have in common: the type, and the names of the members."""
    if isinstance(position, dict):
        return frozenset(position)
    return None if position is None else type(position)


def _in_batches(record: LoopRecord, done: int) -> JsonValue:
    return done * _each(record, record.pos)


def _page_number(record: LoopRecord, done: int) -> JsonValue:
    place = _members(record)
    start = place["page"] - record.n
    return {"page": start + done, "rows": done * _each(record, place.get("rows", 0))}


def _offset(record: LoopRecord, done: int) -> JsonValue:
    return {"offset": done * _each(record, _members(record)["offset"])}


def _unknown(record: LoopRecord, done: int) -> ChangeRefusedError:
    return unfit(
        f"The position of element {done + 1} of a source of the kind {record.kind!r} cannot be worked out.",
        "Give the position itself, as JSON, and how many elements are before it; or restart the loop.",
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
