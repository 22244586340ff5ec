"""The shell around the decision: gather facts, save before acting, act, and log each step by its name."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, overload

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_resume import values
from airflow_resume.attempt import AnyContext, Cleared, utc_now
from airflow_resume.jobs.decide import Facts, JobStatus, Lookup, Phase, Step, decide, is_unwanted
from airflow_resume.jobs.failure import failure
from airflow_resume.jobs.orphan import checked_id, see_to_orphan
from airflow_resume.jobs.policy import ResumePolicy
from airflow_resume.jobs.poll import Clock, ask_patiently, wait_for_end
from airflow_resume.jobs.protocol import Jobs, JobsWithResult, JobSystem
from airflow_resume.jobs.record import KEY_PREFIX, JobRecord, SavedResult, first_generation
from airflow_resume.record import Slot
from airflow_resume.store import StateStore, open_task_store

if TYPE_CHECKING:
    from pydantic import JsonValue

log = logging.getLogger(__name__)

IdT = TypeVar("IdT")
ResultT = TypeVar("ResultT")
T = TypeVar("T")


@overload
def run_job(
    jobs: JobsWithResult[IdT, ResultT],
    *,
    name: str = ...,
    policy: ResumePolicy = ...,
    inputs: JsonValue = ...,
    context: AnyContext | None = ...,
    store: StateStore | None = ...,
) -> ResultT: ...
@overload
def run_job(
    jobs: Jobs[IdT],
    *,
    name: str = ...,
    policy: ResumePolicy = ...,
    inputs: JsonValue = ...,
    context: AnyContext | None = ...,
    store: StateStore | None = ...,
) -> IdT: ...
def run_job(
    jobs: Jobs[Any],
    *,
    name: str = "job",
    policy: ResumePolicy = ResumePolicy(),  # noqa: B008  frozen
    inputs: JsonValue = None,
    context: AnyContext | None = None,
    store: StateStore | None = None,
) -> object:
    """Submit one job, wait for it, and return its result: one job and one result, however often this is tried.

    Args:
        jobs: the job system, see `Jobs`.
        name: the slot. Two jobs of one task have two names and resume independently.
        policy: what to do where there is a choice.
        inputs: what the job is made from, as JSON. A later attempt with other inputs follows
            `policy.on_input_change`. Only a fingerprint is stored.
        context: of the task; by default that of the running one.
        store: used instead of the task's, for scripts and tests.

    Returns:
        `jobs.result(id)`, or the id where there is no `result`: the same on every path.

    Raises:
        JobFailedError: the job failed while this attempt waited for it; a retry submits another.
        LostSubmissionError: an earlier attempt may have left a job that cannot be found.
        SupersededError: another attempt has replaced this one.
        NoStateStoreError: no task is running, and no `store` was given.
        (and the other `JobError`s, each saying what to do.)
    """
    return JobRun(jobs, name=name, policy=policy, inputs=inputs, context=context, store=store).run()


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
        clock: Clock = Clock(),  # noqa: B008  frozen
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        key = values.make_key(KEY_PREFIX, name)
        self._store, self._attempt = open_task_store(context, store)
        self._slot = Slot(self._store, key, JobRecord)
        self._system = JobSystem(jobs)
        self._name = name
        self._policy = policy
        self._fingerprint = None if inputs is None else values.fingerprint(inputs)
        self._mirror_key = mirror_key
        self._clock = clock
        self._now = now
        self._notice = notice
        self._record: JobRecord | None = None
        self._wait_error: Exception | None = None
        self._earlier_try = 0
        self._forget()

    def _forget(self) -> None:
        """What this attempt has learned was about another job."""
        self._lookup = Lookup.NOT_ASKED
        self._found: JsonValue = None
        self._status: JobStatus | None = None
        self._own = self._cancelled = False

    def run(self) -> Any:
        """Take steps until one of them ends the attempt."""
        with self._attempt.using(self._slot.key):
            return self._run()

    def _run(self) -> Any:
        self._open()
        while True:
            step = decide(self._facts(), self._policy)
            self._say(step)
            match step:
                case Step.RETURN_SAVED:
                    return self._saved_result()
                case Step.FETCH_RESULT:
                    return self._fetch_result()
                case (
                    Step.FAIL_LOST
                    | Step.FAIL_JOB
                    | Step.FAIL_JOB_FOR_GOOD
                    | Step.FAIL_GONE
                    | Step.FAIL_INPUTS
                    | Step.FAIL_VANISHED
                ):
                    self._fail(step)
                case _:
                    self._take(step)

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
                self._own = True
                self._wait_as_the_operator_does()
                self._wait()
            case Step.CANCEL:
                self._cancel()
            case Step.WAIT_FOR_END:
                self._wait()
            case _:
                raise AssertionError(step)

    # --- facts ------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        """Read, and claim by a write: a refused one means that another attempt is running, and nothing was done."""
        record = self._slot.read() or self._adopt_mirrored()
        if record is None:
            return
        self._record, self._earlier_try = record, record.claim.try_number
        self._save(claim=self._attempt.claim(self._now()))
        self._mirror()

    def _adopt_mirrored(self) -> JobRecord | None:
        """The id that Airflow's own mixin saved, when the task was upgraded to ours between two attempts."""
        if self._mirror_key is None or (external_id := self._store.get(self._mirror_key)) is None:
            return None
        log.info("Adopting the job %r that was saved under %r", external_id, self._mirror_key)
        # Nobody saved when that was; a task that was ever cleared since it was made must do its work again.
        return self._first_record().model_copy(
            update={"phase": Phase.SUBMITTED, "id": external_id, "epoch": self._attempt.uncleared}
        )

    def _first_record(self) -> JobRecord:
        return first_generation(
            self._slot.key, self._attempt, name=self._name, now=self._now(), fingerprint=self._fingerprint
        )

    def _facts(self) -> Facts:
        if (record := self._record) is None:
            return Facts()
        return Facts(
            phase=record.phase,
            has_id=record.id is not None,
            saved_success=record.status is JobStatus.SUCCEEDED,
            saved_result=record.result is not None,
            cleared=self._attempt.epoch.cleared_since(record.epoch) is Cleared.YES,
            inputs_changed=self._fingerprint is not None and record.fingerprint not in {None, self._fingerprint},
            can_find=self._system.can_find,
            can_cancel=self._system.can_cancel,
            is_idempotent=self._system.is_idempotent,
            lookup=self._lookup,
            status=self._status,
            own=self._own,
            cancelled=self._cancelled,
        )

    @property
    def _known(self) -> JobRecord:
        if self._record is None:  # decide() takes no step on a record that is not there
            raise AssertionError
        return self._record

    def _look_up(self) -> None:
        self._found = self._patiently(lambda: self._system.find(self._known.token))
        self._lookup = Lookup.MISSING if self._found is None else Lookup.FOUND

    def _ask(self) -> JobStatus:
        return self._system.status(self._known.id)

    def _learn(self, status: JobStatus) -> None:
        self._status = status
        self._record = self._known.model_copy(update={"status": status})

    def _wait(self) -> None:
        self._learn(
            wait_for_end(self._ask, is_transient=self._system.is_transient, policy=self._policy, clock=self._clock)
        )

    def _patiently(self, ask: Callable[[], T]) -> T:
        return ask_patiently(ask, self._system.is_transient, self._policy.poll, self._clock)

    def _cancel(self) -> None:
        self._cancelled = True
        try:
            self._system.cancel(self._known.id)
        except Exception:
            # It may have ended in the meantime, and then there is nothing to cancel.
            self._learn(self._patiently(self._ask))
            if not self._known_to_have_ended():
                raise

    def _known_to_have_ended(self) -> bool:
        return self._status is not None and self._status.is_terminal

    def _wait_as_the_operator_does(self) -> None:
        """Where the job system brings its own way of waiting, use it; how the job ended is asked all the same.

        Trouble on the way is no reason to end the attempt: then the status is asked until the job has ended, and the
        own way is used once more, as it may have something to say at the end (logs, or why the job failed).
        """
        error = self._what_waiting_raises()
        if error is not None and self._system.interrupts(error):
            log.warning("Waiting for job %r was interrupted by %r; asking for its status", self._known.id, error)
            self._wait()
            error = self._what_waiting_raises()
        if error is not None:
            self._end_wait(error)

    def _what_waiting_raises(self) -> Exception | None:
        try:
            self._system.wait(self._known.id)
        except Exception as error:  # noqa: BLE001  what it means is for the caller to say
            return error
        return None

    def _end_wait(self, error: Exception) -> None:
        """What waiting raised is what the user wrote, so the attempt ends with it, unless the job has succeeded."""
        self._learn_in_spite_of(error)
        if not self._known_to_have_ended() or isinstance(error, (AirflowFailException, AirflowSkipException)):
            raise error
        log.warning("Waiting for job %r raised, and it is %s", self._known.id, self._status, exc_info=error)
        self._wait_error = error

    def _learn_in_spite_of(self, error: Exception) -> None:
        try:
            self._learn(self._patiently(self._ask))
        except Exception:
            log.warning("... and neither could its status be asked", exc_info=True)
            raise error from None
        if self._status is JobStatus.FAILED:
            self._save(phase=Phase.TERMINAL)

    # --- effects: saved before, saved after -------------------------------------------------------------------

    def _save(self, **changes: Any) -> None:
        self._write(self._known.model_copy(update=changes))

    def _write(self, record: JobRecord) -> None:
        self._slot.write(record)
        self._record = record
        self._notice(record)

    def _start_generation(self) -> None:
        """Save the intent to submit, before the submit: from now on a crash leaves a token to look up."""
        if self._record is None:
            record = self._first_record()
        else:
            record = self._record.next_generation(
                self._attempt,
                name=self._name,
                now=self._now(),
                fingerprint=self._fingerprint,
                reason=self._reason(),
            )
        self._write(record)
        self._forget()

    def _reason(self) -> str:
        """Why another generation is due, for the history."""
        if is_unwanted(self._facts(), self._policy):
            return "cleared or changed"
        return "ended without success" if self._known.id is not None else "nothing was created"

    def _submit(self, *, first: bool) -> None:
        try:
            answer = self._system.submit(self._known.token)
        except Exception as error:
            # A second submit with the same token may be refused just because the first one was not.
            if first and not self._system.is_ambiguous(error):
                self._withdraw(error)
            raise
        self._own = True  # it is this attempt's own job: how it ends is how the attempt ends
        self._save_id(checked_id(self._system, self._known.token, answer))
        self._learn(JobStatus.ACTIVE)

    def _withdraw(self, error: Exception) -> None:
        """The submit was refused, so there is no job; without this, a retry would have to suspect one."""
        log.warning("Submitting the job of slot %r failed, and nothing was created: %r", self._name, error)
        self._save(phase=Phase.TERMINAL)

    def _save_id(self, external_id: JsonValue) -> None:
        """Save the id. If that cannot be done, nobody may ever learn of the job, so see to it now."""
        try:
            self._save(phase=Phase.SUBMITTED, id=external_id)
        except Exception:
            if see_to_orphan(self._system, self._known.token, external_id):
                # The store may take this one; then the next attempt need not suspect a job that is no more.
                with suppress(Exception):
                    self._save(phase=Phase.TERMINAL, id=external_id, status=JobStatus.FAILED)
            raise
        self._mirror()

    def _mirror(self) -> None:
        """Leave the id where Airflow's own mixin looks for it, so that a downgrade in mid-run finds the job."""
        if self._mirror_key is not None and self._known.id is not None:
            self._store.set(self._mirror_key, self._known.id)

    # --- endings ----------------------------------------------------------------------------------------------

    def _fetch_result(self) -> Any:
        result = self._system.result(self._known.id)
        self._save(phase=Phase.TERMINAL, status=JobStatus.SUCCEEDED, result=SavedResult.of(result))
        return result

    def _saved_result(self) -> Any:
        if self._system.can_replay:
            try:
                return self._patiently(lambda: self._system.replay(self._known.id))
            except Exception:
                log.warning("Job %r is not known any more, or not now: its saved result", self._known.id, exc_info=True)
        saved = self._known.result
        return None if saved is None else saved.decoded()

    def _fail(self, step: Step) -> NoReturn:
        if step in {Step.FAIL_JOB, Step.FAIL_JOB_FOR_GOOD}:
            self._save(phase=Phase.TERMINAL)
        if step is Step.FAIL_JOB and self._wait_error is not None:
            raise self._wait_error
        raise failure(step, self._known, name=self._name, earlier_try=self._earlier_try) from self._wait_error

    def _say(self, step: Step) -> None:
        level = logging.DEBUG if step is Step.ASK_STATUS else logging.INFO
        record = self._record
        if record is None:
            log.log(level, "%s (slot %r, first job, try %d)", step.value, self._name, self._attempt.try_number)
            return
        log.log(
            level,
            "%s (slot %r, job %r, status %s, generation %d, token %s, try %d)",
            step.value,
            self._name,
            record.id,
            self._status.value if self._status else "not asked",
            record.generation,
            record.token,
            self._attempt.try_number,
        )
