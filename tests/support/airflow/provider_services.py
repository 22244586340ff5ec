"""Athena, Step Functions, Databricks and a remote host for tasks on a real Airflow, which are killed while they submit.

What a job is for stands in its request, as `of=<dag>.<run>.<task>`: the place of its task.

Theory of operation. The services run in threads of this process. When one has made a job, and before it answers, it
kills the process that has submitted it, if that was ordered.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.support.providers.aws_jobs import JOB_APIS
from tests.support.providers.aws_service import AwsService
from tests.support.providers.aws_set_up import step_functions
from tests.support.providers.databricks_service import DatabricksService
from tests.support.providers.remote_host import RemoteHost

if TYPE_CHECKING:
    from typing_extensions import Self

MANY = 10_000
"""As often may a job be asked for while it runs."""


class Place(NamedTuple):
    """One task of one run."""

    dag_id: str
    run_id: str
    task_id: str


def _place_of(request: object) -> Place:
    found = re.search(r"of=(\w+)\.(\w+)\.(\w+)", str(request))
    assert found is not None, request
    return Place(*found.groups())


class _Host(RemoteHost):
    """A remote host that says when a task is about to remove the folder of its job."""

    removing: Callable[[Place], None]

    def _answer(self, command: str) -> tuple[str, int]:
        for job in self.seen():
            if command.startswith("rm -rf") and job.id in command:
                self.removing(_place_of(job.request))
        return super()._answer(command)


class ProviderServices:
    """A context manager; the services run in its block.

    Args:
        home: an empty folder.

    Attributes:
        kill: how the process of a task is killed.
    """

    kill: Callable[[Place], object]

    def __init__(self, home: Path) -> None:
        self.athena, self.step_functions = AwsService(JOB_APIS["athena"]), AwsService(JOB_APIS["step_functions"])
        self.databricks, self.remote = DatabricksService(), _Host(home)
        self._in_window: set[Place] = set()
        self._at_removal: set[Place] = set()
        self._most_alive: Counter[Place] = Counter()
        self._lock = threading.RLock()
        for service in (self.athena.jobs, self.step_functions.jobs, self.databricks.jobs, self.remote):
            service.follow([service.running] * MANY)
            service.tell = lambda moment: self._made() if moment == "made" else None
        self.remote.removing = self._removing

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for service in (self.athena, self.step_functions, self.databricks, self.remote):
                stack.enter_context(service)
            self._machine = step_functions(self.step_functions).submit["stateMachineArn"]
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def environment(self) -> dict[str, str]:
        """How the Dags find the services."""
        return {
            "AIRFLOW_CONN_ATHENA": self.athena.connection,
            "AIRFLOW_CONN_STEP_FUNCTIONS": self.step_functions.connection,
            "AIRFLOW_CONN_DATABRICKS_DEFAULT": self.databricks.connection,
            "AIRFLOW_CONN_REMOTE": self.remote.connection,
            "STATE_MACHINE": self._machine,
            "REMOTE_COMMAND": self.remote.command,
            "REMOTE_FOLDER": str(self.remote.base),
        }

    # --- what is ordered ------------------------------------------------------------------------------------------

    def kill_in_window(self, place: Place) -> None:
        """Kill the process of the task when its next job is made, before it is told so."""
        self._in_window.add(place)

    def kill_at_removal(self, place: Place) -> None:
        """Kill the process of the task when it is about to remove the folder of its job on the remote host."""
        self._at_removal.add(place)

    def end_jobs(self, place: Place) -> None:
        """End all jobs that the task has by now. A question that comes at this moment may undo it."""
        for job in self.jobs(place):
            if place.task_id.startswith("ssh"):
                self.remote.let_end(job)
            elif job.is_alive:
                job.states = [self._jobs_of(place).succeeded]

    # --- what is seen ---------------------------------------------------------------------------------------------

    def jobs(self, place: Place) -> list[Any]:
        """The jobs of a task, oldest first."""
        return [job for job in self._jobs_of(place).seen() if _place_of(job.request) == place]

    def most_alive(self, place: Place) -> int:
        """How many jobs of a task were alive at the same time, at most."""
        return self._most_alive[place]

    def questions(self, place: Place) -> int:
        """How often the task has asked for its newest job, while it ran."""
        asked = (
            job.questions if place.task_id.startswith("ssh") else MANY - len(job.states) for job in self.jobs(place)
        )
        return [0, *asked][-1]

    def _jobs_of(self, place: Place) -> Any:
        services = {
            "athena": self.athena.jobs,
            "step": self.step_functions.jobs,
            "databricks": self.databricks.jobs,
            "ssh": self.remote,
        }
        return services[place.task_id.split("_")[0]]

    # --- in the threads of the services ---------------------------------------------------------------------------

    def _made(self) -> None:
        """Of all places, as the services do not say which one it was."""
        with self._lock:
            for service in (self.athena.jobs, self.step_functions.jobs, self.databricks.jobs, self.remote):
                for place in {_place_of(job.request) for job in service.seen()}:
                    alive = sum(job.is_alive for job in self.jobs(place))
                    self._most_alive[place] = max(alive, self._most_alive[place])
                    self._kill_once(place, self._in_window)

    def _removing(self, place: Place) -> None:
        with self._lock:
            self._kill_once(place, self._at_removal)

    def _kill_once(self, place: Place, ordered: set[Place]) -> None:
        if place in ordered:
            ordered.remove(place)
            self.kill(place)
