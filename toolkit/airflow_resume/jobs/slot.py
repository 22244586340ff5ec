"""The slot of a job: its record, as one attempt reads, claims and writes it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_resume import values
from airflow_resume.attempt import Attempt, Cleared
from airflow_resume.errors import DanglingReferenceError, StateReferenceError, SupersededError
from airflow_resume.jobs.decide import JobStatus, Phase
from airflow_resume.jobs.record import KEY_PREFIX, JobRecord, first_generation
from airflow_resume.record import Slot
from airflow_resume.store import StateStore

if TYPE_CHECKING:
    from pydantic import JsonValue

log = logging.getLogger(__name__)


class JobSlot:
    """One slot of one attempt.

    Args:
        store: where the record is.
        attempt: that uses the slot.
        name: of the slot.
        inputs: what the job is made from; None when nobody says.
        mirror_key: where Airflow's own mixin keeps the id of the job, to be found there after a change to or from it.
        notice: told about every record that was written.
        now: the time.

    Attributes:
        record: as this attempt knows it; what was learned and not saved yet is in it.
        earlier_try: that last claimed the record that was found.
        found_job: the record that was found had the id of a job.
        cleared: whether the task was cleared since the job on record was submitted.
        blank: no record was found, which proves nothing: it may have been cleared or restored away.
        fresh: this attempt has claimed the generation and has not sent it yet.
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
        self.key = values.make_key(KEY_PREFIX, name)
        self.name = name
        self._place = Slot(store, self.key, JobRecord)
        self._store = store
        self._attempt = attempt
        self._fingerprint = None if inputs is None else values.fingerprint(inputs)
        self._mirror_key = mirror_key
        self._notice = notice
        self._now = now
        self.record: JobRecord | None = None
        self.earlier_try = 0
        self.found_job = False
        self.blank = False
        self.fresh = False
        self.cleared = Cleared.NO

    @property
    def known(self) -> JobRecord:
        """The record, where a step needs one: decide() takes no such step without."""
        if self.record is None:
            raise AssertionError
        return self.record

    @property
    def inputs_changed(self) -> bool:
        """Whether the job on record was made from something else; not if nobody says what from."""
        return self._fingerprint is not None and self.known.fingerprint not in {None, self._fingerprint}

    @property
    def holds_a_job(self) -> bool:
        """Whether there may be a job that has not ended."""
        record = self.record
        if self.fresh:
            return False
        ended = record is None or (record.status is not None and record.status.is_terminal)
        return record is not None and record.phase is not Phase.TERMINAL and not ended

    def open(self) -> None:
        """Read, and claim by a write: a refused one means that another attempt is running, and nothing was done."""
        record = self._read() or self._adopt_mirrored()
        if record is None:
            self.blank = True
            return
        self.record, self.earlier_try = record, record.claim.try_number
        self.found_job = record.id is not None
        ended = record.phase is Phase.TERMINAL
        self.cleared = self._attempt.cleared_since(record.epoch, self.earlier_try, ended=ended)
        self.save(claim=self._attempt.claim(self._now()))
        self.mirror()

    def _read(self) -> JobRecord | None:
        try:
            return self._place.read()
        except DanglingReferenceError as error:
            raise DanglingReferenceError(
                error.message,
                f"See in the job system that no job of an earlier attempt is alive. {error.remedy or ''}".rstrip(),
            ) from error

    def _adopt_mirrored(self) -> JobRecord | None:
        """The id that Airflow's own mixin saved, when the task was upgraded to ours between two attempts."""
        if self._mirror_key is None or (external_id := self._store.get(self._mirror_key)) is None:
            return None
        if not values.is_json(external_id):  # a mock
            return None
        log.info("Adopting the job %r that was saved under %r", external_id, self._mirror_key)
        # Nobody saved when that was; a task that was ever cleared since it was made must do its work again.
        return self._first_record().model_copy(
            update={"phase": Phase.SUBMITTED, "id": external_id, "epoch": self._attempt.uncleared}
        )

    def _first_record(self) -> JobRecord:
        return first_generation(self.key, self._attempt, name=self.name, now=self._now(), fingerprint=self._fingerprint)

    def learn(self, status: JobStatus) -> None:
        """Keep the status; it is saved with the next change."""
        self.record = self.known.model_copy(update={"status": status})

    def save(self, **changes: Any) -> None:
        """Write the record with changes."""
        self._write(self.known.model_copy(update=changes))

    def _write(self, record: JobRecord) -> None:
        self._place.write(record)
        self.record = record
        self._notice(record)

    @property
    def _should_have_found_one(self) -> bool:
        """Whether an earlier attempt, or an earlier life of the task, is likely to have left a record."""
        attempt = self._attempt
        return attempt.try_number > 1 or attempt.epoch.max_tries != attempt.uncleared.max_tries

    def start_generation(self, *, reason: str, is_used: bool = False) -> None:
        """Save the intent to submit, before the submit: from now on a crash leaves a token to look up.

        Args:
            reason: why the job before is not wanted any more, for the history.
            is_used: a job with the token of this record has ended that the record knows nothing of.
        """
        self.fresh = False
        if self.record is None:
            self._write(self._first_record().model_copy(update={"lost": self._should_have_found_one or None}))
            self.fresh = True
            return
        following = self.record.next_generation(
            self._attempt, name=self.name, now=self._now(), fingerprint=self._fingerprint, reason=reason
        )
        # Where the token of a claim was in use already, nobody knows how many generations were lost.
        self._write(following.model_copy(update={"lost": is_used or None}))
        self.fresh, self.cleared = True, Cleared.NO

    def save_id(self, external_id: JsonValue) -> None:
        """The job was submitted by this attempt."""
        self.save(phase=Phase.SUBMITTED, id=external_id, submitted_at=self._now().replace(microsecond=0))

    def adopt(self, external_id: JsonValue, token: str, *, stray: bool) -> None:
        """The job was found."""
        self.fresh = False
        self.save(phase=Phase.SUBMITTED, id=external_id, token=token, stray=stray or None)

    def age(self) -> timedelta | None:
        """How long ago the job was submitted, to the second, as far as that is known."""
        at = self.known.submitted_at
        return None if at is None else self._now().replace(microsecond=0) - at

    def mirror(self) -> None:
        """Leave the id where Airflow's own mixin looks for it, so that a downgrade in mid-run finds the job."""
        if self._mirror_key is not None and self.known.id is not None:
            self._store.set(self._mirror_key, self.known.id)

    def is_visible(self) -> bool | None:
        """Whether what this attempt wrote is there for it to read; None when it wrote nothing.

        With `clear_on_success` Airflow deletes the record of a task that a person marks as a success, while its job may
        be alive. Then it is written once more, which only a replaced attempt may not: whoever runs the task again must
        know of the job.
        """
        if self.record is None:
            return None
        try:
            return self._store.get(self.key) is not None or self._is_written_again(self.record)
        except StateReferenceError:  # Airflow has shown the reference, which is all that is asked
            return True

    def _is_written_again(self, record: JobRecord) -> bool:
        try:
            self._place.write(record)
        except SupersededError:
            return False
        return True
