"""The record of the job of one slot, under `resume.job.<name>`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypedDict

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from airflow_resume import values
from airflow_resume.attempt import Attempt, Claim, Count, Epoch, Flag, Moment
from airflow_resume.jobs.decide import JobStatus, Phase
from airflow_resume.jobs.token import submission_token
from airflow_resume.record import Record, RecordChanges
from airflow_resume.stored import StoredModel

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

KEY_PREFIX = "resume.job"
MAX_HISTORY = 20
MAX_HISTORY_BYTES = 8_000
"""If long ids make the history larger than this, its oldest lines are dropped."""
MAX_ID_BYTES = 200
"""A longer id is cut in the history, which is only for people."""
MAX_ID_IN_WORDS = 60
"""Characters of an id in the summary."""
MAX_OWN_ID_BYTES = values.MAX_BYTES - 2_000
"""The most that the id of the job itself may take, so that there is room for the rest of the record."""
MAX_RESULT_BYTES = 4_000
"""A larger result is not kept in the record; if needed again, it is fetched from the job system. The same for notes."""


class SavedResult(BaseModel):
    """A small result, or notes, encoded. As an object, so that the result None differs from no result."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow")

    value: Any = None

    @classmethod
    def of(cls, result: object) -> SavedResult | None:
        """The result as it is kept; None if it is too large, or of a kind that cannot be kept exactly."""
        try:
            # A small result has few parts; a large or endless one must not be walked through to its end.
            if not values.has_at_most(MAX_RESULT_BYTES, result) or not values.is_exact(result):
                return None
            encoded = values.encode(result)
            if encoded is not None:
                values.check(encoded)
            return cls(value=encoded) if len(values.dumps(encoded).encode()) <= MAX_RESULT_BYTES else None
        except Exception:  # noqa: BLE001  methods of the result may raise anything; it is returned all the same
            return None

    def decoded(self) -> Any:
        """The result as it was."""
        return values.decode(self.value)


class Generation(BaseModel):
    """One line of the history: an earlier job of the slot, and why it was replaced."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow", populate_by_name=True)

    generation: Annotated[int, Field(strict=True, ge=1)]
    token: str
    id: JsonValue = None
    status: str | None = None
    try_number: Count = Field(validation_alias="try", serialization_alias="try")
    reason: str


class WaitingChanges(TypedDict, total=False):
    """What may change in a `Waiting`."""

    unknown_since: Moment | None
    unanswered: Count | None
    own: Flag | None


class Waiting(StoredModel):
    """How long one try has been waiting for the job by rescheduling itself.

    `unknown_since`: since when the status has been unknown. `unanswered`: how many questions in a row have failed with
    a transient error. `own`: the try ends as the job ends.
    """

    try_number: Count = Field(validation_alias="try", serialization_alias="try")
    since: Moment
    unknown_since: Moment | None = None
    unanswered: Count | None = None
    own: Flag | None = None

    def changed(self, **changes: Unpack[WaitingChanges]) -> Self:
        """The same wait with these fields; raises as `with_changes`."""
        return self.with_changes(changes)


class JobRecordChanges(RecordChanges, total=False):
    """What may change in the record of a job, see `JobRecord`."""

    epoch: Epoch
    token: str
    phase: Phase
    id: JsonValue
    status: JobStatus | None
    submitted_at: Moment | None
    waiting: Waiting | None
    stray: Flag | None
    lost: Flag | None
    error: str | None
    notes: SavedResult | None
    result: SavedResult | None
    claim: Claim
    history: tuple[Generation, ...]


class JobRecord(Record):
    """The job of one slot, and the newest `MAX_HISTORY` of the earlier ones. Flat, as people read it in Airflow's UI.

    `stray`: the job was a stray job, and only has to end. `lost`: there should have been a record when the generation
    was claimed, but there was no record. `error`: the type of the error that the submit raised. `notes`: what the
    client of the job system has noted about the submission, for later attempts.
    """

    FIRST: ClassVar[tuple[str, ...]] = ("status", "id", "submitted_at", "phase", "claim")

    epoch: Epoch
    fingerprint: str | None = None
    generation: int = Field(strict=True, ge=1)
    token: str = Field(min_length=1)
    phase: Phase
    id: JsonValue = None
    status: JobStatus | None = None
    submitted_at: Moment | None = None
    waiting: Waiting | None = None
    stray: Flag | None = None
    lost: Flag | None = None
    error: str | None = None
    notes: SavedResult | None = None
    result: SavedResult | None = None
    claim: Claim
    history: tuple[Generation, ...] = ()

    def changed(self, **changes: Unpack[JobRecordChanges]) -> Self:
        """The record with these fields; raises as `with_changes`."""
        return self.with_changes(changes)

    def check(self) -> None:
        """Refuse fields that contradict each other, as after an edit by hand."""
        if self.phase is Phase.SUBMITTED and self.id is None:
            raise ValueError("a submitted job has an id")
        if self.phase is Phase.TERMINAL and not (self.status is None or self.status.is_terminal):
            raise ValueError(f"a job that has ended is not {self.status.value}")
        if self.phase is Phase.INTENT and self.id is not None:
            raise ValueError("a job that is about to be submitted has no id yet")
        if self.id is None and any(part is not None for part in (self.status, self.result, self.submitted_at)):
            raise ValueError("a record with a status, a result or a submit time has an id")
        if self.waiting is not None and self.id is None:
            raise ValueError("a job that is waited for has an id")
        if self.result is not None and (self.phase, self.status) != (Phase.TERMINAL, JobStatus.SUCCEEDED):
            raise ValueError("only a job that has succeeded has a result")
        past = [line.generation for line in self.history]
        if any(later <= earlier for earlier, later in pairwise([*past, self.generation])):
            raise ValueError("the generations of the history precede this one, in order")

    def claimed_as(self) -> str:
        """The generation, and the claim of the last attempt."""
        return f"{self.generation} {self.claim.try_number} {self.claim.at.isoformat()}"

    def summary(self) -> str:
        """Such as `submitted as application_17 at 2026-01-01 13:20 UTC, active, try 2 since 2026-01-01 14:05 UTC`."""
        status = None if self.status is None else self.status.value
        by = f"try {self.claim.try_number} since {_minute(self.claim.at)}"
        number = f"job number {self.generation} of its name" if self.generation > 1 else None
        match self.phase:
            case Phase.INTENT:
                raised = None if self.error is None else f"its submit raised {self.error}"
                parts = ["about to be submitted, or submitted and its id not saved", raised, number, by]
            case Phase.SUBMITTED:
                at = "" if self.submitted_at is None else f" at {_minute(self.submitted_at)}"
                stray = "not of this run" if self.stray else None
                parts = [f"submitted as {_in_words(self.id)}{at}", stray, status, number, by]
            case Phase.TERMINAL:
                job = "never submitted" if self.id is None else _in_words(self.id)
                parts = [job if status is None else f"{status}, {job}", number, by]
        return ", ".join(part for part in parts if part is not None)

    def with_less_history(self) -> JobRecord | None:
        """The record without the older half of its history, or else without its result, which can be fetched again."""
        if self.history:
            return self.changed(history=self.history[(len(self.history) + 1) // 2 :])
        return None if self.result is None else self.changed(result=None)

    def next_generation(
        self, attempt: Attempt, *, name: str, now: datetime, fingerprint: str | None, reason: str
    ) -> JobRecord:
        """The intent to submit another job in place of this one."""
        shown_id = values.dumps(self.id)
        past = Generation(
            generation=self.generation,
            token=self.token,
            id=self.id if len(shown_id) <= MAX_ID_BYTES else f"{shown_id[:MAX_ID_BYTES]}...",
            status=None if self.status is None else self.status.value,
            try_number=self.claim.try_number,
            reason=reason,
        )
        history = (*self.history, past)[-MAX_HISTORY:]
        while sum(len(line.model_dump_json()) for line in history) > MAX_HISTORY_BYTES:
            history = history[1:]
        return _intent(
            self.key,
            attempt,
            self.generation + 1,
            name=name,
            now=now,
            fingerprint=fingerprint,
            history=history,
            unknown=self.model_extra or {},  # fields of a newer version are kept
        ).changed(by_hand=self.used_by_hand)


def first_generation(key: str, attempt: Attempt, *, name: str, now: datetime, fingerprint: str | None) -> JobRecord:
    """The intent to submit the first job of a slot."""
    return _intent(key, attempt, 1, name=name, now=now, fingerprint=fingerprint, history=(), unknown={})


def _intent(
    key: str,
    attempt: Attempt,
    generation: int,
    *,
    name: str,
    now: datetime,
    fingerprint: str | None,
    history: tuple[Generation, ...],
    unknown: Mapping[str, Any],
) -> JobRecord:
    return JobRecord(
        **unknown,
        key=key,
        epoch=attempt.epoch,
        fingerprint=fingerprint,
        generation=generation,
        token=submission_token(attempt, name, generation),
        phase=Phase.INTENT,
        claim=attempt.claim(now),
        history=history,
    )


def _in_words(external_id: JsonValue) -> str:
    text = external_id if isinstance(external_id, str) else values.dumps(external_id)
    return text if len(text) <= MAX_ID_IN_WORDS else f"{text[:MAX_ID_IN_WORDS]}..."


def _minute(moment: datetime) -> str:
    return f"{moment.astimezone(timezone.utc):%Y-%m-%d %H:%M} UTC"
