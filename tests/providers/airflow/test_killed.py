"""Operators of Amazon, Databricks and SSH on a real Airflow whose tasks get SIGKILL, as they are and resumable.

`ours` has other import lines, `upgraded` only the setting, and `theirs` neither.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("moto", reason="providers have an environment of their own: make providers")

from tests.support.airflow.provider_runs import TASKS, TASKS_OF, Outcome, Played, ProvidersStage, play
from tests.support.airflow.provider_services import Place

pytestmark = pytest.mark.airflow

RESUMING = [(dag_id, task_id) for dag_id in ("ours", "upgraded") for task_id in TASKS_OF[dag_id]]
WAITING = [(dag_id, task_id) for dag_id, task_id in RESUMING if task_id != "step_function"]
AS_IT_IS = {
    ("waiting", "athena"): Outcome(jobs=2, most_alive=2),
    ("waiting", "databricks"): Outcome(jobs=1, most_alive=1),  # Airflow's mixin
    ("waiting", "ssh"): Outcome(jobs=2, most_alive=1),  # killed when the first had ended
    **{("window", task_id): Outcome(jobs=2, most_alive=2) for task_id in TASKS},
}
"""How many jobs there were, and how many at once at most; the result is that of the last one."""
CLEARED_AS_IT_IS = {"athena": 1, "step_function": 1, "databricks": 0, "ssh": 1}
"""How many jobs the clear submits."""


def say(text: str) -> None:
    print(f"{time.strftime('%X')} {text}", file=sys.stderr, flush=True)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    with ProvidersStage(Path(tmp_path_factory.mktemp("providers")), progress=say) as stage:
        yield play(stage, say)


@pytest.mark.parametrize(("dag_id", "task_id"), WAITING)
def test_killed_while_it_waits_it_has_one_job_and_its_result(played: Played, dag_id: str, task_id: str) -> None:
    place = Place(dag_id, "waiting", task_id)
    assert (played.killed[place], played.tries[place]) == (Outcome(jobs=1, most_alive=1), 2)


@pytest.mark.parametrize(("dag_id", "task_id"), RESUMING)
def test_killed_between_submit_and_save_it_has_one_job_and_its_result(
    played: Played, dag_id: str, task_id: str
) -> None:
    place = Place(dag_id, "window", task_id)
    assert (played.killed[place], played.tries[place]) == (Outcome(jobs=1, most_alive=1), 2)


@pytest.mark.parametrize(("run_id", "task_id"), AS_IT_IS)
def test_as_it_is_a_killed_task_has(played: Played, run_id: str, task_id: str) -> None:
    place = Place("theirs", run_id, task_id)
    assert (played.killed[place], played.tries[place]) == (AS_IT_IS[run_id, task_id], 2)


@pytest.mark.parametrize(("dag_id", "task_id"), RESUMING)
def test_cleared_after_its_success_it_has_a_second_job_when_the_first_has_ended(
    played: Played, dag_id: str, task_id: str
) -> None:
    assert played.cleared[Place(dag_id, "window", task_id)] == Outcome(jobs=2, most_alive=1)


@pytest.mark.parametrize("task_id", TASKS)
def test_as_it_is_a_cleared_task_has(played: Played, task_id: str) -> None:
    jobs = AS_IT_IS["window", task_id].jobs + CLEARED_AS_IT_IS[task_id]
    assert played.cleared[Place("theirs", "window", task_id)].jobs == jobs


@pytest.mark.parametrize("task_id", TASKS)
def test_only_an_upgraded_task_says_so(played: Played, task_id: str) -> None:
    said = {
        dag_id: "This task resumes, as [airflow_resume] upgrade has" in played.logs[Place(dag_id, "window", task_id)]
        for dag_id in TASKS_OF
    }
    assert said == {"ours": False, "upgraded": True, "theirs": False}
