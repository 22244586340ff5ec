"""Two runs of a watermark, dying at every point and at every pair of points."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from airflow.sdk import Asset
from crashing import World, explore

from airflow_resume import watermark

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
MARK = "resume.watermark.watermark"


def at(hour: int) -> datetime:
    return START + timedelta(hours=hour)


class Clock:
    """The source's clock."""

    def __init__(self, hour: int) -> None:
        self.hour = hour

    def __call__(self) -> datetime:
        return at(self.hour)


def orders(clock: Clock) -> Any:
    return watermark(Asset("orders"), initial=START, now=clock)


def test_no_hour_is_skipped_whenever_the_attempts_die() -> None:
    """Two runs; the warehouse is overwritten by window, so it holds every hour exactly once."""

    def attempt(world: World, context: Any) -> int:
        loaded: dict[int, int] = world.__dict__.setdefault("loaded", {})
        clock: Clock = world.__dict__.setdefault("clock", Clock(4))
        while True:
            with orders(clock).open(context) as window:
                for hour in range(
                    (window.start - START) // timedelta(hours=1), (window.end - START) // timedelta(hours=1)
                ):
                    with world.life.effect(f"load {hour}"):
                        loaded[hour] = loaded.get(hour, 0) + 1
            if clock.hour == 5:
                return len(loaded)
            clock.hour += 1
            world.next_run(f"run {clock.hour}")
            context = world.attempt()

    def oracle(world: World, result: int) -> None:
        assert result == 5
        assert sorted(world.__dict__["loaded"]) == list(range(5))
        assert world.asset_values[MARK]["at"] == at(5).isoformat()

    assert explore(World, attempt, oracle) > 300
