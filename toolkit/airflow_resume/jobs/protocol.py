"""The door to a job system: what an object must have, what it may have, and reading either."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakSet

from airflow_resume import values
from airflow_resume.errors import AmbiguousStatusError
from airflow_resume.jobs.decide import JobStatus
from airflow_resume.jobs.token import SubmissionToken, is_form_of
from airflow_resume.jobs.transport import (
    ErrorMatch,
    is_interruption,
    is_not_found,
    is_passing,
    is_unknown_word,
    matches,
    was_refused,
)

if TYPE_CHECKING:
    from pydantic import JsonValue

IdT = TypeVar("IdT")
ResultT_co = TypeVar("ResultT_co", covariant=True)


class Jobs(Protocol[IdT]):
    """A job system, seen from one slot.

    It may have more, and what it has decides what can be promised:

    - `find(token) -> id | None`: looks a submission up. With it no crash leads to a second job. (An attempt that
      stalls for minutes right before its submit, and wakes when another has looked in vain, still may.)
    - `find_jobs(slot) -> {token: id}`: all jobs whose token begins with `slot` (see `SubmissionToken`), those
      that have ended included. With it a job of the slot that no record tells of is found before another is submitted.
      It serves as `find` too, where there is none.
    - `submission_is_idempotent = True`: submitting a token twice gives the same job. With it, no crash leads to a
      second job either.
    - `cancel(id)`: asks for the end of a job; when it returns, the job may still be ending.
    - `wait(id)`: blocks until the job has ended, in a way of its own; the status is asked afterwards all the same.
    - `result(id)`: what `run_job` returns; without it the id is returned.
    - `classify(status) -> JobStatus | None`: for statuses in words of your own; it is asked about every status, and
      leaves those that it returns None for to the usual words.
    - `replay(id)`: asked instead of the saved result when the job succeeded in an earlier attempt, for what
      fetching a result leaves behind besides it; should it raise, the saved result is returned.
    - `job_not_found`, `transient_errors`, `refused_errors`, `ambiguous_errors`: exception types, or a predicate. A
      status question that raises the first means GONE (default: HTTP 404 or 410, unless the body is HTML, as from a
      proxy), one that raises the second is asked again (default: a broken connection). A submit that raises the third
      has created nothing for certain (in any case: a refused connection, a name that is not resolved, and HTTP 4xx
      except 408, 409, 423, 425 and 429); the fourth takes from these what is not certain after all.
    """

    def submit(self, token: str, /) -> IdT:
        """Start a job and return its id, any JSON value but None. Hand the token on if the system takes one."""
        ...

    def status(self, external_id: IdT, /) -> JobStatus | str:
        """How the job is: a `JobStatus`, or one of the usual words for it (`RUNNING`, `SUCCEEDED`, ...)."""
        ...


class JobsWithResult(Jobs[IdT], Protocol[IdT, ResultT_co]):
    """A job system whose jobs return something."""

    def result(self, external_id: IdT, /) -> ResultT_co:
        """What the job returned. Asked once the job has succeeded, possibly in several attempts."""
        ...


WORDS: Mapping[JobStatus, str] = {
    JobStatus.ACTIVE: "active accepted created executing initializing inprogress pending preparing processing "
    "provisioning queued recovering restarting runnable running scheduled starting submitted waiting",
    JobStatus.CANCELLING: "cancelling canceling stopping terminating",
    JobStatus.SUCCEEDED: "succeeded success successful ok",
    JobStatus.FAILED: "failed failure error errored aborted cancelled canceled crashed dead "
    "expired internalerror killed rejected timeout timedout",
    JobStatus.GONE: "gone notfound missing",
}
"""The usual words for a status, in lower case and without signs in between."""

ENDED_SOMEHOW = frozenset({"complete", "completed", "done", "ended", "finished", "terminated"})
"""Said of a job that has ended, by some systems only of successful ones and by others of failed ones too."""

_STATUS_OF_WORD = {word: status for status, words in WORDS.items() for word in words.split()}


def plain_word(status: object) -> str:
    """A status as it stands in the lists of words."""
    word = str(getattr(status, "value", status)).lower()
    return word.replace("_", "").replace("-", "").replace(" ", "")


def classify_word(status: object) -> JobStatus:
    """The status a usual word stands for, in any case and spelling; UNKNOWN for every other."""
    return _STATUS_OF_WORD.get(plain_word(status), JobStatus.UNKNOWN)


def checked_status(given: Any, *, where: str) -> JobStatus:
    """A status that an author has given: one of ours, or one of the usual words for it."""
    try:
        return JobStatus(given)
    except ValueError:
        if (status := _STATUS_OF_WORD.get(plain_word(given))) is not None:
            return status
        choices = ", ".join(repr(status.value) for status in JobStatus)
        raise ValueError(f"{where} is {given!r}, which is not a status.\nTake one of {choices}.") from None


_METHODS = ("submit", "status", "find", "find_jobs", "cancel", "wait", "result", "classify")
_MATCHES = ("job_not_found", "transient_errors", "refused_errors", "ambiguous_errors")


_checked: WeakSet[type] = WeakSet()
"""Classes of which an object was looked at already."""


def _check(jobs: Any) -> None:
    """Refuse what could not work, before anything is claimed or submitted.

    Raises:
        TypeError: naming the method or attribute.
    """
    # What an operator declares stands on the object that stands for it, and not on its class.
    if type(jobs) in _checked and not getattr(jobs, "__dict__", {}).keys() & set(_MATCHES):
        return
    if isinstance(jobs, type):
        raise TypeError(f"{jobs.__name__} is a class.\nPass an object: {jobs.__name__}(...).")
    for name in ("submit", "status"):
        if not callable(getattr(jobs, name, None)):
            raise TypeError(f"{type(jobs).__name__} has no method {name!r}.\nIt needs submit(token) and status(id).")
    for name in _METHODS:
        if inspect.iscoroutinefunction(getattr(jobs, name, None)):
            raise TypeError(
                f"{type(jobs).__name__}.{name} is a coroutine function, and nobody would await it.\nCall"
                f" arun_job in an `async def` task, or make the method a plain one."
            )
    for name in _MATCHES:
        declared = getattr(jobs, name, None)
        if declared is not None and not (isinstance(declared, tuple) or callable(declared)):
            raise TypeError(
                f"{name} is {declared!r}.\nMake it an exception type, a tuple of them, or a function of the exception."
            )
    if callable(getattr(jobs, "submission_is_idempotent", None)):
        raise TypeError("submission_is_idempotent is a function.\nMake it True or False.")
    _checked.add(type(jobs))


class JobSystem:
    """Any `Jobs` object, with what it may leave out filled in."""

    def __init__(self, jobs: Jobs[Any], statuses: Mapping[str, JobStatus | str] | None = None) -> None:
        _check(jobs)
        self.last_word: object = None
        """What `status` has said last."""
        self._jobs = jobs
        self._statuses = {
            plain_word(word): checked_status(status, where=f"statuses[{word!r}]")
            for word, status in (statuses or {}).items()
        }
        self.can_find_jobs = self._has("find_jobs")
        self.can_find = self._has("find") or self.can_find_jobs
        self.can_cancel = self._has("cancel")
        self.has_result = self._has("result")
        self.can_replay = self._has("replay")
        self.wait_means_success = bool(getattr(jobs, "wait_means_success", False))
        self.cancels_by_on_kill = bool(getattr(jobs, "cancels_by_on_kill", False))
        self.is_idempotent = bool(getattr(jobs, "submission_is_idempotent", False))

    def _has(self, name: str) -> bool:
        return callable(getattr(self._jobs, name, None))

    def _errors(self, name: str, default: ErrorMatch) -> ErrorMatch:
        declared: ErrorMatch | None = getattr(self._jobs, name, None)
        return default if declared is None else declared

    def submit(self, token: str) -> Any:
        """Submit; the answer is what the job system gave, unchecked."""
        return self._jobs.submit(token)

    def find(self, token: str) -> JsonValue:
        """The id of the job with this token, or None."""
        if not self._has("find"):
            found = self.find_jobs(SubmissionToken(token).slot)
            return next((found[each] for each in found if is_form_of(token, each)), None)
        try:
            found = self._jobs.find(token)  # type: ignore[attr-defined]
        except Exception as error:
            if self.is_not_found(error):  # a look-up by name is often a GET that answers so
                return None
            raise
        if found is False or found in ([], {}):
            raise TypeError(f"find({token!r}) returned {found!r}.\nReturn the id of the job, or None if there is none.")
        return None if found is None else values.plain_id(found)

    def find_jobs(self, slot: str) -> dict[str, JsonValue]:
        """The ids of all jobs of a slot, by token."""
        found: Mapping[str, Any] = self._jobs.find_jobs(slot)  # type: ignore[attr-defined]
        if not isinstance(found, Mapping):
            raise TypeError(
                f"find_jobs({slot!r}) returned {type(found).__name__}.\nReturn a dict of the ids of the jobs of this"
                f" slot, by token."
            )
        return {str(token): values.plain_id(external_id) for token, external_id in found.items()}

    def is_not_found(self, error: BaseException) -> bool:
        """Whether the job system answered that it does not know the job."""
        return matches(error, self._errors("job_not_found", is_not_found))

    def cancel(self, external_id: JsonValue) -> None:
        """Ask for the end of the job."""
        self._jobs.cancel(external_id)  # type: ignore[attr-defined]

    def wait(self, external_id: JsonValue) -> None:
        """Block until the job has ended, if the job system has a way of its own."""
        if self._has("wait"):
            self._jobs.wait(external_id)  # type: ignore[attr-defined]

    def result(self, external_id: JsonValue) -> Any:
        """What the job returned."""
        return self._jobs.result(external_id) if self.has_result else external_id  # type: ignore[attr-defined]

    def replay(self, external_id: JsonValue) -> Any:
        """What a job returned that succeeded in an earlier attempt."""
        return self._jobs.replay(external_id)  # type: ignore[attr-defined]

    def status(self, external_id: JsonValue) -> JobStatus:
        """How the job is; an id that is not found is GONE, and a word that the client has not heard of is UNKNOWN."""
        try:
            said = self._jobs.status(external_id)
        except Exception as error:
            if self.is_not_found(error):
                return JobStatus.GONE
            if is_unknown_word(error):
                return JobStatus.UNKNOWN
            raise
        self.last_word = getattr(said, "value", said)
        return self._classified(said)

    def _classified(self, said: Any) -> JobStatus:
        if isinstance(said, JobStatus):
            return said
        if (status := self._statuses.get(plain_word(said))) is not None:
            return status
        if self._has("classify"):
            own = self._jobs.classify(said)  # type: ignore[attr-defined]
            if own is not None:  # then it leaves the word to the usual ones
                return checked_status(own, where=f"classify({said!r})")
        if plain_word(said) in ENDED_SOMEHOW:
            raise AmbiguousStatusError(
                f"The job says {said!r}, which some systems say of successful jobs only and others of failed ones too."
                f" The job was left alone.",
                f"If it means success here, say so: run_job(..., statuses={{{str(getattr(said, 'value', said))!r}:"
                f" 'succeeded'}}). If not, write `classify(status)`, or let `status` tell success from failure.",
            )
        return classify_word(said)

    def is_transient(self, error: BaseException) -> bool:
        """Whether a status question that raised this is worth asking again."""
        return matches(error, self._errors("transient_errors", is_passing))

    def interrupts(self, error: BaseException) -> bool:
        """Whether the job system's own way of waiting raised this although nothing is known about the job."""
        return is_unknown_word(error) or matches(error, self._errors("transient_errors", is_interruption))

    def was_refused(self, error: BaseException) -> bool:
        """Whether it is certain that a submit that raised this has created no job."""
        if matches(error, self._errors("ambiguous_errors", ())):
            return False
        return was_refused(error) or matches(error, self._errors("refused_errors", ()))
