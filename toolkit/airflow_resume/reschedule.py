"""Giving the slot of a task back to Airflow, which takes the same try up again: no retry is used, state is kept."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NoReturn

from airflow.sdk.exceptions import AirflowRescheduleException

from airflow_resume.attempt import utc_now

RESCHEDULE_AFTER = timedelta(seconds=15)
"""How far ahead a task is rescheduled. The scheduler must not take it up before the executor has reported the end of
the old process, or it counts that end as a failure of the new one: with a date that had come already, 4 of 7 attempts
were lost like this, with one 4 s ahead none of 6. The rest is for a process that takes its time to end, and for its log
to be handed in.
"""


def reschedule(after: timedelta = RESCHEDULE_AFTER, *, now: Callable[[], datetime] = utc_now) -> NoReturn:
    """End this process of the attempt, and have Airflow start another one for the same try.

    To be called when everything is saved, in the task's own thread or in what it waits for, and never in `on_kill`.

    Args:
        after: how long from now.
        now: the time.

    Raises:
        AirflowRescheduleException: always.
    """
    raise AirflowRescheduleException(now() + after)  # type: ignore[no-untyped-call]
