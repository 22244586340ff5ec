"""The job on record, as the job system shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_resume.errors import JobStatusUnknownError
from airflow_resume.jobs.decide import JobStatus, Phase
from airflow_resume.jobs.interruption import Interruption
from airflow_resume.jobs.questions import Questions
from airflow_resume.jobs.record_slot import JobRecordSlot
from airflow_resume.shown import get_logger

if TYPE_CHECKING:
    from pydantic import JsonValue

log = get_logger(__name__)


class ObservedJob:
    """What one attempt has learned from the job system about the job on record.

    Args:
        asks_once: a question that fails with a transient error is asked again by a later process of this try.

    Attributes:
        status: of the job; None as long as it was not asked for.
        unanswered: the transient error of the question for the status, if a later process asks again.
        confirmed: the job system has given this status more than once.
        own: this attempt submitted the job or waits for it.
        result_is_missing: the job has succeeded, and the job system has said that it does not know its result.
    """

    def __init__(
        self, questions: Questions, slot: JobRecordSlot, interruption: Interruption, *, asks_once: bool = False
    ) -> None:
        self._questions = questions
        self._system = questions.system
        self._slot = slot
        self._interruption = interruption
        self._asks_once = asks_once
        self.forget()

    def forget(self) -> None:
        """Another generation begins, so what was learned no longer applies."""
        self.status: JobStatus | None = None
        self.unanswered: Exception | None = None
        self.confirmed = self.own = self.result_is_missing = self._interruption.cancelled = False

    @property
    def id(self) -> JsonValue:
        """The id of the job on record."""
        return self._slot.known.id

    @property
    def has_ended(self) -> bool:
        """Whether the job system has said that the job has ended."""
        return self.status is not None and self.status.is_terminal

    def ask(self) -> None:
        """Ask for the status.

        A job on record as failed has ended. If asking about it raises, that does not contradict the record.
        """
        if self._slot.known.phase is not Phase.TERMINAL:
            self._ask_once_or_patiently()
            return
        try:
            self.ask_now()
        except Exception:
            log.warning("Whether job %r has really ended could not be asked", self.id, exc_info=True)
            self.status = JobStatus.UNKNOWN

    def _ask_once_or_patiently(self) -> None:
        if not self._asks_once:
            self.ask_now()
            return
        try:
            self.learn(self.ask_once())
        except Exception as error:
            if not self._system.is_transient(error):
                raise
            self.unanswered = error

    def ask_now(self) -> None:
        """Ask for the status. An error that is not transient is raised."""
        self.learn(self._questions.patiently(self.ask_once))

    def ask_once(self) -> JobStatus:
        """The status; any error is raised."""
        try:
            return self._system.status(self.id)
        except JobStatusUnknownError as error:
            error.slot, error.token = self._slot.name, self._slot.known.token
            raise

    def learn(self, status: JobStatus) -> None:
        """Keep the status. If the record says how the job ended, a later answer does not overwrite that."""
        self.status, self.unanswered, self.confirmed = status, None, False
        if self._slot.known.phase is not Phase.TERMINAL:
            self._slot.learn(status)

    def learn_that_its_result_is_missing(self) -> None:
        """The job system did not know the job when it was asked for the result, so the job may be gone too."""
        self.result_is_missing = True
        self.learn(JobStatus.GONE)

    def confirm(self) -> None:
        """Ask again about a job that is gone or has failed, as one answer is not enough to submit another one.

        GONE is asked again until `confirm_gone` has passed, by the token too where possible. FAILED is asked once more:
        some systems retry a job themselves and report a failure in between. An attempt that is interrupted confirms
        nothing.
        """
        if self.status is not JobStatus.GONE:
            self._questions.pause()
            again = self._questions.patiently(self.ask_once)
        else:
            again = self._questions.asked_again(self._ask_by_id_and_token, doubted=lambda said: said is JobStatus.GONE)
        is_confirmed = again is self.status and not self._questions.is_interrupted()
        self.learn(again)
        self.confirmed = is_confirmed

    def _ask_by_id_and_token(self) -> JobStatus:
        status, record = self._questions.patiently(self.ask_once), self._slot.known
        if status is not JobStatus.GONE or not self._system.can_find:
            return status
        found = self._questions.patiently(lambda: self._system.find(record.token))
        if found is None or str(found) == str(record.id):
            return status
        log.warning("Job %r is gone, and its token leads to job %r", record.id, found)
        self._slot.adopt(found, record.token, stray=bool(record.stray))
        return self._questions.patiently(self.ask_once)

    def cancel(self) -> None:
        """Ask for the job to be cancelled. An error is ignored if the job has ended in the meantime."""
        self._interruption.cancelled = True
        if self._system.cancels_by_on_kill:
            log.warning(
                "Job %r is to be ended by the operator's own on_kill. If that method does not know the job of an"
                " earlier attempt, it does nothing, and the end of the job is waited for.\nGive the operator a"
                " cancel_job(external_id, context).",
                self.id,
            )
        try:
            self._system.cancel(self.id)
        except Exception:
            self.ask_now()
            if not self.has_ended:
                raise
