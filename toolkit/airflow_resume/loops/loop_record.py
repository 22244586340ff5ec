"""The record of a loop, under `resume.loop.<name>`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, TypedDict

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from airflow_resume import values
from airflow_resume.attempt import Count, Epoch, Flag, Moment, Number
from airflow_resume.record import Record, RecordChanges
from airflow_resume.stored import StoredModel

if TYPE_CHECKING:
    from datetime import datetime

    from typing_extensions import Self, Unpack

KEY_PREFIX = "resume.loop"
ID_DIGITS = 8
MOST_AHEAD = 2_000
"""The most elements, or runs of them, that a record may have: each of them was in the hands of a worker."""


class OpenedChanges(TypedDict, total=False):
    """What may change in `Opened`."""

    where: str
    left: Flag | None


class Opened(StoredModel):
    """The attempt that last opened the loop, and how the attempts before it ended.

    Args:
        opens: how often the loop was opened.
        where: a fingerprint of where it stood, inner loops included.
        stalls: how many attempts before it died there without an error.
        left: that attempt made no progress, and was left by an exception or a `break`. This is no stall.
    """

    try_number: Count = Field(validation_alias="try", serialization_alias="try")
    epoch: Epoch
    opens: Annotated[int, Field(strict=True, ge=1)] = 1
    where: str = ""
    stalls: Count = 0
    left: Flag | None = None

    def changed(self, **changes: Unpack[OpenedChanges]) -> Self:
        """A copy with these fields; raises as `with_changes`."""
        return self.with_changes(changes)


class SkippedElement(BaseModel):
    """An element that was skipped, and why."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow")

    pos: JsonValue = None
    error: str


class Ahead(BaseModel):
    """What is done beyond the position; its form depends on whether the elements of the source can be counted.

    Args:
        by: how they are counted, see `Source.numbering`.
        runs: lengths: how many elements are not done, how many are done, and so on, alternating.
        far: the position after the last one that is done.
        ids: if they cannot be counted, eight hexadecimal digits for each that is done.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow")

    by: JsonValue = None
    runs: list[Count] = Field(default_factory=list, max_length=2 * MOST_AHEAD)
    far: JsonValue = None
    ids: str = Field(default="", pattern=r"^[0-9a-f]*$", max_length=ID_DIGITS * MOST_AHEAD)

    @model_validator(mode="after")
    def _make_sense(self) -> Self:
        if len(self.runs) % 2 or len(self.ids) % ID_DIGITS or (self.runs and self.ids):
            raise ValueError("what is done ahead comes in pairs of lengths, or in ids")
        ids = [self.ids[at : at + ID_DIGITS] for at in range(0, len(self.ids), ID_DIGITS)]
        if len(set(ids)) < len(ids):
            raise ValueError("no element is done ahead twice")
        return self

    @property
    def done(self) -> int:
        """How many elements are done."""
        return sum(self.runs[1::2]) + len(self.ids) // ID_DIGITS


class PageStart(BaseModel):
    """What a loop had at the start of its page: if rows have no keys, the page may have to be delivered again.

    Args:
        state: of the user.
        skipped: how many elements were skipped.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow")

    state: dict[str, JsonValue] = Field(default_factory=dict)
    skipped: Count = 0


class LevelChanges(TypedDict, total=False):
    """What may change in a level, see `Level`."""

    kind: str
    fp: dict[str, str]
    pos: JsonValue
    pos_at: Moment | None
    ahead: Ahead | None
    done: Flag
    n: Count
    total: Count | None
    state: dict[str, JsonValue]
    skipped: Count
    skips: list[SkippedElement] | None
    page_start: PageStart | None
    seen: JsonValue
    short: str | None
    inner: dict[str, Level] | None
    element: str | None


class Level(StoredModel):
    """How far a loop has come.

    Args:
        kind: of the source.
        fp: a short fingerprint of every field that positions depend on.
        pos: the position: what to do next.
        pos_at: when the page token (or the like) in `pos` was received, if it expires.
        ahead: the elements beyond `pos` that are done.
        done: the source was exhausted.
        n: elements done, in all attempts. `total`: of how many, if known.
        state: of the user, saved with the position it belongs to.
        skipped: how many were skipped; `skips`: the newest of them.
        page_start: the state and the skips at the start of the page, if `pos` is within a page without keys, and if
            they were different there.
        seen: what the source knows besides `pos`, such as what the API has announced.
        short: if the source ended too early: how many of the announced elements came.
        inner: the loops inside the element at `pos`, by name.
        element: of a loop inside another one, a fingerprint of the element of the outer loop; None in records of 0.1.
    """

    kind: str
    fp: dict[str, str] = Field(default_factory=dict)
    pos: JsonValue = None
    pos_at: Moment | None = None
    ahead: Ahead | None = None
    done: Flag = False
    n: Count = 0
    total: Count | None = None
    state: dict[str, JsonValue] = Field(default_factory=dict)
    skipped: Count = 0
    skips: list[SkippedElement] | None = None
    page_start: PageStart | None = None
    seen: JsonValue = None
    short: str | None = None
    inner: dict[str, Level] | None = None
    element: str | None = None

    def changed(self, **changes: Unpack[LevelChanges]) -> Self:
        """The level with these fields; raises as `with_changes`."""
        return self.with_changes(changes)

    def check(self) -> None:
        """Check that the elements that are done ahead fit the other fields."""
        super().check()
        if self.ahead is not None and (self.done or self.ahead.done > self.n):
            raise ValueError("what is done ahead is counted in n, and nothing is ahead of a loop that is done")

    @property
    def is_done_too_early(self) -> bool:
        """Whether it is done although elements are missing, and the source did not end too early."""
        too_early = self.done and self.short is None and self.total is not None and self.n < self.total
        return too_early or any(level.is_done_too_early for level in (self.inner or {}).values())

    def with_total_of_done(self) -> Self:
        """The level. Each loop that is done too early gets the number of its elements as its total.

        Version 0.1 did not save that an API had ended before it gave all that it had announced. So an attempt that
        continues such a record writes one that is consistent.
        """
        if not self.is_done_too_early:
            return self
        inner = {name: level.with_total_of_done() for name, level in (self.inner or {}).items()}
        is_over = self.done and self.short is None
        return self.changed(inner=inner or None, total=self.n if is_over else self.total)

    def with_fewer_skips(self) -> Self | None:
        """The level without its `page_start`, else without the older half of its `skips`, else the same for one inside.

        None if there is nothing more to omit.
        """
        if self.page_start is not None:
            return self.changed(page_start=None)
        if self.skips:
            return self.changed(skips=self.skips[(len(self.skips) + 1) // 2 :] or None)
        for name, level in (self.inner or {}).items():
            if (shorter := level.with_fewer_skips()) is not None:
                return self.changed(inner={**(self.inner or {}), name: shorter})
        return None

    def with_age(self, written: datetime | None) -> Self:
        """The level. If it has no `pos_at`, as in older releases, it gets the time at which the record was written."""
        return self if self.pos_at is not None else self.changed(pos_at=written)

    @property
    def has_begun(self) -> bool:
        """Whether anything is done, in it or in a loop inside it."""
        levels = (self.inner or {}).values()
        return bool(self.n or self.ahead or self.done) or any(level.has_begun for level in levels)

    def where(self) -> str:
        """A fingerprint of where the loop stands, and the loops inside it that have begun.

        A loop that was only opened may be in the record or not, which makes no difference.
        """
        inner = {name: level.where() for name, level in (self.inner or {}).items() if level.has_begun}
        return values.fingerprint(
            [self.pos, self.ahead and self.ahead.model_dump(mode="json"), self.n, inner], length=8
        )


class LoopRecordChanges(RecordChanges, LevelChanges, total=False):
    """What may change in the record of a loop, see `LoopRecord`."""

    at: Opened
    t0: Moment
    ts: Moment
    rate: Annotated[Number, Field(ge=0)] | None
    eta: Moment | None
    inner_at: Moment | None
    sink: Flag | None
    origin: str | None
    in_words: str | None


class LoopRecord(Record, Level):
    """How far the outermost loop has come, and by whom.

    Args:
        at: who opened it.
        t0, ts: when the loop was first opened, and when this was written.
        rate: elements per second in this attempt; `eta`: when the loop will be done, at that rate.
        inner_at: when the saved levels of the loops inside were written, for those without `pos_at`. Later attempts
            write the record again, and must not make the levels look younger.
        sink: whether the position is kept in a sink. Then the record in Airflow's store is only for people.
        origin: of a script with a sink, which has no ids of Airflow: its name, or a random text that its store keeps.
            The position in the sink has it too, so that another script of the same loop name does not continue there.
        in_words: how far it has come, in words; it is stored as the summary.
    """

    FIRST: ClassVar[tuple[str, ...]] = ("done", "n", "total", "rate", "eta", "skipped", "skips")

    BY_ITSELF: ClassVar[str] = " (on_unreadable='restart' does that by itself)"

    at: Opened
    t0: Moment
    ts: Moment
    rate: Annotated[Number, Field(ge=0)] | None = None
    eta: Moment | None = None
    inner_at: Moment | None = None
    sink: Flag | None = None
    origin: str | None = None
    in_words: str | None = Field(default=None, exclude=True)

    # More fields of a record may change than of a level. pyright objects, as a dict for a level might have more keys.
    def changed(self, **changes: Unpack[LoopRecordChanges]) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The record with these fields; raises as `with_changes`."""
        return self.with_changes(changes)

    def check(self) -> None:
        """Check that a loop that is done has done all that its source announced, or says what did not come."""
        super().check()
        # Version 0.1 did not save that an API had ended before it gave all that it had announced.
        may_be_short = self.kind in {"page_number", "offset"} and self.at.epoch.try_number is None
        if self.is_done_too_early and not may_be_short:
            raise ValueError("a loop that is done has done all its elements")

    def claimed_as(self) -> str:
        """How often the loop was opened."""
        return str(self.at.opens)

    def summary(self) -> str | None:
        """As the writer saw it: only the source knows what an element is called, and how many rows it has."""
        return self.in_words

    def with_less_history(self) -> LoopRecord | None:
        """The record with fewer skips listed. The count still includes all of them."""
        return self.with_fewer_skips()
