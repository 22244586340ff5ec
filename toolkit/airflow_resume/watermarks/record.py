"""What is kept: the mark with the asset, and the window of a run with its task."""

from __future__ import annotations

from datetime import timedelta
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from airflow_resume import values
from airflow_resume.attempt import Claim, Scope
from airflow_resume.record import Record
from airflow_resume.watermarks.entry import Entry, Origin, merged

if TYPE_CHECKING:
    from airflow_resume.attempt import Attempt

Pending = Literal["initial", "rewind", "reset"]


class Writer(BaseModel):
    """The attempt that wrote the mark.

    Args:
        for_person: a person had set it by hand, and this attempt took that up.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow", populate_by_name=True)

    dag_id: str
    run_id: str
    task_id: str
    try_number: int = Field(validation_alias="try", serialization_alias="try")
    for_person: Literal[True] | None = None

    @classmethod
    def of(cls, attempt: Attempt, *, for_person: Literal[True] | None = None) -> Writer:
        """The attempt, by name."""
        scope = attempt.scope
        return cls(
            dag_id=scope.dag_id,
            run_id=scope.run_id,
            task_id=scope.task_id,
            try_number=attempt.try_number,
            for_person=for_person,
        )


class Owner(BaseModel):
    """The task that moves the mark."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow")

    dag_id: str
    task_id: str

    def __str__(self) -> str:
        return f"the task {self.task_id!r} of the Dag {self.dag_id!r}"


@lru_cache(maxsize=64)
def owner_of(dag_id: str, task_id: str) -> Owner | None:
    """The task by that name; None where no task runs."""
    return Owner(dag_id=dag_id, task_id=task_id) if dag_id and task_id else None


class Untold(BaseModel):
    """What records kept before there was an `outbox`: windows that the event of a task instance may not tell.

    Args:
        start: where they begin; they end where the mark stands. `after`: without this value itself.
        dag_id, run_id, task_id, map_index: of the task instance.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow", populate_by_name=True)

    start: JsonValue = Field(validation_alias="from", serialization_alias="from")
    after: Literal[True] | None = None
    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1

    @property
    def scope(self) -> Scope:
        """The task instance."""
        return Scope(dag_id=self.dag_id, run_id=self.run_id, task_id=self.task_id, map_index=self.map_index)


class Move(BaseModel):
    """One line of the history: the mark moved to `to`, by a run or a person."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow")

    to: JsonValue
    run_id: str
    for_person: Literal[True] | None = None


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
        owner: the task that moves it; None: none has done so since it was set. `shared`: others may do so too.
        first: what the function `initial` answered when the mark was made.
        lag_seconds: how far the mark stood behind the time at which this was written; None where it is no time.
        outbox: what was loaded and events may not tell yet, see `outbox`. `untold`: the same, by what came before.
        taken_up: this is one of version 0.1, and the mark stands under another key now.
    """

    FIRST = ("at", "lag_seconds", "rev", "by", "owner")

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
    owner: Owner | None = None
    shared: Literal[True] | None = None
    first: JsonValue = None
    lag_seconds: float | None = None
    outbox: tuple[Entry, ...] = ()
    untold: Untold | None = None
    taken_up: Literal[True] | None = None

    def summary(self) -> str:
        """Such as `at 2026-01-01T00:00:00+00:00, 1:02:03 before the time of writing, moved by run daily_7, try 2`."""
        lag = (
            None
            if self.lag_seconds is None
            else f"{timedelta(seconds=round(self.lag_seconds))} before the time of writing"
        )
        windows = f"{len(self.outbox)} window{'' if len(self.outbox) == 1 else 's'}"
        untold = f"{windows} that no event may have told yet" if self.outbox else None
        pending = "nothing loaded from there yet" if self.pending is not None else None
        by = None
        if self.by is not None:
            who = "set by a person, taken up" if self.by.for_person else "moved"
            by = f"{who} by run {_shown(self.by.run_id)}, try {self.by.try_number}"
        parts = (f"at {_shown(self.at)}", lag, pending, by, untold)
        return ", ".join(part for part in parts if part is not None)

    def with_less_history(self) -> MarkRecord | None:
        """Without what it can do without, and never without the mark.

        First the oldest move; then windows beyond a gap, from the far end, and the ties: their rows are read again.
        Then the first value, for which its function is asked again, and what consumers were not told of.
        """
        if self.history:
            return self.model_copy(update={"history": self.history[1:]})
        if self.islands:
            return self.model_copy(update={"islands": self.islands[:-1]})
        name = next((name for name in ("ties", "first") if getattr(self, name)), None)
        if name is not None:
            return self.model_copy(update={name: None})
        fewer = merged(self.outbox)
        fewer = fewer if len(fewer) < len(self.outbox) else self.outbox[1:]
        return self.model_copy(update={"outbox": fewer}) if self.outbox else None


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
        reached: how far this run has moved the mark, in slices or in an earlier attempt.
    """

    FIRST = ("from", "to", "state", "done", "reached")

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
    reached: JsonValue = None
    state: WindowState = WindowState.PENDING
    claim: Claim

    def summary(self) -> str:
        """Such as `from 2026-01-01 to 2026-01-02, pending, done before 2026-01-01T12, try 2`."""
        start = "the beginning" if self.start is None else _shown(self.start)
        end = "whatever is there" if self.end is None else _shown(self.end)
        done = "" if self.done is None else f", done before {_shown(self.done)}"
        return f"from {start} to {end}, {self.state.value}{done}, try {self.claim.try_number}"

    def with_less_history(self) -> WindowRecord | None:
        """Without the ties, whose rows are then read again; then without what is done, which is loaded again."""
        name = next((name for name in ("ties", "reached", "done") if getattr(self, name)), None)
        return None if name is None else self.model_copy(update={name: None})


_MOST_SHOWN = 60


def _shown(value: JsonValue) -> str:
    """A value in a line for a person: its beginning, where it is long."""
    text = value if isinstance(value, str) else values.dumps(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 3]}..."
