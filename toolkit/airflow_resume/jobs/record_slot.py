"""The record of a job's slot, as one attempt reads, claims and writes it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_resume import values
from airflow_resume.attempt import Attempt, Cleared
from airflow_resume.errors import (
    CodecError,
    DanglingReferenceError,
    StateReferenceError,
    SupersededError,
    UnreadableRecordError,
)
from airflow_resume.jobs.decide import JobStatus, Phase
from airflow_resume.jobs.record import (
    KEY_PREFIX,
    JobRecord,
    JobRecordChanges,
    SavedResult,
    Waiting,
    first_generation,
)
from airflow_resume.jobs.token import check_token, tokens_before_a_clear
from airflow_resume.record import StoredRecord
from airflow_resume.shown import get_logger
from airflow_resume.store import StateStore

if TYPE_CHECKING:
    from pydantic import JsonValue
    from typing_extensions import Unpack

log = get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class FoundRecord:
    """What an attempt found in its slot when it began.

    Args:
        is_missing: there was no record. That proves nothing: it may have been deleted, or lost with a database.
        earlier_try: the try that last claimed the record.
        has_job: the record had the id of a job.
    """

    is_missing: bool = False
    earlier_try: int = 0
    has_job: bool = False


class JobRecordSlot:
    """The record of a slot, for one attempt.

    Args:
        store: where the record is.
        attempt: the attempt that uses the slot.
        name: of the slot.
        inputs: what the job is made from; None if that is not known.
        mirror_key: the key under which Airflow's own mixin keeps the id of the job. The id is copied there, so that a
            task can change from one mixin to the other.
        notice: called with every record that was written.
        now: the time.

    Attributes:
        record: as this attempt knows it, with what it has learned and not saved yet.
        found: what the slot had when the attempt began.
        cleared: whether the task was cleared since the job on record was submitted.
        fresh: this attempt has claimed the generation and has not submitted its job yet.
        now: the time.
    """

    def __init__(
        self,
        store: StateStore,
        attempt: Attempt,
        *,
        name: str,
        inputs: JsonValue,
        mirror_key: str | None,
        notice: Callable[[JobRecord], object],
        now: Callable[[], datetime],
    ) -> None:
        self.name = name
        self._stored = StoredRecord(store, values.make_key(KEY_PREFIX, name), JobRecord)
        self._attempt = attempt
        self._fingerprint = None if inputs is None else values.fingerprint(inputs, at="inputs")
        self._mirror_key = mirror_key
        self._notice = notice
        self.now = now
        self.record: JobRecord | None = None
        self.found = FoundRecord()
        self.fresh = False
        self.cleared = Cleared.NO

    @property
    def key(self) -> str:
        """The key of the record."""
        return self._stored.key

    def tokens_before_a_clear(self) -> list[list[str]]:
        """The tokens that jobs of earlier attempts may have, see `token.tokens_before_a_clear`."""
        return tokens_before_a_clear(self._attempt, self.name)

    @property
    def known(self) -> JobRecord:
        """The record, for a step that needs it. `decide` takes such a step only if there is a record."""
        if self.record is None:
            raise AssertionError
        return self.record

    @property
    def inputs_changed(self) -> bool:
        """Whether the job on record was made from other inputs; False if the inputs are not known."""
        return self._fingerprint is not None and self.known.fingerprint not in {None, self._fingerprint}

    @property
    def holds_a_job(self) -> bool:
        """Whether there may be a job that has not ended."""
        record = self.record
        if record is None or self.fresh or record.phase is Phase.TERMINAL:
            return False
        return record.status is None or not record.status.is_terminal

    def open(self) -> None:
        """Read the record, and claim it by a write.

        If the write is refused, another attempt is running, and this one has not done anything yet.
        """
        record = self._read() or self._adopt_mirrored()
        if record is None:
            self.found = FoundRecord(is_missing=True)
            return
        self.record = record
        self.found = FoundRecord(earlier_try=record.claim.try_number, has_job=record.id is not None)
        claim = self._attempt.claim(self.now())
        if record.set_by_hand is None:
            ended = record.phase is Phase.TERMINAL
            self.cleared = self._attempt.cleared_since(record.epoch, self.found.earlier_try, ended=ended)
            self.save(claim=claim)
        else:  # it was set for the next attempt, also if that comes from a clear; a later clear counts as usual
            log.info("The job of slot %r goes by what was set by hand: %s", self.name, record.set_by_hand)
            self.save(claim=claim, epoch=self._attempt.epoch, by_hand=record.used_by_hand)
        self.mirror()

    def _read(self) -> JobRecord | None:
        try:
            record = self._stored.read()
        except DanglingReferenceError as error:
            raise DanglingReferenceError(
                error.message,
                f"See in the job system that no job of an earlier attempt is alive. {error.remedy or ''}".rstrip(),
                key=error.key,
                store_id=error.store_id,
                where=error.where,
            ) from error
        if record is not None:
            with self._stored.reading():
                check_token(record.token)
        return record

    def _adopt_mirrored(self) -> JobRecord | None:
        """A record with the id that Airflow's own mixin saved, if the task changed to ours between two attempts."""
        if self._mirror_key is None or (external_id := self._stored.store.get(self._mirror_key)) is None:
            return None
        if not values.is_json(external_id):  # a test of an operator has a mock as its store
            return None
        log.info("Adopting the job %r that was saved under %r", external_id, self._mirror_key)
        # It is not known when the id was saved. So a task that was cleared at any time must do its work again.
        return self._first_record().changed(phase=Phase.SUBMITTED, id=external_id, epoch=self._attempt.uncleared)

    def _first_record(self) -> JobRecord:
        return first_generation(self.key, self._attempt, name=self.name, now=self.now(), fingerprint=self._fingerprint)

    def saved_result(self) -> Any:
        """The result of the job that the record has; None if it has no result.

        Raises:
            UnreadableRecordError: the record has a result that no attempt can have saved.
        """
        saved = self.known.result
        with self._stored.reading():
            return None if saved is None else saved.decoded()

    def learn(self, status: JobStatus) -> None:
        """Keep the status; it is saved with the next change."""
        self.record = self.known.changed(status=status)

    def note(self, notes: object) -> None:
        """Keep notes about the job; they are saved with the next change. Notes that are too large are not kept."""
        if (kept := SavedResult.of(notes)) is not None:
            self.record = self.known.changed(notes=kept)

    def save(self, **changes: Unpack[JobRecordChanges]) -> None:
        """Write the record with changes."""
        self._write(self.known.changed(**changes))

    def _write(self, record: JobRecord) -> None:
        self._stored.write(record)
        self.record = record
        self._notice(record)

    def start_generation(self, *, reason: str, is_used: bool = False) -> None:
        """Save the intent to submit, with its token. After a crash, the next attempt can look the job up by the token.

        Args:
            reason: why the previous job is not wanted any more, for the history.
            is_used: a job with the token of this record has already ended, so the token cannot be used again.
        """
        self.fresh = False
        if self.record is None:
            attempt = self._attempt
            # Whether an earlier attempt, or an earlier life of the task, is likely to have left a record.
            was_lost = attempt.try_number > 1 or attempt.epoch.max_tries != attempt.uncleared.max_tries
            self._write(self._first_record().changed(lost=was_lost or None))
        else:
            following = self.record.next_generation(
                self._attempt, name=self.name, now=self.now(), fingerprint=self._fingerprint, reason=reason
            )
            # If the token was already used, it is not known how many generations were lost.
            self._write(following.changed(lost=is_used or None))
            self.cleared = Cleared.NO
        self.fresh = True

    def save_id(self, external_id: JsonValue, notes: object) -> None:
        """Save the id of the job that this attempt has submitted, and the notes about it (None if there are none)."""
        kept = None if notes is None else SavedResult.of(notes)
        self.save(phase=Phase.SUBMITTED, id=external_id, notes=kept, submitted_at=self.now().replace(microsecond=0))

    def adopt(self, external_id: JsonValue, token: str, *, stray: bool) -> None:
        """Save a job that was found. `stray`: it has to end before another one is submitted."""
        self.fresh = False
        self.save(phase=Phase.SUBMITTED, id=external_id, token=token, stray=stray or None)

    def waiting(self) -> Waiting | None:
        """How long this try has been waiting for the job by rescheduling itself; None if it has not."""
        waiting = None if self.record is None else self.record.waiting
        return waiting if waiting is not None and waiting.try_number == self._attempt.try_number else None

    def note_wait(self, *, unknown: bool, unanswered: bool, own: bool) -> Waiting:
        """Save what has to be known in the next process of this try. Nothing is written if nothing has changed.

        Args:
            unknown: the job system has answered that the status is unknown.
            unanswered: the question for the status has failed.
            own: the try ends as the job ends.
        """
        now = self.now().replace(microsecond=0)
        before = self.waiting() or Waiting(try_number=self._attempt.try_number, since=now)
        unknown_since = before.unknown_since if unknown or unanswered else None
        waiting = before.changed(
            unknown_since=(unknown_since or now) if unknown else unknown_since,
            unanswered=(before.unanswered or 0) + 1 if unanswered else None,
            own=own or None,
        )
        if waiting != self.known.waiting:
            self.save(waiting=waiting)
        return waiting

    def since(self, moment: datetime) -> timedelta:
        """How long ago that was; clocks of two workers may differ, so at least nothing."""
        return max(self.now() - moment, timedelta(0))

    def age(self) -> timedelta | None:
        """How long ago the job was submitted, to the second; None if that is not known."""
        at = self.known.submitted_at
        return None if at is None else self.now().replace(microsecond=0) - at

    def mirror(self) -> None:
        """Copy the id to the key of Airflow's own mixin, which finds the job there after a downgrade in mid-run."""
        if self._mirror_key is not None and self.known.id is not None:
            self._stored.store.set(self._mirror_key, self.known.id)

    def is_visible(self) -> bool | None:
        """Whether this attempt can still read the record that it wrote; None if it wrote nothing.

        With `clear_on_success` Airflow deletes the record of a task that a person marks as a success, although its job
        may be alive. Then this writes the record once more, so that the next attempt knows of the job. If this attempt
        was replaced, Airflow refuses that write.
        """
        if self.record is None:
            return None
        try:
            if self._stored.store.get(self.key) is not None:
                return True
            with suppress(SupersededError):
                self._stored.write(self.record)
                return True
        except (CodecError, StateReferenceError, UnreadableRecordError):
            return True  # a value is stored there, and its content does not matter here
        return False
