"""What is kept about a loop, under `resume.loop.<name>`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, JsonValue, model_validator

from airflow_resume import values
from airflow_resume.attempt import Epoch
from airflow_resume.record import Record

if TYPE_CHECKING:
    from datetime import datetime

    from typing_extensions import Self

KEY_PREFIX = "resume.loop"
ID_DIGITS = 8


class Opened(BaseModel):
    """The attempt that last opened the loop, and how the attempts before it fared.

    Args:
        opens: how often the loop was opened.
        where: a fingerprint of where it stood, inner loops included.
        stalls: how many attempts before it died where it stands, without a word.
        left: it came no further, and left by an exception or a `break`: that is no stall.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow", populate_by_name=True)

    try_number: int = Field(validation_alias="try", serialization_alias="try")
    epoch: Epoch
    opens: int = 1
    where: str = ""
    stalls: int = 0
    left: bool | None = None


class SkippedElement(BaseModel):
    """An element that was passed over, and why."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow")

    pos: JsonValue = None
    error: str


class Ahead(BaseModel):
    """What is done beyond the position, of a source whose elements can be counted, or of one where they cannot.

    Args:
        by: how they are counted, as the source says.
        runs: lengths: so many elements not done, so many done, and so on.
        far: the position after the last one that is done.
        ids: where they cannot be counted, eight hexadecimal digits for each that is done.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow")

    by: JsonValue = None
    runs: list[Annotated[int, Field(ge=0)]] = Field(default_factory=list)
    far: JsonValue = None
    ids: str = ""

    @model_validator(mode="after")
    def _make_sense(self) -> Self:
        if len(self.runs) % 2 or len(self.ids) % ID_DIGITS:
            raise ValueError("what is done ahead comes in pairs of lengths, or in ids")
        return self

    @property
    def done(self) -> int:
        """How many elements are done."""
        return sum(self.runs[1::2]) + len(self.ids) // ID_DIGITS


class PageStart(BaseModel):
    """What a loop had when it came to the page it is in: where its rows have no keys, the page may have to come again.

    Args:
        state: the user's own.
        skipped: how many elements were passed over.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow")

    state: dict[str, JsonValue] = Field(default_factory=dict)
    skipped: int = Field(default=0, ge=0)


class Level(BaseModel):
    """How far a loop has come.

    Args:
        kind: of the source.
        fp: a short fingerprint of every field that positions depend on.
        pos: what to do next.
        pos_at: when what `pos` needs was received, where it gets too old.
        ahead: what is done beyond `pos`.
        done: the source was exhausted.
        n: elements done, in all attempts. `total`: of how many, where known.
        state: the user's own, saved with the position it belongs to.
        skipped: how many were passed over; `skips`: the newest of them.
        page_start: within a page without keys, if it had another state then, or fewer skips.
        seen: what the source knows beside `pos`, such as what the API has announced.
        short: what was announced and had not come when the source ended.
        inner: the loops inside the element at `pos`, by name.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow", populate_by_name=True)

    kind: str
    fp: dict[str, str] = Field(default_factory=dict)
    pos: JsonValue = None
    pos_at: AwareDatetime | None = None
    ahead: Ahead | None = None
    done: bool = False
    n: int = Field(default=0, ge=0)
    total: int | None = None
    state: dict[str, JsonValue] = Field(default_factory=dict)
    skipped: int = Field(default=0, ge=0)
    skips: list[SkippedElement] | None = None
    page_start: PageStart | None = None
    seen: JsonValue = None
    short: str | None = None
    inner: dict[str, Level] | None = None

    def with_fewer_skips(self) -> Self | None:
        """Without what it had at the start of the page, or else the older half of the skips; or of a loop inside it.

        None: there is nothing of that any more.
        """
        if self.page_start is not None:
            return self.model_copy(update={"page_start": None})
        if self.skips:
            return self.model_copy(update={"skips": self.skips[(len(self.skips) + 1) // 2 :] or None})
        for name, level in (self.inner or {}).items():
            if (shorter := level.with_fewer_skips()) is not None:
                return self.model_copy(update={"inner": {**(self.inner or {}), name: shorter}})
        return None

    def with_age(self, written: datetime | None) -> Self:
        """With the time at which the record was written, if it tells no other: once none did."""
        return self if self.pos_at is not None else self.model_copy(update={"pos_at": written})

    @property
    def has_begun(self) -> bool:
        """Whether anything is done, in it or in a loop inside it."""
        levels = (self.inner or {}).values()
        return bool(self.n or self.ahead or self.done) or any(level.has_begun for level in levels)

    def where(self) -> str:
        """A fingerprint of where the loop stands, and the loops inside it: those that have come anywhere.

        One that was opened only may be in the record or not; where the loop stands is the same.
        """
        inner = {name: level.where() for name, level in (self.inner or {}).items() if level.has_begun}
        return values.fingerprint(
            [self.pos, self.ahead and self.ahead.model_dump(mode="json"), self.n, inner], length=8
        )


class LoopRecord(Record, Level):
    """How far the outermost loop has come, and by whom.

    Args:
        at: who opened it.
        t0, ts: when the loop was first opened, and when this was written.
        rate: elements a second in this attempt; `eta`: when the loop will be done, at that rate.
        inner_at: when what was left of the loops inside was written, for those that tell no `pos_at`. Later attempts,
            which write the record anew, must not make it younger.
        told: how far it has come, in words; it is stored as the summary.
    """

    FIRST: ClassVar[tuple[str, ...]] = ("done", "n", "total", "rate", "eta", "skipped", "skips")

    BY_ITSELF: ClassVar[str] = " (on_unreadable='restart' does that by itself)"

    at: Opened
    t0: AwareDatetime
    ts: AwareDatetime
    rate: float | None = None
    eta: AwareDatetime | None = None
    inner_at: AwareDatetime | None = None
    told: str | None = Field(default=None, exclude=True)

    def summary(self) -> str | None:
        """As who wrote it saw it: only the source knows what an element is called, and how many rows it has."""
        return self.told

    def with_less_history(self) -> LoopRecord | None:
        """With fewer skips named; the count counts them all."""
        return self.with_fewer_skips()
