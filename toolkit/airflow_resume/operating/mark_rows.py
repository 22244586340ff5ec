"""What the record of a mark says at a given time: where it is, how far behind, and what was left out."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING
from urllib.parse import unquote

from airflow_resume import values
from airflow_resume.operating.places import AssetPlace, Entry
from airflow_resume.operating.rows import Row, clock, decoded, joined
from airflow_resume.watermarks.keys import MARK
from airflow_resume.watermarks.marks.mark_record import MarkRecord, Move
from airflow_resume.watermarks.marks.outbox import outbox_of

if TYPE_CHECKING:
    from pydantic import JsonValue

PREFIX = f"{MARK}."
_SEPARATOR, _JSON = "~~", "~j"
_PARTITIONED = 2


@dataclass(frozen=True, kw_only=True)
class MarkRow(Row):
    """A mark of an asset.

    Args:
        place: the asset. `partition`: None if it has no partitions.
        at: everything before this value is loaded. `type`: of the cursor.
        lag: how far it is behind now; None if it is not a time.
        owner: the task that moves it. `moved_by`: the run that moved it last.
        unpublished: windows that were loaded and that no event may have named yet.
        islands: windows that were loaded beyond a gap. `gaps`: what was left out, each from and to.
        moves: the newest, the last one last.
    """

    place: AssetPlace
    partition: str | None = None
    at: JsonValue
    type: str
    lag: timedelta | None = None
    owner: str | None = None
    moved_by: str | None = None
    unpublished: int = 0
    islands: tuple[tuple[JsonValue, JsonValue], ...] = ()
    gaps: tuple[tuple[JsonValue, JsonValue], ...] = ()
    moves: tuple[str, ...] = ()


def mark_row(entry: Entry, now: datetime) -> MarkRow:
    """The row of a record, or of a value that a person typed in its place.

    Raises:
        UnreadableRecordError: it cannot be read.
    """
    place = entry.place
    if not isinstance(place, AssetPlace):
        raise TypeError(place)
    name, partition = names_of(entry.key)
    if is_typed(entry):
        return MarkRow(
            place=place,
            name=name,
            key=entry.key,
            partition=partition,
            state="typed",
            updated=entry.updated,
            set_by_hand="typed in Airflow's UI",
            at=entry.value,
            type="?",
            lag=lag_of(entry.value, now),
        )
    record = decoded(entry, MarkRecord)
    return MarkRow(
        place=place,
        name=name,
        key=entry.key,
        partition=partition,
        state="taken over" if record.taken_up else ("at work" if record.pending is None else f"set ({record.pending})"),
        trouble=_trouble(record),
        updated=entry.updated,
        set_by_hand=None if record.set_by_hand is None else str(record.set_by_hand),
        at=record.at,
        type=record.type,
        lag=lag_of(record.at, now),
        owner=None if record.owner is None else f"{record.owner.dag_id} {record.owner.task_id}",
        moved_by=None if record.by is None else f"{record.by.dag_id} {record.by.run_id}",
        unpublished=len(outbox_of(record)),
        islands=record.islands,
        gaps=gaps_of(record),
        moves=tuple(_move(move) for move in record.history),
    )


@dataclass(frozen=True, kw_only=True)
class MoveRow:
    """A move of a mark.

    Args:
        when: None if an older release has written it, or if it is known only from an event.
        start: where the mark was before; None of the oldest move that is kept.
        to: where it was after that.
        who: the person who moved it; None if a task did. `why`: what they said.
        run: the Dag run that moved it, or that took up what a person had typed.
    """

    when: datetime | None = None
    start: JsonValue = None
    to: JsonValue
    who: str | None = None
    why: str | None = None
    run: str | None = None


def moves_of(record: MarkRecord) -> tuple[MoveRow, ...]:
    """The moves that the record keeps, newest first."""
    starts = [None, *(move.to for move in record.history)]
    rows = [
        MoveRow(
            when=move.when,
            start=start,
            to=move.to,
            who=(move.who or SOMEONE) if move.for_person else None,
            why=move.why,
            run=move.run_id or None,
        )
        for start, move in zip(starts, record.history, strict=False)
    ]
    return tuple(reversed(rows))


SOMEONE = "a person"


def is_typed(entry: Entry) -> bool:
    """Whether a person has typed a bare value in place of the record."""
    return not (isinstance(entry.value, dict) and ("v" in entry.value or "key" in entry.value))


def names_of(key: str) -> tuple[str, str | None]:
    """The name of the watermark and the partition, from the key of the mark."""
    name, *rest = key.removeprefix(PREFIX).split(_SEPARATOR, 1)
    if not rest:
        return name, None
    text = rest[0]
    is_json = text.startswith(_JSON)
    return name, unquote((text.removeprefix(_JSON) if is_json else text).replace("~", "%"))


def lag_of(at: JsonValue, now: datetime) -> timedelta | None:
    """How far a point in time, a day, or a keyset that begins with one is behind."""
    first = at[0] if isinstance(at, list) and at else at
    if not isinstance(first, str) or not first[:4].isdecimal() or "-" not in first[:5]:
        return None
    with suppress(ValueError):
        moment = datetime.fromisoformat(first.replace("Z", "+00:00"))
        return now - (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc))
    return None


def gaps_of(record: MarkRecord) -> tuple[tuple[JsonValue, JsonValue], ...]:
    """What lies between the mark and the windows that were loaded beyond it."""
    starts = [record.at, *(end for _, end in record.islands)]
    return tuple((start, island[0]) for start, island in zip(starts, record.islands, strict=False))


def _trouble(record: MarkRecord) -> str | None:
    gaps = [f"not loaded: {_text(start)} to {_text(end)}" for start, end in gaps_of(record)]
    no_owner = "no task owns it" if record.owner is None and record.pending is None and not record.taken_up else None
    return joined([*gaps, no_owner])


def _move(move: Move) -> str:
    who = (move.who or SOMEONE) if move.for_person else None
    mover = ", ".join(part for part in (who, move.run_id) if part)
    return f"{_text(move.to)} by {mover}" + ("" if move.when is None else f" at {clock(move.when)}")


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else values.dumps(value)


# --- what comes next ------------------------------------------------------------------------------------------


def next_run(record: MarkRecord) -> str:
    """What the next run loads, in words."""
    if record.set_by_hand is not None and record.set_by_hand.start_over:
        return f"sets the mark to its initial value, {initial_in_words(record)}, and loads everything from there"
    return f"loads from {_text(record.at)} on"


def initial_of(record: MarkRecord) -> JsonValue:
    """The initial value, as the last run had it; None if an older release has written the record."""
    return record.initial if record.first is None else record.first


def initial_in_words(record: MarkRecord) -> str:
    """The same for a person."""
    initial = initial_of(record)
    return "which is in the code of its Dag" if initial is None else _text(initial)


def after_a_clear(record: MarkRecord) -> str:
    """What a clear of a run leads to, in words."""
    del record
    return "loads the window of that run again, and the mark stays where it is"
