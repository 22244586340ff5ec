"""The example Dags on a real Airflow whose tasks keep their state by `[airflow_resume] state_url`, killed with SIGKILL.

`make older` runs it on Airflow 3.0, 3.1 and 3.2, which have no state stores. It runs on newer ones too, where the
setting is used instead of Airflow's stores.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import scenarios
from airflow_resume.backends import SqlStateStore, SqlStoreBackend
from airflow_resume.backends.attempt_store import FENCE
from airflow_resume.compat import AssetScope, TaskScope
from stage import EXAMPLES, Stage


def say(text: str) -> None:
    print(text, flush=True)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('state')}/state.db"


@pytest.fixture(scope="module")
def stage(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    home = Path(tmp_path_factory.mktemp("stage"))
    # As a command, which only works if Airflow knows from our metadata that the option is a secret.
    env = {"AIRFLOW__AIRFLOW_RESUME__STATE_URL_CMD": f"echo {url}"}
    with Stage(home, dags=EXAMPLES / "dags" / "resuming", job_seconds=6, env=env, progress=say) as running:
        for dag_id in ("one_job", "every_page", "what_is_new"):
            running.airflow.wait_until_parsed(dag_id)
        yield running


@pytest.fixture
def backend(url: str) -> Iterator[SqlStoreBackend]:
    with closing(SqlStoreBackend(url)) as opened:
        yield opened


def record(stage: Stage, backend: SqlStoreBackend, dag_id: str, key: str) -> dict[str, Any]:
    run_id = stage.airflow.newest_run(dag_id)
    found = SqlStateStore(backend, TaskScope(dag_id=dag_id, run_id=run_id, task_id="run")).get(key)
    assert isinstance(found, dict)
    return found


def fence(backend: SqlStoreBackend, dag_id: str, run_id: str) -> dict[str, Any]:
    found = SqlStateStore(backend, TaskScope(dag_id=dag_id, run_id=run_id, task_id="run")).get(FENCE)
    assert isinstance(found, dict)
    return found


def test_one_job_is_submitted_once_and_its_result_returned(stage: Stage, backend: SqlStoreBackend) -> None:
    outcome = scenarios.one_job(stage, "", say)
    assert outcome.broken == []
    kept = record(stage, backend, "one_job", "resume.job.job")
    assert (kept["phase"], kept["status"], kept["generation"]) == ("terminal", "succeeded", 1)
    assert kept["claim"]["try"] == 3


def test_every_page_is_loaded_and_at_most_the_one_in_hand_twice(stage: Stage, backend: SqlStoreBackend) -> None:
    outcome = scenarios.every_page(stage, "", say)
    assert outcome.broken == []
    kept = record(stage, backend, "every_page", "resume.loop.pages")
    assert (kept["done"], kept["n"], kept["state"]) == (True, 68, {"rows": scenarios.ALL_FLIGHTS})


def test_what_is_new_is_loaded_without_a_gap_and_the_mark_follows(stage: Stage, backend: SqlStoreBackend) -> None:
    outcome = scenarios.what_is_new(stage, "", say)
    assert outcome.broken == []
    mark: Any = SqlStateStore(backend, AssetScope(name="flights")).get("resume.watermark.watermark")
    assert mark["history"][-1]["to"] == "2014-01-01T23:00:00+00:00"
    events = stage.airflow.asset_events("flights")
    assert events[-1]["extra"]["watermark"]["watermark"]["at"] == mark["at"]


def test_a_cleared_task_does_its_work_again(stage: Stage) -> None:
    run_id = stage.airflow.newest_run("one_job")
    before = stage.jobs.call("GET", "/stats", label="one_job")["submitted"]
    stage.airflow.clear("one_job", run_id, "run")
    assert stage.airflow.wait_for_run("one_job", run_id) == "success"
    assert stage.jobs.call("GET", "/stats", label="one_job")["submitted"] == before + 1


def test_a_run_that_is_deleted_and_made_again_with_its_id_starts_from_nothing(stage: Stage) -> None:
    """The database still has the rows of the deleted run, whose tries were more."""
    run_id, before = stage.airflow.newest_run("one_job"), stage.jobs.call("GET", "/stats", label="one_job")
    stage.airflow.delete_run("one_job", run_id)
    stage.airflow.trigger("one_job", run_id=run_id)
    assert stage.airflow.wait_for_run("one_job", run_id) == "success"
    after = stage.jobs.call("GET", "/stats", label="one_job")
    assert after["submitted"] == before["submitted"] + 1


def test_a_run_that_is_set_back_to_queued_goes_on_with_its_job(stage: Stage, backend: SqlStoreBackend) -> None:
    """It looks like a run that was made again: it has another start, and nothing of it was cleared."""
    airflow, dag_id = stage.airflow, "one_job"
    before = stage.jobs.call("GET", "/stats", label=dag_id)["submitted"]
    hold = stage.hold(stage.jobs, label=dag_id, path_prefix="/jobs/", method="GET")
    run_id = airflow.trigger(dag_id)
    hold.wait()
    first = fence(backend, dag_id, run_id)
    airflow.kill_task(dag_id, run_id, "run")
    airflow.queue_run(dag_id, run_id)
    assert airflow.wait_for_run(dag_id, run_id) == "success"
    assert fence(backend, dag_id, run_id)["run_started"] != first["run_started"]
    assert stage.jobs.call("GET", "/stats", label=dag_id)["submitted"] == before + 1
