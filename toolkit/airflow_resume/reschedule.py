"""Giving the worker slot of a task back to Airflow, which starts the task again later in the same try.

So no retry is used.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NoReturn

from airflow_resume.attempt import utc_now
from airflow_resume.compat import AirflowRescheduleException

RESCHEDULE_AFTER = timedelta(seconds=15)
"""After how long a task is rescheduled. The scheduler must not start it before the executor has reported the end of the
old process; otherwise it counts that end as a failure of the new one. With a date in the past, 4 of 7 attempts were
lost this way; with one 4 s ahead, none of 6. The rest is for a process that ends slowly, and for uploading its log.
"""


def reschedule(after: timedelta = RESCHEDULE_AFTER, *, now: Callable[[], datetime] = utc_now) -> NoReturn:
    """End this attempt, and have Airflow start another attempt in the same try.

    Call it when everything is saved, in the task's own thread or one that it waits for, and never in `on_kill`.

    Args:
        after: how long from now the next attempt begins.
        now: the time.

    Raises:
        AirflowRescheduleException: always.
    """
    raise AirflowRescheduleException(now() + after)  # type: ignore[no-untyped-call]
