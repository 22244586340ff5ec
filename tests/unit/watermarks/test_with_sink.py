"""A watermark whose mark is in the sink: what is committed when, what a later run finds, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Asset
from sqlalchemy import Engine, create_engine, delete, insert

from airflow_resume import watermark
from airflow_resume.errors import SinkUnsafeError, SupersededError, WatermarkError
from airflow_resume.sinks import SqlSink
from airflow_resume.testing import CrashWorld, TaskAttempt, World, explore_crashes, task_context
from airflow_resume.testing.oracles import mark_never_decreases
from airflow_resume.testing.sinks import WatchedSink, each_row_exactly_once
from airflow_resume.watermarks import Cursor
from tests.support.sinks.places import ROWS, rows_in

NUMBERS = Asset("numbers")
MARK = "resume.watermark.watermark"


class BodyError(Exception):
    """What a body raises."""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = create_engine(f"sqlite:///{tmp_path / 'sink.db'}")
    ROWS.create(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def sink(engine: Engine) -> SqlSink:
    return SqlSink(engine)


@pytest.fixture
def attempt() -> TaskAttempt:
    return task_context(assets=[NUMBERS], retries=9)


class Source:
    """Rows with the ids from 0 up to `end`."""

    def __init__(self, end: int) -> None:
        self.end = end

    def watermark(self, **options: Any) -> Any:
        options = {"initial": 0, "now": lambda: self.end, **options}
        return watermark(NUMBERS, **options)


def write(window: Any, start: int, end: int) -> None:
    window.connection.execute(insert(ROWS), [{"id": each} for each in range(start, end)])


def load(source: Source, attempt: TaskAttempt, sink: Any, *, fails: bool = False, **options: Any) -> tuple[int, int]:
    with source.watermark(**options).open(attempt.context, sink=sink) as window:
        if window.empty:
            return window.start, window.start
        write(window, window.start, window.end)
        if fails:
            raise BodyError
    return window.start, window.end


def mark_in(store: Any) -> int:
    return int(store.values.get(MARK, {}).get("at") or 0)


def mark_of(attempt: TaskAttempt) -> Any:
    return int(attempt.asset_stores[NUMBERS].values[MARK]["at"])


# --- exactly once -----------------------------------------------------------------------------------------------


def test_a_run_appends_what_is_new_and_the_mark_is_in_the_same_commit(
    sink: SqlSink, engine: Engine, attempt: TaskAttempt
) -> None:
    source = Source(3)
    assert load(source, attempt, sink) == (0, 3)
    attempt.succeed()
    source.end = 7
    second = attempt.next_run()
    assert load(source, second, sink) == (3, 7)
    assert rows_in(engine) == list(range(7))
    assert mark_of(second) == 7


def test_a_body_that_fails_leaves_nothing_and_a_retry_loads_all_that_is_new_by_then(
    sink: SqlSink, engine: Engine, attempt: TaskAttempt
) -> None:
    source = Source(3)
    with pytest.raises(BodyError):
        load(source, attempt, sink, fails=True)
    assert rows_in(engine) == []
    source.end = 5
    assert load(source, attempt.retry(), sink) == (0, 5)
    assert rows_in(engine) == list(range(5))


def test_the_task_of_a_watermark_takes_a_sink(sink: SqlSink, engine: Engine, attempt: TaskAttempt) -> None:
    orders = Source(3).watermark()

    @orders.task(sink=sink)  # type: ignore[untyped-decorator]
    def load_new(window: Any, offset: int) -> None:
        write(window, window.start + offset, window.end + offset)

    with attempt:
        load_new.function(offset=10)
    assert rows_in(engine) == [10, 11, 12]


def test_slices_are_committed_one_by_one_and_a_retry_continues_after_them(
    sink: SqlSink, engine: Engine, attempt: TaskAttempt
) -> None:
    def load_slices(attempt: TaskAttempt, fail_at: int | None) -> None:
        with Source(10).watermark().open(attempt.context, sink=sink) as window:
            for piece in window.split(3):
                write(piece, piece.start, piece.end)
                if piece.start == fail_at:
                    raise BodyError

    with pytest.raises(BodyError):
        load_slices(attempt, 6)
    assert rows_in(engine) == list(range(6))
    load_slices(attempt.retry(), None)
    assert rows_in(engine) == list(range(10))


def test_observed_rows_at_the_mark_are_told_apart_after_a_crash_too(
    sink: SqlSink, engine: Engine, attempt: TaskAttempt
) -> None:
    table = [{"v": 1, "id": 1}, {"v": 2, "id": 2}]

    def load_seen(attempt: TaskAttempt, sink: Any) -> None:
        mark = watermark(NUMBERS, initial=0, delay=0)
        with mark.open(attempt.context, sink=sink) as window:
            rows = [row for row in table if row["v"] >= window.start]
            for row in window.track(rows, "v", unique="id"):
                write(window, row["id"], row["id"] + 1)

    with pytest.raises(BodyError):
        load_seen(attempt, DiesAfterCommit(sink))
    table.append({"v": 2, "id": 3})
    load_seen(attempt.retry(), sink)
    assert rows_in(engine) == [1, 2, 3]


class DiesAfterCommit:
    """A sink whose process dies after the commit of the first window, and before the mark follows."""

    def __init__(self, sink: SqlSink) -> None:
        self._sink, self.target = sink, sink.target

    def claim(self, identity: Any, claimant: Any) -> Any:
        claimed = self._sink.claim(identity, claimant)
        commit = claimed.commit

        def commit_and_die(position: Any) -> None:
            commit(position)
            if int(position["at"]) > 0:
                raise BodyError

        claimed.commit = commit_and_die  # type: ignore[method-assign]
        return claimed


# --- the sink counts ------------------------------------------------------------------------------------------------


def test_what_a_dead_attempt_has_committed_is_not_loaded_again_and_the_mark_follows(
    sink: SqlSink, engine: Engine, attempt: TaskAttempt, caplog: pytest.LogCaptureFixture
) -> None:
    source = Source(3)
    with pytest.raises(BodyError):
        load(source, attempt, DiesAfterCommit(sink))
    retry = attempt.retry()
    assert load(source, retry, sink) == (3, 3)
    assert "The mark follows" in caplog.text
    assert rows_in(engine) == [0, 1, 2]
    assert mark_of(retry) == 3


def test_a_restored_target_sets_the_mark_back(
    sink: SqlSink, engine: Engine, attempt: TaskAttempt, caplog: pytest.LogCaptureFixture
) -> None:
    source = Source(3)
    load(source, attempt, sink)
    attempt.succeed()
    with engine.begin() as connection:
        backup = connection.execute(sink.positions.select()).mappings().one()
    source.end = 6
    second = attempt.next_run()
    load(source, second, sink)
    second.succeed()
    with engine.begin() as connection:
        connection.execute(delete(ROWS).where(ROWS.c.id >= 3))
        connection.execute(sink.positions.update().values(**backup))
    third = second.next_run()
    assert load(source, third, sink) == (3, 6)
    assert "The sink counts" in caplog.text
    assert rows_in(engine) == list(range(6))


def test_a_mark_that_a_person_has_set_counts(sink: SqlSink, engine: Engine, attempt: TaskAttempt) -> None:
    source = Source(6)
    load(source, attempt, sink)
    attempt.succeed()
    second = attempt.next_run()
    source.watermark().reset(second.context, 2)
    with engine.begin() as connection:
        connection.execute(delete(ROWS).where(ROWS.c.id >= 2))
    with pytest.raises(BodyError):
        load(source, second, sink, fails=True)
    assert load(source, second.retry(), sink) == (2, 6)
    assert rows_in(engine) == list(range(6))
    assert load(source, second.retry().retry(), sink) == (6, 6)


def test_a_watermark_that_gets_a_sink_continues_at_its_mark(sink: SqlSink, attempt: TaskAttempt) -> None:
    source = Source(3)
    with source.watermark().open(attempt.context):
        pass
    attempt.succeed()
    source.end = 5
    assert load(source, attempt.next_run(), sink) == (3, 5)


def test_a_cleared_run_writes_nothing_twice(
    sink: SqlSink, engine: Engine, attempt: TaskAttempt, caplog: pytest.LogCaptureFixture
) -> None:
    source = Source(3)
    load(source, attempt, sink)
    assert load(source, attempt.clear(), sink) == (3, 3)
    assert "is in the sink already" in caplog.text
    assert rows_in(engine) == [0, 1, 2]


def test_partitions_have_marks_of_their_own(sink: SqlSink, engine: Engine, attempt: TaskAttempt) -> None:
    for partition in ("a", "b"):
        with Source(2).watermark().open(attempt.context, partition=partition, sink=sink) as window:
            write(window, window.start, window.end)
    assert rows_in(engine) == [0, 0, 1, 1]


def test_of_two_runs_at_once_the_one_that_claimed_first_commits_nothing(
    sink: SqlSink, engine: Engine, attempt: TaskAttempt
) -> None:
    source = Source(3)
    other = attempt.next_run()
    with pytest.raises(SupersededError), source.watermark().open(attempt.context, sink=sink) as window:
        assert load(source, other, sink) == (0, 3)
        write(window, window.start, window.end)
    assert rows_in(engine) == [0, 1, 2]
    assert load(source, attempt.retry(), sink) == (3, 3)


def test_a_sampled_window_leaves_no_rows(sink: SqlSink, engine: Engine, attempt: TaskAttempt) -> None:
    with Source(3).watermark().open(attempt.context, sink=sink) as window:
        write(window, window.start, window.end)
        window.sampled()
    assert rows_in(engine) == []


# --- every crash ----------------------------------------------------------------------------------------------------


def test_two_runs_append_each_row_once_whenever_their_attempts_die(tmp_path: Path) -> None:
    numbers = iter(range(10**6))

    def two_runs() -> CrashWorld:
        world = CrashWorld(airflow=World(), source=Source(2), url=f"sqlite:///{tmp_path / str(next(numbers))}.db")
        engine = create_engine(world.url)
        ROWS.create(engine)
        engine.dispose()
        return world

    def load_two_runs(world: CrashWorld) -> None:
        for run in ("run-1", "run-2"):
            attempt = task_context(world=world.airflow, run_id=run, assets=[NUMBERS], retries=9)
            store = attempt.asset_stores[NUMBERS]
            world.follow(partial(mark_in, store))
            engine = create_engine(world.url)
            try:
                load(world.source, attempt, world.watch(WatchedSink(SqlSink(engine))))
            finally:
                engine.dispose()
            attempt.succeed()
            world.source.end = 4

    def rows(world: CrashWorld) -> list[int]:
        engine = create_engine(world.url)
        try:
            return rows_in(engine)
        finally:
            engine.dispose()

    oracles = [each_row_exactly_once(rows), mark_never_decreases]
    report = explore_crashes(load_two_runs, oracle=oracles, world=two_runs, max_pairs=40)
    assert len(report.points) > 40


# --- refused ------------------------------------------------------------------------------------------------------

ALL_TWICE: dict[str, Callable[[], Any]] = {
    "lookback": lambda: Source(3).watermark(lookback=2),
    "nulls": lambda: Source(3).watermark(nulls="keep"),
    "future": lambda: Source(3).watermark(future="clamp"),
    "token": lambda: watermark(NUMBERS, initial="a", cursor=Cursor.token()),
}


@pytest.mark.parametrize("what", ALL_TWICE)
def test_what_loads_a_row_twice_is_refused_when_the_dag_file_is_read(sink: SqlSink, what: str) -> None:
    with pytest.raises(SinkUnsafeError, match="each row is written once") as raised:
        ALL_TWICE[what]().task(sink=sink)(lambda window: None)
    assert raised.value.problem == "option"


def test_an_async_function_is_refused(sink: SqlSink) -> None:
    async def load_new(window: Any) -> None:
        """Load nothing."""

    with pytest.raises(SinkUnsafeError, match="would block its event loop"):
        Source(3).watermark().task(sink=sink)(load_new)


def test_observed_rows_that_nothing_tells_apart_are_refused_at_the_commit(
    sink: SqlSink, engine: Engine, attempt: TaskAttempt
) -> None:
    mark = watermark(NUMBERS, initial=0, delay=0)
    with pytest.raises(SinkUnsafeError, match="unique='id'"), mark.open(attempt.context, sink=sink) as window:
        for row in window.track([{"v": 1}], "v"):
            write(window, row["v"], row["v"] + 1)
    assert rows_in(engine) == []


def test_a_window_of_a_conf_and_a_staged_one_are_refused(sink: SqlSink, attempt: TaskAttempt) -> None:
    conf = {"watermark": {"watermark": {"from": 1, "to": 2}}}
    by_conf = task_context(assets=[NUMBERS], conf=conf)
    with pytest.raises(SinkUnsafeError, match="its conf names"):
        load(Source(3), by_conf, sink)
    with (
        pytest.raises(SinkUnsafeError, match="cannot be staged"),
        Source(3).watermark().open(attempt.context, sink=sink) as window,
    ):
        window.stage()


def test_a_watermark_without_a_sink_has_no_connection(attempt: TaskAttempt) -> None:
    with pytest.raises(WatermarkError, match="has no sink"), Source(3).watermark().open(attempt.context) as window:
        _ = window.connection


def test_a_delay_is_no_matter(sink: SqlSink, attempt: TaskAttempt) -> None:
    stamped = watermark(NUMBERS, initial="2026-01-01T00:00:00Z", delay=timedelta(minutes=1), name="stamped")
    with stamped.open(attempt.context, sink=sink) as window:
        write(window, 1, 2)
    with stamped.open(attempt.retry().context, sink=sink) as window:
        assert window.start > window.plan.cursor.parse("2026-01-02T00:00:00Z", what="a day")


# --- another sink, or none --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dies", [False, True])
def test_a_watermark_whose_sink_was_removed_is_refused_until_its_mark_is_set(
    sink: SqlSink, engine: Engine, attempt: TaskAttempt, *, dies: bool
) -> None:
    source = Source(3)
    if dies:
        with pytest.raises(BodyError):
            load(source, attempt, DiesAfterCommit(sink))
        later = attempt.retry()
    else:
        load(source, attempt, sink)
        attempt.succeed()
        later = attempt.next_run()
    source.end = 5
    with (
        pytest.raises(SinkUnsafeError, match="Give it the sink again") as raised,
        source.watermark().open(later.context),
    ):
        raise AssertionError
    assert raised.value.problem == "option"
    source.watermark().reset(later.context, 3)
    with source.watermark().open(later.retry().context) as window:
        assert (window.start, window.end) == (3, 5)


def test_a_retry_whose_sink_was_removed_does_not_load_its_window_again(sink: SqlSink, attempt: TaskAttempt) -> None:
    with pytest.raises(BodyError), Source(9).watermark().open(attempt.context, sink=sink) as window:
        for piece in window.split(3):
            write(piece, piece.start, piece.end)
            if piece.start == 3:
                raise BodyError
    with (
        pytest.raises(SinkUnsafeError, match="Give it the sink again"),
        Source(9).watermark().open(attempt.retry().context),
    ):
        raise AssertionError


@pytest.mark.parametrize("dies", [False, True])
def test_another_table_is_refused_until_the_old_one_is_back_or_the_mark_is_set(
    sink: SqlSink, engine: Engine, attempt: TaskAttempt, *, dies: bool
) -> None:
    source = Source(3)
    if dies:
        with pytest.raises(BodyError):
            load(source, attempt, DiesAfterCommit(sink))
    else:
        load(source, attempt, sink)
    attempt.succeed()
    later, other = attempt.next_run(), SqlSink(engine, table="others")
    source.end = 6
    for _ in range(2):
        with pytest.raises(SinkUnsafeError, match="has no position") as raised:
            load(source, later, other)
        assert raised.value.problem == "lost"
        later = later.retry()
    assert load(source, later, sink) == (3, 6)
    assert rows_in(engine) == list(range(6))
    later.succeed()
    again = later.next_run()
    source.end = 8
    source.watermark().reset(again.context, 6)
    assert load(source, again, other) == (6, 8)
    assert rows_in(engine) == list(range(8))
