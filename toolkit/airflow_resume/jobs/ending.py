"""Why an attempt ends before its job does, and whether the job goes with it.

Airflow calls `on_kill` alike when a person marks the task failed, when the worker is shut down for a deploy, and when
another attempt has taken over. It gives no reason, but one can be had: by whether this attempt still sees its own
record, and by the state that the task instance has in Airflow. Only for some reasons is the job the task's to cancel.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowTaskTimeout, TaskDeferralTimeout

from airflow_resume.channel import Channel
from airflow_resume.errors import JobWaitTimeoutError, SupersededError

if TYPE_CHECKING:
    from airflow_resume.jobs.policy import ResumePolicy

log = logging.getLogger(__name__)

ANSWER_SECONDS = 3.0
"""How long a killed attempt asks for the reason. Airflow kills it for good some five seconds later."""


class Ending(str, Enum):
    """Why an attempt ends before its job."""

    USER = "user"
    """A person marked the task failed or successful."""
    CLEARED = "cleared"
    """A person cleared the task while it ran."""
    SHUTDOWN = "shutdown"
    """The worker goes: a deploy, a spot reclaim, a drained node."""
    TIMEOUT = "timeout"
    """`execution_timeout`, or `poll.timeout`."""
    FAILURE = "failure"
    """The attempt raised something else."""
    REPLACED = "replaced"
    """Another attempt has taken over, and the job is that one's now."""
    UNKNOWN = "unknown"
    """It could not be learned in time."""


@dataclass(frozen=True, kw_only=True)
class KillFacts:
    """All that can be known about a kill.

    Args:
        timed_out: `AirflowTaskTimeout` is being handled.
        record_visible: this attempt still reads the record that it wrote; None when it wrote none, or got no answer.
        task_state: of the task instance in Airflow; None when that could not be learned.
    """

    timed_out: bool = False
    record_visible: bool | None = None
    task_state: str | None = None


_MARKED = {"success", "failed", "skipped", "upstream_failed", "removed"}


def ending_of_kill(facts: KillFacts) -> Ending:
    """Why `on_kill` was called."""
    if facts.timed_out:
        return Ending.TIMEOUT
    if facts.task_state is None:
        return Ending.UNKNOWN
    if facts.task_state == "restarting":  # cleared while running; no successor has started yet
        return Ending.CLEARED
    if facts.record_visible is False:
        return Ending.REPLACED
    if facts.task_state in _MARKED:
        return Ending.USER
    return Ending.SHUTDOWN if facts.record_visible and facts.task_state == "running" else Ending.UNKNOWN


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


def learn_about_kill(
    channel: Channel, *, ask_state: Callable[[], str | None], sees_record: Callable[[], bool | None]
) -> KillFacts:
    """Ask, in a signal handler: on the channel, which a main thread that was interrupted in a call does not hold up."""
    if isinstance(sys.exc_info()[1], AirflowTaskTimeout):
        return KillFacts(timed_out=True)
    try:
        visible, state = channel.submit(lambda: (sees_record(), ask_state())).result(timeout=ANSWER_SECONDS)
    except Exception as error:  # noqa: BLE001  whatever it is, the reason is not known
        log.warning("Why this task is being ended could not be learned: %r", error)
        return KillFacts()
    return KillFacts(record_visible=visible, task_state=state)
