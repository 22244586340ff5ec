"""Asking the job system: again after a transient error, until an answer is certain, and until the job has ended."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from airflow_resume.attempt import utc_now
from airflow_resume.errors import JobStatusUnknownError, JobWaitTimeoutError
from airflow_resume.jobs.decide import JobStatus
from airflow_resume.jobs.policy import PollPolicy, ResumePolicy
from airflow_resume.patience import Patience, for_tries, growing, patiently
from airflow_resume.shown import MOST_OF_AN_ERROR, get_logger, say_another_try, short_repr
from airflow_resume.store import AirflowStore, StateStore

if TYPE_CHECKING:
    from pydantic import JsonValue

log = get_logger(__name__)

Ask = Callable[[], JobStatus]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Clock:
    """Time as an argument: seconds that only go forward, sleeping, and a number in [0, 1)."""

    # Without repr: a function shows its address in memory, and an object in a Dag must look the same in every process.
    monotonic: Callable[[], float] = field(default=time.monotonic, repr=False)
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    random: Callable[[], float] = field(default=random.random, repr=False)


@dataclass(frozen=True, kw_only=True)
class JobRef:
    """The fields by which an error identifies its job."""

    slot: str | None = None
    token: str | None = None
    external_id: JsonValue = None


_NO_JOB = JobRef()


def clock_of(store: StateStore) -> Clock:
    """The clock of a fake of Airflow's store; real time with any other store."""
    return Clock(monotonic=store.monotonic, sleep=store.sleep) if isinstance(store, AirflowStore) else Clock()


def now_of(store: StateStore) -> Callable[[], datetime]:
    """What tells the time: the clock of a fake of Airflow's store, or the real one."""
    return store.now if isinstance(store, AirflowStore) else utc_now


def pauses(policy: PollPolicy, clock: Clock) -> Iterator[float]:
    """The pauses between two questions, in seconds, without end."""
    pause, longest = policy.interval.total_seconds(), policy.max_interval.total_seconds()
    while True:
        yield pause * (1 + policy.jitter * clock.random())
        pause = min(pause * policy.backoff, longest)


def ask_patiently(
    ask: Callable[[], T],
    is_transient: Callable[[BaseException], bool],
    policy: PollPolicy,
    clock: Clock,
    *,
    leaving: Callable[[], bool] | None = None,
) -> T:
    """The answer. After a transient error the question is asked again. Such an error never counts as a failed job.

    When `leaving` returns True, there is no time to ask again, and the error is raised.
    """

    def patience(_error: Exception) -> Patience:
        is_leaving, had_all_tries = leaving or _never, for_tries(policy.max_consecutive_errors)
        return Patience(
            is_passing=is_transient,
            is_enough=lambda state: is_leaving() or had_all_tries(state),
            pause=growing(policy.interval.total_seconds(), policy.max_interval.total_seconds(), jitter=policy.jitter),
            say=say_another_try(log, "A question to the job system"),
        )

    sleep = clock.sleep if leaving is None else partial(nap, clock=clock, leaving=leaving)
    return patiently(ask, patience, sleep=sleep, counts_first=True)


SLICE_SECONDS = 1.0
"""A pause is slept in pieces of at most this length, so that an attempt notices soon that it has to leave."""

REPORT_SECONDS = 300.0
"""How often to log that the attempt is still waiting."""


def _never() -> bool:
    return False


def nap(seconds: float, clock: Clock, leaving: Callable[[], bool] = _never) -> None:
    """Sleep, but only until `leaving` returns True."""
    while seconds > 0 and not leaving():
        piece = min(seconds, SLICE_SECONDS)
        clock.sleep(piece)
        seconds -= piece


def wait_for_end(
    ask: Ask,
    *,
    is_transient: Callable[[BaseException], bool],
    policy: ResumePolicy,
    clock: Clock,
    what: str = "the job",
    job: JobRef = _NO_JOB,
    last_word: Callable[[], object] = lambda: None,
    leaving: Callable[[], bool] = _never,
    report: Callable[[JobStatus], object] = lambda _status: None,
) -> JobStatus:
    """Ask until the job has ended, or until `leaving` returns True, and return the last status.

    `report` is called every `REPORT_SECONDS` with the status. `what`, `job` and `last_word` are for errors.

    Raises:
        JobWaitTimeoutError: after `policy.poll.timeout`. The job is left alone.
        JobStatusUnknownError: the status was UNKNOWN for all of `policy.unknown_timeout`.
    """
    ask_now = partial(ask_patiently, ask, is_transient, policy.poll, clock, leaving=leaving)
    started = reported = clock.monotonic()
    unknown_since: float | None = None
    for pause in pauses(policy.poll, clock):
        status = ask_now()
        if status.is_terminal or leaving():
            return status
        now = clock.monotonic()
        unknown_since = None if status is not JobStatus.UNKNOWN else now if unknown_since is None else unknown_since
        if unknown_since is not None and now - unknown_since >= policy.unknown_timeout.total_seconds():
            raise unknown_for_too_long(policy, what=what, job=job, last_word=last_word())
        if policy.poll.timeout is not None and now - started >= policy.poll.timeout.total_seconds():
            raise waited_for_too_long(policy, what=what, job=job, status=status)
        if now - reported >= REPORT_SECONDS:
            reported = now
            report(status)
        nap(pause, clock, leaving)
    raise AssertionError  # pragma: no cover  pauses() has no end


def unknown_for_too_long(policy: ResumePolicy, *, what: str, job: JobRef, last_word: object) -> JobStatusUnknownError:
    """The error for a status that was unknown for all of `unknown_timeout`."""
    return JobStatusUnknownError(
        f"The status of {what} has been unknown for {policy.unknown_timeout}; the last answer was"
        f" {short_repr(last_word, most=MOST_OF_AN_ERROR)}. It was left alone, and no other was submitted; a retry asks"
        " again.",
        "If the job system uses this word, declare what it means: `statuses={...}` of run_job, or"
        " `classify_job_status` of an operator.",
        status=None if last_word is None else str(last_word),
        seconds=policy.unknown_timeout.total_seconds(),
        slot=job.slot,
        token=job.token,
        external_id=job.external_id,
    )


def waited_for_too_long(
    policy: ResumePolicy, *, what: str, job: JobRef, status: JobStatus | None
) -> JobWaitTimeoutError:
    """The error for a wait that took longer than `poll.timeout`."""
    return JobWaitTimeoutError(
        f"Waiting for {what} took longer than poll.timeout={policy.poll.timeout}. Unless `cancel_on` ends it,"
        f" it lives on, and a retry reconnects.",
        timeout=policy.poll.timeout,
        status=None if status is None else status.value,
        slot=job.slot,
        token=job.token,
        external_id=job.external_id,
    )


def confirmed(
    ask: Callable[[], T],
    *,
    doubted: Callable[[T], bool],
    seconds: float,
    policy: PollPolicy,
    clock: Clock,
    leaving: Callable[[], bool] = _never,
) -> T:
    """Ask again until the answer is not doubted any more, or until `seconds` have passed. Return the last answer.

    The question is asked at least once. When `leaving` returns True, it is asked once more without a pause.
    """
    until = clock.monotonic() + seconds
    for pause in pauses(policy, clock):
        nap(max(min(pause, seconds), seconds / 10), clock, leaving)
        answer = ask()
        if not doubted(answer) or clock.monotonic() >= until or leaving():
            return answer
    raise AssertionError  # pragma: no cover  pauses() has no end
