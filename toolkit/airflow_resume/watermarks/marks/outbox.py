"""The outbox: windows that were loaded, kept in the mark's record until an asset event has published them.

Airflow writes an asset event when a task succeeds. That is after the mark has moved, and in between the task may fail
without another try. So each write that moves the mark puts the window into the record as well. A later commit finds out
by their ids which windows are in events, and publishes the others itself. If the outbox is lost or overwritten, a
window is published twice.

Stored fields have an older word for "publish": tell. So `teller` is the publisher, and `untold` means "not published".

Pure: the functions take records and return records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal, TypedDict
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from airflow_resume.attempt import Scope, Yes
from airflow_resume.stored import StoredModel
from airflow_resume.watermarks.rows.row_values import THE_ONE

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from airflow_resume.watermarks.marks.mark_record import MarkRecord

Origin = Literal["mark", "conf", "backfill"]


class PublishedWindow(BaseModel):
    """A window that was loaded, as consumers of the asset get it.

    Args:
        start, end: in the form in which the cursor stores values.
        bounds: which of the two are part of the window, as for ranges in SQL: `[)`, `(]`, `[]` or `()`.
        new_from: rows before this value were loaded earlier, and are loaded again because of a lookback.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="ignore", populate_by_name=True)

    start: JsonValue = Field(validation_alias="from", serialization_alias="from")
    end: JsonValue = Field(validation_alias="to", serialization_alias="to")
    bounds: str = "[)"
    new_from: JsonValue = None

    @property
    def begins_after(self) -> bool:
        """Whether the start itself is not a part of the window."""
        return self.bounds.startswith("(")

    @property
    def ends_upto(self) -> bool:
        """Whether the end itself is a part of the window."""
        return self.bounds.endswith("]")


class OutboxEntryChanges(TypedDict, total=False):
    """What may change in an entry, see `OutboxEntry`."""

    id: str | None
    start: JsonValue
    end: JsonValue
    upto: Yes | None
    new_from: JsonValue
    by: Scope
    teller: Scope | None


class OutboxEntry(StoredModel):
    """A window that was loaded, in the record of the mark until an asset event publishes it.

    Args:
        id: the same as in the event; None for a window from a record of version 0.1.
        start, end: in the form in which the cursor stores values. Without an end, the window ends at the mark.
        after: the start itself is not a part of the window. `upto`: the end itself is a part of it.
        new_from: see `PublishedWindow`.
        outcome: of the window's commit. `origin`: where its bounds come from; None: from the mark.
        by: the task instance that loaded it. `teller`: the task instance whose event publishes it, if that is another.
    """

    id: str | None = None
    start: JsonValue = Field(validation_alias="from", serialization_alias="from")
    end: JsonValue = Field(default=None, validation_alias="to", serialization_alias="to")
    after: Yes | None = None
    upto: Yes | None = None
    new_from: JsonValue = None
    outcome: str = "advanced"
    origin: Origin | None = None
    by: Scope
    teller: Scope | None = None

    def changed(self, **changes: Unpack[OutboxEntryChanges]) -> Self:
        """The entry with these fields; raises as `with_changes`."""
        return self.with_changes(changes)

    @property
    def publisher(self) -> Scope:
        """The task instance whose event publishes it."""
        return self.teller or self.by

    @property
    def published(self) -> PublishedWindow:
        """The window as consumers get it."""
        bounds = f"{'(' if self.after else '['}{']' if self.upto else ')'}"
        return PublishedWindow(start=self.start, end=self.end, bounds=bounds, new_from=self.new_from)


Outbox = tuple[OutboxEntry, ...]
"""Oldest first."""


MAX_WINDOWS = 20
"""If there are more, a window that begins where another one ends is joined to it."""


def new_id() -> str:
    """A new id, for a window whose content has changed. Two runs that write at once never draw the same one."""
    return uuid4().hex[:12]


def merged(outbox: Outbox) -> Outbox:
    """Fewer windows with the same content: a window that begins where the previous one ends is joined to that one."""
    found: list[OutboxEntry] = []
    for each in outbox:
        last = found[-1] if found else None
        if (
            last is not None
            and (each.outcome, each.origin, each.publisher) == (last.outcome, last.origin, last.publisher)
            and (last.end is not None and each.start == last.end and each.after == last.upto)
            and each.new_from is None
        ):
            found[-1] = last.changed(id=new_id(), end=each.end, upto=each.upto, by=each.by)
        else:
            found.append(each)
    return tuple(found)


def outbox_of(record: MarkRecord) -> Outbox:
    """The windows, oldest first, each with its end; also those of the older field `untold`."""
    old = record.untold
    kept = record.outbox
    if old is not None:
        upto = True if THE_ONE in (record.ties or ()) else None
        kept = (OutboxEntry(start=old.start, after=old.after, upto=upto, by=old.scope), *kept)
    return tuple(each if each.end is not None else each.changed(end=record.at) for each in kept)


def with_outbox(record: MarkRecord, outbox: Outbox) -> MarkRecord:
    """The record with these windows. An end where the mark stands is left out: a large value may have no room twice."""
    if len(outbox) > MAX_WINDOWS:
        outbox = merged(outbox)
    kept = tuple(each.changed(end=None) if each.end == record.at else each for each in outbox)
    return record.changed(outbox=kept, untold=None)


def entry_of_run(outbox: Outbox, window: PublishedWindow, scope: Scope) -> OutboxEntry | None:
    """The entry that this run has for the window already, from an earlier slice, attempt or task."""
    for each in outbox:
        is_of_run = (each.by.dag_id, each.by.run_id) == (scope.dag_id, scope.run_id)
        if is_of_run and each.start == window.start and bool(each.after) == window.begins_after:
            return each
    return None


def with_loaded(outbox: Outbox, window: PublishedWindow, *, scope: Scope, outcome: str, origin: Origin) -> Outbox:
    """The outbox with a window that this task instance has loaded; it replaces the entry for an earlier part of it."""
    own = entry_of_run(outbox, window, scope)
    added = entry_for(window, scope=scope, outcome=outcome, origin=origin).changed(id=new_id())
    if own is not None:
        added = added.changed(new_from=own.new_from)
    return (*(each for each in outbox if each is not own), added)


def entry_for(window: PublishedWindow, *, scope: Scope, outcome: str, origin: Origin) -> OutboxEntry:
    """The entry for a window that this task instance has loaded; without an id, as it need not be found again."""
    return OutboxEntry(
        start=window.start,
        end=window.end,
        after=True if window.begins_after else None,
        upto=True if window.ends_upto else None,
        new_from=window.new_from,
        outcome=outcome,
        origin=None if origin == "mark" else origin,
        by=scope,
    )


def taken_over(
    outbox: Outbox, scope: Scope, *, is_published: Callable[[OutboxEntry], bool], is_at_work: Callable[[Scope], bool]
) -> Outbox:
    """The outbox without published windows. This task instance will publish the others, except those of running tasks.

    Args:
        outbox: the windows.
        scope: of this task instance.
        is_published: whether an event has published a window.
        is_at_work: whether a task instance still runs: it will write its event, or fail and be noticed by a later run.
    """
    kept: list[OutboxEntry] = []
    for each in outbox:
        if is_published(each):
            continue
        if each.publisher != scope and is_at_work(each.publisher):
            kept.append(each)
        else:
            teller = None if each.by == scope else scope
            kept.append(each.changed(id=each.id or new_id(), teller=teller))
    return tuple(kept)


def published_by(outbox: Outbox, scope: Scope) -> Outbox:
    """The windows that the event of this task instance publishes."""
    return tuple(each for each in outbox if each.publisher == scope)


def event_lines(outbox: Iterable[OutboxEntry], scope: Scope) -> list[dict[str, JsonValue]]:
    """The windows as they are written into an event of this task instance, oldest first."""
    lines: list[dict[str, JsonValue]] = []
    for each in outbox:
        line: dict[str, JsonValue] = {} if each.id is None else {"id": each.id}
        line |= {**each.published.model_dump(mode="json", by_alias=True, exclude_none=True), "outcome": each.outcome}
        if each.origin is not None:
            line["origin"] = each.origin
        if each.by != scope:
            line |= {"run_id": each.by.run_id, "map_index": each.by.map_index}
        lines.append(line)
    return lines
