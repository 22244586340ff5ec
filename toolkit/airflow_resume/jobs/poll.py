"""Asking for the status of a job until it has ended."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, repeat
from typing import NoReturn, TypeVar

from tenacity import Retrying, before_sleep_log, retry_if_exception, stop_after_attempt, wait_exponential, wait_random

from airflow_resume.errors import JobStatusUnknownError, JobWaitTimeoutError
from airflow_resume.jobs.decide import JobStatus
from airflow_resume.jobs.policy import PollPolicy, ResumePolicy
from airflow_resume.store import AirflowStore, StateStore

log = logging.getLogger(__name__)

Ask = Callable[[], JobStatus]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Clock:
    """Time as an argument: seconds that only go forward, sleeping, and a number in [0, 1)."""

    # Not shown: a function shows where in memory it is, and what stands in a Dag must look the same in every process.
    monotonic: Callable[[], float] = field(default=time.monotonic, repr=False)
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    random: Callable[[], float] = field(default=random.random, repr=False)


def clock_of(store: StateStore) -> Clock:
    """With a stand-in for Airflow's store its time passes, and no real one."""
    return Clock(monotonic=store.monotonic, sleep=store.sleep) if isinstance(store, AirflowStore) else Clock()


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
    """The answer; a question that fails in passing is asked again, and never counts as a failed job.

    When `leaving` says so there is no time to ask again, and the error is raised.
    """
    try:
        return ask()  # nearly always enough, and far cheaper than a Retrying
    except Exception as error:  # noqa: BLE001  the first of those that the Retrying counts
        questions: Iterator[Callable[[], T]] = chain([partial(_raise, error)], repeat(ask))
    is_leaving = leaving or _never
    ask_again = Retrying(
        retry=retry_if_exception(is_transient),
        stop=lambda state: is_leaving() or stop_after_attempt(policy.max_consecutive_errors)(state),
        wait=wait_exponential(multiplier=policy.interval.total_seconds(), max=policy.max_interval.total_seconds())
        + wait_random(0, policy.jitter),
        sleep=clock.sleep if leaving is None else lambda seconds: nap(seconds, clock, leaving),
        before_sleep=before_sleep_log(log, logging.WARNING),
        reraise=True,
    )
    return ask_again(lambda: next(questions)())  # noqa: PLW0108  another one each time


def _raise(error: Exception) -> NoReturn:
    raise error


SLICE_SECONDS = 1.0
"""A pause is slept in pieces no longer than this, so that an attempt that is told to leave does so soon."""

REPORT_SECONDS = 300.0
"""How often the log says that a job is still being waited for."""


def _never() -> bool:
    return False


def nap(seconds: float, clock: Clock, leaving: Callable[[], bool] = _never) -> None:
    """Sleep, but no longer than until `leaving` says so."""
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
    last_word: Callable[[], object] = lambda: None,
    leaving: Callable[[], bool] = _never,
    report: Callable[[JobStatus], object] = lambda _status: None,
) -> JobStatus:
    """Ask until the job has ended, and return how; or until `leaving` says so, and return how the job is then.

    `report` is called every `REPORT_SECONDS` with the status. `what` and `last_word` are for the messages of errors.

    Raises:
        JobWaitTimeoutError: after `policy.poll.timeout`. The job lives on.
        JobStatusUnknownError: the status was UNKNOWN for `policy.unknown_timeout` on end.
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
            raise JobStatusUnknownError(
                f"The status of {what} has been unknown for {policy.unknown_timeout}; the last answer was"
                f" {last_word()!r}. It was left alone, and no other was submitted; a retry asks again.",
                "If this is a word of the job system's own, say what it means: `statuses={...}` of run_job, or"
                " `classify_job_status` of an operator.",
            )
        if policy.poll.timeout is not None and now - started >= policy.poll.timeout.total_seconds():
            raise JobWaitTimeoutError(
                f"Waiting for {what} took longer than poll.timeout={policy.poll.timeout}. Unless `cancel_on` ends it,"
                f" it lives on, and a retry reconnects."
            )
        if now - reported >= REPORT_SECONDS:
            reported = now
            report(status)
        nap(pause, clock, leaving)
    raise AssertionError  # pragma: no cover  pauses() has no end


def confirmed(
    ask: Callable[[], T],
    *,
    doubted: Callable[[T], bool],
    seconds: float,
    policy: PollPolicy,
    clock: Clock,
    leaving: Callable[[], bool] = _never,
) -> T:
    """Ask again, at least once, for so long as the answer stays one that is doubted; return the last answer.

    When `leaving` says so it is asked once more at once, and that answer is the last one.
    """
    until = clock.monotonic() + seconds
    for pause in pauses(policy, clock):
        nap(max(min(pause, seconds), seconds / 10), clock, leaving)
        answer = ask()
        if not doubted(answer) or clock.monotonic() >= until or leaving():
            return answer
    raise AssertionError  # pragma: no cover  pauses() has no end
