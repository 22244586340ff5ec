"""Whose position it is that a loop finds in its sink, and what it does if a position is missing there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, delete, insert, select, update

from airflow_resume import checkpoint
from airflow_resume.errors import SinkUnsafeError, SourceChangedError, TokenExpiredError
from airflow_resume.loops import CursorToken, Page
from airflow_resume.sinks import SqlSink
from airflow_resume.store import MemoryStore
from airflow_resume.testing import TaskAttempt, task_context
from tests.support.sinks.places import ROWS, rows_in


class BodyError(Exception):
    """What a body raises."""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = create_engine(f"sqlite:///{tmp_path / 'sink.db'}")
    ROWS.create(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def other_engine(tmp_path: Path) -> Iterator[Engine]:
    engine = create_engine(f"sqlite:///{tmp_path / 'other.db'}")
    ROWS.create(engine)
    yield engine
    engine.dispose()


def load(sink: SqlSink, *, fail_at: int | None = None, numbers: Any = (1, 2, 3, 4, 5), **options: Any) -> list[int]:
    """Append what is new of the numbers; fail after the row of one of them is written."""
    given: list[int] = []
    with suppress(BodyError), checkpoint(list(numbers), name="rows", sink=sink, **options) as loop:
        for number in loop:
            given.append(number)
            loop.connection.execute(insert(ROWS), {"id": number})
            if number == fail_at:
                raise BodyError
    return given


# --- two scripts ----------------------------------------------------------------------------------------------------


def test_a_script_does_not_take_the_position_of_another_one_for_its_own(engine: Engine) -> None:
    first, second = MemoryStore(), MemoryStore()
    assert load(SqlSink(engine), store=first) == [1, 2, 3, 4, 5]
    for _ in range(2):
        with pytest.raises(SinkUnsafeError, match="belongs to another script, or to another store") as raised:
            load(SqlSink(engine), store=second, numbers=[11, 12])
        assert raised.value.problem == "foreign"
        assert "Give the loop another name" in str(raised.value)
        assert "script=" in str(raised.value)
    assert rows_in(engine) == [1, 2, 3, 4, 5]
    assert load(SqlSink(engine), store=first) == []


def test_nor_does_one_that_starts_over(engine: Engine) -> None:
    load(SqlSink(engine), store=MemoryStore())
    with pytest.raises(SinkUnsafeError, match="another script"):
        load(SqlSink(engine), store=MemoryStore(), restart=True)


def test_a_position_behind_which_there_are_no_rows_may_be_taken(engine: Engine) -> None:
    assert load(SqlSink(engine), store=MemoryStore(), fail_at=1) == [1]
    assert load(SqlSink(engine), store=MemoryStore()) == [1, 2, 3, 4, 5]


def test_a_script_that_names_itself_needs_no_store_that_outlives_it(engine: Engine) -> None:
    sink = SqlSink(engine, script="load_rows")
    assert load(sink, store=MemoryStore(), fail_at=3) == [1, 2, 3]
    assert load(sink, store=MemoryStore()) == [3, 4, 5]
    with pytest.raises(SinkUnsafeError, match=r"belongs to the script 'load_rows'"):
        load(SqlSink(engine, script="another"), store=MemoryStore())


def test_a_script_whose_store_was_lost_continues_when_it_gives_the_name_that_the_error_shows(engine: Engine) -> None:
    load(SqlSink(engine), store=MemoryStore(), fail_at=3)
    with pytest.raises(SinkUnsafeError) as raised:
        load(SqlSink(engine), store=MemoryStore())
    name = str(raised.value).partition("script='")[2].partition("'")[0]
    store = MemoryStore()
    assert load(SqlSink(engine, script=name), store=store, fail_at=4) == [3, 4]
    assert load(SqlSink(engine), store=store) == [4, 5]


def test_a_script_may_name_itself_later(engine: Engine) -> None:
    store = MemoryStore()
    load(SqlSink(engine), store=store, fail_at=3)
    assert load(SqlSink(engine, script="load_rows"), store=store, fail_at=4) == [3, 4]
    assert load(SqlSink(engine, script="load_rows"), store=MemoryStore()) == [4, 5]


def without_origin(sink: SqlSink, engine: Engine, store: Any) -> None:
    """Make the record and the position what an earlier release has written."""
    store.values["resume.loop.rows"].pop("origin")
    with engine.begin() as connection:
        position = json.loads(connection.scalar(select(sink.positions.c.position)) or "")
        del position["origin"]
        connection.execute(update(sink.positions).values(position=json.dumps(position)))


def test_a_position_of_an_earlier_release_is_read_by_its_script_and_refused_to_others(engine: Engine) -> None:
    sink, store = SqlSink(engine), MemoryStore()
    load(sink, store=store, fail_at=3)
    without_origin(sink, engine, store)
    with pytest.raises(SinkUnsafeError, match="another script"):
        load(sink, store=MemoryStore())
    assert load(sink, store=store, fail_at=4) == [3, 4]
    with pytest.raises(SinkUnsafeError, match="another script"):
        load(sink, store=MemoryStore())
    assert load(sink, store=store) == [4, 5]


def test_tasks_have_an_identity_of_their_own_and_need_no_name(engine: Engine) -> None:
    attempt = task_context(retries=3)
    load(SqlSink(engine), context=attempt.context, fail_at=3)
    attempt.context["task_state_store"].delete("resume.loop.rows")
    assert load(SqlSink(engine), context=attempt.retry().context) == [3, 4, 5]


@pytest.mark.parametrize("script", [1, ""])
def test_a_script_has_a_text_for_a_name(engine: Engine, script: Any) -> None:
    with pytest.raises(TypeError, match="script="):
        SqlSink(engine, script=script)


# --- another table, another database --------------------------------------------------------------------------------


@pytest.fixture
def attempt() -> TaskAttempt:
    return task_context(retries=9)


def test_a_retry_with_another_table_or_database_is_refused_until_the_old_one_is_back(
    engine: Engine, other_engine: Engine, attempt: TaskAttempt
) -> None:
    assert load(SqlSink(engine), context=attempt.context, fail_at=4) == [1, 2, 3, 4]
    for sink in (SqlSink(engine, table="others"), SqlSink(other_engine)):
        for _ in range(2):
            attempt = attempt.retry()
            with pytest.raises(SinkUnsafeError, match="has no position, and the record in its store says") as raised:
                load(sink, context=attempt.context)
            assert raised.value.problem == "lost"
            assert "clear the task" in str(raised.value)
    assert load(SqlSink(engine), context=attempt.retry().context) == [4, 5]
    assert rows_in(engine) == [1, 2, 3, 4, 5]
    assert rows_in(other_engine) == []


def test_one_that_is_done_is_refused_too(engine: Engine, attempt: TaskAttempt) -> None:
    load(SqlSink(engine), context=attempt.context)
    with pytest.raises(SinkUnsafeError, match="has no position"):
        load(SqlSink(engine, table="others"), context=attempt.retry().context)


def test_after_a_clear_the_loop_begins_anew_in_another_table(engine: Engine, attempt: TaskAttempt) -> None:
    load(SqlSink(engine), context=attempt.context, fail_at=4)
    with engine.begin() as connection:
        connection.execute(delete(ROWS))
    assert load(SqlSink(engine, table="others"), context=attempt.clear().context) == [1, 2, 3, 4, 5]


def test_a_script_begins_anew_when_it_says_so(engine: Engine) -> None:
    store = MemoryStore()
    load(SqlSink(engine), store=store, fail_at=4)
    with pytest.raises(SinkUnsafeError, match="pass restart=True"):
        load(SqlSink(engine, table="others"), store=store)
    assert load(SqlSink(engine, table="others"), store=store, restart=True) == [1, 2, 3, 4, 5]


def test_nothing_is_refused_if_nothing_was_done(engine: Engine, attempt: TaskAttempt) -> None:
    load(SqlSink(engine), context=attempt.context, fail_at=1)
    assert load(SqlSink(engine, table="others"), context=attempt.retry().context) == [1, 2, 3, 4, 5]


def test_an_attempt_that_died_while_it_took_airflows_position_over_leaves_it_taken_over(
    engine: Engine, attempt: TaskAttempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    with suppress(BodyError):
        for number in checkpoint([1, 2, 3, 4, 5], name="rows", context=attempt.context):
            if number == 3:
                raise BodyError
    attempt = attempt.retry()
    with monkeypatch.context() as patched, pytest.raises(OSError, match="gone"):
        patched.setattr("airflow_resume.sinks.transaction.SqlPosition.commit", fail)
        load(SqlSink(engine), context=attempt.context)
    assert load(SqlSink(engine), context=attempt.retry().context) == [3, 4, 5]


def fail(*_: object, **__: object) -> None:
    raise OSError("gone")


# --- a source that has changed --------------------------------------------------------------------------------------


def test_a_changed_source_is_refused_unless_it_is_said_that_the_loop_starts_over(
    engine: Engine, attempt: TaskAttempt
) -> None:
    sink = SqlSink(engine)
    load(sink, context=attempt.context, fail_at=3, fingerprint={"query": 1})
    for _ in range(2):
        attempt = attempt.retry()
        with pytest.raises(SourceChangedError, match="on_change='restart'"):
            load(sink, context=attempt.context, fingerprint={"query": 2})
    assert rows_in(engine) == [1, 2]
    given = load(sink, context=attempt.retry().context, fingerprint={"query": 2}, on_change="restart")
    assert given == [1, 2, 3, 4, 5]


def test_so_is_that_of_a_loop_inside_another_one(engine: Engine, attempt: TaskAttempt) -> None:
    def load_nested(attempt: TaskAttempt, query: int, fail_at: int | None) -> None:
        with checkpoint([10, 20], name="tens", sink=SqlSink(engine), context=attempt.context) as outer:
            for ten in outer:
                inner = checkpoint([1, 2, 3], name="ones", within=outer, fingerprint={"query": query})
                for one in inner:
                    outer.connection.execute(insert(ROWS), {"id": ten + one})
                    if ten + one == fail_at:
                        raise BodyError

    with pytest.raises(BodyError):
        load_nested(attempt, 1, 12)
    with pytest.raises(SourceChangedError):
        load_nested(attempt.retry(), 2, None)
    assert rows_in(engine) == [11]
    load_nested(attempt.retry().retry(), 1, None)
    assert rows_in(engine) == [11, 12, 13, 21, 22, 23]


class GoneError(Exception):
    """A token is too old."""


class Tokens:
    """An API with three pages, whose tokens may be too old."""

    def __init__(self) -> None:
        self.pages: dict[str | None, list[int]] = {None: [1, 2, 3], "b": [4, 5, 6]}
        self.is_gone = False

    def fetch(self, token: str | None) -> Page[int]:
        if token is not None and self.is_gone:
            self.is_gone = False
            raise GoneError
        return Page(self.pages[token], "b" if token is None else None)

    def source(self, **options: Any) -> CursorToken[int]:
        return CursorToken(self.fetch, expired=GoneError, **options)


def load_pages(engine: Engine, source: Any, fail_at: int | None = None, **options: Any) -> None:
    with suppress(BodyError), checkpoint(source, name="pages", sink=SqlSink(engine), **options) as loop:
        for page in loop:
            if loop.count == 0 and options.get("each") is None:
                loop.connection.execute(delete(ROWS))
            items = page.items if isinstance(page, Page) else [page]
            loop.connection.execute(insert(ROWS), [{"id": each} for each in items])
            if fail_at in items:
                raise BodyError


@pytest.mark.parametrize("in_one_attempt", [False, True])
def test_a_token_that_is_too_old_fails_unless_it_is_said_that_the_loop_starts_over(
    engine: Engine, attempt: TaskAttempt, *, in_one_attempt: bool
) -> None:
    api = Tokens()
    if not in_one_attempt:
        load_pages(engine, api.source(), 5, context=attempt.context)
    api.is_gone = True
    with pytest.raises(TokenExpiredError, match="on_expired='restart'"):
        load_pages(engine, api.source(), context=attempt.retry().context)
    assert rows_in(engine) == [1, 2, 3]
    api.is_gone = True
    load_pages(engine, api.source(on_expired="restart"), context=attempt.retry().retry().context)
    assert rows_in(engine) == [1, 2, 3, 4, 5, 6]


def test_a_page_that_has_changed_is_not_delivered_again(engine: Engine, attempt: TaskAttempt) -> None:
    api = Tokens()
    load_pages(engine, api.source(), 3, each=True, context=attempt.context)
    assert rows_in(engine) == [1, 2]
    api.pages[None] = [2, 3, 7]
    with pytest.raises(SourceChangedError, match="unknown which rows are not"):
        load_pages(engine, api.source(), each=True, context=attempt.retry().context)
    assert rows_in(engine) == [1, 2]


def test_without_a_sink_both_start_over_as_before(attempt: TaskAttempt) -> None:
    api = Tokens()
    api.is_gone = True
    given = [page.items for page in checkpoint(api.source(), name="pages", context=attempt.context)]
    assert given == [[1, 2, 3], [1, 2, 3], [4, 5, 6]]
    assert list(checkpoint([1], name="rows", context=attempt.context, fingerprint={"a": 1})) == [1]
    assert list(checkpoint([1], name="rows", context=attempt.retry().context, fingerprint={"a": 2})) == [1]
