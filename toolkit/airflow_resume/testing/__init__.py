"""Test tasks that keep state, without an Airflow.

- `task_context`: an attempt of a task: its context, made current, and what may happen to it as methods.
- `FakeTaskStore`, `FakeAssetStore`, `FakeAssetStores`: accept, refuse and change what Airflow's stores do.
- `FakeClock`: the time that retention is counted from.
- `World`: the Airflow that outlives the attempts.
- `explore_crashes`, `CrashWorld`: die at every point of a task, try again, and ask an oracle (`testing.oracles`).
- `explore_freezes`, `explore_interleavings`: a frozen attempt that wakes; several runs at once, in every order.
- `FakeJobs`: a job system in memory.
- `check_operator`: play crashes, deploys, clears and more on any operator, whose service has `ServiceJobs`.
- `StoreContract`: every test that a state store should pass; needs pytest.

The names are loaded when they are first used.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_resume.testing.contract import StoreContract
    from airflow_resume.testing.crashes.crash_world import CrashWorld
    from airflow_resume.testing.crashes.explorer import explore_crashes
    from airflow_resume.testing.fakes.assets import FakeAssetStores
    from airflow_resume.testing.fakes.clock import FakeClock
    from airflow_resume.testing.fakes.context import TaskAttempt, task_context
    from airflow_resume.testing.fakes.jobs import FakeJobs
    from airflow_resume.testing.fakes.stores import FakeAssetStore, FakeTaskStore
    from airflow_resume.testing.fakes.world import World
    from airflow_resume.testing.operators.check import check_operator
    from airflow_resume.testing.operators.service import ServiceJobs
    from airflow_resume.testing.turns.interleaving import explore_freezes, explore_interleavings

__all__ = [
    "CrashWorld",
    "FakeAssetStore",
    "FakeAssetStores",
    "FakeClock",
    "FakeJobs",
    "FakeTaskStore",
    "ServiceJobs",
    "StoreContract",
    "TaskAttempt",
    "World",
    "check_operator",
    "explore_crashes",
    "explore_freezes",
    "explore_interleavings",
    "task_context",
]

_HOMES = {
    "CrashWorld": "crashes.crash_world",
    "FakeJobs": "fakes.jobs",
    "explore_crashes": "crashes.explorer",
    "explore_freezes": "turns.interleaving",
    "explore_interleavings": "turns.interleaving",
    "FakeAssetStore": "fakes.stores",
    "FakeAssetStores": "fakes.assets",
    "FakeClock": "fakes.clock",
    "FakeTaskStore": "fakes.stores",
    "ServiceJobs": "operators.service",
    "StoreContract": "contract",
    "TaskAttempt": "fakes.context",
    "World": "fakes.world",
    "check_operator": "operators.check",
    "task_context": "fakes.context",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    shown_by = warnings.showwarning
    found = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    warnings.showwarning = shown_by  # Airflow replaces it when it is loaded: pytest would miss what a test is warned of
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
