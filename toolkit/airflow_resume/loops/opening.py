"""The decision at the opening of a loop: go on, start over, or refuse. Pure and total."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

from airflow_resume.attempt import Cleared, Epoch
from airflow_resume.errors import SourceChangedError
from airflow_resume.loops.record import LoopRecord

OnClear = Literal["restart", "resume"]
OnChange = Literal["restart", "fail", "resume"]


class Opening(str, Enum):
    """What to do. The value is how the log names it."""

    START = "start"
    RESUME = "resume"
    RESTART_CLEARED = "start over, as the task was cleared"
    RESTART_CHANGED = "start over, as the source changed"
    FAIL_CHANGED = "fail, as the source changed"
    NOTHING_LEFT = "nothing left to do"

    @property
    def keeps_position(self) -> bool:
        """Whether the saved position counts."""
        return self in {Opening.RESUME, Opening.NOTHING_LEFT}


@dataclass(frozen=True, kw_only=True)
class Definition:
    """What a position depends on: the kind of the source, and a fingerprint of every field."""

    kind: str
    fp: dict[str, str]

    def changes(self, record: LoopRecord) -> list[str]:
        """The names of the fields in which the record's definition differs."""
        names = sorted(self.fp.keys() | record.fp.keys())
        changed = [name for name in names if self.fp.get(name) != record.fp.get(name)]
        return changed if self.kind == record.kind else ["source", *changed]


def decide_opening(
    record: LoopRecord | None, *, epoch: Epoch, definition: Definition, on_clear: OnClear, on_change: OnChange
) -> Opening:
    """What to do with the record that an earlier attempt left (None: there is none)."""
    if record is None:
        return Opening.START
    if on_clear == "restart" and epoch.cleared_since(record.at.epoch) is Cleared.YES:
        return Opening.RESTART_CLEARED
    if definition.changes(record):
        if on_change == "restart":
            return Opening.RESTART_CHANGED
        # No policy can make one kind of position mean something in another kind of source.
        if on_change == "fail" or definition.kind != record.kind:
            return Opening.FAIL_CHANGED
    return Opening.NOTHING_LEFT if record.done else Opening.RESUME


def change_error(record: LoopRecord, definition: Definition) -> SourceChangedError:
    """What `FAIL_CHANGED` raises."""
    return SourceChangedError(
        f"The loop {record.key!r} stands at {record.pos!r}, and since that was saved there changed:"
        f" {', '.join(definition.changes(record))}. Nothing was touched. Put it back, or clear the task to start over"
        f" (on_change='restart' does that by itself)."
    )
