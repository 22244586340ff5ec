"""Our state backend on a real Airflow: the example Dags killed, values large and small, and a backend in trouble.

Every run may have settings of its own, so one Airflow is enough: see `support/airflow/dags/sql_backend`.
"""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

import scenarios
from airflow_client import AirflowApiError
from airflow_resume.backends import SqlStoreBackend
from stage import Stage
from tests.support.airflow.job_runs import Run
from tests.support.airflow.loop_runs import LoopRun
from tests.support.airflow.sql_backend_stage import BACKEND, CLEAR_ON_SUCCESS, CONN_ID, EVERYTHING, ON_DANGLING, URL
from tests.support.airflow.task_runs import TaskRun
from tests.support.backends.databases import ask, database_on_postgresql

pytestmark = [pytest.mark.side_by_side, pytest.mark.usefixtures("playing_kept")]

REFERENCE = "airflow-resume:1:"
ARRIVALS = threading.Lock()
"""The source of what is new has one clock, so one scenario at a time may set it."""
AWAY_SECONDS = 20


def say(text: str) -> None:
    print(text)


def in_airflow(value: Any) -> str:
    """What Airflow keeps, and its UI shows, in place of a value: JSON, or a reference."""
    assert list(value) == ["__airflow_state_ref__"]
    return str(value["__airflow_state_ref__"])


def state_file(stage: Stage) -> Path:
    return stage.airflow.database.parents[1] / "state.db"


def follow(stage: Stage, value: Any) -> Any:
    """A value as a task gets it; what is in Airflow only needs no database."""
    with closing(SqlStoreBackend(f"sqlite:///{state_file(stage)}")) as backend:
        return backend.deserialize_task_state_store_from_ref(in_airflow(value))


def record(stage: Stage, dag_id: str, key: str) -> Any:
    """The record of the newest run; small ones stay in Airflow unless nothing shall."""
    kept = stage.airflow.state_store(dag_id, stage.airflow.newest_run(dag_id), "run")[key]
    assert in_airflow(kept).startswith(REFERENCE) == dag_id.startswith("stored_")
    return follow(stage, kept)


# --- a database that is away for long: begun first, as it takes longest ------------------------------------------


def beside(stage: Stage, name: str) -> Path:
    """A file for a database of one test."""
    return state_file(stage).with_name(f"{name}.db")


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Nobody else writes to an SQLite file."""
    with closing(sqlite3.connect(file, isolation_level=None, timeout=30)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


def test_a_loop_whose_backend_is_away_goes_on_until_too_much_is_uncommitted_and_waits(kept: Stage) -> None:
    file = beside(kept, "locked")
    pace, bound, count = 0.1, 3, 150
    run = LoopRun.start(
        kept,
        "kept_loop",
        environment={**EVERYTHING, URL: f"sqlite:///{file}"},
        holds=[["loop", 5]],
        count=count,
        pace=pace,
        interval=0.2,
        max_interval=bound,
        max_uncommitted=bound,
    )
    run.until_held()
    with locked(file):
        run.let_go()
        time.sleep(AWAY_SECONDS)
        delivered = run.elements()
    assert run.end() == "success"
    assert 6 < len(delivered) <= 6 + 2 * bound / pace < count
    assert run.delivered().attempts == [list(range(count))]


# --- the example Dags, killed: with small values in Airflow, and with none ----------------------------------------

both = pytest.mark.parametrize("prefix", ["", "stored_"])


@both
def test_one_job_is_submitted_once_and_its_result_returned(kept: Stage, prefix: str) -> None:
    outcome = scenarios.one_job(kept, prefix, say)
    assert outcome.broken == []
    found = record(kept, f"{prefix}one_job", "resume.job.job")
    assert (found["phase"], found["status"], found["generation"]) == ("terminal", "succeeded", 1)
    assert found["claim"]["try"] == 3


@both
def test_every_page_is_loaded_and_at_most_the_one_in_hand_twice(kept: Stage, prefix: str) -> None:
    outcome = scenarios.every_page(kept, prefix, say)
    assert outcome.broken == []
    found = record(kept, f"{prefix}every_page", "resume.loop.pages")
    assert (found["done"], found["n"], found["state"]) == (True, 9, {"rows": scenarios.ALL_FLIGHTS})
    assert (found["at"]["opens"], found["at"]["try"]) == (2, 2)


@both
def test_what_is_new_is_loaded_without_a_gap_and_the_mark_follows(kept: Stage, prefix: str) -> None:
    with ARRIVALS:
        outcome = scenarios.what_is_new(kept, prefix, say)
    assert outcome.broken == []
    assert record(kept, f"{prefix}what_is_new", f"resume.window.{prefix}flights~~watermark")["state"] == "committed"
    mark = kept.airflow.asset_state_store(f"{prefix}flights")["resume.watermark.watermark"]
    assert in_airflow(mark).startswith(REFERENCE) == (prefix == "stored_")
    assert [line["to"] for line in follow(kept, mark)["history"]] == [
        "2013-05-01T11:30:00+00:00",
        "2013-09-01T11:30:00+00:00",
        "2014-01-01T23:00:00+00:00",
    ]


# --- values, as Airflow's UI shows them and as the next attempt gets them -----------------------------------------


def test_a_small_value_is_shown_a_large_one_is_a_reference_and_both_come_back(kept: Stage) -> None:
    run = LoopRun.start(kept, "kept_values", holds=[["values", "kept"]])
    run.until_held()
    for shown in (run.state_store(), kept.airflow.asset_state_store("kept_book")):
        assert json.loads(in_airflow(shown["small"])) == {"page": 3}
        assert in_airflow(shown["large"]).startswith(REFERENCE)
        assert len(str(shown["large"])) < 200
    run.process.kill()
    assert run.end() == "success"
    assert run.result() == [[{"page": 3}, True]] * 2
    assert run.task["try_number"] == 2


def test_two_instances_of_a_mapped_task_share_nothing_and_one_is_cleared_alone(kept: Stage) -> None:
    run = Run.start(kept, "kept_jobs_mapped", environment=EVERYTHING)
    instances = [run.at(index) for index in range(2)]
    run.until(lambda: all("wait (" in each.log(1) for each in instances), "they wait for their jobs")
    instances[0].process.kill()
    assert run.end() == "success"
    assert [each.result()["item"] for each in instances] == [601, 602]
    before = [each.result()["job"] for each in instances]
    kept.airflow.change(
        "POST",
        "/api/v2/dags/kept_jobs_mapped/clearTaskInstances",
        {"dry_run": False, "dag_run_id": run.run_id, "task_ids": [["run", 1]], "only_failed": False},
    )
    assert run.end() == "success"
    after = [each.result()["job"] for each in instances]
    assert (before[0] == after[0], before[1] == after[1]) == (True, False)
    assert run.books["submitted"] == 3


def test_a_deferred_task_finds_its_job_behind_the_reference(kept: Stage) -> None:
    run = Run.start(kept, "kept_job_deferred", environment=EVERYTHING)
    run.until_deferred(1)
    assert in_airflow(run.state_store()["resume.job.job"]).startswith(REFERENCE)
    assert run.outcome() == "1 job, its result"


def test_an_event_trigger_keeps_its_mark_behind_a_reference(kept: Stage) -> None:
    def fired() -> list[Any]:
        try:
            return [event["extra"]["payload"] for event in kept.airflow.asset_events("kept_watched")]
        except AirflowApiError:  # it is answered with 500 while a run that the asset has triggered is queued
            return []

    def mark() -> Any:
        return kept.airflow.asset_state_store("kept_watched").get("resume.watermark.watermark")

    def stands() -> Any:
        return None if mark() is None else follow(kept, mark())["at"]

    run = TaskRun(kept, "kept_watched", "")
    run.until(lambda: (stands(), fired()) == ("3", [1, 2, 3]), "three numbers were fired")
    assert in_airflow(mark()).startswith(REFERENCE)


# --- clear_on_success ---------------------------------------------------------------------------------------------

KILLED = {**EVERYTHING, CLEAR_ON_SUCCESS: "True", BACKEND: "failing_backends.KilledAtSuccess"}


def waiting(stage: Stage, environment: dict[str, str]) -> Run:
    run = Run.start(stage, "kept_job", environment=environment)
    run.until(lambda: "wait (" in run.log(1), "it waits for its job")
    return run


def test_killed_when_its_values_are_deleted_a_task_fails_by_name_and_submits_nothing(kept: Stage) -> None:
    run = waiting(kept, KILLED)
    assert run.outcome() == "1 job, no result, failed"
    assert run.task["try_number"] == 2
    assert "DanglingReferenceError: Airflow has a reference to the value of 'resume.job.job'" in run.log(2)


def test_killed_when_its_values_are_deleted_a_task_starts_anew_if_they_may_be_lost(kept: Stage) -> None:
    run = waiting(kept, {**KILLED, ON_DANGLING: "missing"})
    assert run.outcome() == "2 jobs, the result of the last"


def test_killed_when_its_values_are_deleted_a_task_whose_values_are_in_airflow_returns_its_result(kept: Stage) -> None:
    run = waiting(kept, {**KILLED, **dict.fromkeys(EVERYTHING, "4096")})
    assert run.outcome() == "1 job, its result"
    assert run.task["try_number"] == 2


def test_references_that_airflow_left_at_success_are_an_error_until_they_are_deleted(kept: Stage) -> None:
    """Airflow's server logs a warning when it cannot clear them; here it is not told to."""
    run = waiting(kept, {**EVERYTHING, CLEAR_ON_SUCCESS: "True"})
    assert run.outcome() == "1 job, its result"
    run.clear()
    assert run.outcome() == "1 job, no result, failed"
    assert "delete the key in Airflow's UI and clear the task" in run.log(2)
    delete_references(run)
    run.clear()
    assert run.outcome() == "2 jobs, the result of the last"


def test_a_job_whose_record_is_deleted_as_a_person_marks_its_task_ends_with_it(kept: Stage) -> None:
    """As Airflow's server does with `clear_on_success`, before the task is told."""
    run = waiting(kept, EVERYTHING)
    process = run.process
    delete_references(run)
    run.mark("success")
    run.until_gone(process)
    assert (run.books["cancels"], run.books["alive"]) == (1, 0)
    assert follow(kept, run.state_store()["resume.job.job"])["phase"] == "submitted"
    run.clear()
    assert run.outcome() == "2 jobs, 1 cancelled, the result of the last"


def delete_references(run: Run) -> None:
    run.stage.airflow.change(
        "DELETE", f"/api/v2/dags/kept_job/dagRuns/{run.run_id}/taskInstances/run/state-store", None
    )


# --- where the database is, and who may know ----------------------------------------------------------------------


def test_the_api_shows_the_url_to_nobody(kept: Stage) -> None:
    shown = kept.airflow.call("GET", "/api/v2/config")
    ours = [section["options"] for section in json.loads(shown)["sections"] if section["name"] == "airflow_resume"]
    assert [option["value"] for option in ours[0] if option["key"] == "backend_url"] == ["< hidden >"]
    assert "state.db" not in shown


def test_a_task_gets_the_database_from_a_connection_that_only_the_server_knows(kept: Stage) -> None:
    connection = {"connection_id": "kept_state", "conn_type": "sqlite", "host": str(beside(kept, "of_connection"))}
    kept.airflow.change("POST", "/api/v2/connections", connection)
    environment = {**EVERYTHING, URL: "", CONN_ID: "kept_state"}
    run = LoopRun.start(kept, "kept_loop", environment=environment, holds=[["loop", 3]], count=6, durability="sync")
    run.until_held()
    run.process.kill()
    assert run.end() == "success"
    assert run.delivered().attempts == [[0, 1, 2, 3], [3, 4, 5]]
    with closing(sqlite3.connect(beside(kept, "of_connection"))) as rows:
        assert rows.execute("SELECT key FROM airflow_resume_state").fetchall() == [("resume.loop.loop",)]


def test_a_task_without_its_connection_says_where_it_was_looked_for(kept: Stage) -> None:
    environment = {**EVERYTHING, URL: "", CONN_ID: "none_such"}
    run = LoopRun.start(kept, "kept_loop_once", environment=environment, count=3)
    assert run.end() == "failed"
    assert "BackendSettingError: There is no connection 'none_such'" in run.log(1)
    assert "ExecutionAPISecretsBackend" in run.log(1)
    assert run.elements() == []


# --- a database that is away -----------------------------------------------------------------------------------------


@contextmanager
def away(url: str) -> Iterator[None]:
    """A database on PostgreSQL that lets nobody in."""
    place = make_url(url)
    server = place.set(database="postgres")
    ask(server, f"ALTER DATABASE {place.database} ALLOW_CONNECTIONS false")
    ask(server, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{place.database}'")  # noqa: S608
    try:
        yield
    finally:
        ask(server, f"ALTER DATABASE {place.database} ALLOW_CONNECTIONS true")


def test_a_retry_while_the_backend_is_away_fails_by_name_and_the_next_one_goes_on(kept: Stage) -> None:
    with database_on_postgresql() as url:
        environment = {**EVERYTHING, URL: url, BACKEND: "failing_backends.Impatient"}
        run = LoopRun.start(kept, "kept_loop", environment=environment, holds=[["loop", 3]], count=6, durability="sync")
        run.until_held()
        with away(url):
            run.process.kill()
            run.until(lambda: "StoreUnavailableError: postgresql+psycopg://" in run.log_from(2), "a try fails")
        assert run.end() == "success"
    assert run.delivered().attempts == [[0, 1, 2, 3], [3, 4, 5]]


def test_a_task_that_is_killed_while_the_backend_is_away_leaves_its_job_to_the_next_attempt(kept: Stage) -> None:
    with database_on_postgresql() as url:
        run = waiting(kept, {**EVERYTHING, URL: url})
        process = run.process
        with away(url):
            process.send_signal(signal.SIGTERM)
            run.until(lambda: "The task ends (unknown)" in run.log(1), "it has given up to learn why")
            run.mark("failed")
            run.until_gone(process)
        assert run.books["alive"] == 1
        run.clear()
        run.until(lambda: run.books["submitted"] == 2, "another job is submitted")
        assert run.outcome() == "2 jobs, 1 cancelled, the result of the last"


# --- a worker that is set up wrongly ------------------------------------------------------------------------------


def in_a_missing_folder(stage: Stage) -> str:
    return f"sqlite:///{beside(stage, 'missing')}/state.db"


def newer(stage: Stage) -> str:
    file = beside(stage, "newer")
    with closing(SqlStoreBackend(f"sqlite:///{file}")) as backend:
        _ = backend.store_id
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("UPDATE airflow_resume_meta SET version = 99")
    return f"sqlite:///{file}"


def test_workers_that_cannot_follow_a_reference_say_so_and_the_next_one_goes_on(kept: Stage) -> None:
    run = LoopRun.start(
        kept,
        "kept_loop",
        environment=EVERYTHING,
        of_tries={"2": {URL: "sqlite://"}, "3": {BACKEND: ""}},
        holds=[["loop", 3]],
        count=6,
        durability="sync",
    )
    run.until_held()
    run.process.kill()
    assert run.end() == "success"
    assert "StateReferenceError: The value of 'resume.loop.loop' is in the database" in run.log(2)
    assert "BackendSettingError: 'resume.loop.loop' was written through a state backend, and" in run.log(3)
    assert run.delivered().attempts == [[0, 1, 2, 3], [3, 4, 5]]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (in_a_missing_folder, "StoreRefusedError: sqlite+pysqlite:///"),
        (newer, "has version 99 of the tables, and this airflow-resume knows"),
        (
            lambda _: "postgresql+pg8000://host/database",
            "BackendSettingError: The URL of the state backend names pg8000",
        ),
        (lambda _: "", "BackendSettingError: The state backend has no URL.\nSet [airflow_resume] backend_url"),
    ],
)
def test_a_worker_that_is_set_up_wrongly_says_so_before_anything_is_done(
    kept: Stage, url: Callable[[Stage], str], said: str
) -> None:
    run = LoopRun.start(kept, "kept_loop_once", environment={**EVERYTHING, URL: url(kept)}, count=3)
    assert run.end() == "failed"
    assert said in run.log(1)
    assert run.elements() == []


# --- the command line -------------------------------------------------------------------------------------------------


def types(stage: Stage, *arguments: str) -> Any:
    """What a person types; the decoded answer."""
    command = [sys.executable, "-c", "import sys; from airflow_resume.command import main; sys.exit(main())"]
    done = subprocess.run([*command, *arguments, "-o", "json"], capture_output=True, text=True, check=False)
    say(f"$ airflow-resume {' '.join(arguments)}\n{done.stdout}{done.stderr}")
    assert done.returncode == 0
    return json.loads(done.stdout)


def test_values_of_a_run_that_was_deleted_are_cleaned_up_and_those_of_another_stay(kept: Stage) -> None:
    deleted, stays = (LoopRun.start(kept, "kept_loop_once", environment=EVERYTHING, count=3) for _ in range(2))
    assert [run.end() for run in (deleted, stays)] == ["success", "success"]
    database = f"sqlite:///{state_file(kept)}"
    ids = f"('{deleted.run_id}', '{stays.run_id}')"
    ask(database, f"UPDATE airflow_resume_state SET updated_us = updated_us - 7200000000 WHERE run_id IN {ids}")  # noqa: S608
    deleted.until_the_scheduler_lets_go()
    kept.airflow.delete_run(deleted.dag_id, deleted.run_id)
    where = ("--airflow", kept.airflow.ui_url)
    plan = types(kept, "cleanup", database, *where, "--dry-run")["plan"]
    reasons = {each["scope"].get("run_id"): each["reason"] for each in plan}
    assert reasons[deleted.run_id] == "no reference leads to it"
    assert reasons[stays.run_id] == "a reference leads to it"
    assert types(kept, "cleanup", database, *where)["orphaned"] >= 1
    assert ask(database, f"SELECT run_id FROM airflow_resume_state WHERE run_id IN {ids}") == [(stays.run_id,)]  # noqa: S608
    assert follow(kept, stays.state_store()["resume.loop.loop"])["n"] == 3


def test_a_record_that_a_backend_has_inline_is_shown_and_changed(kept: Stage) -> None:
    run = LoopRun.start(kept, "kept_loop_once", count=3)
    assert run.end() == "success"
    there = (run.dag_id, run.run_id, "run", "--airflow", kept.airflow.ui_url)
    assert types(kept, "loops", "show", *there)["state"] == "done"
    assert types(kept, "loops", "rewind", *there, "--to", "3", "--yes")["changed"] is True
    assert list(run.state_store()["resume.loop.loop"]) == ["__airflow_state_ref__"]
    kept.airflow.clear(run.dag_id, run.run_id, "run")
    run.until(lambda: run.task["try_number"] == 2 and run.task["state"] == "success", "the second try")
    assert run.delivered().attempts == [[0, 1, 2], [2]]
