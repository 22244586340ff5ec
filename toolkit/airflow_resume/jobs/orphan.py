"""What the submit hook returned, checked as an id; and what to do with a job whose id cannot be saved.

Such a job is cancelled only if no other attempt can be waiting for it: a later attempt may have found it by its token.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

from airflow_resume import values
from airflow_resume.errors import InvalidValueError, JobHookError
from airflow_resume.jobs.record import MAX_OWN_ID_BYTES
from airflow_resume.shown import get_logger, short_repr

if TYPE_CHECKING:
    from pydantic import JsonValue

    from airflow_resume.jobs.protocol import JobSystem

MAX_SHOWN = 200
"""Characters that are shown of an id that cannot be saved."""

log = get_logger(__name__)


class Fate(str, Enum):
    """What to do with the job. The value is how the log names it."""

    LEAVE = "left alone: the next attempt finds it by its token, or has found it"
    CANCEL = "cancelled"
    NAME = "MAY BE ORPHANED: it can neither be cancelled nor looked up from here"


def decide_fate(*, known_by_token: bool, can_cancel: bool) -> Fate:
    """A job that can be found by its token is left to the attempt that looks for the token."""
    if known_by_token:
        return Fate.LEAVE
    return Fate.CANCEL if can_cancel else Fate.NAME


def see_to_orphan(system: JobSystem, token: str, external_id: JsonValue) -> bool:
    """Log the job at ERROR, and cancel it if no other attempt can be waiting for it. It raises nothing.

    Returns:
        Whether the job was cancelled.
    """

    def see_to() -> str:
        known_by_token = system.is_idempotent
        if system.can_find:
            # Only another job with the same token proves that no attempt waits for this one. Finding no job may be due
            # to a slow index. The same id may be a number here and text there.
            found = system.find(token)
            known_by_token = found is None or str(found) == str(external_id)
        fate = decide_fate(known_by_token=known_by_token, can_cancel=system.can_cancel)
        if fate is Fate.CANCEL:
            system.cancel(external_id)
        return fate.value

    fate = _safely(see_to)
    log.error("The id of job %r (token %s) could not be saved; the job: %s", external_id, token, fate)
    return fate == Fate.CANCEL.value


def checked_id(system: JobSystem, token: str, answer: Any, *, slot: str | None = None) -> JsonValue:
    """The id that the submit hook returned, in a form that can be saved.

    Raises:
        JobHookError: the id cannot be saved. The job was cancelled if possible, and is logged at ERROR.
    """
    try:
        external_id = values.plain_id(answer)
        values.check_size(None, external_id, at="the id", limit=MAX_OWN_ID_BYTES)
    except InvalidValueError as error:
        fate = "there is nothing to cancel it by"
        if answer is not None and system.can_cancel:

            def cancel() -> str:
                system.cancel(answer)
                return Fate.CANCEL.value

            fate = _safely(cancel)
        returned = short_repr(answer, most=MAX_SHOWN)
        log.error("A job may be orphaned: token %s, id %s, %s", token, returned, fate)  # noqa: TRY400
        raise JobHookError(
            f"The submit hook returned {returned}: {error.message} The job that was submitted with"
            f" token {token} may be running ({fate}).",
            "Return the id of the job, as JSON.",
            hook="submit",
            slot=slot,
            token=token,
        ) from error
    return external_id


def _safely(act: Callable[[], str]) -> str:
    try:
        return act()
    except Exception as error:  # noqa: BLE001  another error is about to be raised; this one is shown in its message
        return f"{Fate.NAME.value} ({error!r})"
