"""A job that is waited for by reschedule, under every crash: each look is a process that may die at every point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowRescheduleException

from airflow_resume import ResumePolicy, run_job
from airflow_resume.errors import JobError
from airflow_resume.testing import FakeJobs, TaskAttempt, explore_crashes, explore_freezes, task_context
from airflow_resume.testing.crashes.outcome import ExplorationOutcome
from airflow_resume.testing.errors import CleanRunError
from airflow_resume.testing.oracles import same_result
from airflow_resume_mixins import ResumableJobMixin
from tests.crashes.test_job_crashes import (
    AT_ONCE,
    SYSTEMS,
    TaskWorld,
    calls,
    jobs_submitted,
    one_alive,
)
from tests.support.jobs.hooks import LookUpHooks, equipped

POLICY = ResumePolicy(poll=AT_ONCE, wait="reschedule")
MANY = 40
"""Processes: one for each look, and one more for each fault."""
LONG = ["RUNNING"] * 3 + ["SUCCEEDED"]


class Train(LookUpHooks, ResumableJobMixin, BaseOperator):
    def cancel_job(self, external_id: Any, context: Any) -> None:
        self.jobs.cancel(external_id)


def by_function(world: TaskWorld) -> Any:
    return run_job(world.jobs, policy=POLICY, context=world.begin().context)


def by_operator(world: TaskWorld) -> Any:
    train = equipped(Train(task_id="train", resume_policy=POLICY), jobs=world.jobs)
    return train.execute(world.begin().context)


@pytest.mark.parametrize(("jobs", "submitted"), SYSTEMS.values(), ids=SYSTEMS)
def test_one_job_at_a_time_and_one_result_under_one_and_two_crashes(
    jobs: Callable[[], FakeJobs], submitted: int
) -> None:
    report = explore_crashes(
        by_function,
        oracle=[one_alive, jobs_submitted(submitted), same_result],
        world=lambda: TaskWorld(jobs()),
        retry_on=(JobError,),
        max_attempts=MANY,
        max_pairs=300,
    )
    print(report)
    assert report.pairs > 100


def tries_are_used_by_faults_only(outcome: ExplorationOutcome[TaskWorld]) -> None:
    (record,) = outcome.world.airflow.instances.values()
    assert 1 <= record.try_number <= 1 + outcome.crashes


@pytest.mark.parametrize("attempt", [by_function, by_operator])
def test_a_look_uses_no_try_whenever_another_one_dies(attempt: Callable[[TaskWorld], Any]) -> None:
    report = explore_crashes(
        attempt,
        oracle=[one_alive, jobs_submitted(1), same_result, tries_are_used_by_faults_only],
        world=lambda: TaskWorld(FakeJobs(scripts=[LONG])),
        max_attempts=MANY,
        max_pairs=300,
    )
    assert {point.attempt for point in report.points} == {1, 2, 3, 4, 5}


@pytest.mark.parametrize("kind", ["recreated", "restored", "state_cleared", "wrong_once", "raises_after"])
def test_never_two_jobs_of_one_life_are_alive_whatever_happens_between_two_looks(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__AIRFLOW_RESUME__DEPLOYMENT", "production")

    def one_alive_in_a_life(outcome: ExplorationOutcome[TaskWorld]) -> None:
        assert outcome.world.jobs.most_alive_in_a_life == 1

    report = explore_crashes(
        by_function,
        oracle=one_alive_in_a_life,
        world=lambda: TaskWorld(FakeJobs(scripts=[LONG], can_find_by_slot=True)),
        kinds=[kind],
        retry_on=(JobError,),
        max_attempts=MANY,
        max_pairs=150,
    )
    assert report.ways > 1


def test_a_look_that_freezes_and_wakes_up_beside_its_successor_submits_no_second_job() -> None:
    report = explore_freezes(
        by_function,
        oracle=[one_alive, jobs_submitted(1)],
        world=lambda: TaskWorld(FakeJobs(scripts=[LONG], dedupes=True)),
        max_attempts=MANY,
    )
    print(report)


# --- ended by a person between two looks, when there is no process --------------------------------------------


def looked(jobs: FakeJobs, attempt: TaskAttempt, times: int, policy: ResumePolicy = POLICY) -> TaskAttempt:
    """The try after so many looks."""
    for _ in range(times):
        with pytest.raises(AirflowRescheduleException) as raised:
            run_job(jobs, policy=policy, context=attempt.context)
        attempt.world.come_back(raised.value.reschedule_date)
        attempt = attempt.reschedule()
    return attempt


@pytest.mark.parametrize("state", ["failed", "success"])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_task_that_is_marked_between_two_looks_leaves_its_job_and_the_next_clear_ends_it(
    state: Any, times: int
) -> None:
    jobs = FakeJobs(scripts=[["RUNNING"] * 99, LONG])
    attempt = looked(jobs, task_context(), times)
    attempt.mark(state)
    assert jobs.alive() == ["job-0"]  # nobody was there
    cleared = looked(jobs, attempt.clear(), 4)
    assert run_job(jobs, policy=POLICY, context=cleared.context) == {"job": "job-1"}
    assert (jobs.most_alive, calls(jobs, "cancel")) == (1, 1)


def test_many_clears_between_looks_have_never_two_jobs_alive() -> None:
    jobs = FakeJobs(scripts=[["RUNNING"] * 99])
    attempt = task_context()
    for _ in range(5):
        attempt = looked(jobs, attempt, 2).clear()
    looked(jobs, attempt, 1)
    assert (jobs.most_alive, len(jobs.jobs), calls(jobs, "cancel")) == (1, 6, 5)


# --- the kit --------------------------------------------------------------------------------------------------


def test_the_explorer_notices_a_look_that_submits_again() -> None:
    def forgetful(world: TaskWorld) -> Any:
        attempt = world.begin()
        attempt.task_store.set("try", attempt.ti.try_number)
        job = world.jobs.submit()
        if world.jobs.status(job) == "RUNNING" and world.attempt < 3:
            raise AirflowRescheduleException(attempt.world.clock.now())  # type: ignore[no-untyped-call]
        return job

    with pytest.raises(CleanRunError, match="Without any crash: assert 3 == 1"):
        explore_crashes(forgetful, oracle=jobs_submitted(1), world=lambda: TaskWorld(FakeJobs(scripts=[LONG])))
