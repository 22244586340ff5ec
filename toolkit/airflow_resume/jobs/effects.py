"""The steps that change the record or the job system. The record is saved before and after each effect."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from airflow_resume.compat import AirflowFailException, AirflowSkipException
from airflow_resume.deployment import deployment
from airflow_resume.jobs.decide import JobStatus, Phase, Stray
from airflow_resume.jobs.failure import lost_by_error
from airflow_resume.jobs.orphan import checked_id, see_to_orphan
from airflow_resume.jobs.situation import Situation
from airflow_resume.reschedule import reschedule
from airflow_resume.shown import get_logger

if TYPE_CHECKING:
    from pydantic import JsonValue

log = get_logger(__name__)


class JobEffects:
    """Each method is one step of an attempt, and leaves the record such that a crash at any point can be resumed."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._slot = situation.slot
        self._system = situation.system
        self._search = situation.search
        self._observed = situation.observed

    def revive(self) -> None:
        """Correct the record: it says that the job has failed, and the job system says otherwise."""
        log.warning("Job %r was on record as failed, but is %s", self._observed.id, self._observed.status)
        self._slot.save(phase=Phase.SUBMITTED, status=self._observed.status)

    def look_for_strays(self) -> None:
        """Look for live jobs of the slot that are not on record."""
        was_lost = bool(self._slot.known.lost)
        self._search.look_for_strays(deployment_is_known=deployment() is not None, again=was_lost)
        if self._search.stray is Stray.NONE and was_lost:
            # No job has this token yet. So a job that is found with it later is the one that is submitted next.
            self._slot.save(lost=None)

    def start_generation(self) -> None:
        """Claim the next generation. Its job is submitted by a later step."""
        is_used = self._search.stray is Stray.ENDED
        self._slot.start_generation(reason="" if self._slot.record is None else self._reason(), is_used=is_used)
        self._search.forget()
        self._observed.forget()

    def _reason(self) -> str:
        """Why another generation is due, for the history."""
        if self._search.stray is Stray.ENDED:
            return "its job has ended, and the record of it was lost"
        known = self._slot.known
        if known.stray:
            return "not a job of this run"
        if known.id is None and known.phase is Phase.TERMINAL and known.by_hand is not None:
            return str(known.by_hand)
        if self._situation.is_unwanted:
            return "cleared or changed"
        return "ended without success" if known.id is not None else "nothing was created"

    def adopt(self) -> None:
        """Save the found job in the record, in order to wait for it."""
        self._saving(lambda: self._slot.adopt(self._search.found, self._search.found_token, stray=False))

    def adopt_stray(self) -> None:
        """Save the found job in the record, in order to end it."""
        log.warning("Job %r of this slot is alive and not of this run: it has to end first", self._search.found)
        self._saving(lambda: self._slot.adopt(self._search.found, self._search.found_token, stray=True))

    def submit(self) -> None:
        """Submit the job of the claimed generation, and save its id."""
        self._slot.fresh = False
        token = self._slot.known.token
        try:
            answer = self._system.submit(token)
        except Exception as error:
            self._see_to_failed_submit(error)
            raise
        self._observed.own = True  # it is this attempt's own job: how it ends is how the attempt ends
        external_id = checked_id(self._system, token, answer, slot=self._slot.name)
        self._saving(lambda: self._slot.save_id(external_id, self._system.notes()), external_id)
        self._observed.learn(JobStatus.ACTIVE)

    def _see_to_failed_submit(self, error: Exception) -> None:
        """An error does not prove that no job was created. If the next attempt can look the job up, do nothing here."""
        if self._system.can_find or self._system.is_idempotent:
            return
        if isinstance(error, AirflowSkipException):  # the author says that there is nothing to submit
            self.withdraw()
        elif self._system.was_refused(error):
            log.warning("The submit of slot %r was refused, and created nothing: %r", self._slot.name, error)
            self.withdraw()
        else:
            with suppress(Exception):  # the error of the submit is what matters, and is raised
                self._slot.save(error=type(error).__name__)
            policy = self._situation.policy.on_lost_submission
            if policy == "fail" and not isinstance(error, AirflowFailException):
                raise lost_by_error(self._slot.known, error, name=self._slot.name) from error

    def withdraw(self) -> None:
        """Save that no job was created, so that a retry need not suspect one."""
        self._slot.fresh = False
        self._slot.save(phase=Phase.TERMINAL)

    def _saving(self, save: Callable[[], None], submitted_id: JsonValue = None) -> None:
        """Save an id. If that fails for a job that was just submitted, see to the job: nobody else may know of it."""
        try:
            save()
        except Exception:
            if submitted_id is not None and see_to_orphan(self._system, self._slot.known.token, submitted_id):
                # The store may accept this write. Then the next attempt waits for the cancelled job to end, and does
                # not have to suspect another one.
                with suppress(Exception):
                    self._slot.save(phase=Phase.SUBMITTED, id=submitted_id, status=JobStatus.CANCELLING)
            raise
        self._slot.mirror()

    def give_back(self) -> NoReturn:
        """Leave the worker, and come back in the same try."""
        if self._slot.fresh:
            self.withdraw()
        record = self._slot.record
        log.info("The worker shuts down; the task comes back for job %r in the same try", record and record.id)
        reschedule(now=self._slot.now)
