"""One after the other, and again: a bare loop, `checkpoint`, and the loop of Airflow's documentation.

Every task writes a line: its name, and the seconds that its loop took. The documented pattern ("Intra-task
checkpointing") keeps the position in the task's state after each element.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, chain, get_current_context, task

from airflow_resume import checkpoint

COUNT = int(os.environ.get("BENCHMARK_ELEMENTS", "1000"))
ROUNDS = int(os.environ.get("BENCHMARK_ROUNDS", "1"))


def work(_element: int) -> None:
    time.sleep(0.005)


def bare() -> None:
    for element in range(COUNT):
        work(element)


def ours() -> None:
    for element in checkpoint(range(COUNT), name="elements"):
        work(element)


def documented() -> None:
    store: Any = get_current_context()["task_state_store"]  # type: ignore[typeddict-item,unused-ignore]
    for element in range(store.get("next", 0), COUNT):
        work(element)
        store.set("next", element + 1)


def timed(loop: Callable[[], None]) -> None:
    started = time.perf_counter()
    loop()
    seconds = time.perf_counter() - started
    with Path(os.environ["BENCHMARK_FILE"]).open("a") as lines:
        print(json.dumps([loop.__name__, seconds]), file=lines)


with DAG("loops_of_5_ms", schedule=None):
    loops = (bare, ours, documented)
    timers = [(number, loop) for number in range(ROUNDS) for loop in loops]
    chain(*[task(task_id=f"{loop.__name__}_{number}")(timed)(loop) for number, loop in timers])
