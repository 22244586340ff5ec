"""Loops on a real Airflow that no other test disturbs: all flights in spite of kills, and no API server for a while."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from scenarios import ALL_FLIGHTS
from stage import Stage
from tests.support.airflow.flights_runs import cost_of_kills
from tests.support.airflow.loop_runs import LOOP_DAGS, LoopRun

LIMIT, KILLS, SEED = 250, 5, 2013
AT_MOST_THROWN_AWAY = 5
"""Seconds of work: one between two writes, and patience with a busy machine."""
PAUSE = 5
"""Seconds without an element, in a loop that delivers ten in each."""


@pytest.fixture(scope="module")
def quiet_stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with Stage(Path(tmp_path_factory.mktemp("quiet")), dags=LOOP_DAGS) as running:
        for dag_id in ("all_flights", "loops"):
            running.airflow.wait_until_parsed(dag_id)
        yield running


def test_five_kills_lose_no_row_and_repeat_what_was_not_committed(quiet_stage: Stage) -> None:
    cost = cost_of_kills(quiet_stage, seed=SEED, kills=KILLS, limit=LIMIT)
    print(cost)
    assert cost.audit["rows_lost"] == 0
    assert cost.audit["rows_loaded"] == ALL_FLIGHTS + cost.audit["rows_duplicated"]
    # A page may be loaded and not in the diary: that of each kill.
    assert cost.audit["rows_duplicated"] <= LIMIT * (sum(cost.pages_again) + KILLS)
    assert max(cost.thrown_away) <= AT_MOST_THROWN_AWAY


@pytest.mark.parametrize("dag_id", ["loops", "loops_once"])
def test_a_deploy_of_the_scheduler_with_its_workers_and_tasks_costs_no_try(quiet_stage: Stage, dag_id: str) -> None:
    run = LoopRun.start(quiet_stage, dag_id, count=10, holds=[["loop", 4]])
    run.until_held()
    process = run.process
    with quiet_stage.airflow.redeployed("scheduler"):
        run.until_told_to_stop()
        run.let_go()
        run.until_gone(process)
    assert run.end() == "success"
    print(dag_id, f"delivered={run.processes()} tries={run.tries()} max_tries={run.task['max_tries']}")
    assert run.processes() == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert run.tries() == {1}
    assert run.task["try_number"] == 1


def test_a_loop_goes_on_without_the_api_server_within_its_bound_and_catches_up(quiet_stage: Stage) -> None:
    count, bound = 250, 10
    run = LoopRun.start(quiet_stage, "loops", count=count, pace=0.1, max_uncommitted=bound)
    run.until(lambda: run.committed() > 10, "some elements are committed")
    with quiet_stage.airflow.without("api-server"):
        gone = time.time()
        # Much more than a minute without the API server would end the task, and a busy machine takes long to start it.
        run.until(lambda: time.time() - run.lines()[-1].at > PAUSE, "the loop pauses")
        paused, during = time.time(), [line.at - gone for line in run.lines() if line.at > gone]
        assert len(run.lines()) < count
    back = time.time()
    assert run.end() == "success"
    times = [line.at for line in run.lines()]
    longest = max(after - before for before, after in pairwise(times))
    print(
        f"without the API server for {back - gone:.0f} s: {len(during)} elements in {during[-1]:.1f} s, then a pause"
        f" of {longest:.1f} s, on at {next(at for at in times if at > paused) - back:.1f} s after its return"
    )
    said = [line for line in run.log(1).splitlines() if "Loop 'loop': " in line]
    print("\n".join(said))
    assert len(said) >= 3, "at the opening, every half a minute, and at the end"
    assert run.task["try_number"] == 1
    assert run.elements() == list(range(count))
    assert bound / 2 < during[-1]
    assert run.committed() == count
