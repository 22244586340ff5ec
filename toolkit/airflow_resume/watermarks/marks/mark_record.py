"""The stored records: the mark in the asset's store, and the window of a run in its task's store."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from airflow_resume import values
from airflow_resume.attempt import Claim, Count, Flag, Moment, Number, Scope, Yes, utc_now
from airflow_resume.record import Record, RecordChanges
from airflow_resume.watermarks.marks.outbox import Origin, OutboxEntry, merged

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from airflow_resume.attempt import Attempt

EPOCH_PATTERN = r"^[!-~]{1,64}$"
"""An epoch is a random text without spaces, drawn when a mark is made."""
Pending = Literal["initial", "rewind", "reset"]


HOUR = 3_600.0
"""An hour in seconds; no two clocks are assumed to differ by more."""


class Writer(BaseModel):
    """The attempt that wrote the mark.

    Args:
        for_person: a person had set the mark by hand, and this attempt made a record of it.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow", populate_by_name=True)

    dag_id: str
    run_id: str
    task_id: str
    try_number: Count = Field(validation_alias="try", serialization_alias="try")
    for_person: Yes | None = None

    @classmethod
    def of(cls, attempt: Attempt, *, for_person: Literal[True] | None = None) -> Writer:
        """The attempt, as the writer of a mark."""
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
    """The task as an owner; None if no task runs."""
    return Owner(dag_id=dag_id, task_id=task_id) if dag_id and task_id else None


class Untold(BaseModel):
    """The windows that no event may have published, in older records, which have no `outbox`.

    Args:
        start: where they begin; they end at the mark. `after`: the start itself is not a part of them.
        dag_id, run_id, task_id, map_index: of the task instance.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow", populate_by_name=True)

    start: JsonValue = Field(validation_alias="from", serialization_alias="from")
    after: Yes | None = None
    dag_id: str
    run_id: str
    task_id: str
    map_index: Annotated[int, Field(strict=True, ge=-1)] = -1

    @property
    def scope(self) -> Scope:
        """The task instance."""
        return Scope(dag_id=self.dag_id, run_id=self.run_id, task_id=self.task_id, map_index=self.map_index)


class Move(BaseModel):
    """One move in the history: the mark moved to `to`, by a run or a person.

    Args:
        when: not known of moves that an older release has written.
        for_person: a person moved it. `who` and `why`: if that is known.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow")

    to: JsonValue
    run_id: str
    for_person: Yes | None = None
    when: Moment | None = None
    who: str | None = None
    why: str | None = None


class MarkChanges(RecordChanges, total=False):
    """The fields of `MarkRecord` that may change. The epoch may not: a record with another epoch is another mark."""

    at: JsonValue
    rev: Count
    pending: Pending | None
    ties: tuple[str, ...] | None
    islands: tuple[tuple[JsonValue, JsonValue], ...]
    by: Writer | None
    history: tuple[Move, ...]
    owner: Owner | None
    shared: Yes | None
    first: JsonValue
    initial: JsonValue
    lag_seconds: Number | None
    outbox: tuple[OutboxEntry, ...]
    untold: Untold | None
    taken_up: Yes | None
    sink: tuple[str, str] | None


class MarkRecord(Record):
    """How far an asset is loaded. In the asset's store, under `resume.watermark.<name>[~~<partition>]`; see `Keys`.

    It has many fields because the store has no transactions: what must stay consistent is one value under one key.

    Args:
        type: of the cursor. `definition`: what else its values depend on.
        at: everything before this value is loaded. In the form in which the cursor stores values.
        rev: grows by one with every write.
        epoch: drawn when the record is made. A run that began with another epoch cannot move the mark.
        pending: how the mark was set; None as soon as something is loaded from there.
        ties: which rows with the value `at` are loaded, if they can be told apart.
        islands: windows that were loaded beyond `at`, with a gap before them: `(start, end)`, in order.
        by: the attempt that wrote this. `history`: the newest moves.
        owner: the task that moves the mark; None if no task has moved it since it was set. `shared`: other tasks may
            move it too.
        first: the initial value, if a function gave it. `initial`: the one in the code of the last run, for people.
        lag_seconds: how much earlier the mark was than the time of this write; None if it is not a point in time.
        outbox: windows that events may not have published yet, see `outbox`. `untold`: the same in older records.
        taken_up: this is a record of version 0.1, and the mark is stored under another key now.
        sink: the mark is kept in a sink: the epoch since which it is, and a random text that the sink has beside it.
    """

    FIRST = ("at", "lag_seconds", "rev", "by", "owner")

    type: str
    definition: dict[str, JsonValue] = Field(default_factory=dict)
    at: JsonValue
    rev: Count = 0
    epoch: str = Field(pattern=EPOCH_PATTERN)
    pending: Pending | None = None
    ties: tuple[str, ...] | None = None
    islands: tuple[tuple[JsonValue, JsonValue], ...] = ()
    by: Writer | None = None
    history: tuple[Move, ...] = ()
    owner: Owner | None = None
    shared: Yes | None = None
    first: JsonValue = None
    initial: JsonValue = None
    lag_seconds: Number | None = None
    outbox: tuple[OutboxEntry, ...] = ()
    untold: Untold | None = None
    taken_up: Yes | None = None
    sink: tuple[str, str] | None = None

    def changed(self, **changes: Unpack[MarkChanges]) -> Self:
        """The record with these fields; raises as `with_changes`."""
        return self.with_changes(changes)

    @property
    def kept_in(self) -> str | None:
        """What tells the sink that keeps the mark; None if none does, or if somebody has set the mark since."""
        return self.sink[1] if self.sink is not None and self.sink[0] == self.epoch else None

    def claimed_as(self) -> str:
        """Which mark it is, and where it stands."""
        return f"{self.epoch} {_shown(self.at)}"

    def summary(self) -> str:
        """Such as `at 2026-01-01T00:00:00+00:00, 1:02:03 before the time of writing, moved by run daily_7, try 2`."""
        lag = (
            None
            if self.lag_seconds is None
            else f"{timedelta(seconds=round(self.lag_seconds))} before the time of writing"
        )
        windows = f"{len(self.outbox)} window{'' if len(self.outbox) == 1 else 's'}"
        unpublished = f"{windows} that no event may have published yet" if self.outbox else None
        pending = "nothing loaded from there yet" if self.pending is not None else None
        by = None
        if self.by is not None:
            who = "set by a person, taken up" if self.by.for_person else "moved"
            by = f"{who} by run {_shown(self.by.run_id)}, try {self.by.try_number}"
        parts = (f"at {_shown(self.at)}", lag, pending, by, unpublished)
        return ", ".join(part for part in parts if part is not None)

    def was_edited(self, at: object) -> bool:
        """Whether somebody has changed `at` in the record: it does not fit the history or the lag."""
        lag = age_seconds(at)
        if self.pending is None and self.history and self.history[-1].to != self.at:
            return True
        return lag is not None and self.lag_seconds is not None and lag + HOUR < self.lag_seconds

    def with_less_history(self) -> MarkRecord | None:
        """The record without the part that is needed least; None if no further part can be left out.

        The parts are left out in this order: the oldest moves; the initial value for people; windows beyond a gap, the
        last one first; the ties. The rows of these windows and ties are then read again. Next is the initial value that
        a function gave, which is then called again. The last ones are the windows of the outbox.
        """
        if self.history:
            return self.changed(history=self.history[1:])
        if self.initial is not None:
            return self.changed(initial=None)
        if self.islands:
            return self.changed(islands=self.islands[:-1])
        if self.ties:
            return self.changed(ties=None)
        if self.first:
            return self.changed(first=None)
        fewer = merged(self.outbox)
        fewer = fewer if len(fewer) < len(self.outbox) else self.outbox[1:]
        return self.changed(outbox=fewer) if self.outbox else None


def now_to_the_second() -> datetime:
    """The time of a move: nobody needs it finer, and ten of them are in the record."""
    return utc_now().replace(microsecond=0)


def age_seconds(value: object) -> float | None:
    """How long ago a point in time was; None for any other value."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return round((utc_now() - value).total_seconds(), 3)


class WindowState(str, Enum):
    """How far a window has come."""

    CLAIMED = "claimed"
    """Not begun: written before a missing mark is made, so that a replaced attempt does not make one."""
    PENDING = "pending"
    COMMITTED = "committed"


class WindowChanges(RecordChanges, total=False):
    """What may change in the record of a window, see `WindowRecord`. Its bounds and the mark where it began do not."""

    reset: Pending | None
    ties: tuple[str, ...] | None
    done: JsonValue
    reached: JsonValue
    state: WindowState
    claim: Claim


class WindowRecord(Record):
    """The window of a run. It is saved before the body runs.

    It is in the task's store, under `resume.window.<asset>~~<name>[~~<partition>]`; see `Keys`. It has many fields for
    the same reason as `MarkRecord`.

    Args:
        start, end: in the form in which the cursor stores values. Without an end, everything from the start on is
            loaded.
        at: the mark, when the window began.
        type: of the cursor.
        base_rev, epoch: of the mark when the window began.
        origin: where the bounds come from. `commits`: whether the mark may move.
        limit: the mark does not move beyond it, as rows there may still change; None: only `end` limits the mark.
        reset: the mark was set to `at`, and nothing was loaded from there yet.
        ties: of the mark, so that a retry skips the same rows.
        settles: nothing before the end changes any more.
        sink: whether the mark was kept in a sink. Then only an attempt with the sink may load the window.
        done: slices before this value are loaded and committed (`window.split`).
        reached: how far this run has moved the mark, in slices or in an earlier attempt.
    """

    FIRST = ("from", "to", "state", "done", "reached")

    start: JsonValue = Field(default=None, validation_alias="from", serialization_alias="from")
    end: JsonValue = Field(default=None, validation_alias="to", serialization_alias="to")
    at: JsonValue = None
    type: str = "datetime"
    base_rev: Count
    epoch: str = Field(pattern=rf"{EPOCH_PATTERN}|^$")
    origin: Origin = "mark"
    commits: Flag = True
    limit: JsonValue = None
    reset: Pending | None = None
    ties: tuple[str, ...] | None = None
    settles: Flag = False
    sink: Yes | None = None
    done: JsonValue = None
    reached: JsonValue = None
    state: WindowState = WindowState.PENDING
    claim: Claim

    def changed(self, **changes: Unpack[WindowChanges]) -> Self:
        """The record with these fields; raises as `with_changes`."""
        return self.with_changes(changes)

    def check(self) -> None:
        """See that a window that was begun has a start and the epoch of a mark."""
        if self.state is not WindowState.CLAIMED and (self.start is None or not self.epoch):
            raise ValueError("a window that was begun needs a start and the epoch of a mark")

    def summary(self) -> str:
        """Such as `from 2026-01-01 to 2026-01-02, pending, done before 2026-01-01T12, try 2`."""
        start = "the beginning" if self.start is None else _shown(self.start)
        end = "everything from there on" if self.end is None else _shown(self.end)
        done = "" if self.done is None else f", done before {_shown(self.done)}"
        return f"from {start} to {end}, {self.state.value}{done}, try {self.claim.try_number}"

    def with_less_history(self) -> WindowRecord | None:
        """Without the ties, whose rows are read again; then without `reached` and `done`: slices are loaded again."""
        if self.ties:
            return self.changed(ties=None)
        if self.reached:
            return self.changed(reached=None)
        return self.changed(done=None) if self.done else None


_MOST_SHOWN = 60


def _shown(value: JsonValue) -> str:
    """A value in a line for a person, cut where it is long."""
    text = value if isinstance(value, str) else values.dumps(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 3]}..."
