"""What the record of a loop says at a given time: how far it is, how fast, and whether it is stuck."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from airflow_resume import values
from airflow_resume.loops.loop_record import KEY_PREFIX, Level, LoopRecord
from airflow_resume.operating.places import Entry, TaskPlace
from airflow_resume.operating.rows import Row, Standing, decoded, in_words, since, standing_of

if TYPE_CHECKING:
    from pydantic import JsonValue

PREFIX = f"{KEY_PREFIX}."
SILENT_SECONDS = 600
"""A running loop whose pace is not known is in trouble if it has saved nothing for so long."""
LEAST_SILENT_SECONDS = 60
SILENT_ELEMENTS = 20
"""... or, if its pace is known, for as long as so many elements take."""


@dataclass(frozen=True, kw_only=True)
class LoopRow(Row):
    """A loop of a task instance.

    Args:
        place: the task instance.
        position: what is next, in the form of the source. `kind`: of the source.
        done, total: elements; the total may not be known. `share`: of the total, between 0 and 1.
        rate: elements per second. `eta`: when it will be done.
        saved: when the position was last saved. `stalled_since`: nothing was saved since, although it should have been.
        stalls: attempts in a row that died at this position.
        skipped: how many elements; `skips`: the newest, and why.
        inner: the loops inside the present element.
        try_number: of the attempt that opened it.
    """

    place: TaskPlace
    kind: str
    position: JsonValue = None
    done: int
    total: int | None = None
    share: float | None = None
    rate: float | None = None
    eta: datetime | None = None
    saved: datetime
    stalled_since: datetime | None = None
    stalls: int = 0
    skipped: int = 0
    skips: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()
    try_number: int = 0


def loop_row(entry: Entry, now: datetime) -> LoopRow:
    """The row of a record.

    Raises:
        UnreadableRecordError: it cannot be read.
    """
    record, place = decoded(entry, LoopRecord), entry.place
    if not isinstance(place, TaskPlace):
        raise TypeError(place)
    standing = standing_of(place.state)
    runs = standing is Standing.ACTIVE and not record.done
    stalled = record.ts if runs and now - record.ts > _patience(record) else None
    return LoopRow(
        place=place,
        name=entry.key.removeprefix(PREFIX),
        key=entry.key,
        state=_state(record, standing, is_stalled=stalled is not None),
        trouble=_trouble(record, standing, stalled, now),
        updated=entry.updated,
        set_by_hand=None if record.set_by_hand is None else str(record.set_by_hand),
        kind=record.kind,
        position=record.pos,
        done=record.n,
        total=record.total,
        share=min(record.n / record.total, 1.0) if record.total else None,
        rate=record.rate if runs else None,
        eta=_eta(record, now) if runs and stalled is None else None,
        saved=record.ts,
        stalled_since=stalled,
        stalls=record.at.stalls,
        skipped=record.skipped,
        skips=tuple(f"{_in_words(each.pos)}: {each.error}" for each in record.skips or ()),
        inner=tuple(_inner(record)),
        try_number=record.at.try_number,
    )


def _patience(record: LoopRecord) -> timedelta:
    if not record.rate:
        return timedelta(seconds=SILENT_SECONDS)
    return timedelta(seconds=max(SILENT_ELEMENTS / record.rate, LEAST_SILENT_SECONDS))


def _eta(record: LoopRecord, now: datetime) -> datetime | None:
    """As the record says; a time that has passed is worked out again from the pace."""
    if record.eta is None or record.eta > now or not record.rate or record.total is None:
        return record.eta
    return now + timedelta(seconds=max(record.total - record.n, 0) / record.rate)


def _state(record: LoopRecord, standing: Standing, *, is_stalled: bool) -> str:
    if record.done:
        return "done"
    if standing is Standing.ACTIVE:
        return "stalled" if is_stalled else "running"
    return "between tries" if standing is Standing.WAITING else "stopped"


def _trouble(record: LoopRecord, standing: Standing, stalled: datetime | None, now: datetime) -> str | None:
    if record.done:
        return None if record.short is None else f"the source ended early: {record.short}"
    if stalled is not None:
        pace = "" if not record.rate else f", at {record.rate:.3g}/s before"
        return f"nothing was saved for {since(stalled, now)}{pace}"
    if record.at.stalls:
        return f"{record.at.stalls} attempts died at this position without an error"
    return "the task is over, and the loop is not done" if standing is Standing.OVER else None


def _in_words(position: JsonValue) -> str:
    return position if isinstance(position, str) else values.dumps(position)


def _inner(level: Level) -> list[str]:
    found = []
    for name, inside in (level.inner or {}).items():
        total = "" if inside.total is None else f" of {inside.total}"
        found += [f"{name}: {inside.n}{total} done", *(f"{name} > {line}" for line in _inner(inside))]
    return found


# --- what comes next ------------------------------------------------------------------------------------------


def after_a_retry(record: LoopRecord) -> str:
    """What the next try does, in words."""
    if record.set_by_hand is not None and record.set_by_hand.start_over:
        return "starts over at the first element"
    if record.done:
        return "delivers nothing, as the loop is done"
    if not record.n and record.pos is None:
        return "begins at the first element"
    total = "" if record.total is None else f" of {record.total:,}"
    return f"continues after {record.n:,}{total} elements"


def after_a_clear(record: LoopRecord) -> str:
    """What a clear leads to, in words."""
    if record.set_by_hand is not None:
        return f"the same, as it was set by hand ({record.set_by_hand})"
    return 'starts over at the first element; with on_clear="resume" as a retry'


def pace_in_words(row: LoopRow, now: datetime) -> str | None:
    """Such as `1.9/s, done in 1 h 50 m`."""
    if row.rate is None:
        return None
    return f"{row.rate:.3g}/s" + ("" if row.eta is None else f", done in {in_words(row.eta - now)}")
