"""A folder of unchanged Dags on a real Airflow, upgraded by the setting alone, whose tasks are killed."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_settings import airflow_environment
from stage import Stage
from tests.support.airflow.job_dag_files import few_flights
from tests.support.airflow.job_runs import Run

DAGS = Path(__file__).parents[1] / "support" / "airflow" / "dags" / "upgrade"
SAID = "This task resumes, as [airflow_resume] upgrade has train_twins.Train"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    home = Path(tmp_path_factory.mktemp("fleet"))
    dags = home / "dags"
    shutil.copytree(DAGS, dags)
    (dags / ".airflowignore").write_text("train_.*\n")
    env = {
        "AIRFLOW__AIRFLOW_RESUME__UPGRADE": "train_twins.Train, no_such_module",
        "AIRFLOW__AIRFLOW_RESUME__UPGRADE_EXCEPT": "fleet_excepted",
    }
    options: dict[str, Any] = {"heartbeat_timeout": 15, "flights": few_flights(home), "env": env}
    with Stage(home, dags=dags, **options) as running:
        for dag_id in ("fleet_plain", "fleet_mapped", "fleet_group", "fleet_excepted"):
            running.airflow.wait_until_parsed(dag_id)
        running.jobs.call("POST", "/jobs", json={"seconds": 0})
        yield running


@pytest.mark.parametrize("dag_id", ["fleet_plain", "fleet_group"])
def test_a_killed_task_has_one_job_and_its_log_says_that_it_was_upgraded(fleet: Stage, dag_id: str) -> None:
    run = Run.waiting(fleet, dag_id)
    run.process.kill()
    run.until_taken_up(2)
    assert SAID in run.log(1)
    assert SAID in run.log_from(2)
    assert run.task["operator_name"] == "TrainOperator"
    assert run.end() == "success"
    assert run.result() == {"job": run.jobs[0]}
    assert run.books["submitted"] == 1


def test_a_deploy_leaves_the_job_although_the_operator_would_cancel_it(fleet: Stage) -> None:
    run = Run.waiting(fleet, "fleet_plain")
    run.supervisor.send_signal(signal.SIGTERM)
    run.until_told_to_go()
    assert run.end() == "success"
    assert (run.books["submitted"], run.books["cancels"], run.task["try_number"]) == (1, 0, 1)


def test_mapped_instances_that_are_killed_have_one_job_each(fleet: Stage) -> None:
    run = Run.start(fleet, "fleet_mapped")
    instances = [run.at(0), run.at(1)]
    for each in instances:
        each.until(each.is_waiting, "its id is saved")
        each.process.kill()
    for each in instances:
        each.until(lambda each=each: "econnect" in each.log_from(2), "try 2 waits")  # type: ignore[misc]
    for item in ("-a", "-b"):
        fleet.jobs.call("POST", "/hurry", json={"label": f"{run.run_id}{item}"})
    assert run.end() == "success"
    jobs = [job["id"] for job in fleet.jobs.call("GET", "/jobs") if job["label"].startswith(run.run_id)]
    assert sorted(run.result(index)["job"] for index in (0, 1)) == sorted(jobs)
    assert len(jobs) == 2


def test_a_task_that_is_excepted_runs_as_it_is_written(fleet: Stage) -> None:
    run = Run.start(fleet, "fleet_excepted")
    run.until(lambda: run.jobs, "a job is submitted")
    run.process.kill()
    run.until(lambda: len(run.jobs) > 1, "the retry submits another")
    assert SAID not in run.log(1)
    run.end()


def test_a_wrong_item_is_no_import_error_and_no_dag_has_another_version(fleet: Stage) -> None:
    assert fleet.airflow._get("/api/v2/importErrors")["import_errors"] == []
    versions = fleet.airflow._get("/api/v2/dags/fleet_plain/dagVersions")["dag_versions"]
    assert [each["version_number"] for each in versions] == [1]


IN_ONE_PROCESS = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
import train_operators

class Jobs:
    def __init__(self, *_args, **_options): pass
    def submit(self, token, **_options): return f"job {bool(token)}"
    def status(self, _job): return "SUCCEEDED"

train_operators.Jobs = Jobs
import train_twins
train_twins.Jobs = Jobs
runs = [DagBag(sys.argv[1]).dags[name].test() for name in ("fleet_plain", "fleet_mapped", "fleet_excepted")]
jobs = [[ti.xcom_pull(task_ids="run", map_indexes=ti.map_index) for ti in run.get_task_instances()] for run in runs]
print(json.dumps([[str(run.state) for run in runs], jobs]))
"""


def test_a_dag_that_airflow_has_loaded_is_upgraded_under_dag_test_too(tmp_path: Path) -> None:
    dags = tmp_path / "dags"
    shutil.copytree(DAGS, dags)
    env = {
        **airflow_environment(tmp_path, dags, 1, None),
        "AIRFLOW__AIRFLOW_RESUME__UPGRADE": "train_twins.Train",
        "AIRFLOW__AIRFLOW_RESUME__UPGRADE_EXCEPT": "fleet_excepted",
    }
    subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], env=env, check=True, capture_output=True)
    command = [sys.executable, "-c", IN_ONE_PROCESS, str(dags)]
    done = subprocess.run(command, env=env, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    states, jobs = json.loads(done.stdout.splitlines()[-1])
    assert states == ["success"] * 3
    (plain, _used), mapped, (excepted,) = jobs
    assert plain == mapped[0] == mapped[1] == {"job": "job True"}, "with a token"
    assert excepted == {"job": "job False"}
