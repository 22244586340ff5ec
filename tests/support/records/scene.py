"""A task, its Airflow and its job system after an attempt died, written as JSON and made again from it.

It runs on this release and on the released ones alike, so it imports only what all of them have.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from airflow.sdk import Asset
from airflow.sdk.execution_time.context import NEVER_EXPIRE

from airflow_resume.testing import FakeJobs, TaskAttempt, World, task_context

FakeJob = sys.modules[FakeJobs.__module__].__dict__["FakeJob"]
"""Its module has another name in older releases."""

LOADED = Asset("loaded")
OF_LATER = {"of_a_later_release": {"kept": [1, None]}}
"""A field that no release knows."""


class Killed(BaseException):
    """The process has died."""


@dataclass(kw_only=True)
class Scene:
    """What a task finds, left by the attempt before it.

    Attributes:
        attempt: the one that runs.
        notes: whatever the scenario has to remember, as JSON.
        left: how all was when the attempt died; None while it lives.
    """

    jobs: FakeJobs = field(default_factory=FakeJobs)
    world: World = field(default_factory=World)
    notes: dict[str, Any] = field(default_factory=dict)
    left: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        self.attempt = self.task()

    def task(self, **options: Any) -> TaskAttempt:
        """An attempt of another task or run of the same Airflow."""
        return task_context(assets=[LOADED], world=self.world, **options)

    def retry(self) -> TaskAttempt:
        self.attempt = self.attempt.retry()
        return self.attempt

    def clear(self) -> TaskAttempt:
        self.attempt = self.attempt.clear()
        return self.attempt

    @property
    def context(self) -> Any:
        return self.attempt.context

    def die(self) -> None:
        """Kill the process here: nothing that still runs while the stack unwinds has an effect."""
        self.left = self.as_json()
        raise Killed

    @contextmanager
    def dying(self) -> Iterator[None]:
        """The attempt in the block may die."""
        with suppress(Killed):
            yield

    # --- written down -----------------------------------------------------------------------------------------

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return {
            "tasks": [
                {
                    "instance": list(instance),
                    "try_number": record.try_number,
                    "max_tries": record.max_tries,
                    "values": record.rows.values_by_key(),
                }
                for instance, record in self.world.instances.items()
            ],
            "clear_numbers": [[*run, number] for run, number in self.world.clear_numbers.items() if number],
            "assets": {name: asset.rows.values_by_key() for name, asset in self.world.assets.items()},
            "events": [
                {"extra": event.extra, "run_id": event.source_run_id, "map_index": event.source_map_index}
                for event in self.world.events
            ],
            "jobs": [
                {"id": job.id, "token": job.token, "states": list(job.states), "forgotten": job.forgotten}
                for job in self.jobs.jobs
            ],
            "notes": deepcopy(self.notes),
        }

    @classmethod
    def of(cls, left: Mapping[str, Any], jobs: FakeJobs, *, with_unknown_field: bool = False) -> Scene:
        """It, made again; `attempt` is the one that died."""
        scene = cls(jobs=jobs, notes=deepcopy(left["notes"]))
        jobs.jobs[:] = [FakeJob(**job) for job in left["jobs"]]
        more = OF_LATER if with_unknown_field else {}
        world = scene.world
        world.instances.clear()
        world.know([LOADED])
        world.clear_numbers.update({(dag, run): number for dag, run, number in left["clear_numbers"]})
        for task in left["tasks"]:
            _restore(scene, task, more)
        for name, kept in left["assets"].items():
            store = world.asset_store(("", "", "", -1), Asset(name))
            for key, value in kept.items():
                store.set(key, _extended(key, value, more))
        for event in left["events"]:
            _publish(scene, event)
        scene.attempt = scene.task()
        return scene

    @property
    def records(self) -> dict[str, Any]:
        """Every record of ours, by task and key, or by asset and key."""
        left = self.as_json()
        of_tasks = {(task["instance"][2], task["instance"][1]): task["values"] for task in left["tasks"]}
        places: dict[Any, dict[str, Any]] = {**of_tasks, **left["assets"]}
        return {
            f"{place} {key}": value
            for place, kept in places.items()
            for key, value in kept.items()
            if key.startswith("resume.") and isinstance(value, dict)
        }


def _restore(scene: Scene, task: Mapping[str, Any], more: Mapping[str, Any]) -> None:
    instance: Any = tuple(task["instance"])
    store = scene.world.task_store(instance)
    for key, value in task["values"].items():
        store.set(key, _extended(key, value, more), retention=NEVER_EXPIRE)
    record = scene.world.instances[instance]
    # Airflow counts a try when it begins, and `task_context` begins the one that died once more.
    record.try_number, record.max_tries = task["try_number"] - 1, task["max_tries"]


def _extended(key: str, value: Any, more: Mapping[str, Any]) -> Any:
    return {**value, **more} if key.startswith("resume.") and isinstance(value, dict) else value


def _publish(scene: Scene, event: Mapping[str, Any]) -> None:
    attempt = task_context(assets=[LOADED], run_id=event["run_id"], map_index=event["map_index"], world=World())
    attempt.context["outlet_events"][LOADED].extra.update(event["extra"])
    attempt.succeed()
    scene.world.events.extend(attempt.world.events)
