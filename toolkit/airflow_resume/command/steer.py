"""The changes of `jobs`, `loops` and `marks`."""

from __future__ import annotations

import argparse
import getpass
import json
import re
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_resume.attempt import utc_now
from airflow_resume.command.console import dumped, pairs
from airflow_resume.command.look import find, opened, row_of
from airflow_resume.errors import UsageError
from airflow_resume.operating import changes, job_changes, loop_changes, mark_changes
from airflow_resume.operating.api import AirflowApi
from airflow_resume.operating.changes import Change, Person
from airflow_resume.operating.kinds import KINDS, Kind, details
from airflow_resume.operating.loop_changes import Target
from airflow_resume.operating.mark_rows import is_typed
from airflow_resume.operating.places import Entry
from airflow_resume.operating.rows import decoded, digest_of
from airflow_resume.operating.steering import Plan, carry_out, plan

if TYPE_CHECKING:
    from pydantic import JsonValue

REFUSED = 4
"""The exit code when a change would be refused."""
_UNITS = {"w": "weeks", "d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
_DISTANCE = re.compile(r"(\d+)([wdhms])")


def change(options: argparse.Namespace) -> int:
    """Show what would be changed, or change it."""
    kind = KINDS[options.noun]
    with opened(options) as api:
        person = Person(who=_who(api), at=utc_now(), why=options.why)
        found = find(api, options, kind)
        if kind.noun == "mark" and is_typed(found):
            raise UsageError(
                "A value was typed in place of this mark, and no run has taken it up yet.",
                "Type another value in Airflow's UI, or wait for the next run.",
                name=found.key,
            )
        planned = plan(api, found, kind.record, _change(options, person), shown=options.record)
        refusal = planned.refusal(force=options.force)
        does_it = options.yes and not options.dry_run
        if refusal is None and does_it:
            carry_out(api, planned, force=options.force)
    _print(kind, planned, options, done=refusal is None and does_it)
    if refusal is not None:
        if does_it:
            raise refusal
        print("It would be refused:", refusal.message, file=sys.stderr)
        return REFUSED
    return 0


def _who(api: AirflowApi) -> str:
    """The user as Airflow knows them, and the user of this machine if that is another one."""
    try:
        here = getpass.getuser()
    except (OSError, KeyError):  # a container without a user
        here = "somebody"
    return here if api.user is None else api.user if api.user == here else f"{api.user} ({here})"


def _change(options: argparse.Namespace, person: Person) -> Callable[[Any], Change]:
    """What the options ask for."""
    made: dict[tuple[str, str], Callable[[Any], Change]] = {
        ("jobs", "adopt"): lambda record: job_changes.adopt(record, _id(options), person),
        ("jobs", "forget"): lambda record: job_changes.forget(record, person),
        ("loops", "resume"): lambda record: loop_changes.resume(record, person),
        ("loops", "rewind"): lambda record: loop_changes.rewind(record, _target(options), person),
        ("loops", "skip"): lambda record: loop_changes.skip(record, person),
        ("loops", "restart"): lambda record: loop_changes.restart(record, person),
        ("marks", "rewind"): lambda record: _rewound(record, options, person),
        ("marks", "set"): lambda record: mark_changes.set_mark(record, options.to, person),
        ("marks", "reset"): lambda record: mark_changes.reset_mark(record, person),
    }
    return made.get((options.noun, options.verb), changes.undo)


def _id(options: argparse.Namespace) -> JsonValue:
    return _json(options.id, "the id") if options.as_json else options.id


def _target(options: argparse.Namespace) -> Target:
    if options.position is None:
        return Target(element=options.to)
    return Target(position=_json(options.position, "--position"), done=options.done)


def _rewound(record: Any, options: argparse.Namespace, person: Person) -> Change:
    if options.by is None:
        return mark_changes.set_mark(record, options.to, person, backwards=True)
    return mark_changes.rewind_mark(record, distance(options.by), person)


def distance(text: str) -> timedelta | int:
    """A duration such as `1d12h`, or a number.

    Raises:
        UsageError: it is neither.
    """
    if text.isdecimal():
        return int(text)
    parts = _DISTANCE.findall(text)
    if not parts or "".join(count + unit for count, unit in parts) != text:
        raise UsageError(f"{text!r} is no distance.", "Write it as 3d, 12h, 1d12h, 90m, or as a number.", name="--by")
    return timedelta(**{_UNITS[unit]: int(count) for count, unit in parts})


def _json(text: str, what: str) -> JsonValue:
    try:
        found: JsonValue = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{what} is not JSON: {error}", name=what) from error
    return found


# --- what is printed ------------------------------------------------------------------------------------------


def _print(kind: Kind, planned: Plan[Any], options: argparse.Namespace, *, done: bool) -> None:
    now = utc_now()
    new = digest_of(planned.stored)
    next_try, clear = kind.retry(planned.after), kind.clear(planned.after)
    said = {
        "changed": done,
        "before": _differing(kind, planned.entry, planned.planned),
        "after": _differing(kind, planned.planned, planned.entry),
        **dict(zip(kind.again, (next_try, clear), strict=True)),
        "risks": [*planned.change.risks],
        "notes": [*planned.change.notes],
        "record": new if done else digest_of(planned.entry.value),
    }
    if options.output in {"json", "yaml"}:
        print(dumped(said, options.output))
        return
    print(f"{kind.noun} {row_of(kind, planned.entry, now).name} of {planned.entry.place}")
    texts = {name: "\n".join(value) if isinstance(value, list) else value for name, value in said.items()}
    texts |= {side: "\n".join(f"{n}: {v}" for n, v in said[side].items()) for side in ("before", "after")}  # type: ignore[attr-defined]
    texts["changed"] = "yes" if done else f"no, this is what would be changed; --yes --record {said['record']} does it"
    print("\n".join(pairs(texts)))


def _differing(kind: Kind, entry: Entry, other: Entry) -> dict[str, str]:
    """What `show` says of the one and not of the other."""
    now = utc_now()
    one, two = (details(kind, row_of(kind, each, now), decoded(each, kind.record), now) for each in (entry, other))
    left_out = {*kind.again, "record", "saved", "moved"}  # the last two are ages
    return {name: str(value or "") for name, value in one.items() if value != two.get(name) and name not in left_out}
