"""How many crash points a second the explorer tries: one table.

python tests/benchmarks/bench_explorer.py
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from itertools import count
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "support"))

from airflow.sdk import Asset
from file_rows import FileRows
from rich.console import Console
from rich.table import Table

from airflow_resume import PollPolicy, ResumePolicy, checkpoint, run_job, watermark
from airflow_resume.testing import CrashWorld, FakeJobs, FakeTaskStore, World, explore_crashes, task_context
from airflow_resume.testing.oracles import each_effect_at_least_once, each_effect_exactly_once

AT_ONCE = ResumePolicy(poll=PollPolicy(interval=timedelta(0), max_interval=timedelta(0), jitter=0))
ORDERS = Asset("orders")
START = datetime(2026, 1, 1, tzinfo=timezone.utc)

TARGET = 1_000
"""Crash points a second of processor time, on the fakes."""


def documented_loop(world: CrashWorld) -> None:
    for page in range(world.store.get("page", 0), 10):
        with world.effect(f"load {page}"):
            pass
        world.store.set("page", page + 1)


def our_loop(world: CrashWorld) -> None:
    attempt = task_context(world=world.airflow)
    for page in checkpoint(range(3), name="pages", durability="sync", context=attempt.context):
        with world.effect(f"load {page}"):
            pass


def our_job(world: CrashWorld) -> None:
    run_job(world.jobs, policy=AT_ONCE, context=task_context(world=world.airflow).context)


def our_mark(world: CrashWorld) -> None:
    mark = watermark(ORDERS, initial=START, delay=timedelta(0), now=lambda: START + timedelta(hours=1))
    with mark.open(task_context(world=world.airflow, assets=[ORDERS]).context), world.effect("load"):
        pass


def a_store() -> CrashWorld:
    return CrashWorld(store=FakeTaskStore())


def a_task() -> CrashWorld:
    return CrashWorld(airflow=World(), jobs=FakeJobs())


def in_files(folder: str) -> Callable[[], CrashWorld]:
    numbers: Iterator[int] = count()
    return lambda: CrashWorld(store=FakeTaskStore(FileRows(Path(folder, f"{next(numbers)}.json"))))


def rate(attempt: Callable[[CrashWorld], None], make_world: Callable[[], CrashWorld], **options: Any) -> float:
    """Ways a second of processor time, which other programs disturb less than the clock on the wall.

    A way is a world, a crash (or two), all attempts until success, and the oracle.
    """
    options = {"oracle": each_effect_at_least_once, "max_pairs": 1_000, **options}
    explore_crashes(attempt, world=make_world, **{**options, "max_pairs": 1})  # imports, models
    started = sum(os.times()[:4])
    report = explore_crashes(attempt, world=make_world, **options)
    return report.ways / (sum(os.times()[:4]) - started)


def main() -> None:
    logging.disable(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        rates = {
            "plain loop": (rate(documented_loop, a_store), TARGET),
            "checkpoint": (rate(our_loop, a_task), TARGET),
            "run_job": (rate(our_job, a_task, oracle=each_effect_exactly_once), TARGET),
            "watermark": (rate(our_mark, a_task), TARGET),
            "plain loop, SIGKILL": (rate(documented_loop, in_files(folder), kinds=["sigkill"], max_pairs=20), None),
        }
    table = Table("attempt", "crash points per CPU second", "target")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, (value, target) in rates.items():
        table.add_row(name, f"{value:,.0f}", f"{target:,}" if target else "none")
    Console().print(table)


if __name__ == "__main__":
    main()
