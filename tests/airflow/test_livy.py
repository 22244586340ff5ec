"""The real LivyOperator on a real Airflow whose tasks are killed and stopped, as it is and wrapped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_client import AirflowApiError
from local_airflow import LocalAirflow
from processes import is_alive, kill, with_descendants
from tests.support.providers.livy_service import ENDLESS, LivyService, app_id
from tests.support.providers.livy_trial import ROWS_ON_AIRFLOW, connection
from tests.support.providers.page import documented

DAGS = Path(__file__).parents[1] / "support" / "airflow" / "dags" / "livy"
KINDS = ("alone", "wrapped")


@pytest.fixture(scope="module")
def livy() -> Iterator[LivyService]:
    with LivyService(states=ENDLESS) as running:
        yield running


@pytest.fixture(scope="module")
def airflow(livy: LivyService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAirflow]:
    home = Path(tmp_path_factory.mktemp("livy"))
    with LocalAirflow(home, DAGS, env={"AIRFLOW_CONN_LIVY_DEFAULT": connection(livy)}) as running:
        yield running


class Task:
    """A run of one of the two Dags, whose batch has been submitted and is being waited for."""

    def __init__(self, airflow: LocalAirflow, livy: LivyService, dag_id: str) -> None:
        self.airflow, self.livy, self.dag_id = airflow, livy, dag_id
        self.first_event = len(livy.batches.events)
        airflow.wait_until_parsed(dag_id)
        self.run_id = airflow.trigger(dag_id)
        self.eventually(lambda: self.events, "the submit")
        self.batch = int(self.events[0].split()[1])
        self.look()

    @property
    def events(self) -> list[str]:
        return self.livy.batches.events[self.first_event :]

    def eventually(self, condition: Callable[[], object], what: str, timeout: float = 60) -> None:
        self.airflow.wait_for(lambda: condition() or None, what=what, timeout=timeout)

    def look(self) -> None:
        """Wait until the task has asked for the state of the batch, so it is known that the id is saved."""
        looks = self.livy.batches.looks
        self.eventually(lambda: self.livy.batches.looks > looks, "the next look at a batch")

    def state(self) -> tuple[str, int]:
        found = self.airflow.task_instance(self.dag_id, self.run_id, "run")
        return str(found["state"]), int(found["try_number"])

    def was_told(self) -> bool:
        """Whether the first try has killed its batch, or has said that it leaves it alone."""
        log = self.airflow.logs(self.dag_id, self.run_id, "run", 1)
        return f"delete {self.batch}" in self.events or "The task ends (shutdown)" in log

    def wait_for_try(self, number: int) -> None:
        self.eventually(lambda: self.state() == ("running", number), f"try {number}")

    def finish(self) -> str:
        self.livy.batches.end(self.batch, "success")
        return self.airflow.wait_for_run(self.dag_id, self.run_id)

    def xcom(self, key: str) -> object:
        try:
            return self.airflow.xcom(self.dag_id, self.run_id, "run", key)
        except AirflowApiError:
            return None


def check(row: str, play: Callable[[Task], str], airflow: LocalAirflow, livy: LivyService) -> None:
    """What came of a scenario for either operator is what the page says."""
    assert tuple(play(Task(airflow, livy, dag_id)) for dag_id in KINDS) == documented("livy")[row]


def test_a_killed_task(airflow: LocalAirflow, livy: LivyService) -> None:
    def play(task: Task) -> str:
        task.airflow.kill_task(task.dag_id, task.run_id, "run")
        task.wait_for_try(2)
        task.look()
        assert task.events == [f"submit {task.batch}"]
        assert task.finish() == "success"
        returned, pushed = task.xcom("return_value"), task.xcom("app_id")
        if (returned, pushed) == (task.batch, app_id(task.batch)):
            return "its batch and its app_id"
        return f"{returned or 'nothing'} and {pushed or 'no app_id'}"

    livy.batches.submit(None)  # so that no batch is 0: that is another row
    check(ROWS_ON_AIRFLOW[0], play, airflow, livy)


def test_a_deploy(airflow: LocalAirflow, livy: LivyService) -> None:
    def play(task: Task) -> str:
        process = task.airflow.task_process(task.dag_id, task.run_id, "run")
        process.terminate()
        task.eventually(task.was_told, "`on_kill`")
        kill(with_descendants(process))  # the grace period of the platform is over
        if f"delete {task.batch}" in task.events:
            task.eventually(lambda: task.state()[0] == "failed" or len(task.events) > 2, "the end or another batch")
            assert task.events == [f"submit {task.batch}", f"delete {task.batch}"]
            return "the batch is killed, and every retry fails"
        task.wait_for_try(2)
        task.look()
        assert task.finish() == "success"
        assert task.events == [f"submit {task.batch}"]
        return "the batch lives, and the retry waits for it"

    check(ROWS_ON_AIRFLOW[1], play, airflow, livy)


def test_marked_failed(airflow: LocalAirflow, livy: LivyService) -> None:
    def play(task: Task) -> str:
        process = task.airflow.task_process(task.dag_id, task.run_id, "run")
        task.airflow.mark(task.dag_id, task.run_id, "run", "failed")
        task.eventually(lambda: not is_alive(process), "the end of the task's process")
        assert task.airflow.wait_for_run(task.dag_id, task.run_id) == "failed"
        deleted = task.events.count(f"delete {task.batch}")
        return "the batch is killed" if deleted == 1 else f"the batch is deleted {deleted} times"

    check(ROWS_ON_AIRFLOW[2], play, airflow, livy)
