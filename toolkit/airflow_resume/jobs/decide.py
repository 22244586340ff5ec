"""The decision: from the facts about a job to the next step. Pure, total, and the only place that decides.

`JobRun` (run.py) calls `decide`, takes the step, adds what it learned to the facts, and calls `decide` again, until a
step ends the attempt. So "look it up" and "adopt it" are two decisions, not one function with a branch.
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
    """Ended with success."""
    FAILED = "failed"
    """Ended without success, cancelled included."""
    GONE = "gone"
    """The job system does not know the id (any more)."""
    UNKNOWN = "unknown"
    """The status is not known. Never treated as failed."""

    @property
    def is_terminal(self) -> bool:
        """Whether the job will never do anything again."""
        return self in {JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.GONE}


class Phase(str, Enum):
    """How far a job has got, according to its record."""

    INTENT = "intent"
    """About to be submitted; the job may or may not exist."""
    SUBMITTED = "submitted"
    """The id is known."""
    TERMINAL = "terminal"
    """Known to have ended, or never created."""


class Lookup(Enum):
    """The outcome of looking for the job by its token."""

    NOT_ASKED = "not asked"
    FOUND = "found"
    MISSING = "missing"
    UNSETTLED = "unsettled"
    """Not found yet, and the attempt was interrupted before it had asked for long enough."""


class Stray(Enum):
    """The outcome of looking for live jobs of the slot, before a submit."""

    NOT_ASKED = "not asked"
    NONE = "none"
    THIS_TOKENS = "this token's"
    """A live job with the token of this claim: an attempt of this run submitted it, and the record was lost."""
    ENDED = "ended"
    """A job with the token of this claim has ended: the record of it was lost, and the claim needs another token."""
    WRONG = "not looked up by the token"
    """Every new token leads to a job that has ended, so the look-up does not use the token."""
    OURS = "ours"
    """A live job of the slot. The deployment is known, so it was submitted by this one."""
    SOMEBODYS = "somebody's"
    """A live job of the slot. The deployment is not known, so it may be of another one."""


class Step(str, Enum):
    """What to do next. The value is how the log names it."""

    LOOK_UP = "look up"
    """Ask the job system for a job with the token on record."""
    ADOPT = "adopt"
    """Take the job that was found into the record."""
    ADOPT_STRAY = "adopt a stray"
    """Put a job on record that only has to end before another one starts."""
    ASK_STATUS = "ask status"
    """Ask for the status of the job on record."""
    CONFIRM = "ask again"
    """Ask for the status again: one answer that the job is gone or has failed is not enough to submit another one."""
    REVIVE = "take back"
    """Correct the record: the job is on record as failed, but it has not ended, or it has succeeded."""
    SUBMIT = "submit"
    """Save the claim of a new generation, with a new token. `SEND` makes the request, unless a live job is found first.
    """
    LOOK_FOR_STRAYS = "look for live jobs of the slot"
    """Ask for all jobs of the slot, before a submit."""
    SEND = "send"
    """Submit the job of the generation that this attempt has claimed."""
    SUBMIT_AGAIN = "submit again"
    """Submit the job of the same generation again, with the same token."""
    WAIT = "wait"
    """Wait for the job that this attempt has submitted."""
    RECONNECT = "reconnect"
    """Wait for a job that an earlier attempt has submitted."""
    CANCEL = "cancel"
    """Ask for the end of a job that is not wanted."""
    WAIT_FOR_END = "wait for the end"
    """Wait for a job that is not wanted, so that there are never two."""
    GIVE_BACK = "give the slot back"
    """The worker shuts down: come back in the same try, by Airflow's reschedule."""
    FETCH_RESULT = "fetch result"
    """The job has succeeded: ask for what it returned."""
    RETURN_SAVED = "done"
    """Return the result that the record has."""
    FAIL_LOST = "fail: submission lost"
    """Raise `LostSubmissionError`."""
    FAIL_STRAY = "fail: a live job of the slot"
    """Raise `StrayJobError`."""
    FAIL_FIND = "fail: find ignores the token"
    """Raise `JobHookError`."""
    FAIL_JOB = "fail: job failed"
    """Raise `JobFailedError`; a retry submits another job."""
    FAIL_JOB_FOR_GOOD = "fail: job failed, no other allowed"
    """Raise `JobFailedForGoodError`."""
    FAIL_GONE = "fail: job gone"
    """Raise `JobGoneError`."""
    FAIL_INPUTS = "fail: inputs changed"
    """Raise `JobInputsChangedError`."""
    FAIL_VANISHED = "fail: job vanished"
    """Raise `JobError`: the job was not found any more while this attempt waited for it."""
    FAIL_STOPPED = "fail: task stopped"
    """Raise `TaskStoppedError`."""
    FAIL_REPLACED = "fail: replaced"
    """Raise `SupersededError`."""


@dataclass(frozen=True, kw_only=True)
class JobFacts:
    """All that a decision depends on. The fields are many and flat, so that a test case sets only the few that matter.

    Args:
        phase: of the record; None if there is no record.
        fresh: this attempt has claimed the generation, and has not submitted its job yet.
        lost: a record should have existed when the generation was claimed, but there was no record.
        has_id: the record has the id of a job.
        saved_success: the record says that the job succeeded.
        saved_result: the record has the result of the job.
        cleared: the task was cleared since the record was written.
        inputs_changed: the inputs of this attempt differ from those of the job.
        is_stray: the job on record was a stray job, and was put on record only because it has to end first.
        can_find, can_find_strays, can_cancel, is_idempotent: what the job system offers.
        lookup: the outcome of looking for the job by its token, in this attempt.
        stray: the outcome of looking for live jobs of the slot, in this attempt.
        status: what the job system said in this attempt; None if it was not asked.
        unanswered: the question for the status has failed, and is asked again by a later process of this try.
        confirmed: the job system has given this status more than once.
        own: this attempt submitted the job or waited for it, so the attempt ends as the job ended.
        cancelled: this attempt has asked the job system to cancel the job.
        stopped: this attempt is being stopped from outside, and the policy is to cancel its job.
        replaced: this attempt knows that another one has taken over.
        leaving: the worker shuts down, and the policy is to come back in the same try.
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
    unanswered: bool = False
    confirmed: bool = False
    own: bool = False
    cancelled: bool = False
    stopped: bool = False
    replaced: bool = False
    leaving: bool = False


def decide(facts: JobFacts, policy: ResumePolicy) -> Step:
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


def _next(facts: JobFacts, policy: ResumePolicy) -> Step:
    has_job = facts.phase is not None and (facts.has_id or facts.phase is Phase.INTENT)
    if facts.inputs_changed and policy.on_input_change == "fail" and has_job and not is_unwanted(facts, policy):
        return Step.FAIL_INPUTS
    match facts.phase:
        case None:
            return Step.SUBMIT
        case Phase.INTENT:
            if not facts.fresh:
                return _after_intent(facts, policy)
            # The claim is saved. A missing record proves nothing, so first look for live jobs of the slot.
            return _unless_stray(Step.SEND, facts, policy) if facts.can_find_strays else Step.SEND
        case Phase.SUBMITTED:
            return _unwanted(facts) if is_unwanted(facts, policy) else _wanted(facts, policy)
        case Phase.TERMINAL:
            return _after_end(facts, policy)


def _stopped(facts: JobFacts) -> Step:
    """The next step of an attempt that is being stopped: submit nothing more, and cancel a job that may be alive."""
    if facts.phase is Phase.INTENT and not facts.fresh and facts.can_find and facts.can_cancel:
        return {Lookup.NOT_ASKED: Step.LOOK_UP, Lookup.FOUND: Step.ADOPT}.get(facts.lookup, Step.FAIL_STOPPED)
    lives = facts.phase is Phase.SUBMITTED and (facts.status is None or not facts.status.is_terminal)
    return Step.CANCEL if lives and facts.can_cancel and not facts.cancelled else Step.FAIL_STOPPED


def is_unwanted(facts: JobFacts, policy: ResumePolicy) -> bool:
    """Whether the result of the job on record is of no use to this attempt."""
    return (
        (facts.cleared and policy.on_clear == "resubmit")
        or (facts.inputs_changed and policy.on_input_change == "resubmit")
        or facts.is_stray
    )


def _unless_stray(step: Step, facts: JobFacts, policy: ResumePolicy) -> Step:
    """The step, if it is certain that there is no other live job of the slot."""
    ours = {"resubmit": Step.ADOPT_STRAY, "resume": Step.ADOPT, "fail": Step.FAIL_STRAY}[policy.on_stray_job]
    return {
        Stray.NOT_ASKED: Step.LOOK_FOR_STRAYS,
        Stray.NONE: step,
        Stray.THIS_TOKENS: Step.ADOPT,
        Stray.ENDED: Step.SUBMIT,
        Stray.WRONG: Step.FAIL_FIND,
        Stray.OURS: ours,
        Stray.SOMEBODYS: Step.FAIL_STRAY,
    }[facts.stray]


def _after_intent(facts: JobFacts, policy: ResumePolicy) -> Step:
    """The intent to submit is on record, without an id. So a job may exist."""
    if facts.can_find_strays and (facts.lost or facts.lookup is Lookup.MISSING) and not is_unwanted(facts, policy):
        if facts.stray is Stray.ENDED and not facts.lost:  # the job that the look-up missed, as the index was late
            return Step.ADOPT
        return _unless_stray(Step.SUBMIT_AGAIN, facts, policy)
    if facts.can_find:
        # A job that is found is treated as a known one; one that is missing and unwanted is not submitted again.
        missing = Step.SUBMIT if is_unwanted(facts, policy) else Step.SUBMIT_AGAIN
        return {Lookup.FOUND: Step.ADOPT, Lookup.MISSING: missing}.get(facts.lookup, Step.LOOK_UP)
    if facts.is_idempotent:
        return Step.SUBMIT_AGAIN
    return Step.FAIL_LOST if policy.on_lost_submission == "fail" else Step.SUBMIT


def _wanted(facts: JobFacts, policy: ResumePolicy) -> Step:
    """The id of a job is known, and this attempt needs its result."""
    match facts.status:
        case None if not facts.unanswered:
            return Step.ASK_STATUS
        case None | JobStatus.ACTIVE | JobStatus.UNKNOWN:
            return Step.WAIT if facts.own else Step.RECONNECT
        case JobStatus.CANCELLING:
            return Step.WAIT_FOR_END
        case JobStatus.SUCCEEDED:
            return Step.FETCH_RESULT
        case JobStatus.FAILED:
            return _failed(facts, policy) if facts.confirmed else Step.CONFIRM
        case JobStatus.GONE:
            return _gone(facts, policy) if facts.confirmed else Step.CONFIRM


def _failed(facts: JobFacts, policy: ResumePolicy) -> Step:
    if policy.on_failed_job == "fail":
        return Step.FAIL_JOB_FOR_GOOD
    return Step.FAIL_JOB if facts.own else Step.SUBMIT


def _gone(facts: JobFacts, policy: ResumePolicy) -> Step:
    if policy.on_gone_job == "fail":
        return Step.FAIL_GONE
    # A job system may not know yet what it has just accepted, so the next attempt asks again.
    return Step.FAIL_VANISHED if facts.own else Step.SUBMIT


def _unwanted(facts: JobFacts) -> Step:
    """The id of a job is known, and it must have ended before another one starts."""
    if facts.status is None:
        return Step.WAIT_FOR_END if facts.unanswered else Step.ASK_STATUS
    if facts.status is JobStatus.SUCCEEDED or (facts.status.is_terminal and facts.confirmed):
        return Step.SUBMIT
    if facts.status.is_terminal:
        return Step.CONFIRM
    may_cancel = facts.can_cancel and not facts.cancelled and facts.status is not JobStatus.CANCELLING
    return Step.CANCEL if may_cancel else Step.WAIT_FOR_END


def _after_end(facts: JobFacts, policy: ResumePolicy) -> Step:
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


def _after_failure(facts: JobFacts, policy: ResumePolicy) -> Step:
    """An earlier attempt saw that the job had failed. Ask once more, as some job systems retry a job themselves."""
    match facts.status:
        case None:
            return Step.ASK_STATUS
        case JobStatus.ACTIVE | JobStatus.CANCELLING | JobStatus.SUCCEEDED:
            return Step.REVIVE
        case JobStatus.FAILED | JobStatus.GONE | JobStatus.UNKNOWN:
            return Step.SUBMIT if is_unwanted(facts, policy) else _failed(facts, policy)
