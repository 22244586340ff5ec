"""A source that is written while it is read, and runs that load it: they fail, are cleared, and overtake each other.

The source is a table in SQLite. A row has the second at which its transaction began, and becomes visible up to `DELAY`
seconds later. It is read in pages, each by a query of its own, so that what is written meanwhile is seen in part.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from itertools import count
from typing import Any, NamedTuple

from airflow.sdk import Asset

from airflow_resume import watermark
from airflow_resume.errors import SupersededError
from airflow_resume.testing import TaskAttempt, World, task_context
from airflow_resume.watermarks import Cursor, Outcome, Watermark, Window

TABLE = Asset("table")
MARK = "resume.watermark.watermark"
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
DELAY = 3
PAGE = 2
FAR = 1_000
IN_FLIGHT = 3


def at(second: int) -> datetime:
    return START + timedelta(seconds=second)


def second_of(moment: datetime) -> int:
    return (moment - START) // timedelta(seconds=1)


class Version(NamedTuple):
    """One version of a row, which must be loaded."""

    id: int
    version: int


@dataclass(frozen=True)
class Write:
    """A transaction that is not committed yet."""

    stamp: int
    due: int
    version: int


class Source:
    """A table that is written: late commits within the delay, equal times, updates, deletes, rows of the future."""

    def __init__(self) -> None:
        self.now = 0
        self._open: dict[int, Write] = {}
        self._versions = count(1)
        self._database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._database.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, at INTEGER, version INTEGER)")

    def close(self) -> None:
        self._database.close()

    def write(self, row: int, *, lag: int = 0, ahead: int = 0) -> None:
        """Insert or update a row; while another transaction has it locked, nothing happens."""
        if row not in self._open:
            self._open[row] = Write(self.now + ahead, self.now + lag, next(self._versions))
            self._commit_due()

    def delete(self, row: int) -> None:
        if row not in self._open:
            self._database.execute("DELETE FROM rows WHERE id = ?", [row])

    def tick(self, seconds: int = 1) -> None:
        for _ in range(seconds):
            self.now += 1
            self._commit_due()

    def _commit_due(self) -> None:
        for row, write in list(self._open.items()):
            if write.due <= self.now:
                del self._open[row]
                self._database.execute("REPLACE INTO rows VALUES (?, ?, ?)", [row, write.stamp, write.version])

    def clock(self) -> datetime:
        return at(self.now)

    def rows(self, start: int, end: int) -> Iterator[dict[str, Any]]:
        """The rows of a window, page by page, in order."""
        where = (start, -1)
        while page := self._page(*where, end):
            for row, stamp, version in page:
                where = (stamp, row)
                yield {"id": row, "at": at(stamp), "version": version}

    def _page(self, stamp: int, row: int, end: int) -> list[tuple[int, int, int]]:
        query = (
            "SELECT id, at, version FROM rows WHERE (at > ? OR at = ? AND id > ?) AND at < ? ORDER BY at, id LIMIT ?"
        )
        return self._database.execute(query, [stamp, stamp, row, end, PAGE]).fetchall()

    def stamp(self, row: int) -> int | None:
        """What the row bears; None: there is none."""
        found = self._database.execute("SELECT at FROM rows WHERE id = ?", [row]).fetchone()
        return None if found is None else found[0]

    def versions(self) -> set[Version]:
        """Of the rows that there are now."""
        return {Version(*row) for row in self._database.execute("SELECT id, version FROM rows")}


@dataclass
class Run:
    """An attempt of a run that is under way, or a run that has ended."""

    attempt: TaskAttempt
    window: Window[datetime]
    body: Iterator[Any]
    replaced: bool = False


Body = Callable[["Loader", Window[datetime]], Iterator[Any]]


@dataclass
class Loader:
    """Runs of one watermark over one source. `body` is a generator that yields at every row."""

    body: Body
    options: dict[str, Any] = field(default_factory=dict)
    source: Source = field(default_factory=Source)
    world: World = field(default_factory=World)
    loaded: set[Version] = field(default_factory=set)
    delivered: list[Version] = field(default_factory=list)
    failed_once: set[Version] = field(default_factory=set)
    under_way: list[Run] = field(default_factory=list)
    ended: list[Run] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    stood: datetime = START

    def __post_init__(self) -> None:
        self.mark: Watermark[datetime] = watermark(
            TABLE,
            **{"initial": START, "now": self.source.clock, "delay": timedelta(seconds=DELAY), **self.options},
        )

    # --- what the mark is -------------------------------------------------------------------------------------

    @property
    def stored(self) -> Any:
        """What is kept under the mark's key: a record, or what a person typed."""
        record = self.world.assets.get("table")
        return None if record is None else record.rows.values_by_key().get(MARK)

    def check_mark(self) -> None:
        """It has not gone back since the last time, unless a person has set it back."""
        stored = self.stored
        if isinstance(stored, dict):
            stands = datetime.fromisoformat(_first(stored["at"]))
            assert stands >= self.stood, f"the mark went back from {self.stood} to {stands}"
            self.stood = stands

    # --- steps ------------------------------------------------------------------------------------------------

    def begin(self, attempt: TaskAttempt) -> None:
        window = self.mark.begin(attempt.context)
        self.under_way.append(Run(attempt, window, self.body(self, window)))

    def new_run(self) -> TaskAttempt:
        number = len({run for _, run, *_ in self.world.instances}) + 1
        return task_context(assets=[TABLE], world=self.world, run_id=f"run-{number}")

    def start(self, _: int = 0) -> None:
        if len(self.under_way) < IN_FLIGHT:
            self.begin(self.new_run())

    def backfill(self, number: int) -> None:
        """A run of a data interval, which may reach to now."""
        if len(self.under_way) < IN_FLIGHT:
            attempt = self.new_run()
            attempt.context["dag_run"].run_type = "backfill"
            start = max(0, self.source.now - number)
            attempt.context["data_interval_start"] = at(start)
            attempt.context["data_interval_end"] = at(start + 2)
            self.begin(attempt)

    def _chosen(self, number: int) -> Run | None:
        return self.under_way[number % len(self.under_way)] if self.under_way else None

    def step(self, number: int) -> None:
        """Insert a row."""
        if run := self._chosen(number):
            self._go_on(run, lambda: next(run.body, None))

    def finish_body(self, number: int) -> None:
        if run := self._chosen(number):
            self._go_on(run, lambda: _exhaust(run.body))

    def _go_on(self, run: Run, go: Callable[[], object]) -> None:
        """A replaced attempt may find out in the middle of its slices."""
        try:
            go()
        except SupersededError:
            assert run.replaced
            self.under_way.remove(run)

    def finish(self, number: int) -> None:
        """The body returns, and the window is committed."""
        if run := self._chosen(number):
            self.under_way.remove(run)
            if run.replaced:
                self._finish_replaced(run)
                return
            _exhaust(run.body)
            self.outcomes.append(self.mark.commit(run.attempt.context, run.window))
            run.attempt.succeed()
            self.ended.append(run)

    def _finish_replaced(self, run: Run) -> None:
        if run.window.empty:
            return
        try:
            _exhaust(run.body)
            self.mark.commit(run.attempt.context, run.window)
        except SupersededError:
            return
        raise AssertionError("a replaced attempt has committed")

    def fail(self, number: int) -> None:
        """Let the attempt die; Airflow tries again."""
        if run := self._chosen(number):
            self.under_way.remove(run)
            run.body = iter(())
            if not run.replaced:
                self.begin(run.attempt.retry())

    def give_up(self, number: int) -> None:
        """Let the last attempt die."""
        if run := self._chosen(number):
            self.under_way.remove(run)
            run.body = iter(())
            if not run.replaced:
                self.ended.append(run)

    def supersede(self, number: int) -> None:
        """Replace the attempt while it is still running."""
        run = self._chosen(number)
        if run and not run.replaced and len(self.under_way) < IN_FLIGHT:
            run.replaced = True
            self.begin(run.attempt.supersede())

    def clear(self, number: int) -> None:
        """A person clears a run that has ended."""
        if self.ended and len(self.under_way) < IN_FLIGHT:
            run = self.ended.pop(number % len(self.ended))
            self.begin(run.attempt.clear())

    def rewind(self, number: int) -> None:
        """A person types a value in Airflow's UI."""
        if isinstance(self.stored, dict):
            back = max(START, self.stood - timedelta(seconds=number))
            typed: Any = [back.isoformat()] if isinstance(self.stored["at"], list) else back.isoformat()
            self.world.assets["table"].rows.clear()
            self.new_run().asset_stores[TABLE].set(MARK, typed)
            self.stood = back

    # --- the source -------------------------------------------------------------------------------------------

    @property
    def is_orderly(self) -> bool:
        """Without a delay, what is written must be visible at once, and a row not be written twice in one second."""
        return self.options.get("delay") == timedelta(0)

    def write(self, number: int) -> None:
        if not self.is_orderly:
            self.source.write(number % 5, lag=number % (DELAY + 1))
        elif self.source.stamp(number % 5) != self.source.now:
            self.source.write(number % 5)

    def write_ahead(self, number: int) -> None:
        if not self.is_orderly:
            self.source.write(number % 5, ahead=number)

    def delete(self, number: int) -> None:
        self.source.delete(number % 5)

    def tick(self, number: int) -> None:
        self.source.tick(1 + number % DELAY)

    # --- the end ----------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """End everything, let time pass, and run until nothing new is loaded."""
        while self.under_way:
            self.finish(0)
            self.check_mark()
        self.source.tick(10 + 2 * DELAY)
        for _ in range(50):
            before = self.stood, len(self.delivered)
            self.start()
            window = self.under_way[0].window
            self.finish(0)
            self.check_mark()
            if window.empty or (self.stood, len(self.delivered)) == before:
                return
        raise AssertionError("runs go on for ever")


def play(loader: Loader, steps: list[tuple[str, int]]) -> None:
    """The steps, and whether the laws hold in the end: no row is missed, the mark stays, an idle run reads nothing."""
    with closing(loader.source):
        for name, number in steps:
            getattr(loader, name)(number)
            loader.check_mark()
        loader.settle()
        missed = loader.source.versions() - loader.loaded
        assert not missed, f"never loaded: {missed}"
        read = len(loader.delivered)
        loader.start()
        loader.finish(0)
        assert len(loader.delivered) == read, f"an idle run read {loader.delivered[read:]}"


def _exhaust(body: Iterator[Any]) -> None:
    for _ in body:
        pass


# --- bodies ---------------------------------------------------------------------------------------------------


def _version(row: dict[str, Any]) -> Version:
    return Version(row["id"], row["version"])


def _pair(row: dict[str, Any]) -> tuple[datetime, int]:
    return row["at"], row["id"]


def _first(value: Any) -> Any:
    """Of several columns, the first; of one, that one."""
    return value[0] if isinstance(value, list) else value


def _rows(loader: Loader, window: Window[datetime]) -> Iterator[dict[str, Any]]:
    return loader.source.rows(second_of(window.start), second_of(window.end) if window.has_end else FAR)


def track_all(loader: Loader, window: Window[datetime], **options: Any) -> Iterator[Any]:
    """Load every row of the window."""
    if window.empty:
        return
    got = []
    for row in window.track(_rows(loader, window), "at", **options):
        got.append(_version(row))
        loader.delivered.append(_version(row))
        yield row
    loader.loaded.update(got)


def track_pairs(loader: Loader, window: Window[Any]) -> Iterator[Any]:
    """By time and id; a mark may stand between two rows of one second."""
    if window.empty:
        return
    end = second_of(window.end[0]) if window.has_end else FAR
    rows = [row for row in loader.source.rows(second_of(window.start[0]), end) if _pair(row) >= window.start]
    got = []
    for row in window.track(rows, _pair, unique=_version, ordered=True):
        got.append(_version(row))
        loader.delivered.append(_version(row))
        yield row
    loader.loaded.update(got)


def track_unique(loader: Loader, window: Window[datetime]) -> Iterator[Any]:
    """Rows at the mark that were loaded are passed over."""
    return track_all(loader, window, unique=_version)


def track_by_id(loader: Loader, window: Window[datetime]) -> Iterator[Any]:
    """Likewise, where a row is written at most once a second."""
    return track_all(loader, window, unique="id")


def observe_all(loader: Loader, window: Window[datetime]) -> Iterator[Any]:
    """Load all rows, also those after the window's end, and observe each; rows at the mark are loaded again."""
    if window.empty:
        return
    for row in loader.source.rows(second_of(window.start), FAR):
        window.observe(row["at"])
        if _version(row) not in loader.loaded:
            loader.delivered.append(_version(row))
        yield row
        loader.loaded.add(_version(row))
    window.observe(window.start)


def some_fail(loader: Loader, window: Window[datetime]) -> Iterator[Any]:
    """Every third version fails the first time it is loaded."""
    if window.empty:
        return
    for row in window.track(_rows(loader, window), "at"):
        version = _version(row)
        loader.delivered.append(version)
        if version.version % 3 == 0 and version not in loader.failed_once:
            loader.failed_once.add(version)
            window.fail_from(row["at"])
        else:
            loader.loaded.add(version)
        yield row


def in_slices(loader: Loader, window: Window[datetime]) -> Iterator[Any]:
    """Slice by slice, in some of which a row fails."""
    for piece in window.split(timedelta(seconds=2)):
        yield from some_fail(loader, piece)


def by_advance(loader: Loader, window: Window[datetime]) -> Iterator[Any]:
    """Load three rows, or all of the first second, and say how far that came."""
    if window.empty:
        return
    for number, row in enumerate(_rows(loader, window)):
        if number >= 3 and row["at"] > window.start:
            window.advance(row["at"])
            return
        loader.loaded.add(_version(row))
        loader.delivered.append(_version(row))
        yield row
    window.advance(window.end)


STEPS = [
    "write",
    "write_ahead",
    "delete",
    "tick",
    "start",
    "step",
    "finish_body",
    "finish",
    "fail",
    "give_up",
    "supersede",
    "clear",
    "backfill",
    "rewind",
]
PAIRS: dict[str, Any] = {"initial": (START, 0), "cursor": Cursor.keyset(Cursor.datetime(), Cursor.int())}
LAWS: dict[str, tuple[Body, dict[str, Any]]] = {
    "window": (track_all, {}),
    "window, lookback": (track_all, {"lookback": timedelta(seconds=2)}),
    "window, max_span": (track_all, {"max_span": timedelta(seconds=2)}),
    "window, fill": (track_all, {"backfill": "fill"}),
    "window, jump": (some_fail, {"on_gap": "jump", "backfill": "isolated"}),
    "window, fail_from": (some_fail, {"backfill": "fill"}),
    "observed": (track_unique, {"advance": "observed"}),
    "observed by id, no clock": (track_by_id, {"advance": "observed", "now": None, "delay": timedelta(0)}),
    "observed without track": (observe_all, {"advance": "observed"}),
    "observed, max_span": (track_unique, {"advance": "observed", "max_span": timedelta(seconds=2)}),
    "observed, lookback": (track_unique, {"advance": "observed", "backfill": "fill"}),
    "keyset": (track_pairs, {**PAIRS, "advance": "observed"}),
    "keyset, fill": (track_pairs, {**PAIRS, "advance": "observed", "backfill": "fill"}),
    "keyset, max_span": (track_pairs, {**PAIRS, "advance": "observed", "max_span": timedelta(seconds=2)}),
    "keyset, window": (track_pairs, {**PAIRS, "advance": "window"}),
    "explicit": (by_advance, {"advance": "explicit"}),
    "split": (in_slices, {}),
    "split, fill": (in_slices, {"backfill": "fill"}),
}
