"""The door to a job system: what an object must have, what it may have, and reading either."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from airflow_resume import values
from airflow_resume.jobs.decide import JobStatus
from airflow_resume.jobs.transport import (
    ErrorMatch,
    is_interruption,
    is_not_found,
    is_passing,
    is_unknown_word,
    matches,
    may_have_been_done,
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
    - `submission_is_idempotent = True`: submitting a token twice gives the same job. With it, nothing does.
    - `cancel(id)`: asks for the end of a job; when it returns, the job may still be ending.
    - `wait(id)`: blocks until the job has ended, in a way of its own; the status is asked afterwards all the same.
    - `result(id)`: what `run_job` returns; without it the id is returned.
    - `classify(status) -> JobStatus`: for statuses in words of your own.
    - `replay(id)`: asked instead of the saved result when the job succeeded in an earlier attempt, for what
      fetching a result leaves behind besides it; should it raise, the saved result is returned.
    - `job_not_found`, `transient_errors`, `ambiguous_errors`: exception types, or a predicate. A status question
      that raises the first means GONE (default: HTTP 404 or 410, unless with a page for people, as of a proxy), one
      that raises the second is asked again (default: a broken connection); a submit that raises the third may have
      created the job all the same (default: time-outs, connections lost after sending, HTTP 5xx). Each also where
      another error was raised from it.
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


_WORDS = {
    JobStatus.ACTIVE: "active accepted created initializing pending queued recovering restarting running scheduled "
    "starting submitted waiting",
    JobStatus.CANCELLING: "cancelling canceling stopping terminating",
    JobStatus.SUCCEEDED: "succeeded success successful complete completed done finished ok",
    JobStatus.FAILED: "failed failure error errored aborted cancelled canceled crashed dead "
    "internalerror killed timeout timedout",
    JobStatus.GONE: "gone notfound missing",
}
_STATUS_OF_WORD = {word: status for status, words in _WORDS.items() for word in words.split()}


def classify_word(status: object) -> JobStatus:
    """The status a usual word stands for, in any case and spelling; UNKNOWN for every other."""
    word = str(getattr(status, "value", status)).lower().replace("_", "").replace("-", "").replace(" ", "")
    return _STATUS_OF_WORD.get(word, JobStatus.UNKNOWN)


class JobSystem:
    """Any `Jobs` object, with what it may leave out filled in."""

    def __init__(self, jobs: Jobs[Any]) -> None:
        self._jobs = jobs
        self.can_find = self._has("find")
        self.can_cancel = self._has("cancel")
        self.can_replay = self._has("replay")
        self.ends_by_on_kill = bool(getattr(jobs, "ends_by_on_kill", False))
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
        found = self._jobs.find(token)  # type: ignore[attr-defined]
        return None if found is None else values.plain_id(found)

    def cancel(self, external_id: JsonValue) -> None:
        """Ask for the end of the job."""
        self._jobs.cancel(external_id)  # type: ignore[attr-defined]

    def wait(self, external_id: JsonValue) -> None:
        """Block until the job has ended, if the job system has a way of its own."""
        if self._has("wait"):
            self._jobs.wait(external_id)  # type: ignore[attr-defined]

    def result(self, external_id: JsonValue) -> Any:
        """What the job returned."""
        return self._jobs.result(external_id) if self._has("result") else external_id  # type: ignore[attr-defined]

    def replay(self, external_id: JsonValue) -> Any:
        """What a job returned that succeeded in an earlier attempt."""
        return self._jobs.replay(external_id)  # type: ignore[attr-defined]

    def status(self, external_id: JsonValue) -> JobStatus:
        """How the job is; an id that is not found is GONE, and a word that the client has not heard of is UNKNOWN."""
        try:
            said = self._jobs.status(external_id)
        except Exception as error:
            if matches(error, self._errors("job_not_found", is_not_found)):
                return JobStatus.GONE
            if is_unknown_word(error):
                return JobStatus.UNKNOWN
            raise
        if isinstance(said, JobStatus):
            return said
        return JobStatus(self._jobs.classify(said)) if self._has("classify") else classify_word(said)  # type: ignore[attr-defined]

    def is_transient(self, error: BaseException) -> bool:
        """Whether a status question that raised this is worth asking again."""
        return matches(error, self._errors("transient_errors", is_passing))

    def interrupts(self, error: BaseException) -> bool:
        """Whether the job system's own way of waiting raised this although nothing is known about the job."""
        return is_unknown_word(error) or matches(error, self._errors("transient_errors", is_interruption))

    def is_ambiguous(self, error: BaseException) -> bool:
        """Whether a submit that raised this may have created the job all the same."""
        return matches(error, self._errors("ambiguous_errors", may_have_been_done))
