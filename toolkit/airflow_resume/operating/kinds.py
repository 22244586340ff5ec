"""The three kinds of records, with what is shown of each: the columns of a table, and all that is known of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from airflow_resume import values
from airflow_resume.errors import ResumeError
from airflow_resume.jobs.record import JobRecord
from airflow_resume.loops.loop_record import LoopRecord
from airflow_resume.operating import job_rows, loop_rows, mark_rows
from airflow_resume.operating.places import Entry, Place
from airflow_resume.operating.rows import Row, clock, decoded, digest_of, in_words, since
from airflow_resume.record import Record
from airflow_resume.watermarks.marks.mark_record import MarkRecord

_MOST_SHOWN = 60
_MOST_OF_TROUBLE = 90


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of records.

    Args:
        noun: what one is called.
        prefix: of its keys. `record`: its model. `row`: makes a row of an entry.
        columns: the cells of a table, by their headings.
        retry, clear: what the next attempt does after each.
        again: what these are called.
    """

    noun: str
    prefix: str
    record: type[Record]
    row: Callable[[Entry, datetime], Any]
    columns: Mapping[str, Callable[[Any, datetime], object]]
    retry: Callable[[Any], str]
    clear: Callable[[Any], str]
    again: tuple[str, str] = ("a retry", "a clear")


@dataclass(frozen=True, kw_only=True)
class UnreadableRow(Row):
    """A record that cannot be read, or that is in another database.

    Args:
        refers_to: where the record is, if it is not here.
    """

    place: Place
    refers_to: str | None = None


def row_of(kind: Kind, entry: Entry, now: datetime) -> Any:
    """The row of a record, with its digest; one that says why, if it cannot be read."""
    return replace(
        glance_of(kind, entry, now), digest=digest_of(entry.value if entry.reference is None else entry.reference)
    )


def glance_of(kind: Kind, entry: Entry, now: datetime) -> Any:
    """The same without the digest, which takes as long as all else: for lists of many."""
    if entry.is_encrypted:
        trouble, state = "the record is encrypted by the state backend of the workers", "encrypted"
    elif entry.reference is not None:
        trouble, state = "the record is in a database of its own", "elsewhere"
    else:
        try:
            return kind.row(entry, now)
        except ResumeError as error:
            trouble, state = error.message, "unreadable"
    return UnreadableRow(
        place=entry.place,
        name=entry.key.removeprefix(kind.prefix),
        key=entry.key,
        state=state,
        trouble=trouble,
        updated=entry.updated,
        refers_to=entry.refers_to,
    )


def cells_of(kind: Kind, row: Any, now: datetime) -> tuple[object, ...]:
    """The cells of a row, in the order of the columns."""
    if not isinstance(row, UnreadableRow):
        return tuple(cell(row, now) for cell in kind.columns.values())
    known = {"TASK": row.place, "ASSET": row.place, "NAME": row.name, "STATE": row.state, "TROUBLE": row.trouble}
    return tuple(known.get(name, "") for name in kind.columns)


def cut(value: object, most: int = _MOST_SHOWN) -> str:
    """A value in a cell."""
    text = "" if value is None else value if isinstance(value, str) else values.dumps(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _place(row: Any, _: datetime) -> str:
    return str(row.place)


def _trouble(row: Any, _: datetime) -> str:
    return cut(row.trouble, _MOST_OF_TROUBLE)


def _progress(row: Any, _: datetime) -> str:
    total = "" if row.total is None else f" of {row.total:,}"
    share = "" if row.share is None else f" ({row.share:.0%})"
    return f"{row.done:,}{total}{share}"


KINDS = {
    "jobs": Kind(
        noun="job",
        prefix=job_rows.PREFIX,
        record=JobRecord,
        row=job_rows.job_row,
        columns={
            "TASK": _place,
            "NAME": lambda row, _: row.name,
            "STATE": lambda row, _: row.state,
            "JOB": lambda row, _: cut(row.id),
            "NUMBER": lambda row, _: row.generation,
            "SUBMITTED": lambda row, now: "" if row.submitted is None else f"{since(row.submitted, now)} ago",
            "TROUBLE": _trouble,
        },
        retry=job_rows.after_a_retry,
        clear=job_rows.after_a_clear,
    ),
    "loops": Kind(
        noun="loop",
        prefix=loop_rows.PREFIX,
        record=LoopRecord,
        row=loop_rows.loop_row,
        columns={
            "TASK": _place,
            "NAME": lambda row, _: row.name,
            "STATE": lambda row, _: row.state,
            "DONE": _progress,
            "PACE": lambda row, now: loop_rows.pace_in_words(row, now) or "",
            "SKIPPED": lambda row, _: row.skipped or "",
            "SAVED": lambda row, now: f"{since(row.saved, now)} ago",
            "TROUBLE": _trouble,
        },
        retry=loop_rows.after_a_retry,
        clear=loop_rows.after_a_clear,
    ),
    "marks": Kind(
        noun="mark",
        prefix=mark_rows.PREFIX,
        record=MarkRecord,
        row=mark_rows.mark_row,
        columns={
            "ASSET": lambda row, _: row.place.name,
            "NAME": lambda row, _: row.name if row.partition is None else f"{row.name}[{row.partition}]",
            "STATE": lambda row, _: row.state,
            "MARK": lambda row, _: cut(row.at),
            "BEHIND": lambda row, _: "" if row.lag is None else in_words(row.lag),
            "OWNER": lambda row, _: row.owner or "",
            "MOVED": lambda row, now: "" if row.updated is None else f"{since(row.updated, now)} ago",
            "TROUBLE": _trouble,
        },
        retry=mark_rows.next_run,
        clear=mark_rows.after_a_clear,
        again=("the next run", "a clear of a run"),
    ),
}


def details(
    kind: Kind, row: Any, record: Record | None, now: datetime, *, link: str | None = None
) -> dict[str, object]:
    """What `show` says of one record: its cells, what is in no column, and what comes next. `link`: to its job."""
    cells = zip(kind.columns, cells_of(kind, row, now), strict=True)
    found: dict[str, object] = {name.lower(): cell for name, cell in cells}
    found["trouble"] = row.trouble or ""
    if isinstance(row, UnreadableRow):
        found["refers to"] = row.refers_to
    if isinstance(row, job_rows.JobRow):
        found["link"] = link
        found |= {"try": row.try_number, "claimed": clock(row.claimed), "replaced": "\n".join(row.replaced)}
    if isinstance(row, loop_rows.LoopRow):
        found |= {"position": cut(row.position, 2_000), "kind": row.kind, "try": row.try_number}
        found |= {"inside": "\n".join(row.inner), "skips": "\n".join(row.skips)}
    if isinstance(row, mark_rows.MarkRow):
        found |= {"moved by": row.moved_by, "moves": "\n".join(row.moves), "unpublished windows": row.unpublished or ""}
        found |= {"not loaded": "\n".join(f"{cut(start)} to {cut(end)}" for start, end in row.gaps)}
    found["set by hand"] = row.set_by_hand
    if record is not None:
        found |= dict(zip(kind.again, (kind.retry(record), kind.clear(record)), strict=True))
    return {**found, "record": row.digest}


def differing(kind: Kind, entry: Entry, other: Entry, now: datetime) -> dict[str, str]:
    """What is shown of the one and not of the other."""
    one, two = (details(kind, row_of(kind, each, now), decoded(each, kind.record), now) for each in (entry, other))
    left_out = {*kind.again, "record", "saved", "moved"}  # the last two are ages
    return {name: str(value or "") for name, value in one.items() if value != two.get(name) and name not in left_out}
