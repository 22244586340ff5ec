"""`FakeJobs`: a job system in memory that fails in every way that real ones do, when a test asks for it."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from airflow_resume.testing.fakes.job import FakeJob, JobEvent, UnknownJobError, is_observed
from airflow_resume.testing.fakes.jobs_server import JobsServer, serving
from airflow_resume.testing.points import note_unwatched

CANCELLED = "CANCELLED"

_WRONG_WORDS = {"unheard_of": "UNHEARD_OF", "active_again": "RUNNING", "failed": "FAILED"}


class _Failure(NamedTuple):
    error: BaseException
    applied: bool


@dataclass(eq=False, kw_only=True)
class FakeJobs:
    """A job system in memory. It satisfies `airflow_resume.jobs.Jobs`, and serves any operator or hook as well.

    A status is one of the usual words (`RUNNING`, `SUCCEEDED`, ...). It is safe in threads. It has many fields because
    each is an option of the constructor or a result that tests look at.

    Args:
        scripts: the states of the first job, the second, ...; the last script serves all later ones.
        dedupes: whether submitting a token again gives the job that has it.
        can_find: whether it has `find`. If not, `find` is None, as for a job system that cannot look a job up.
        can_cancel: the same for `cancel`.
        can_find_by_slot: the same for `find_jobs`.
        ids: the id of a job, made from its number; by default `job-0`, `job-1`, ...
        results: gives the result of a job; by default `{"job": id}`.
        jobs: what was submitted, in order; a test may look at it.

    Attributes:
        events: the calls, in order.
        most_alive: the most jobs that were ever alive at once.
        most_alive_in_a_life: the most that were submitted in one life of their Dag run and were alive at once.
        observer: called before and after each submit and cancel: the points of the crash explorer.
        liar: called before each answer of `status`, `find` and `find_jobs`; it chooses a wrong answer, or None.
        life: how often the Dag runs were created again, see `FakeJob.life`.
        read_observer: as `observer`, for each status, find and result. These are points when several runs are
            interleaved.
    """

    observed_as: ClassVar[str] = "effect"
    """The kind of its points in the explorer: effects."""
    job_not_found: ClassVar[type[Exception]] = UnknownJobError
    """What `status` raises for a job that is not known."""

    scripts: Sequence[Sequence[str]] = (("RUNNING", "SUCCEEDED"),)
    dedupes: bool = False
    can_find: bool = True
    can_cancel: bool = True
    can_find_by_slot: bool = False
    ids: Callable[[int], Any] = "job-{}".format
    results: Callable[[Any], Any] = lambda external_id: {"job": external_id}
    observer: Callable[[str, str], None] | None = None
    liar: Callable[[str, tuple[str, ...]], str | None] | None = None
    life: int = 0
    read_observer: Callable[[str, str], None] | None = None
    jobs: list[FakeJob] = field(default_factory=list)
    events: list[JobEvent] = field(default_factory=list)
    most_alive: int = 0
    most_alive_in_a_life: int = 0

    def __post_init__(self) -> None:
        self._failures: dict[str, deque[_Failure]] = defaultdict(deque)
        self._lock = threading.RLock()
        if not self.can_find:
            self.__dict__["find"] = None
        if not self.can_cancel:
            self.__dict__["cancel"] = None
        if not self.can_find_by_slot:
            self.__dict__["find_jobs"] = None

    @property
    def submission_is_idempotent(self) -> bool:
        """The attribute that `airflow_resume` reads; the same as `dedupes`."""
        return self.dedupes

    # --- what a job system offers -----------------------------------------------------------------------------

    def submit(self, token: str | None = None, /) -> Any:
        """Start a job and return its id.

        Args:
            token: of the submission; None: the job cannot be looked up.
        """
        with self._called("submit", is_effect=True):
            job = self._with_token(token) if self.dedupes else None
            if job is None:
                number = len(self.jobs)
                script = self.scripts[min(number, len(self.scripts) - 1)]
                job = FakeJob(id=self.ids(number), token=token, states=list(script), life=self.life)
                self.jobs.append(job)
                alive = [each for each in self.jobs if each.is_alive]
                self.most_alive = max(self.most_alive, len(alive))
                self.most_alive_in_a_life = max(
                    self.most_alive_in_a_life, sum(each.life == self.life for each in alive)
                )
            self._log("submit", job)
        return job.id

    def status(self, external_id: Any, /) -> str:
        """The state of a job, which then moves on to the next one of its script.

        With the crash explorer's kind `"wrong_once"` it answers once that the job is `gone` (this raises), something
        `unheard_of`, that a living job has `failed`, or that an ended one is `active_again`; `find` and `find_jobs`
        then find nothing (`misses`). The script does not move on.

        Args:
            external_id: of the job.

        Raises:
            UnknownJobError: there is no such job, or it was forgotten.
        """
        with self._called("status"):
            job = self._job(external_id)
            self._log("status", job)
            lie = self._lie("status", "gone", "unheard_of", "failed" if job.is_alive else "active_again")
            if lie is None:
                state = job.state
                job.states = job.states[1:] or job.states
                return state
        if lie == "gone":
            raise UnknownJobError(external_id)
        return _WRONG_WORDS[lie]

    def find(self, token: str, /) -> Any:
        """The id of the newest job that was submitted with this token, or None.

        Args:
            token: of the submission.
        """
        with self._called("find"):
            job = self._with_token(token)
            self._log("find", job)
            lie = None if job is None else self._lie("find", "misses")
        return None if job is None or lie else job.id

    def find_jobs(self, slot: str, /) -> dict[str, Any]:
        """The newest job's id for each token that begins with the slot, by token. Jobs that have ended are included.

        Args:
            slot: the first 16 digits of the tokens.
        """
        with self._called("find_jobs"):
            found = {
                job.token: job.id
                for job in self.jobs
                if job.token is not None and str(job.token).startswith(slot) and not job.forgotten
            }
            self._log("find_jobs", None)
            lie = self._lie("find_jobs", "misses") if found else None
        return {} if lie else found

    def cancel(self, external_id: Any, /) -> None:
        """Cancel a job: its state is `CANCELLING` once, then `CANCELLED`. One that has ended does not change.

        Args:
            external_id: of the job.

        Raises:
            UnknownJobError: as in `status`.
        """
        with self._called("cancel", is_effect=True):
            job = self._job(external_id)
            self._log("cancel", job)
            if job.is_alive:
                job.states = ["CANCELLING", CANCELLED]

    def result(self, external_id: Any, /) -> Any:
        """What the job returned.

        Args:
            external_id: of the job.

        Raises:
            UnknownJobError: as in `status`.
        """
        with self._called("result"):
            job = self._job(external_id)
            self._log("result", job)
        return self.results(job.id)

    def serve(self, *, port: int = 0) -> AbstractContextManager[JobsServer]:
        """Serve it over HTTP on 127.0.0.1 while a `with` block lasts: `with jobs.serve() as server: server.url`.

        The requests and answers are listed in `airflow_resume.testing.fakes.jobs_server`. The calls of clients are in
        `events`, and are not told to `observer`. An error ordered with `fail_next` is HTTP 500; a ConnectionError or
        TimeoutError is a connection closed without an answer; `server.fail_next` orders other statuses.

        Args:
            port: 0 takes a free one.

        Raises:
            OSError: the port is taken.
            TypeError: `ids` makes something other than text or integers.
        """
        return serving(self, port=port)

    # --- what a test orders -----------------------------------------------------------------------------------

    def forget(self, external_id: Any) -> None:
        """Let the job system forget this job, as after its retention.

        Args:
            external_id: of the job.
        """
        self._job(external_id).forgotten = True

    def fail_next(self, call: str, error: BaseException, *, applied: bool = False) -> None:
        """Let the next call of this name raise; with `applied`, after its work is done, as if the reply were lost.

        Args:
            call: `submit`, `status`, `find`, `find_jobs`, `cancel` or `result`.
            error: that it raises.
            applied: the call has done its work all the same.
        """
        self._failures[call].append(_Failure(error, applied))

    def recreate_runs(self) -> None:
        """Note that the Dag runs were created again: jobs stay, and later ones have another `life`."""
        self.life += 1

    def alive(self) -> list[Any]:
        """The ids of the jobs that may still do something."""
        return [job.id for job in self.jobs if job.is_alive]

    # --- inside -----------------------------------------------------------------------------------------------

    @contextmanager
    def _called(self, call: str, *, is_effect: bool = False) -> Iterator[None]:
        observe = (self.observer if is_effect else self.read_observer) if is_observed.get() else None
        if self.observer is None and is_observed.get():
            note_unwatched(call)
        with self._lock:
            failure = self._failures[call].popleft() if self._failures[call] else None
        if observe is not None:  # without the lock, as another caller's turn may come here
            observe("before", call)
        with self._lock:
            if failure is not None and not failure.applied:
                raise failure.error
            yield
        if observe is not None:
            observe("after", call)
        if failure is not None:
            raise failure.error

    def _lie(self, call: str, *lies: str) -> str | None:
        """The wrong answer to give, or None."""
        if self.liar is None or not is_observed.get():
            return None
        return self.liar(call, lies)

    def _log(self, call: str, job: FakeJob | None) -> None:
        self.events.append(JobEvent(call, None if job is None else job.id))

    def _with_token(self, token: str | None) -> FakeJob | None:
        return next((job for job in reversed(self.jobs) if job.token == token and not job.forgotten), None)

    def _job(self, external_id: Any) -> FakeJob:
        for job in self.jobs:
            if job.id == external_id and not job.forgotten:
                return job
        raise UnknownJobError(external_id)
