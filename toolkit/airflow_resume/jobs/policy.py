"""What to do where there is a choice."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from airflow_resume.arguments import check_choice, check_choices, check_duration

OnClear = Literal["resubmit", "resume"]
OnInputChange = Literal["resubmit", "resume", "fail"]
OnLostSubmission = Literal["fail", "resubmit"]
OnEndedJob = Literal["resubmit", "fail"]
CancelOn = Literal["user", "shutdown", "timeout", "final_failure"]


@dataclass(frozen=True, kw_only=True)
class PollPolicy:
    """How often to ask for the status of a job.

    Args:
        interval: the first pause between two questions.
        backoff: every pause is this many times the one before ...
        max_interval: ... but never longer than this.
        jitter: a pause is lengthened by up to this share of itself, so that many tasks do not ask in step.
        timeout: how long one attempt waits. When it is over the job lives on and the next attempt reconnects.
        max_consecutive_errors: so many failed questions in a row are borne, then the attempt fails. A failed
            question never counts as a failed job.
    """

    interval: timedelta = timedelta(seconds=5)
    backoff: float = 1.5
    max_interval: timedelta = timedelta(seconds=60)
    jitter: float = 0.1
    timeout: timedelta | None = None
    max_consecutive_errors: int = 10

    def __post_init__(self) -> None:
        check_duration("interval", self.interval)
        check_duration("max_interval", self.max_interval)
        if self.timeout is not None:
            check_duration("timeout", self.timeout)
        if self.max_interval < self.interval:
            raise ValueError("PollPolicy needs interval <= max_interval")
        if self.backoff < 1 or self.jitter < 0 or self.max_consecutive_errors < 1:
            raise ValueError("PollPolicy needs backoff >= 1, jitter >= 0 and max_consecutive_errors >= 1")


@dataclass(frozen=True, kw_only=True)
class ResumePolicy:
    """What to do with a job that an earlier attempt left behind.

    Args:
        on_clear: the task was cleared. `"resubmit"` does the work again (a job still alive is cancelled first;
            without a cancel hook it is waited for); `"resume"` treats the clear like a retry.
        on_input_change: the job's inputs differ from those it was submitted with; likewise, or `"fail"`.
        on_lost_submission: an attempt died between submitting and saving the id, and the job system can neither
            look a submission up nor recognise its token. `"fail"` names the token; `"resubmit"` risks a second job.
        on_failed_job: the job of an earlier attempt failed: a new one, or fail without further tries.
        on_gone_job: the job system has forgotten the job and no result was saved; likewise.
        cancel_on: when the job is cancelled because its task ends, a set of: `"user"` (a person marked the task failed
            or successful, or cleared it while it ran; that one not with on_clear="resume"), `"shutdown"` (the worker
            goes: a deploy, a spot reclaim), `"timeout"` (`execution_timeout` or `poll.timeout`), `"final_failure"` (the
            attempt fails, and no further one will come). Otherwise the job lives on, and the next attempt reconnects to
            it. A job whose task was taken over by another attempt, or ended for a reason that could not be learned, is
            never cancelled.
        poll: how often to ask.
        unknown_timeout: how long a status may stay unknown before the attempt fails. It never leads to a submit.
    """

    on_clear: OnClear = "resubmit"
    on_input_change: OnInputChange = "resubmit"
    on_lost_submission: OnLostSubmission = "fail"
    on_failed_job: OnEndedJob = "resubmit"
    on_gone_job: OnEndedJob = "resubmit"
    cancel_on: Collection[CancelOn] = frozenset({"user"})
    poll: PollPolicy = field(default_factory=PollPolicy)
    unknown_timeout: timedelta = timedelta(minutes=10)

    def __post_init__(self) -> None:
        check_choice("on_clear", self.on_clear, OnClear)
        check_choice("on_input_change", self.on_input_change, OnInputChange)
        check_choice("on_lost_submission", self.on_lost_submission, OnLostSubmission)
        check_choice("on_failed_job", self.on_failed_job, OnEndedJob)
        check_choice("on_gone_job", self.on_gone_job, OnEndedJob)
        check_choices("cancel_on", self.cancel_on, CancelOn)
        check_duration("unknown_timeout", self.unknown_timeout)
        if not isinstance(self.poll, PollPolicy):
            raise TypeError(f"poll={self.poll!r} must be a PollPolicy")
