"""Learning in a task that its worker is being drained, although no signal reaches the task.

A Celery worker that gets SIGTERM waits for its tasks, and does not tell them. When its grace period is over, SIGKILL
ends them in the middle of their work. So whoever shuts a worker down touches the file of
`[airflow_resume] drain_file`, and loops and waits for jobs look at its time of change, once a second at most. They then
leave as if they had got SIGTERM.

Only the time of change counts. A file that is older than the attempt was meant for the worker of before. So nobody has
to remove the file, and an attempt that comes back ends again only if the file is touched again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from math import inf

from airflow_resume.attempt import Attempt
from airflow_resume.channel import in_process_supervisor
from airflow_resume.drain_file import drain_file, refused
from airflow_resume.shown import get_logger
from airflow_resume.supervisor import is_supervised

log = get_logger(__name__)

LOOK_SECONDS = 1.0
"""The least time between two looks at the file. A look is one `os.stat`."""
TOLERANCE_SECONDS = 1.0
"""Some file systems keep times in whole seconds, and the start of a process is known to the second only."""
MOST_AHEAD_SECONDS = 60.0
"""A file that is further ahead of the clock does not count: it would be newer than every attempt for a long time."""


class Drain(Enum):
    """What the file means for an attempt."""

    NO_FILE = "goes on: there is no file"
    OLD_FILE = "goes on: the file is older than the attempt"
    AHEAD = "goes on: the time of the file has not come yet"
    DRAINED = "leaves: the file was touched during the attempt"


def drain_of(modified: float | None, *, started: float, now: float) -> Drain:
    """What the file means. All times are in seconds since 1970.

    Args:
        modified: when the file was changed; None if there is no file.
        started: when the attempt began.
        now: the time.
    """
    if modified is None:
        return Drain.NO_FILE
    if modified > now + MOST_AHEAD_SECONDS:
        return Drain.AHEAD
    return Drain.OLD_FILE if modified < started - TOLERANCE_SECONDS else Drain.DRAINED


@dataclass(kw_only=True)
class DrainWatch:
    """The looks of one attempt at the file.

    Args:
        path: of the file.
        started: when the attempt began, in seconds since 1970.
        now: the time, in seconds since 1970.
        due: when the next look is due, by the clock of the caller, which only goes forward.
    """

    path: str
    started: float
    now: Callable[[], float]
    due: float = -inf

    def finds_drain(self, at: float) -> bool:
        """Whether a look finds that the worker is being drained. False if no look is due.

        Args:
            at: the time, by the clock that `due` is of.
        """
        if at < self.due:
            return False
        self.due = at + LOOK_SECONDS
        found = drain_of(_modified(self.path), started=self.started, now=self.now())
        if found is Drain.AHEAD:
            _warn(
                f"The time of {self.path}, the file of [airflow_resume] drain_file, is more than"
                f" {MOST_AHEAD_SECONDS:.0f} s ahead of the clock of this worker, so it is ignored. Touch it again."
            )
        return found is Drain.DRAINED


def drain_watch(attempt: Attempt, now: Callable[[], datetime]) -> DrainWatch | None:
    """The looks of an attempt at the file; None without the setting, and where no task can come back.

    Args:
        attempt: the running attempt.
        now: the time.
    """
    path = drain_file()
    if path is None or not attempt.has_identity or in_process_supervisor():
        return None
    if (why := refused(path)) is not None:
        _warn(why)
        return None
    began = attempt.started or now()
    started = began.timestamp()
    if is_supervised():  # after a deferral, Airflow gives the start of the first process of the try
        started = max(started, _start_of_process())
    return DrainWatch(path=path, started=started, now=lambda: now().timestamp())


def _modified(path: str) -> float | None:
    try:
        return os.stat(path).st_mtime  # noqa: PTH116  one call, as it is made every second
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        _warn(
            f"The file of [airflow_resume] drain_file cannot be looked at: {error}. So this task does not hear of a"
            " shutdown by it. Let the user of the worker read its folder."
        )
        return None


def _start_of_process() -> float:
    import psutil

    return psutil.Process().create_time()


@cache
def _warn(message: str) -> None:
    """Log a warning, once in this process."""
    log.warning("%s", message)
