"""A job that was submitted and whose id cannot be saved: who will ever know of it?

It is cancelled only where nobody can be waiting for it: a successor of this attempt may have found it by its token, and
must not lose it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from reprlib import Repr
from typing import TYPE_CHECKING, Any

from airflow_resume import values
from airflow_resume.errors import InvalidJobIdError, InvalidValueError
from airflow_resume.jobs.record import MAX_OWN_ID_BYTES

if TYPE_CHECKING:
    from pydantic import JsonValue

    from airflow_resume.jobs.protocol import JobSystem

MAX_SHOWN = 200
"""Of an id that cannot be saved so many characters are shown."""

log = logging.getLogger(__name__)


class Fate(str, Enum):
    """What to do with the job. The value is how the log names it."""

    LEAVE = "left alone: the next attempt finds it by its token, or has found it"
    CANCEL = "cancelled"
    NAME = "MAY BE ORPHANED: it can neither be cancelled nor looked up from here"


def decide_fate(*, known_by_token: bool, can_cancel: bool) -> Fate:
    """A job that its token leads to is left to whoever follows the token."""
    if known_by_token:
        return Fate.LEAVE
    return Fate.CANCEL if can_cancel else Fate.NAME


def see_to_orphan(system: JobSystem, token: str, external_id: JsonValue) -> bool:
    """Log the job at ERROR, and cancel it if nobody can be waiting for it. It raises nothing.

    Returns:
        Whether the job was cancelled.
    """

    def see_to() -> str:
        fate = decide_fate(known_by_token=_known_by_token(system, token, external_id), can_cancel=system.can_cancel)
        if fate is Fate.CANCEL:
            system.cancel(external_id)
        return fate.value

    fate = _safely(see_to)
    log.error("The id of job %r (token %s) could not be saved; the job: %s", external_id, token, fate)
    return fate == Fate.CANCEL.value


def _known_by_token(system: JobSystem, token: str, external_id: JsonValue) -> bool:
    if not system.can_find:
        return system.is_idempotent
    # Only another job with the same token proves that nobody waits for this one; finding none may be a slow index.
    found = system.find(token)
    return found is None or str(found) == str(external_id)  # the same id may be a number here and text there


def checked_id(system: JobSystem, token: str, answer: Any) -> JsonValue:
    """What the submit hook returned, as an id that can be saved.

    Raises:
        InvalidJobIdError: it cannot be saved. The job was cancelled if that is possible, and is named at ERROR.
    """
    try:
        return _of_fitting_size(values.plain_id(answer))
    except InvalidValueError as error:
        fate = "there is nothing to cancel it by"
        if answer is not None and system.can_cancel:

            def cancel() -> str:
                system.cancel(answer)
                return Fate.CANCEL.value

            fate = _safely(cancel)
        log.error("A job may be orphaned: token %s, id %s, %s", token, _shown(answer), fate)  # noqa: TRY400
        raise InvalidJobIdError(
            f"The submit hook returned {_shown(answer)}: {error.message} The job that was submitted with"
            f" token {token} may be running ({fate}).",
            "Return the id of the job, as JSON.",
        ) from error


def _of_fitting_size(external_id: JsonValue) -> JsonValue:
    values.check_size("the id", external_id, limit=MAX_OWN_ID_BYTES)
    return external_id


def _shown(answer: object) -> str:
    """Of anything: it may be endless, or fail to show itself."""
    short = Repr()
    short.maxstring = short.maxother = short.maxlong = MAX_SHOWN
    try:
        return short.repr(answer)
    except Exception:  # noqa: BLE001  an integer of very many digits, for one
        return f"<{type(answer).__name__}>"


def _safely(act: Callable[[], str]) -> str:
    try:
        return act()
    except Exception as error:  # noqa: BLE001  another error is on its way, and this one goes into its message
        return f"{Fate.NAME.value} ({error!r})"
