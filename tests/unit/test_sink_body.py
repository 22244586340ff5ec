"""Loops in the body of a loop or a window with a sink: which may write with its connection, and which may not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from airflow.sdk import Asset
from sqlalchemy import Engine, create_engine, insert

from airflow_resume import checkpoint, watermark
from airflow_resume.errors import SinkUnsafeError
from airflow_resume.sinks import DeltaSink, SqlSink
from airflow_resume.testing import TaskAttempt, task_context
from tests.support.sinks.places import ROWS, rows_in

NUMBERS = Asset("numbers")
numbers = watermark(NUMBERS, initial=0, now=lambda: 3)
COUNTS_BY_ITSELF = "has an element in hand, and a position of its own"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = create_engine(f"sqlite:///{tmp_path / 'sink.db'}")
    ROWS.create(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def attempt() -> TaskAttempt:
    return task_context(retries=9)


def add(connection: Any, one: int) -> None:
    connection.execute(insert(ROWS), {"id": one})


def by_for(outer: Any, attempt: TaskAttempt) -> None:
    for one in checkpoint([1, 2, 3], name="ones", context=attempt.context):
        add(outer.connection, one)


def by_with(outer: Any, attempt: TaskAttempt) -> None:
    with checkpoint([1, 2, 3], name="ones", context=attempt.context) as inner:
        for one in inner:
            add(outer.connection, one)


def by_a_kept_connection(outer: Any, attempt: TaskAttempt) -> None:
    connection = outer.connection
    for one in checkpoint([1, 2, 3], name="ones", context=attempt.context):
        add(connection, one)


def by_map(outer: Any, attempt: TaskAttempt) -> None:
    for one in checkpoint([1, 2, 3], name="ones", context=attempt.context).map(lambda one: one, workers=1):
        add(outer.connection, one)


def by_manual_ack(outer: Any, attempt: TaskAttempt) -> None:
    with checkpoint([1, 2, 3], name="ones", ack="manual", context=attempt.context) as inner:
        for one in inner:
            add(outer.connection, one)
            inner.ack()


def by_a_loop_inside(outer: Any, attempt: TaskAttempt) -> None:
    middle = checkpoint([10], name="middle", context=attempt.context)
    for ten in middle:
        for one in checkpoint([1], name="ones", within=middle):
            add(outer.connection, ten + one)


def by_a_function(outer: Any, attempt: TaskAttempt) -> None:
    ones = iter(checkpoint([1, 2, 3], name="ones", context=attempt.context))
    for one in ones:
        by_for_of(outer, one)


def by_for_of(outer: Any, one: int) -> None:
    add(outer.connection, one)


HARM = [by_for, by_with, by_a_kept_connection, by_map, by_manual_ack, by_a_loop_inside, by_a_function]


@pytest.mark.parametrize("work", HARM, ids=lambda work: work.__name__)
def test_a_loop_with_a_position_of_its_own_may_not_write_with_the_connection_around_it(
    engine: Engine, attempt: TaskAttempt, work: Callable[[Any, TaskAttempt], None]
) -> None:
    with (
        pytest.raises(SinkUnsafeError, match=COUNTS_BY_ITSELF) as raised,
        checkpoint([10, 20], name="tens", sink=SqlSink(engine), context=attempt.context) as outer,
    ):
        for _ten in outer:
            work(outer, attempt)
    assert raised.value.problem == "use"
    assert rows_in(engine) == []


def test_nor_may_one_in_a_loop_within(engine: Engine, attempt: TaskAttempt) -> None:
    with (
        pytest.raises(SinkUnsafeError, match=COUNTS_BY_ITSELF),
        checkpoint([10], name="tens", sink=SqlSink(engine), context=attempt.context) as outer,
    ):
        for _ten in outer:
            for _one in checkpoint([1], name="ones", within=outer):
                by_for(outer, attempt)


def test_nor_may_one_with_another_sink(engine: Engine, attempt: TaskAttempt, tmp_path: Path) -> None:
    other = create_engine(f"sqlite:///{tmp_path / 'other.db'}")
    with (
        pytest.raises(SinkUnsafeError, match=COUNTS_BY_ITSELF),
        checkpoint([10], name="tens", sink=SqlSink(engine), context=attempt.context) as outer,
    ):
        for _ten in outer:
            for one in checkpoint([1], name="ones", sink=SqlSink(other), context=attempt.context):
                add(outer.connection, one)
    other.dispose()


def test_workers_of_a_loop_within_may_not_use_it_either(engine: Engine, attempt: TaskAttempt) -> None:
    with (
        pytest.raises(SinkUnsafeError, match=r"workers of the map\(\) of 'ones'"),
        checkpoint([10], name="tens", sink=SqlSink(engine), context=attempt.context) as outer,
    ):
        for _ten in outer:
            inner = checkpoint([1, 2], name="ones", within=outer)
            for _ in inner.map(lambda one: add(outer.connection, one), workers=2):
                pass
    assert rows_in(engine) == []


def test_nor_may_a_loop_in_a_window(engine: Engine) -> None:
    attempt = task_context(assets=[NUMBERS], retries=9)
    with (
        pytest.raises(SinkUnsafeError, match=COUNTS_BY_ITSELF),
        numbers.open(attempt.context, sink=SqlSink(engine)) as window,
    ):
        for one in checkpoint(range(window.start, window.end), name="ones", context=attempt.context):
            add(window.connection, one)
    assert rows_in(engine) == []


def test_nor_may_its_workers(engine: Engine) -> None:
    attempt = task_context(assets=[NUMBERS], retries=9)
    with (
        pytest.raises(SinkUnsafeError, match="The workers of the map"),
        numbers.open(attempt.context, sink=SqlSink(engine)) as window,
    ):
        ones = checkpoint(range(window.start, window.end), name="ones", context=attempt.context)
        for _ in ones.map(lambda one: add(window.connection, one), workers=2):
            pass
    assert rows_in(engine) == []


def test_nor_may_one_append_to_a_table_of_a_lake(attempt: TaskAttempt, tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    deltalake.write_deltalake(table, pa.table({"id": pa.array([], pa.int64())}))
    with (
        pytest.raises(SinkUnsafeError, match=COUNTS_BY_ITSELF),
        checkpoint([10], name="tens", sink=DeltaSink(table), context=attempt.context) as outer,
    ):
        for _ten in outer:
            kept = outer.connection
            for one in checkpoint([1, 2], name="ones", context=attempt.context):
                kept.append([{"id": one}])
    assert deltalake.DeltaTable(table).to_pyarrow_table().num_rows == 0


# --- what may -----------------------------------------------------------------------------------------------------


def test_a_loop_with_effects_of_its_own_may_run_there(engine: Engine, attempt: TaskAttempt) -> None:
    downloaded: list[list[int]] = []
    with checkpoint([10, 20], name="tens", sink=SqlSink(engine), context=attempt.context) as outer:
        for ten in outer:
            downloaded.append(list(checkpoint([1, 2], name=f"files-{ten}", context=attempt.context)))
            add(outer.connection, ten)
    assert downloaded == [[1, 2], [1, 2]]
    assert rows_in(engine) == [10, 20]


def test_a_loop_that_was_left_is_over(engine: Engine, attempt: TaskAttempt) -> None:
    with checkpoint([10, 20], name="tens", sink=SqlSink(engine), context=attempt.context) as outer:
        for ten in outer:
            for _one in checkpoint([1, 2], name=f"files-{ten}", context=attempt.context):
                break
            add(outer.connection, ten)
    assert rows_in(engine) == [10, 20]


def test_a_loop_with_a_sink_may_run_in_any_other_loop(engine: Engine, attempt: TaskAttempt) -> None:
    for ten in checkpoint([10, 20], name="tens", context=attempt.context):
        with checkpoint([1, 2], name=f"ones-{ten}", sink=SqlSink(engine), context=attempt.context) as loop:
            for one in loop:
                add(loop.connection, ten + one)
    assert rows_in(engine) == [11, 12, 21, 22]


def test_also_in_the_workers_of_a_map(engine: Engine, attempt: TaskAttempt) -> None:
    def work(ten: int) -> int:
        with checkpoint([1, 2], name=f"ones-{ten}", sink=SqlSink(engine), context=attempt.context) as loop:
            for one in loop:
                add(loop.connection, ten + one)
        return ten

    tens = checkpoint([10, 20], name="tens", context=attempt.context)
    assert list(tens.map(work, workers=1, ordered=True)) == [10, 20]
    assert rows_in(engine) == [11, 12, 21, 22]


def test_a_loop_with_effects_of_its_own_may_run_in_a_window(engine: Engine) -> None:
    attempt = task_context(assets=[NUMBERS], retries=9)
    with numbers.open(attempt.context, sink=SqlSink(engine)) as window:
        downloaded = list(checkpoint(range(window.start, window.end), name="files", context=attempt.context))
        add(window.connection, 1)
    assert downloaded == [0, 1, 2]
    assert rows_in(engine) == [1]


def test_a_window_and_a_loop_have_each_their_own_sink(engine: Engine, tmp_path: Path) -> None:
    attempt = task_context(assets=[NUMBERS], retries=9)
    other = create_engine(f"sqlite:///{tmp_path / 'other.db'}")
    ROWS.create(other)
    with numbers.open(attempt.context, sink=SqlSink(engine)) as window:
        for one in (loop := checkpoint([1, 2], name="ones", sink=SqlSink(other), context=attempt.context)):
            add(loop.connection, one)
        add(window.connection, 3)
    assert (rows_in(engine), rows_in(other)) == ([3], [1, 2])
    other.dispose()


def test_loops_of_other_threads_have_nothing_to_do_with_it(engine: Engine, attempt: TaskAttempt) -> None:
    with checkpoint([10, 20], name="tens", sink=SqlSink(engine), context=attempt.context) as outer:
        for ten in outer:
            with ThreadPoolExecutor(1) as threads:
                elements = iter(checkpoint([1], name=f"ones-{ten}", context=attempt.context))
                assert threads.submit(next, elements).result() == 1
                del elements
            add(outer.connection, ten)
    assert rows_in(engine) == [10, 20]
