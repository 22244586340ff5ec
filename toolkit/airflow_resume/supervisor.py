"""The supervisor of this task process, and what to do when it is gone.

When a supervisor is killed, the task process keeps running without it, as an orphan. Airflow starts the task again
within seconds. Then both processes write at the same time, for example to the target of a load, and the orphan cannot
report anything any more. So an orphan ends itself, as if it had been killed together with its supervisor.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from airflow_resume.channel import in_process_supervisor
from airflow_resume.shown import get_logger

log = get_logger(__name__)

CHECK_SECONDS = 1.0
"""How often to check whether the supervisor is alive. A check makes no request."""
EXIT_CODE = 9
_IMPORTED_BY = os.getpid(), os.getppid()
"""This process and its parent at import. Later the supervisor may be gone already."""


@contextmanager
def dies_with_supervisor() -> Iterator[None]:
    """While the block runs, this process ends within a second or two after its supervisor.

    It does nothing without a supervisor process: in `dag.test()`, in a test, in a script.
    """
    if not is_supervised():
        yield
        return
    supervisor, is_over = _supervisor(), threading.Event()

    def watch() -> None:
        while not is_over.wait(CHECK_SECONDS):
            if os.getppid() != supervisor:  # an orphan has another parent
                _end()

    try:
        threading.Thread(target=watch, name="airflow-resume supervisor watch", daemon=True).start()
    except RuntimeError as error:
        log.warning(
            "The supervisor of this task cannot be watched: %s. If it is killed, the task keeps running beside the next"
            " attempt",
            error,
        )
    try:
        yield
    finally:
        is_over.set()


def is_supervised() -> bool:
    """Whether this is a task process that a supervisor has started."""
    runner = sys.modules.get("airflow.sdk.execution_time.task_runner")
    return getattr(runner, "SUPERVISOR_COMMS", None) is not None and not in_process_supervisor()


def _supervisor() -> int:
    """The process id of the supervisor. In a process that was forked after the import, it is the current parent."""
    process, parent = _IMPORTED_BY
    return parent if process == os.getpid() else os.getppid()


def _end() -> None:
    with suppress(Exception):  # the log of a task goes through its supervisor too
        log.error(
            "The supervisor of this task is gone, so another attempt does the same work: this process ends itself now"
        )
    with suppress(Exception):
        sys.stderr.flush()
    os._exit(EXIT_CODE)
