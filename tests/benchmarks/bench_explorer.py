"""How many crash points a second the explorer tries on a store in memory: one line.

python tests/benchmarks/bench_explorer.py
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "support"))

from tiny_stores import TaskWorld

from airflow_resume import PollPolicy, ResumePolicy, checkpoint, run_job
from airflow_resume.testing.explorer import explore_crashes
from airflow_resume.testing.jobs import FakeJobs
from airflow_resume.testing.oracles import each_effect_at_least_once, each_effect_exactly_once

AT_ONCE = ResumePolicy(poll=PollPolicy(interval=timedelta(0), max_interval=timedelta(0), jitter=0))


def documented_loop(world: TaskWorld) -> None:
    store = world.context()["task_state_store"]
    for page in range(store.get("page", 0), 10):
        with world.effect(f"load {page}"):
            pass
        store.set("page", page + 1)


def our_loop(world: TaskWorld) -> None:
    for page in checkpoint(range(3), name="pages", durability="sync", context=world.context()):
        with world.effect(f"load {page}"):
            pass


def our_job(world: TaskWorld) -> None:
    run_job(world.jobs, policy=AT_ONCE, context=world.context())


def rate(attempt: Callable[[TaskWorld], None], oracle: Any, make_world: Callable[[], TaskWorld]) -> float:
    """Ways a second of processor time, which other programs disturb less than the clock on the wall.

    A way is a world, a crash (or two), all attempts until success, and the oracle.
    """
    started = time.process_time()
    report = explore_crashes(attempt, oracle=oracle, world=make_world)
    return report.ways / (time.process_time() - started)


def main() -> None:
    logging.disable(logging.ERROR)
    explore_crashes(our_loop, oracle=each_effect_at_least_once, world=TaskWorld, double=False)  # imports, models
    rates = {
        "plain loop": rate(documented_loop, each_effect_at_least_once, TaskWorld),
        "checkpoint": rate(our_loop, each_effect_at_least_once, TaskWorld),
        "run_job": rate(our_job, each_effect_exactly_once, lambda: TaskWorld(jobs=FakeJobs())),
    }
    print("crash points per CPU second:", ", ".join(f"{name} {value:,.0f}" for name, value in rates.items()))


if __name__ == "__main__":
    main()
