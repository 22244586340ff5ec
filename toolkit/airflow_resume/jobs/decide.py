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
    UNSETTLED = "unsettled"
    """Nothing yet, and the attempt had no time to ask for long enough."""


class Stray(Enum):
    """What looking for live jobs of the slot has brought, before a submit."""

    NOT_ASKED = "not asked"
    NONE = "none"
    THIS_TOKENS = "this token's"
    """A live job with the very token of this claim: an attempt of this run submitted it, and the record was lost."""
    ENDED = "ended"
    """A job with the token of this claim has ended: the record of it was lost, and the claim needs another token."""
    OURS = "ours"
    """A live job of the slot, and the deployment is known: nobody else can have submitted it."""
    SOMEBODYS = "somebody's"
    """A live job of the slot, and the deployment is not known: it may be that of another one."""


class Step(str, Enum):
    """What to do next. The value is how the log names it."""

    LOOK_UP = "look up"
    ADOPT = "adopt"
    ADOPT_STRAY = "adopt a stray"
    """Take a job down that only has to end before another one starts."""
    ASK_STATUS = "ask status"
    CONFIRM = "ask again"
    """One answer that a job is gone, or has failed, is not enough for another one."""
    REVIVE = "take back"
    """A job that was down as failed has not ended, or not like that."""
    SUBMIT = "submit"
    """Claim a new generation with a new token, and then, if nothing speaks against it, send it."""
    LOOK_FOR_STRAYS = "look for live jobs of the slot"
    SEND = "send"
    """The submit itself, of a generation that this attempt has claimed."""
    SUBMIT_AGAIN = "submit again"
    """The same generation with the same token."""
    WAIT = "wait"
    """Wait for the job that this attempt has submitted."""
    RECONNECT = "reconnect"
    """Wait for a job that an earlier attempt has submitted."""
    CANCEL = "cancel"
    WAIT_FOR_END = "wait for the end"
    """Wait for a job that is not wanted, so that there are never two."""
    GIVE_BACK = "give the slot back"
    """The worker goes: come back in the same try, by Airflow's reschedule."""
    FETCH_RESULT = "fetch result"
    RETURN_SAVED = "done"
    FAIL_LOST = "fail: submission lost"
    FAIL_STRAY = "fail: a live job of the slot"
    FAIL_JOB = "fail: job failed"
    FAIL_JOB_FOR_GOOD = "fail: job failed, no other allowed"
    FAIL_GONE = "fail: job gone"
    FAIL_INPUTS = "fail: inputs changed"
    FAIL_VANISHED = "fail: job vanished"
    FAIL_STOPPED = "fail: task stopped"
    FAIL_REPLACED = "fail: replaced"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All that a decision depends on.

    Args:
        phase: of the record; None when there is none.
        fresh: this attempt has claimed the generation, and has not sent it yet.
        lost: a record should have been there when the generation was claimed, and was not.
        has_id: the record has the id of a job.
        saved_success: the record says the job succeeded; `saved_result`: and keeps what it returned.
        cleared: the task was cleared since the record was written. inputs_changed: they differ from the job's.
            is_stray: the job was found by its slot, and is not this run's.
        can_find, can_find_strays, can_cancel, is_idempotent: what the job system offers.
        lookup: what looking the token up has brought in this attempt; stray: what looking for live jobs has.
        status: what the job system says in this attempt; None when it was not asked.
        confirmed: it has said so more than once.
        own: this attempt submitted the job or waited for it, so how it ended is how the attempt ends.
        cancelled: this attempt has asked for the job to be cancelled.
        stopped: this attempt is being ended from outside, and the policy is that its job goes too.
        replaced: this attempt knows that another one has taken over.
        leaving: the worker goes, and the policy is to come back in the same try.
    """

    phase: Phase | None = None
    fresh: bool = False
    lost: bool = False
    has_id: bool = False
    saved_success: bool = False
    saved_result: bool = False
    cleared: bool = False
    inputs_changed: bool = False
    is_stray: bool = False
    can_find: bool = False
    can_find_strays: bool = False
    can_cancel: bool = False
    is_idempotent: bool = False
    lookup: Lookup = Lookup.NOT_ASKED
    stray: Stray = Stray.NOT_ASKED
    status: JobStatus | None = None
    confirmed: bool = False
    own: bool = False
    cancelled: bool = False
    stopped: bool = False
    replaced: bool = False
    leaving: bool = False


def decide(facts: Facts, policy: ResumePolicy) -> Step:
    """The next step."""
    if facts.replaced:
        return Step.FAIL_REPLACED
    if facts.stopped:
        return _stopped(facts)
    step = _next(facts, policy)
    return Step.GIVE_BACK if facts.leaving and step in _NOT_BEGUN_WHEN_LEAVING else step


_NOT_BEGUN_WHEN_LEAVING = {
    Step.LOOK_UP,
    Step.SUBMIT,
    Step.LOOK_FOR_STRAYS,
    Step.SEND,
    Step.SUBMIT_AGAIN,
    Step.CONFIRM,
    Step.WAIT,
    Step.RECONNECT,
    Step.CANCEL,
    Step.WAIT_FOR_END,
}


def _next(facts: Facts, policy: ResumePolicy) -> Step:
    if _must_not_change(facts, policy):
        return Step.FAIL_INPUTS
    match facts.phase:
        case None:
            return Step.SUBMIT
        case Phase.INTENT:
            return _before_send(facts, policy) if facts.fresh else _after_intent(facts, policy)
        case Phase.SUBMITTED:
            return _unwanted(facts) if is_unwanted(facts, policy) else _wanted(facts, policy)
        case Phase.TERMINAL:
            return _after_end(facts, policy)


def _stopped(facts: Facts) -> Step:
    """Nothing may be submitted any more, and what was submitted a moment ago must not be left behind."""
    if facts.phase is Phase.INTENT and not facts.fresh and facts.can_find and facts.can_cancel:
        return {Lookup.NOT_ASKED: Step.LOOK_UP, Lookup.FOUND: Step.ADOPT}.get(facts.lookup, Step.FAIL_STOPPED)
    lives = facts.phase is Phase.SUBMITTED and (facts.status is None or not facts.status.is_terminal)
    return Step.CANCEL if lives and facts.can_cancel and not facts.cancelled else Step.FAIL_STOPPED


def is_unwanted(facts: Facts, policy: ResumePolicy) -> bool:
    """Whether the job on record is not the one whose result this attempt is after."""
    return (
        (facts.cleared and policy.on_clear == "resubmit")
        or (facts.inputs_changed and policy.on_input_change == "resubmit")
        or facts.is_stray
    )


def _must_not_change(facts: Facts, policy: ResumePolicy) -> bool:
    there_is_a_job = facts.phase is not None and (facts.has_id or facts.phase is Phase.INTENT)
    changed = facts.inputs_changed and policy.on_input_change == "fail"
    return changed and there_is_a_job and not is_unwanted(facts, policy)


def _before_send(facts: Facts, policy: ResumePolicy) -> Step:
    """The claim is saved. A missing record proves nothing, so live jobs of the slot are looked for first."""
    return _unless_stray(Step.SEND, facts, policy) if facts.can_find_strays else Step.SEND


def _unless_stray(step: Step, facts: Facts, policy: ResumePolicy) -> Step:
    """The step, once it is certain that no live job of the slot is in the way."""
    ours = {"resubmit": Step.ADOPT_STRAY, "resume": Step.ADOPT, "fail": Step.FAIL_STRAY}[policy.on_stray_job]
    return {
        Stray.NOT_ASKED: Step.LOOK_FOR_STRAYS,
        Stray.NONE: step,
        Stray.THIS_TOKENS: Step.ADOPT,
        Stray.ENDED: Step.SUBMIT,
        Stray.OURS: ours,
        Stray.SOMEBODYS: Step.FAIL_STRAY,
    }[facts.stray]


def _after_intent(facts: Facts, policy: ResumePolicy) -> Step:
    """A job may exist whose id nobody saved."""
    if facts.can_find_strays and (facts.lost or facts.lookup is Lookup.MISSING) and not is_unwanted(facts, policy):
        if facts.stray is Stray.ENDED and not facts.lost:  # it is the job that was looked for, and a late index
            return Step.ADOPT
        return _unless_stray(Step.SUBMIT_AGAIN, facts, policy)
    if facts.can_find:
        # A job that is found is dealt with as a known one; one that is missing and unwanted needs no second life.
        missing = Step.SUBMIT if is_unwanted(facts, policy) else Step.SUBMIT_AGAIN
        return {Lookup.FOUND: Step.ADOPT, Lookup.MISSING: missing}.get(facts.lookup, Step.LOOK_UP)
    if facts.is_idempotent:
        return Step.SUBMIT_AGAIN
    return Step.FAIL_LOST if policy.on_lost_submission == "fail" else Step.SUBMIT


def _wanted(facts: Facts, policy: ResumePolicy) -> Step:
    """The id of a job is known, and its result is what this attempt is after."""
    match facts.status:
        case None:
            return Step.ASK_STATUS
        case JobStatus.ACTIVE | JobStatus.UNKNOWN:
            return Step.WAIT if facts.own else Step.RECONNECT
        case JobStatus.CANCELLING:
            return Step.WAIT_FOR_END
        case JobStatus.SUCCEEDED:
            return Step.FETCH_RESULT
        case JobStatus.FAILED:
            return _failed(facts, policy) if facts.confirmed else Step.CONFIRM
        case JobStatus.GONE:
            return _gone(facts, policy) if facts.confirmed else Step.CONFIRM


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
    if facts.status is JobStatus.SUCCEEDED or (facts.status.is_terminal and facts.confirmed):
        return Step.SUBMIT
    if facts.status.is_terminal:
        return Step.CONFIRM
    may_cancel = facts.can_cancel and not facts.cancelled and facts.status is not JobStatus.CANCELLING
    return Step.CANCEL if may_cancel else Step.WAIT_FOR_END


def _after_end(facts: Facts, policy: ResumePolicy) -> Step:
    """The record says that the job has ended."""
    if not facts.has_id:
        return Step.SUBMIT
    if not facts.saved_success:
        return _after_failure(facts, policy)
    if is_unwanted(facts, policy):
        return Step.SUBMIT
    if facts.saved_result:
        return Step.RETURN_SAVED
    if facts.status is not JobStatus.GONE:
        return Step.FETCH_RESULT
    return _gone(facts, policy) if facts.confirmed else Step.CONFIRM


def _after_failure(facts: Facts, policy: ResumePolicy) -> Step:
    """An earlier attempt was told that the job failed. Ask once more: systems that retry a job take that back."""
    match facts.status:
        case None:
            return Step.ASK_STATUS
        case JobStatus.ACTIVE | JobStatus.CANCELLING | JobStatus.SUCCEEDED:
            return Step.REVIVE
        case JobStatus.FAILED | JobStatus.GONE | JobStatus.UNKNOWN:
            return Step.SUBMIT if is_unwanted(facts, policy) else _failed(facts, policy)
