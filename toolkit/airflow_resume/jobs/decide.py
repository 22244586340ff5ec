"""The decision: from what is known about a job to the next step. Pure, total, and the only place that decides.

The shell (`run.py`) asks `decide`, takes the step, adds what it learned to the facts, and asks again, until a step
ends the attempt. So two rows such as "look it up" and "adopt it" are two questions, not one function with a detour.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from airflow_resume.jobs.policy import ResumePolicy


class JobStatus(str, Enum):
    """What a job system can say about a job."""

    ACTIVE = "active"
    """Queued or running."""
    CANCELLING = "cancelling"
    """Being stopped; it may still do something."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """Ended without success, cancelled included."""
    GONE = "gone"
    """The job system does not know the id (any more)."""
    UNKNOWN = "unknown"
    """No telling. Never treated as failed."""

    @property
    def is_terminal(self) -> bool:
        """Whether the job will never do anything again."""
        return self in {JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.GONE}


class Phase(str, Enum):
    """How far the record of a job has come."""

    INTENT = "intent"
    """About to submit; the job may or may not exist."""
    SUBMITTED = "submitted"
    """The id is known."""
    TERMINAL = "terminal"
    """Known to have ended, or never created."""


class Lookup(Enum):
    """What looking the token up has brought."""

    NOT_ASKED = "not asked"
    FOUND = "found"
    MISSING = "missing"


class Step(str, Enum):
    """What to do next. The value is how the log names it."""

    LOOK_UP = "look up"
    ADOPT = "adopt"
    ASK_STATUS = "ask status"
    SUBMIT = "submit"
    """A new generation with a new token."""
    SUBMIT_AGAIN = "submit again"
    """The same generation with the same token."""
    RECONNECT = "reconnect"
    """Wait for a job that is wanted."""
    CANCEL = "cancel"
    WAIT_FOR_END = "wait for the end"
    """Wait for a job that is not wanted, so that there are never two."""
    FETCH_RESULT = "fetch result"
    RETURN_SAVED = "done"
    FAIL_LOST = "fail: submission lost"
    FAIL_JOB = "fail: job failed"
    FAIL_JOB_FOR_GOOD = "fail: job failed, no other allowed"
    FAIL_GONE = "fail: job gone"
    FAIL_INPUTS = "fail: inputs changed"
    FAIL_VANISHED = "fail: job vanished"
    FAIL_STOPPED = "fail: task stopped"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All that a decision depends on.

    Args:
        phase: of the record; None when there is none.
        has_id: the record has the id of a job.
        saved_success: the record says the job succeeded; `saved_result`: and keeps what it returned.
        cleared: the task was cleared since the record was written. inputs_changed: they differ from the job's.
        can_find, can_cancel, is_idempotent: what the job system offers.
        lookup: what looking the token up has brought in this attempt.
        status: what the job system says in this attempt; None when it was not asked.
        own: this attempt submitted the job or waited for it, so how it ended is how the attempt ends.
        cancelled: this attempt has asked for the job to be cancelled.
        stopped: this attempt is being ended from outside, and the policy is that its job goes too.
    """

    phase: Phase | None = None
    has_id: bool = False
    saved_success: bool = False
    saved_result: bool = False
    cleared: bool = False
    inputs_changed: bool = False
    can_find: bool = False
    can_cancel: bool = False
    is_idempotent: bool = False
    lookup: Lookup = Lookup.NOT_ASKED
    status: JobStatus | None = None
    own: bool = False
    cancelled: bool = False
    stopped: bool = False


def decide(facts: Facts, policy: ResumePolicy) -> Step:
    """The next step."""
    if facts.stopped:
        return _stopped(facts)
    if _must_not_change(facts, policy):
        return Step.FAIL_INPUTS
    match facts.phase:
        case None:
            return Step.SUBMIT
        case Phase.INTENT:
            return _after_intent(facts, policy)
        case Phase.SUBMITTED:
            return _unwanted(facts) if is_unwanted(facts, policy) else _wanted(facts, policy)
        case Phase.TERMINAL:
            return _after_end(facts, policy)


def _stopped(facts: Facts) -> Step:
    """Nothing may be submitted any more, and what was submitted a moment ago must not be left behind."""
    lives = facts.phase is Phase.SUBMITTED and (facts.status is None or not facts.status.is_terminal)
    return Step.CANCEL if lives and facts.can_cancel and not facts.cancelled else Step.FAIL_STOPPED


def is_unwanted(facts: Facts, policy: ResumePolicy) -> bool:
    """Whether the job on record is not the one whose result this attempt is after."""
    return (facts.cleared and policy.on_clear == "resubmit") or (
        facts.inputs_changed and policy.on_input_change == "resubmit"
    )


def _must_not_change(facts: Facts, policy: ResumePolicy) -> bool:
    there_is_a_job = facts.phase is not None and (facts.has_id or facts.phase is Phase.INTENT)
    changed = facts.inputs_changed and policy.on_input_change == "fail"
    return changed and there_is_a_job and not is_unwanted(facts, policy)


def _after_intent(facts: Facts, policy: ResumePolicy) -> Step:
    """A job may exist whose id nobody saved."""
    if facts.can_find:
        # A job that is found is dealt with as a known one; one that is missing and unwanted needs no second life.
        missing = Step.SUBMIT if is_unwanted(facts, policy) else Step.SUBMIT_AGAIN
        return {Lookup.NOT_ASKED: Step.LOOK_UP, Lookup.FOUND: Step.ADOPT, Lookup.MISSING: missing}[facts.lookup]
    if facts.is_idempotent:
        return Step.SUBMIT_AGAIN
    return Step.FAIL_LOST if policy.on_lost_submission == "fail" else Step.SUBMIT


def _wanted(facts: Facts, policy: ResumePolicy) -> Step:
    """The id of a job is known, and its result is what this attempt is after."""
    match facts.status:
        case None:
            return Step.ASK_STATUS
        case JobStatus.ACTIVE | JobStatus.UNKNOWN:
            return Step.RECONNECT
        case JobStatus.CANCELLING:
            return Step.WAIT_FOR_END
        case JobStatus.SUCCEEDED:
            return Step.FETCH_RESULT
        case JobStatus.FAILED:
            return _failed(facts, policy)
        case JobStatus.GONE:
            return _gone(facts, policy)


def _failed(facts: Facts, policy: ResumePolicy) -> Step:
    if policy.on_failed_job == "fail":
        return Step.FAIL_JOB_FOR_GOOD
    return Step.FAIL_JOB if facts.own else Step.SUBMIT


def _gone(facts: Facts, policy: ResumePolicy) -> Step:
    if policy.on_gone_job == "fail":
        return Step.FAIL_GONE
    # A job system may not know for a moment what it accepted a moment ago: leave that to the next attempt.
    return Step.FAIL_VANISHED if facts.own else Step.SUBMIT


def _unwanted(facts: Facts) -> Step:
    """The id of a job is known, and it must have ended before another one starts."""
    if facts.status is None:
        return Step.ASK_STATUS
    if facts.status.is_terminal:
        return Step.SUBMIT
    may_cancel = facts.can_cancel and not facts.cancelled and facts.status is not JobStatus.CANCELLING
    return Step.CANCEL if may_cancel else Step.WAIT_FOR_END


def _after_end(facts: Facts, policy: ResumePolicy) -> Step:
    if is_unwanted(facts, policy) or not facts.has_id:
        return Step.SUBMIT
    if facts.saved_success:
        return Step.RETURN_SAVED if facts.saved_result else Step.FETCH_RESULT
    return _failed(facts, policy)
