"""Whether an attempt whose task has succeeded may delete the values of the task.

With `[state_store] clear_on_success` Airflow's worker first tells the backend to delete them, and then reports the
success. If the attempt was replaced in the meantime, the server refuses only the report. So the attempt would delete
the values that its successor needs. The database does not show that there is a successor, because it may only have read
the values of the first attempt. So this module first makes a call that the server refuses to a replaced attempt: it
deletes a key that is never set.

Airflow has ended the context of the task by then. Only the accessor whose method calls the backend still exists.
"""

from __future__ import annotations

import sys
from typing import Any

from airflow_resume.errors import ResumeError, SupersededError
from airflow_resume.shown import get_logger
from airflow_resume.store import wrapped

log = get_logger(__name__)

_CALLER = "_clear_backend_only"
"""The method of Airflow's accessor by which the backend deletes the values at success. It does not ask the server."""
_NEVER_SET = "resume.cleared"


def may_clear() -> bool:
    """Whether the values may be deleted. Outside the success of a task this is always True.

    If the server cannot be asked, the values stay. A cleanup deletes them when their references are gone.

    Raises:
        SupersededError: another attempt has replaced this one.
    """
    accessor = _accessor_at_success()
    if accessor is None:
        return True
    try:
        wrapped(accessor, refused=SupersededError).delete(_NEVER_SET)
    except SupersededError:
        raise
    except ResumeError as error:
        log.warning("The values of the task stay, as it is not known whether it was replaced: %s", error)
        return False
    return True


def _accessor_at_success() -> Any:
    frame = sys._getframe(1)  # noqa: SLF001  there is no other way to it
    while frame is not None:
        if frame.f_code.co_name == _CALLER and str(frame.f_globals.get("__name__")).startswith("airflow.sdk."):
            return frame.f_locals.get("self")
        frame = frame.f_back  # type: ignore[assignment]
    return None
