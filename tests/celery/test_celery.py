"""Whatever happens to a deployment with Celery workers: one job alive, no element and no row lost, no mark back.

Each class has an Airflow of its own. With `-n 2 --dist loadscope` both are played side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import ClassVar

from stage import Stage
from tests.support.celery.books import books_of, elements_again_at_most, elements_of, windows_of
from tests.support.celery.celery_airflow import DRAIN_FILES, CeleryAirflow
from tests.support.celery.course import Course
from tests.support.celery.deployments_page import row_of, written
from tests.support.celery.events import (
    EVENTS,
    OF_A_RUN,
    OF_DRAINED_WORKERS,
    OF_PATIENT_WORKERS,
    OF_THE_SERVICES,
    OF_THE_WORKERS,
    Event,
)
from tests.support.celery.played import JOBS

Record = Callable[[str, object], None]


class Promises:
    """What is true after each event."""

    COSTS_TRIES = True
    """Whether a task may lose a try."""
    GROUPS: ClassVar[Sequence[Mapping[str, Event]]] = ()
    SETTINGS: ClassVar[Mapping[str, str]] = {}
    """Of Airflow, as environment variables."""

    def test_nothing_is_lost_and_nothing_is_there_twice(
        self, course: Course, event: str, record_property: Record
    ) -> None:
        run = course.run(event)
        record_property("books", books_of(run))
        record_property("row", row_of(run))
        marked = event in {"marked_failed", "marked_success"}
        assert self.COSTS_TRIES or set(run.tries.values()) == {1}, run.tries
        assert run.state == ("failed" if event == "marked_failed" else "success")
        for task_id in JOBS:
            books = run.books(task_id)
            assert (books["alive"], books["max_alive"]) == (0, 1), task_id
            assert books["submitted"] == (2 if event == "cleared" else 1), task_id
            assert [line["job"] for line in run.lines(task_id)][-1:] == ([] if marked else run.jobs(task_id)[-1:])
        delivered = elements_of(run)
        assert set(delivered) == set(range(max(delivered) + 1))
        assert len(delivered) - len(set(delivered)) <= elements_again_at_most(run)
        windows = windows_of(run)
        assert windows[0][0] == 0
        assert all(before[1] == after[0] for before, after in pairwise(windows)), "a gap or an overlap of two windows"

    def test_no_mark_went_back(self, stage: Stage, marks: dict[str, list[int]], record_property: Record) -> None:
        assert isinstance(stage.airflow, CeleryAirflow)
        record_property("revived", dict(stage.airflow.revived))
        back = {key: seen for key, seen in marks.items() if seen != sorted(seen)}
        record_property("books", {"marks back": len(back)})
        assert marks
        assert back == {}


class TestTasksAndWorkers(Promises):
    """Airflow gives up early what it has lost."""

    GROUPS = (*OF_A_RUN, *({name: event} for name, event in OF_THE_WORKERS.items()))
    SETTINGS: ClassVar[Mapping[str, str]] = {
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "60",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "1",
        # A supervisor sends no heartbeat while it waits for the end of a task that it has told to go.
        "AIRFLOW__CORE__KILLED_TASK_CLEANUP_TIME": "30",
    }


class TestServices(Promises):
    """How long Airflow waits for a service is what it is by default, for that decides how many tries a task loses."""

    GROUPS = tuple({name: event} for name, event in OF_THE_SERVICES.items())
    SETTINGS: ClassVar[Mapping[str, str]] = {
        "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "5",
        # But the time until another triggerer takes the triggers of one that was killed.
        "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "20",
    }


class TestPatientWorkers(Promises):
    """A worker asks the API server for longer than it is away."""

    COSTS_TRIES = False
    GROUPS = tuple({name: event} for name, event in OF_PATIENT_WORKERS.items())
    SETTINGS: ClassVar[Mapping[str, str]] = {
        "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "5",
        "AIRFLOW__WORKERS__EXECUTION_API_RETRIES": "60",
        "AIRFLOW__WORKERS__EXECUTION_API_RETRY_WAIT_MAX": "10",
    }


class TestDrainedWorkers(Promises):
    """The tasks of a worker hear of its warm shutdown, and leave it before the worker has to be killed."""

    COSTS_TRIES = False
    GROUPS = tuple({name: event} for name, event in OF_DRAINED_WORKERS.items())
    SETTINGS: ClassVar[Mapping[str, str]] = {DRAIN_FILES: "1"}


def test_the_page_has_every_event() -> None:
    assert list(written()) == list(EVENTS)
