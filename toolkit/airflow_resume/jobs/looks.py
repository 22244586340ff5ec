"""Where a job is waited for, and what follows a look at it if the task waits by rescheduling itself. Pure.

A look is one process of the task: it asks once for the status of the job. Between two looks there is no process.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum

from airflow_resume.errors import UsageError
from airflow_resume.jobs.policy import PollPolicy, ResumePolicy


class Place(Enum):
    """Where a job is waited for."""

    WORKER = "worker"
    """In this process."""
    TRIGGERER = "triggerer"
    """By a trigger, which the operator makes."""
    RESCHEDULE = "reschedule"
    """Nowhere: this process ends, and another one of the same try looks again."""
    WORKER_INSTEAD = "worker, as nobody would start a script again"
    """In this process, although the policy is "reschedule"."""
    TWO_PLACES = "refused: deferrable too"
    OWN_WAIT = "refused: a wait of its own"
    NOT_KEPT = "refused: the record is not kept"


@dataclass(frozen=True, kw_only=True)
class WaitFacts:
    """What the place depends on, besides the policy.

    Args:
        defers: the operator is deferrable and makes a trigger.
        waits_by_itself: the operator or the client has a way of waiting of its own.
        is_kept: the record outlives this process.
        is_task: Airflow runs this, and starts a task again that reschedules itself.
    """

    defers: bool = False
    waits_by_itself: bool = False
    is_kept: bool = True
    is_task: bool = True


def place_of_wait(facts: WaitFacts, policy: ResumePolicy) -> Place:
    """Where the job is waited for."""
    if policy.wait == "worker":
        return Place.TRIGGERER if facts.defers else Place.WORKER
    if facts.defers:
        return Place.TWO_PLACES
    if facts.waits_by_itself:
        return Place.OWN_WAIT
    if not facts.is_task:
        return Place.WORKER_INSTEAD
    return Place.RESCHEDULE if facts.is_kept else Place.NOT_KEPT


_REFUSED = {
    Place.TWO_PLACES: (
        "deferrable=True has {who} wait in the triggerer, and wait='reschedule' without any process.",
        "Set deferrable=False, or leave `wait` out of the policy.",
    ),
    Place.OWN_WAIT: (
        "wait='reschedule' ends the process of the task between two questions, and {who} waits in a way of its own.",
        "Remove its poll_until_complete (a client: its `wait`), use a job_trigger, or leave `wait` out of the policy.",
    ),
    Place.NOT_KEPT: (
        "wait='reschedule' ends the process of the task, and the record of the job of {who} is lost with it.",
        "Use durable=True and no MemoryStore, or leave `wait` out of the policy.",
    ),
}


def refuse(place: Place, *, who: str) -> None:
    """Raise the error for what cannot work.

    Raises:
        UsageError: the policy contradicts what `who` is.
    """
    if place in _REFUSED:
        what, remedy = _REFUSED[place]
        raise UsageError(what.format(who=who), remedy)


# --- after a look -----------------------------------------------------------------------------------------------


class AfterLook(Enum):
    """What follows a look at a job that has not ended."""

    COME_BACK = "come back"
    FAIL_TIMEOUT = "fail: poll.timeout"
    FAIL_UNKNOWN = "fail: unknown for too long"
    FAIL_UNANSWERED = "fail: not answered too often"


@dataclass(frozen=True, kw_only=True)
class LookFacts:
    """What a look has found.

    Args:
        waited: since this try began to wait.
        unknown_for: how long the status has been unknown; None if it is known, or if there was no answer.
        unanswered: how many questions in a row have failed with a transient error, this one included.
    """

    waited: timedelta
    unknown_for: timedelta | None = None
    unanswered: int = 0


def after_look(facts: LookFacts, policy: ResumePolicy) -> AfterLook:
    """What follows. As in a worker, the error of the question matters most, and then the unknown status."""
    if facts.unanswered >= policy.poll.max_consecutive_errors:
        return AfterLook.FAIL_UNANSWERED
    if facts.unknown_for is not None and facts.unknown_for >= policy.unknown_timeout:
        return AfterLook.FAIL_UNKNOWN
    if policy.poll.timeout is not None and facts.waited >= policy.poll.timeout:
        return AfterLook.FAIL_TIMEOUT
    return AfterLook.COME_BACK


MOST_SECONDS_HELD = 15
"""The longest pause within a look: its process holds a worker slot meanwhile."""


def within_a_look(policy: ResumePolicy) -> ResumePolicy:
    """The policy of the questions that one look asks again itself, such as whether a job has really failed.

    The pauses between looks may be hours, and these pauses may not.
    """
    most = timedelta(seconds=MOST_SECONDS_HELD)
    poll = replace(
        policy.poll, interval=min(policy.poll.interval, most), max_interval=min(policy.poll.max_interval, most)
    )
    return replace(policy, poll=poll)


def pause_after(waited: timedelta, policy: PollPolicy, *, shortest: timedelta, chance: float) -> timedelta:
    """The pause until the next look, computed from the time waited so far, so that no number of looks is kept.

    If each pause is `backoff` times the previous one and they sum up to `waited`, then the next one is
    `interval + (backoff - 1) * waited`.

    Args:
        waited: since this try began to wait.
        policy: its interval, backoff, max_interval and jitter.
        shortest: no pause is shorter.
        chance: a random number in [0, 1), for the jitter.
    """
    # Compared as numbers: a backoff may be too large for a timedelta.
    grown = policy.interval.total_seconds() + (policy.backoff - 1) * waited.total_seconds()
    seconds = min(grown, policy.max_interval.total_seconds())
    return timedelta(seconds=max(seconds, shortest.total_seconds()) * (1 + policy.jitter * chance))
