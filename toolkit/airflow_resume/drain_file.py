"""The file by which the tasks of a worker hear that it is being shut down: `[airflow_resume] drain_file`.

`airflow_resume.drain` reads it in a task. A `preStop` hook or an `ExecStop` touches it, and so does a Celery worker by
itself (`airflow_resume.celery_worker`). Airflow's workers import this module, so it imports nothing else before it is
asked.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

SECTION, OPTION = "airflow_resume", "drain_file"
VARIABLE = "AIRFLOW__AIRFLOW_RESUME__DRAIN_FILE"


def drain_file() -> str | None:
    """The path of the file; None without the setting."""
    # Cached by the environment, as `airflow_resume.deployment` is.
    return _configured(os.environ.get(VARIABLE))


def refused(path: str) -> str | None:
    """Why no task can look at this path, and what to do; None if a task can."""
    if Path(path).is_absolute():
        return None
    return (
        f"[airflow_resume] drain_file is {path!r}, which is not an absolute path, so a task and its worker may look in"
        " two folders. It is ignored, and no task hears of a shutdown by it. Write the whole path, such as"
        " /run/airflow/drain."
    )


@lru_cache(maxsize=4)
def _configured(_given: str | None) -> str | None:
    from airflow_resume.compat import conf

    given: str = conf.get(SECTION, OPTION, fallback=None) or ""
    return given.strip() or None
