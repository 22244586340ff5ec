"""Many jobs that wait by reschedule on a real Airflow with two worker slots: never two jobs of one task alive.

`RESCHEDULED_JOBS` is how many wait at once besides those that something happens to.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from stage import Stage
from tests.airflow.conftest import HEARTBEAT_TIMEOUT, begun_side_by_side, say
from tests.support.airflow.job_dag_files import few_flights
from tests.support.airflow.job_runs import Run

DAGS = Path(__file__).parents[1] / "support" / "airflow" / "dags" / "rescheduled"
SLOTS = 2
JOBS = int(os.environ.get("RESCHEDULED_JOBS", "8"))
PATIENCE = 150.0 + 30 * JOBS
"""Seconds to wait, as every look needs one of the two slots."""
NOBODY_SECONDS = 8
"""For how long a test looks that nobody cancels a job."""


@pytest.fixture(scope="module")
def slots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A real Airflow with two worker slots."""
    home = Path(tmp_path_factory.mktemp("rescheduled"))
    env = {"AIRFLOW__CORE__PARALLELISM": str(SLOTS), "AIRFLOW__AIRFLOW_RESUME__DEPLOYMENT": home.name}
    options: dict[str, Any] = {"heartbeat_timeout": HEARTBEAT_TIMEOUT, "progress": say, "env": env}
    with Stage(home, dags=DAGS, flights=few_flights(home), **options) as running:
        running.airflow.wait_until_parsed("rescheduled_mapped")
        yield running


@pytest.fixture(scope="module")
def playing_slots(request: pytest.FixtureRequest, slots: Stage) -> Iterator[dict[str, Future[None]]]:
    """As `playing`."""
    with begun_side_by_side(request.session, at_once=10, slots=slots) as begun:
        yield begun


def side_by_side_with_the_others(test: Callable[..., None]) -> Any:
    return pytest.mark.side_by_side(pytest.mark.usefixtures("playing_slots")(test))


class PatientRun(Run):
    """A run among many."""

    def until(self, happened: Callable[[], object], what: str) -> None:
        self.stage.airflow.wait_for(lambda: happened() or None, what=f"{self.dag_id}: {what}", timeout=PATIENCE)

    def end(self) -> str:
        self.let_jobs_end()
        return self.stage.airflow.wait_for_run(self.dag_id, self.run_id, timeout=PATIENCE)


def waits(run: Run) -> bool:
    """Whether the task has submitted its job and has no process now."""
    return run.books["submitted"] > 0 and run.task["state"] == "up_for_reschedule"


def waiting(stage: Stage, dag_id: str) -> Run:
    run = PatientRun.start(stage, dag_id)
    run.until(lambda: waits(run), "the task waits without a process")
    return run


def held_at_look(run: Run, act: Callable[[], None]) -> None:
    """Do this while the task asks for the status, whose answer is withheld."""
    hold = run.stage.hold(run.stage.jobs, label=run.run_id, path_prefix="/jobs/", method="GET")
    hold.wait(seconds=PATIENCE)
    act()
    hold.release()


@side_by_side_with_the_others
def test_more_jobs_than_slots_are_alive_at_once_and_none_uses_a_try(slots: Stage) -> None:
    runs = [PatientRun.start(slots, "rescheduled" if number % 2 else "rescheduled_function") for number in range(JOBS)]
    for run in runs:
        run.until(lambda run=run: run.books["submitted"] == 1, "its job is submitted")  # type: ignore[misc]
    alive = sum(run.books["alive"] for run in runs)
    for run in runs:
        assert run.outcome() == "1 job, its result"
    assert alive == JOBS > SLOTS
    assert {run.task["try_number"] for run in runs} == {1}


@side_by_side_with_the_others
def test_a_look_that_is_killed_costs_a_try_and_no_job(slots: Stage) -> None:
    run = waiting(slots, "rescheduled")
    held_at_look(run, lambda: run.process.kill())  # noqa: PLW0108  not before it is held
    run.until_taken_up(2)
    assert run.outcome() == "1 job, its result"
    assert run.task["try_number"] > 1


@side_by_side_with_the_others
def test_a_task_that_is_cleared_between_two_looks_ends_its_job_before_another_one_begins(slots: Stage) -> None:
    run = waiting(slots, "rescheduled_function")
    run.clear()
    run.until(lambda: run.books["submitted"] == 2, "another job is submitted")
    assert run.outcome() == "2 jobs, 1 cancelled, the result of the last"


@side_by_side_with_the_others
@pytest.mark.parametrize("state", ["failed", "success"])
def test_a_task_that_is_marked_between_two_looks_leaves_its_job_until_it_is_cleared(slots: Stage, state: str) -> None:
    run = waiting(slots, "rescheduled")
    run.mark(state)
    time.sleep(NOBODY_SECONDS)
    assert (run.task["state"], run.books["alive"], run.books["cancels"]) == (state, 1, 0)
    run.clear()
    run.until(lambda: run.books["submitted"] == 2, "another job is submitted")
    assert run.outcome() == "2 jobs, 1 cancelled, the result of the last"


@side_by_side_with_the_others
def test_a_task_that_is_marked_during_a_look_ends_its_job(slots: Stage) -> None:
    run = waiting(slots, "rescheduled_function")

    def mark_and_wait() -> None:
        run.mark("failed")
        run.until(lambda: run.books["cancels"] == 1, "the job is cancelled")

    held_at_look(run, mark_and_wait)
    assert run.outcome() == "1 job, 1 cancelled, no result, failed"


@side_by_side_with_the_others
def test_no_retries_are_needed_and_an_execution_timeout_is_that_of_a_single_look(slots: Stage) -> None:
    runs = [waiting(slots, dag_id) for dag_id in ("rescheduled_once", "rescheduled_timed")]
    time.sleep(40)
    for run in runs:
        assert run.outcome() == "1 job, its result"
        assert run.task["try_number"] == 1


@side_by_side_with_the_others
def test_mapped_tasks_wait_beside_each_other_whatever_may_run_at_once(slots: Stage) -> None:
    """`max_active_tis_per_dag=1` counts running processes. A task that waits by reschedule has none between looks."""
    run = PatientRun.start(slots, "rescheduled_mapped")
    parts = [PatientRun(slots, run.dag_id, f"{run.run_id}-{index}") for index in range(3)]
    run.until(lambda: sum(part.books["alive"] for part in parts) == 3, "three jobs are alive")
    for part in parts:
        part.let_jobs_end()
    assert run.end() == "success"
    results = [run.result(index) for index in range(3)]
    assert [(part["item"], part["job"]) for part in results] == [
        (10 + index, part.jobs[0]) for index, part in enumerate(parts)
    ]
    assert [part.books["submitted"] for part in parts] == [1, 1, 1]


def test_a_scheduler_that_is_killed_between_the_looks_finds_the_tasks_where_they_were(slots: Stage) -> None:
    runs = [waiting(slots, dag_id) for dag_id in ("rescheduled", "rescheduled_function")]
    slots.airflow.restart("scheduler")
    time.sleep(NOBODY_SECONDS)
    for run in runs:
        assert run.outcome() == "1 job, its result"
