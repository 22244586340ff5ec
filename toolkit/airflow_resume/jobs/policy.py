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
OnStrayJob = Literal["resubmit", "resume", "fail"]
OnShutdown = Literal["reschedule", "wait"]
CancelOn = Literal["user", "shutdown", "timeout", "final_failure"]


@dataclass(frozen=True, kw_only=True)
class PollPolicy:
    """How often to ask for the status of a job.

    Args:
        interval: the first pause between two questions. So long is waited too before a job that failed is asked once
            more, as one answer is not enough for another job.
        backoff: every pause is this many times the one before ...
        max_interval: ... but never longer than this.
        jitter: a pause is lengthened by up to this share of itself, so that many tasks do not ask in step.
        timeout: how long one attempt waits. When it is over the job lives on and the next attempt reconnects. It
            cannot end the wait of an operator that waits in a `poll_until_complete` of its own, and is refused there.
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
        on_stray_job: before a submit a live job of this slot was found that is not on record, as that of a Dag run
            which was deleted and made again. `"resubmit"` ends it first, as for a clear; `"resume"` takes it up;
            `"fail"` touches nothing. Only where the system can be searched by slot, and where the deployment is
            known (see docs/jobs.md); where it is not, the attempt always fails, as the job may be somebody else's.
        on_shutdown: the worker goes (a deploy, a spot reclaim) while the job is waited for. `"reschedule"` gives the
            slot back, and the task comes back some seconds later in the same try; `"wait"` goes on until the process
            is killed, which costs a try.
        cancel_on: when the job is cancelled because its task ends, a set of: `"user"` (a person marked the task failed
            or successful, or cleared it while it ran; that one not with on_clear="resume"), `"shutdown"` (the worker
            goes: a deploy, a spot reclaim), `"timeout"` (`execution_timeout` or `poll.timeout`), `"final_failure"` (the
            attempt fails, and no further one will come). Otherwise the job lives on, and the next attempt reconnects to
            it. A job whose task was taken over by another attempt, or ended for a reason that could not be learned, is
            never cancelled.
        poll: how often to ask.
        confirm_gone: how long a job system must go on saying that it does not know a job, or a token, before that is
            believed and another job is submitted. It is asked at least twice.
        keep_result: whether a small result is kept in the record, where everybody sees it who sees the task's state
            in Airflow's UI. Without, it is fetched again when it is needed again.
        unknown_timeout: how long a status may stay unknown before the attempt fails. It never leads to a submit.
    """

    on_clear: OnClear = "resubmit"
    on_input_change: OnInputChange = "resubmit"
    on_lost_submission: OnLostSubmission = "fail"
    on_failed_job: OnEndedJob = "resubmit"
    on_gone_job: OnEndedJob = "resubmit"
    on_stray_job: OnStrayJob = "resubmit"
    on_shutdown: OnShutdown = "reschedule"
    cancel_on: Collection[CancelOn] = frozenset[CancelOn]({"user"})
    poll: PollPolicy = field(default_factory=PollPolicy)
    confirm_gone: timedelta = timedelta(seconds=30)
    keep_result: bool = True
    unknown_timeout: timedelta = timedelta(minutes=10)

    def __post_init__(self) -> None:
        check_choice("on_clear", self.on_clear, OnClear)
        check_choice("on_input_change", self.on_input_change, OnInputChange)
        check_choice("on_lost_submission", self.on_lost_submission, OnLostSubmission)
        check_choice("on_failed_job", self.on_failed_job, OnEndedJob)
        check_choice("on_gone_job", self.on_gone_job, OnEndedJob)
        check_choice("on_stray_job", self.on_stray_job, OnStrayJob)
        check_choice("on_shutdown", self.on_shutdown, OnShutdown)
        check_choices("cancel_on", self.cancel_on, CancelOn)
        # Airflow writes it into the serialised Dag, and the order of a set is another one in every process.
        object.__setattr__(self, "cancel_on", tuple(sorted(set(self.cancel_on))))
        check_duration("confirm_gone", self.confirm_gone)
        if not isinstance(self.keep_result, bool):
            raise TypeError(f"keep_result={self.keep_result!r} must be True or False")
        check_duration("unknown_timeout", self.unknown_timeout)
        if not isinstance(self.poll, PollPolicy):
            raise TypeError(f"poll={self.poll!r} must be a PollPolicy")
