"""The shell around the decision: gather facts, save before acting, act, and log each step by its name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk.exceptions import AirflowFailException

from airflow_resume.attempt import AnyContext, Cleared, utc_now
from airflow_resume.errors import TaskStoppedError
from airflow_resume.jobs.decide import Facts, JobStatus, Phase, Step, decide, is_unwanted
from airflow_resume.jobs.ending import Ending, ending_of_error, ending_of_kill, goes_with_it, learn_about_kill
from airflow_resume.jobs.failure import failure
from airflow_resume.jobs.orphan import checked_id, see_to_orphan
from airflow_resume.jobs.policy import ResumePolicy
from airflow_resume.jobs.poll import Clock
from airflow_resume.jobs.protocol import Jobs, JobSystem
from airflow_resume.jobs.record import JobRecord, SavedResult
from airflow_resume.jobs.slot import JobSlot
from airflow_resume.jobs.telemetry import count, counters_of, decision_span
from airflow_resume.jobs.watch import JobWatch
from airflow_resume.store import StateStore, channel_of, open_task_store

if TYPE_CHECKING:
    from pydantic import JsonValue

log = logging.getLogger(__name__)

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
        self._watch = JobWatch(self._system, self._slot, policy, clock)
        self._defer = defer
        self._resumed = resumed
        self._stopped = False

    def run(self) -> Any:
        """Take steps until one of them ends the attempt, and return the job's result."""
        with self._attempting():
            step = self._until({Step.RETURN_SAVED, Step.FETCH_RESULT})
            return self._saved_result() if step is Step.RETURN_SAVED else self._fetch_result()

    def decide(self) -> ResumeDecision:
        """What `run` would do next. It claims the record and asks the job system; it neither submits nor waits."""
        with self._attempting():
            step = self._first_step()
        self._attempt.give_back(self._slot.key)
        return self._decision(step)

    def submit(self) -> ResumeDecision:
        """Take steps until there is a job that is wanted: to be waited for, or already successful.

        It waits for one thing, the end of a job that is not wanted any more.
        """
        with self._attempting():
            step = self._until({Step.RECONNECT, Step.RETURN_SAVED, Step.FETCH_RESULT})
        self._attempt.give_back(self._slot.key)
        return self._decision(step)

    @contextmanager
    def _attempting(self) -> Iterator[None]:
        """An error in the block is how the attempt ends."""
        with self._attempt.using(self._slot.key):
            try:
                yield
            except Exception as error:
                self._failed(error)
                raise

    def _decision(self, step: Step) -> ResumeDecision:
        record = self._slot.record
        if record is None:
            return ResumeDecision(step=step)
        return ResumeDecision(
            step=step,
            external_id=record.id,
            status=self._watch.status,
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
                span.set_attribute("resumable.prior_status", str(self._watch.status and self._watch.status.value))
        for counter in counters_of(step, had_job=self._slot.found_job):
            count(counter, self._attempt.stats_tags)
        return step

    def _open(self) -> None:
        self._slot.open()
        self._watch.own = self._resumed
        if self._attempt.retries == 0 and not self._resumed:
            log.warning("The task has retries=0: after a crash nobody comes back for its job. Give it retries.")

    def _next_step(self) -> Step:
        """The next step that is more than a question."""
        while (step := decide(self._facts(), self._policy)) in _QUESTIONS:
            self._say(step)
            self._take(step)
        self._say(step)
        return step

    def _take(self, step: Step) -> None:
        match step:
            case Step.LOOK_UP:
                self._watch.look_up()
            case Step.ADOPT:
                self._save_id(self._watch.found)
            case Step.ASK_STATUS:
                self._watch.ask()
            case Step.SUBMIT:
                self._start_generation()
                self._submit(first=True)
            case Step.SUBMIT_AGAIN:
                self._submit(first=False)
            case Step.RECONNECT:
                self._reconnect()
            case Step.CANCEL:
                self._watch.cancel()
            case Step.WAIT_FOR_END:
                self._watch.wait()
            case _:
                raise AssertionError(step)

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
            lookup=self._watch.lookup,
            status=self._watch.status,
            own=self._watch.own,
            cancelled=self._watch.cancelled,
            stopped=self._stopped,
        )

    def _reconnect(self) -> None:
        """Wait for a job that is wanted: in the triggerer, or here."""
        self._watch.own = True
        if self._defer is not None:
            self._defer(self._slot.known.id)
        self._watch.wait_as_the_operator_does()
        self._watch.wait()

    # --- effects: saved before, saved after -------------------------------------------------------------------

    def _start_generation(self) -> None:
        self._slot.start_generation(reason="" if self._slot.record is None else self._reason())
        self._watch.forget()

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
        self._watch.own = True  # it is this attempt's own job: how it ends is how the attempt ends
        self._save_id(checked_id(self._system, self._slot.known.token, answer))
        self._watch.learn(JobStatus.ACTIVE)

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
        elif self._slot.holds_a_job and not self._watch.cancelled:
            record = self._slot.known
            log.info("The task ends (%s); job %r, token %s, is left alone", ending.value, record.id, record.token)
        return goes

    def _cancel_for(self, ending: Ending) -> None:
        record = self._slot.known
        if record.id is None:
            log.error("The task ends (%s); a job with token %s may exist and live on", ending.value, record.token)
        elif self._system.ends_by_on_kill and not self._system.can_cancel:
            log.info("The task ends (%s), and the operator's own on_kill is to end its job %r", ending.value, record.id)
        elif not self._system.can_cancel:
            log.error("The task ends (%s); nothing can cancel its job %r, which lives on", ending.value, record.id)
        elif not self._watch.cancelled:
            log.info("The task ends (%s), and its job %r is cancelled", ending.value, record.id)
            self._watch.cancelled = True
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
                return self._watch.patiently(lambda: self._system.replay(self._slot.known.id))
            except Exception:
                log.warning(
                    "Job %r is not known any more, or not now: its saved result", self._slot.known.id, exc_info=True
                )
        saved = self._slot.known.result
        return None if saved is None else saved.decoded()

    def _fail(self, step: Step) -> NoReturn:
        if step in {Step.FAIL_JOB, Step.FAIL_JOB_FOR_GOOD}:
            self._slot.save(phase=Phase.TERMINAL)
        if step is Step.FAIL_JOB and self._watch.wait_error is not None:
            raise self._watch.wait_error
        if step is Step.FAIL_STOPPED and self._slot.record is None:
            raise TaskStoppedError
        raise failure(
            step, self._slot.known, name=self._slot.name, earlier_try=self._slot.earlier_try
        ) from self._watch.wait_error

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
            self._watch.status.value if self._watch.status else "not asked",
            record.generation,
            record.token,
            self._attempt.try_number,
        )
