"""Test tasks that keep state, without an Airflow.

- `task_context`: an attempt of a task: its context, made current, and what may happen to it as methods.
- `FakeTaskStore`, `FakeAssetStore`, `FakeAssetStores`: accept, refuse and change what Airflow's stores do.
- `FakeClock`: the time that retention is counted from.
- `World`: what outlives the attempts.
- `explore_crashes`, `CrashWorld`: die at every point of a task, try again, and ask an oracle (`testing.oracles`).
- `explore_freezes`, `explore_interleavings`: a frozen attempt that wakes; several runs at once, in every order.
- `FakeJobs`: a job system in memory.
- `StoreContract`: every test that a state store should pass; needs pytest.

The names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_resume.testing.assets import FakeAssetStores
    from airflow_resume.testing.clock import FakeClock
    from airflow_resume.testing.context import TaskAttempt, task_context
    from airflow_resume.testing.contract import StoreContract
    from airflow_resume.testing.crash_world import CrashWorld
    from airflow_resume.testing.explorer import explore_crashes
    from airflow_resume.testing.interleaving import explore_freezes, explore_interleavings
    from airflow_resume.testing.jobs import FakeJobs
    from airflow_resume.testing.stores import FakeAssetStore, FakeTaskStore
    from airflow_resume.testing.world import World

__all__ = [
    "CrashWorld",
    "FakeAssetStore",
    "FakeAssetStores",
    "FakeClock",
    "FakeJobs",
    "FakeTaskStore",
    "StoreContract",
    "TaskAttempt",
    "World",
    "explore_crashes",
    "explore_freezes",
    "explore_interleavings",
    "task_context",
]

_HOMES = {
    "CrashWorld": "crash_world",
    "FakeJobs": "jobs",
    "explore_crashes": "explorer",
    "explore_freezes": "interleaving",
    "explore_interleavings": "interleaving",
    "FakeAssetStore": "stores",
    "FakeAssetStores": "assets",
    "FakeClock": "clock",
    "FakeTaskStore": "stores",
    "StoreContract": "contract",
    "TaskAttempt": "context",
    "World": "world",
    "task_context": "context",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
