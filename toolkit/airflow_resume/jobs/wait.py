"""Waiting for the end of the job: in the triggerer, by reschedule, as the operator does, or by asking."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, NoReturn

from airflow_resume.attempt import Cleared
from airflow_resume.channel import in_process_supervisor
from airflow_resume.compat import AirflowFailException, AirflowSkipException
from airflow_resume.jobs.decide import JobStatus, Phase
from airflow_resume.jobs.interruption import Interruption
from airflow_resume.jobs.looks import AfterLook, LookFacts, Place, after_look, pause_after
from airflow_resume.jobs.observed import ObservedJob
from airflow_resume.jobs.policy import ResumePolicy
from airflow_resume.jobs.poll import JobRef, unknown_for_too_long, wait_for_end, waited_for_too_long
from airflow_resume.jobs.questions import Questions
from airflow_resume.jobs.record import Waiting
from airflow_resume.jobs.record_slot import JobRecordSlot
from airflow_resume.reschedule import RESCHEDULE_AFTER, reschedule
from airflow_resume.shown import get_logger

if TYPE_CHECKING:
    from pydantic import JsonValue

log = get_logger(__name__)


class JobWait:
    """How one attempt waits for its job.

    Args:
        defer: hands the wait over to the triggerer, and ends this process; None to wait here.
        resumed: whether the task comes back from the triggerer.
        policy: how long the pauses between two looks are. Within a look, `questions` has its own.
        place: where to wait.
        interruption: what may end the attempt before the job.

    Attributes:
        error: the error that the job system's own way of waiting raised for a job that has ended.
    """

    def __init__(
        self,
        questions: Questions,
        observed: ObservedJob,
        slot: JobRecordSlot,
        *,
        defer: Callable[[JsonValue], NoReturn] | None,
        resumed: bool,
        policy: ResumePolicy,
        place: Place,
        interruption: Interruption,
    ) -> None:
        self._questions = questions
        self._observed = observed
        self._slot = slot
        self._defer = defer
        self._resumed = resumed
        self._policy = policy
        self._place = place
        self._interruption = interruption
        self.error: Exception | None = None

    def reconnect(self) -> None:
        """Wait for a job that an earlier attempt has submitted."""
        if self._slot.cleared is Cleared.PERHAPS and self._slot.waiting() is None:
            log.info(
                "A task of this run was cleared since try %d. If it was this one, and it was running, then it could not"
                " cancel its job, so this attempt waits for that job.",
                self._slot.found.earlier_try,
            )
        self.wait()

    def wait(self) -> None:
        """Wait for a job whose result this attempt needs: in the triggerer, without any process, or here."""
        self._observed.own = True
        if self._defer is not None:
            self._defer_to_triggerer(self._defer)
        if self._questions.is_interrupted():
            return
        if self._place is Place.RESCHEDULE:
            self._look_again_later()
            return
        self._wait_as_the_operator_does()
        if not self._observed.has_ended:
            self.until_ended()

    def _defer_to_triggerer(self, defer: Callable[[JsonValue], NoReturn]) -> None:
        if self._resumed:  # a trigger that fires early must not fire again at once, for ever
            status = self._observed.status
            log.warning(
                "The trigger fired, but job %r is still %s, so it is deferred again",
                self._observed.id,
                status and status.value,
            )
            self._questions.pause()
            if self._questions.is_interrupted():
                return
        defer(self._observed.id)

    def until_ended(self) -> None:
        """Ask for the status until the job has ended, here or in later processes of this try.

        Raises:
            JobWaitTimeoutError: after `poll.timeout`.
            JobStatusUnknownError: after `unknown_timeout`.
        """
        # A later process would not know that this one has asked for the job to be cancelled.
        if self._place is Place.RESCHEDULE and not self._interruption.cancelled:
            self._look_again_later()
            return
        record, system = self._slot.known, self._questions.system

        def report(status: JobStatus) -> None:
            age = self._slot.age()
            since = "" if age is None else f", submitted {age} ago"
            log.info("Job %r is still %s%s", record.id, status.value, since)

        ended_or_interrupted = wait_for_end(
            self._observed.ask_once,
            is_transient=system.is_transient,
            what=self._what,
            job=self._job,
            last_word=lambda: system.last_word,
            policy=self._questions.policy,
            clock=self._questions.clock,
            leaving=self._questions.is_interrupted,
            report=report,
        )
        self._observed.learn(ended_or_interrupted)

    @property
    def _what(self) -> str:
        record = self._slot.known
        return f"job {record.id!r} of slot {self._slot.name!r} (token {record.token})"

    @property
    def _job(self) -> JobRef:
        record = self._slot.known
        return JobRef(slot=self._slot.name, token=record.token, external_id=record.id)

    # --- without any process --------------------------------------------------------------------------------------

    def _look_again_later(self) -> None:
        """End this process, and have another one of the same try look again; return only if this one is interrupted.

        Raises:
            AirflowRescheduleException: nearly always.
            JobWaitTimeoutError: after `poll.timeout`.
            JobStatusUnknownError: after `unknown_timeout`.
            Exception: that of the question for the status, if it has failed too often in a row.
        """
        observed, slot, policy = self._observed, self._slot, self._policy
        error, is_unknown = observed.unanswered, observed.status is JobStatus.UNKNOWN
        waiting = slot.note_wait(unknown=is_unknown, unanswered=error is not None, own=observed.own)
        facts = LookFacts(
            waited=slot.since(waiting.since),
            unknown_for=slot.since(waiting.unknown_since) if is_unknown and waiting.unknown_since else None,
            unanswered=waiting.unanswered or 0,
        )
        match after_look(facts, policy):
            case AfterLook.FAIL_UNANSWERED if error is not None:
                raise error
            case AfterLook.FAIL_UNKNOWN:
                word = self._questions.system.last_word
                raise unknown_for_too_long(policy, what=self._what, job=self._job, last_word=word)
            case AfterLook.FAIL_TIMEOUT:
                raise waited_for_too_long(policy, what=self._what, job=self._job, status=observed.status)
        # In `dag.test()` no executor can mistake the end of this process for the end of the next one.
        shortest = timedelta(0) if in_process_supervisor() else RESCHEDULE_AFTER
        chance = self._questions.clock.random()
        pause = pause_after(facts.waited, policy.poll, shortest=shortest, chance=chance)
        self._say_when(waiting, facts, pause)
        if not self._questions.is_interrupted():
            reschedule(pause, now=slot.now)

    def _say_when(self, waiting: Waiting, facts: LookFacts, pause: timedelta) -> None:
        error, status = self._observed.unanswered, self._observed.status
        if error is None:
            found = f"is {status.value if status else 'not asked'}"
        else:
            most = self._policy.poll.max_consecutive_errors
            found = f"could not be asked about ({error!r}; {waiting.unanswered} of {most} times in a row)"
        log.info(
            "Job %r %s. The task frees its worker slot, and the same try looks again in %d s; it has waited for %s",
            self._slot.known.id,
            found,
            pause.total_seconds(),
            timedelta(seconds=int(facts.waited.total_seconds())),
        )

    # --- in the operator's own way --------------------------------------------------------------------------------

    def _wait_as_the_operator_does(self) -> None:
        """Use the job system's own way of waiting, if it has one. The status is still asked afterwards.

        A broken connection does not end the attempt. Then the status is asked until the job has ended, and the own way
        is used once more, because it may report something at the end (logs, or why the job failed).
        """
        error = self._what_waiting_raises()
        if error is not None and self._questions.system.interrupts(error):
            log.warning("Waiting for job %r was interrupted by %r; asking for its status", self._observed.id, error)
            self.until_ended()
            error = None if self._questions.is_interrupted() else self._what_waiting_raises()
        if error is not None:
            self._end_with(error)
        elif self._questions.system.wait_means_success and not self._questions.is_interrupted():
            self._believe_the_wait()

    def _what_waiting_raises(self) -> Exception | None:
        try:
            self._questions.system.wait(self._observed.id)
        except Exception as error:  # noqa: BLE001  the caller decides what it means
            return error
        return None

    def _believe_the_wait(self) -> None:
        """By Airflow's contract, an operator's own wait returns only if the job has succeeded; otherwise it raises.

        So the attempt does not go on waiting because of a status that is unknown or gone.
        """
        self._observed.ask_now()
        status = self._observed.status
        if status is JobStatus.UNKNOWN or status is JobStatus.GONE:
            log.info("Job %r is %s, and its operator has waited for its end", self._observed.id, status.value)
            self._observed.learn(JobStatus.SUCCEEDED)
        elif not self._observed.has_ended:
            log.warning(
                "The operator's poll_until_complete has returned, but job %r is still %s, so the wait goes on",
                self._observed.id,
                status and status.value,
            )

    def _end_with(self, error: Exception) -> None:
        """End the attempt with the error of the operator's own wait, unless the job has succeeded."""
        try:
            self._observed.ask_now()
        except Exception:
            log.warning("... and its status could not be asked either", exc_info=True)
            raise error from None
        if self._observed.status is JobStatus.FAILED:
            self._observed.confirmed = True  # by the wait, and by the answer
            self._slot.save(phase=Phase.TERMINAL)
        if not self._observed.has_ended or isinstance(error, (AirflowFailException, AirflowSkipException)):
            raise error
        log.warning("Waiting for job %r raised, and it is %s", self._observed.id, self._observed.status, exc_info=error)
        self.error = error
