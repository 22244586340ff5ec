"""Jobs of deferred tasks on a real Airflow: what a person does cancels them, what becomes of a triggerer does not.

It has an Airflow of its own, as a triggerer that is killed takes with it who would cancel.
"""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from local_airflow import _AIRFLOW
from processes import ProcessFamily, with_descendants
from stage import Stage
from tests.support.airflow.job_dag_files import copy_of_job_dags, few_flights
from tests.support.airflow.job_runs import Run

MARKED = ["failed", "success"]
LEFT_ALONE = "is left alone"


@pytest.fixture(scope="module")
def deferring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    home = Path(tmp_path_factory.mktemp("deferring"))
    options: dict[str, Any] = {"heartbeat_timeout": 15, "triggerer": True, "flights": few_flights(home)}
    with Stage(home, dags=copy_of_job_dags(home / "dags"), **options) as running:
        running.airflow.wait_until_parsed("ours_polled")
        running.airflow.wait_until_parsed("ours_polled_resuming")
        yield running


@pytest.fixture(scope="module")
def runs(deferring: Stage) -> dict[str, Run]:
    """All of them wait in the triggerer."""
    of = {"cleared, resuming": "ours_polled_resuming"}
    names = [*MARKED, "cleared", *of, "killed", "told to go", "stalled"]
    started = {name: Run.start(deferring, of.get(name, "ours_polled")) for name in names}
    for run in started.values():
        run.until_deferred(1)
    return started


@pytest.mark.parametrize("state", MARKED)
def test_a_deferred_task_that_is_marked_cancels_its_job_once(runs: dict[str, Run], state: str) -> None:
    run = runs[state]
    run.mark(state)
    run.until(lambda: run.books["alive"] == 0, "the job is cancelled")
    assert run.outcome().removesuffix(", failed") == "1 job, 1 cancelled, no result"
    assert run.task["state"] == state


def test_a_deferred_task_that_is_cleared_cancels_its_job_once_and_does_its_work_again(runs: dict[str, Run]) -> None:
    run = runs["cleared"]
    run.clear()
    run.until(lambda: run.books["submitted"] == 2, "another job is submitted")
    run.until_deferred(2)
    assert run.outcome() == "2 jobs, 1 cancelled, the result of the last"


def test_a_deferred_task_that_shall_resume_keeps_its_job_when_it_is_cleared(runs: dict[str, Run]) -> None:
    run = runs["cleared, resuming"]
    run.clear()
    run.until_deferred(2)
    assert run.outcome() == "1 job, its result"


def test_a_job_outlives_a_triggerer_that_stalls_and_wakes_when_another_one_has_its_triggers(
    deferring: Stage, runs: dict[str, Run]
) -> None:
    """Airflow then calls `on_kill` of triggers that nobody has killed."""
    run = runs["stalled"]
    family = _family(deferring)
    stalled = with_descendants(psutil.Process(family._started["triggerer"].pid))
    before = _triggerer_of(run)
    for process in stalled:
        process.suspend()
    family.start("triggerer-beside", [*_AIRFLOW, "triggerer", "--skip-serve-logs"])
    run.until(lambda: _triggerer_of(run) not in {before, None}, "another triggerer has the trigger")
    for process in stalled:
        process.resume()
    run.until(lambda: LEFT_ALONE in run.log(1), "the one that was stalled gives the trigger up")
    assert (run.books["alive"], run.task["state"]) == (1, "deferred")
    assert run.outcome() == "1 job, its result"
    family.kill("triggerer-beside")


def test_a_job_outlives_a_triggerer_that_is_told_to_go(deferring: Stage, runs: dict[str, Run]) -> None:
    family = _family(deferring)
    triggerer = family._started.pop("triggerer")
    triggerer.send_signal(signal.SIGTERM)
    triggerer.wait(60)
    assert runs["told to go"].books["alive"] == 1
    deferring.airflow._launch(family, "triggerer")
    assert runs["told to go"].outcome() == "1 job, its result"


def test_a_job_outlives_a_triggerer_that_is_killed(deferring: Stage, runs: dict[str, Run]) -> None:
    deferring.airflow.restart("triggerer")
    assert runs["killed"].outcome() == "1 job, its result"


def _family(stage: Stage) -> ProcessFamily:
    assert stage.airflow._family is not None
    return stage.airflow._family


def _triggerer_of(run: Run) -> int | None:
    """Which triggerer has the trigger of the task."""
    query = "SELECT t.triggerer_id FROM trigger t JOIN task_instance ti ON ti.trigger_id = t.id WHERE ti.run_id = ?"
    with closing(sqlite3.connect(run.stage.airflow.database, timeout=60)) as database:
        row = database.execute(query, (run.run_id,)).fetchone()
    return None if row is None else row[0]
