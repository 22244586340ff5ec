"""Jobs whose systems lie, whose submits raise after the job has begun, and whose Dag runs come back.

`FINDS` is what is found, by fault and kind of job system; where nothing is named, nothing is found. What is found there
is what the engine does not withstand yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import BaseOperator

from airflow_resume import PollPolicy, ResumePolicy, run_job
from airflow_resume.errors import LostSubmissionError, StrayJobError
from airflow_resume.testing import CrashWorld, FakeClock, FakeJobs, World, explore_crashes, task_context
from airflow_resume.testing.crashes.explorer import CrashFinding
from airflow_resume.testing.crashes.outcome import ExplorationOutcome
from airflow_resume.testing.fakes.clock import START
from airflow_resume.testing.kinds import is_of
from airflow_resume.testing.turns.interleaving import explore_interleavings
from airflow_resume_mixins import ResumableJobMixin
from tests.support.jobs.hooks import JobHooks, LookUpHooks, equipped

POLICY = ResumePolicy(poll=PollPolicy(interval=timedelta(0), max_interval=timedelta(0), jitter=0))

SYSTEMS: Mapping[str, Mapping[str, Any]] = {
    "look-up": {},
    "tokens": {"dedupes": True, "can_find": False},
    "neither": {"can_find": False},
}


class JobWorld(CrashWorld):
    """One task in one Airflow, and a job system."""

    jobs: FakeJobs
    airflow: World
    events_of_earlier_lives = 0

    def recreate_runs(self) -> None:
        super().recreate_runs()
        self.events_of_earlier_lives = len(self.jobs.events)

    @property
    def foreign(self) -> set[Any]:
        """The jobs of earlier lives of the Dag run."""
        return {job.id for job in self.jobs.jobs if job.life < self.life}


def make_world(**options: Any) -> Callable[[], JobWorld]:
    """Makes worlds with such a job system."""
    jobs = {"scripts": [["RUNNING", "SUCCEEDED"]], **options}
    return lambda: JobWorld(airflow=World(), jobs=FakeJobs(**jobs))


# --- attempts ---------------------------------------------------------------------------------------------------


class LooksUp(LookUpHooks, ResumableJobMixin, BaseOperator):
    pass


class HasTokens(JobHooks, ResumableJobMixin, BaseOperator):
    submission_is_idempotent = True

    def get_job_result(self, external_id: Any, context: Any) -> Any:
        return self.jobs.result(external_id)


class HasNeither(HasTokens):
    submission_is_idempotent = False


def with_run_job(world: JobWorld) -> Any:
    with task_context(world=world.airflow, retries=100):
        return run_job(world.jobs, policy=POLICY)


def with_an_operator(world: JobWorld) -> Any:
    kind = LooksUp if world.jobs.can_find else HasTokens if world.jobs.dedupes else HasNeither
    with task_context(world=world.airflow, retries=100) as attempt:
        operator = equipped(kind(task_id="task", resume_policy=POLICY), jobs=world.jobs)
        operator.job_not_found = world.jobs.job_not_found  # type: ignore[attr-defined]
        return operator.execute(attempt.context)


ATTEMPTS = [with_run_job, with_an_operator]

# --- oracles ----------------------------------------------------------------------------------------------------


def one_alive(outcome: ExplorationOutcome[JobWorld]) -> None:
    assert outcome.world.jobs.most_alive_in_a_life <= 1, "two jobs alive"


def no_foreign_job_cancelled(outcome: ExplorationOutcome[JobWorld]) -> None:
    events = outcome.world.jobs.events[outcome.world.events_of_earlier_lives :]
    cancelled = {event.job for event in events if event.call == "cancel"}
    assert not cancelled & outcome.world.foreign, "a foreign job cancelled"


def result_of_this_life(outcome: ExplorationOutcome[JobWorld]) -> None:
    if outcome.error is None:
        assert outcome.result["job"] not in outcome.world.foreign, "a foreign result"


def none_left_alive(outcome: ExplorationOutcome[JobWorld]) -> None:
    if outcome.error is None:
        assert not set(outcome.world.jobs.alive()) - outcome.world.foreign, "a job left alive"


ORACLES = (one_alive, no_foreign_job_cancelled, result_of_this_life, none_left_alive)

# --- faults -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What is tried, alone and in pairs with the other kinds.

    Args:
        fault: of which each way that counts has one.
        others: kinds that it is paired with.
        needs: of the job system.
        max_pairs: as many as it takes to find what there is.
    """

    fault: str
    others: Sequence[str] = ()
    needs: str = ""
    max_pairs: int = 250

    def findings(self, attempt: Callable[[JobWorld], Any], **options: Any) -> list[CrashFinding]:
        """What is found in ways with this fault."""
        report = explore_crashes(
            attempt,
            oracle=ORACLES,
            world=make_world(**options),
            kinds=[self.fault, *self.others],
            double=bool(self.others),
            max_pairs=self.max_pairs,
            allowed_to_fail=(LostSubmissionError,),
            find_all=True,
        )
        return [found for found in report.findings if any(is_of(fault, self.fault) for fault in found.way.values())]


FAULTS = {
    "a submit that raises after the job has begun": Fault(fault="raises_after"),
    "an index that misses a job once": Fault(fault="wrong_once misses", others=["crash"], needs="look-up"),
    "a job that is gone once": Fault(fault="wrong_once gone", others=["crash"]),
    "a job whose word is unheard of once": Fault(fault="wrong_once unheard_of", others=["crash"]),
    "an ended job that is active again once": Fault(fault="wrong_once active_again", others=["crash"]),
    "a living job that has failed once": Fault(fault="wrong_once failed", others=["crash"]),
    "a Dag run that is made again": Fault(fault="recreated", others=["crash"], max_pairs=1_500),
    "state that is cleared by a person": Fault(fault="state_cleared", others=["crash"]),
    "a backup that is restored": Fault(fault="restored", others=["crash"]),
}

FINDS: Mapping[str, Mapping[str, set[str]]] = {
    "state that is cleared by a person": {"neither": {"two jobs alive"}},
    "a backup that is restored": {"neither": {"two jobs alive"}},
}
"""Take out what is withstood."""

CASES = [
    pytest.param(fault, system, id=f"{fault}, {system}")
    for fault in FAULTS
    for system in SYSTEMS
    if FAULTS[fault].needs in {"", system}
]


@pytest.mark.parametrize("attempt", ATTEMPTS)
@pytest.mark.parametrize(("fault", "system"), CASES)
def test_exactly_what_the_engine_does_not_withstand_is_found(
    fault: str, system: str, attempt: Callable[[JobWorld], Any]
) -> None:
    findings = FAULTS[fault].findings(attempt, **SYSTEMS[system])
    assert {finding.problem.splitlines()[0] for finding in findings} == FINDS.get(fault, {}).get(system, set()), (
        "\n\n".join(map(str, findings))
    )


# --- searched by slot -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["recreated", "state_cleared", "restored", "raises_after"])
@pytest.mark.parametrize("dedupes", [False, True])
def test_with_a_search_by_slot_there_is_one_job_alive_over_all_lives_of_the_run(
    kind: str,
    dedupes: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIRFLOW__AIRFLOW_RESUME__DEPLOYMENT", "production")

    def one_alive_over_all(outcome: ExplorationOutcome[JobWorld]) -> None:
        assert outcome.world.jobs.most_alive == 1, "two jobs alive"

    report = explore_crashes(
        with_run_job,
        oracle=[one_alive_over_all, result_of_this_life],
        world=make_world(can_find_by_slot=True, dedupes=dedupes),
        kinds=[kind, "crash"],
        max_pairs=200,
    )
    assert report.pairs > 50


def test_two_deployments_of_the_same_names_leave_each_others_jobs_alone() -> None:
    """Neither has a name, so the one that comes second fails by name, and touches nothing."""

    def staging(world: JobWorld) -> Any:
        with task_context(world=world.airflow, retries=100):
            return run_job(world.jobs, policy=POLICY)

    def production(world: JobWorld) -> Any:
        with task_context(world=world.other, retries=100):
            return run_job(world.jobs, policy=POLICY)

    def nothing_cancelled(outcome: ExplorationOutcome[JobWorld]) -> None:
        assert not [event for event in outcome.world.jobs.events if event.call == "cancel"]
        assert len({job.token for job in outcome.world.jobs.jobs}) == len(outcome.world.jobs.jobs)

    def make() -> JobWorld:
        another_start = World(clock=FakeClock(START + timedelta(days=1)))
        return JobWorld(airflow=World(), other=another_start, jobs=FakeJobs(can_find_by_slot=True))

    report = explore_interleavings(
        [staging, production], oracle=nothing_cancelled, world=make, switches=2, may_fail=(StrayJobError,)
    )
    print(report)
    assert report.tried > 10
