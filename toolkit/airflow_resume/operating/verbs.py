"""What a person asks for, in texts as they were typed, as a change of a record. Pure.

The command line and the page in Airflow's UI ask for the same changes, with the same words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_resume.errors import UsageError
from airflow_resume.operating import changes, job_changes, loop_changes, mark_changes
from airflow_resume.operating.changes import Change, Person
from airflow_resume.operating.loop_changes import Target

if TYPE_CHECKING:
    from pydantic import JsonValue

_UNITS = {"w": "weeks", "d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
_DISTANCE = re.compile(r"(\d+)([wdhms])")
_MOST_DIGITS = 18

Verb = Callable[[Any, Mapping[str, Any], Person], Change]


def change_of(noun: str, verb: str, given: Mapping[str, Any], person: Person) -> Callable[[Any], Change]:
    """What makes the new record of the present one.

    Args:
        noun: `jobs`, `loops` or `marks`.
        verb: a key of `VERBS[noun]`.
        given: what was typed, by the names of the command's arguments: `id` and `as_json`; `to` (a number for a loop, a
            text for a mark), `position`, `done`; `by`. What was not typed is missing or None.
        person: who asks for it, and why.

    Raises:
        UsageError: there is no such verb. The change itself raises it for what cannot be read, and
            `ChangeRefusedError` for what does not fit the record.
    """
    made = VERBS.get(noun, {}).get(verb)
    if made is None:
        raise UsageError(
            f"There is no change {verb!r} of {noun}.", f"Choose one of: {', '.join(VERBS.get(noun, {}))}.", name=verb
        )
    return lambda record: made(record, given, person)


def _adopt(record: Any, given: Mapping[str, Any], person: Person) -> Change:
    name = given["id"]
    return job_changes.adopt(record, _json(name, "the id") if given.get("as_json") else name, person)


def _rewind(record: Any, given: Mapping[str, Any], person: Person) -> Change:
    position = given.get("position")
    if position is None:
        return loop_changes.rewind(record, Target(element=given.get("to")), person)
    return loop_changes.rewind(record, Target(position=_json(position, "the position"), done=given.get("done")), person)


def _rewind_mark(record: Any, given: Mapping[str, Any], person: Person) -> Change:
    by = given.get("by")
    if by is None:
        return mark_changes.set_mark(record, given["to"], person, backwards=True)
    return mark_changes.rewind_mark(record, distance(by), person)


def _undo(record: Any, _: Mapping[str, Any], __: Person) -> Change:
    return changes.undo(record)


VERBS: Mapping[str, Mapping[str, Verb]] = {
    "jobs": {
        "adopt": _adopt,
        "forget": lambda record, _, person: job_changes.forget(record, person),
        "undo": _undo,
    },
    "loops": {
        "resume": lambda record, _, person: loop_changes.resume(record, person),
        "rewind": _rewind,
        "skip": lambda record, _, person: loop_changes.skip(record, person),
        "restart": lambda record, _, person: loop_changes.restart(record, person),
        "undo": _undo,
    },
    "marks": {
        "rewind": _rewind_mark,
        "set": lambda record, given, person: mark_changes.set_mark(record, given["to"], person),
        "reset": lambda record, _, person: mark_changes.reset_mark(record, person),
        "undo": _undo,
    },
}
"""Of each kind of records, its changes by their names."""


def distance(text: str) -> timedelta | int:
    """A duration such as `1d12h`, or a number.

    Raises:
        UsageError: it is neither.
    """
    if text.isdecimal() and len(text) <= _MOST_DIGITS:
        return int(text)
    parts = _DISTANCE.findall(text)
    if parts and "".join(count + unit for count, unit in parts) == text:
        try:
            return sum((timedelta(**{_UNITS[unit]: int(count)}) for count, unit in parts), timedelta())
        except (OverflowError, ValueError):
            pass
    raise UsageError(f"{text!r} is no distance.", "Write it as 3d, 12h, 1d12h, 90m, or as a number.", name="by")


def _json(text: str, what: str) -> JsonValue:
    try:
        found: JsonValue = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{what} is not JSON: {error}", name=what) from error
    return found
