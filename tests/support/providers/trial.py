"""A task that is tried, killed and tried again, and checked by what the job service saw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from airflow_resume import PollPolicy, ResumePolicy
from airflow_resume.testing import TaskAttempt, task_context
from airflow_resume_mixins import ResumableJobMixin
from tests.support.providers.scripted_jobs import ScriptedJobs

INSTANT = timedelta(milliseconds=1)
AT_ONCE = ResumePolicy(poll=PollPolicy(interval=INSTANT, max_interval=INSTANT), unknown_timeout=timedelta(seconds=10))


class KilledError(BaseException):
    """The process has died. It is a BaseException so that no `except Exception` catches it."""


@dataclass(kw_only=True)
class Trial:
    """One task.

    Args:
        jobs: the jobs of the service that it talks to.
        make_operator: with its keyword arguments besides its own.
        is_wrapped: whether the operator takes a policy.
    """

    jobs: ScriptedJobs[Any]
    make_operator: Callable[..., Any]
    is_wrapped: bool
    attempt: TaskAttempt = field(default_factory=task_context)

    def run(self, *, killed_at: str | None = None, nth: int = 1) -> Any:
        """Run one attempt, and return its result. It may be killed after the nth call of a method of the hook.

        Raises:
            KilledError: it was killed.
        """
        made = self.make_operator(**({"resume_policy": AT_ONCE} if self.is_wrapped else {}))
        if killed_at is not None:
            _kill_after(made.hook, killed_at, nth)
        with self.attempt:
            return made.execute(self.attempt.context)

    def killed(self, killed_at: str, nth: int = 1) -> None:
        """One attempt that is killed, and the next one begins."""
        try:
            self.run(killed_at=killed_at, nth=nth)
        except KilledError:
            self.attempt = self.attempt.retry()
        else:
            raise AssertionError(f"{killed_at} was not called {nth} times")

    def fails(self, tries: int) -> bool:
        """Whether each of so many attempts fails; none is made after one that does not."""
        for _ in range(tries):
            try:
                self.run()
            except Exception:  # noqa: BLE001  what Airflow would try again
                self.attempt = self.attempt.retry()
            else:
                return False
        return True

    @property
    def submitted(self) -> int:
        """How many jobs."""
        return sum(event.startswith("submit") for event in self.jobs.events)


def is_wrapped(kind: type) -> bool:
    """Whether an operator's class is one of ours."""
    return issubclass(kind, ResumableJobMixin)


def _kill_after(hook: Any, name: str, nth: int) -> None:
    call, calls = getattr(hook, name), 0

    def killing(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        answer = call(*args, **options)
        if calls == nth:
            raise KilledError
        return answer

    setattr(hook, name, killing)
