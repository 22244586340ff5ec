"""Why an attempt ends before its job does, and whether the job goes with it.

Only for some reasons is the job the task's to cancel; how the reason of a kill is learned stands in `killed`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowTaskTimeout, TaskDeferralTimeout

from airflow_resume.errors import JobWaitTimeoutError, SupersededError
from airflow_resume.killed import ANSWER_SECONDS, Ending, KillFacts, ending_of_kill, learn_about_kill

if TYPE_CHECKING:
    from airflow_resume.jobs.policy import ResumePolicy

__all__ = [
    "ANSWER_SECONDS",
    "Ending",
    "KillFacts",
    "ending_of_error",
    "ending_of_kill",
    "goes_with_it",
    "learn_about_kill",
]


def ending_of_error(error: BaseException) -> Ending:
    """What an error of the attempt means for its job."""
    if isinstance(error, (JobWaitTimeoutError, AirflowTaskTimeout, TaskDeferralTimeout)):
        return Ending.TIMEOUT
    return Ending.REPLACED if isinstance(error, SupersededError) else Ending.FAILURE


def goes_with_it(ending: Ending, policy: ResumePolicy, *, final: bool) -> bool:
    """Whether the job is cancelled. `final`: no further attempt will come for it."""
    final_failure = final and "final_failure" in policy.cancel_on
    match ending:
        case Ending.USER:
            return "user" in policy.cancel_on
        case Ending.CLEARED:  # a clear that is treated like a retry leaves the job to the next attempt
            return "user" in policy.cancel_on and policy.on_clear == "resubmit"
        case Ending.SHUTDOWN:
            return "shutdown" in policy.cancel_on
        case Ending.TIMEOUT:
            return "timeout" in policy.cancel_on or final_failure
        case Ending.FAILURE:
            return final_failure
        case Ending.REPLACED | Ending.UNKNOWN:
            return False
