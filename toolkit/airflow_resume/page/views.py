"""What the page shows of records, for its templates. Pure.

A row of a list has what is needed to find the record that matters. A card has all that is known of one record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus, urlencode
from zlib import crc32

from airflow_resume.operating import loop_rows
from airflow_resume.operating.job_rows import JobRow
from airflow_resume.operating.kinds import KINDS, Kind, UnreadableRow, cut, details, glance_of, row_of
from airflow_resume.operating.loop_rows import LoopRow
from airflow_resume.operating.mark_rows import MarkRow
from airflow_resume.operating.places import AssetPlace, Entry, Place, TaskPlace
from airflow_resume.operating.rows import clock, decoded, in_words, since
from airflow_resume.page.advice import advice_for
from airflow_resume.page.drawings import Band, bands_of, sparkline
from airflow_resume.page.forms import FORMS, UNDO, Form
from airflow_resume.watermarks.marks.mark_record import MarkRecord

if TYPE_CHECKING:
    from airflow_resume.jobs.record import JobRecord
    from airflow_resume.loops.loop_record import Level
    from airflow_resume.record import Record

_KIND_OF = {kind.prefix: (noun, kind) for noun, kind in KINDS.items()}
_CALM = frozenset({"done", "succeeded", "no job", "at work", "taken over", "typed"})
_SHOWN_ELSEWHERE = frozenset(
    {
        "task", "asset", "name", "state", "trouble", "inside", "skips", "replaced", "not loaded", "record", "done",
        "job", "set by hand", "moves", "saved", "moved", "pace", "submitted", "behind", "number",
    }
)  # fmt: skip
SOMEBODY = "a task that you may not see"


@dataclass(frozen=True, kw_only=True)
class Line:
    """A record in a list.

    Args:
        noun: such as `loop`. `where`: the task instance or asset, in words; `href`: of its page.
        state: of the record; `tone`: `trouble`, `busy` or `calm`.
        percent, progress: how far a loop is. `facts`: what else matters, in words.
        bands: of a mark.
    """

    noun: str
    name: str
    where: str
    href: str
    state: str
    tone: str
    trouble: str | None
    percent: float | None = None
    progress: str = ""
    facts: tuple[str, ...] = ()
    bands: tuple[Band, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A loop, or one inside another."""

    name: str
    depth: int
    done: int
    total: int | None
    percent: float | None
    is_done: bool


@dataclass(frozen=True, kw_only=True)
class Step:
    """A job of a slot, in the order in which they were submitted. `reason`: why it was replaced; None: it was not."""

    number: int
    id: str
    status: str
    try_number: int
    reason: str | None


@dataclass(frozen=True, kw_only=True)
class Card:
    """All that is known of one record.

    Args:
        id: of its element in the page. `line`: as in a list. `advice`: what to do about its trouble.
        key, digest: of the record. `facts`: names and values. `again`: what comes next, by how.
        set_by_hand: what an attempt has not gone by yet.
        forms: what can be asked for. `action`: where it is sent. `denied`: why nothing can be asked for.
        bars, skips: of a loop. `steps`, `link`: of a job. `spark`, `moves`: of a mark.
    """

    id: str
    line: Line
    advice: str | None
    key: str
    digest: str
    facts: tuple[tuple[str, str], ...]
    again: tuple[tuple[str, str], ...] = ()
    set_by_hand: str | None = None
    forms: tuple[Form, ...] = ()
    action: str = ""
    denied: str | None = None
    bars: tuple[Bar, ...] = ()
    skips: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    link: str | None = None
    spark: str | None = None
    moves: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The records of a page in words, for its head.

    Args:
        counts: such as `3 loops`. `troubled`: how many are in trouble.
    """

    counts: tuple[str, ...]
    troubled: int


@dataclass(frozen=True, kw_only=True)
class Listed:
    """A part of a list, and what is said of the whole list."""

    lines: list[Line]
    summary: Summary
    page: int
    pages: int


def noun_of(key: str) -> tuple[str, Kind] | None:
    """The plural noun and the kind of the record under a key; None if the page shows no such records."""
    return next((found for prefix, found in _KIND_OF.items() if key.startswith(prefix)), None)


@lru_cache(maxsize=1_000)
def _kind_of(key: str) -> Kind:
    """The kind of a record that was found, by its key. Instances of a mapped task have the same keys."""
    found = noun_of(key)
    if found is None:
        raise KeyError(key)
    return found[1]


def listed(
    entries: Sequence[Entry],
    now: datetime,
    *,
    page: int = 1,
    with_run: bool = False,
    seen: AbstractSet[str] | None = None,
) -> Listed:
    """A line for each record: what is in trouble first, then what is at work, each in the order in which they came.

    Args:
        entries: of the records.
        now: what ages are counted from.
        page: which part of the list. One that is not there stands for the nearest.
        with_run: name the Dag run too.
        seen: the Dags whose names may be shown with a mark; None: all.
    """
    kinds = [_kind_of(entry.key) for entry in entries]
    rows = [glance_of(kind, entry, now) for kind, entry in zip(kinds, entries, strict=True)]
    tones = [_tone(row) for row in rows]
    pages = max((len(rows) + PER_PAGE - 1) // PER_PAGE, 1)
    page = min(max(page, 1), pages)
    order = sorted(range(len(rows)), key=lambda index: _ORDER[tones[index]])
    lines = [
        _line(kinds[index], entries[index], without_names(rows[index], seen), now, with_run=with_run)
        for index in order[(page - 1) * PER_PAGE : page * PER_PAGE]
    ]
    return Listed(lines=lines, summary=_summary([kind.noun for kind in kinds], tones), page=page, pages=pages)


PER_PAGE = 100
"""Lines of one page of a list."""
_ORDER = {"trouble": 0, "busy": 1, "calm": 2}


def summary_of(cards: Iterable[Card]) -> Summary:
    """The head of a page of cards."""
    lines = [card.line for card in cards]
    return _summary([line.noun for line in lines], [line.tone for line in lines])


def _summary(nouns: Sequence[str], tones: Sequence[str]) -> Summary:
    counts = Counter(nouns)
    said = tuple(f"{count:,} {noun}{'' if count == 1 else 's'}" for noun, count in counts.items())
    return Summary(counts=said, troubled=Counter(tones)["trouble"])


def cards_of(
    entries: Iterable[Entry],
    now: datetime,
    *,
    links: Mapping[Place, str] | None = None,
    seen: AbstractSet[str] | None = None,
    may_change: bool = True,
) -> list[Card]:
    """A card for each record.

    Args:
        entries: of the records.
        now: what ages are counted from.
        links: of the jobs, by their task instances.
        seen: as `listed`.
        may_change: whether the user may change records here. If not, the cards have no forms, and say so.
    """
    cards = [_card(entry, now, (links or {}).get(entry.place), seen) for entry in entries]
    return cards if may_change else [_denied(card) for card in cards]


def _denied(card: Card) -> Card:
    if not card.forms:
        return card
    what = "assets" if card.line.noun == "mark" else "task instances of this Dag"
    denied = f"You may look at this {card.line.noun}, and not change it: that needs the right to edit {what}."
    return replace(card, forms=(), denied=denied)


def owners_of(entries: Iterable[Entry]) -> set[str]:
    """The Dags that marks name as owners or writers, or in windows that are not published."""
    found: set[str] = set()
    for entry in entries:
        value = entry.value if isinstance(entry.value, dict) else {}
        for name in ("owner", "by"):
            named = value.get(name)
            if isinstance(named, dict) and isinstance(named.get("dag_id"), str):
                found.add(str(named["dag_id"]))
    return found


# --- one record -----------------------------------------------------------------------------------------------


def _tone(row: Any) -> str:
    return "trouble" if row.trouble else ("calm" if row.state in _CALM else "busy")


def _line(kind: Kind, entry: Entry, row: Any, now: datetime, *, with_run: bool = False) -> Line:
    line = Line(
        noun=kind.noun,
        name=_name(row),
        where=where(entry.place, with_run=with_run),
        href=href_of(entry.place),
        state=row.state,
        tone=_tone(row),
        trouble=row.trouble,
    )
    if isinstance(row, LoopRow):
        return replace(line, percent=_percent(row.share), progress=_progress(row), facts=_of_loop(row, now))
    if isinstance(row, JobRow):
        return replace(line, facts=_of_job(row, now))
    if isinstance(row, MarkRow):
        bands = () if row.state == "typed" else bands_of(decoded(entry, MarkRecord), now)
        return replace(line, facts=_of_mark(row, now), bands=bands)
    return line


def _card(entry: Entry, now: datetime, link: str | None, seen: AbstractSet[str] | None) -> Card:
    kind = _kind_of(entry.key)
    row = without_names(row_of(kind, entry, now), seen)
    is_read = not isinstance(row, UnreadableRow) and row.state != "typed"
    record = decoded(entry, kind.record) if is_read else None
    said = details(kind, row, record, now)
    forms = FORMS[f"{kind.noun}s"]
    card = Card(
        id=f"record-{crc32(f'{entry.key} {entry.place}'.encode()):08x}",
        line=_line(kind, entry, row, now),
        advice=advice_for(kind.noun, row.state, row.trouble),
        key=entry.key,
        digest=row.digest,
        facts=tuple(
            (name, str(value))
            for name, value in said.items()
            if name not in _SHOWN_ELSEWHERE | {*kind.again} and value not in {None, ""}
        ),
        again=tuple((name, str(said[name])) for name in kind.again if name in said),
        set_by_hand=row.set_by_hand if is_read else None,
        action=action_of(entry.place),
        forms=() if record is None else ((*forms, UNDO) if row.set_by_hand else forms),
    )
    return _with_parts(card, row, record, link)


def _with_parts(card: Card, row: Any, record: Record | None, link: str | None) -> Card:
    if record is None:
        return card
    if isinstance(row, LoopRow):
        return replace(card, bars=tuple(_bars(row.name, record, 0)), skips=row.skips)  # type: ignore[arg-type]
    if isinstance(row, JobRow):
        return replace(card, steps=tuple(_steps(record)), link=link)  # type: ignore[arg-type]
    values = [move.to for move in getattr(record, "history", ())]
    return replace(card, spark=sparkline(values), moves=row.moves)


def without_names(row: Any, seen: AbstractSet[str] | None) -> Any:
    """A row of a mark without the names of Dags that may not be seen."""
    if not isinstance(row, MarkRow) or seen is None:
        return row
    named = {text.split(" ", 1)[0] for text in (row.owner, row.moved_by) if text is not None}
    if named <= seen:
        return row
    return replace(
        row,
        owner=None if row.owner is None else SOMEBODY,
        moved_by=None if row.moved_by is None else SOMEBODY,
        moves=tuple(f"{text.split(' by ', 1)[0]} by {SOMEBODY}" for text in row.moves),
    )


def href_of(place: Place) -> str:
    """The page of a task instance or an asset, seen from the root of the page."""
    if isinstance(place, AssetPlace):
        return f"marks/{place.asset_id}"
    return f"task?{query_of(place)}"


def action_of(place: Place) -> str:
    """Where the forms of its records are sent."""
    if isinstance(place, AssetPlace):
        return f"marks/{place.asset_id}/preview"
    return f"task/preview?{query_of(place)}"


def query_of(place: TaskPlace) -> str:
    """What names a task instance in an address."""
    region = "" if place.region_id is None else f"&region_id={quote_plus(place.region_id)}"
    return f"{_query_of(place.dag_id, place.run_id, place.task_id)}&map_index={place.map_index}{region}"


@lru_cache(maxsize=1_000)
def _query_of(dag_id: str, run_id: str, task_id: str) -> str:
    return urlencode({"dag_id": dag_id, "run_id": run_id, "task_id": task_id})


def where(place: Place, *, with_run: bool = False) -> str:
    """A task instance or an asset, in words."""
    if isinstance(place, TaskPlace):
        run = f"{place.run_id} " if with_run else ""
        return run + place.task_id + ("" if place.map_index < 0 else f"[{place.map_index}]")
    return place.name


def _name(row: Any) -> str:
    partition = getattr(row, "partition", None)
    return row.name if partition is None else f"{row.name}[{partition}]"


# --- of a loop ------------------------------------------------------------------------------------------------


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 1)


def _progress(row: LoopRow) -> str:
    return f"{row.done:,}" if row.total is None else f"{row.done:,} of {row.total:,}"


def _of_loop(row: LoopRow, now: datetime) -> tuple[str, ...]:
    pace = loop_rows.pace_in_words(row, now)
    skipped = f"{row.skipped:,} skipped" if row.skipped else None
    stalled = None if row.stalled_since is None else f"stalled since {clock(row.stalled_since)}"
    saved = f"saved {since(row.saved, now)} ago"
    return tuple(text for text in (pace, stalled, skipped, saved) if text)


def _bars(name: str, level: Level, depth: int) -> Iterator[Bar]:
    yield Bar(
        name=name,
        depth=min(depth, 5),
        done=level.n,
        total=level.total,
        percent=_percent(min(level.n / level.total, 1.0)) if level.total else (100.0 if level.done else None),
        is_done=level.done,
    )
    for inner, below in (level.inner or {}).items():
        yield from _bars(inner, below, depth + 1)


# --- of a job and a mark --------------------------------------------------------------------------------------


def _of_job(row: JobRow, now: datetime) -> tuple[str, ...]:
    job = None if row.id is None else cut(row.id)
    submitted = None if row.submitted is None else f"submitted {since(row.submitted, now)} ago"
    number = f"number {row.generation}" if row.generation > 1 else None
    return tuple(text for text in (job, submitted, number) if text)


def _steps(record: JobRecord) -> Iterator[Step]:
    for past in record.history:
        yield Step(
            number=past.generation,
            id=cut(past.id) or "no id",
            status=past.status or "its status was not asked",
            try_number=past.try_number,
            reason=past.reason,
        )
    status = None if record.status is None else record.status.value
    yield Step(
        number=record.generation,
        id=cut(record.id) or "no id",
        status=status or record.phase.value,
        try_number=record.claim.try_number,
        reason=None,
    )


def _of_mark(row: MarkRow, now: datetime) -> tuple[str, ...]:
    behind = None if row.lag is None else f"{in_words(row.lag)} behind"
    moved = None if row.updated is None else f"moved {since(row.updated, now)} ago"
    pending = f"{row.unpublished:,} unpublished" if row.unpublished else None
    return tuple(text for text in (cut(row.at), behind, moved, pending) if text)
