"""What is kept: the mark with the asset, and the window of a run with its task."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from airflow_resume.attempt import Claim
from airflow_resume.record import Record

if TYPE_CHECKING:
    from airflow_resume.attempt import Attempt

MARK_PREFIX, WINDOW_PREFIX = "resume.watermark", "resume.window"

Pending = Literal["initial", "rewind", "reset"]
Origin = Literal["mark", "conf", "backfill"]


class Writer(BaseModel):
    """The attempt that moved the mark."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow", populate_by_name=True)

    dag_id: str
    run_id: str
    task_id: str
    try_number: int = Field(validation_alias="try", serialization_alias="try")

    @classmethod
    def of(cls, attempt: Attempt) -> Writer:
        """The attempt, by name."""
        scope = attempt.scope
        return cls(dag_id=scope.dag_id, run_id=scope.run_id, task_id=scope.task_id, try_number=attempt.try_number)


class Move(BaseModel):
    """One line of the history: the mark moved to `to`, by a run."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow")

    to: JsonValue
    run_id: str


class MarkRecord(Record):
    """How far an asset is loaded, under `resume.watermark.<name>` in the asset's store.

    Args:
        type: of the cursor. `definition`: what else its values depend on.
        at: everything before it is loaded, as the cursor keeps it.
        rev: goes up by one with every write.
        epoch: of this record; a record made anew has another one, so that a run from before cannot move it.
        pending: it was set, and nothing is loaded from there yet: by whom.
        ties: which rows at `at` are loaded, where they can be told apart.
        islands: windows loaded beyond `at`, with a gap before them: `(start, end)`, in order.
        by: who wrote this. `history`: the newest moves.
    """

    type: str
    definition: dict[str, JsonValue] = Field(default_factory=dict)
    at: JsonValue
    rev: int = 0
    epoch: str
    pending: Pending | None = None
    ties: tuple[str, ...] | None = None
    islands: tuple[tuple[JsonValue, JsonValue], ...] = ()
    by: Writer | None = None
    history: tuple[Move, ...] = ()


class WindowState(str, Enum):
    """How far a window has come."""

    CLAIMED = "claimed"
    """Not begun: written before a missing mark is made, as a replaced attempt must not make one."""
    PENDING = "pending"
    COMMITTED = "committed"


class WindowRecord(Record):
    """The window of a run, under `resume.window.<name>` in the task's store: saved before the body runs.

    Args:
        start, end: as the cursor keeps them; no end: whatever is there.
        at: where the mark stood.
        type: of the cursor.
        base_rev, epoch: of the mark.
        origin: where the bounds come from. `commits`: whether the mark may move.
        limit: the mark moves no further: what lies at it or beyond may still change; where `end` is not that.
        reset: the mark was set to `at`, and nothing was loaded from there yet.
        ties: of the mark, so that a retry passes over the same rows.
        settles: nothing before the end changes any more.
        done: slices before it are loaded and committed (`window.split`).
    """

    start: JsonValue = Field(default=None, validation_alias="from", serialization_alias="from")
    end: JsonValue = Field(default=None, validation_alias="to", serialization_alias="to")
    at: JsonValue = None
    type: str = "datetime"
    base_rev: int
    epoch: str
    origin: Origin = "mark"
    commits: bool = True
    limit: JsonValue = None
    reset: Pending | None = None
    ties: tuple[str, ...] | None = None
    settles: bool = False
    done: JsonValue = None
    state: WindowState = WindowState.PENDING
    claim: Claim
