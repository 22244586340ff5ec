"""What `check_operator` knows and orders of a job service, and `ServiceJobs`, the jobs of such a service.

A service tells three moments (`JobService.tell`). It holds no lock meanwhile: the attempt may be killed there, or
its `on_kill` may send another request.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from airflow_resume.testing.fakes.job import UnknownJobError

Moment: TypeAlias = Literal["request", "made", "asked"]
"""`request`: a request has come, and nothing is done yet. `made`: a job was made. `asked`: the state of a job was asked
for. At the last two nothing is answered yet.
"""


class SeenJob(Protocol):
    """One job, as `check_operator` sees it."""

    @property
    def id(self) -> Any:
        """The id that the operator gets."""

    @property
    def is_alive(self) -> bool:
        """Whether it may still do something."""
        ...

    @property
    def was_cancelled(self) -> bool:
        """Whether it was cancelled while it was alive."""
        ...


class JobService(Protocol):
    """What `check_operator` needs of the service that the operator talks to.

    Attributes:
        tell: set by `check_operator`. The service calls it at each `Moment`, with no lock held. What it raises is for a
            client that is dead: the service then does nothing, and may answer anything.
        running: the state of a job that runs, as the service says it.
        succeeded: the state of a job that has succeeded.
        failed: the state of a job that has failed.
        unknown: a state that the operator does not know; None if there cannot be one.
    """

    tell: Callable[[Moment], None]
    running: Any
    succeeded: Any
    failed: Any
    unknown: Any

    def reset(self) -> None:
        """Forget all jobs, as if there had never been any."""

    def follow(self, states: Sequence[Any], /) -> None:
        """Let all jobs that are alive, and all later ones, go through these states.

        Args:
            states: one for each question; the last one stays.
        """

    def seen(self) -> Sequence[SeenJob]:
        """All jobs that were ever made since the reset, in order, forgotten ones too."""
        ...

    def forget(self, job_id: Any, /) -> None:
        """Do not know this job any more.

        Args:
            job_id: of the job.
        """

    def fail_next(self, status: int, /) -> None:
        """Answer the next question for the state of a job with this HTTP status.

        Args:
            status: such as 503.
        """


class OrderedFailureError(Exception):
    """The service is to answer with this HTTP status.

    Args:
        status: such as 503.
    """

    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}, as the test ordered")
        self.status = status
        """The HTTP status."""


@dataclass(kw_only=True, eq=False)
class ServiceJob:
    """One job of a `ServiceJobs`.

    Args:
        id: its id.
        token: that came with its submit, or None.
        request: what the client asked for.
        states: one for each question; the last one stays.
        ends: the states in which it does nothing any more.
        was_cancelled: whether it was cancelled while it was alive.
        is_forgotten: whether the service does not know it any more.
    """

    id: Any
    token: str | None
    request: Any
    states: list[Any]
    ends: frozenset[Any] = field(repr=False)
    was_cancelled: bool = False
    is_forgotten: bool = False

    @property
    def state(self) -> Any:
        """The state that the next question gets."""
        return self.states[0]

    @property
    def is_alive(self) -> bool:
        """Whether it may still do something."""
        return self.state not in self.ends and not self.is_forgotten


def _tell_nobody(_moment: Moment) -> None:
    """Before `check_operator` has set another one."""


@dataclass(kw_only=True, eq=False)
class ServiceJobs:
    """The jobs of a service in memory: a `JobService`, whose methods the service calls for each request.

    It is safe in threads.

    Args:
        running: the state of a job that runs, in the words of the service.
        succeeded: the state of a job that has succeeded.
        failed: the state of a job that has failed.
        cancelled: the state of a job that was cancelled.
        unknown: a state that the operator does not know; None if there cannot be one.
        other_ends: further states in which a job does nothing any more.

    Attributes:
        tell: called at each `Moment`.
        jobs: all jobs, in order, forgotten ones too.
    """

    running: Any
    succeeded: Any
    failed: Any
    cancelled: Any
    unknown: Any = None
    other_ends: Iterable[Any] = ()
    jobs: list[ServiceJob] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tell: Callable[[Moment], None] = _tell_nobody
        self._lock = threading.RLock()
        self._failures: list[int] = []
        self._ends = frozenset({self.succeeded, self.failed, self.cancelled, *self.other_ends})
        self._states: list[Any] = [self.running, self.succeeded]

    # --- what `check_operator` orders ---------------------------------------------------------------------------

    def reset(self) -> None:
        """Forget all jobs, as if there had never been any."""
        with self._lock:
            self.jobs.clear()
            self._failures.clear()

    def follow(self, states: Sequence[Any], /) -> None:
        """Let all jobs that are alive, and all later ones, go through these states.

        Args:
            states: one for each question; the last one stays.
        """
        with self._lock:
            self._states = list(states)
            for job in self.jobs:
                if job.is_alive:
                    job.states = list(states)

    def seen(self) -> list[ServiceJob]:
        """All jobs since the reset, in order, forgotten ones too."""
        return list(self.jobs)

    def forget(self, job_id: Any, /) -> None:
        """Do not know this job any more.

        Args:
            job_id: of the job.

        Raises:
            UnknownJobError: there is no such job.
        """
        self.get(job_id).is_forgotten = True

    def fail_next(self, status: int, /) -> None:
        """Let the next `ask` raise.

        Args:
            status: of the answer, such as 503.
        """
        self._failures.append(status)

    # --- what the service calls ---------------------------------------------------------------------------------

    def begin(self) -> None:
        """A request has come. Call it before anything is done.

        Raises:
            ConnectionError: the client is dead. Do nothing, and answer anything.
        """
        self.tell("request")

    def make(self, job_id: Any, *, token: str | None = None, request: Any = None) -> ServiceJob:
        """Make a job. Call it when all is done but the answer.

        Args:
            job_id: of the new job.
            token: that came with the request.
            request: what the client asked for, for tests that look at it.
        """
        with self._lock:
            job = ServiceJob(id=job_id, token=token, request=request, states=list(self._states), ends=self._ends)
            self.jobs.append(job)
        self.tell("made")
        return job

    def with_token(self, token: str | None) -> ServiceJob | None:
        """The newest job with this token that is not forgotten.

        Args:
            token: None: there is none.
        """
        found = (job for job in reversed(self.jobs) if job.token == token and not job.is_forgotten)
        return None if token is None else next(found, None)

    def known(self) -> list[ServiceJob]:
        """All jobs that are not forgotten, in order."""
        return [job for job in self.jobs if not job.is_forgotten]

    def get(self, job_id: Any) -> ServiceJob:
        """The job.

        Args:
            job_id: of the job.

        Raises:
            UnknownJobError: there is no such job, or it was forgotten.
        """
        for job in self.jobs:
            if job.id == job_id and not job.is_forgotten:
                return job
        raise UnknownJobError(job_id)

    def ask(self, job_id: Any) -> Any:
        """The state of the job, which then moves on to the next one.

        Args:
            job_id: of the job.

        Raises:
            UnknownJobError: there is no such job, or it was forgotten.
            OrderedFailureError: the test has ordered a failure.
        """
        with self._lock:
            failure = self._failures.pop(0) if self._failures else None
            job = self.get(job_id)
            state = job.state
            if failure is None:
                job.states = job.states[1:] or job.states
        self.tell("asked")
        if failure is not None:
            raise OrderedFailureError(failure)
        return state

    def cancel(self, job_id: Any) -> ServiceJob:
        """Cancel the job; one that has ended does not change.

        Args:
            job_id: of the job.

        Raises:
            UnknownJobError: there is no such job, or it was forgotten.
        """
        with self._lock:
            job = self.get(job_id)
            if job.is_alive:
                job.states, job.was_cancelled = [self.cancelled], True
        return job
