"""Several assets in one task, several Dags on one asset, and consumers of tasks that are killed and cleared."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Asset, get_current_context, task
from load_board import (  # type: ignore[import-not-found]
    START,
    conf,
    die_if_wanted,
    follow,
    load,
    load_it,
    post,
    ticking,
    told,
)

from airflow_resume import watermark
from airflow_resume.watermarks import Window, windows_from_events

AT_ONCE: dict[str, Any] = {"retries": 3, "retry_delay": timedelta(0)}
MARK: dict[str, Any] = {"initial": START, "delay": timedelta(0)}

# --- two assets in one task --------------------------------------------------------------------------------------

ONE, OTHER = Asset("both_one"), Asset("both_other")
one = watermark(ONE, now=told, **MARK)
other = watermark(OTHER, now=told, **MARK)

with DAG("both", schedule=None):

    @task(task_id="run", **one.task_options(other.task_options(AT_ONCE)))
    def load_both() -> None:
        with one.open() as window:
            load(window, asset="one")
        die_if_wanted("between the two")
        with other.open() as window:
            load(window, asset="other")
            die_if_wanted("in the second")

    load_both()

# --- two Dags on one asset ---------------------------------------------------------------------------------------

for dag_id in ("north", "south"):
    fought_over = watermark(Asset("fought_over"), now=told, **MARK)
    with DAG(dag_id, schedule=None):
        fought_over.task(task_id="run")(load_it)()

# --- followed ----------------------------------------------------------------------------------------------------

FOLLOWED, HALF_AN_HOUR = Asset("followed"), timedelta(minutes=30)
followed = watermark(FOLLOWED, now=ticking("followed"), **MARK)

with DAG("followed", schedule=None):

    @task(task_id="run", **followed.task_options({"retries": 1, "retry_delay": timedelta(0)}))
    def load_slices() -> None:
        with followed.open() as window:
            load(window)
            for piece in window.split(HALF_AN_HOUR):
                die_if_wanted(f"in slice {(piece.start - window.start) // HALF_AN_HOUR}")
            die_if_wanted("before the commit")
        die_if_wanted("after the commit")

    load_slices()

with DAG("follower", schedule=[FOLLOWED], max_active_runs=1):

    @task(task_id="run")
    def use() -> None:
        follow(windows_from_events(get_current_context(), FOLLOWED))

    use()

# --- orphaned ----------------------------------------------------------------------------------------------------

orphaned = watermark(Asset("orphaned"), now=ticking("orphaned"), **MARK)

with DAG("orphaned", schedule=None):

    @orphaned.task(task_id="run", **AT_ONCE)
    def load_slowly(window: Window) -> None:
        for _ in range(conf()["ticks"]):
            post({"window": str(window), "pid": os.getpid(), "supervisor": os.getppid(), "at": time.time()})
            time.sleep(0.1)

    load_slowly()
