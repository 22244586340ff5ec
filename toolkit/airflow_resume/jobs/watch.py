"""The job on record as the job system shows it: looking it up, asking for it, waiting for its end, cancelling it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_resume.jobs.decide import JobStatus, Lookup, Phase, Stray
from airflow_resume.jobs.policy import ResumePolicy
from airflow_resume.jobs.poll import Clock, ask_patiently, confirmed, nap, wait_for_end
from airflow_resume.jobs.protocol import JobSystem
from airflow_resume.jobs.slot import JobSlot
from airflow_resume.jobs.token import SubmissionToken, is_form_of

if TYPE_CHECKING:
    from pydantic import JsonValue

log = logging.getLogger(__name__)

T = TypeVar("T")


class JobWatch:
    """What one attempt learns of the job of its slot.

    Attributes:
        lookup: what looking the token up has brought, and `found` the id.
        stray: what looking for live jobs of the slot has brought, and `found` and `found_token` one of them.
        status: of the job; None while it was not asked for.
        confirmed: the job system has said so more than once.
        own: this attempt submitted the job or waits for it.
        cancelled: this attempt has asked for its end.
        result_is_missing: the job system has said that it does not know the result of the job, which has succeeded.
        wait_error: what the job system's own way of waiting raised about a job that has ended.
    """

    def __init__(
        self,
        system: JobSystem,
        slot: JobSlot,
        policy: ResumePolicy,
        clock: Clock,
        *,
        leaving: Callable[[], bool],
    ) -> None:
        self._system = system
        self._slot = slot
        self._policy = policy
        self._clock = clock
        self._leaving = leaving
        self.wait_error: Exception | None = None
        self.forget()

    def forget(self) -> None:
        """What was learned is about another job."""
        self.lookup = Lookup.NOT_ASKED
        self.stray = Stray.NOT_ASKED
        self.found: JsonValue = None
        self.found_token = ""
        self.status: JobStatus | None = None
        self.confirmed = self.own = self.cancelled = self.result_is_missing = False

    def patiently(self, ask: Callable[[], T]) -> T:
        """The answer to a question that may fail in passing."""
        return ask_patiently(ask, self._system.is_transient, self._policy.poll, self._clock, leaving=self._leaving)

    def look_up(self) -> None:
        """Ask for the job by its token. An index may be late, so one that has no such job is asked again."""
        token = self._slot.known.token

        def find() -> JsonValue:
            return self.patiently(lambda: self._system.find(token))

        found = find()
        self.found = self._asked_again(find, doubted=lambda again: again is None) if found is None else found
        self.found_token = token
        if self.found is not None:
            self.lookup = Lookup.FOUND
        else:
            self.lookup = Lookup.UNSETTLED if self._leaving() else Lookup.MISSING

    def look_for_strays(self, *, deployment_is_known: bool, again: bool) -> None:
        """Look for live jobs of the slot that the record does not tell of.

        Args:
            deployment_is_known: nobody else can have submitted them.
            again: a record should have been there, so that no job was found is believed only when it is said twice.
        """

        def look() -> Stray:
            return self._look(deployment_is_known=deployment_is_known)

        self.stray = look()
        if again and self.stray is Stray.NONE:
            self.stray = self._asked_again(look, doubted=lambda stray: stray is Stray.NONE)
            if self.stray is Stray.NONE and self._leaving():
                self.stray = Stray.NOT_ASKED

    def _look(self, *, deployment_is_known: bool) -> Stray:
        token = self._slot.known.token
        jobs = self._jobs_of_slot(token)
        states = self._states_of(jobs)
        own = next((each for each in states if is_form_of(token, each)), None)
        if own is not None and states[own] is not JobStatus.GONE:
            self.found, self.found_token = jobs[own], token
            return Stray.ENDED if states[own].is_terminal else Stray.THIS_TOKENS
        for each, status in states.items():
            if not status.is_terminal:
                self.found, self.found_token = jobs[each], each
                return Stray.OURS if deployment_is_known else Stray.SOMEBODYS
        return Stray.NONE

    def _states_of(self, jobs: Mapping[str, JsonValue]) -> dict[str, JobStatus]:
        """How the jobs are, by token; one that is said to have failed or to be gone is asked for twice.

        Those that the record knows to have ended are left out.
        """

        def states_of(tokens: Iterable[str]) -> dict[str, JobStatus]:
            return {each: self.patiently(partial(self._system.status, jobs[each])) for each in tokens}

        ended = {JobStatus.SUCCEEDED, JobStatus.FAILED}
        known = {past.token for past in self._slot.known.history if past.status in ended}
        states = states_of(each for each in jobs if each not in known)
        doubted = [each for each, status in states.items() if status in {JobStatus.FAILED, JobStatus.GONE}]
        if doubted:
            nap(self._policy.poll.interval.total_seconds(), self._clock, self._leaving)
        return {**states, **states_of(doubted)}

    def _jobs_of_slot(self, token: str) -> dict[str, JsonValue]:
        """Where the system cannot be searched by slot, the one with this token, if there is one."""
        if self._system.can_find_jobs:
            return self.patiently(lambda: self._system.find_jobs(SubmissionToken(token).slot))
        found = self.patiently(lambda: self._system.find(token))
        return {} if found is None else {token: found}

    def _asked_again(self, ask: Callable[[], T], *, doubted: Callable[[T], bool]) -> T:
        seconds = self._policy.confirm_gone.total_seconds()
        return confirmed(
            ask,
            doubted=doubted,
            seconds=seconds,
            policy=self._policy.poll,
            clock=self._clock,
            leaving=self._leaving,
        )

    def ask(self) -> None:
        """Ask for the status."""
        self.learn(self.patiently(self._ask_once))

    def ask_whether_it_has_ended(self) -> None:
        """Ask about a job that is down as failed. That it cannot be asked does not contradict the record."""
        try:
            self.ask()
        except Exception:
            log.warning("Whether job %r has really ended could not be asked", self._slot.known.id, exc_info=True)
            self.status = JobStatus.UNKNOWN

    def confirm(self) -> None:
        """Ask again about a job that is gone or has failed, as one answer is not enough for another job.

        A gone one is asked for over a grace period, by its token too where that can be done. A failed one is asked once
        more: there are systems that retry a job themselves and say so in between. Nothing is confirmed by an attempt
        that has no time for it.
        """
        if self.status is not JobStatus.GONE:
            nap(self._policy.poll.interval.total_seconds(), self._clock, self._leaving)
            again = self.patiently(self._ask_once)
        else:
            again = self._asked_again(self._ask_by_id_and_token, doubted=lambda status: status is JobStatus.GONE)
        is_confirmed = again is self.status and not self._leaving()
        self.learn(again)
        self.confirmed = is_confirmed

    def _ask_by_id_and_token(self) -> JobStatus:
        status, record = self.patiently(self._ask_once), self._slot.known
        if status is not JobStatus.GONE or not self._system.can_find:
            return status
        found = self.patiently(lambda: self._system.find(record.token))
        if found is None or str(found) == str(record.id):
            return status
        log.warning("Job %r is gone, and its token leads to job %r", record.id, found)
        self._slot.adopt(found, record.token, stray=bool(record.stray))
        return self.patiently(self._ask_once)

    def _ask_once(self) -> JobStatus:
        return self._system.status(self._slot.known.id)

    def learn(self, status: JobStatus) -> None:
        """Keep the status. How a job ended is not overwritten in the record by what is said of it later."""
        self.status, self.confirmed = status, False
        if self._slot.known.phase is not Phase.TERMINAL:
            self._slot.learn(status)

    def learn_that_its_result_is_missing(self) -> None:
        """The job system did not know the job when it was asked for its result. So the job may be gone too."""
        self.result_is_missing = True
        self.learn(JobStatus.GONE)

    @property
    def has_ended(self) -> bool:
        """Whether the job system has said that the job has ended."""
        return self.status is not None and self.status.is_terminal

    def cancel(self) -> None:
        """Ask for the end of the job. One that has ended in the meantime needs none."""
        self.cancelled = True
        if self._system.cancels_by_on_kill:
            log.warning(
                "Job %r is to be ended by the operator's own on_kill. One that does not know the job of an earlier"
                " attempt does nothing, and then its end is waited for.\nGive the operator a cancel_job(external_id,"
                " context).",
                self._slot.known.id,
            )
        try:
            self._system.cancel(self._slot.known.id)
        except Exception:
            self.ask()
            if not self.has_ended:
                raise

    def wait(self) -> None:
        """Ask until the job has ended.

        Raises:
            JobWaitTimeoutError: after `poll.timeout`.
            JobStatusUnknownError: after `unknown_timeout`.
        """
        ended_or_leaving = wait_for_end(
            self._ask_once,
            is_transient=self._system.is_transient,
            what=f"job {self._slot.known.id!r} of slot {self._slot.name!r} (token {self._slot.known.token})",
            last_word=lambda: self._system.last_word,
            policy=self._policy,
            clock=self._clock,
            leaving=self._leaving,
            report=self._report,
        )
        self.learn(ended_or_leaving)

    def _report(self, status: JobStatus) -> None:
        record, age = self._slot.known, self._slot.age()
        since = "" if age is None else f", submitted {age} ago"
        log.info("Job %r is still %s%s", record.id, status.value, since)

    def wait_as_the_operator_does(self) -> None:
        """Where the job system brings its own way of waiting, use it; how the job ended is asked all the same.

        Trouble on the way is no reason to end the attempt: then the status is asked until the job has ended, and the
        own way is used once more, as it may have something to say at the end (logs, or why the job failed).
        """
        error = self._what_waiting_raises()
        if error is not None and self._system.interrupts(error):
            log.warning("Waiting for job %r was interrupted by %r; asking for its status", self._slot.known.id, error)
            self.wait()
            error = None if self._leaving() else self._what_waiting_raises()
        if error is not None:
            self._end_wait(error)
        elif self._system.wait_means_success and not self._leaving():
            self._believe_the_wait()

    def _believe_the_wait(self) -> None:
        """An operator whose own wait returned has said that its job has ended well, as it raises if not.

        That is Airflow's contract. A status that nobody has a word for is then no reason to go on waiting.
        """
        self.ask()
        if self.status is JobStatus.UNKNOWN or self.status is JobStatus.GONE:
            log.info("Job %r is %s, and its operator has waited for its end", self._slot.known.id, self.status.value)
            self.learn(JobStatus.SUCCEEDED)
        elif not self.has_ended:
            log.warning(
                "The poll_until_complete of the operator has returned, and job %r is still %s: it is waited for",
                self._slot.known.id,
                self.status and self.status.value,
            )

    def _what_waiting_raises(self) -> Exception | None:
        try:
            self._system.wait(self._slot.known.id)
        except Exception as error:  # noqa: BLE001  what it means is for the caller to say
            return error
        return None

    def _end_wait(self, error: Exception) -> None:
        """What waiting raised is what the user wrote, so the attempt ends with it, unless the job has succeeded."""
        self._ask_in_spite_of(error)
        if not self.has_ended or isinstance(error, (AirflowFailException, AirflowSkipException)):
            raise error
        log.warning("Waiting for job %r raised, and it is %s", self._slot.known.id, self.status, exc_info=error)
        self.wait_error = error

    def _ask_in_spite_of(self, error: Exception) -> None:
        try:
            self.ask()
        except Exception:
            log.warning("... and neither could its status be asked", exc_info=True)
            raise error from None
        if self.status is JobStatus.FAILED:
            self.confirmed = True  # by the wait, and by the answer
            self._slot.save(phase=Phase.TERMINAL)
