"""DBOS: a workflow of steps, each stored before the next one begins. The database is the first argument."""

from __future__ import annotations

import sys

from dbos import DBOS  # type: ignore[import-not-found,unused-ignore]
from protocol import serve, wall_time


def step(number: int) -> int:
    return number


def workflow(count: int) -> None:
    for number in range(count):
        kept_step(number)


DBOS(
    config={
        "name": "benchmark",
        "system_database_url": sys.argv[1],
        "log_level": "ERROR",
        "run_admin_server": False,
    }
)
kept_step = DBOS.step()(step)
kept_workflow = DBOS.workflow()(workflow)
DBOS.launch()

try:
    serve({"steps": lambda count: wall_time(lambda: kept_workflow(count))})
finally:
    DBOS.destroy()
