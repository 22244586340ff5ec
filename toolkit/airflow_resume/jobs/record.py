"""What is kept about the job of one slot, under `resume.job.<name>`."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from airflow_resume import values
from airflow_resume.attempt import Attempt, Claim, Epoch
from airflow_resume.jobs.decide import JobStatus, Phase
from airflow_resume.jobs.token import submission_token
from airflow_resume.record import Record

KEY_PREFIX = "resume.job"
MAX_HISTORY = 20
MAX_HISTORY_BYTES = 8_000
"""Where long ids make the history larger, its oldest lines go."""
MAX_ID_BYTES = 200
"""A longer id is cut in the history, which is for people to read."""
MAX_ID_IN_WORDS = 60
"""Characters of an id in the summary."""
MAX_OWN_ID_BYTES = values.MAX_BYTES - 2_000
"""What the id of the job itself may take, so that the rest of the record has room beside it."""
MAX_RESULT_BYTES = 4_000
"""A larger result is not kept in the record; the job system is asked for it again."""


class SavedResult(BaseModel):
    """A result small enough to keep, encoded; boxed, so that a result of None is not an absent one."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow")

    value: Any = None

    @classmethod
    def of(cls, result: object) -> SavedResult | None:
        """The result as it is kept; None when it is too large, or not of a kind that can be kept exactly."""
        try:
            return cls._of(result)
        except Exception:  # noqa: BLE001  it may have methods of any kind, and is delivered whatever they do
            return None

    @classmethod
    def _of(cls, result: object) -> SavedResult | None:
        # Whatever is small has few parts; a large or endless one must not be walked through to its end.
        if not values.has_at_most(MAX_RESULT_BYTES, result) or not values.is_exact(result):
            return None
        encoded = values.encode(result)
        if encoded is not None:
            values.check(encoded)
        return cls(value=encoded) if len(values.dumps(encoded).encode()) <= MAX_RESULT_BYTES else None

    def decoded(self) -> Any:
        """The result as it was."""
        return values.decode(self.value)


class Generation(BaseModel):
    """One line of the history: a job that is no longer the one of the slot, and why."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow", populate_by_name=True)

    generation: int
    token: str
    id: JsonValue = None
    status: str | None = None
    try_number: int = Field(validation_alias="try", serialization_alias="try")
    reason: str


class JobRecord(Record):
    """The job of one slot, and the jobs before it (the newest `MAX_HISTORY`).

    `stray`: it is not this run's, and only has to end. `lost`: there should have been a record when it was claimed, and
    there was none. `error`: the kind of error that its submit raised.
    """

    FIRST: ClassVar[tuple[str, ...]] = ("status", "id", "submitted_at", "phase", "claim")

    epoch: Epoch
    fingerprint: str | None = None
    generation: int = Field(ge=1)
    token: str = Field(min_length=1)
    phase: Phase
    id: JsonValue = None
    status: JobStatus | None = None
    submitted_at: datetime | None = None
    stray: bool | None = None
    lost: bool | None = None
    error: str | None = None
    result: SavedResult | None = None
    claim: Claim
    history: tuple[Generation, ...] = ()

    @model_validator(mode="after")
    def _make_sense(self) -> JobRecord:
        """What a person edited may be of the right types and still say nothing that can be gone by."""
        if self.phase is Phase.SUBMITTED and self.id is None:
            raise ValueError("a submitted job has an id")
        if self.phase is Phase.TERMINAL and not (self.status is None or self.status.is_terminal):
            raise ValueError(f"a job that has ended is not {self.status.value}")
        return self

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
        """Without the older half of the history; then without the result, which the job system is asked for again."""
        if self.history:
            return self.model_copy(update={"history": self.history[(len(self.history) + 1) // 2 :]})
        return None if self.result is None else self.model_copy(update={"result": None})

    def next_generation(
        self, attempt: Attempt, *, name: str, now: datetime, fingerprint: str | None, reason: str
    ) -> JobRecord:
        """The intent to submit another job in place of this one."""
        past = Generation(
            generation=self.generation,
            token=self.token,
            id=_shortened(self.id),
            status=None if self.status is None else self.status.value,
            try_number=self.claim.try_number,
            reason=reason,
        )
        fresh = first_generation(
            self.key, attempt, name=name, now=now, fingerprint=fingerprint, generation=self.generation + 1
        )
        # From the old record on, so that fields of a newer version that this one does not know are kept.
        return self.model_copy(
            update={
                **{field: getattr(fresh, field) for field in JobRecord.model_fields},
                "history": _newest((*self.history, past)),
            }
        )


def first_generation(
    key: str, attempt: Attempt, *, name: str, now: datetime, fingerprint: str | None, generation: int = 1
) -> JobRecord:
    """The intent to submit the first job of a slot."""
    return JobRecord(
        key=key,
        epoch=attempt.epoch,
        fingerprint=fingerprint,
        generation=generation,
        token=submission_token(attempt, name, generation),
        phase=Phase.INTENT,
        claim=attempt.claim(now),
    )


def _shortened(external_id: JsonValue) -> JsonValue:
    text = values.dumps(external_id)
    return external_id if len(text) <= MAX_ID_BYTES else f"{text[:MAX_ID_BYTES]}..."


def _in_words(external_id: JsonValue) -> str:
    text = external_id if isinstance(external_id, str) else values.dumps(external_id)
    return text if len(text) <= MAX_ID_IN_WORDS else f"{text[:MAX_ID_IN_WORDS]}..."


def _minute(moment: datetime) -> str:
    return f"{moment.astimezone(timezone.utc):%Y-%m-%d %H:%M} UTC"


def _newest(history: tuple[Generation, ...]) -> tuple[Generation, ...]:
    """As many lines as there is room for."""
    kept = history[-MAX_HISTORY:]
    while sum(len(line.model_dump_json()) for line in kept) > MAX_HISTORY_BYTES:
        kept = kept[1:]
    return kept
