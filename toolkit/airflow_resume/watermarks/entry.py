"""A window that was loaded, as the record of the mark has it until an asset event tells it, and as it is told."""

from __future__ import annotations

from typing import Literal
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from airflow_resume.attempt import Scope

Origin = Literal["mark", "conf", "backfill"]


class ToldWindow(BaseModel):
    """A window that was loaded, as consumers learn of it.

    Args:
        start, end: as the cursor keeps them.
        bounds: which of the two are part of it, as for ranges in SQL: `[)`, `(]`, `[]` or `()`.
        new_from: what lies before it was loaded earlier too, and read again for a lookback.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="ignore", populate_by_name=True)

    start: JsonValue = Field(validation_alias="from", serialization_alias="from")
    end: JsonValue = Field(validation_alias="to", serialization_alias="to")
    bounds: str = "[)"
    new_from: JsonValue = None

    @property
    def begins_after(self) -> bool:
        """Whether the start itself is no part of it."""
        return self.bounds.startswith("(")

    @property
    def ends_upto(self) -> bool:
        """Whether the end itself is a part of it."""
        return self.bounds.endswith("]")


class Entry(BaseModel):
    """A window that was loaded, in the record of the mark until an asset event tells it.

    Args:
        id: stands in the event as well; None in what is taken up from a record of before.
        start, end: as the cursor keeps them; no end: where the mark stands.
        after: without the start itself. `upto`: with the end itself.
        new_from: see `ToldWindow`.
        outcome: what became of it. `origin`: where its bounds come from; None: from the mark.
        by: the task instance that loaded it. `teller`: another one whose event tells it.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow", populate_by_name=True)

    id: str | None = None
    start: JsonValue = Field(validation_alias="from", serialization_alias="from")
    end: JsonValue = Field(default=None, validation_alias="to", serialization_alias="to")
    after: Literal[True] | None = None
    upto: Literal[True] | None = None
    new_from: JsonValue = None
    outcome: str = "advanced"
    origin: Origin | None = None
    by: Scope
    teller: Scope | None = None

    @property
    def told_by(self) -> Scope:
        """The task instance whose event tells it."""
        return self.teller or self.by

    @property
    def told(self) -> ToldWindow:
        """It as consumers learn of it."""
        bounds = f"{'(' if self.after else '['}{']' if self.upto else ')'}"
        return ToldWindow(start=self.start, end=self.end, bounds=bounds, new_from=self.new_from)


Outbox = tuple[Entry, ...]
"""Oldest first."""


def new_id() -> str:
    """Another one whenever a window tells of something else: runs that write at once never mean the same by one."""
    return uuid4().hex[:12]


def merged(outbox: Outbox) -> Outbox:
    """Fewer windows that say the same: one that begins where the one before it ends becomes a part of that."""
    found: list[Entry] = []
    for each in outbox:
        if found and _follows(each, found[-1]):
            whole = {"id": new_id(), "end": each.end, "upto": each.upto, "by": each.by}
            found[-1] = found[-1].model_copy(update=whole)
        else:
            found.append(each)
    return tuple(found)


def _follows(one: Entry, before: Entry) -> bool:
    alike = (one.outcome, one.origin, one.told_by) == (before.outcome, before.origin, before.told_by)
    touches = before.end is not None and one.start == before.end and one.after == before.upto
    return alike and touches and one.new_from is None
