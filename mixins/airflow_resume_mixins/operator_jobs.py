"""The hooks of an operator, as the job system that the engine talks to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_resume.jobs import JobStatus
from airflow_resume.jobs.protocol import checked_status, classify_word
from airflow_resume.shown import short_repr

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context
    from pydantic import JsonValue

    from airflow_resume_mixins.resumable_job import ResumableJobMixin

_ATTRIBUTES = (
    "submission_is_idempotent",
    "job_not_found",
    "transient_errors",
    "refused_errors",
    "ambiguous_errors",
)


class OperatorJobs:
    """The hooks of an operator as a `Jobs` object. It has a method only if the operator has the hook for it.

    It reads private attributes of the operator, because public ones might hide hooks of the operator itself.
    """

    def __init__(self, operator: ResumableJobMixin, context: Context) -> None:
        self._operator = operator
        self._context = context
        self.wait_means_success = operator._waits_by_itself  # noqa: SLF001
        for ours, theirs in (("find", "find_job"), ("find_jobs", "find_jobs"), ("cancel", "cancel_job")):
            if (hook := getattr(operator, theirs, None)) is not None:
                setattr(self, ours, lambda value, hook=hook: hook(value, self._context))
        self.cancels_by_on_kill = not hasattr(self, "cancel") and operator._has_own_on_kill  # noqa: SLF001
        if self.cancels_by_on_kill:
            self.cancel = lambda _external_id: operator._end_job_by_own_on_kill()  # noqa: SLF001
        for name in _ATTRIBUTES:
            if (declared := getattr(operator, name, None)) is not None:
                setattr(self, name, declared)

    def submit(self, _token: str) -> JsonValue:
        """Submit; the operator has the token as `submission_token`."""
        return self._operator.submit_job(self._context)

    def notes(self) -> Any:
        """What the operator keeps about the job that it has just submitted."""
        noted = getattr(self._operator, "job_notes", None)
        return None if noted is None else noted()

    def status(self, external_id: JsonValue) -> JobStatus:
        """The status of the job, by the operator's own hooks."""
        status = self._operator.get_job_status(external_id, self._context)
        if isinstance(status, JobStatus):
            return status
        if self._operator.is_job_active(status):
            return JobStatus.ACTIVE
        if self._operator.is_job_succeeded(status):
            return JobStatus.SUCCEEDED
        classify = getattr(self._operator, "classify_job_status", None)
        own = None if classify is None else classify(status)
        return (
            _classify_end(status)
            if own is None
            else checked_status(own, where=f"classify_job_status({short_repr(status)})")
        )

    def wait(self, external_id: JsonValue) -> None:
        """Wait as the operator does."""
        self._operator.poll_until_complete(external_id, self._context)

    def result(self, external_id: JsonValue) -> Any:
        """What the job returned."""
        return self._operator.get_job_result(external_id, self._context)

    def replay(self, external_id: JsonValue) -> Any:
        """The result of the job, fetched with the hooks as in a first attempt.

        The hooks may push XComs and keep the id on the operator. Both are lost when Airflow tries again.
        """
        self._operator.get_job_status(external_id, self._context)
        return self.result(external_id)


def _classify_end(status: Any) -> JobStatus:
    """The meaning of a status that is neither active nor succeeded, such as Databricks' "TERMINATED:FAILED".

    Our lists are used only for the words that mean an end. The operator knows which words mean active or succeeded.
    """
    for part in status.split(":") if isinstance(status, str) else (status,):
        word = JobStatus.FAILED if str(part).upper() in _SAID_OF_ANY_END else classify_word(part)
        if word in {JobStatus.FAILED, JobStatus.CANCELLING, JobStatus.GONE}:
            return word
    return JobStatus.UNKNOWN


_SAID_OF_ANY_END = {"EXPIRED", "SKIPPED", "STOPPED", "TERMINATED"}
"""Words that mean a failure here, because the operator has already said that they do not mean success."""
