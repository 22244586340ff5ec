"""A worker that is drained, in a test: the file of the setting, touched at the time of a clock."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from airflow_resume.drain_file import VARIABLE
from airflow_resume.loops import Checkpoint
from airflow_resume.testing import FakeClock
from tests.support.loops.polled_alarm import PolledAlarm

__all__ = ["VARIABLE", "on_clock", "touch"]


def touch(file: Path, now: Callable[[], datetime]) -> None:
    """Touch the file, as at this time."""
    file.touch()
    os.utime(file, (now().timestamp(), now().timestamp()))


def on_clock(loop: Checkpoint[Any], clock: FakeClock) -> Checkpoint[Any]:
    """The loop, with the clock of the test for everything."""
    alarm = partial(PolledAlarm, clock.monotonic)
    loop._run.plan = replace(loop._run.plan, monotonic=clock.monotonic, now=clock.now, alarm=alarm)
    return loop
