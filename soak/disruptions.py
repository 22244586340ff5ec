"""Disturbs the tasks of a soak at random."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from random import Random

import psutil

from local_airflow import LocalAirflow

SECONDS_BETWEEN_DISRUPTIONS = 1.5
SECONDS_BETWEEN_RESTARTS = 100.0
KINDS = {"task killed": 16, "supervisor killed": 2, "frozen": 2}
"""How often each kind happens, of 20 times."""


class Disruptions:
    """Kills and freezes tasks at random, and counts that.

    Args:
        airflow: whose tasks are disturbed.
        random: chooses the tasks and the moments.
        components: one of these is killed and started again now and then.
        frozen: seconds for which a task is frozen; Airflow gives it up meanwhile.
    """

    def __init__(self, airflow: LocalAirflow, random: Random, *, components: Sequence[str], frozen: float) -> None:
        self._airflow = airflow
        self._random = random
        self._components = components
        self._frozen = frozen
        self.happened: Counter[str] = Counter()

    def run(self, over: threading.Event) -> None:
        """Disturb tasks until `over` is set."""
        restart_at = time.monotonic() + SECONDS_BETWEEN_RESTARTS
        while not over.wait(self._random.expovariate(1 / SECONDS_BETWEEN_DISRUPTIONS)):
            if time.monotonic() > restart_at:
                self._restart()
                restart_at = time.monotonic() + SECONDS_BETWEEN_RESTARTS
            elif tasks := list(self._tasks()):
                self._disturb(self._random.choice(tasks))

    def _restart(self) -> None:
        component = self._random.choice(self._components)
        self._airflow.restart(component)
        self.happened[f"{component} killed"] += 1

    def _disturb(self, task: psutil.Process) -> None:
        (kind,) = self._random.choices(list(KINDS), weights=list(KINDS.values()))
        with suppress(psutil.NoSuchProcess):
            supervisor = psutil.Process(task.ppid())
            if kind == "task killed":
                task.kill()
            elif kind == "supervisor killed":
                supervisor.kill()
            else:
                self._freeze(task, supervisor)
            self.happened[kind] += 1

    def _freeze(self, *processes: psutil.Process) -> None:
        for process in processes:
            process.suspend()
        timer = threading.Timer(self._frozen, _wake, processes)
        timer.daemon = True
        timer.start()

    def _tasks(self) -> Iterator[psutil.Process]:
        """The processes of running tasks that are not frozen."""
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
