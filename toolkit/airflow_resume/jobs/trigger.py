"""Waiting for a job in the triggerer: `JobTrigger` to subclass, and `PollJobTrigger` for a client that has a status.

Theory of operation. The event of a trigger only starts the task again, which then asks the job system itself. So an
event that is early, doubled or lost costs a question and no job. But only the trigger can cancel the job of a deferred
task, because that task has no process. Airflow calls `on_kill` whenever the triggerer must stop running the trigger, as
if a person had ended the task. That is not always so: if a triggerer stalls, its triggers are given to another one. So
the state of the task is asked for first, and the job is left alone unless it shows that a person ended the task.

Only code that makes a trigger imports this module, in a hook such as `job_trigger`: Airflow's triggers are slow to
import when a Dag file is read, and they are part of Airflow itself, not of its Task SDK.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_resume import values
from airflow_resume.attempt import utc_now
from airflow_resume.errors import JobStatusUnknownError
from airflow_resume.jobs.decide import JobStatus
from airflow_resume.jobs.ending import DELETED, Ending, ending_of_trigger, goes_with_it
from airflow_resume.jobs.policy import PollPolicy, ResumePolicy
from airflow_resume.jobs.poll import Clock, pauses
from airflow_resume.jobs.trigger_client import TriggerClient
from airflow_resume.patience import Patience, for_tries
from airflow_resume.shown import get_logger, say_another_try

if TYPE_CHECKING:
    from pydantic import JsonValue

log = get_logger(__name__)

ANSWER_SECONDS = 20.0
"""How long to ask for the state of the task. Airflow gives `on_kill` 30 seconds in all."""
_asked_ahead: set[asyncio.Task[str | None]] = set()
"""A triggerer sets up its API when it is first asked. That takes seconds, and on a busy machine more than 20. So each
triggerer asks once before the answer matters.
"""
CANCEL_TRIES, CANCEL_PAUSE = 3, 1.0
CLOCK_SKEW = timedelta(minutes=1)
"""How far the clocks of a scheduler and of a triggerer may be apart."""


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

    The triggerer imports the class, so define it in a module and not in a function. Arguments are kept in Airflow's
    database, encrypted with its Fernet key if it has one: pass the name of a connection, not a password.

    The job is cancelled when the task is marked failed or successful, or its run is deleted (`cancel_on_kill`), and
    when the task is cleared (`cancel_on_clear`). It is left alone when a triggerer stops, is killed or is replaced,
    when the deferral times out, and when the state of the task cannot be learned.

    Args:
        external_id: of the job, any JSON value but None.
        cancel_on_kill: see above; `follow` sets it.
        cancel_on_clear: see above; `follow` sets it.
        deadline: when the deferral times out, in ISO 8601; `follow` sets it.
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
        """Cancel as the policy says, and not when `poll.timeout` has passed. Call it before the task defers."""
        self.cancel_on_kill = goes_with_it(Ending.USER, policy, final=False)
        self.cancel_on_clear = goes_with_it(Ending.CLEARED, policy, final=False)
        self.deadline = None if policy.poll.timeout is None else (now() + policy.poll.timeout).isoformat()

    def arguments(self) -> dict[str, Any]:
        """The arguments of `__init__`, as JSON."""
        return {
            "external_id": self.external_id,
            "cancel_on_kill": self.cancel_on_kill,
            "cancel_on_clear": self.cancel_on_clear,
            "deadline": self.deadline,
        }

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The import path of the class, and its arguments.

        Raises:
            TypeError: the class is defined in a function, so it cannot be imported.
            InvalidValueError: an argument is not JSON.
        """
        kind = type(self)
        if "<locals>" in kind.__qualname__:
            raise TypeError(
                f"{kind.__qualname__} is defined in a function, so the triggerer cannot import it.\n"
                f"Define the class in a module."
            )
        arguments = self.arguments()
        values.check(arguments, at=kind.__name__)
        return f"{kind.__module__}.{kind.__qualname__}", arguments

    @abstractmethod
    async def wait(self) -> object:
        """Return when the job has ended, with its status: a `JobStatus` or a word.

        An error ends the deferral: the attempt fails, and the next one reconnects to the job.
        """

    async def cancel(self) -> None:
        """Ask for the job to be cancelled. Called again if it raises."""
        raise NotImplementedError

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait, and fire `{"external_id": ..., "status": ...}`."""
        if self.cancel_on_kill and not _asked_ahead:
            _asked_ahead.add(asyncio.create_task(self._learn_state()))
        status = await self.wait()
        said = None if status is None else str(getattr(status, "value", status))
        yield TriggerEvent({"external_id": self.external_id, "status": said})  # type: ignore[no-untyped-call]

    async def on_kill(self) -> None:
        """Cancel the job if a person has ended the task. Called when the triggerer must stop running the trigger."""
        state = await self._learn_state()
        is_due = self.deadline is not None and utc_now() >= datetime.fromisoformat(self.deadline) - CLOCK_SKEW
        ending = ending_of_trigger(state, is_due=is_due)
        goes = self._cancels(ending)
        if ending is Ending.UNKNOWN and self.cancel_on_kill:
            log.error(
                "Why the trigger ends is not known; its job %r is left alone, and may be running", self.external_id
            )
        elif not goes:
            log.info("The trigger ends (%s, task %s); job %r is left alone", ending.value, state, self.external_id)
        elif not self._can_cancel:
            log.error("The deferred task ends (%s); its job %r cannot be cancelled", ending.value, self.external_id)
        elif not self._cancelled:
            self._cancelled = True
            log.info("The deferred task ends (%s), and its job %r is cancelled", ending.value, self.external_id)
            await self._cancel_patiently()

    @property
    def _can_cancel(self) -> bool:
        return type(self).cancel is not JobTrigger.cancel

    def _cancels(self, ending: Ending) -> bool:
        """Whether the job is cancelled. The trigger keeps what `goes_with_it` has said of the policy."""
        match ending:
            case Ending.USER:
                return self.cancel_on_kill
            case Ending.CLEARED:
                return self.cancel_on_clear
            case Ending.SHUTDOWN | Ending.TIMEOUT | Ending.FAILURE | Ending.REPLACED | Ending.UNKNOWN:
                return False

    async def _cancel_patiently(self) -> None:
        patience = Patience(
            is_passing=lambda error: isinstance(error, Exception),
            is_enough=for_tries(CANCEL_TRIES),
            pause=lambda _state: CANCEL_PAUSE,
            say=say_another_try(log, "The end of the job"),
        )
        try:
            await patience.acall(self.cancel, sleep=asyncio.sleep)
        except BaseException:  # such as a cancellation, when the time that Airflow gives has passed
            log.exception("The job %r could not be cancelled, and may be running", self.external_id)
            raise

    async def _learn_state(self) -> str | None:
        """The state of the task in Airflow; None if it cannot be learned."""
        if self.task_instance is None:  # outside a triggerer there is no Airflow to ask
            return None
        try:
            return await asyncio.wait_for(asyncio.to_thread(_state_in_airflow, self.task_instance), ANSWER_SECONDS)
        except Exception:
            log.warning("Why the deferred task ends could not be learned", exc_info=True)
            return None


def _state_in_airflow(ti: Any) -> str:
    """The state of the task instance. It blocks, so call it in a thread."""
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
        poll: how often to ask, a `PollPolicy`. Its `timeout` is not used here, but by the deferral.
        unknown_timeout: seconds for which a status may stay unknown before the attempt fails.
        options: see `JobTrigger`.

    Raises:
        ValueError: at once, for a `client` of another form.
        InvalidValueError: at once, for arguments that are not JSON.
        JobStatusUnknownError: from `wait`, see `unknown_timeout`.
        Exception: an error of the client, if it is not transient or is raised too often in a row.
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
        self.client = client
        self.client_kwargs = dict(client_kwargs or {})
        self._client = TriggerClient(client, self.client_kwargs)
        values.check(self.client_kwargs, at="client_kwargs")
        if isinstance(poll, PollPolicy):
            self.poll = poll
        else:
            kept: dict[str, Any] = dict(poll or {})
            for name in {"interval", "max_interval"} & kept.keys():
                kept[name] = timedelta(seconds=kept[name])
            self.poll = PollPolicy(**kept)
        self.unknown_timeout = unknown_timeout

    def arguments(self) -> dict[str, Any]:
        """The arguments of `__init__`, as JSON; lengths of time are in seconds."""
        poll = {name: value for name, value in asdict(self.poll).items() if name != "timeout"}
        return {
            **super().arguments(),
            "client": self.client,
            "client_kwargs": self.client_kwargs,
            "poll": {n: value.total_seconds() if isinstance(value, timedelta) else value for n, value in poll.items()},
            "unknown_timeout": self.unknown_timeout,
        }

    @property
    def _can_cancel(self) -> bool:
        return self._client.can_cancel

    async def wait(self) -> JobStatus:
        """Ask until the job has ended; a job that is not found has ended."""
        clock = Clock()
        known, failures = clock.monotonic(), 0
        for pause in pauses(self.poll, clock):
            try:
                status, failures = await self._client.status(self.external_id), 0
            except Exception as error:
                failures += 1
                if failures >= self.poll.max_consecutive_errors or not self._client.is_transient(error):
                    raise
                log.warning("Asking for job %r raised a passing error", self.external_id, exc_info=True)
                await asyncio.sleep(pause)
                continue
            if status.is_terminal:
                return status
            now = clock.monotonic()
            known = known if status is JobStatus.UNKNOWN else now
            if now - known >= self.unknown_timeout:
                raise JobStatusUnknownError(
                    f"The status of job {self.external_id!r} has been unknown for {self.unknown_timeout:g} s. It was"
                    " left alone, and a retry asks again.",
                    f"If the job system uses other words for a status, give {self.client} a classify(status).",
                    seconds=self.unknown_timeout,
                    external_id=self.external_id,
                )
            await asyncio.sleep(pause)
        raise AssertionError  # pragma: no cover  pauses() has no end

    async def cancel(self) -> None:
        """Ask for the job to be cancelled, unless it has ended or is being cancelled already."""
        await self._client.make()
        if not self._client.can_cancel:
            log.error("%s has no cancel(id), so its job %r keeps running", self.client, self.external_id)
            return
        await self._client.cancel(self.external_id)
