"""How one attempt asks the job system."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from airflow_resume.jobs.policy import ResumePolicy
from airflow_resume.jobs.poll import Clock, ask_patiently, confirmed, nap
from airflow_resume.jobs.protocol import JobSystem

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Questions:
    """Asks again after a transient error, and if one answer is not enough, unless the attempt is interrupted.

    Args:
        system: the job system.
        policy: how often and for how long to ask.
        clock: the time.
        is_interrupted: whether the attempt has to stop asking.
    """

    system: JobSystem
    policy: ResumePolicy
    clock: Clock
    is_interrupted: Callable[[], bool]

    def patiently(self, ask: Callable[[], T]) -> T:
        """The answer to a question that may raise a transient error."""
        return ask_patiently(ask, self.system.is_transient, self.policy.poll, self.clock, leaving=self.is_interrupted)

    def asked_again(self, ask: Callable[[], T], *, doubted: Callable[[T], bool]) -> T:
        """The last answer. While the answer is doubted, the question is asked again until `confirm_gone` has passed."""
        return confirmed(
            ask,
            doubted=doubted,
            seconds=self.policy.confirm_gone.total_seconds(),
            policy=self.policy.poll,
            clock=self.clock,
            leaving=self.is_interrupted,
        )

    def pause(self) -> None:
        """Wait for one poll interval."""
        nap(self.policy.poll.interval.total_seconds(), self.clock, self.is_interrupted)
