"""All that one attempt knows about the job of its slot."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_resume.attempt import Attempt, Cleared
from airflow_resume.jobs.decide import JobFacts, JobStatus, is_unwanted
from airflow_resume.jobs.interruption import Interruption
from airflow_resume.jobs.observed import ObservedJob
from airflow_resume.jobs.policy import ResumePolicy
from airflow_resume.jobs.protocol import JobSystem
from airflow_resume.jobs.record_slot import JobRecordSlot
from airflow_resume.jobs.search import JobSearch
from airflow_resume.jobs.token import token_is_derived


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What the decision depends on, in the objects that learn it.

    Args:
        attempt: the running attempt.
        slot: the record of the job.
        system: what the job system offers.
        policy: what to do where there is a choice.
        search: jobs that were found and are not on record.
        observed: the job on record, as the job system shows it.
        interruption: what may end the attempt before the job.
        durable: the record is kept for the next attempt.
    """

    attempt: Attempt
    slot: JobRecordSlot
    system: JobSystem
    policy: ResumePolicy
    search: JobSearch
    observed: ObservedJob
    interruption: Interruption
    durable: bool

    def facts(self) -> JobFacts:
        """The facts for the decision, as they are now."""
        slot, interruption = self.slot, self.interruption
        if (record := slot.record) is None:
            return JobFacts(stopped=interruption.stopped, replaced=interruption.replaced, leaving=interruption.leaving)
        return JobFacts(
            phase=record.phase,
            fresh=slot.fresh,
            lost=bool(record.lost),
            has_id=record.id is not None,
            saved_success=record.status is JobStatus.SUCCEEDED,
            saved_result=record.result is not None,
            cleared=slot.cleared is Cleared.YES,
            inputs_changed=slot.inputs_changed,
            is_stray=bool(record.stray),
            can_find=self.system.can_find,
            can_find_strays=self._can_find_strays,
            can_cancel=self.system.can_cancel,
            is_idempotent=self.system.is_idempotent,
            lookup=self.search.lookup,
            stray=self.search.stray,
            status=self.observed.status,
            unanswered=self.observed.unanswered is not None,
            confirmed=self.observed.confirmed,
            own=self.observed.own,
            cancelled=interruption.cancelled,
            stopped=interruption.stopped,
            replaced=interruption.replaced,
            leaving=interruption.leaving,
        )

    @property
    def _can_find_strays(self) -> bool:
        """Whether stray jobs can be found: by slot, or by token if an attempt without a record makes the same one."""
        if not (self.attempt.has_identity and self.durable):
            return False
        record_was_missing = self.slot.found.is_missing or bool(self.slot.known.lost)
        return self.system.can_find_jobs or (
            self.system.can_find and record_was_missing and token_is_derived(self.attempt)
        )

    @property
    def is_unwanted(self) -> bool:
        """Whether the result of the job on record is of no use to this attempt."""
        return is_unwanted(self.facts(), self.policy)
