"""A Celery worker that tells its tasks when it begins to shut down, by the file of `[airflow_resume] drain_file`.

Theory of operation. On SIGTERM, Celery's worker takes no more tasks, and waits for those that it has. When it begins to
do so, it calls the method `close` of each of its boot steps, and so it calls that of ours. This also happens when the
worker is told to stop by `airflow celery shutdown-worker`, which sends no signal.

The file is touched again every second, for a task that had been accepted, and started only after the first touch.

Only `airflow celery worker` imports this module, by `airflow_resume_mixins.providers.policy`.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from celery.bootsteps import StartStopStep  # pyright: ignore[reportMissingImports]
from celery.signals import celeryd_init  # pyright: ignore[reportMissingImports]

from airflow_resume.drain_file import drain_file, refused
from airflow_resume.shown import get_logger

log = get_logger(__name__)

TOUCH_SECONDS = 1.0
"""How often the file is touched while the worker shuts down."""


class TellTasks(StartStopStep):
    """The step of the worker that touches the file when the worker begins to stop."""

    def start(self, parent: Any) -> None:  # noqa: ARG002
        """Say that tasks will be told."""
        log.info("The tasks of this worker hear of its shutdown by %s", drain_file())

    def close(self, parent: Any) -> None:  # noqa: ARG002
        """Touch the file, now and again until this process ends."""
        path = drain_file()
        if path is not None and touched(Path(path)):
            threading.Thread(target=_touch_on, args=(Path(path),), name="airflow-resume drain", daemon=True).start()


def touched(file: Path) -> bool:
    """Touch the file. If that fails, log why, and return False."""
    try:
        file.touch()
    except OSError as error:
        log.error(  # noqa: TRY400  the traceback has no more
            "%s, the file of [airflow_resume] drain_file, cannot be touched: %s. So no task hears that this worker"
            " shuts down. Let the user of the worker write into the folder.",
            file,
            error,
        )
        return False
    log.info("This worker shuts down, so %s is touched: loops and waits for jobs leave it", file)
    return True


def _touch_on(file: Path) -> None:
    while True:
        time.sleep(TOUCH_SECONDS)
        file.touch()


@celeryd_init.connect
def add_step(instance: Any, **_: Any) -> None:
    """Add the step to a worker that is being made, if the setting is there.

    Args:
        instance: the worker.
        _: what else Celery passes.
    """
    path = drain_file()
    if path is None:
        return
    if (why := refused(path)) is not None:
        log.error("%s", why)
        return
    instance.app.steps["worker"].add(TellTasks)
