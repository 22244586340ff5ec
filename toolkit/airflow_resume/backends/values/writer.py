"""The attempt that writes a value, so that a replaced attempt does not overwrite what its successor wrote.

Airflow refuses the reference of a replaced attempt, but the value was written before it. So the row has the attempt
that wrote it. Attempts are compared within one task instance only. An attempt is older when its try number is smaller
*and* its id, which Airflow makes from the time, is too: the number alone starts again when a Dag run is deleted and
made again with the same name, and the id alone relies on the clocks of several schedulers.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from airflow_resume.attempt import Attempt, current_attempt, current_context
from airflow_resume.backends.values.scopes import digest
from airflow_resume.errors import NoStateStoreError

_OF_TIME = 7
"""The version of UUIDs that sort as the times at which they were made."""


@dataclass(frozen=True, kw_only=True)
class WritingAttempt:
    """One attempt of one task instance; by default none, which is never refused."""

    identity: str = ""
    try_number: int = 0
    attempt_id: str = ""
    """Empty when it does not sort by time."""

    def is_replaced_by(self, other: WritingAttempt) -> bool:
        """Whether the other is a later attempt of the same task instance; `statements` has the same in SQL."""
        later_id = not other.attempt_id or other.attempt_id > self.attempt_id
        return self.identity == other.identity and self.try_number < other.try_number and later_id


NOBODY = WritingAttempt()


def writing_attempt() -> WritingAttempt:
    """The running attempt; `NOBODY` outside a task and in a trigger."""
    try:
        context = current_context()
    except NoStateStoreError:
        return NOBODY
    return attempt_of(current_attempt(context), context.get("ti"))


def attempt_of(attempt: Attempt, ti: object) -> WritingAttempt:
    """An attempt, as what writes values."""
    identity = digest(["writer", *attempt.scope.identity()])
    try:
        found = UUID(str(getattr(ti, "id", "")))
        attempt_id = str(found) if found.version == _OF_TIME else ""
    except ValueError:
        attempt_id = ""
    return WritingAttempt(identity=identity, try_number=attempt.try_number, attempt_id=attempt_id)
