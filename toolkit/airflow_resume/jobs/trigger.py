"""Waiting for a job in the triggerer: `JobTrigger` to subclass, and `PollJobTrigger` for a client that has a status.

Theory of operation. A trigger only says when to look: the task that comes back asks the job system itself, so an event
that is early, doubled or lost costs a question and no job. What a trigger alone can do is cancel, because a deferred
task has no process. Airflow calls `on_kill` when the trigger is not the triggerer's to run any more, and takes that for
the deed of a person. It need not be: a triggerer that stalled finds its triggers given to another one. So the state of
the task is asked for first, and the job is left alone where that does not show what a person did.

Nothing imports this module but who makes a trigger, in a hook such as `job_trigger`: Airflow's triggers are costly to
import when a Dag file is read, and they come with Airflow itself, not with its Task SDK.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent
from tenacity import AsyncRetrying, before_sleep_log, stop_after_attempt, wait_fixed

from airflow_resume import values
from airflow_resume.attempt import utc_now
from airflow_resume.errors import JobStatusUnknownError
from airflow_resume.jobs.decide import JobStatus
from airflow_resume.jobs.ending import Ending
from airflow_resume.jobs.policy import PollPolicy, ResumePolicy
from airflow_resume.jobs.poll import Clock, pauses
from airflow_resume.jobs.protocol import ENDED_SOMEHOW, checked_status, classify_word, plain_word
from airflow_resume.jobs.transport import is_not_found, is_passing, is_unknown_word, matches

if TYPE_CHECKING:
    from pydantic import JsonValue

log = logging.getLogger(__name__)

ANSWER_SECONDS = 20.0
"""How long to ask for the state of the task. Airflow gives `on_kill` 30 seconds in all.
"""
_asked_ahead: set[asyncio.Task[str | None]] = set()
"""A triggerer sets up its API when it is asked for the first time, which takes seconds, and more than 20 on a machine
with much to do. So each triggerer asks once before it matters."""
CANCEL_TRIES, CANCEL_PAUSE = 3, 1.0
CLOCK_SKEW = timedelta(minutes=1)
"""How far the clocks of a scheduler and of a triggerer may be apart."""

_MARKED = {"failed", "removed", "skipped", "success", "upstream_failed"}
DELETED = "deleted"
"""The state of a task instance that Airflow does not have any more."""


class JobTrigger(BaseTrigger):
    """Fires one event when the job has ended, and cancels the job when a person ends the deferred task.

    A subclass has `wait()`, may have `cancel()`, and adds what they need to `arguments()`:

        class TrainTrigger(JobTrigger):
            def __init__(self, *, region: str, **options: Any) -> None:
                super().__init__(**options)
                self.region = region

            def arguments(self) -> dict[str, Any]:
                return {**super().arguments(), "region": self.region}

            async def wait(self) -> str:
                return await client(self.region).wait(self.external_id)

            async def cancel(self) -> None:
                await client(self.region).cancel(self.external_id)

    The class must be importable by the triggerer, so it stands in a module and not in a function. Arguments are kept in
    Airflow's database, encrypted with its Fernet key where it has one: pass the name of a connection, not a password.

    The job is cancelled when the task is marked failed or successful, or its run is deleted (`cancel_on_kill`), and
    when it is cleared (`cancel_on_clear`). It lives on when a triggerer stops, is killed or is replaced, when the
    deferral times out, and when Airflow does not say what became of the task.

    Args:
        external_id: of the job, any JSON value but None.
        cancel_on_kill: see above; `follow` sets it.
        cancel_on_clear: see above; likewise.
        deadline: when the deferral times out, in ISO 8601; likewise.
    """

    def __init__(
        self,
        *,
        external_id: JsonValue,
        cancel_on_kill: bool = True,
        cancel_on_clear: bool = True,
        deadline: str | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        values.check(external_id, at="external_id")
        self.external_id = external_id
        self.cancel_on_kill = cancel_on_kill
        self.cancel_on_clear = cancel_on_clear
        self.deadline = deadline
        self._cancelled = False

    def follow(self, policy: ResumePolicy, *, now: Callable[[], datetime] = utc_now) -> None:
        """Cancel when the policy says so, and not when `poll.timeout` is over. For whoever defers."""
        self.cancel_on_kill = "user" in policy.cancel_on
        self.cancel_on_clear = self.cancel_on_kill and policy.on_clear == "resubmit"
        self.deadline = None if policy.poll.timeout is None else (now() + policy.poll.timeout).isoformat()

    def arguments(self) -> dict[str, Any]:
        """What the trigger is made from, as JSON."""
        return {
            "external_id": self.external_id,
            "cancel_on_kill": self.cancel_on_kill,
            "cancel_on_clear": self.cancel_on_clear,
            "deadline": self.deadline,
        }

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Where the class is, and its arguments.

        Raises:
            TypeError: the class cannot be imported, as it was made in a function.
            InvalidValueError: an argument is no JSON.
        """
        kind = type(self)
        if "<locals>" in kind.__qualname__:
            raise TypeError(
                f"{kind.__qualname__} cannot be imported by the triggerer, as it was made in a function.\n"
                f"Put the class into a module."
            )
        arguments = self.arguments()
        values.check(arguments, at=kind.__name__)
        return f"{kind.__module__}.{kind.__qualname__}", arguments

    @abstractmethod
    async def wait(self) -> object:
        """Return when the job has ended, with how it is: a `JobStatus` or a word.

        An error ends the deferral: the attempt fails, and the next one reconnects to the job.
        """

    async def cancel(self) -> None:
        """Ask for the end of the job. Called again if it raises."""
        raise NotImplementedError

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait, and fire `{"external_id": ..., "status": ...}`."""
        if self.cancel_on_kill and not _asked_ahead:
            _asked_ahead.add(asyncio.create_task(self._learn_state()))
        status = await self.wait()
        said = None if status is None else str(getattr(status, "value", status))
        yield TriggerEvent({"external_id": self.external_id, "status": said})  # type: ignore[no-untyped-call]

    async def on_kill(self) -> None:
        """Airflow has taken the trigger away: cancel the job if a person has ended the task and the policy says so."""
        state = await self._learn_state()
        is_due = self.deadline is not None and utc_now() >= datetime.fromisoformat(self.deadline) - CLOCK_SKEW
        ending = ending_of_trigger(state, is_due=is_due)
        goes = {Ending.USER: self.cancel_on_kill, Ending.CLEARED: self.cancel_on_clear}.get(ending, False)
        if ending is Ending.UNKNOWN and self.cancel_on_kill:
            log.error(
                "Nobody knows why the trigger ends; its job %r is left alone, and may be running", self.external_id
            )
        elif not goes:
            log.info("The trigger ends (%s, task %s); job %r is left alone", ending.value, state, self.external_id)
        elif not self._can_cancel:
            log.error("The deferred task ends (%s); nothing can cancel its job %r", ending.value, self.external_id)
        elif not self._cancelled:
            self._cancelled = True
            log.info("The deferred task ends (%s), and its job %r is cancelled", ending.value, self.external_id)
            await self._cancel_patiently()

    @property
    def _can_cancel(self) -> bool:
        return type(self).cancel is not JobTrigger.cancel

    async def _cancel_patiently(self) -> None:
        again = AsyncRetrying(
            stop=stop_after_attempt(CANCEL_TRIES),
            wait=wait_fixed(CANCEL_PAUSE),
            before_sleep=before_sleep_log(log, logging.WARNING),
            reraise=True,
        )
        try:
            await again(self.cancel)
        except BaseException:  # the time that Airflow gives it may be over
            log.exception("The job %r could not be cancelled, and may be running", self.external_id)
            raise

    async def _learn_state(self) -> str | None:
        """Of the task in Airflow; None when it cannot be learned."""
        if self.task_instance is None:  # outside a triggerer there is nobody to ask
            return None
        try:
            return await asyncio.wait_for(asyncio.to_thread(_state_in_airflow, self.task_instance), ANSWER_SECONDS)
        except Exception:
            log.warning("Why the deferred task ends could not be learned", exc_info=True)
            return None


_NOBODY_ENDED_IT = {"deferred", "up_for_retry", "up_for_reschedule"}
"""Another triggerer has it now, or the attempt has failed and another one will wait for the job."""


def ending_of_trigger(state: str | None, *, is_due: bool = False) -> Ending:
    """Why a trigger was taken away.

    Args:
        state: of its task in Airflow; None when that could not be learned.
        is_due: the deferral may just have timed out, which looks like a clear to a clock that is behind.
    """
    if state is None:
        return Ending.UNKNOWN
    if state in _NOBODY_ENDED_IT:
        return Ending.REPLACED
    if state in _MARKED or state == DELETED:
        return Ending.USER
    return Ending.TIMEOUT if is_due else Ending.CLEARED


def _state_in_airflow(ti: Any) -> str:
    """Asked by a thread, as the question blocks."""
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    mapped = ti.map_index is not None and ti.map_index >= 0
    states = RuntimeTaskInstance.get_task_states(
        dag_id=ti.dag_id, task_ids=[ti.task_id], run_ids=[ti.run_id], map_index=ti.map_index if mapped else None
    )
    state = states.get(ti.run_id, {}).get(f"{ti.task_id}_{ti.map_index}" if mapped else ti.task_id, DELETED)
    return "none" if state is None else str(getattr(state, "value", state))


class PollJobTrigger(JobTrigger):
    """Asks a client for the status of the job until it has ended.

        def job_trigger(self, external_id, context):
            from airflow_resume.jobs.trigger import PollJobTrigger

            return PollJobTrigger(
                client="my_company.clients.TrainClient",
                client_kwargs={"conn_id": self.conn_id},
                external_id=external_id,
                poll=self.resume_policy.poll,
            )

    The client is what the callable at `client` returns when it is called in the triggerer with `client_kwargs`. It has
    `status(id)` and may have `cancel(id)`, `classify(status)`, `job_not_found` and `transient_errors`, all as in
    `airflow_resume.jobs.Jobs`: so the class that `run_job` is given serves here as well. Methods may be coroutine
    functions; others are called in a thread, as is the callable itself.

    The arguments are kept as they are passed, so pass no secrets: let the callable read them from a connection.

    Args:
        client: where the callable is: `package.module.name`, or `package.module:Name.method`.
        client_kwargs: JSON.
        external_id: of the job.
        poll: how often to ask, a `PollPolicy`; of its fields `timeout` is left to the deferral.
        unknown_timeout: seconds for which a status may stay unknown before the attempt fails.
        options: see `JobTrigger`.

    Raises:
        ValueError: at once, for a `client` that is no place.
        InvalidValueError: at once, for arguments that are no JSON.
        JobStatusUnknownError: from `wait`, see `unknown_timeout`.
        (and what the client raises, when it is not transient or comes too often in a row)
    """

    def __init__(
        self,
        *,
        client: str,
        external_id: JsonValue,
        client_kwargs: Mapping[str, JsonValue] | None = None,
        poll: PollPolicy | Mapping[str, float] | None = None,
        unknown_timeout: float = 600.0,
        **options: Any,
    ) -> None:
        super().__init__(external_id=external_id, **options)
        _split(client)
        self.client = client
        self.client_kwargs = dict(client_kwargs or {})
        values.check(self.client_kwargs, at="client_kwargs")
        self.poll = poll if isinstance(poll, PollPolicy) else _poll_of(poll or {})
        self.unknown_timeout = unknown_timeout
        self._made: Any = None

    def arguments(self) -> dict[str, Any]:
        """What the trigger is made from, as JSON; lengths of time are seconds."""
        return {
            **super().arguments(),
            "client": self.client,
            "client_kwargs": self.client_kwargs,
            "poll": _seconds_of(self.poll),
            "unknown_timeout": self.unknown_timeout,
        }

    @property
    def _can_cancel(self) -> bool:
        return self._made is None or callable(getattr(self._made, "cancel", None))

    async def wait(self) -> JobStatus:
        """Ask until the job has ended; one that is not found has."""
        clock = Clock()
        known, failures = clock.monotonic(), 0
        for pause in pauses(self.poll, clock):
            try:
                status, failures = await self._ask(), 0
            except Exception as error:
                failures += 1
                if failures >= self.poll.max_consecutive_errors or not self._is_transient(error):
                    raise
                log.warning("Asking for job %r failed in passing", self.external_id, exc_info=True)
                await asyncio.sleep(pause)
                continue
            if status.is_terminal:
                return status
            now = clock.monotonic()
            known = known if status is JobStatus.UNKNOWN else now
            if now - known >= self.unknown_timeout:
                raise JobStatusUnknownError(
                    f"The status of job {self.external_id!r} has been unknown for {self.unknown_timeout:g} s. It was"
                    f" left alone, and a retry asks again.\n"
                    f"If the system has a word of its own for a status, give {self.client} a classify(status)."
                )
            await asyncio.sleep(pause)
        raise AssertionError  # pragma: no cover  pauses() has no end

    async def cancel(self) -> None:
        """Ask for the end of the job, unless it has ended, or somebody else has asked for that."""
        client = await self._client()
        if not self._can_cancel:
            log.error("%s has no cancel(id), so its job %r lives on", self.client, self.external_id)
            return
        if await self._is_ending():
            return
        try:
            await _called(client.cancel, self.external_id)
        except Exception as error:
            if not self._is_not_found(error):
                raise

    async def _is_ending(self) -> bool:
        try:
            status = await self._ask()
        except Exception:  # noqa: BLE001  an answer would only have saved a cancel
            return False
        return status is JobStatus.CANCELLING or status.is_terminal

    async def _ask(self) -> JobStatus:
        client = await self._client()
        try:
            said = await _called(client.status, self.external_id)
        except Exception as error:
            if self._is_not_found(error):
                return JobStatus.GONE
            if is_unknown_word(error):
                return JobStatus.UNKNOWN
            raise
        if isinstance(said, JobStatus):
            return said
        classify = getattr(client, "classify", None)
        own = None if classify is None else await _called(classify, said)
        if own is not None:
            return checked_status(own, where=f"classify({said!r})")
        # That it has ended is all that the task needs to be told; it asks how by itself.
        return JobStatus.SUCCEEDED if plain_word(said) in ENDED_SOMEHOW else classify_word(said)

    async def _client(self) -> Any:
        if self._made is None:
            self._made = await _called(_imported(self.client), **self.client_kwargs)
        return self._made

    def _is_not_found(self, error: Exception) -> bool:
        declared = getattr(self._made, "job_not_found", None)
        return matches(error, is_not_found if declared is None else declared)

    def _is_transient(self, error: Exception) -> bool:
        declared = getattr(self._made, "transient_errors", None)
        return matches(error, is_passing if declared is None else declared)


async def _called(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """What it returns, awaited or worked out in a thread."""
    if inspect.iscoroutinefunction(function):
        return await function(*arguments, **keywords)
    answer = await asyncio.to_thread(function, *arguments, **keywords)
    return await answer if inspect.isawaitable(answer) else answer


def _split(place: object) -> tuple[str, str]:
    """The module and the name in it."""
    if isinstance(place, str):
        module, _, name = place.partition(":") if ":" in place else place.rpartition(".")
        if module and name:
            return module, name
    raise ValueError(
        f"client={place!r} is not where a callable is.\n"
        f"Write the place as text, such as client='package.module.Client'; the triggerer imports it from there."
    )


def _imported(place: str) -> Callable[..., Any]:
    module, name = _split(place)
    found: Any = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found  # type: ignore[no-any-return]


def _poll_of(kept: Mapping[str, Any]) -> PollPolicy:
    lengths = {name: timedelta(seconds=kept[name]) for name in ("interval", "max_interval") if name in kept}
    return PollPolicy(**{**kept, **lengths})


def _seconds_of(poll: PollPolicy) -> dict[str, float]:
    fields = {name: value for name, value in asdict(poll).items() if name != "timeout"}
    return {name: value.total_seconds() if isinstance(value, timedelta) else value for name, value in fields.items()}
