"""Run the example Dags, kill their tasks with SIGKILL in the middle, and count the results."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from clients import ROWS_A_PAGE, Service
from stage import Hold, Stage

Say = Callable[[str], None]

ALL_FLIGHTS, CARRIERS = 336_776, 16
HELD_PAGE, HELD_CHUNK = 30, 8
"""The load of a page, or of a chunk of the second window, at which the task is killed: done, but not answered."""
CLOCK = ("2013-05-01T12:30:00+00:00", "2013-09-01T12:30:00+00:00", "2014-01-02T00:00:00+00:00")
"""The time on the source's clock at each of the three runs. At half past twelve half the flights of the hour are in."""
RUN_SECONDS = 120
EXACTLY_ONCE = "exactly_once_"
"""The prefix of the Dags that append to a database of their own, in the transaction in which the position is kept."""


@dataclass(kw_only=True)
class ScenarioResult:
    """The result of a scenario: numbers to show, and promises that were broken."""

    numbers: dict[str, Any] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)

    def promise(self, what: str, *, kept: bool) -> None:
        """Record a promise that was not kept."""
        if not kept:
            self.broken.append(what)


def one_job(stage: Stage, prefix: str, say: Say) -> ScenarioResult:
    """Kill the task while its submit is being answered, and again while it waits for the job."""
    dag_id, airflow = f"{prefix}one_job", stage.airflow
    hold = stage.hold(stage.jobs, label=dag_id, path_prefix="/jobs")
    run_id = airflow.trigger(dag_id)
    hold.wait()
    killed = airflow.kill_task(dag_id, run_id, "run")
    say(f"{dag_id}: the job is submitted, the task does not know yet: kill -9 {killed}")
    stage.hold(stage.jobs, label=dag_id, path_prefix="/jobs/", method="GET").wait()
    say(f"{dag_id}: try 2 waits for the job: kill -9 {airflow.kill_task(dag_id, run_id, 'run')}")
    state = airflow.wait_for_run(dag_id, run_id, timeout=RUN_SECONDS)
    say(f"{dag_id}: {state}")
    jobs = stage.jobs.call("GET", "/stats", label=dag_id)
    result = _xcom(stage, dag_id, run_id)
    outcome = ScenarioResult(
        numbers={
            "attempts": _attempts(stage, dag_id, run_id),
            "jobs_submitted": jobs["submitted"],
            "jobs_alive_twice": max(0, jobs["max_alive"] - 1),
            "result_returned": bool(result) and len(result) == CARRIERS,
        }
    )
    outcome.promise("the run succeeds", kept=state == "success")
    outcome.promise("three attempts: it was killed twice", kept=outcome.numbers["attempts"] == 3)
    outcome.promise("one job is submitted", kept=jobs["submitted"] == 1)
    outcome.promise("never two jobs are alive", kept=jobs["max_alive"] == 1)
    outcome.promise("the job's result is returned", kept=outcome.numbers["result_returned"])
    return outcome


def every_page(stage: Stage, prefix: str, say: Say) -> ScenarioResult:
    """Kill the task when a page is loaded and the task has not been told yet."""
    dag_id, airflow = f"{prefix}every_page", stage.airflow
    hold = _hold(stage, stage.flights, dag_id, HELD_PAGE)
    run_id = airflow.trigger(dag_id)
    hold.wait()
    killed = airflow.kill_task(dag_id, run_id, "run")
    unknown = "Airflow" if prefix == EXACTLY_ONCE else "the task"
    say(f"{dag_id}: page {HELD_PAGE} is loaded, {unknown} does not know yet: kill -9 {killed}")
    state = airflow.wait_for_run(dag_id, run_id, timeout=RUN_SECONDS)
    asked = stage.flights.call("GET", "/stats")[dag_id]
    audit = _audit(stage, stage.flights, dag_id)
    say(f"{dag_id}: {state}")
    pages = -(-ALL_FLIGHTS // ROWS_A_PAGE)
    outcome = ScenarioResult(
        numbers={
            "attempts": _attempts(stage, dag_id, run_id),
            "pages_requested": asked["page_requests"],
            "pages_there_are": pages,
            **audit,
            "result_returned": _xcom(stage, dag_id, run_id) == ALL_FLIGHTS,
        }
    )
    outcome.promise("the run succeeds", kept=state == "success")
    outcome.promise("two attempts: it was killed once", kept=outcome.numbers["attempts"] == 2)
    outcome.promise("at most the page in hand is fetched twice", kept=asked["page_requests"] <= pages + 1)
    _promise_rows(outcome)
    outcome.promise("the number of rows is returned", kept=outcome.numbers["result_returned"])
    return outcome


def what_is_new(stage: Stage, prefix: str, say: Say) -> ScenarioResult:
    """Three runs, while flights keep arriving; kill the task in the middle of the second window."""
    dag_id, airflow = f"{prefix}what_is_new", stage.airflow
    states, attempts = [], 0
    for number, now in enumerate(CLOCK, start=1):
        stage.arrivals.call("POST", "/clock", json={"now": now})
        hold = _hold(stage, stage.arrivals, dag_id, HELD_CHUNK) if number == 2 else None
        run_id = airflow.trigger(dag_id)
        if hold is not None:
            hold.wait()
            killed = airflow.kill_task(dag_id, run_id, "run")
            say(f"{dag_id}: run 2, a third of the window is loaded: kill -9 {killed}")
        states.append(airflow.wait_for_run(dag_id, run_id, timeout=RUN_SECONDS))
        attempts += _attempts(stage, dag_id, run_id)
        say(f"{dag_id}: run {number} {states[-1]}")
    outcome = ScenarioResult(numbers={"attempts": attempts, **_audit(stage, stage.arrivals, dag_id)})
    outcome.promise("the runs succeed", kept=states == ["success"] * 3)
    outcome.promise("four attempts of three runs: one was killed", kept=attempts == 4)
    _promise_rows(outcome)
    return outcome


def _hold(stage: Stage, service: Service, dag_id: str, nth: int) -> Hold:
    """Withhold the reply to the nth load, or to the question after it, as a Dag with a sink loads elsewhere."""
    if dag_id.startswith(EXACTLY_ONCE):
        return stage.hold(service, label=dag_id, path_prefix="/flights", method="GET", nth=nth + 1)
    return stage.hold(service, label=dag_id, path_prefix="/warehouse/", nth=nth)


def _audit(stage: Stage, service: Service, dag_id: str) -> dict[str, int]:
    """The rows that were loaded, compared with those of the source."""
    if not dag_id.startswith(EXACTLY_ONCE):
        return dict(service.call("GET", f"/warehouse/{dag_id}/audit"))
    with closing(sqlite3.connect(stage.target(dag_id))) as connection:
        rows, distinct = connection.execute("SELECT count(*), count(DISTINCT id) FROM flights").fetchone()
    return {"rows_loaded": rows, "rows_duplicated": rows - distinct, "rows_lost": ALL_FLIGHTS - distinct}


def _promise_rows(outcome: ScenarioResult) -> None:
    numbers = outcome.numbers
    outcome.promise("no row is lost", kept=numbers["rows_lost"] == 0)
    outcome.promise("no row is duplicated", kept=numbers["rows_duplicated"] == 0)
    outcome.promise("every row is loaded", kept=numbers["rows_loaded"] == ALL_FLIGHTS)


def _attempts(stage: Stage, dag_id: str, run_id: str) -> int:
    return int(stage.airflow.task_instance(dag_id, run_id, "run")["try_number"])


def _xcom(stage: Stage, dag_id: str, run_id: str) -> Any:
    """What the task returned; None when there is nothing."""
    from airflow_client import AirflowApiError

    try:
        return stage.airflow.xcom(dag_id, run_id, "run")
    except AirflowApiError:
        return None
