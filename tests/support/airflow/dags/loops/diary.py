"""The diary that the body of a loop writes, and the places where it waits for the test.

Each line is appended to a file by a single write, so it survives a SIGKILL of the process that wrote it.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import get_current_context

GLANCE = 0.02


class Diary:
    """The diary of one attempt. The `conf` of the run says what the test asks for.

    `holds` in the conf are pairs of a loop and an element at which the first attempt waits. A file shows
    that Airflow called `on_kill`.
    """

    def __init__(self) -> None:
        context: Any = get_current_context()
        ti, conf = context["ti"], context["dag_run"].conf
        self.conf: dict[str, Any] = conf or {}
        self.try_number: int = ti.try_number
        index = ti.map_index if ti.map_index is not None and ti.map_index >= 0 else ""
        self.path = str(Path(os.environ["AIRFLOW_HOME"]) / f"{context['run_id']}.diary{index}")
        self._holds = [json.dumps(hold) for hold in self.conf.get("holds", [])]
        self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        object.__setattr__(ti.task, "on_kill", Path(f"{self.path}.told").touch)

    def write(self, loop: str, element: Any, **more: Any) -> None:
        """Write down that an element was delivered."""
        line = {"loop": loop, "element": element, "try": self.try_number, "pid": os.getpid(), "at": time.time(), **more}
        os.write(self._file, json.dumps(line).encode() + b"\n")

    def deliver(self, loop: str, element: Any, **more: Any) -> None:
        """Write down that an element was delivered, and take as long as a body would."""
        self.write(loop, element, **more)
        if pace := self.conf.get("pace"):
            time.sleep(pace)
        let_go = self._holding(loop, element)
        while not let_go():
            time.sleep(GLANCE)

    async def adeliver(self, loop: str, element: Any, **more: Any) -> None:
        """The same on an event loop."""
        self.write(loop, element, **more)
        let_go = self._holding(loop, element)
        while not let_go():  # noqa: ASYNC110  it is another process that makes the file
            await asyncio.sleep(GLANCE)

    def _holding(self, loop: str, element: Any) -> Callable[[], bool]:
        hold = json.dumps([loop, element])
        if hold not in self._holds:
            return lambda: True
        number = self._holds.index(hold)
        try:
            os.close(os.open(f"{self.path}.held{number}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:  # an earlier attempt stayed here
            return lambda: True
        return Path(f"{self.path}.go{number}").exists


def options(diary: Diary) -> dict[str, Any]:
    """The options of `checkpoint` that the test asks for."""
    seconds = {name: diary.conf[name] for name in ("interval", "max_interval", "max_uncommitted") if name in diary.conf}
    return {
        "durability": diary.conf.get("durability", "async"),
        "max_stalls": diary.conf.get("max_stalls", 3),
        "on_shutdown": diary.conf.get("on_shutdown", "reschedule"),
        **{name: timedelta(seconds=value) for name, value in seconds.items()},
    }
