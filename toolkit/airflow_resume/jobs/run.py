"""One attempt at a job: gather facts, decide, save before acting, act, and log each step by its name.

`JobRun` executes the steps that `decide` returns. Each of these classes has one part of the work: `JobRecordSlot` (the
record), `JobSearch` (jobs that are not on record), `ObservedJob` (the job on record), `JobWait`, `JobEffects` (steps
that change the record or the job system), `JobResult`, and `EarlyEnd` (if the attempt ends before its job).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

from airflow_resume.arguments import check_type
from airflow_resume.attempt import AnyContext
from airflow_resume.compat import AirflowRescheduleException
from airflow_resume.drain import drain_watch
from airflow_resume.errors import SupersededError, TaskStoppedError
from airflow_resume.given import given
from airflow_resume.jobs.decide import JobStatus, Phase, Step, decide
from airflow_resume.jobs.early_end import EarlyEnd
from airflow_resume.jobs.effects import JobEffects
from airflow_resume.jobs.failure import failure, found_without_token, stray_found
from airflow_resume.jobs.interruption import Interruption
from airflow_resume.jobs.looks import Place, WaitFacts, place_of_wait, refuse, within_a_look
from airflow_resume.jobs.observed import ObservedJob
from airflow_resume.jobs.policy import ResumePolicy
from airflow_resume.jobs.poll import Clock, clock_of, now_of
from airflow_resume.jobs.protocol import Jobs, JobSystem
from airflow_resume.jobs.questions import Questions
from airflow_resume.jobs.record import JobRecord
from airflow_resume.jobs.record_slot import JobRecordSlot
from airflow_resume.jobs.result import JobResult
from airflow_resume.jobs.search import JobSearch
from airflow_resume.jobs.situation import Situation
from airflow_resume.jobs.telemetry import count, counters_of, decision_span
from airflow_resume.jobs.wait import JobWait
from airflow_resume.shown import get_logger
from airflow_resume.store import MemoryStore, StateStore, channel_of
from airflow_resume.task_stores import open_task_store

if TYPE_CHECKING:
    from pydantic import JsonValue

log = get_logger(__name__)

_QUESTIONS = {Step.LOOK_UP, Step.ADOPT, Step.ASK_STATUS, Step.CONFIRM, Step.REVIVE}
"""Steps that only complete the facts. The next decision is the one that matters."""

_TO_BE_WAITED_FOR = {Step.WAIT, Step.RECONNECT}
_ENDED_WELL = {Step.RETURN_SAVED, Step.FETCH_RESULT}

_WAITS = {Step.WAIT, Step.RECONNECT, Step.WAIT_FOR_END}

_TECHNICAL = {Step.ASK_STATUS, Step.LOOK_FOR_STRAYS, Step.SEND}
"""Steps that are logged at DEBUG only."""

_ONE_JOB_AN_OPERATOR = (
    "An operator has one job. Give each job a task of its own, or submit the others by run_job(..., name='another')."
)

_FAILURES = {step for step in Step if step.value.startswith("fail")}


@dataclass(frozen=True, kw_only=True)
class ResumeDecision:
    """What an attempt has decided to do next.

    Args:
        step: such as `Step.RECONNECT`; its value is how the log names it.
        external_id: of the job on record; None if there is no job.
        status: of that job, if it was asked.
        generation: of that job; the first is 1.
        token: the token with which it was submitted.
    """

    step: Step
    external_id: JsonValue = None
    status: JobStatus | None = None
    generation: int | None = None
    token: str | None = None


class JobRun:
    """One attempt at the job of one slot. Made by `run_job` and `ResumableJobMixin`."""

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
        statuses: Mapping[str, JobStatus | str] | None = None,
        clock: Clock | None = None,
        cancels_in_handler: bool = True,
        operator: str | None = None,
        durable: bool = True,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        check_type("policy", policy, ResumePolicy, "a ResumePolicy, such as ResumePolicy(on_clear='resume')")
        opened, attempt = open_task_store(context, store)
        channel, system = channel_of(opened), JobSystem(jobs, statuses)
        facts = WaitFacts(
            defers=defer is not None,
            waits_by_itself=system.waits_by_itself,
            is_kept=durable and not isinstance(store, MemoryStore),
            is_task=attempt.has_identity,
        )
        refuse(place := place_of_wait(facts, policy), who=operator or type(jobs).__name__)
        clock, now = clock or clock_of(opened), now or now_of(opened)
        if store is not None:
            opened = given(opened)
        slot = JobRecordSlot(opened, attempt, name=name, inputs=inputs, mirror_key=mirror_key, notice=notice, now=now)
        interruption = Interruption(can_cancel=system.can_cancel)
        questions = Questions(
            system=system,
            policy=within_a_look(policy) if place is Place.RESCHEDULE else policy,
            clock=clock,
            is_interrupted=self._is_interrupted,
        )
        observed = ObservedJob(questions, slot, interruption, asks_once=place is Place.RESCHEDULE)
        self._situation = Situation(
            attempt=attempt,
            slot=slot,
            system=system,
            policy=policy,
            search=JobSearch(questions, slot),
            observed=observed,
            interruption=interruption,
            durable=durable,
        )
        self._slot = slot
        self._observed = observed
        self._effects = JobEffects(self._situation)
        self._wait = JobWait(
            questions,
            observed,
            slot,
            defer=defer,
            resumed=resumed,
            policy=policy,
            place=place,
            interruption=interruption,
        )
        self._result = JobResult(questions, observed, slot)
        self._clock = clock
        may_leave = durable and (policy.on_shutdown == "reschedule" or "shutdown" in policy.cancel_on)
        self._drain = drain_watch(attempt, now) if may_leave else None
        self._early_end = EarlyEnd(self._situation, channel, cancels_in_handler=cancels_in_handler)
        self._resumed = resumed
        self._place = place
        self._looks_again = False
        """Whether this is not the first look of the try. Then the decision to wait is not a new one."""
        self._operator = operator
        self._take: Mapping[Step, Callable[[], object]] = {
            Step.LOOK_UP: self._situation.search.look_up,
            Step.ADOPT: self._effects.adopt,
            Step.ADOPT_STRAY: self._effects.adopt_stray,
            Step.ASK_STATUS: observed.ask,
            Step.CONFIRM: observed.confirm,
            Step.REVIVE: self._effects.revive,
            Step.SUBMIT: self._effects.start_generation,
            Step.LOOK_FOR_STRAYS: self._effects.look_for_strays,
            Step.SEND: self._effects.submit,
            Step.SUBMIT_AGAIN: self._effects.submit,
            Step.WAIT: self._wait.wait,
            Step.RECONNECT: self._wait.reconnect,
            Step.CANCEL: observed.cancel,
            Step.WAIT_FOR_END: self._wait.until_ended,
            Step.GIVE_BACK: self._effects.give_back,
        }

    def __deepcopy__(self, memo: object) -> JobRun:
        """The same object: an operator may be copied after it has run, and a copy never changes its `JobRun`."""
        return self

    def run(self) -> Any:
        """Take steps until one of them ends the attempt, and return the job's result."""
        with self._attempting():
            step = self._first_step()
            while True:
                step = self._until(_ENDED_WELL, step)
                if step is Step.RETURN_SAVED:
                    return self._result.saved()
                if (fetched := self._result.fetch()) is not None:
                    return fetched.value
                step = self._next_step()

    def decide(self) -> ResumeDecision:
        """What `run` would do next. It claims the record and asks the job system; it neither submits nor waits."""
        with self._attempting():
            step = self._first_step()
        return self._decision(step)

    def submit(self) -> ResumeDecision:
        """Take steps until there is a job whose result is wanted. It is running, or has already succeeded.

        This waits only for the end of a job that is not wanted any more.
        """
        with self._attempting():
            step = self._until(_TO_BE_WAITED_FOR | _ENDED_WELL, self._first_step())
        return self._decision(Step.RECONNECT if step in _TO_BE_WAITED_FOR else step)

    def killed(self) -> bool:
        """For `on_kill`: find out why the process is being ended, and cancel the job if that is the policy.

        It may run in a signal handler at any moment of this attempt, and raises nothing.

        Returns:
            Whether the operator's own `on_kill` is to be called. It is called if the job is cancelled, or will be as
            soon as its id is known; but not if that `on_kill` has already cancelled the job.
        """
        return self._early_end.killed()

    def fail(self, error: BaseException) -> None:
        """Note that the attempt has failed before `run` could be called.

        Args:
            error: the error that ends the attempt.
        """
        self._open()
        self._early_end.failed(error)

    def note(self, notes: object) -> None:
        """Replace the notes about the job on record. They are saved with the next change of the record.

        Args:
            notes: any value; one that is too large, or cannot be kept exactly, changes nothing.
        """
        self._slot.note(notes)

    # --- steps ------------------------------------------------------------------------------------------------

    @contextmanager
    def _attempting(self) -> Iterator[None]:
        """If an error leaves the block, the attempt ends with it."""
        situation = self._situation
        remedy = None if self._operator is None else _ONE_JOB_AN_OPERATOR
        with situation.attempt.using(self._slot.key, remedy=remedy):
            try:
                yield
            except AirflowRescheduleException:  # the task comes back, in the same try
                raise
            except (Exception, SystemExit, KeyboardInterrupt) as error:
                is_leaving = situation.interruption.leaving
                if is_leaving and isinstance(error, Exception) and situation.system.is_transient(error):
                    self._effects.give_back()  # there was no time to ask again
                self._early_end.failed(error)
                raise

    def _open(self) -> None:
        self._slot.open()
        waiting = self._slot.waiting()
        self._observed.own = self._resumed or (waiting is not None and bool(waiting.own))
        self._looks_again = waiting is not None and self._place is Place.RESCHEDULE
        if self._place is Place.WORKER_INSTEAD:
            log.info("wait='reschedule' needs a task: this script waits for slot %r itself", self._slot.name)
        if self._situation.attempt.retries == 0 and not self._resumed and not self._looks_again:
            log.warning("The task has retries=0: after a crash no other attempt continues its job.\nGive it retries.")

    def _first_step(self) -> Step:
        """The first decision of the attempt, with its metrics and its span."""
        tags = self._situation.attempt.stats_tags
        if self._operator is not None:
            tags = {**tags, "operator": self._operator}
        with decision_span(self._slot.key, tags) as span:
            self._open()
            step = self._next_step()
            span.set_attribute("resumable.decision", step.value)
            if self._slot.found.has_job:
                span.set_attribute("resumable.external_id", str(self._slot.known.id))
                span.set_attribute("resumable.prior_status", str(self._observed.status and self._observed.status.value))
        if not self._looks_again:
            for counter in counters_of(step, had_job=self._slot.found.has_job):
                count(counter, tags)
        return step

    def _is_interrupted(self) -> bool:
        """Whether the attempt has to do something else than wait. It looks whether the worker is being drained."""
        drain, interruption = self._drain, self._situation.interruption
        if drain is not None and not interruption.is_due() and drain.finds_drain(self._clock.monotonic()):
            self._drain = None if self._early_end.drained() else drain
        return interruption.is_due()

    def _next_step(self) -> Step:
        """The next step that is more than a question."""
        self._is_interrupted()
        while (step := decide(self._situation.facts(), self._situation.policy)) in _QUESTIONS:
            self._log(step)
            self._take[step]()
        self._log(step)
        return step

    def _until(self, ends: set[Step], step: Step) -> Step:
        """Take this step and the following ones until the next step is one of `ends`, and return that step."""
        while step not in ends:
            if step in _FAILURES:
                self._fail(step)
            self._take[step]()
            step = self._next_step()
        return step

    def _fail(self, step: Step) -> NoReturn:
        slot, search = self._slot, self._situation.search
        if step is Step.FAIL_REPLACED:  # the record belongs to the other attempt
            raise SupersededError(key=slot.key)
        if step is Step.FAIL_FIND:  # the claim stays as it is, so that the next attempt looks as well
            raise found_without_token(search.found, slot.known, name=slot.name)
        if slot.fresh:
            self._effects.withdraw()
        if step is Step.FAIL_STRAY:
            raise stray_found(search.found, search.found_token, name=slot.name, stray=search.stray)
        if step in {Step.FAIL_JOB, Step.FAIL_JOB_FOR_GOOD}:
            slot.save(phase=Phase.TERMINAL)
        if step is Step.FAIL_JOB and self._wait.error is not None:
            raise self._wait.error
        if step is Step.FAIL_STOPPED and slot.record is None:
            raise TaskStoppedError(slot=slot.name)
        if step is Step.FAIL_STOPPED and slot.known.phase is Phase.INTENT:
            log.error("The task was ended; a job with token %s may exist and keep running", slot.known.token)
        raise failure(step, slot.known, name=slot.name, earlier_try=slot.found.earlier_try) from self._wait.error

    def _decision(self, step: Step) -> ResumeDecision:
        self._situation.attempt.give_back(self._slot.key)  # `run` may follow
        record = self._slot.record
        if record is None:
            return ResumeDecision(step=step)
        return ResumeDecision(
            step=step,
            external_id=record.id,
            status=self._observed.status,
            generation=record.generation,
            token=record.token,
        )

    def _log(self, step: Step) -> None:
        is_technical = step in _TECHNICAL or (step in _WAITS and self._looks_again)
        level = logging.DEBUG if is_technical else logging.INFO
        record, try_number = self._slot.record, self._situation.attempt.try_number
        if record is None:
            log.log(level, "%s (slot %r, first job, try %d)", step.value, self._slot.name, try_number)
            return
        log.log(
            level,
            "%s (slot %r, job %r, status %s, generation %d, token %s, try %d)",
            step.value,
            self._slot.name,
            record.id,
            self._observed.status.value if self._observed.status else "not asked",
            record.generation,
            record.token,
            try_number,
        )
