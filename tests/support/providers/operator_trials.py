"""How an operator of a provider, and ours, are made and played, and what is asked of those that speak REST."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pytest

from airflow_resume.errors import LostSubmissionError
from airflow_resume.testing import (
    CrashWorld,
    ServiceJobs,
    TaskAttempt,
    World,
    check_operator,
    explore_crashes,
    task_context,
)
from airflow_resume.testing.crashes.explorer import CrashReport
from airflow_resume.testing.crashes.outcome import ExplorationOutcome
from airflow_resume.testing.operators import JobService, OperatorReport
from airflow_resume.testing.operators.comparison import comparable
from airflow_resume.testing.oracles import same_result
from tests.support.providers.scenario_table import OURS, OWN, documented
from tests.support.providers.trial import AT_ONCE, KilledError


@contextmanager
def connections(**all_of_them: Mapping[str, Any]) -> Iterator[pytest.MonkeyPatch]:
    """Airflow's connections, by id, and a patch for what else has to be set."""
    with pytest.MonkeyPatch.context() as patch:
        for name, connection in all_of_them.items():
            patch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(connection))
        yield patch


def cells(report: OperatorReport) -> dict[str, str]:
    """What came out, by scenario."""
    return {scenario: f"{played}" for scenario, played in report.items()}


@dataclass(frozen=True, kw_only=True)
class OperatorTrial:
    """An operator of a provider and ours, which has the same name.

    Args:
        module: of the pack, such as `amazon`.
        own: the provider's class.
        ours: that takes its place.
        arguments: of both.
        options: of `check_operator`, for both.
    """

    module: str
    own: Any
    ours: Any
    arguments: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return str(self.ours.__name__)

    def make_own(self, **options: Any) -> Any:
        """The provider's operator."""
        return self.own(**{"task_id": "task", "retries": 3, **self.arguments, **options})

    def make(self, **options: Any) -> Any:
        """Our operator."""
        policy = {"resume_policy": AT_ONCE}
        return self.ours(**{"task_id": "task", "retries": 3, **policy, **self.arguments, **options})

    def play(self, jobs: JobService) -> OperatorReport:
        """Ours, in all scenarios. Its results should be the provider's."""
        report = check_operator(self.make, jobs, same_as=self.make_own, **self.options)
        return documented(report, self.module, OURS, str(self))

    def play_own(self, jobs: JobService) -> OperatorReport:
        """The provider's, in all scenarios. It is not deferred if the event is made up: it would read that."""
        without = {"deferrable", "event"} if "event" in self.options else set()
        options = {name: value for name, value in self.options.items() if name not in without}
        return documented(check_operator(self.make_own, jobs, **options), self.module, OWN, str(self))


def run_rendered(attempt: TaskAttempt) -> Any:
    """Run the operator of an attempt, with its templates rendered, and return the operator."""
    with attempt:
        operator: Any = attempt.ti.render_templates()
        operator.execute(attempt.context)
    return operator


def die_in_the_window(attempt: TaskAttempt, hook: Any, submit: str) -> TaskAttempt:
    """Let the attempt die right after its submit, and begin the next one."""
    method = getattr(hook, submit)

    def dies(*args: Any, **options: Any) -> Any:
        method(*args, **options)
        raise KilledError

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KilledError):
        patch.setattr(hook, submit, dies)
        run_rendered(attempt)
    return attempt.retry()


class HasJobs(Protocol):
    """A service with its jobs."""

    jobs: ServiceJobs


class OperatorWorld(CrashWorld):
    """A service without jobs, and an Airflow with a task.

    Attributes:
        most_alive: the most jobs that were alive at once after a submit.
    """

    def __init__(self, service: HasJobs) -> None:
        super().__init__(airflow=World())
        self.jobs = service.jobs = replace(service.jobs, jobs=[])
        self.jobs.follow([self.jobs.running, self.jobs.succeeded])
        self.most_alive = 0

    def first(self, make: Callable[[], Any]) -> TaskAttempt:
        return task_context(make, world=self.airflow)

    def execute(self, make: Callable[[], Any], hook: Any, submit: str, cancel: str | None = None) -> Any:
        attempt = self.first(make)
        with pytest.MonkeyPatch.context() as patch, attempt:
            patch.setattr(hook, submit, self.effect("submit")(self._counted(getattr(hook, submit))))
            if cancel is not None:
                patch.setattr(hook, cancel, self.effect("cancel")(getattr(hook, cancel)))
            returned = attempt.ti.render_templates().execute(attempt.context)
            ids = [job.id for job in self.jobs.seen()]
            return comparable([returned, dict(attempt.ti.xcoms)], ids, attempt.ti.run_id)

    def _counted(self, submit: Callable[..., Any]) -> Callable[..., Any]:
        def submit_and_count(*args: Any, **options: Any) -> Any:
            answer = submit(*args, **options)
            self.most_alive = max(self.most_alive, sum(job.is_alive for job in self.jobs.seen()))
            return answer

        return submit_and_count


def one_job(outcome: ExplorationOutcome[OperatorWorld]) -> None:
    made = outcome.world.jobs.seen()
    assert len(made) == 1, f"{len(made)} jobs"


def explore(make: Callable[[], Any], service: HasJobs, hook: Any, submit: str, *oracles: Any, **options: Any) -> Any:
    """Crash the task at every point and at pairs of points: one job, and always the same result."""
    return explore_crashes(
        lambda world: world.execute(make, hook, submit),
        oracle=[one_job, same_result, *oracles],
        world=lambda: OperatorWorld(service),
        max_pairs=options.pop("max_pairs", 40),
        **options,
    )


def never_two_jobs(outcome: ExplorationOutcome[OperatorWorld]) -> None:
    """At most one job is left, and one if the task succeeds. A job whose id cannot be saved is cancelled first."""
    left = [job for job in outcome.world.jobs.seen() if not job.was_cancelled]
    assert len(left) <= 1, f"{len(left)} jobs"
    assert outcome.world.most_alive <= 1, f"{outcome.world.most_alive} jobs alive at once"
    if outcome.error is None:
        assert left, "the task succeeds without a job"
        same_result(outcome)


def only_a_crash_in_the_window_ends_the_task(outcome: ExplorationOutcome[OperatorWorld]) -> None:
    """After one fault, the task fails for good if it was a crash in the window, and only then."""
    if outcome.crashes == 1:
        assert (outcome.error is not None) == _is_crash_in_the_window(outcome), f"it ends with {outcome.error!r}"


def _is_crash_in_the_window(outcome: ExplorationOutcome[OperatorWorld]) -> bool:
    """Whether it crashed after the save that a submit begins, and before that of the id."""
    assert outcome.clean is not None
    points = outcome.clean.world.points.passed
    submit = next(point.number for point in points if str(point) == "before submit")
    ((number, kind),) = outcome.world.points.fired.items()
    return kind == "crash" and submit - 1 <= number <= submit + 2


def explore_with_an_open_window(
    make: Callable[[], Any], service: HasJobs, hook: Any, submit: str, cancel: str, *, max_pairs: int
) -> tuple[CrashReport, Counter[tuple[int, str | None]]]:
    """Crash a task whose job cannot be looked up by its token: no second job, but `LostSubmissionError`.

    Returns:
        What was tried, and how often the ways have ended with so many jobs that were not cancelled and this error.
    """
    ends: Counter[tuple[int, str | None]] = Counter()

    def count_the_ends(outcome: ExplorationOutcome[OperatorWorld]) -> None:
        left = sum(not job.was_cancelled for job in outcome.world.jobs.seen())
        ends[left, None if outcome.error is None else type(outcome.error).__name__] += 1

    report = explore_crashes(
        lambda world: world.execute(make, hook, submit, cancel),
        oracle=[never_two_jobs, only_a_crash_in_the_window_ends_the_task, count_the_ends],
        world=lambda: OperatorWorld(service),
        max_pairs=max_pairs,
        allowed_to_fail=(LostSubmissionError,),
    )
    return report, ends
