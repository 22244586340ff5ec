"""What is new in Airflow 3.4, on a real one: loops of tasks, tasks without a fork, a warm shutdown."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

from processes import is_alive
from stage import Stage
from tests.next.conftest import DAGS
from tests.support.airflow.job_dag_files import few_flights
from tests.support.airflow.task_runs import TaskRun

SUPERVISOR_PASSES_NOTHING_ON = 8.0
"""Seconds; Airflow 3.3 passes a SIGTERM on at once."""


def lines_of(stage: Stage, run_id: str) -> list[dict[str, Any]]:
    """What the attempts of a run have written."""
    return [json.loads(line) for line in (stage.home / "lines" / f"{run_id}.lines").read_text().splitlines()]


def test_each_iteration_of_a_loop_of_tasks_has_a_job_and_a_place_of_its_own(stage: Stage) -> None:
    """Each iteration is killed when its job has ended, and in the second element. Nothing is taken from another one."""
    run_id = stage.airflow.trigger("iterations")
    assert stage.airflow.wait_for_run("iterations", run_id, timeout=600) == "success"
    lines = lines_of(stage, run_id)
    jobs = {(line["iteration"], line["job"]) for line in lines if "job" in line}
    assert sorted(iteration for iteration, _ in jobs) == [0, 1, 2]
    assert len({job for _, job in jobs}) == 3
    books = stage.jobs.call("GET", "/stats", label=run_id)
    assert (books["submitted"], books["max_alive"]) == (3, 1)
    delivered = [(line["iteration"], line["element"]) for line in lines if "element" in line]
    assert delivered == [(iteration, element) for iteration in range(3) for element in "abc"]
    assert len({line["pid"] for line in lines}) >= 6


def test_a_supervisor_that_is_told_to_go_waits_for_its_task_and_does_not_tell_it(stage: Stage) -> None:
    """So there is no `on_kill`: a job is not cancelled, and the task ends as if nothing had happened."""
    run = TaskRun.start(stage, "waits")

    def books() -> Any:
        return stage.jobs.call("GET", "/stats", label=run.run_id)

    run.until(lambda: " wait (" in run.log(1), "the id of the job is saved")
    process, supervisor = run.process, run.supervisor
    supervisor.send_signal(signal.SIGTERM)
    time.sleep(SUPERVISOR_PASSES_NOTHING_ON)
    assert is_alive(process)
    assert is_alive(supervisor)
    assert "The task ends (" not in run.log(1)
    stage.jobs.call("POST", "/hurry", json={"label": run.run_id})
    assert run.end() == "success"
    assert run.task["try_number"] == 1
    assert (books()["submitted"], books()["cancels"]) == (1, 0)


def test_the_scheduler_ends_when_it_gives_up_a_task_that_sends_no_heartbeat(tmp_path: Path) -> None:
    """It does so again after each start, and so no task starts any more. Celery tells it of a lost task before that."""
    (tmp_path / "lines").mkdir()
    env = {"NEXT_FOLDER": str(tmp_path / "lines")}
    with Stage(tmp_path, dags=DAGS, flights=few_flights(tmp_path), heartbeat_timeout=15, env=env) as stage:
        stage.airflow.wait_until_parsed("waits", timeout=180)
        run = TaskRun.start(stage, "waits")
        run.until(lambda: " wait (" in run.log(1), "the id of the job is saved")
        stalled = [run.supervisor, run.process]
        for process in stalled:
            process.suspend()
        log = stage.home / "airflow" / "logs-of-processes" / "scheduler.log"
        try:
            run.until(lambda: "IntegrityError" in log.read_text(), "the scheduler cannot give it up")
            run.until(lambda: "Shutting down LocalExecutor" in log.read_text(), "the scheduler ends")
        finally:
            for process in stalled:
                process.resume()
