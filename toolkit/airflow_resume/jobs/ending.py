"""Why an attempt ends before its job, and whether the job is then cancelled.

How the reason of a kill is learned is in `airflow_resume.killed`.

CONTRIBUTING.md lists what to change for another reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_resume.compat import AirflowTaskTimeout, TaskDeferralTimeout
from airflow_resume.errors import JobWaitTimeoutError, SupersededError
from airflow_resume.killed import ANSWER_SECONDS, MARKED, Ending, KillFacts, ending_of_kill, learn_about_kill

if TYPE_CHECKING:
    from airflow_resume.jobs.policy import ResumePolicy

__all__ = [
    "ANSWER_SECONDS",
    "DELETED",
    "Ending",
    "KillFacts",
    "ending_of_error",
    "ending_of_kill",
    "ending_of_trigger",
    "goes_with_it",
    "learn_about_kill",
]


def ending_of_error(error: BaseException) -> Ending:
    """Why the attempt ends, if it ends with this error."""
    if isinstance(error, (JobWaitTimeoutError, AirflowTaskTimeout, TaskDeferralTimeout)):
        return Ending.TIMEOUT
    return Ending.REPLACED if isinstance(error, SupersededError) else Ending.FAILURE


DELETED = "deleted"
"""The state that stands for a task instance that does not exist in Airflow any more."""
_NOT_ENDED = {"deferred", "up_for_retry", "up_for_reschedule"}
"""States in which another triggerer has the trigger now, or in which a later attempt will wait for the job."""


def ending_of_trigger(state: str | None, *, is_due: bool = False) -> Ending:
    """Why Airflow has taken a trigger away.

    Args:
        state: of its task in Airflow; None when that could not be learned.
        is_due: the deferral may just have timed out. If the clock here is slow, that would look like a clear.
    """
    if state is None:
        return Ending.UNKNOWN
    if state in _NOT_ENDED:
        return Ending.REPLACED
    if state in MARKED or state == DELETED:
        return Ending.USER
    return Ending.TIMEOUT if is_due else Ending.CLEARED


def goes_with_it(ending: Ending, policy: ResumePolicy, *, final: bool) -> bool:
    """Whether the job is cancelled. `final`: whether there will be no further attempt."""
    final_failure = final and "final_failure" in policy.cancel_on
    match ending:
        case Ending.USER | Ending.SHUTDOWN:
            return ending.value in policy.cancel_on
        case Ending.CLEARED:  # a clear that is treated like a retry leaves the job to the next attempt
            return "user" in policy.cancel_on and policy.on_clear == "resubmit"
        case Ending.TIMEOUT:
            return ending.value in policy.cancel_on or final_failure
        case Ending.FAILURE:
            return final_failure
        case Ending.REPLACED | Ending.UNKNOWN:
            return False
