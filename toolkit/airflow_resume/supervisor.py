"""The supervisor of this task process, and what to do when it is gone.

When a supervisor is killed, the task process lives on as an orphan. Airflow starts the task again within seconds, and
the two load side by side: nothing that the orphan does can be reported any more, and all it writes comes on top of what
the new attempt writes. So an orphan ends itself, as if it had been killed together with its supervisor.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from airflow_resume.channel import in_process_supervisor

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""How often it is looked whether the supervisor is alive; no request is made for it."""
EXIT_CODE = 9
_IMPORTED_BY = os.getpid(), os.getppid()
"""This process and its parent, when this module was imported: the supervisor may be gone before a block begins."""


@contextmanager
def dies_with_supervisor() -> Iterator[None]:
    """While the block runs, this process ends within a second or two after its supervisor.

    It does nothing where there is no process of a supervisor: in `dag.test()`, in a test, in a script.
    """
    if not is_supervised():
        yield
        return
    is_over = threading.Event()
    watch = threading.Thread(
        target=_watch, args=(_supervisor(), is_over), name="airflow-resume supervisor watch", daemon=True
    )
    try:
        watch.start()
    except RuntimeError as error:
        log.warning("If the supervisor of this task is killed, the task goes on beside the next attempt: %s", error)
    try:
        yield
    finally:
        is_over.set()


def is_supervised() -> bool:
    """Whether this is a task process that a supervisor has started."""
    runner = sys.modules.get("airflow.sdk.execution_time.task_runner")
    return getattr(runner, "SUPERVISOR_COMMS", None) is not None and not in_process_supervisor()


def _supervisor() -> int:
    """Its process id. In a process that was forked since the import, the parent of now is all that is known."""
    process, parent = _IMPORTED_BY
    return parent if process == os.getpid() else os.getppid()


def _watch(supervisor: int, is_over: threading.Event) -> None:
    while not is_over.wait(LOOK_SECONDS):
        if os.getppid() != supervisor:  # an orphan has another parent
            _end()


def _end() -> None:
    with suppress(Exception):  # the log of a task goes through its supervisor, too
        log.error(
            "The supervisor of this task is gone, so another attempt will load the same: this process ends itself now"
        )
    with suppress(Exception):
        sys.stderr.flush()
    os._exit(EXIT_CODE)
