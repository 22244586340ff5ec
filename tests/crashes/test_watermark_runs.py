"""Two runs of a watermark, dying at every point and at every pair of points."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from airflow.sdk import Asset

from airflow_resume import watermark
from airflow_resume.testing import CrashWorld, World, explore_crashes, task_context
from airflow_resume.testing.oracles import each_effect_at_least_once, mark_never_decreases, same_result
from airflow_resume.testing.outcome import Outcome

ORDERS = Asset("orders")
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
MARK = "resume.watermark.watermark"


def at(hour: int) -> datetime:
    return START + timedelta(hours=hour)


def four_oclock() -> CrashWorld:
    """The warehouse is overwritten by window, so it holds every hour exactly once."""
    world = CrashWorld(airflow=World(), hour=4, loaded=set(), loaded_then=[])
    world.airflow.know([ORDERS])
    rows = world.airflow.assets["orders"].rows

    def read_mark() -> Any:
        world.loaded_then.append(len(world.loaded))
        return rows.values_by_key().get(MARK, {}).get("at")

    world.follow(read_mark)
    return world


def two_runs(world: CrashWorld) -> list[int]:
    while True:
        attempt = task_context(world=world.airflow, assets=[ORDERS], run_id=f"run {world.hour}")
        with watermark(ORDERS, initial=START, now=lambda: at(world.hour)).open(attempt.context) as window:
            for hour in range((window.start - START) // timedelta(hours=1), (window.end - START) // timedelta(hours=1)):
                with world.effect(f"load {hour}"):
                    world.loaded.add(hour)
        attempt.succeed()
        if world.hour == 5:
            return sorted(world.loaded)
        world.hour += 1


def test_no_hour_is_skipped_whenever_the_attempts_die() -> None:
    def everything_is_loaded(outcome: Outcome[CrashWorld]) -> None:
        assert outcome.result == list(range(5))
        assert outcome.marks[-1] == at(5).isoformat()
        for mark, loaded in zip(outcome.marks, outcome.world.loaded_then, strict=True):
            assert mark is None or mark <= at(loaded).isoformat(), "the mark is never ahead of what is loaded"

    oracles = [everything_is_loaded, each_effect_at_least_once, mark_never_decreases, same_result]
    report = explore_crashes(two_runs, oracle=oracles, world=four_oclock)
    assert report.pairs_left_out == 0
    assert report.pairs > 1_000
