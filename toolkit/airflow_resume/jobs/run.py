"""The shell around the decision: gather facts, save before acting, act, and log each step by its name."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_resume.attempt import AnyContext, Cleared, utc_now
from airflow_resume.errors import TaskStoppedError
from airflow_resume.jobs.decide import Facts, JobStatus, Lookup, Phase, Step, decide, is_unwanted
from airflow_resume.jobs.ending import Ending, ending_of_error, ending_of_kill, goes_with_it, learn_about_kill
from airflow_resume.jobs.failure import failure
from airflow_resume.jobs.orphan import checked_id, see_to_orphan
from airflow_resume.jobs.policy import ResumePolicy
from airflow_resume.jobs.poll import Clock, ask_patiently, wait_for_end
from airflow_resume.jobs.protocol import Jobs, JobSystem
from airflow_resume.jobs.record import JobRecord, SavedResult
from airflow_resume.jobs.slot import JobSlot
from airflow_resume.jobs.telemetry import count, counters_of, decision_span
from airflow_resume.store import StateStore, channel_of, open_task_store

if TYPE_CHECKING:
    from pydantic import JsonValue

log = logging.getLogger(__name__)

T = TypeVar("T")

_QUESTIONS = {Step.LOOK_UP, Step.ADOPT, Step.ASK_STATUS}
"""Steps that only complete the facts, for the decision proper."""

_FAILURES = {step for step in Step if step.value.startswith("fail")}


@dataclass(frozen=True, kw_only=True)
class ResumeDecision:
    """What an attempt has decided to do next.

    Args:
        step: such as `Step.RECONNECT`; its value is how the log names it.
        external_id: of the job on record; None when there is none.
        status: of that job, if it was asked.
        generation: of that job; the first is 1.
        token: with which it was submitted.
    """

    step: Step
    external_id: JsonValue = None
    status: JobStatus | None = None
    generation: int | None = None
    token: str | None = None


class JobRun:
    """One attempt at the job of one slot."""

    def __init__(
        self,
        jobs: Jobs[Any],
        *,
        name: str = "job",
        policy: ResumePolicy = ResumePolicy(),  # noqa: B008  frozen
        inputs: JsonValue = None,
        context: AnyContext | None = None,
        store: StateStore | None = None,
        mirror_key: str | None = None,
        notice: Callable[[JobRecord], object] = lambda _record: None,
        defer: Callable[[JsonValue], NoReturn] | None = None,
        resumed: bool = False,
        clock: Clock = Clock(),  # noqa: B008  frozen
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._store, self._attempt = open_task_store(context, store)
        self._slot = JobSlot(
            self._store, self._attempt, name=name, inputs=inputs, mirror_key=mirror_key, notice=notice, now=now
        )
        self._system = JobSystem(jobs)
        self._policy = policy
        self._defer = defer
        self._resumed = resumed
        self._clock = clock
        self._wait_error: Exception | None = None
        self._stopped = False
        self._forget()

    def _forget(self) -> None:
        """What this attempt has learned was about another job."""
        self._lookup = Lookup.NOT_ASKED
        self._found: JsonValue = None
        self._status: JobStatus | None = None
        self._own = self._cancelled = False

    def run(self) -> Any:
        """Take steps until one of them ends the attempt, and return the job's result."""
        with self._attempt.using(self._slot.key):
            try:
                return self._finish(self._until({Step.RETURN_SAVED, Step.FETCH_RESULT}))
            except Exception as error:
                self._failed(error)
                raise

    def decide(self) -> ResumeDecision:
        """What `run` would do next. It claims the record and asks the job system; it neither submits nor waits."""
        with self._attempt.using(self._slot.key):
            step = self._first_step()
        self._attempt.give_back(self._slot.key)
        return self._decision(step)

    def submit(self) -> ResumeDecision:
        """Take steps until there is a job that is wanted: to be waited for, or already successful."""
        with self._attempt.using(self._slot.key):
            step = self._until({Step.RECONNECT, Step.RETURN_SAVED, Step.FETCH_RESULT})
        self._attempt.give_back(self._slot.key)
        return self._decision(step)

    def _decision(self, step: Step) -> ResumeDecision:
        record = self._slot.record
        if record is None:
            return ResumeDecision(step=step)
        return ResumeDecision(
            step=step,
            external_id=record.id,
            status=self._status,
            generation=record.generation,
            token=record.token,
        )

    def _until(self, ends: set[Step]) -> Step:
        """Take steps until one of these is due, and return it."""
        step = self._first_step()
        while step not in ends:
            if step in _FAILURES:
                self._fail(step)
            self._take(step)
            step = self._next_step()
        return step

    def _first_step(self) -> Step:
        """The decision that the attempt begins with, told to whoever watches."""
        with decision_span(self._slot.key, self._attempt.stats_tags) as span:
            self._open()
            step = self._next_step()
            span.set_attribute("resumable.decision", step.value)
            if self._slot.found_job:
                span.set_attribute("resumable.external_id", str(self._slot.known.id))
                span.set_attribute("resumable.prior_status", str(self._status and self._status.value))
        for counter in counters_of(step, had_job=self._slot.found_job):
            count(counter, self._attempt.stats_tags)
        return step

    def _open(self) -> None:
        self._slot.open()
        self._own = self._resumed
        if self._attempt.retries == 0 and not self._resumed:
            log.warning("The task has retries=0: after a crash nobody comes back for its job. Give it retries.")

    def _next_step(self) -> Step:
        """The next step that is more than a question."""
        while (step := decide(self._facts(), self._policy)) in _QUESTIONS:
            self._say(step)
            self._take(step)
        self._say(step)
        return step

    def _finish(self, step: Step) -> Any:
        return self._saved_result() if step is Step.RETURN_SAVED else self._fetch_result()

    def _take(self, step: Step) -> None:
        match step:
            case Step.LOOK_UP:
                self._look_up()
            case Step.ADOPT:
                self._save_id(self._found)
            case Step.ASK_STATUS:
                self._learn(self._patiently(self._ask))
            case Step.SUBMIT:
                self._start_generation()
                self._submit(first=True)
            case Step.SUBMIT_AGAIN:
                self._submit(first=False)
            case Step.RECONNECT:
                self._reconnect()
            case Step.CANCEL:
                self._cancel()
            case Step.WAIT_FOR_END:
                self._wait()
            case _:
                raise AssertionError(step)

    # --- facts ------------------------------------------------------------------------------------------------

    def _facts(self) -> Facts:
        if (record := self._slot.record) is None:
            return Facts(stopped=self._stopped)
        return Facts(
            phase=record.phase,
            has_id=record.id is not None,
            saved_success=record.status is JobStatus.SUCCEEDED,
            saved_result=record.result is not None,
            cleared=self._slot.cleared is Cleared.YES,
            inputs_changed=self._slot.inputs_changed,
            can_find=self._system.can_find,
            can_cancel=self._system.can_cancel,
            is_idempotent=self._system.is_idempotent,
            lookup=self._lookup,
            status=self._status,
            own=self._own,
            cancelled=self._cancelled,
            stopped=self._stopped,
        )

    def _look_up(self) -> None:
        self._found = self._patiently(lambda: self._system.find(self._slot.known.token))
        self._lookup = Lookup.MISSING if self._found is None else Lookup.FOUND

    def _ask(self) -> JobStatus:
        return self._system.status(self._slot.known.id)

    def _learn(self, status: JobStatus) -> None:
        self._status = status
        self._slot.learn(status)

    def _reconnect(self) -> None:
        """Wait for a job that is wanted: in the triggerer, or here."""
        self._own = True
        if self._defer is not None:
            self._defer(self._slot.known.id)
        self._wait_as_the_operator_does()
        self._wait()

    def _wait(self) -> None:
        self._learn(
            wait_for_end(self._ask, is_transient=self._system.is_transient, policy=self._policy, clock=self._clock)
        )

    def _patiently(self, ask: Callable[[], T]) -> T:
        return ask_patiently(ask, self._system.is_transient, self._policy.poll, self._clock)

    def _cancel(self) -> None:
        self._cancelled = True
        try:
            self._system.cancel(self._slot.known.id)
        except Exception:
            # It may have ended in the meantime, and then there is nothing to cancel.
            self._learn(self._patiently(self._ask))
            if not self._has_ended():
                raise

    def _has_ended(self) -> bool:
        return self._status is not None and self._status.is_terminal

    def _wait_as_the_operator_does(self) -> None:
        """Where the job system brings its own way of waiting, use it; how the job ended is asked all the same.

        Trouble on the way is no reason to end the attempt: then the status is asked until the job has ended, and the
        own way is used once more, as it may have something to say at the end (logs, or why the job failed).
        """
        error = self._what_waiting_raises()
        if error is not None and self._system.interrupts(error):
            log.warning("Waiting for job %r was interrupted by %r; asking for its status", self._slot.known.id, error)
            self._wait()
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
        self._learn_in_spite_of(error)
        if not self._has_ended() or isinstance(error, (AirflowFailException, AirflowSkipException)):
            raise error
        log.warning("Waiting for job %r raised, and it is %s", self._slot.known.id, self._status, exc_info=error)
        self._wait_error = error

    def _learn_in_spite_of(self, error: Exception) -> None:
        try:
            self._learn(self._patiently(self._ask))
        except Exception:
            log.warning("... and neither could its status be asked", exc_info=True)
            raise error from None
        if self._status is JobStatus.FAILED:
            self._slot.save(phase=Phase.TERMINAL)

    # --- effects: saved before, saved after -------------------------------------------------------------------

    def _start_generation(self) -> None:
        self._slot.start_generation(reason="" if self._slot.record is None else self._reason())
        self._forget()

    def _reason(self) -> str:
        """Why another generation is due, for the history."""
        if is_unwanted(self._facts(), self._policy):
            return "cleared or changed"
        return "ended without success" if self._slot.known.id is not None else "nothing was created"

    def _submit(self, *, first: bool) -> None:
        try:
            answer = self._system.submit(self._slot.known.token)
        except Exception as error:
            # A second submit with the same token may be refused just because the first one was not.
            if first and not self._system.is_ambiguous(error):
                self._withdraw(error)
            raise
        self._own = True  # it is this attempt's own job: how it ends is how the attempt ends
        self._save_id(checked_id(self._system, self._slot.known.token, answer))
        self._learn(JobStatus.ACTIVE)

    def _withdraw(self, error: Exception) -> None:
        """The submit was refused, so there is no job; without this, a retry would have to suspect one."""
        log.warning("Submitting the job of slot %r failed, and nothing was created: %r", self._slot.name, error)
        self._slot.save(phase=Phase.TERMINAL)

    def _save_id(self, external_id: JsonValue) -> None:
        """Save the id. If that cannot be done, nobody may ever learn of the job, so see to it now."""
        try:
            self._slot.save_id(external_id)
        except Exception:
            if see_to_orphan(self._system, self._slot.known.token, external_id):
                # The store may take this one; then the next attempt sees it to its end, and need not suspect another.
                with suppress(Exception):
                    self._slot.save(phase=Phase.SUBMITTED, id=external_id, status=JobStatus.CANCELLING)
            raise
        self._slot.mirror()

    # --- ended before the job ---------------------------------------------------------------------------------

    def killed(self) -> bool:
        """The process is being ended: learn why, and let the job go too if that is the policy. For `on_kill`.

        It may run in a signal handler at any moment of this very attempt, and raises nothing.

        Returns:
            Whether the job is cancelled, or will be as soon as its id is known.
        """
        facts = learn_about_kill(
            channel_of(self._store), ask_state=self._attempt.ask_state, sees_record=self._slot.is_visible
        )
        return self._end(ending_of_kill(facts), final=self._attempt.is_last)

    def abandon(self) -> bool:
        """Cancel the job, whatever the policy: nobody will ever come back for it. Returns True."""
        self._stopped = True
        if self._slot.holds_a_job:
            self._cancel_for(Ending.UNKNOWN)
        return True

    def fail(self, error: BaseException) -> None:
        """The attempt has failed before `run` could be called."""
        self._open()
        self._failed(error)

    def _failed(self, error: BaseException) -> None:
        self._end(ending_of_error(error), final=self._attempt.is_last or isinstance(error, AirflowFailException))

    def _end(self, ending: Ending, *, final: bool) -> bool:
        """The attempt ends before its job does: the job lives on, or is cancelled. Returns which."""
        goes = goes_with_it(ending, self._policy, final=final)
        self._stopped = self._stopped or goes
        if self._slot.holds_a_job and goes:
            self._cancel_for(ending)
        elif self._slot.holds_a_job and not self._cancelled:
            record = self._slot.known
            log.info("The task ends (%s); job %r, token %s, is left alone", ending.value, record.id, record.token)
        return goes

    def _cancel_for(self, ending: Ending) -> None:
        record = self._slot.known
        if record.id is None:
            log.error("The task ends (%s); a job with token %s may exist and live on", ending.value, record.token)
        elif self._system.can_cancel and not self._cancelled:
            log.info("The task ends (%s), and its job %r is cancelled", ending.value, record.id)
            self._cancelled = True
            try:
                self._system.cancel(record.id)
            except Exception:
                log.exception("The job %r could not be cancelled, and may be running", record.id)

    # --- endings ----------------------------------------------------------------------------------------------

    def _fetch_result(self) -> Any:
        result = self._system.result(self._slot.known.id)
        self._slot.save(phase=Phase.TERMINAL, status=JobStatus.SUCCEEDED, result=SavedResult.of(result))
        return result

    def _saved_result(self) -> Any:
        if self._system.can_replay:
            try:
                return self._patiently(lambda: self._system.replay(self._slot.known.id))
            except Exception:
                log.warning(
                    "Job %r is not known any more, or not now: its saved result", self._slot.known.id, exc_info=True
                )
        saved = self._slot.known.result
        return None if saved is None else saved.decoded()

    def _fail(self, step: Step) -> NoReturn:
        if step in {Step.FAIL_JOB, Step.FAIL_JOB_FOR_GOOD}:
            self._slot.save(phase=Phase.TERMINAL)
        if step is Step.FAIL_JOB and self._wait_error is not None:
            raise self._wait_error
        if step is Step.FAIL_STOPPED and self._slot.record is None:
            raise TaskStoppedError
        raise failure(
            step, self._slot.known, name=self._slot.name, earlier_try=self._slot.earlier_try
        ) from self._wait_error

    def _say(self, step: Step) -> None:
        level = logging.DEBUG if step is Step.ASK_STATUS else logging.INFO
        record = self._slot.record
        if record is None:
            log.log(level, "%s (slot %r, first job, try %d)", step.value, self._slot.name, self._attempt.try_number)
            return
        log.log(
            level,
            "%s (slot %r, job %r, status %s, generation %d, token %s, try %d)",
            step.value,
            self._slot.name,
            record.id,
            self._status.value if self._status else "not asked",
            record.generation,
            record.token,
            self._attempt.try_number,
        )
