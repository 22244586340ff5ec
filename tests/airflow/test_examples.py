"""The example Dags on a real Airflow, each killed with SIGKILL: the same scenarios as the demo plays."""

from __future__ import annotations

import scenarios
from stage import Stage


def say(text: str) -> None:
    print(text)


def record(stage: Stage, dag_id: str, key: str) -> dict:
    """The record in the task's store of the newest run, as Airflow's UI shows it."""
    run_id = stage.airflow.newest_run(dag_id)
    return dict(stage.airflow.state_store(dag_id, run_id, "run")[key])


def test_one_job_is_submitted_once_and_its_result_returned(stage: Stage) -> None:
    outcome = scenarios.one_job(stage, "", say)
    assert outcome.broken == []
    kept = record(stage, "one_job", "resume.job.job")
    assert (kept["id"], kept["phase"], kept["status"], kept["generation"]) == (0, "terminal", "succeeded", 1)
    assert kept["claim"]["try"] == 3


def test_every_page_is_loaded_and_at_most_the_one_in_hand_twice(stage: Stage) -> None:
    outcome = scenarios.every_page(stage, "", say)
    assert outcome.broken == []
    kept = record(stage, "every_page", "resume.loop.pages")
    assert (kept["done"], kept["n"], kept["state"]) == (True, 68, {"rows": scenarios.ALL_FLIGHTS})
    assert (kept["at"]["opens"], kept["at"]["try"]) == (2, 2)


def test_what_is_new_is_loaded_without_a_gap_and_the_mark_follows(stage: Stage) -> None:
    outcome = scenarios.what_is_new(stage, "", say)
    assert outcome.broken == []
    mark = stage.airflow.asset_state_store("flights")["resume.watermark.watermark"]
    assert [line["to"] for line in mark["history"]] == [
        "2013-05-01T11:30:00+00:00",
        "2013-09-01T11:30:00+00:00",
        "2014-01-01T23:00:00+00:00",
    ]
    events = stage.airflow.asset_events("flights")
    assert events[-1]["extra"]["watermark"]["watermark"]["at"] == mark["at"]


def test_every_page_is_appended_exactly_once_and_the_sink_is_ahead_of_airflows_record(stage: Stage) -> None:
    outcome = scenarios.every_page(stage, scenarios.EXACTLY_ONCE, say)
    assert outcome.broken == []
    assert outcome.numbers["pages_requested"] == outcome.numbers["pages_there_are"] + 1, "the page it was killed at"
    kept = record(stage, "exactly_once_every_page", "resume.loop.pages")
    assert (kept["done"], kept["n"]) == (True, 68)


def test_what_is_new_is_appended_exactly_once_though_a_window_was_open_when_it_was_killed(stage: Stage) -> None:
    outcome = scenarios.what_is_new(stage, scenarios.EXACTLY_ONCE, say)
    assert outcome.broken == []
    mark = stage.airflow.asset_state_store("exactly_once_flights")["resume.watermark.watermark"]
    assert mark["at"] == "2014-01-01T23:00:00+00:00"


def test_a_cleared_task_does_its_work_again(stage: Stage) -> None:
    """In Airflow 3.3 state survives a clear, so a loop that only looks for its key would do nothing."""
    run_id = stage.airflow.newest_run("one_job")
    before = stage.jobs.call("GET", "/stats", label="one_job")["submitted"]
    stage.airflow.clear("one_job", run_id, "run")
    assert stage.airflow.wait_for_run("one_job", run_id) == "success"
    assert stage.jobs.call("GET", "/stats", label="one_job")["submitted"] == before + 1
    history = record(stage, "one_job", "resume.job.job")["history"]
    assert [(line["id"], line["status"], line["reason"]) for line in history] == [
        (0, "succeeded", "cleared or changed")
    ]
