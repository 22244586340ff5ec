"""What the Dags of the watermarks share: the clock of the source, a board that shows what was loaded, and crashes."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from airflow.sdk import get_current_context

from airflow_resume.watermarks import LoadedWindow, Window

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
BOARD = Path(os.environ.get("BOARD", "."))


def ticking(name: str, step: timedelta = timedelta(hours=1)) -> Callable[[], datetime]:
    """A clock that advances with every reading, so that a window that is computed again is a different one."""

    def now() -> datetime:
        looks = BOARD / f"{name}.looks"
        with looks.open("a") as file:
            file.write(".")
        return START + looks.stat().st_size * step

    return now


def told() -> datetime:
    """A clock that shows the time in the run's conf."""
    return START + timedelta(hours=conf()["hour"])


def conf() -> dict[str, Any]:
    return get_current_context()["dag_run"].conf or {}


def post(what: dict[str, Any]) -> None:
    """Post on the board what was done, and by which attempt."""
    ti = get_current_context()["ti"]
    line = {"run": ti.run_id, "task": ti.task_id, "try": ti.try_number, "index": ti.map_index, **what}
    with (BOARD / f"{ti.dag_id}.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def load(window: Window, **more: Any) -> None:
    """Load the window, by posting it on the board."""
    flags = ("empty", "is_initial", "is_retry", "is_replay", "is_reset")
    post({"window": str(window), "is": [flag.removeprefix("is_") for flag in flags if getattr(window, flag)], **more})


def load_it(window: Window) -> None:
    """Only this parameter: with `**more`, TaskFlow would pass the whole context."""
    load(window)


def follow(windows: list[LoadedWindow]) -> None:
    """Process what a consumer is given."""
    for window in windows:
        bounds = f"[{window.start.isoformat()}, {window.end.isoformat()})"
        who = {"from": window.run_id, "partition": window.partition, "from_index": window.map_index}
        post({"window": bounds, "outcome": window.outcome.value, "origin": window.origin, **who})


def die_if_wanted(moment: str) -> None:
    """SIGKILL this process if the run's conf says that this try dies here: `{"die": [<moment of try 1>, ...]}`."""
    number = get_current_context()["ti"].try_number
    if conf().get("die", [])[number - 1 : number] == [moment]:
        os.kill(os.getpid(), signal.SIGKILL)


def fail_if_wanted() -> None:
    """Fail if the run's conf says so: `{"fail": true}`."""
    if conf().get("fail"):
        raise RuntimeError("as the conf wants")
