"""A loop that appends to a sink: every crash, pairs of crashes, lost replies and real kills, and a planted fault."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, event, insert, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from airflow_resume import checkpoint
from airflow_resume.errors import SinkBusyError, SupersededError
from airflow_resume.loops import CursorToken, Page
from airflow_resume.sinks import SqlSink
from airflow_resume.sinks.transaction import SqlPosition
from airflow_resume.testing import (
    CrashWorld,
    FakeTaskStore,
    World,
    explore_crashes,
    explore_interleavings,
    task_context,
)
from airflow_resume.testing.crashes.outcome import ExplorationOutcome
from airflow_resume.testing.errors import CrashFoundError, OracleBrokenError
from airflow_resume.testing.sinks import WatchedSink, each_row_exactly_once
from tests.support.kit.file_rows import FileRows
from tests.support.sinks.places import ROWS, rows_in

INSTANCE = ("dag", "run-1", "task", -1)


class SinkWorld(CrashWorld):
    """An Airflow and a database in files, which outlive a process."""

    def __init__(self, folder: Path, *, rows_in_file: bool) -> None:
        super().__init__(airflow=World())
        self.url = f"sqlite:///{folder / 'sink.db'}"
        with closing(self.engine()) as engine:
            ROWS.create(engine.of)
        if rows_in_file:
            self.airflow.instances[INSTANCE].rows = FileRows(folder / "airflow.json")

    def engine(self) -> OwnEngine:
        return OwnEngine(self.url)

    def rows(self) -> list[int]:
        with closing(self.engine()) as engine:
            return rows_in(engine.of)


class OwnEngine:
    """An engine that is closed by `closing`."""

    def __init__(self, url: str) -> None:
        self.of = create_engine(url, poolclass=NullPool)
        # A killed process loses nothing of what the operating system has, and waiting for the disk takes minutes.
        event.listen(self.of, "connect", lambda raw, _record: raw.execute("PRAGMA synchronous = OFF"))

    def close(self) -> None:
        self.of.dispose()


@pytest.fixture
def worlds(tmp_path: Path) -> Callable[..., Callable[[], SinkWorld]]:
    numbers = iter(range(10**6))

    def maker(*, rows_in_file: bool = False) -> Callable[[], SinkWorld]:
        def make() -> SinkWorld:
            folder = tmp_path / str(next(numbers))
            folder.mkdir()
            return SinkWorld(folder, rows_in_file=rows_in_file)

        return make

    return maker


def pages() -> CursorToken[int]:
    def fetch(token: str | None) -> Page[int]:
        number = int(token or 0)
        return Page([2 * number, 2 * number + 1], str(number + 1) if number < 2 else None)

    return CursorToken(fetch)


def appending(sink_of: Callable[[Any], Any] = SqlSink, **options: Any) -> Callable[[SinkWorld], int]:
    """An attempt that appends six rows of three pages."""

    def append(world: SinkWorld) -> int:
        with closing(world.engine()) as engine:
            sink = world.watch(WatchedSink(sink_of(engine.of)))
            context = task_context(world=world.airflow, retries=9).context
            with checkpoint(pages(), name="rows", sink=sink, context=context, **options) as loop:
                for page in loop:
                    ids = page.items if isinstance(page, Page) else [page]
                    loop.connection.execute(insert(ROWS), [{"id": each} for each in ids])
            return loop.count

    return append


EXACTLY = each_row_exactly_once(SinkWorld.rows)


@pytest.mark.parametrize("durability", ["async", "sync", "exit"])
@pytest.mark.parametrize("commit_every", [1, 2])
def test_no_crash_and_no_pair_of_crashes_loses_or_repeats_a_row(
    worlds: Any, durability: str, commit_every: int
) -> None:
    attempt = appending(durability=durability, commit_every=commit_every)
    report = explore_crashes(attempt, oracle=EXACTLY, world=worlds(), max_pairs=60)
    assert len(report.points) > 20
    assert report.pairs > 50


@pytest.mark.parametrize("options", [{"each": True}, {"each": True, "commit_every": 4}], ids=str)
def test_nor_within_a_page(worlds: Any, options: Any) -> None:
    report = explore_crashes(appending(**options), oracle=EXACTLY, world=worlds(), max_pairs=40)
    assert report.pairs > 30


def test_nor_does_a_real_kill(worlds: Any) -> None:
    report = explore_crashes(
        appending(), oracle=EXACTLY, world=worlds(rows_in_file=True), kinds=["sigkill"], max_pairs=60
    )
    assert report.pairs > 50
    assert report.ways == len(report.points) + report.pairs


def test_a_database_of_airflow_that_is_restored_or_cleared_changes_nothing(worlds: Any) -> None:
    report = explore_crashes(
        appending(), oracle=EXACTLY, world=worlds(), kinds=["state_cleared", "restored", "crash"], max_pairs=60
    )
    assert report.pairs > 50


def test_an_error_after_the_commit_is_no_second_commit(worlds: Any) -> None:
    report = explore_crashes(
        appending(), oracle=EXACTLY, world=worlds(), kinds=["raises_after", "reply_lost"], max_pairs=60
    )
    assert report.pairs > 50


# --- two runs at once -------------------------------------------------------------------------------------------


def script(world: SinkWorld) -> int:
    """A run of a script, which has no order among its runs. A row that is locked is an error at once."""
    engine = create_engine(world.url, poolclass=NullPool, connect_args={"timeout": 0})
    event.listen(engine, "connect", lambda raw, _record: raw.execute("PRAGMA synchronous = OFF"))
    try:
        sink = world.watch(WatchedSink(SqlSink(engine, script="rows")))
        with checkpoint(pages(), name="rows", sink=sink, store=world.watch(FakeTaskStore())) as loop:
            for page in loop:
                loop.connection.execute(insert(ROWS), [{"id": each} for each in page.items])
        return loop.count
    finally:
        engine.dispose()


def test_two_runs_in_every_order_leave_exactly_the_rows_before_the_position(worlds: Any) -> None:
    """Both may fail, as one is replaced, and SQLite has one writer at a time; a later run finishes the rest."""

    def each_row_before_the_position(outcome: ExplorationOutcome[SinkWorld]) -> None:
        rows = outcome.world.rows()
        assert rows == list(range(len(rows)))
        with closing(outcome.world.engine()) as engine, engine.of.connect() as connection:
            position = json.loads(
                connection.execute(text("SELECT position FROM airflow_resume_positions")).scalar_one()
            )
        assert position["n"] * 2 == len(rows)

    report = explore_interleavings(
        [script, script],
        oracle=each_row_before_the_position,
        world=worlds(),
        may_fail=(SupersededError, SinkBusyError, OperationalError),
        max_ways=60,
    )
    assert report.interleavings > 60


# --- a planted fault --------------------------------------------------------------------------------------------


class LateSink(SqlSink):
    """The position is written after the commit of the rows, in a transaction of its own, and leaves no note."""

    def claim(self, identity: Any, claimant: Any) -> Any:
        claimed = super().claim(identity, claimant)
        commit = claimed.commit

        def commit_later(position: Any) -> None:
            with claimed._guard.ourselves():
                connection = claimed.connection
                claimed._row.forget(connection, claimed._guard.stamp, claimed._guard.transaction)
                connection.commit()
            commit(position)

        claimed.commit = commit_later  # type: ignore[method-assign]
        return claimed


class EarlySink(SqlSink):
    """The position is written before the rows are committed."""

    def claim(self, identity: Any, claimant: Any) -> Any:
        claimed: SqlPosition = super().claim(identity, claimant)
        return Early(claimed, self)


class Early:
    """Commits the position on its own connection, and then the rows on another one."""

    def __init__(self, claimed: SqlPosition, sink: SqlSink) -> None:
        self._claimed, self.position = claimed, claimed.position
        self._rows: Any = None
        self._sink = sink

    @property
    def version(self) -> int:
        return self._claimed.version

    @property
    def connection(self) -> Any:
        self._rows = self._rows or Noted()
        return self._rows

    def commit(self, position: Any) -> None:
        self._claimed.commit(position)
        if self._rows is not None:
            with self._sink.engine.begin() as other:
                for statement, values in self._rows.calls:
                    other.execute(statement, values)
        self._rows = None

    def rollback(self) -> None:
        self._rows = None

    def close(self) -> None:
        self._claimed.close()


class Noted:
    """Notes what is executed."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, Any]] = []

    def execute(self, statement: Any, values: Any) -> None:
        self.calls.append((statement, values))


@pytest.mark.parametrize("kinds", [["crash"], ["sigkill"]], ids=str)
def test_a_position_after_the_commit_repeats_rows_and_is_found(worlds: Any, kinds: list[str]) -> None:
    with pytest.raises(CrashFoundError, match=r"repeated rows: 0 1 x, 1 1 x\n"):
        explore_crashes(appending(LateSink), oracle=EXACTLY, world=worlds(rows_in_file=True), kinds=kinds, double=False)


def test_a_position_before_the_commit_loses_rows_and_is_found(worlds: Any) -> None:
    with pytest.raises(CrashFoundError, match=r"lost rows: 0 1 x, 1 1 x\n"):
        explore_crashes(appending(EarlySink), oracle=EXACTLY, world=worlds(), kinds=["crash"], double=False)


def test_an_oracle_without_rows_is_broken(worlds: Any) -> None:
    with pytest.raises(OracleBrokenError, match="returned no rows"):
        explore_crashes(appending(), oracle=each_row_exactly_once(lambda _world: []), world=worlds(), double=False)
