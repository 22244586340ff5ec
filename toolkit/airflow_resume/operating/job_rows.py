"""What the record of a job says at a given time: where it is, whether it is stuck, and what the next attempt does."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from airflow_resume.jobs.decide import JobStatus, Phase
from airflow_resume.jobs.record import KEY_PREFIX, JobRecord
from airflow_resume.operating.places import Entry, TaskPlace
from airflow_resume.operating.rows import Row, Standing, decoded, since, standing_of

if TYPE_CHECKING:
    from pydantic import JsonValue

PREFIX = f"{KEY_PREFIX}."
SUBMIT_SECONDS = 300
"""A submit that takes longer than this is in trouble."""


@dataclass(frozen=True, kw_only=True)
class JobRow(Row):
    """A job of a task instance.

    Args:
        place: the task instance.
        id: of the job. `status`: when the task last asked. `generation`: the number of the job in its slot.
        submitted: when. `try_number`: of the attempt that last claimed the record, at `claimed`.
        replaced: why each earlier job was replaced, the newest last.
    """

    place: TaskPlace
    id: JsonValue = None
    status: str | None = None
    generation: int = 0
    submitted: datetime | None = None
    try_number: int = 0
    claimed: datetime | None = None
    replaced: tuple[str, ...] = ()


def job_row(entry: Entry, now: datetime) -> JobRow:
    """The row of a record.

    Raises:
        UnreadableRecordError: it cannot be read.
    """
    record, place = decoded(entry, JobRecord), entry.place
    if not isinstance(place, TaskPlace):
        raise TypeError(place)
    state, trouble = _state(record, standing_of(place.state), now)
    return JobRow(
        place=place,
        name=entry.key.removeprefix(PREFIX),
        key=entry.key,
        state=state,
        trouble=trouble,
        updated=entry.updated,
        set_by_hand=None if record.set_by_hand is None else str(record.set_by_hand),
        id=record.id,
        status=None if record.status is None else record.status.value,
        generation=record.generation,
        submitted=record.submitted_at,
        try_number=record.claim.try_number,
        claimed=record.claim.at,
        replaced=tuple(f"{line.generation}: {line.id} {line.reason}" for line in record.history),
    )


def _state(record: JobRecord, standing: Standing, now: datetime) -> tuple[str, str | None]:
    match record.phase:
        case Phase.TERMINAL:
            if record.id is None:
                return "no job", None
            return (JobStatus.FAILED if record.status is None else record.status).value, None
        case Phase.INTENT:
            return _submitting(record, standing, now)
        case Phase.SUBMITTED:
            return _submitted(record, standing, now)


def _submitting(record: JobRecord, standing: Standing, now: datetime) -> tuple[str, str | None]:
    if standing is Standing.OVER:
        return "lost", "its id was not saved: a job may run, look in the job system, then adopt or forget it"
    if standing is Standing.WAITING:
        return "lost", "its id was not saved: the next try looks it up if the job system can, and fails otherwise"
    is_slow = now - record.claim.at > timedelta(seconds=SUBMIT_SECONDS)
    return "submitting", f"the submit takes {since(record.claim.at, now)}" if is_slow else None


def _submitted(record: JobRecord, standing: Standing, now: datetime) -> tuple[str, str | None]:
    has_ended = record.status is not None and record.status.is_terminal
    status = "ended" if has_ended else (record.status or JobStatus.ACTIVE).value
    if standing is Standing.OVER and not has_ended:
        return "left alone", "the task is over, and nobody waits for the job"
    if standing is Standing.WAITING:
        return "between tries", None
    waiting = record.waiting
    if waiting is not None and waiting.unknown_since is not None:
        return "unknown", f"the job system has not known its status for {since(waiting.unknown_since, now)}"
    if waiting is not None and waiting.unanswered:
        return status, f"the job system did not answer {waiting.unanswered} times in a row"
    return status, "it is not of this run, and has to end first" if record.stray else None


# --- what comes next ------------------------------------------------------------------------------------------


def after_a_retry(record: JobRecord) -> str:
    """What the next try does, in words."""
    match record.phase:
        case Phase.INTENT:
            return "looks for the job by its token; if the job system cannot do that, it fails (on_lost_submission)"
        case Phase.SUBMITTED:
            return f"asks for the status of {record.id}, and waits for it if it is alive"
        case Phase.TERMINAL:
            if record.id is None:
                return "submits a new job"
            if record.status is JobStatus.SUCCEEDED:
                return f"submits nothing, and returns the result of {record.id}"
            return f"asks once more for {record.id}, and submits a new job if it has failed (on_failed_job)"


def after_a_clear(record: JobRecord) -> str:
    """What a clear leads to, in words."""
    if record.set_by_hand is not None:
        return f"the same, as it was set by hand ({record.set_by_hand})"
    if record.phase is Phase.INTENT:
        return 'as a retry, and a job that is found is ended first; with on_clear="resume" it is taken up'
    if record.id is None or record.phase is Phase.TERMINAL:
        return 'submits a new job; with on_clear="resume" as a retry'
    return f'ends {record.id} first, and then submits a new job; with on_clear="resume" it waits for {record.id}'
