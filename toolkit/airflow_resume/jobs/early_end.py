"""An attempt that ends before its job: killed, or by an error. The job is cancelled or left alone."""

from __future__ import annotations

from airflow_resume.channel import Channel
from airflow_resume.compat import AirflowFailException, AirflowSkipException
from airflow_resume.jobs.ending import Ending, ending_of_error, ending_of_kill, goes_with_it, learn_about_kill
from airflow_resume.jobs.situation import Situation
from airflow_resume.shown import get_logger

log = get_logger(__name__)


class EarlyEnd:
    """Cancels the job, or leaves it alone, when its attempt ends before it.

    Args:
        situation: of the job.
        channel: for the question why the attempt is being killed.
        cancels_in_handler: whether `on_kill` cancels the job itself; if not, the thread that waits for the job does it.
    """

    def __init__(self, situation: Situation, channel: Channel, *, cancels_in_handler: bool) -> None:
        self._situation = situation
        self._slot = situation.slot
        self._system = situation.system
        self._interruption = situation.interruption
        self._channel = channel
        self._cancels_in_handler = cancels_in_handler

    def killed(self) -> bool:
        """Find out why the process is being ended, and cancel the job if that is the policy for the reason.

        Returns:
            Whether the operator's own `on_kill` has to be called, see `JobRun.killed`.
        """
        is_done = self._system.cancels_by_on_kill and self._interruption.cancelled
        ending = Ending.UNKNOWN  # a job that is not durable is cancelled whatever the reason
        if self._situation.durable:
            ask_state = self._situation.attempt.ask_state
            facts = learn_about_kill(self._channel, ask_state=ask_state, sees_record=self._slot.is_visible)
            ending = ending_of_kill(facts)
        goes = self._end(ending, final=self._situation.attempt.is_last, killed=True)
        self._interruption.replaced = ending is Ending.REPLACED
        on_shutdown = self._situation.policy.on_shutdown
        self._interruption.leaving = ending is Ending.SHUTDOWN and not goes and on_shutdown == "reschedule"
        return goes and not is_done

    def drained(self) -> bool:
        """Leave, as the worker is being drained; or have the waiting thread cancel the job, if that is the policy.

        Returns:
            Whether the attempt ends. It does not if something else has happened to the task, such as a mark: then
            Airflow calls `on_kill`. It does not yet if nothing is written: then it may have been replaced.
        """
        situation, policy = self._situation, self._situation.policy
        facts = learn_about_kill(
            self._channel, ask_state=situation.attempt.ask_state, sees_record=self._slot.is_visible, drained=True
        )
        ending = ending_of_kill(facts)
        if ending is not Ending.SHUTDOWN:
            return False
        goes = goes_with_it(ending, policy, final=situation.attempt.is_last)
        self._interruption.stopped = self._interruption.stopped or goes
        self._interruption.leaving = not goes
        record = self._slot.record
        log.info(
            "The worker is being drained, so the task ends; job %r is %s",
            record and record.id,
            "to be cancelled" if goes else "left alone",
        )
        return True

    def failed(self, error: BaseException) -> None:
        """Cancel the job or leave it alone, as the attempt ends with this error."""
        no_further_try = isinstance(error, (AirflowFailException, AirflowSkipException))
        self._end(ending_of_error(error), final=self._situation.attempt.is_last or no_further_try, killed=False)

    def _end(self, ending: Ending, *, final: bool, killed: bool) -> bool:
        """Cancel the job or leave it alone. Returns whether it is to be cancelled.

        A job that is not durable is cancelled, as no later attempt knows of it.
        """
        goes = not self._situation.durable or goes_with_it(ending, self._situation.policy, final=final)
        self._interruption.stopped = self._interruption.stopped or goes
        if self._slot.holds_a_job and goes:
            self._cancel_for(ending, killed=killed)
        elif self._slot.holds_a_job and not self._interruption.cancelled:
            record = self._slot.known
            log.info("The task ends (%s); job %r, token %s, is left alone", ending.value, record.id, record.token)
        return goes

    def _cancel_for(self, ending: Ending, *, killed: bool) -> None:
        record = self._slot.known
        if record.id is None:
            log.error("The task ends (%s); a job with token %s may exist and keep running", ending.value, record.token)
        elif not self._system.can_cancel:
            log.error("The task ends (%s); its job %r cannot be cancelled and keeps running", ending.value, record.id)
        elif killed and not self._cancels_in_handler:
            log.info("The task ends (%s), and its job %r is about to be cancelled", ending.value, record.id)
        elif killed and self._system.cancels_by_on_kill:
            log.info("The task ends (%s), and the operator's own on_kill is to end its job %r", ending.value, record.id)
            self._interruption.cancelled = True
        elif not self._interruption.cancelled:
            log.info("The task ends (%s), and its job %r is cancelled", ending.value, record.id)
            self._interruption.cancelled = True
            try:
                self._system.cancel(record.id)
            except Exception:
                log.exception("The job %r could not be cancelled, and may be running", record.id)
