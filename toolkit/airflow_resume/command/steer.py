"""The changes of `jobs`, `loops` and `marks`."""

from __future__ import annotations

import argparse
import getpass
import sys
from typing import Any

from airflow_resume.attempt import utc_now
from airflow_resume.command.console import dumped, pairs
from airflow_resume.command.look import find, opened
from airflow_resume.errors import ChangeRefusedError
from airflow_resume.operating.api import AirflowApi
from airflow_resume.operating.changes import Person
from airflow_resume.operating.kinds import KINDS, Kind, differing, row_of
from airflow_resume.operating.rows import digest_of
from airflow_resume.operating.steering import Plan, carry_out, plan, writers_of
from airflow_resume.operating.verbs import change_of

REFUSED = 4
"""The exit code when a change would be refused."""


_HINTS = {
    "running": "--force does it nevertheless.",
    "risk": "--force does it nevertheless.",
    "moved": "`show` prints its new --record.",
}


def change(options: argparse.Namespace) -> int:
    """Show what would be changed, or change it.

    Raises:
        ChangeRefusedError: it was refused. The remedy names the options of the command.
    """
    try:
        return _change(options)
    except ChangeRefusedError as error:
        raise ChangeRefusedError(error.message, _remedy(error, options), why=error.why) from error


def _remedy(error: ChangeRefusedError, options: argparse.Namespace) -> str | None:
    hint = _HINTS.get(error.why)
    if error.why == "unfit" and error.remedy is not None:
        hint = f"The options: airflow-resume {options.noun} {options.verb} --help."
    return " ".join(part for part in (error.remedy, hint) if part) or None


def _change(options: argparse.Namespace) -> int:
    kind = KINDS[options.noun]
    with opened(options) as api:
        person = Person(who=_who(api), at=utc_now(), why=options.why)
        found = find(api, options, kind)
        planned = plan(
            writers_of(api),
            found,
            kind.record,
            change_of(options.noun, options.verb, vars(options), person),
            shown=options.record,
        )
        refusal = planned.refusal(force=options.force)
        does_it = options.yes and not options.dry_run
        if refusal is None and does_it:
            carry_out(api, planned, force=options.force)
    _print(kind, planned, options, done=refusal is None and does_it)
    if refusal is not None:
        if does_it:
            raise refusal
        print("It would be refused:", refusal.message, _remedy(refusal, options) or "", file=sys.stderr)
        return REFUSED
    return 0


def _who(api: AirflowApi) -> str:
    """The user as Airflow knows them, and the user of this machine if that is another one."""
    try:
        here = getpass.getuser()
    except (OSError, KeyError):  # a container without a user
        here = "somebody"
    return here if api.user is None else api.user if api.user == here else f"{api.user} ({here})"


# --- what is printed ------------------------------------------------------------------------------------------


def _print(kind: Kind, planned: Plan[Any], options: argparse.Namespace, *, done: bool) -> None:
    now = utc_now()
    new = digest_of(planned.stored)
    next_try, clear = kind.retry(planned.after), kind.clear(planned.after)
    said = {
        "changed": done,
        "before": differing(kind, planned.entry, planned.planned, now),
        "after": differing(kind, planned.planned, planned.entry, now),
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
