"""A table that others change while a loop reads it, and every kind of source over it.

Rows have keys and never change their order. An inserted key lies between two others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, Literal, NamedTuple

from airflow_resume.errors import EndlessSourceError, SourceChangedError
from airflow_resume.loops import Batches, CursorToken, Files, Keyset, Offset, Page, PageNumber, TimeSlice, TimeSlices

STEP = 1000
"""The distance between two keys, which leaves room for others."""
SIZE = 3
"""Rows per page."""
LIST = 2
"""Rows per list, where a list is cut into lists."""
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)

What = Literal["delete", "insert", "update", "append"]
Row = dict[str, int]


class Change(NamedTuple):
    """A change of a table, and the row where it happens."""

    what: What
    at: int


@dataclass
class Table:
    """Rows by key, each with the number of its updates.

    Attributes:
        throughout: keys that are there from beginning to end.
        lowered: keys that moved to the front because a row before them was deleted.
        raised: keys that moved to the back because a row was inserted before them.
        answered: all answers in order, by question.
        owed: keys that were inserted before the last row, where nothing had been answered yet.
    """

    count: int
    rows: dict[int, int] = field(init=False)
    throughout: set[int] = field(init=False)
    lowered: set[int] = field(default_factory=set)
    raised: set[int] = field(default_factory=set)
    owed: set[int] = field(default_factory=set)
    deleted: bool = False
    appended: set[int] = field(default_factory=set)
    answered: dict[Any, list[list[Row]]] = field(default_factory=dict)
    farthest: int = -1
    """The greatest key that was answered."""
    listener: Callable[[Any, list[Row], list[Row] | None], object] = lambda *_: None
    """Called with every question: the answer, and the one before it."""

    def __post_init__(self) -> None:
        self.rows = {number * STEP: 0 for number in range(self.count)}
        self.throughout = set(self.rows)

    @property
    def keys(self) -> list[int]:
        return sorted(self.rows)

    def all_rows(self) -> list[Row]:
        """Copies of the rows, as a driver returns."""
        return [{"id": key, "v": self.rows[key]} for key in self.keys]

    def after(self, key: int | None) -> list[Row]:
        """The rows after a key."""
        return [row for row in self.all_rows() if key is None or row["id"] > key]

    def answer(self, asked: Any, rows: Sequence[Row]) -> list[Row]:
        """Record and return the answer of a source."""
        answers = self.answered.setdefault(asked, [])
        self.listener(asked, list(rows), answers[-1] if answers else None)
        answers.append(list(rows))
        self.farthest = max([self.farthest, *(row["id"] for row in rows)])
        return list(rows)

    # --- changes ----------------------------------------------------------------------------------------------

    def apply(self, change: Change) -> None:
        """Make the change, if there is such a row."""
        keys = self.keys
        if change.what == "append":
            self._insert(keys[-1] + STEP if keys else 0)
        elif keys:
            key = keys[change.at % len(keys)]
            match change.what:
                case "delete":
                    self.delete(key)
                case "update":
                    self.rows[key] += 1
                case "insert":  # before it
                    before = keys[change.at % len(keys) - 1] if change.at % len(keys) else key - STEP
                    self._insert((before + key) // 2)

    def delete(self, key: int) -> None:
        """A row is gone."""
        if self.rows.pop(key, None) is not None:
            self.deleted = True
            self.throughout.discard(key)
            self.owed.discard(key)
            self.lowered.update(other for other in self.rows if other > key)

    def _insert(self, key: int) -> None:
        if key in self.rows:
            return
        later = {other for other in self.rows if other > key}
        if later & self.throughout and key > self.farthest:
            self.owed.add(key)
        if not later:
            self.appended.add(key)
        self.rows[key] = 0
        self.raised |= later


# --- sources over it --------------------------------------------------------------------------------------------


def tokens(table: Table) -> CursorToken[Row]:
    """The token of a page says after which key it begins."""

    def fetch(token: str | None) -> Page[Row]:
        rows = table.after(None if token is None else int(token.removeprefix("after ")))
        page = table.answer(token, rows[:SIZE])
        return Page(page, f"after {page[-1]['id']}" if len(rows) > SIZE else None)

    return CursorToken(fetch)


def page_numbers(table: Table) -> PageNumber[Row]:
    return PageNumber(lambda n: table.answer(n, table.all_rows()[(n - 1) * SIZE : n * SIZE]), size=SIZE)


def page_numbers_announced(table: Table) -> PageNumber[Row]:
    def fetch(number: int) -> Page[Row]:
        rows = table.all_rows()
        page = table.answer(number, rows[(number - 1) * SIZE : number * SIZE])
        return Page(page, total=len(rows), pages=-(-len(rows) // SIZE))

    return PageNumber(fetch)


def offsets(table: Table) -> Offset[Row]:
    return Offset(
        lambda offset, limit: table.answer(offset, table.all_rows()[offset : offset + limit]),
        limit=SIZE,
    )


def offsets_announced(table: Table) -> Offset[Row]:
    def fetch(offset: int, limit: int) -> Page[Row]:
        rows = table.all_rows()
        return Page(table.answer(offset, rows[offset : offset + limit]), total=len(rows))

    return Offset(fetch, limit=SIZE)


def offsets_clamped(table: Table) -> Offset[Row]:
    """The API returns at most two rows, whatever it is asked for, and says how many there are."""

    def fetch(offset: int, limit: int) -> Page[Row]:
        rows = table.all_rows()
        return Page(table.answer(offset, rows[offset : offset + min(limit, 2)]), total=len(rows))

    return Offset(fetch, limit=SIZE)


def keyset(table: Table) -> Keyset[Row]:
    return Keyset(lambda after, limit: table.answer(after, table.after(after)[:limit]), key="id", limit=SIZE)


def as_list(table: Table) -> list[Row]:
    return table.answer("all", table.all_rows())


def generated(table: Table) -> Iterator[Row]:
    yield from as_list(table)


def texts(table: Table) -> list[str]:
    """Each named after its key."""
    return [f"{row['id']:08}.csv" for row in as_list(table)]


def files(table: Table) -> Files[str]:
    """The same as a listing."""
    return Files(texts(table))


class ByKey:
    """An iterable that saves the last key."""

    def __init__(self, table: Table) -> None:
        self._table, self._last = table, None

    def state_dict(self) -> dict[str, int | None]:
        return {"last": self._last}

    def load_state_dict(self, state: Any) -> None:
        self._last = state["last"]

    def __iter__(self) -> Iterator[Row]:
        while rows := self._table.after(self._last)[:1]:
            self._table.answer("next", rows)
            self._last = rows[0]["id"]  # type: ignore[assignment]
            yield rows[0]


def by_position(table: Table) -> Callable[[Any], Iterator[tuple[Row, Any]]]:
    """A function that is given the last key."""

    def resume(last: int | None) -> Iterator[tuple[Row, int]]:
        while rows := table.after(last)[:1]:
            table.answer("next", rows)
            last = rows[0]["id"]
            yield rows[0], last

    return resume


def slices(table: Table) -> TimeSlices:
    """An hour for each row that there was in the beginning: nobody changes the time."""
    return TimeSlices(START, START + table.count * HOUR, HOUR)


def keys_of(element: Any) -> list[int]:
    """The keys of the rows in an element."""
    match element:
        case Page():
            return [row["id"] for row in element.items]
        case list() | tuple():
            return [key for part in element for key in keys_of(part)]
        case dict():
            return [int(element["id"])]
        case TimeSlice():
            return [int((element.start - START) / HOUR) * STEP]
    return [int(element.removesuffix(".csv"))]


# --- what each of them promises ---------------------------------------------------------------------------------

Promise = Literal["rows", "numbers", "same"]
"""What a source guarantees while others change it.

`"rows"`: it knows its place by what the rows are. Every row that is there throughout is delivered, and every one that
is inserted where nothing has been answered yet, and it never fails.

`"numbers"`: it knows its place by a number. Rows shift as they do without this library: a row whose number never became
smaller is delivered, and so is all that was answered last to any question; no question is left out. (A page that was
done ahead of others is not looked at again.)

`"same"`: it is the same in every attempt. A row whose number never became smaller is delivered; and every row that is
there throughout, if the source knows that there are fewer rows than before.
"""


@dataclass(frozen=True, kw_only=True, eq=False)
class Changing:
    """A source over a table, as `checkpoint` takes it.

    Args:
        restarts: whether the loop starts over where what was finished has changed.
        pages: whether positions lie within pages that are fetched again.
        fails: the error with which it may fail when a row was inserted or deleted.
        knows_length: whether it knows how many rows there were, so that fewer of them are another source.
        announces: whether it knows how many are to come, so that it notices when it ends before.
        fixed: whether the source cannot change.
    """

    make: Callable[[Table], Any]
    promise: Promise
    options: Mapping[str, Any] = field(default_factory=dict)
    restarts: bool = False
    pages: bool = False
    fails: tuple[type[Exception], ...] = ()
    knows_length: bool = False
    announces: bool = False
    fixed: bool = False


EACH = {"each": True}
_NUMBERED: dict[str, Any] = {"promise": "numbers", "fails": (EndlessSourceError,)}
_SAME: dict[str, Any] = {"promise": "same", "fails": (SourceChangedError,)}

CHANGING: dict[str, Changing] = {
    "tokens": Changing(make=tokens, promise="rows"),
    "rows of tokens": Changing(make=tokens, promise="rows", options=EACH, pages=True),
    "keyset": Changing(make=keyset, promise="rows"),
    "rows of a keyset": Changing(make=keyset, promise="rows", options=EACH),
    "page numbers": Changing(make=page_numbers, **_NUMBERED),
    "page numbers, announced": Changing(make=page_numbers_announced, announces=True, **_NUMBERED),
    "rows of page numbers": Changing(make=page_numbers, options=EACH, pages=True, **_NUMBERED),
    "offsets": Changing(make=offsets, **_NUMBERED),
    "offsets, announced": Changing(make=offsets_announced, announces=True, **_NUMBERED),
    "offsets, clamped": Changing(make=offsets_clamped, announces=True, **_NUMBERED),
    "rows of offsets": Changing(make=offsets, options=EACH, pages=True, **_NUMBERED),
    "rows of offsets, clamped": Changing(make=offsets_clamped, options=EACH, pages=True, announces=True, **_NUMBERED),
    "list": Changing(make=as_list, restarts=True, knows_length=True, announces=True, **_SAME),
    "list of texts": Changing(make=texts, promise="rows", restarts=True, announces=True),
    "generator": Changing(make=generated, **_SAME),
    "lists": Changing(
        make=lambda table: Batches(as_list(table), size=LIST), restarts=True, knows_length=True, announces=True, **_SAME
    ),
    "rows of lists": Changing(
        make=lambda table: Batches(as_list(table), size=LIST),
        options=EACH,
        pages=True,
        restarts=True,
        knows_length=True,
        announces=True,
        **_SAME,
    ),
    "files": Changing(make=files, promise="rows", restarts=True),
    "stateful": Changing(make=ByKey, promise="rows"),
    "function": Changing(make=by_position, promise="rows"),
    "slices": Changing(make=slices, promise="rows", fixed=True),
}
