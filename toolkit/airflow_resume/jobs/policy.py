"""The policies of a job: what to do with a job of an earlier attempt, and how often to ask for a status."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from airflow_resume.arguments import (
    check_choice,
    check_choices,
    check_duration,
    check_flag,
    check_number,
    check_type,
    check_whole,
)

OnClear = Literal["resubmit", "resume"]
OnInputChange = Literal["resubmit", "resume", "fail"]
OnLostSubmission = Literal["fail", "resubmit"]
OnEndedJob = Literal["resubmit", "fail"]
OnStrayJob = Literal["resubmit", "resume", "fail"]
OnShutdown = Literal["reschedule", "wait"]
Wait = Literal["worker", "reschedule"]
CancelOn = Literal["user", "shutdown", "timeout", "final_failure"]


@dataclass(frozen=True, kw_only=True)
class PollPolicy:
    """How often to ask for the status of a job.

    Args:
        interval: the first pause between two questions. It is also the pause before the status of a failed job is
            asked once more, as one answer is not enough to submit another one.
        backoff: every pause is this many times as long as the previous one, up to `max_interval`.
        max_interval: the longest pause, without the jitter.
        jitter: a pause is lengthened by up to this share of itself, so that many tasks do not ask at the same time.
        timeout: how long one attempt waits. After that the job is left alone, and the next attempt reconnects. An
            operator that waits in a `poll_until_complete` of its own refuses it, as it cannot end that wait.
        max_consecutive_errors: after this many failed questions in a row the attempt fails. A failed question never
            counts as a failed job.
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
        check_number("backoff", self.backoff, least=1)
        check_number("jitter", self.jitter, least=0)
        check_whole("max_consecutive_errors", self.max_consecutive_errors, least=1)


@dataclass(frozen=True, kw_only=True)
class ResumePolicy:
    """What to do with a job that an earlier attempt has left.

    Args:
        on_clear: the task was cleared. `"resubmit"` does the work again (a job that is still alive is cancelled first,
            or waited for if there is no cancel hook); `"resume"` treats the clear like a retry.
        on_input_change: the inputs differ from those with which the job was submitted. `"resubmit"` does the work
            again, as for a clear; `"resume"` uses the job in spite of that; `"fail"` fails.
        on_lost_submission: an attempt died between submitting and saving the id, and the job system can neither
            look a submission up nor recognise its token. `"fail"` names the token; `"resubmit"` risks a second job.
        on_failed_job: the job of an earlier attempt failed. `"resubmit"` submits another one; `"fail"` fails without
            further tries.
        on_gone_job: the job system does not know the job any more, and no result was saved. `"resubmit"` submits
            another one; `"fail"` fails without further tries.
        on_stray_job: before a submit a live job of this slot was found that is not on record, such as one of a Dag run
            that was deleted and created again. `"resubmit"` ends it first, as for a clear; `"resume"` waits for it;
            `"fail"` changes nothing. It needs a job system that can be searched by slot, and a deployment with a name
            (see docs/jobs.md); without a name the attempt always fails, as the job may belong to another Airflow.
        on_shutdown: the worker shuts down (a deploy, a spot reclaim, a drain; see docs/deployments.md) during the wait.
            `"reschedule"` gives the worker slot back, and the task comes back some seconds later in the same try;
            `"wait"` waits on until the process is killed, which uses up a try.
        wait: where the job is waited for. `"worker"` waits in the task's process, which keeps its worker slot.
            `"reschedule"` gives the slot back after the submit. From then on a new process of the same try asks once
            for the status whenever a pause has passed, and code of the task before the job runs again each time. See
            docs/jobs.md, "Waiting by reschedule".
        cancel_on: the reasons for which the job is cancelled when its task ends, a set of: `"user"` (a person marked
            the task failed or successful, or cleared it while it ran; with on_clear="resume" a clear does not count),
            `"shutdown"` (the worker shuts down: a deploy, a spot reclaim), `"timeout"` (`execution_timeout` or
            `poll.timeout`), `"final_failure"` (the attempt fails, and there is no further try). Otherwise the job is
            left alone, and the next attempt reconnects to it. If another attempt has taken over, or the reason could
            not be learned, the job is never cancelled.
        poll: how often to ask.
        confirm_gone: for how long a job system must say that it does not know a job, or a token, before another job is
            submitted. It is asked at least twice.
        keep_result: whether a small result is kept in the record. Everybody who can see the task's state in Airflow's
            UI can see it there. If it is not kept, it is fetched again when it is needed again.
        unknown_timeout: how long a status may stay unknown before the attempt fails. It never leads to a submit.
    """

    on_clear: OnClear = "resubmit"
    on_input_change: OnInputChange = "resubmit"
    on_lost_submission: OnLostSubmission = "fail"
    on_failed_job: OnEndedJob = "resubmit"
    on_gone_job: OnEndedJob = "resubmit"
    on_stray_job: OnStrayJob = "resubmit"
    on_shutdown: OnShutdown = "reschedule"
    wait: Wait = "worker"
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
        if self.wait == "triggerer":  # type: ignore[comparison-overlap]
            raise ValueError(
                "wait='triggerer' is not a choice: Airflow resumes a deferred task in a method of its operator, and a"
                " function has none.\nUse wait='reschedule', which needs no worker slot either; or an operator with"
                " ResumableJobMixin, `deferrable = True` and a `job_trigger`."
            )
        check_choice("wait", self.wait, Wait)
        check_choices("cancel_on", self.cancel_on, CancelOn)
        # Airflow writes it into the serialised Dag, and the order of a set differs between processes.
        object.__setattr__(self, "cancel_on", tuple(sorted(set(self.cancel_on))))
        check_duration("confirm_gone", self.confirm_gone)
        check_flag("keep_result", self.keep_result)
        check_duration("unknown_timeout", self.unknown_timeout)
        check_type("poll", self.poll, PollPolicy, "a PollPolicy, such as PollPolicy(interval=timedelta(seconds=5))")
