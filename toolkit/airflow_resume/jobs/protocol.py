"""The interface of a job system: the methods that an object must have, and those that it may have."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakSet

from airflow_resume import values
from airflow_resume.arguments import check_flag, check_type
from airflow_resume.errors import JobStatusUnknownError
from airflow_resume.jobs.decide import JobStatus
from airflow_resume.jobs.token import SubmissionToken, is_form_of, is_of_slot
from airflow_resume.jobs.transport import (
    ErrorMatch,
    is_interruption,
    is_not_found,
    is_passing,
    is_unknown_word,
    matches,
    was_refused,
)
from airflow_resume.shown import short_repr

if TYPE_CHECKING:
    from pydantic import JsonValue

IdT = TypeVar("IdT")
ResultT_co = TypeVar("ResultT_co", covariant=True)


class Jobs(Protocol[IdT]):
    """A job system, seen from one slot.

    It may have more methods, and these decide what is guaranteed:

    - `find(token) -> id | None`: looks a submission up. With it no crash leads to a second job. (An attempt that
      stalls for minutes right before its submit, and continues when another has found no job, still may.)
    - `find_jobs(slot) -> {token: id}`: all jobs whose token begins with `slot` (see `SubmissionToken`), including
      those that have ended. With it a job of the slot that is not on record is found before another is submitted.
      It serves as `find` too, if there is none.
    - `submission_is_idempotent = True`: submitting a token twice gives the same job. With it, no crash leads to a
      second job either.
    - `cancel(id)`: asks for a job to be cancelled; when it returns, the job may still be ending.
    - `wait(id)`: blocks until the job has ended, in a way of its own. The status is still asked after that.
    - `result(id)`: what `run_job` returns; without it the id is returned.
    - `classify(status) -> JobStatus | None`: for statuses that are not among the usual words. It is called with every
      status; for None the usual words are used.
    - `replay(id)`: called instead of returning the saved result when the job succeeded in an earlier attempt, if
      fetching a result has side effects that have to be repeated; if it raises, the saved result is returned.
    - `notes()`: called once after a submit. What it returns is written to the record together with the id, if it is
      small and of kinds that can be kept exactly.
    - `job_not_found`, `transient_errors`, `refused_errors`, `ambiguous_errors`: exception types, or a predicate. If a
      status question raises one of `job_not_found`, the job is GONE (default: HTTP 404 or 410, unless the body is HTML,
      as from a proxy). If it raises one of `transient_errors`, it is asked again (default: a broken connection). A
      submit that raises one of `refused_errors` has certainly created nothing. (These always include a refused
      connection, a host name that is not resolved, and HTTP 4xx except 408, 409, 423, 425 and 429.) `ambiguous_errors`
      are exceptions to that: after them it is not certain.
    """

    def submit(self, token: str, /) -> IdT:
        """Start a job and return its id, any JSON value except None. Pass the token on if the system accepts one.

        Args:
            token: the token of this submission: 32 hexadecimal digits, see `SubmissionToken`.
        """
        ...

    def status(self, external_id: IdT, /) -> JobStatus | str:
        """The status of the job: a `JobStatus`, or one of the usual words for it (`RUNNING`, `SUCCEEDED`, ...).

        Args:
            external_id: as `submit` or `find` returned it.
        """
        ...


class JobsWithResult(Jobs[IdT], Protocol[IdT, ResultT_co]):
    """A job system whose jobs return something."""

    def result(self, external_id: IdT, /) -> ResultT_co:
        """The result of the job. It is asked when the job has succeeded, and maybe again in a later attempt.

        Args:
            external_id: of a job that has succeeded.
        """
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
"""The usual words for a status, in lower case and without separators."""

ENDED_SOMEHOW = frozenset({"complete", "completed", "done", "ended", "finished", "terminated"})
"""Words for a job that has ended: some systems use them only for success, others for failure too."""

_STATUS_OF_WORD = {word: status for status, words in WORDS.items() for word in words.split()}


def plain_word(status: object) -> str:
    """The status in the form that the lists of words use."""
    word = str(getattr(status, "value", status)).lower()
    return word.replace("_", "").replace("-", "").replace(" ", "")


def classify_word(status: object) -> JobStatus:
    """The status that a usual word means, in any case and spelling; UNKNOWN for any other word."""
    return _STATUS_OF_WORD.get(plain_word(status), JobStatus.UNKNOWN)


def checked_status(given: Any, *, where: str) -> JobStatus:
    """A status that an author has returned: a `JobStatus`, or one of the usual words for it."""
    try:
        return JobStatus(given)
    except ValueError:
        if (status := _STATUS_OF_WORD.get(plain_word(given))) is not None:
            return status
        choices = ", ".join(repr(status.value) for status in JobStatus)
        raise ValueError(f"{where} is {short_repr(given)}, which is not a status.\nTake one of {choices}.") from None


_METHODS = ("submit", "status", "find", "find_jobs", "cancel", "wait", "result", "classify")
_MATCHES = ("job_not_found", "transient_errors", "refused_errors", "ambiguous_errors")


_checked: WeakSet[type] = WeakSet()
"""Classes of which an object has been checked."""


def check_jobs(jobs: Any) -> None:
    """Refuse an object that is no job system, before anything is claimed or submitted.

    Raises:
        TypeError: naming the method or attribute.
    """
    if isinstance(jobs, type):
        raise TypeError(f"{jobs.__name__} is a class, and jobs= needs an object.\nPass one: {jobs.__name__}(...).")
    for name in ("submit", "status"):
        if not callable(getattr(jobs, name, None)):
            raise TypeError(
                f"{type(jobs).__name__} has no method {name!r}, so it cannot be jobs=.\n"
                "It needs submit(token) and status(id)."
            )
    for name in _MATCHES:
        declared = getattr(jobs, name, None)
        if declared is not None and not _is_match(declared):
            raise TypeError(
                f"{name} is {declared!r}.\nMake it an exception type, a tuple of them, or a function of the exception."
            )
    declared = getattr(jobs, "submission_is_idempotent", None)
    if callable(declared):
        raise TypeError("submission_is_idempotent is a function.\nMake it True or False.")
    if declared is not None:
        check_flag("submission_is_idempotent", declared)


def _is_match(declared: object) -> bool:
    """Whether it can tell errors apart: see `ErrorMatch`."""
    kinds = declared if isinstance(declared, tuple) else (declared,)
    if any(isinstance(kind, type) for kind in kinds) or isinstance(declared, tuple):
        return all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds)
    return callable(declared)


def _check(jobs: Any) -> None:
    """As `check_jobs`, once for each class; and refuse coroutine functions."""
    # What an operator declares is an attribute of its OperatorJobs, and not of that class.
    if type(jobs) in _checked and not getattr(jobs, "__dict__", {}).keys() & {*_MATCHES, "submission_is_idempotent"}:
        return
    check_jobs(jobs)
    for name in _METHODS:
        if inspect.iscoroutinefunction(getattr(jobs, name, None)):
            raise TypeError(
                f"{type(jobs).__name__}.{name} is a coroutine function, and nobody would await it.\nCall"
                f" arun_job in an `async def` task, or make the method a plain one."
            )
    _checked.add(type(jobs))


class JobSystem:
    """Any `Jobs` object, with defaults for what it does not have."""

    def __init__(self, jobs: Jobs[Any], statuses: Mapping[str, JobStatus | str] | None = None) -> None:
        _check(jobs)
        if statuses is not None:
            check_type("statuses", statuses, Mapping, "a dict, such as {'DONE': 'succeeded'}")
        self.last_word: object = None
        """The last answer of `status`."""
        self._jobs = jobs
        self._statuses = {
            plain_word(word): checked_status(status, where=f"statuses[{short_repr(word)}]")
            for word, status in (statuses or {}).items()
        }
        self.can_find_jobs = self._has("find_jobs")
        self.can_find = self._has("find") or self.can_find_jobs
        self.can_cancel = self._has("cancel")
        self.has_result = self._has("result")
        self.can_replay = self._has("replay")
        self.wait_means_success = bool(getattr(jobs, "wait_means_success", False))
        self.waits_by_itself = self._has("wait") and bool(getattr(jobs, "wait_means_success", True))
        self.cancels_by_on_kill = bool(getattr(jobs, "cancels_by_on_kill", False))
        self.is_idempotent = bool(getattr(jobs, "submission_is_idempotent", False))

    def _has(self, name: str) -> bool:
        return callable(getattr(self._jobs, name, None))

    def _errors(self, name: str, default: ErrorMatch) -> ErrorMatch:
        declared: ErrorMatch | None = getattr(self._jobs, name, None)
        return default if declared is None else declared

    def submit(self, token: str) -> Any:
        """Submit a job. Returns the answer of the job system, unchecked."""
        return self._jobs.submit(token)

    def notes(self) -> Any:
        """What the client of the job system wants to keep about the job that it has just submitted."""
        return self._jobs.notes() if self._has("notes") else None  # type: ignore[attr-defined]

    def find(self, token: str) -> JsonValue:
        """The id of the job with this token, or None."""
        if not self._has("find"):
            found = self.find_jobs(SubmissionToken(token).slot)
            return next((found[each] for each in found if is_form_of(token, each)), None)
        try:
            found = self._jobs.find(token)  # type: ignore[attr-defined]
        except Exception as error:
            if self.is_not_found(error):  # a look-up by name is often a GET, with 404 for no job
                return None
            raise
        if found is False or found in ([], {}):
            raise TypeError(f"find({token!r}) returned {found!r}.\nReturn the id of the job, or None if there is none.")
        return None if found is None else values.plain_id(found)

    def find_jobs(self, slot: str) -> dict[str, JsonValue]:
        """The ids of all jobs of a slot, by token. Jobs of other slots are left out."""
        found: Mapping[str, Any] = self._jobs.find_jobs(slot)  # type: ignore[attr-defined]
        if not isinstance(found, Mapping):
            raise TypeError(
                f"find_jobs({slot!r}) returned {type(found).__name__}.\nReturn a dict from token to id, of all jobs of"
                f" this slot."
            )
        jobs = {str(token): external_id for token, external_id in found.items()}
        return {token: values.plain_id(external_id) for token, external_id in jobs.items() if is_of_slot(slot, token)}

    def is_not_found(self, error: BaseException) -> bool:
        """Whether the job system answered that it does not know the job."""
        return matches(error, self._errors("job_not_found", is_not_found))

    def cancel(self, external_id: JsonValue) -> None:
        """Ask for the job to be cancelled."""
        self._jobs.cancel(external_id)  # type: ignore[attr-defined]

    def wait(self, external_id: JsonValue) -> None:
        """Block until the job has ended, if the job system has a way of its own."""
        if self._has("wait"):
            self._jobs.wait(external_id)  # type: ignore[attr-defined]

    def result(self, external_id: JsonValue) -> Any:
        """What the job returned."""
        return self._jobs.result(external_id) if self.has_result else external_id  # type: ignore[attr-defined]

    def replay(self, external_id: JsonValue) -> Any:
        """The result of a job that succeeded in an earlier attempt."""
        return self._jobs.replay(external_id)  # type: ignore[attr-defined]

    def status(self, external_id: JsonValue) -> JobStatus:
        """The status of the job. An id that is not found is GONE; a word that the client does not know is UNKNOWN."""
        try:
            said = self._jobs.status(external_id)
        except Exception as error:
            if self.is_not_found(error):
                return JobStatus.GONE
            if is_unknown_word(error):
                return JobStatus.UNKNOWN
            raise
        self.last_word = getattr(said, "value", said)
        return self._classified(said, external_id)

    def _classified(self, said: Any, external_id: JsonValue) -> JobStatus:
        if isinstance(said, JobStatus):
            return said
        if (status := self._statuses.get(plain_word(said))) is not None:
            return status
        if self._has("classify"):
            own = self._jobs.classify(said)  # type: ignore[attr-defined]
            if own is not None:  # for None the usual words are used
                return checked_status(own, where=f"classify({short_repr(said)})")
        if plain_word(said) in ENDED_SOMEHOW:
            word = str(getattr(said, "value", said))
            raise JobStatusUnknownError(
                f"The status of the job is {short_repr(said)}. Some systems use this word only for success, others for"
                f" failure too. The job was left alone.",
                f"If it means success here, declare it: run_job(..., statuses={{{short_repr(word)}: 'succeeded'}}). If"
                " not, write `classify(status)`, or let `status` tell success from failure.",
                status=word,
                external_id=external_id,
            )
        return classify_word(said)

    def is_transient(self, error: BaseException) -> bool:
        """Whether a status question that raised this is asked again."""
        return matches(error, self._errors("transient_errors", is_passing))

    def interrupts(self, error: BaseException) -> bool:
        """Whether the job system's own way of waiting raised this for a reason other than the job."""
        return is_unknown_word(error) or matches(error, self._errors("transient_errors", is_interruption))

    def was_refused(self, error: BaseException) -> bool:
        """Whether a submit that raised this has certainly created no job."""
        if matches(error, self._errors("ambiguous_errors", ())):
            return False
        return was_refused(error) or matches(error, self._errors("refused_errors", ()))
