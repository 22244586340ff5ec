"""Who writes: the attempt of the running task, so that one which was replaced does not write over its successor.

Airflow refuses the reference of a replaced attempt, but the value was written before it. So the row carries the
attempt that wrote it. Attempts are compared within one task instance only. An attempt is older when its try number is
smaller *and* its id, which Airflow makes of the time, is too: the number alone starts again when a Dag run is deleted
and made once more under the same name, and the id alone trusts the clocks of several schedulers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from airflow_resume.attempt import current_attempt, current_context
from airflow_resume.backends.scopes import digest
from airflow_resume.errors import NoStateStoreError

_OF_TIME = 7
"""The version of UUIDs that sort as the times at which they were made."""


@dataclass(frozen=True, kw_only=True)
class Writer:
    """One attempt of one task instance; by default nobody in particular, who is never refused."""

    identity: str = ""
    try_number: int = 0
    attempt_id: str = ""
    """Empty when it does not sort by time."""

    def is_replaced_by(self, other: Writer) -> bool:
        """Whether the other is a later attempt of the same task instance; `rows` says the same in SQL."""
        later_id = not other.attempt_id or other.attempt_id > self.attempt_id
        return self.identity == other.identity and self.try_number < other.try_number and later_id


NOBODY = Writer()


def current_writer() -> Writer:
    """The running attempt; outside a task, and in a trigger, nobody."""
    try:
        context = current_context()
    except NoStateStoreError:
        return NOBODY
    attempt = current_attempt(context)
    identity = digest(["writer", *attempt.scope.identity()])
    ti: Any = context.get("ti")
    return Writer(identity=identity, try_number=attempt.try_number, attempt_id=_sortable(getattr(ti, "id", "")))


def _sortable(attempt_id: object) -> str:
    try:
        found = UUID(str(attempt_id))
    except ValueError:
        return ""
    return str(found) if found.version == _OF_TIME else ""
