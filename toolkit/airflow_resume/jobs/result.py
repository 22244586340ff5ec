"""The result of a job that has succeeded: fetched, kept in the record, returned again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_resume.jobs.decide import JobStatus, Phase
from airflow_resume.jobs.observed import ObservedJob
from airflow_resume.jobs.questions import Questions
from airflow_resume.jobs.record import SavedResult
from airflow_resume.jobs.record_slot import JobRecordSlot
from airflow_resume.shown import get_logger

log = get_logger(__name__)


@dataclass(frozen=True)
class FetchedResult:
    """The result of a job, wrapped in an object because it may be None."""

    value: Any


class JobResult:
    """Where one attempt gets the result of its job."""

    def __init__(self, questions: Questions, observed: ObservedJob, slot: JobRecordSlot) -> None:
        self._questions = questions
        self._system = questions.system
        self._observed = observed
        self._slot = slot

    def fetch(self) -> FetchedResult | None:
        """The result of the job; None if the job system does not know the job any more.

        If the system has results, the success of the job is saved first. So a result that cannot be fetched never leads
        to another job.
        """
        record = self._slot.known

        def ask() -> Any:
            # A first attempt has asked for the status before, and a hook may need what it kept then. So use `replay`.
            if self._observed.status is None and self._system.can_replay:
                return self._system.replay(record.id)
            return self._system.result(record.id)

        is_saved = record.phase is Phase.TERMINAL and record.status is JobStatus.SUCCEEDED
        if self._system.has_result and not is_saved:
            self._slot.save(phase=Phase.TERMINAL, status=JobStatus.SUCCEEDED)
        try:
            result = self._questions.patiently(ask)
        except Exception as error:
            if not self._system.is_not_found(error) or self._observed.result_is_missing:
                raise
            log.warning("Job %r has succeeded, and its result is not there: %r", record.id, error)
            self._observed.learn_that_its_result_is_missing()
            return None
        self._keep(result)
        return FetchedResult(result)

    def _keep(self, result: Any) -> None:
        """Save that the job has succeeded, with its result if that is small."""
        if self._questions.policy.keep_result:
            if (saved := SavedResult.of(result)) is not None:
                # If the id is very long, the record may have no room for the result. Then it is fetched again later.
                self._slot.save(phase=Phase.TERMINAL, status=JobStatus.SUCCEEDED, result=saved)
                return
            log.info(
                "The result of job %r is too large, or not JSON: it is not kept, and is fetched again if needed",
                self._slot.known.id,
            )
        if self._slot.known.phase is not Phase.TERMINAL:
            self._slot.save(phase=Phase.TERMINAL, status=JobStatus.SUCCEEDED)

    def saved(self) -> Any:
        """The result that the job system replays, or else the result that an earlier attempt has saved."""
        external_id = self._slot.known.id
        if self._system.can_replay:
            try:
                return self._questions.patiently(lambda: self._system.replay(external_id))
            except Exception:
                log.warning(
                    "The job system does not know job %r, or cannot be asked: the saved result is returned",
                    external_id,
                    exc_info=True,
                )
        return self._slot.saved_result()
