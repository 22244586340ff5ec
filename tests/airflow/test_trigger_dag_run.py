"""`TriggerDagRunOperator` on a real Airflow whose tasks get SIGKILL, as it is and resumable."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from local_airflow import LocalAirflow

DAGS = Path(__file__).parents[1] / "support" / "airflow" / "dags" / "trigger_dag_run"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(tmp_path_factory.mktemp("triggered"))


@pytest.fixture(scope="module")
def airflow(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAirflow]:
    home = Path(tmp_path_factory.mktemp("airflow"))
    with LocalAirflow(home, DAGS, env={"TRIGGERED_FOLDER": str(folder)}, triggerer=True) as running:
        running.wait_until_parsed("child")
        yield running


class Task:
    """A run of one of the Dags, and the runs that its task has triggered."""

    def __init__(self, airflow: LocalAirflow, folder: Path, dag_id: str) -> None:
        self.airflow, self.folder, self.dag_id = airflow, folder, dag_id
        for file in folder.iterdir():
            file.unlink()
        airflow.wait_until_parsed(dag_id)
        self._before = self._runs_of_child()
        self.run_id = airflow.trigger(dag_id)

    def _runs_of_child(self) -> set[str]:
        return {str(run["dag_run_id"]) for run in self.airflow.runs("child")}

    @property
    def triggered(self) -> set[str]:
        return self._runs_of_child() - self._before

    @property
    def state(self) -> tuple[str, int]:
        found = self.airflow.task_instance(self.dag_id, self.run_id, "run")
        return str(found["state"]), int(found["try_number"])

    def eventually(self, condition: Callable[[], object], what: str) -> None:
        self.airflow.wait_for(lambda: condition() or None, what=what, timeout=90)

    def until_logged(self, text: str, number: int) -> None:
        self.eventually(lambda: text in self.airflow.logs(self.dag_id, self.run_id, "run", number), f"{text!r}")

    def kill(self) -> None:
        self.airflow.kill_task(self.dag_id, self.run_id, "run")

    def ends(self) -> str:
        (self.folder / "go").touch()
        return self.airflow.wait_for_run(self.dag_id, self.run_id)

    def pushed(self) -> object:
        return self.airflow.xcom(self.dag_id, self.run_id, "run", "trigger_run_id")


def test_killed_while_it_waits(airflow: LocalAirflow, folder: Path) -> None:
    came: dict[str, int] = {}
    for dag_id, waiting in (("alone", "Waiting for dag run"), ("wrapped", "submit")):
        task = Task(airflow, folder, dag_id)
        task.eventually(lambda task=task: task.triggered, "the first run")  # type: ignore[misc]
        task.until_logged(waiting, 1)
        task.kill()
        task.eventually(lambda task=task: task.state == ("running", 2), "the retry")  # type: ignore[misc]
        task.until_logged("Waiting for dag run" if dag_id == "alone" else "reconnect (", 2)
        assert task.ends() == "success"
        came[dag_id] = len(task.triggered)
        assert task.pushed() in task.triggered
    assert came == {"alone": 2, "wrapped": 1}


@pytest.mark.parametrize("dag_id", ["held", "held_fixed", "at_once"])
def test_killed_after_the_trigger_and_before_the_save_it_finds_its_run(
    airflow: LocalAirflow, folder: Path, dag_id: str
) -> None:
    task = Task(airflow, folder, dag_id)
    task.eventually((folder / "held").exists, "the submit")
    (run,) = task.triggered
    assert run.startswith("of-" if dag_id == "held_fixed" else "manual__")
    task.kill()
    if dag_id != "at_once":
        task.eventually(lambda: task.state == ("running", 2), "the retry")
    assert task.ends() == "success", airflow.logs(dag_id, task.run_id, "run", 2)
    assert (task.triggered, task.pushed()) == ({run}, run)


def test_deferred_it_has_one_run(airflow: LocalAirflow, folder: Path) -> None:
    task = Task(airflow, folder, "deferred")
    task.eventually(lambda: task.state[0] == "deferred", "the deferral")
    (run,) = task.triggered
    assert task.ends() == "success"
    assert (task.triggered, task.pushed()) == ({run}, run)


def test_a_run_id_that_is_taken_fails_the_task_at_once(airflow: LocalAirflow, folder: Path) -> None:
    (folder / "go").touch()
    airflow.trigger("child", run_id="of-taken")
    airflow.wait_until_parsed("held_fixed")
    airflow.trigger("held_fixed", run_id="taken")
    assert airflow.wait_for_run("held_fixed", "taken") == "failed"
    assert "which this task has not triggered" in airflow.logs("held_fixed", "taken", "run", 1)
