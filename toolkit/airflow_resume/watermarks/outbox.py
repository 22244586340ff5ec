"""What was loaded and consumers may not know of yet: windows kept in the mark's record until an asset event tells them.

An asset event is written when a task succeeds, which is after the mark has moved, and a task may fail in between for
good. So each write that moves the mark puts the window into the record as well. A later commit looks which of them
stand in events, by their ids, and tells the others itself. Whatever is lost or written over leads to telling twice.

Pure: records are given and returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from airflow_resume.watermarks.entry import Entry, Outbox, ToldWindow, merged, new_id
from airflow_resume.watermarks.record import MarkRecord
from airflow_resume.watermarks.rows import THE_ONE

if TYPE_CHECKING:
    from pydantic import JsonValue

    from airflow_resume.attempt import Scope
    from airflow_resume.watermarks.entry import Origin

MAX_WINDOWS = 20
"""Of more, those that follow on one another are told as one."""


def outbox_of(record: MarkRecord) -> Outbox:
    """The windows, oldest first, each with its end; with that which a record of before this was kept remembers."""
    old = record.untold
    kept = record.outbox
    if old is not None:
        upto = True if THE_ONE in (record.ties or ()) else None
        kept = (Entry(start=old.start, after=old.after, upto=upto, by=old.scope), *kept)
    return tuple(each if each.end is not None else each.model_copy(update={"end": record.at}) for each in kept)


def with_outbox(record: MarkRecord, outbox: Outbox) -> MarkRecord:
    """The record with these windows; an end where the mark stands is left out, as large values have room once less."""
    if len(outbox) > MAX_WINDOWS:
        outbox = merged(outbox)
    kept = tuple(each.model_copy(update={"end": None}) if each.end == record.at else each for each in outbox)
    return record.model_copy(update={"outbox": kept, "untold": None})


def own_of(outbox: Outbox, tells: ToldWindow, scope: Scope) -> Entry | None:
    """A window that this run has in it already: by an earlier slice, attempt or task."""
    for each in outbox:
        is_of_run = (each.by.dag_id, each.by.run_id) == (scope.dag_id, scope.run_id)
        if is_of_run and each.start == tells.start and bool(each.after) == tells.begins_after:
            return each
    return None


def with_window(outbox: Outbox, tells: ToldWindow, *, scope: Scope, outcome: str, origin: Origin) -> Outbox:
    """With a window that this task instance has loaded: in place of what it had loaded of it before."""
    own = own_of(outbox, tells, scope)
    added = entry_of(tells, scope=scope, outcome=outcome, origin=origin).model_copy(update={"id": new_id()})
    if own is not None:
        added = added.model_copy(update={"new_from": own.new_from})
    return (*(each for each in outbox if each is not own), added)


def entry_of(tells: ToldWindow, *, scope: Scope, outcome: str, origin: Origin) -> Entry:
    """A window that this task instance has loaded; without an id, as nothing need remember it."""
    return Entry(
        start=tells.start,
        end=tells.end,
        after=True if tells.begins_after else None,
        upto=True if tells.ends_upto else None,
        new_from=tells.new_from,
        outcome=outcome,
        origin=None if origin == "mark" else origin,
        by=scope,
    )


def taken_over(
    outbox: Outbox, scope: Scope, *, is_told: Callable[[Entry], bool], is_at_work: Callable[[Scope], bool]
) -> Outbox:
    """Without what events tell. The rest is told by this task instance from now on, but for that of others at work.

    Args:
        outbox: the windows.
        scope: of this task instance.
        is_told: whether an event tells a window.
        is_at_work: whether a task instance will end, and then write an event, or be noticed as failed.
    """
    kept: list[Entry] = []
    for each in outbox:
        if is_told(each):
            continue
        if each.told_by != scope and is_at_work(each.told_by):
            kept.append(each)
        else:
            teller = None if each.by == scope else scope
            kept.append(each.model_copy(update={"id": each.id or new_id(), "teller": teller}))
    return tuple(kept)


def told_by(outbox: Outbox, scope: Scope) -> Outbox:
    """The windows that the event of this task instance tells."""
    return tuple(each for each in outbox if each.told_by == scope)


def lines_of(outbox: Iterable[Entry], scope: Scope) -> list[dict[str, JsonValue]]:
    """The windows as they stand in an event of this task instance, oldest first."""
    lines: list[dict[str, JsonValue]] = []
    for each in outbox:
        line: dict[str, JsonValue] = {} if each.id is None else {"id": each.id}
        line |= {**each.told.model_dump(mode="json", by_alias=True, exclude_none=True), "outcome": each.outcome}
        if each.origin is not None:
            line["origin"] = each.origin
        if each.by != scope:
            line |= {"run_id": each.by.run_id, "map_index": each.by.map_index}
        lines.append(line)
    return lines
