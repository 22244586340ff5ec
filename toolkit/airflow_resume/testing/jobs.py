"""`FakeJobs`: a job system in memory, with every trouble that real ones make, on order."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

if TYPE_CHECKING:
    from airflow_resume.testing.jobs_server import JobsServer

CANCELLED = "CANCELLED"

_WORDS_OF_AN_END = """
succeeded success successful complete completed done finished ok
failed failure error errored aborted cancelled canceled crashed dead internalerror killed timeout timedout
gone notfound missing
"""
_ENDED = frozenset(_WORDS_OF_AN_END.split())
_WRONG_WORDS = {"unheard_of": "UNHEARD_OF", "active_again": "RUNNING", "failed": "FAILED"}

_is_observed: ContextVar[bool] = ContextVar("_is_observed", default=True)


@contextmanager
def unobserved() -> Iterator[None]:
    """What this thread asks of any `FakeJobs` in the block is not told to its observer."""
    before = _is_observed.set(False)
    try:
        yield
    finally:
        _is_observed.reset(before)


class UnknownJobError(LookupError):
    """The job system does not know this id."""


@dataclass(kw_only=True)
class FakeJob:
    """One job.

    Args:
        states: what it says when it is asked, one after the other; the last one stays.
        life: of the Dag run in which it was submitted: how often the run had been deleted and made again before.
    """

    id: Any
    token: str | None
    states: list[str]
    forgotten: bool = False
    life: int = 0

    @property
    def state(self) -> str:
        """What it says when it is asked next."""
        return self.states[0]

    @property
    def is_alive(self) -> bool:
        """Whether it may still do something: its word is none of those for an end."""
        word = str(getattr(self.state, "value", self.state)).lower()
        return word.replace("_", "").replace("-", "").replace(" ", "") not in _ENDED


class JobEvent(NamedTuple):
    """Something that was asked of the job system and done, such as `submit job-0`."""

    call: str
    job: Any


class _Failure(NamedTuple):
    error: BaseException
    applied: bool


@dataclass(eq=False, kw_only=True)
class FakeJobs:
    """A job system in memory. It satisfies `airflow_resume.jobs.Jobs`, and serves any operator or hook as well.

    A status is one of the usual words (`RUNNING`, `SUCCEEDED`, ...). It is safe in threads.

    Args:
        scripts: the states of the first job, the second, ...; the last script serves all later ones.
        dedupes: submitting a token again gives the job that has it.
        can_find, can_cancel, can_find_by_slot: without, `find`, `cancel` or `find_jobs` are None, as in a job system
            that has none.
        ids: the id of a job, made from its number; by default `job-0`, `job-1`, ...
        results: what the jobs return; by default `{"job": id}`.

    Attributes:
        events: what was asked, in order.
        most_alive: the most jobs that were ever alive at once.
        most_alive_in_a_life: the most that were submitted in one life of their Dag run and were alive at once.
        observer: told before and after each submit and cancel: the points of the crash explorer.
        liar: asked before each answer of `status`, `find` and `find_jobs` which of some lies to tell; None: none.
        life: of the Dag runs, see `FakeJob.life`.
        read_observer: likewise of each status, find and result: points when several runs are interleaved.
    """

    observed_as: ClassVar[str] = "effect"
    job_not_found: ClassVar[type[Exception]] = UnknownJobError

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
        """What `airflow_resume` asks a job system: the same as `dedupes`."""
        return self.dedupes

    # --- what a job system offers -----------------------------------------------------------------------------

    def submit(self, token: str | None = None, /) -> Any:
        """Start a job and return its id."""
        with self._called("submit", is_effect=True):
            job = (self._with_token(token) if self.dedupes else None) or self._start(token)
            self._log("submit", job)
        return job.id

    def status(self, external_id: Any, /) -> str:
        """The state of a job, which then moves on to the next one of its script.

        The crash explorer's kind `"wrong_once"` has it say once that the job is `gone` (this raises), something
        `unheard_of`, that a living job has `failed`, or that an ended one is `active_again`; `find` and `find_jobs`
        then find nothing (`misses`). The script does not move on.

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
        """The id of the newest job that was submitted with this token, or None."""
        with self._called("find"):
            job = self._with_token(token)
            self._log("find", job)
            lie = None if job is None else self._lie("find", "misses")
        return None if job is None or lie else job.id

    def find_jobs(self, slot: str, /) -> dict[str, Any]:
        """The ids of all jobs whose token begins with the slot, ended ones included, by token: the newest of each."""
        with self._called("find_jobs"):
            found = {job.token: job.id for job in self.jobs if job.token is not None and self._is_of(job, slot)}
            self._log("find_jobs", None)
            lie = self._lie("find_jobs", "misses") if found else None
        return {} if lie else found

    def cancel(self, external_id: Any, /) -> None:
        """Ask for the end of a job: it says `CANCELLING` once, then `CANCELLED`. One that has ended stays as it is.

        Raises:
            UnknownJobError: as for `status`.
        """
        with self._called("cancel", is_effect=True):
            job = self._job(external_id)
            self._log("cancel", job)
            if job.is_alive:
                job.states = ["CANCELLING", CANCELLED]

    def result(self, external_id: Any, /) -> Any:
        """What the job returned.

        Raises:
            UnknownJobError: as for `status`.
        """
        with self._called("result"):
            job = self._job(external_id)
            self._log("result", job)
        return self.results(job.id)

    def serve(self, *, port: int = 0) -> AbstractContextManager[JobsServer]:
        """Serve it over HTTP on 127.0.0.1 while a `with` block lasts: `with jobs.serve() as server: server.url`.

        The requests and answers are listed in `airflow_resume.testing.jobs_server`. The calls of clients are in
        `events`, and are not told to `observer`. An error ordered with `fail_next` is HTTP 500; a ConnectionError or
        TimeoutError is a connection closed without an answer; `server.fail_next` orders other statuses.

        Args:
            port: 0 takes a free one.

        Raises:
            OSError: the port is taken.
        """
        from airflow_resume.testing.jobs_server import serving

        return serving(self, port=port)

    # --- what a test orders -----------------------------------------------------------------------------------

    def forget(self, external_id: Any) -> None:
        """From now on the job system does not know this job, as after its retention."""
        self._job(external_id).forgotten = True

    def fail_next(self, call: str, error: BaseException, *, applied: bool = False) -> None:
        """The next call of this name raises; `applied`: after it has done its work, as when the reply is lost."""
        self._failures[call].append(_Failure(error, applied))

    def recreate_runs(self) -> None:
        """The Dag runs are made again: jobs stay as they are, and those submitted from now on are of another life."""
        self.life += 1

    def alive(self) -> list[Any]:
        """The ids of the jobs that may still do something."""
        return [job.id for job in self.jobs if job.is_alive]

    # --- inside -----------------------------------------------------------------------------------------------

    @contextmanager
    def _called(self, call: str, *, is_effect: bool = False) -> Iterator[None]:
        observe = (self.observer if is_effect else self.read_observer) if _is_observed.get() else None
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
        """Which of the lies the answer is."""
        if self.liar is None or not _is_observed.get():
            return None
        return self.liar(call, lies)

    def _log(self, call: str, job: FakeJob | None) -> None:
        self.events.append(JobEvent(call, None if job is None else job.id))

    def _start(self, token: str | None) -> FakeJob:
        number = len(self.jobs)
        script = self.scripts[min(number, len(self.scripts) - 1)]
        self.jobs.append(FakeJob(id=self.ids(number), token=token, states=list(script), life=self.life))
        alive = [job for job in self.jobs if job.is_alive]
        self.most_alive = max(self.most_alive, len(alive))
        self.most_alive_in_a_life = max(self.most_alive_in_a_life, sum(job.life == self.life for job in alive))
        return self.jobs[-1]

    def _is_of(self, job: FakeJob, slot: str) -> bool:
        return not job.forgotten and str(job.token).startswith(slot)

    def _with_token(self, token: str | None) -> FakeJob | None:
        return next((job for job in reversed(self.jobs) if job.token == token and not job.forgotten), None)

    def _job(self, external_id: Any) -> FakeJob:
        for job in self.jobs:
            if job.id == external_id and not job.forgotten:
                return job
        raise UnknownJobError(external_id)
