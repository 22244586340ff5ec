"""What is kept about a loop, under `resume.loop.<name>`."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from airflow_resume.attempt import Epoch
from airflow_resume.record import Record

KEY_PREFIX = "resume.loop"


class Opened(BaseModel):
    """The attempt that last opened the loop, and how often it was opened."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow", populate_by_name=True)

    try_number: int = Field(validation_alias="try", serialization_alias="try")
    epoch: Epoch
    opens: int = 1
    stalls: int = 0


class LoopRecord(Record):
    """How far a loop has come.

    Args:
        kind: of the source.
        fp: a short fingerprint of every field that positions depend on.
        pos: what to do next; None at the start.
        done: the source was exhausted.
        n: elements done, in all attempts. `total`: of how many, where known.
        state: the user's own, saved with the position it belongs to.
        t0, ts: when the loop was first opened, and when this was written.
    """

    kind: str
    fp: dict[str, str] = Field(default_factory=dict)
    pos: JsonValue = None
    done: bool = False
    n: int = 0
    total: int | None = None
    state: dict[str, JsonValue] = Field(default_factory=dict)
    skipped: int = 0
    at: Opened
    t0: datetime
    ts: datetime
