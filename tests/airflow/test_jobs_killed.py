"""Jobs on a real Airflow: whatever ends the task, the job service's books stay balanced.

Most of a scenario is waiting, so they are played side by side, each in a run of its own; `test_` waits for one.
"""

from __future__ import annotations

import itertools
import json
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_client import AirflowApiError
from stage import GLANCE, Stage

DAGS = Path(__file__).parents[1] / "support" / "job_dags"
HEARTBEAT_TIMEOUT = 10
LONG = 20
"""Seconds of a job that outlives the heartbeat time-out."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A real Airflow that gives a task up when it is silent for ten seconds, with a triggerer."""

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    home = Path(tmp_path_factory.mktemp("jobs"))
    with Stage(home, dags=DAGS, heartbeat_timeout=HEARTBEAT_TIMEOUT, triggerer=True, progress=say) as running:
        for dag_id in ("ours", "ours_mapped"):
            running.airflow.wait_until_parsed(dag_id)
        yield running


Scenario = Callable[..., None]
SCENARIOS: dict[str, Callable[[Stage], None]] = {}


def side_by_side(*cases: tuple[Any, ...]) -> Callable[[Scenario], Scenario]:
    """Play the scenario beside the others, once for each of the arguments."""

    def register(scenario: Scenario) -> Scenario:
        for case in cases or ((),):
            name = "-".join([scenario.__name__, *map(str, case)])
            SCENARIOS[name] = lambda stage, case=case: scenario(stage, *case)  # type: ignore[misc]
        return scenario

    return register


@pytest.fixture(scope="module")
def playing(stage: Stage) -> Iterator[dict[str, Future[None]]]:
    """The scenarios, begun."""
    with ThreadPoolExecutor(max_workers=5) as pool:
        yield {name: pool.submit(scenario, stage) for name, scenario in SCENARIOS.items()}


@dataclass(frozen=True)
class Run:
    """A run of one of the Dags, and the books of its jobs."""

    stage: Stage
    dag_id: str
    run_id: str

    @classmethod
    def start(cls, stage: Stage, dag_id: str, *, seconds: float = 4) -> Run:
        return cls(stage, dag_id, stage.airflow.trigger(dag_id, {"seconds": seconds}))

    @classmethod
    def waiting(cls, stage: Stage, dag_id: str, *, seconds: float = 4) -> Run:
        """A run whose task waits for its job, and has saved its id."""
        run = cls.start(stage, dag_id, seconds=seconds)
        run.until(lambda: run.saved_id() is not None, "the id of the job is saved")
        return run

    def saved_id(self) -> Any:
        try:
            kept = self.stage.airflow.state_store(self.dag_id, self.run_id, "run")
        except AirflowApiError:
            return None
        return kept.get("remote_job_id")

    def until(self, happened: Callable[[], object], what: str, seconds: float = 60) -> None:
        self.stage.airflow.wait_for(lambda: happened() or None, what=f"{self.dag_id}: {what}", timeout=seconds)

    @property
    def books(self) -> dict[str, int]:
        """Jobs submitted, alive now, the most alive at once, and how often one was cancelled."""
        found: dict[str, int] = self.stage.jobs.call("GET", "/stats", label=self.run_id)
        return found

    @property
    def task(self) -> dict[str, Any]:
        return self.stage.airflow.task_instance(self.dag_id, self.run_id, "run")

    @property
    def process(self) -> psutil.Process:
        return self.stage.airflow.task_process(self.dag_id, self.run_id, "run")

    @property
    def supervisor(self) -> psutil.Process:
        return psutil.Process(self.process.ppid())

    @property
    def result(self) -> Any:
        try:
            return self.stage.airflow.xcom(self.dag_id, self.run_id, "run")
        except AirflowApiError:
            return None

    def running_try(self, number: int, seconds: float = 60) -> None:
        def runs() -> bool:
            task = self.task
            return task["try_number"] == number and task["state"] == "running" and bool(task["pid"])

        self.until(runs, f"try {number} runs", seconds)

    def end(self, seconds: float = 120) -> str:
        return self.stage.airflow.wait_for_run(self.dag_id, self.run_id, timeout=seconds)

    def log(self, number: int) -> str:
        return self.stage.airflow.logs(self.dag_id, self.run_id, "run", number)


def books(*, submitted: int, cancels: int = 0) -> dict[str, int]:
    """Those of a run that is over, and that never had two jobs alive."""
    return {"submitted": submitted, "alive": 0, "max_alive": 1, "cancels": cancels}


# --- processes that die ---------------------------------------------------------------------------------------


@side_by_side()
def a_killed_task_reconnects_to_its_job(stage: Stage) -> None:
    run = Run.waiting(stage, "ours")
    stage.airflow.kill_task("ours", run.run_id, "run")
    assert run.end() == "success"
    assert run.books == books(submitted=1)
    assert run.result == {"job": run.saved_id(), "carriers": 16}
    assert run.task["try_number"] == 2


@side_by_side()
def airflows_mixin_loses_the_result_of_the_job_that_it_reconnects_to(stage: Stage) -> None:
    Run.waiting(stage, "airflows", seconds=1).end()  # so that the id is not 0, which it would not reconnect to
    run = Run.waiting(stage, "airflows", seconds=LONG)
    stage.airflow.kill_task("airflows", run.run_id, "run")
    assert run.end() == "success"
    assert run.books == books(submitted=1)
    assert run.result is None


@side_by_side(("ours", 1), ("airflows", 2))
def killed_between_submit_and_save_ours_adopts_the_job_and_airflows_submits_another(
    stage: Stage, dag_id: str, submitted: int
) -> None:
    run_id = f"held-{dag_id}"
    hold = stage.hold(stage.jobs, label=run_id, path_prefix="/jobs")
    stage.airflow.trigger(dag_id, {"seconds": LONG}, run_id)
    hold.wait()
    stage.airflow.kill_task(dag_id, run_id, "run")
    run = Run(stage, dag_id, run_id)
    assert run.end() == "success"
    assert run.books["submitted"] == submitted
    assert run.books["max_alive"] == submitted


@side_by_side()
def an_orphan_of_a_killed_supervisor_goes_on_beside_the_retry_and_does_no_harm(stage: Stage) -> None:
    run = Run.waiting(stage, "ours", seconds=LONG)
    orphan = run.process
    run.supervisor.kill()
    run.running_try(2)
    assert orphan.is_running()
    assert run.end() == "success"
    assert run.books == books(submitted=1)
    assert run.result == {"job": run.saved_id(), "carriers": 16}


@side_by_side(("supervisor",), ("task",))
def a_deploy_leaves_the_job_alone_and_its_result_is_returned(stage: Stage, whom: str) -> None:
    run = Run.waiting(stage, "ours", seconds=6)
    (run.supervisor if whom == "supervisor" else run.process).terminate()
    assert run.end() == "success"
    assert run.books == books(submitted=1)
    assert run.result == {"job": run.saved_id(), "carriers": 16}
    assert "The task ends (shutdown)" in run.log(1)


@side_by_side()
def airflows_mixin_loses_the_job_in_a_deploy_when_it_has_an_on_kill(stage: Stage) -> None:
    run = Run.waiting(stage, "airflows", seconds=6)
    run.process.terminate()
    assert run.end() == "success"
    assert run.books == books(submitted=2, cancels=1)


@side_by_side(("ours", 0), ("airflows", 1))
def a_stalled_attempt_that_wakes_touches_its_successors_job_only_with_airflows_mixin(
    stage: Stage, dag_id: str, cancels: int
) -> None:
    run = Run.waiting(stage, dag_id, seconds=LONG)
    old = run.process
    stalled = [run.supervisor, old]
    for process in stalled:
        process.suspend()
    try:
        run.running_try(2)
    finally:
        for process in stalled:
            process.resume()
    psutil.wait_procs([old], timeout=30)
    assert not old.is_running()
    assert run.end() == "success"
    assert run.books == books(submitted=1 + cancels, cancels=cancels)


# --- persons --------------------------------------------------------------------------------------------------


@side_by_side(*itertools.product(["ours", "ours_function"], ["failed", "success"]))
def marking_the_running_task_cancels_its_job_once(stage: Stage, dag_id: str, state: str) -> None:
    run = Run.start(stage, dag_id, seconds=60)
    run.until(lambda: run.books["alive"] == 1, "the job runs")
    run.until(lambda: run.task["pid"], "the process is known")
    process = run.process
    time.sleep(2 * GLANCE)  # the id is saved a moment after the job runs
    stage.airflow.mark(dag_id, run.run_id, "run", state)
    psutil.wait_procs([process], timeout=30)
    assert not process.is_running()
    assert run.end() == state
    assert run.books == books(submitted=1, cancels=1)


@side_by_side()
def clearing_the_running_task_cancels_its_job_before_another_is_submitted(stage: Stage) -> None:
    run = Run.waiting(stage, "ours", seconds=7)
    first = run.saved_id()
    stage.airflow.clear("ours", run.run_id, "run")
    run.until(lambda: run.books["submitted"] == 2, "the second job is submitted")
    assert run.end() == "success"
    assert run.books == books(submitted=2, cancels=1)
    assert run.result == {"job": run.saved_id(), "carriers": 16}
    assert run.saved_id() != first


@side_by_side(("ours", 2), ("ours_resuming", 1), ("airflows", 1))
def clearing_the_task_after_its_success_does_the_work_again_unless_it_shall_resume(
    stage: Stage, dag_id: str, submitted: int
) -> None:
    run = Run.waiting(stage, dag_id, seconds=2)
    assert run.end() == "success"
    before = run.task["try_number"]
    stage.airflow.clear(dag_id, run.run_id, "run")
    run.until(lambda: run.task["try_number"] > before, "another try")
    assert run.end() == "success"
    assert run.books == books(submitted=submitted)


@side_by_side()
def a_mapped_task_that_is_expanded_anew_gives_no_item_the_result_of_another(stage: Stage) -> None:
    run = Run.start(stage, "ours_mapped", seconds=1)
    assert run.end() == "success"
    changed = ["b", "c", "a"]
    stage.airflow.database.with_name(f"{run.run_id}.json").write_text(json.dumps(changed))
    stage.airflow.clear("ours_mapped", run.run_id, "items", "run")
    run.until(lambda: run.books["submitted"] == 5, "the jobs of the changed list")
    assert run.end() == "success"
    results = [stage.airflow.xcom("ours_mapped", run.run_id, "run", map_index=index) for index in range(3)]
    assert [result["item"] for result in results] == changed
    assert len({result["job"] for result in results}) == 3


# --- time -----------------------------------------------------------------------------------------------------


@side_by_side()
def a_job_longer_than_the_execution_timeout_is_finished_by_the_retries(stage: Stage) -> None:
    run = Run.start(stage, "ours_short", seconds=8)
    assert run.end() == "success"
    assert run.books == books(submitted=1)
    assert run.task["try_number"] >= 2


@pytest.mark.parametrize("name", SCENARIOS)
def test_side_by_side(name: str, playing: dict[str, Future[None]]) -> None:
    playing[name].result()


# --- with Airflow to themselves -------------------------------------------------------------------------------


def test_a_deferred_job_survives_its_triggerer(stage: Stage) -> None:
    run = Run.start(stage, "ours_deferred", seconds=15)
    run.until(lambda: run.task["state"] == "deferred", "the task is deferred")
    stage.airflow.restart("triggerer")
    assert run.end() == "success"
    assert run.books == books(submitted=1)
    assert run.result == {"job": run.saved_id(), "carriers": 16}


def test_a_job_that_outlives_the_retention_is_still_found_and_airflows_is_not(stage: Stage) -> None:
    runs = [Run.waiting(stage, dag_id, seconds=2 * LONG) for dag_id in ("ours", "airflows")]
    with sqlite3.connect(stage.airflow.database, timeout=30) as database:  # a month later
        database.execute("UPDATE task_state_store SET expires_at = '2000-01-01' WHERE expires_at IS NOT NULL")
    stage.airflow.command("state-store", "clean")
    for run in runs:
        stage.airflow.kill_task(run.dag_id, run.run_id, "run")
    assert [run.end() for run in runs] == ["success", "success"]
    assert [run.books["submitted"] for run in runs] == [1, 2]
    assert runs[1].books["max_alive"] == 2
