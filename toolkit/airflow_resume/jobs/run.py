"""The shell around the decision: gather facts, save before acting, act, and log each step by its name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk.exceptions import AirflowFailException, AirflowRescheduleException, AirflowSkipException

from airflow_resume.attempt import AnyContext, Cleared, utc_now
from airflow_resume.deployment import deployment
from airflow_resume.errors import SupersededError, TaskStoppedError
from airflow_resume.jobs.decide import Facts, JobStatus, Phase, Step, Stray, decide, is_unwanted
from airflow_resume.jobs.ending import Ending, ending_of_error, ending_of_kill, goes_with_it, learn_about_kill
from airflow_resume.jobs.failure import failure, lost_by_error, stray_found
from airflow_resume.jobs.orphan import checked_id, see_to_orphan
from airflow_resume.jobs.policy import ResumePolicy
from airflow_resume.jobs.poll import Clock, clock_of, nap
from airflow_resume.jobs.protocol import Jobs, JobSystem
from airflow_resume.jobs.record import JobRecord, SavedResult
from airflow_resume.jobs.slot import JobSlot
from airflow_resume.jobs.telemetry import count, counters_of, decision_span
from airflow_resume.jobs.token import token_is_derived
from airflow_resume.jobs.watch import JobWatch
from airflow_resume.reschedule import reschedule
from airflow_resume.store import StateStore, channel_of, open_task_store

if TYPE_CHECKING:
    from pydantic import JsonValue

log = logging.getLogger(__name__)

_QUESTIONS = {Step.LOOK_UP, Step.ADOPT, Step.ASK_STATUS, Step.CONFIRM, Step.REVIVE}
"""Steps that only complete the facts, for the decision proper."""

_TO_BE_WAITED_FOR = {Step.WAIT, Step.RECONNECT}
_ENDED_WELL = {Step.RETURN_SAVED, Step.FETCH_RESULT}

_TECHNICAL = {Step.ASK_STATUS, Step.LOOK_FOR_STRAYS, Step.SEND}
"""Steps that are logged for those who look closely."""

_ONE_JOB_AN_OPERATOR = (
    "An operator has one job. Give each job a task of its own, or submit the others by run_job(..., name='another')."
)

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


@dataclass(frozen=True)
class _Fetched:
    """A result, boxed, as it may be None."""

    value: Any


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
        statuses: Mapping[str, JobStatus | str] | None = None,
        clock: Clock | None = None,
        cancels_in_handler: bool = True,
        operator: str | None = None,
        durable: bool = True,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._store, self._attempt = open_task_store(context, store)
        self._slot = JobSlot(
            self._store, self._attempt, name=name, inputs=inputs, mirror_key=mirror_key, notice=notice, now=now
        )
        self._system = JobSystem(jobs, statuses)
        self._policy = policy
        self._clock = clock_of(self._store) if clock is None else clock
        self._watch = JobWatch(self._system, self._slot, policy, self._clock, leaving=self._is_to_stop_waiting)
        self._defer = defer
        self._resumed = resumed
        self._stopped = False
        self._replaced = False
        self._operator = operator
        self._durable = durable
        self._stats_tags = {**self._attempt.stats_tags, **({} if operator is None else {"operator": operator})}
        self._leaving = False
        self._cancels_in_handler = cancels_in_handler

    def __deepcopy__(self, memo: object) -> JobRun:
        """An operator that is copied after it has run takes this along; there is nothing in it to be changed."""
        return self

    def run(self) -> Any:
        """Take steps until one of them ends the attempt, and return the job's result."""
        with self._attempting():
            step = self._first_step()
            while True:
                step = self._until(_ENDED_WELL, step)
                if step is Step.RETURN_SAVED:
                    return self._saved_result()
                if (fetched := self._fetch_result()) is not None:
                    return fetched.value
                step = self._next_step()

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
            step = self._until(_TO_BE_WAITED_FOR | _ENDED_WELL, self._first_step())
        self._attempt.give_back(self._slot.key)
        return self._decision(Step.RECONNECT if step in _TO_BE_WAITED_FOR else step)

    @contextmanager
    def _attempting(self) -> Iterator[None]:
        """An error in the block is how the attempt ends."""
        with self._attempt.using(self._slot.key, remedy=None if self._operator is None else _ONE_JOB_AN_OPERATOR):
            try:
                yield
            except AirflowRescheduleException:  # the task comes back, in the same try
                raise
            except (Exception, SystemExit, KeyboardInterrupt) as error:
                if self._leaving and isinstance(error, Exception) and self._system.is_transient(error):
                    self._give_back()  # there was no time to ask until an answer came
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

    def _until(self, ends: set[Step], step: Step) -> Step:
        """Take this step and those after it until one of `ends` is due, and return that."""
        while step not in ends:
            if step in _FAILURES:
                self._fail(step)
            self._take(step)
            step = self._next_step()
        return step

    def _first_step(self) -> Step:
        """The decision that the attempt begins with, told to whoever watches."""
        with decision_span(self._slot.key, self._stats_tags) as span:
            self._open()
            step = self._next_step()
            span.set_attribute("resumable.decision", step.value)
            if self._slot.found_job:
                span.set_attribute("resumable.external_id", str(self._slot.known.id))
                span.set_attribute("resumable.prior_status", str(self._watch.status and self._watch.status.value))
        for counter in counters_of(step, had_job=self._slot.found_job):
            count(counter, self._stats_tags)
        return step

    def _open(self) -> None:
        self._slot.open()
        self._watch.own = self._resumed
        if self._attempt.retries == 0 and not self._resumed:
            log.warning("The task has retries=0: after a crash nobody comes back for its job.\nGive it retries.")

    def _next_step(self) -> Step:
        """The next step that is more than a question."""
        while (step := decide(self._facts(), self._policy)) in _QUESTIONS:
            self._say(step)
            self._take(step)
        self._say(step)
        return step

    def _take(self, step: Step) -> None:
        _TAKE[step](self)

    def _facts(self) -> Facts:
        if (record := self._slot.record) is None:
            return Facts(stopped=self._stopped, replaced=self._replaced, leaving=self._leaving)
        return Facts(
            phase=record.phase,
            fresh=self._slot.fresh,
            lost=bool(record.lost),
            has_id=record.id is not None,
            saved_success=record.status is JobStatus.SUCCEEDED,
            saved_result=record.result is not None,
            cleared=self._slot.cleared is Cleared.YES,
            inputs_changed=self._slot.inputs_changed,
            is_stray=bool(record.stray),
            can_find=self._system.can_find,
            can_find_strays=self._can_find_strays,
            can_cancel=self._system.can_cancel,
            is_idempotent=self._system.is_idempotent,
            lookup=self._watch.lookup,
            stray=self._watch.stray,
            status=self._watch.status,
            confirmed=self._watch.confirmed,
            own=self._watch.own,
            cancelled=self._watch.cancelled,
            stopped=self._stopped,
            replaced=self._replaced,
            leaving=self._leaving,
        )

    @property
    def _can_find_strays(self) -> bool:
        """By the slot, or, where an attempt that has lost its record comes to the same token again, by that."""
        if not (self._attempt.has_identity and self._durable):
            return False
        record_was_missing = self._slot.blank or bool(self._slot.known.lost)
        return self._system.can_find_jobs or (
            self._system.can_find and record_was_missing and token_is_derived(self._attempt)
        )

    def _wait(self, step: Step) -> None:
        """Wait for a job that is wanted: in the triggerer, or here."""
        if step is Step.RECONNECT and self._slot.cleared is Cleared.PERHAPS:
            log.info(
                "A task of this run was cleared since try %d. If it was this one, while it ran, then it could not"
                " cancel its job, which is waited for instead.",
                self._slot.earlier_try,
            )
        self._watch.own = True
        if self._defer is not None:
            self._defer_again() if self._resumed else self._defer(self._slot.known.id)
        if self._is_to_stop_waiting():
            return
        self._watch.wait_as_the_operator_does()
        if not self._watch.has_ended:
            self._watch.wait()

    def _defer_again(self) -> None:
        """A trigger that fires early must not fire at once for ever."""
        record, status = self._slot.known, self._watch.status
        log.warning(
            "The trigger fired, and job %r is still %s: it is waited for again", record.id, status and status.value
        )
        nap(self._policy.poll.interval.total_seconds(), self._clock, self._is_to_stop_waiting)
        if self._defer is not None and not self._is_to_stop_waiting():
            self._defer(record.id)

    def _give_back(self) -> NoReturn:
        """Leave the worker, and come back in the same try."""
        if self._slot.fresh:
            self._withdraw()
        record = self._slot.record
        log.info("The worker goes, and the task comes back for job %r in the same try", record and record.id)
        reschedule()

    # --- effects: saved before, saved after -------------------------------------------------------------------

    def _ask(self) -> None:
        if self._slot.known.phase is Phase.TERMINAL:
            self._watch.ask_whether_it_has_ended()
        else:
            self._watch.ask()

    def _revive(self) -> None:
        """The record says that the job has failed, and the job system says otherwise."""
        log.warning("Job %r was down as failed, and is %s", self._slot.known.id, self._watch.status)
        self._slot.save(phase=Phase.SUBMITTED, status=self._watch.status)

    def _look_for_strays(self) -> None:
        self._watch.look_for_strays(deployment_is_known=deployment() is not None, again=bool(self._slot.known.lost))
        if self._watch.stray is Stray.NONE and self._slot.known.lost:
            self._slot.save(lost=None)  # from here on a job with this token is the one that is about to be submitted

    def _start_generation(self) -> None:
        is_used = self._watch.stray is Stray.ENDED
        self._slot.start_generation(reason="" if self._slot.record is None else self._reason(), is_used=is_used)
        self._watch.forget()

    def _reason(self) -> str:
        """Why another generation is due, for the history."""
        if self._watch.stray is Stray.ENDED:
            return "its job has ended, and the record of it was lost"
        if self._slot.known.stray:
            return "not a job of this run"
        if is_unwanted(self._facts(), self._policy):
            return "cleared or changed"
        return "ended without success" if self._slot.known.id is not None else "nothing was created"

    def _adopt(self, *, stray: bool) -> None:
        if stray:
            log.warning("Job %r of this slot is alive and not of this run: it has to end first", self._watch.found)
        self._saving(lambda: self._slot.adopt(self._watch.found, self._watch.found_token, stray=stray))

    def _submit(self) -> None:
        self._slot.fresh = False
        try:
            answer = self._system.submit(self._slot.known.token)
        except Exception as error:
            self._see_to_failed_submit(error)
            raise
        self._watch.own = True  # it is this attempt's own job: how it ends is how the attempt ends
        external_id = checked_id(self._system, self._slot.known.token, answer)
        self._saving(lambda: self._slot.save_id(external_id), external_id)
        self._watch.learn(JobStatus.ACTIVE)

    def _see_to_failed_submit(self, error: Exception) -> None:
        """An error is no proof that nothing was created. Where the next attempt can ask, it asks."""
        if self._system.can_find or self._system.is_idempotent:
            return
        if isinstance(error, AirflowSkipException):  # the author's own word that there is nothing to submit
            self._withdraw()
        elif self._system.was_refused(error):
            log.warning("The submit of slot %r was refused, and created nothing: %r", self._slot.name, error)
            self._withdraw()
        else:
            with suppress(Exception):  # the error itself is what matters, and is raised
                self._slot.save(error=type(error).__name__)
            if self._policy.on_lost_submission == "fail" and not isinstance(error, AirflowFailException):
                raise lost_by_error(self._slot.known, error, name=self._slot.name) from error

    def _withdraw(self) -> None:
        """There is no job; without this, a retry would have to suspect one."""
        self._slot.fresh = False
        self._slot.save(phase=Phase.TERMINAL)

    def _saving(self, save: Callable[[], None], external_id: JsonValue = None) -> None:
        """Save the id. If that cannot be done, nobody may ever learn of a job just submitted, so see to it now."""
        try:
            save()
        except Exception:
            if external_id is not None and see_to_orphan(self._system, self._slot.known.token, external_id):
                # The store may take this one; then the next attempt sees it to its end, and need not suspect another.
                with suppress(Exception):
                    self._slot.save(phase=Phase.SUBMITTED, id=external_id, status=JobStatus.CANCELLING)
            raise
        self._slot.mirror()

    # --- ended before the job ---------------------------------------------------------------------------------

    def _is_to_stop_waiting(self) -> bool:
        """Whether there is something else to do: to leave, or to cancel what could not be cancelled before."""
        may_cancel = self._system.can_cancel and not self._watch.cancelled
        return self._leaving or self._replaced or (self._stopped and may_cancel)

    def killed(self) -> bool:
        """The process is being ended: learn why, and let the job go too if that is the policy. For `on_kill`.

        It may run in a signal handler at any moment of this very attempt, and raises nothing.

        Returns:
            Whether an `on_kill` of the operator's own is to be called: the job is cancelled, or will be as soon as its
            id is known, and it was not that `on_kill` which has cancelled it already.
        """
        is_done = self._system.cancels_by_on_kill and self._watch.cancelled
        ending = self._why_killed()
        goes = self._end(ending, final=self._attempt.is_last, killed=True)
        self._replaced = ending is Ending.REPLACED
        self._leaving = ending is Ending.SHUTDOWN and not goes and self._policy.on_shutdown == "reschedule"
        return goes and not is_done

    def _why_killed(self) -> Ending:
        if not self._durable:  # whatever the reason, the job goes
            return Ending.UNKNOWN
        facts = learn_about_kill(
            channel_of(self._store), ask_state=self._attempt.ask_state, sees_record=self._slot.is_visible
        )
        return ending_of_kill(facts)

    def fail(self, error: BaseException) -> None:
        """The attempt has failed before `run` could be called."""
        self._open()
        self._failed(error)

    def _failed(self, error: BaseException) -> None:
        no_further_try = isinstance(error, (AirflowFailException, AirflowSkipException))
        self._end(ending_of_error(error), final=self._attempt.is_last or no_further_try)

    def _end(self, ending: Ending, *, final: bool, killed: bool = False) -> bool:
        """The attempt ends before its job does: the job lives on, or is cancelled. Returns which.

        A job that is not durable is cancelled, as nobody will ever come back for it.
        """
        goes = not self._durable or goes_with_it(ending, self._policy, final=final)
        self._stopped = self._stopped or goes
        if self._slot.holds_a_job and goes:
            self._cancel_for(ending, killed=killed)
        elif self._slot.holds_a_job and not self._watch.cancelled:
            record = self._slot.known
            log.info("The task ends (%s); job %r, token %s, is left alone", ending.value, record.id, record.token)
        return goes

    def _cancel_for(self, ending: Ending, *, killed: bool) -> None:
        record = self._slot.known
        if record.id is None:
            log.error("The task ends (%s); a job with token %s may exist and live on", ending.value, record.token)
        elif not self._system.can_cancel:
            log.error("The task ends (%s); nothing can cancel its job %r, which lives on", ending.value, record.id)
        elif killed and not self._cancels_in_handler:
            log.info("The task ends (%s), and its job %r is about to be cancelled", ending.value, record.id)
        elif killed and self._system.cancels_by_on_kill:
            log.info("The task ends (%s), and the operator's own on_kill is to end its job %r", ending.value, record.id)
            self._watch.cancelled = True
        elif not self._watch.cancelled:
            log.info("The task ends (%s), and its job %r is cancelled", ending.value, record.id)
            self._watch.cancelled = True
            try:
                self._system.cancel(record.id)
            except Exception:
                log.exception("The job %r could not be cancelled, and may be running", record.id)

    # --- endings ----------------------------------------------------------------------------------------------

    def _fetch_result(self) -> _Fetched | None:
        """What the job returned; None when the job system does not know it any more.

        That it has succeeded is saved first, so that a result which cannot be fetched never leads to another job.
        """
        record = self._slot.known
        is_saved = record.phase is Phase.TERMINAL and record.status is JobStatus.SUCCEEDED
        if self._system.has_result and not is_saved:
            self._slot.save(phase=Phase.TERMINAL, status=JobStatus.SUCCEEDED)
        try:
            result = self._watch.patiently(lambda: self._result_of(record.id))
        except Exception as error:
            if not self._system.is_not_found(error) or self._watch.result_is_missing:
                raise
            log.warning("Job %r has succeeded, and its result is not there: %r", record.id, error)
            self._watch.learn_that_its_result_is_missing()
            return None
        self._keep(result)
        return _Fetched(result)

    def _result_of(self, external_id: JsonValue) -> Any:
        """As in a first attempt, in which the status was asked before: hooks may note things in that question."""
        if self._watch.status is None and self._system.can_replay:
            return self._system.replay(external_id)
        return self._system.result(external_id)

    def _keep(self, result: Any) -> None:
        """Save that the job has succeeded, and what it returned if that is small."""
        if self._policy.keep_result:
            if (saved := SavedResult.of(result)) is not None:
                # Beside a very long id there may be no room for it: then it is fetched again as well.
                self._slot.save(phase=Phase.TERMINAL, status=JobStatus.SUCCEEDED, result=saved)
                return
            log.info(
                "The result of job %r is too large, or no JSON: it is not kept, and fetched again if needed",
                self._slot.known.id,
            )
        if self._slot.known.phase is not Phase.TERMINAL:
            self._slot.save(phase=Phase.TERMINAL, status=JobStatus.SUCCEEDED)

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
        if step is Step.FAIL_REPLACED:  # what is on record is the other one's
            raise SupersededError
        if self._slot.fresh:
            self._withdraw()
        if step is Step.FAIL_STRAY:
            raise stray_found(self._watch.found, self._watch.found_token, name=self._slot.name, stray=self._watch.stray)
        if step in {Step.FAIL_JOB, Step.FAIL_JOB_FOR_GOOD}:
            self._slot.save(phase=Phase.TERMINAL)
        if step is Step.FAIL_JOB and self._watch.wait_error is not None:
            raise self._watch.wait_error
        if step is Step.FAIL_STOPPED and self._slot.record is None:
            raise TaskStoppedError
        if step is Step.FAIL_STOPPED and self._slot.known.phase is Phase.INTENT:
            log.error("The task was ended, and a job with token %s may exist and live on", self._slot.known.token)
        raise failure(
            step, self._slot.known, name=self._slot.name, earlier_try=self._slot.earlier_try
        ) from self._watch.wait_error

    def _say(self, step: Step) -> None:
        level = logging.DEBUG if step in _TECHNICAL else logging.INFO
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


_TAKE: dict[Step, Callable[[JobRun], object]] = {
    Step.LOOK_UP: lambda run: run._watch.look_up(),  # noqa: SLF001  the table is a part of the class
    Step.ADOPT: lambda run: run._adopt(stray=False),  # noqa: SLF001
    Step.ADOPT_STRAY: lambda run: run._adopt(stray=True),  # noqa: SLF001
    Step.ASK_STATUS: JobRun._ask,  # noqa: SLF001
    Step.CONFIRM: lambda run: run._watch.confirm(),  # noqa: SLF001
    Step.REVIVE: JobRun._revive,  # noqa: SLF001
    Step.SUBMIT: JobRun._start_generation,  # noqa: SLF001
    Step.LOOK_FOR_STRAYS: JobRun._look_for_strays,  # noqa: SLF001
    Step.SEND: JobRun._submit,  # noqa: SLF001
    Step.SUBMIT_AGAIN: JobRun._submit,  # noqa: SLF001
    Step.WAIT: lambda run: run._wait(Step.WAIT),  # noqa: SLF001
    Step.RECONNECT: lambda run: run._wait(Step.RECONNECT),  # noqa: SLF001
    Step.CANCEL: lambda run: run._watch.cancel(),  # noqa: SLF001
    Step.WAIT_FOR_END: lambda run: run._watch.wait(),  # noqa: SLF001
    Step.GIVE_BACK: JobRun._give_back,  # noqa: SLF001
}
