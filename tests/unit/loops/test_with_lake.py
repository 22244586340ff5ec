"""A loop and a watermark that append to a table of a lake: what works, and what is refused before any effect."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Asset

from airflow_resume import checkpoint, watermark
from airflow_resume.errors import LoopError, SinkUnsafeError, SupersededError, WatermarkError
from airflow_resume.loops import CursorToken, Page, Skip
from airflow_resume.sinks import SqlSink
from airflow_resume.store import MemoryStore
from airflow_resume.testing import TaskAttempt, task_context
from tests.support.sinks.lakes import TABLES, Lake

PAGES = {None: ([1, 2], "b"), "b": ([3, 4], "c"), "c": ([5], None)}


def fetch(token: str | None) -> Page[int]:
    return Page(*PAGES[token])


class BodyError(Exception):
    """What a body raises."""


@pytest.fixture(params=TABLES)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    lake = TABLES[request.param](tmp_path)
    lake.make()
    return lake


@pytest.fixture
def attempt() -> TaskAttempt:
    return task_context(retries=9)


def load(lake: Lake, attempt: TaskAttempt, *, fail_at: int | None = None, **options: Any) -> list[int]:
    """Append what is new of five rows; fail after the row of an element is appended."""
    given: list[int] = []
    with checkpoint([1, 2, 3, 4, 5], name="rows", sink=lake.sink(), context=attempt.context, **options) as loop:
        for number in loop:
            given.append(number)
            loop.append([{"id": number}])
            if number == fail_at:
                raise BodyError
    return given


@pytest.mark.parametrize("every", [1, 2, timedelta(hours=1)], ids=str)
def test_after_a_failure_exactly_the_rest_is_appended(lake: Lake, attempt: TaskAttempt, every: Any) -> None:
    with suppress(BodyError):
        load(lake, attempt, fail_at=4, commit_every=every)
    committed = lake.ids()
    assert committed == list(range(1, {1: 4, 2: 3}.get(every, 1)))
    again = load(lake, attempt.retry(), commit_every=every)
    assert again == [number for number in range(1, 6) if number not in committed]
    assert lake.ids() == [1, 2, 3, 4, 5]


def test_several_elements_are_one_commit(lake: Lake, attempt: TaskAttempt) -> None:
    before = lake.commits()
    load(lake, attempt, commit_every=5)
    assert lake.commits() - before <= 5  # the claim, the opening, the rows, and two at the end


def test_elements_of_pages_are_committed_each(lake: Lake, attempt: TaskAttempt) -> None:
    with (
        suppress(BodyError),
        checkpoint(CursorToken(fetch), name="rows", sink=lake.sink(), context=attempt.context, each=True) as loop,
    ):
        for number in loop:
            loop.append([{"id": number}])
            if number == 4:
                raise BodyError
    assert lake.ids() == [1, 2, 3]


def test_rows_of_a_skipped_element_are_undone(lake: Lake, attempt: TaskAttempt) -> None:
    skip = Skip(on=(BodyError,))
    with checkpoint([1, 2, 3], name="rows", sink=lake.sink(), context=attempt.context, skip=skip) as loop:
        for number in loop:
            with loop.skipping():
                loop.append([{"id": number}])
                if number == 2:
                    raise BodyError
        assert loop.skipped == 1
    assert lake.ids() == [1, 3]


def test_nested_loops_append_to_one_commit(lake: Lake, attempt: TaskAttempt) -> None:
    with checkpoint(["a", "b"], name="outer", sink=lake.sink(), context=attempt.context, commit_every=10) as outer:
        for name in outer:
            outer.append([{"id": 0, "name": name}])
            with checkpoint([1, 2], name="inner", within=outer) as inner:
                for number in inner:
                    inner.append([{"id": number, "name": name}])
    assert lake.ids() == [0, 0, 1, 1, 2, 2]


def test_the_body_of_a_map_appends_and_its_workers_may_not(lake: Lake, attempt: TaskAttempt) -> None:
    refused: list[str] = []

    def fetched(number: int) -> dict[str, int]:
        try:
            loop.append([{"id": number}])
        except LoopError as error:
            refused.append(str(error))
        return {"id": number}

    with checkpoint([1, 2, 3], name="rows", sink=lake.sink(), context=attempt.context) as loop:
        for row in loop.map(fetched, workers=2):
            loop.append([row])
    assert lake.ids() == [1, 2, 3]
    assert len(refused) == 3


def test_an_ack_by_hand_commits(lake: Lake, attempt: TaskAttempt) -> None:
    with checkpoint([1, 2, 3], name="rows", sink=lake.sink(), context=attempt.context, ack="manual") as loop:
        for number in loop:
            loop.append([{"id": number}])
            if number == 2:
                loop.ack()
                assert lake.ids() == [1, 2]
        loop.ack()
    assert lake.ids() == [1, 2, 3]


def test_state_is_in_the_commit(lake: Lake, attempt: TaskAttempt) -> None:
    with (
        suppress(BodyError),
        checkpoint([1, 2, 3], name="rows", sink=lake.sink(), context=attempt.context) as loop,
    ):
        for number in loop:
            loop.append([{"id": number}])
            loop.state = {"sum": loop.state.get("sum", 0) + number}
            if number == 3:
                raise BodyError
    with checkpoint([1, 2, 3], name="rows", sink=lake.sink(), context=attempt.retry().context) as loop:
        assert loop.state == {"sum": 3}


def test_an_attempt_that_was_replaced_appends_nothing(lake: Lake, attempt: TaskAttempt) -> None:
    with (
        pytest.raises(SupersededError),
        checkpoint([1, 2, 3, 4, 5], name="rows", sink=lake.sink(), context=attempt.context) as loop,
    ):
        for number in loop:
            if number == 3:
                load(lake, attempt.retry())
            loop.append([{"id": number}])
    assert lake.ids() == [1, 2, 3, 4, 5]


def test_a_cleared_task_starts_over_or_resumes(lake: Lake, attempt: TaskAttempt) -> None:
    load(lake, attempt)
    assert load(lake, attempt.clear(), on_clear="resume") == []
    assert lake.ids() == [1, 2, 3, 4, 5]


# --- refused --------------------------------------------------------------------------------------------------------


def test_an_event_loop_is_refused_before_anything_is_claimed(lake: Lake) -> None:
    async def awaited() -> None:
        async with checkpoint([1], name="rows", sink=lake.sink(), store=MemoryStore()):
            pass

    before = lake.commits()
    with pytest.raises(SinkUnsafeError, match="event loop"):
        asyncio.run(awaited())
    assert lake.commits() == before


def test_at_most_once_is_refused_before_anything_is_claimed(lake: Lake) -> None:
    before = lake.commits()
    with pytest.raises(SinkUnsafeError, match="at_most_once"):
        checkpoint([1], name="rows", sink=lake.sink(), store=MemoryStore(), delivery="at_most_once")
    assert lake.commits() == before


def test_append_is_refused_without_a_sink_and_with_one_that_has_a_connection(tmp_path: Path) -> None:
    with checkpoint([1], name="rows", store=MemoryStore()) as loop:
        for _ in loop:
            with pytest.raises(LoopError, match="has no sink"):
                loop.append([{"id": 1}])
    sink = SqlSink(f"sqlite:///{tmp_path / 'x.db'}")
    with checkpoint([1], name="rows", store=MemoryStore(), sink=sink) as loop:
        for _ in loop:
            with pytest.raises(TypeError, match=r"for the tables of a lake.*\nUse it"):
                loop.append([{"id": 1}])
    sink.engine.dispose()


# --- watermarks -----------------------------------------------------------------------------------------------------

FLIGHTS = Asset("flights")


def test_a_watermark_appends_what_is_new(lake: Lake) -> None:
    source = list(range(4))
    new = watermark(FLIGHTS, initial=0, now=lambda: len(source))

    @new.task(sink=lake.sink())
    def load_new(window: Any) -> None:
        window.append([{"id": each} for each in source[window.start : window.end]])

    attempt = task_context(assets=[FLIGHTS])
    with attempt:
        load_new.function()
    attempt.succeed()
    source += [4, 5]
    with attempt.next_run():
        load_new.function()
    assert lake.ids() == [0, 1, 2, 3, 4, 5]


def test_a_window_without_a_sink_has_no_append() -> None:
    with (
        pytest.raises(WatermarkError, match="has no sink"),
        watermark(FLIGHTS, initial=0, now=lambda: 3).open(task_context(assets=[FLIGHTS]).context) as window,
    ):
        window.append([{"id": 1}])
