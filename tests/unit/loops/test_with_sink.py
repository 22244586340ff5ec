"""A loop with a sink: what is committed when, what a later attempt finds, and what is refused by name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, delete, insert, select, text

from airflow_resume import checkpoint
from airflow_resume.errors import (
    LoopError,
    LoopStoppedError,
    SinkUnsafeError,
    StalledError,
    SupersededError,
    UsageError,
)
from airflow_resume.loops import CursorToken, Page, Skip
from airflow_resume.sinks import SqlSink
from airflow_resume.store import MemoryStore
from airflow_resume.testing import TaskAttempt, World, task_context
from tests.support.sinks.places import ROWS, rows_in

PAGES = {None: ([1, 2], "b"), "b": ([3, 4], "c"), "c": ([5], None)}


def fetch(token: str | None) -> Page[int]:
    return Page(*PAGES[token])


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
    return task_context(retries=9)


def add(loop: Any, *ids: int) -> None:
    loop.connection.execute(insert(ROWS), [{"id": each} for each in ids])


def load(sink: SqlSink, attempt: TaskAttempt, *, fail_at: int | None = None, **options: Any) -> list[int]:
    """Append what is new of five rows; fail after the rows of an element are written."""
    given: list[int] = []
    with checkpoint([1, 2, 3, 4, 5], name="rows", sink=sink, context=attempt.context, **options) as loop:
        for number in loop:
            given.append(number)
            add(loop, number)
            if number == fail_at:
                raise BodyError
    return given


def positions(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        return list(connection.scalars(text("SELECT position FROM airflow_resume_positions")))


# --- exactly once -----------------------------------------------------------------------------------------------


def test_rows_and_position_are_committed_with_each_element(sink: SqlSink, engine: Engine, attempt: TaskAttempt) -> None:
    seen = []
    with checkpoint(CursorToken(fetch), name="rows", sink=sink, context=attempt.context) as loop:
        for page in loop:
            seen.append(rows_in(engine))
            add(loop, *page.items)
    assert seen == [[], [1, 2], [1, 2, 3, 4]]
    assert rows_in(engine) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("commit_every", [1, 2, 3, 10, timedelta(0), timedelta(hours=1)])
@pytest.mark.parametrize("fail_at", [1, 2, 3, 4, 5])
def test_an_error_undoes_the_element_in_hand_and_a_retry_writes_each_row_once(
    sink: SqlSink, engine: Engine, attempt: TaskAttempt, fail_at: int, commit_every: Any
) -> None:
    with pytest.raises(BodyError):
        load(sink, attempt, fail_at=fail_at, commit_every=commit_every)
    kept = rows_in(engine)
    assert fail_at not in kept
    again = load(sink, attempt.retry(), commit_every=commit_every)
    assert kept + again == [1, 2, 3, 4, 5]
    assert rows_in(engine) == [1, 2, 3, 4, 5]


def test_elements_are_committed_together(sink: SqlSink, engine: Engine, attempt: TaskAttempt) -> None:
    seen = []
    with checkpoint(range(5), name="rows", sink=sink, commit_every=2, context=attempt.context) as loop:
        for number in loop:
            seen.append(rows_in(engine))
            add(loop, number)
    assert seen == [[], [], [0, 1], [0, 1], [0, 1, 2, 3]]


def test_a_break_undoes_the_element_in_hand(sink: SqlSink, engine: Engine, attempt: TaskAttempt) -> None:
    for _ in range(2):
        loop = checkpoint(range(5), name="rows", sink=sink, context=attempt.context)
        for number in loop:
            add(loop, number)
            if number == 2:
                break
        del loop
        assert rows_in(engine) == [0, 1]
        attempt = attempt.retry()


def test_with_acks_by_hand_an_ack_commits(sink: SqlSink, engine: Engine, attempt: TaskAttempt) -> None:
    def load_in_blocks(attempt: TaskAttempt, *, fails: bool) -> None:
        with checkpoint(range(5), name="rows", sink=sink, ack="manual", context=attempt.context) as loop:
            for number in loop:
                add(loop, number)
                if number == 3 and fails:
                    raise BodyError
                if number % 2:
                    loop.ack()
            loop.ack()

    with pytest.raises(BodyError):
        load_in_blocks(attempt, fails=True)
    assert rows_in(engine) == [0, 1]
    load_in_blocks(attempt.retry(), fails=False)
    assert rows_in(engine) == [0, 1, 2, 3, 4]


def test_rows_one_by_one_continue_within_the_page(sink: SqlSink, engine: Engine, attempt: TaskAttempt) -> None:
    for fail_at in (4, 2, None):
        with suppress(BodyError):
            loop: Any
            with checkpoint(CursorToken(fetch), name="rows", sink=sink, each=True, context=attempt.context) as loop:
                for number in loop:
                    add(loop, number)
                    if number == fail_at:
                        raise BodyError
        attempt = attempt.retry()
    assert rows_in(engine) == [1, 2, 3, 4, 5]


def test_the_state_is_in_the_same_commit(sink: SqlSink, engine: Engine, attempt: TaskAttempt) -> None:
    def total(attempt: TaskAttempt, fail_at: int | None) -> int:
        with checkpoint(range(1, 6), name="rows", sink=sink, commit_every=2, context=attempt.context) as loop:
            for number in loop:
                add(loop, number)
                loop.state["sum"] = loop.state.get("sum", 0) + number
                if number == fail_at:
                    raise BodyError
        return int(loop.state["sum"])

    for fail_at in (4, 5):
        with pytest.raises(BodyError):
            total(attempt, fail_at)
        attempt = attempt.retry()
    assert total(attempt, None) == 15 == sum(rows_in(engine))


def test_rows_after_the_loop_are_committed_with_the_state_at_the_end_of_the_with(
    sink: SqlSink, engine: Engine, attempt: TaskAttempt
) -> None:
    def load_with_summary(attempt: TaskAttempt, *, fails: bool) -> None:
        with checkpoint([1, 2], name="rows", sink=sink, context=attempt.context) as loop:
            for number in loop:
                add(loop, number)
            if "summed" not in loop.state:
                add(loop, 100)
                loop.state["summed"] = True
                if fails:
                    raise BodyError

    with pytest.raises(BodyError):
        load_with_summary(attempt, fails=True)
    assert rows_in(engine) == [1, 2]
    for _ in range(2):
        attempt = attempt.retry()
        load_with_summary(attempt, fails=False)
        assert rows_in(engine) == [1, 2, 100]


def test_a_map_commits_in_the_thread_of_its_consumer(sink: SqlSink, engine: Engine, attempt: TaskAttempt) -> None:
    def load_doubled(attempt: TaskAttempt, fail_at: int | None) -> None:
        with checkpoint(range(20), name="rows", sink=sink, context=attempt.context) as loop:
            for result in loop.map(lambda number: number * 2, workers=4):
                add(loop, result)
                if result == fail_at:
                    raise BodyError

    for fail_at in (10, 30, None):
        with suppress(BodyError):
            load_doubled(attempt, fail_at)
        attempt = attempt.retry()
    assert rows_in(engine) == list(range(0, 40, 2))


def test_a_map_that_is_left_by_a_break_in_a_with_undoes_the_result_in_hand(
    sink: SqlSink, engine: Engine, attempt: TaskAttempt
) -> None:
    for _ in range(2):
        with checkpoint(range(3), name="rows", sink=sink, context=attempt.context) as loop:
            for result in loop.map(lambda number: number, workers=1):
                add(loop, result)
                if result == 1:
                    break
        assert rows_in(engine) == [0]
        attempt = attempt.retry()


def test_a_worker_of_a_map_may_not_use_the_connection(sink: SqlSink, attempt: TaskAttempt) -> None:
    loop = checkpoint([1], name="rows", sink=sink, context=attempt.context)
    with pytest.raises(LoopError, match="which is that of one transaction"):
        list(loop.map(lambda _number: loop.connection, workers=1))


# --- loops in loops -----------------------------------------------------------------------------------------------


def load_nested(sink: SqlSink, attempt: TaskAttempt, fail_at: int | None = None) -> None:
    with checkpoint([10, 20], name="tens", sink=sink, context=attempt.context) as outer:
        for ten in outer:
            with checkpoint([1, 2, 3], name="ones", within=outer) as inner:
                for one in inner:
                    add(inner, ten + one)
                    if ten + one == fail_at:
                        raise BodyError
            add(outer, ten)


def test_loops_in_loops_have_one_transaction(sink: SqlSink, engine: Engine, attempt: TaskAttempt) -> None:
    for fail_at in (12, 13, 21, 23, None):
        with suppress(BodyError):
            load_nested(sink, attempt, fail_at)
        attempt = attempt.retry()
    assert rows_in(engine) == [10, 11, 12, 13, 20, 21, 22, 23]


def test_an_inner_loop_may_be_left_by_a_break_and_the_element_around_it_commits(
    sink: SqlSink, engine: Engine, attempt: TaskAttempt
) -> None:
    outer = checkpoint([10, 20], name="tens", sink=sink, context=attempt.context)
    for ten in outer:
        for one in checkpoint([1, 2, 3], name="ones", within=outer):
            add(outer, ten + one)
            if one == 2:
                break
    assert rows_in(engine) == [11, 12, 21, 22]


def test_but_nothing_is_committed_while_an_element_of_it_is_half_done(
    sink: SqlSink, engine: Engine, attempt: TaskAttempt
) -> None:
    outer = checkpoint([10], name="tens", sink=sink, context=attempt.context)
    with pytest.raises(SinkUnsafeError, match="left in the middle of an element"):
        for ten in outer:
            with suppress(BodyError):
                for one in checkpoint([1, 2], name="ones", within=outer):
                    add(outer, ten + one)
                    raise BodyError
            for one in checkpoint([3, 4], name="others", within=outer):
                add(outer, ten + one)
    del outer
    assert rows_in(engine) == []


# --- skipped ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit_every", [1, 3])
def test_the_rows_of_a_skipped_element_are_undone(
    sink: SqlSink, engine: Engine, attempt: TaskAttempt, commit_every: int
) -> None:
    with checkpoint(
        range(5), name="rows", sink=sink, skip=Skip(on=(BodyError,)), commit_every=commit_every, context=attempt.context
    ) as loop:
        for number in loop:
            with loop.skipping():
                add(loop, number)
                if number in {1, 3}:
                    raise BodyError
    assert rows_in(engine) == [0, 2, 4]
    assert loop.skipped == 2


# --- the sink counts ------------------------------------------------------------------------------------------------


def test_if_a_backup_was_restored_the_sink_counts(
    sink: SqlSink, engine: Engine, attempt: TaskAttempt, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(BodyError):
        load(sink, attempt, fail_at=2)
    with engine.begin() as connection:
        backup = connection.execute(sink.positions.select()).mappings().one()
    with pytest.raises(BodyError):
        load(sink, attempt.retry(), fail_at=4)
    with engine.begin() as connection:
        connection.execute(delete(ROWS).where(ROWS.c.id > 1))
        connection.execute(sink.positions.update().values(**backup))
    assert load(sink, attempt.retry().retry()) == [2, 3, 4, 5]
    assert "the sink stands at 1 elements done, and Airflow's record at 3 elements done. The sink counts" in caplog.text
    assert rows_in(engine) == [1, 2, 3, 4, 5]


def test_if_the_backup_is_from_before_the_first_commit_the_task_is_cleared(
    sink: SqlSink, engine: Engine, attempt: TaskAttempt
) -> None:
    with pytest.raises(BodyError):
        load(sink, attempt, fail_at=4)
    with engine.begin() as connection:
        connection.execute(delete(ROWS))
        connection.execute(delete(sink.positions))
    with pytest.raises(SinkUnsafeError, match="If that was restored to before the first commit"):
        load(sink, attempt.retry())
    assert load(sink, attempt.retry().clear()) == [1, 2, 3, 4, 5]
    assert rows_in(engine) == [1, 2, 3, 4, 5]


def test_a_record_of_airflow_that_was_deleted_by_hand_changes_nothing(
    sink: SqlSink, engine: Engine, attempt: TaskAttempt
) -> None:
    with pytest.raises(BodyError):
        load(sink, attempt, fail_at=4)
    attempt.context["task_state_store"].delete("resume.loop.rows")
    assert load(sink, attempt.retry()) == [4, 5]


def test_a_loop_that_gets_a_sink_takes_the_position_of_airflow_over(
    sink: SqlSink, engine: Engine, attempt: TaskAttempt, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(BodyError):
        for number in checkpoint([1, 2, 3, 4, 5], name="rows", context=attempt.context):
            if number == 3:
                raise BodyError
    assert load(sink, attempt.retry()) == [3, 4, 5]
    assert "takes over that of Airflow's record" in caplog.text


def test_a_loop_whose_sink_was_removed_is_refused_until_it_is_cleared(sink: SqlSink, attempt: TaskAttempt) -> None:
    with pytest.raises(BodyError):
        load(sink, attempt, fail_at=4)
    with pytest.raises(SinkUnsafeError, match="Give it the sink again, or clear the task"):
        list(checkpoint([1, 2, 3, 4, 5], name="rows", context=attempt.retry().context))
    cleared = attempt.retry().clear()
    assert list(checkpoint([1, 2, 3, 4, 5], name="rows", context=cleared.context)) == [1, 2, 3, 4, 5]


def test_a_retry_of_a_loop_that_is_done_writes_nothing(sink: SqlSink, engine: Engine, attempt: TaskAttempt) -> None:
    load(sink, attempt)
    assert load(sink, attempt.retry()) == []
    assert rows_in(engine) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("on_clear", "again"), [("restart", [1, 2, 3, 4, 5]), ("resume", [3, 4, 5])])
def test_a_cleared_task_starts_over_or_continues(
    sink: SqlSink, attempt: TaskAttempt, on_clear: Any, again: list[int]
) -> None:
    with pytest.raises(BodyError):
        load(sink, attempt, fail_at=3)
    assert load(sink, attempt.clear(), on_clear=on_clear) == again


def test_a_loop_that_starts_over_can_delete_its_rows_in_the_first_transaction(
    sink: SqlSink, engine: Engine, attempt: TaskAttempt
) -> None:
    def load_afresh(attempt: TaskAttempt, fail_at: int | None = None) -> None:
        with checkpoint([1, 2, 3], name="rows", sink=sink, context=attempt.context) as loop:
            for number in loop:
                if loop.count == 0:
                    loop.connection.execute(delete(ROWS))
                add(loop, number)
                if number == fail_at:
                    raise BodyError

    load_afresh(attempt)
    cleared = attempt.clear()
    for fail_at in (1, 2):
        with pytest.raises(BodyError):
            load_afresh(cleared, fail_at)
        cleared = cleared.retry()
    load_afresh(cleared)
    assert rows_in(engine) == [1, 2, 3]


def test_a_run_that_was_deleted_and_made_again_does_its_work_again(sink: SqlSink) -> None:
    world = World()
    load(sink, task_context(world=world))
    world.recreate_runs()
    assert load(sink, task_context(world=world)) == [1, 2, 3, 4, 5]


def test_two_tasks_have_positions_of_their_own(sink: SqlSink, engine: Engine) -> None:
    for task_id in ("a", "b"):
        assert len(load(sink, task_context(task_id=task_id))) == 5
    assert len(positions(engine)) == 2


def test_stalls_are_counted_in_the_sink(sink: SqlSink, engine: Engine, attempt: TaskAttempt) -> None:
    for _ in range(3):
        loop = checkpoint([1, 2], name="rows", sink=sink, context=attempt.context, store=None)
        iterator = iter(loop)
        next(iterator)
        died: Any = loop._run.loop.session.keeper
        died._sink._connection.close()  # as if the process were gone
        loop._run.loop.is_closed = True
        attempt = attempt.retry()
    with pytest.raises(StalledError):
        load(sink, attempt)


# --- who may commit -------------------------------------------------------------------------------------------------


def test_a_frozen_attempt_that_wakes_commits_nothing(sink: SqlSink, engine: Engine, attempt: TaskAttempt) -> None:
    loop = checkpoint([1, 2, 3], name="rows", sink=sink, context=attempt.context)
    with pytest.raises(SupersededError):
        for number in loop:
            if number == 2:
                assert load(sink, attempt.retry()) == [2, 3, 4, 5]
            add(loop, number)
    assert rows_in(engine) == [1, 2, 3, 4, 5]


def test_a_script_that_runs_twice_has_each_row_once(sink: SqlSink, engine: Engine) -> None:
    store = MemoryStore()
    first = checkpoint([1, 2, 3], name="rows", sink=sink, store=store)
    with pytest.raises(SupersededError):
        for number in first:
            if number == 2:
                with checkpoint([1, 2, 3], name="rows", sink=sink, store=store) as second:
                    for other in second:
                        add(second, other)
            add(first, number)
    assert rows_in(engine) == [1, 2, 3]


def test_two_loops_of_one_name_are_refused_and_the_first_one_goes_on(
    sink: SqlSink, engine: Engine, attempt: TaskAttempt
) -> None:
    loop = checkpoint([1, 2], name="rows", sink=sink, context=attempt.context)
    for number in loop:
        with pytest.raises(UsageError, match="used twice"):
            load(sink, attempt)
        add(loop, number)
    assert rows_in(engine) == [1, 2]


def test_a_task_that_is_told_to_stop_commits_what_is_acked(sink: SqlSink, engine: Engine, attempt: TaskAttempt) -> None:
    loop = checkpoint([1, 2, 3], name="rows", sink=sink, commit_every=10, context=attempt.context, on_shutdown="fail")
    with pytest.raises(LoopStoppedError):
        for number in loop:
            add(loop, number)
            if number == 2:
                loop._run.loop.session.stop_request.make()
    assert rows_in(engine) == [1, 2]
    assert load(sink, attempt.retry()) == [3, 4, 5]


# --- refused ------------------------------------------------------------------------------------------------------


REFUSED: dict[str, Callable[[SqlSink], object]] = {
    "at most once": lambda sink: checkpoint([1], name="rows", sink=sink, delivery="at_most_once"),
    "async for": lambda sink: checkpoint([1], name="rows", sink=sink).__aiter__(),
    "amap": lambda sink: checkpoint([1], name="rows", sink=sink).amap(None, workers=1),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_exactly_once_is_refused_by_name(sink: SqlSink, what: str) -> None:
    with pytest.raises((SinkUnsafeError, TypeError)) as raised:
        REFUSED[what](sink)
    assert what == "amap" or str(raised.value).count("\n") == 1


def test_an_async_with_is_refused(sink: SqlSink) -> None:
    with pytest.raises(SinkUnsafeError, match="block the event loop"):
        checkpoint([1], name="rows", sink=sink).__aenter__().send(None)


@pytest.mark.parametrize("options", [{"commit_every": 0}, {"commit_every": True}, {"commit_every": timedelta(-1)}])
def test_wrong_numbers_are_refused_at_the_call(sink: SqlSink, options: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        checkpoint([1], name="rows", sink=sink, **options)


def test_what_is_no_sink_is_refused_at_the_call(engine: Engine) -> None:
    with pytest.raises(TypeError, match=r"must be a sink, such as SqlSink"):
        checkpoint([1], name="rows", sink=engine)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="how often a sink commits"):
        checkpoint([1], name="rows", commit_every=5)
    outer = checkpoint([1], name="rows")
    with pytest.raises(ValueError, match="sink cannot be chosen for 'inner'"):
        checkpoint([1], name="inner", within=outer, sink=SqlSink(engine))


def test_a_loop_without_a_sink_has_no_connection(attempt: TaskAttempt) -> None:
    with checkpoint([1], name="rows", context=attempt.context) as loop, pytest.raises(LoopError, match="has no sink"):
        _ = loop.connection


def test_a_closed_loop_has_none_either(sink: SqlSink, attempt: TaskAttempt) -> None:
    with checkpoint([1], name="rows", sink=sink, context=attempt.context) as loop:
        list(loop)
    with pytest.raises(LoopError, match="is over"):
        _ = loop.connection


def test_the_log_and_the_record_show_a_loop_with_a_sink(
    sink: SqlSink, engine: Engine, attempt: TaskAttempt, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    load(sink, attempt)
    stored = attempt.context["task_state_store"].get("resume.loop.rows")
    assert stored["n"] == 5
    assert stored["done"] is True
    assert stored["sink"] is True
    with engine.connect() as connection:
        identity = connection.scalar(select(sink.positions.c.identity))
    assert str(identity).endswith('"resume.loop.rows"]')


# --- before the first element, and after an ack ---------------------------------------------------------------------


def test_the_connection_is_refused_before_the_first_element(
    sink: SqlSink, engine: Engine, attempt: TaskAttempt
) -> None:
    with (
        pytest.raises(SinkUnsafeError, match="before its first element") as raised,
        checkpoint([1], name="rows", sink=sink, context=attempt.context) as loop,
    ):
        add(loop, 100)
    assert raised.value.problem == "use"
    assert rows_in(engine) == []


def test_a_row_after_the_ack_of_its_element_is_refused(sink: SqlSink, engine: Engine, attempt: TaskAttempt) -> None:
    with (
        pytest.raises(SinkUnsafeError, match=r"after ack\(\) in the same element") as raised,
        checkpoint([1, 2], name="rows", sink=sink, ack="manual", context=attempt.context) as loop,
    ):
        for number in loop:
            add(loop, number)
            loop.ack()
            add(loop, number * 10)
    assert raised.value.problem == "use"
    assert rows_in(engine) == [1]


# --- after the loop was left ----------------------------------------------------------------------------------------


def broken(loop: Any) -> Any:
    for number in loop:
        add(loop, number)
        if number == 2:
            return loop.connection
    raise AssertionError


def left_in_a_map(loop: Any) -> Any:
    for number in loop.map(lambda number: number, workers=1):
        add(loop, number)
        if number == 2:
            break


def suppressed(loop: Any) -> None:
    with suppress(BodyError):
        for number in loop:
            add(loop, number)
            if number == 2:
                raise BodyError


LEFT: dict[str, Callable[[Any], object]] = {
    "break": broken,
    "a swallowed error": suppressed,
    "in a map": left_in_a_map,
}


@pytest.mark.parametrize("ack", ["each", "manual"])
@pytest.mark.parametrize("how", LEFT)
def test_what_is_written_after_a_loop_was_left_is_refused(
    sink: SqlSink, engine: Engine, attempt: TaskAttempt, how: str, ack: Any
) -> None:
    if ack == "manual" and how == "in a map":
        pytest.skip("refused")
    with (
        pytest.raises(SinkUnsafeError, match="was left before its end") as raised,
        checkpoint([1, 2, 3], name="rows", sink=sink, context=attempt.context, ack=ack) as loop,
    ):
        LEFT[how](loop)
        add(loop, 100)
    assert raised.value.problem == "use"
    assert rows_in(engine) == ([1] if ack == "each" else [])
    with checkpoint([1, 2, 3], name="rows", sink=sink, context=attempt.retry().context) as loop:
        for number in loop:
            add(loop, number)
        add(loop, 100)
    assert rows_in(engine) == [1, 2, 3, 100]


def test_so_is_what_is_written_with_a_connection_that_was_kept(
    sink: SqlSink, engine: Engine, attempt: TaskAttempt
) -> None:
    with (
        pytest.raises(SinkUnsafeError, match="was left before its end"),
        checkpoint([1, 2, 3], name="rows", sink=sink, context=attempt.context) as loop,
    ):
        kept = broken(loop)
        kept.execute(insert(ROWS), {"id": 100})
    assert rows_in(engine) == [1]


def test_a_driver_that_was_kept_cannot_move_rows_into_a_later_commit(
    sink: SqlSink, engine: Engine, attempt: TaskAttempt
) -> None:
    with checkpoint([1, 2, 3], name="rows", sink=sink, context=attempt.context) as loop:
        kept: Any = None
        for number in loop:
            add(loop, number)
            kept = loop.connection.connection.dbapi_connection
            if number == 2:
                break
        kept.execute("INSERT INTO flights (id) VALUES (100)")
    assert rows_in(engine) == [1]


def test_nor_is_it_given_by_a_connection_that_was_kept(sink: SqlSink, engine: Engine, attempt: TaskAttempt) -> None:
    with checkpoint([1, 2, 3], name="rows", sink=sink, context=attempt.context) as loop:
        kept = broken(loop)
        with pytest.raises(SinkUnsafeError, match="was left before its end"):
            print(kept.connection)
    assert rows_in(engine) == [1]


def test_a_loop_that_is_left_and_writes_nothing_more_is_no_error(
    sink: SqlSink, engine: Engine, attempt: TaskAttempt
) -> None:
    with checkpoint([1, 2, 3], name="rows", sink=sink, context=attempt.context) as loop:
        broken(loop)
    assert rows_in(engine) == [1]


def test_an_iterator_that_was_kept_can_be_continued(sink: SqlSink, engine: Engine, attempt: TaskAttempt) -> None:
    with checkpoint([1, 2, 3], name="rows", sink=sink, context=attempt.context) as loop:
        elements = iter(loop)
        for number in elements:
            add(loop, number)
            if number == 2:
                break
        for number in elements:
            add(loop, number)
    assert rows_in(engine) == [1, 2, 3]


def test_an_inner_loop_that_was_left_changes_nothing_for_the_one_around_it(
    sink: SqlSink, engine: Engine, attempt: TaskAttempt
) -> None:
    with checkpoint([10, 20], name="tens", sink=sink, context=attempt.context) as outer:
        for ten in outer:
            with checkpoint([1, 2, 3], name="ones", within=outer) as inner:
                for one in inner:
                    add(inner, ten + one)
                    if one == 2:
                        break
            add(outer, ten)
    assert rows_in(engine) == [10, 11, 12, 20, 21, 22]
