"""The job on record as the job system shows it: looking it up, asking for it, waiting for its end, cancelling it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_resume.jobs.decide import JobStatus, Lookup, Phase
from airflow_resume.jobs.policy import ResumePolicy
from airflow_resume.jobs.poll import Clock, ask_patiently, wait_for_end
from airflow_resume.jobs.protocol import JobSystem
from airflow_resume.jobs.slot import JobSlot

if TYPE_CHECKING:
    from pydantic import JsonValue

log = logging.getLogger(__name__)

T = TypeVar("T")


class JobWatch:
    """What one attempt learns of the job of its slot.

    Attributes:
        lookup: what looking the token up has brought, and `found` the id.
        status: of the job; None while it was not asked for.
        own: this attempt submitted the job or waits for it.
        cancelled: this attempt has asked for its end.
        wait_error: what the job system's own way of waiting raised about a job that has ended.
    """

    def __init__(self, system: JobSystem, slot: JobSlot, policy: ResumePolicy, clock: Clock) -> None:
        self._system = system
        self._slot = slot
        self._policy = policy
        self._clock = clock
        self.wait_error: Exception | None = None
        self.forget()

    def forget(self) -> None:
        """What was learned is about another job."""
        self.lookup = Lookup.NOT_ASKED
        self.found: JsonValue = None
        self.status: JobStatus | None = None
        self.own = self.cancelled = False

    def patiently(self, ask: Callable[[], T]) -> T:
        """The answer to a question that may fail in passing."""
        return ask_patiently(ask, self._system.is_transient, self._policy.poll, self._clock)

    def look_up(self) -> None:
        """Ask for the job by its token."""
        self.found = self.patiently(lambda: self._system.find(self._slot.known.token))
        self.lookup = Lookup.MISSING if self.found is None else Lookup.FOUND

    def ask(self) -> None:
        """Ask for the status."""
        self.learn(self.patiently(self._ask_once))

    def _ask_once(self) -> JobStatus:
        return self._system.status(self._slot.known.id)

    def learn(self, status: JobStatus) -> None:
        """Keep the status."""
        self.status = status
        self._slot.learn(status)

    def _has_ended(self) -> bool:
        return self.status is not None and self.status.is_terminal

    def cancel(self) -> None:
        """Ask for the end of the job. One that has ended in the meantime needs none."""
        self.cancelled = True
        try:
            self._system.cancel(self._slot.known.id)
        except Exception:
            self.ask()
            if not self._has_ended():
                raise

    def wait(self) -> None:
        """Ask until the job has ended.

        Raises:
            JobWaitTimeoutError: after `poll.timeout`.
            JobStatusUnknownError: after `unknown_timeout`.
        """
        is_transient = self._system.is_transient
        self.learn(wait_for_end(self._ask_once, is_transient=is_transient, policy=self._policy, clock=self._clock))

    def wait_as_the_operator_does(self) -> None:
        """Where the job system brings its own way of waiting, use it; how the job ended is asked all the same.

        Trouble on the way is no reason to end the attempt: then the status is asked until the job has ended, and the
        own way is used once more, as it may have something to say at the end (logs, or why the job failed).
        """
        error = self._what_waiting_raises()
        if error is not None and self._system.interrupts(error):
            log.warning("Waiting for job %r was interrupted by %r; asking for its status", self._slot.known.id, error)
            self.wait()
            error = self._what_waiting_raises()
        if error is not None:
            self._end_wait(error)

    def _what_waiting_raises(self) -> Exception | None:
        try:
            self._system.wait(self._slot.known.id)
        except Exception as error:  # noqa: BLE001  what it means is for the caller to say
            return error
        return None

    def _end_wait(self, error: Exception) -> None:
        """What waiting raised is what the user wrote, so the attempt ends with it, unless the job has succeeded."""
        self._ask_in_spite_of(error)
        if not self._has_ended() or isinstance(error, (AirflowFailException, AirflowSkipException)):
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
            self._slot.save(phase=Phase.TERMINAL)
