"""The changes of a job: adopt one that was found, forget one that was lost. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_resume import values
from airflow_resume.jobs.decide import Phase
from airflow_resume.jobs.record import MAX_OWN_ID_BYTES, JobRecord
from airflow_resume.operating.changes import Change, Person, by_hand, unfit
from airflow_resume.shown import short_repr

if TYPE_CHECKING:
    from pydantic import JsonValue


def adopt(record: JobRecord, external_id: JsonValue, person: Person) -> Change:
    """Put a job on record that a person has found in the job system.

    Raises:
        ChangeRefusedError: the id cannot be one.
    """
    if external_id in (None, "") or len(values.dumps(external_id).encode()) > MAX_OWN_ID_BYTES:
        raise unfit(f"{short_repr(external_id)} is not the id of a job.", "Give it as the job system has it.")
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
