"""A task with every kind of state that is killed once; it writes what it does to the file DIARY."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset, get_current_context, task

from airflow_resume import checkpoint

KILLED_AT = 3
ROWS = Asset("hardened_rows")

with DAG("killed_once", schedule=None):

    @task(inlets=[ROWS], outlets=[ROWS], retries=1, retry_delay=timedelta(0))
    def load() -> int:
        context: Any = get_current_context()
        store, attempt = context["task_state_store"], context["ti"].try_number
        seen = store.get("attempts", [])
        store.set("attempts", [*seen, attempt])
        store.set("short", attempt, retention=timedelta(milliseconds=1))
        store.set("deleted", attempt)
        store.delete("deleted")
        context["asset_state_store"].set("attempt", attempt)
        with checkpoint(range(6), name="rows", durability="sync") as loop, Path(os.environ["DIARY"]).open("a") as diary:
            for row in loop:
                diary.write(f"{attempt} {row}\n")
                diary.flush()
                if (attempt, row) == (1, KILLED_AT):
                    os.kill(os.getpid(), signal.SIGKILL)
        return len(seen)

    load()
