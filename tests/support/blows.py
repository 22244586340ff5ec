"""What happens to the tasks of a soak, at random."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from random import Random

import psutil

from local_airflow import LocalAirflow

SECONDS_BETWEEN_BLOWS = 1.5
SECONDS_BETWEEN_RESTARTS = 100.0
KINDS = {"task killed": 16, "supervisor killed": 2, "frozen": 2}
"""How often each comes, of 20."""


class Blows:
    """Deals blows, and counts them.

    Args:
        airflow: whose tasks they hit.
        random: decides which, and when.
        frozen: seconds that a task stands still; Airflow has given it up by then.
    """

    def __init__(self, airflow: LocalAirflow, random: Random, *, frozen: float) -> None:
        self._airflow = airflow
        self._random = random
        self._frozen = frozen
        self.dealt: Counter[str] = Counter()

    def deal(self, over: threading.Event) -> None:
        """Go on until it is over."""
        restart_at = time.monotonic() + SECONDS_BETWEEN_RESTARTS
        while not over.wait(self._random.expovariate(1 / SECONDS_BETWEEN_BLOWS)):
            if time.monotonic() > restart_at:
                self._restart()
                restart_at = time.monotonic() + SECONDS_BETWEEN_RESTARTS
            elif tasks := list(self._tasks()):
                self._hit(self._random.choice(tasks))

    def _restart(self) -> None:
        component = self._random.choice(["scheduler", "api-server"])
        self._airflow.restart(component)
        self.dealt[f"{component} killed"] += 1

    def _hit(self, task: psutil.Process) -> None:
        (kind,) = self._random.choices(list(KINDS), weights=list(KINDS.values()))
        with suppress(psutil.NoSuchProcess):
            supervisor = psutil.Process(task.ppid())
            if kind == "task killed":
                task.kill()
            elif kind == "supervisor killed":
                supervisor.kill()
            else:
                self._freeze(task, supervisor)
            self.dealt[kind] += 1

    def _freeze(self, *processes: psutil.Process) -> None:
        for process in processes:
            process.suspend()
        timer = threading.Timer(self._frozen, _wake, processes)
        timer.daemon = True
        timer.start()

    def _tasks(self) -> Iterator[psutil.Process]:
        """The processes of the tasks that run, and are not frozen."""
        for process in self._airflow.members():
            with suppress(psutil.Error):
                if is_of_task(process.cmdline()) and process.status() != psutil.STATUS_STOPPED:
                    yield process


def _wake(*processes: psutil.Process) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.resume()


def is_of_task(command: list[str]) -> bool:
    """Whether the process runs a task: Airflow puts the id of the task instance into its title."""
    title = " ".join(command)
    return title.startswith("airflow worker -- ") and "LocalExecutor" not in title
