"""Orders that arrive every hour, a watermark over them, and two runs in which any attempt may die."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from airflow.sdk import Asset

from airflow_resume import watermark
from airflow_resume.testing import CrashWorld, World, task_context
from airflow_resume.testing.crashes.outcome import ExplorationOutcome
from airflow_resume.testing.oracles import each_effect_at_least_once, mark_never_decreases, same_result

ORDERS = Asset("orders")
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
MARK = "resume.watermark.watermark"


def at(hour: int) -> datetime:
    return START + timedelta(hours=hour)


class Clock:
    """The source's clock."""

    def __init__(self, hour: int = 0) -> None:
        self.hour = hour

    def __call__(self) -> datetime:
        return at(self.hour)


def orders(clock: Clock, **options: Any) -> Any:
    return watermark(ORDERS, **{"initial": START, "now": clock, "delay": timedelta(0), **options})


def two_runs() -> CrashWorld:
    """A world whose warehouse is overwritten by window, so that it holds every hour exactly once."""
    world = CrashWorld(airflow=World(), clock=Clock(4), loaded=set(), loaded_then=[])
    world.airflow.know([ORDERS])
    rows = world.airflow.assets["orders"].rows

    def read_mark() -> Any:
        world.loaded_then.append(len(world.loaded))
        return rows.values_by_key().get(MARK, {}).get("at")

    world.follow(read_mark)
    return world


def load_two_runs(world: CrashWorld) -> list[int]:
    """One run, and when it has succeeded, another one an hour later."""
    while True:
        attempt = task_context(assets=[ORDERS], world=world.airflow, run_id=f"run {world.clock.hour}")
        with orders(world.clock).open(attempt.context) as window:
            for hour in range((window.start - START) // timedelta(hours=1), (window.end - START) // timedelta(hours=1)):
                with world.effect(f"load {hour}"):
                    world.loaded.add(hour)
        attempt.succeed()
        if world.clock.hour == 5:
            return sorted(world.loaded)
        world.clock.hour += 1


def everything_is_loaded(outcome: ExplorationOutcome[CrashWorld]) -> None:
    assert outcome.result == list(range(5))
    assert outcome.marks[-1] == at(5).isoformat()
    for mark, loaded in zip(outcome.marks, outcome.world.loaded_then, strict=True):
        assert mark is None or mark <= at(loaded).isoformat(), "the mark is never ahead of what is loaded"


ORACLES = [everything_is_loaded, each_effect_at_least_once, mark_never_decreases, same_result]
