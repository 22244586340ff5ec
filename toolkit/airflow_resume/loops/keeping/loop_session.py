"""What a running loop knows of its record, whether it is the outermost loop or one inside another loop's element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn, Protocol

from airflow_resume.attempt import Attempt
from airflow_resume.errors import UnreadableRecordError
from airflow_resume.loops.keeping.keeper import Keeper
from airflow_resume.loops.keeping.ledger import Ledger
from airflow_resume.loops.keeping.stop_request import StopRequest
from airflow_resume.loops.opening import Opening
from airflow_resume.loops.wake_flag import Alarm

if TYPE_CHECKING:
    from datetime import datetime

    from pydantic import JsonValue


class LoopSession(Protocol):
    """The session of one attempt with the record of a loop, from the claim until the loop is closed."""

    attempt: Attempt
    opening: Opening
    """What was decided when the loop was opened."""
    changes: Sequence[str]
    """How the source differs from that of an earlier attempt."""
    ledger: Ledger
    keeper: Keeper
    alarm: Alarm
    stop_request: StopRequest
    path: list[JsonValue]
    """What identifies the loop among all others."""
    inner_at: datetime | None
    """When an earlier attempt wrote the levels of the loops inside; None if it wrote none."""
    seconds: float | None
    """How long a write may take when the loop is closed; None for no limit."""

    def count_stretch(self) -> None:
        """Count what was passed, in this loop and in those inside it. It must be called before the ledger is read."""
        if self.ledger.has_uncounted:
            self.keeper.is_dirty = True  # first, as a time-out may come before it is counted
            self.ledger.count_stretch()

    def stop(self, where: str) -> NoReturn:
        """Save, and leave the loop; see `OuterSession.stop`."""
        ...

    def finished(self, now: float) -> bool:
        """Note that the source has no more elements. Returns whether to flush."""
        ...

    def left_early(self, *, has_work: bool) -> None:
        """Note that the loop is left before its end, with or without work of an element that is not acked."""
        ...

    def close(self, error: BaseException | None) -> None:
        """Save what is acked; the loop around an inner one does that. `error` is what ended the loop."""
        ...

    def check_room(self, more: int, spare: int, what: str) -> None:
        """See that the record may grow, as `room.check_room`."""
        ...

    def unreadable(self, why: str) -> UnreadableRecordError:
        """The error for a record that cannot be read."""
        ...
