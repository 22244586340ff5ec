"""Loops whose worker is drained without a signal: as after SIGTERM, the same try goes on elsewhere."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRescheduleException

from airflow_resume import checkpoint
from airflow_resume.errors import LoopStoppedError
from airflow_resume.loops import Checkpoint
from airflow_resume.testing import TaskAttempt, task_context
from tests.support.drained import VARIABLE, on_clock, touch

SECOND = timedelta(seconds=1)
NEVER = -1


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "drain"
    monkeypatch.setenv(VARIABLE, str(file))
    return file


def loop_of(attempt: TaskAttempt, source: Any, **options: Any) -> Checkpoint[Any]:
    return on_clock(checkpoint(source, name="l", context=attempt.context, **options), attempt.world.clock)


class Drains:
    """Bodies of a second each; in one of them the file is touched."""

    def __init__(self, file: Path, attempt: TaskAttempt, number: int, *, takes: timedelta = SECOND) -> None:
        self.file, self.attempt, self.number, self.takes = file, attempt, number, takes
        self.seen: list[int] = []

    def body(self, number: int) -> int:
        self.seen.append(number)
        if number == self.number:
            touch(self.file, self.attempt.world.clock.now)
        self.attempt.world.clock.advance(self.takes)
        return number


def go(drains: Drains, source: Any = range(6), **options: Any) -> list[int]:
    for number in loop_of(drains.attempt, source, **options):
        drains.body(number)
    return drains.seen


def leaves(drains: Drains, way: Callable[..., Any], **options: Any) -> TaskAttempt:
    """The attempt is drained; the next one, at the time for which it was rescheduled."""
    with pytest.raises(AirflowRescheduleException) as raised:
        way(drains, **options)
    clock = drains.attempt.world.clock
    assert raised.value.reschedule_date - clock.now() >= timedelta(seconds=10)
    drains.attempt.world.come_back(raised.value.reschedule_date)
    return drains.attempt.reschedule()


# --- every way to loop ----------------------------------------------------------------------------------------


def by_hand(drains: Drains, source: Any = range(6), **options: Any) -> list[int]:
    with loop_of(drains.attempt, source, ack="manual") as loop:
        for number in loop:
            drains.body(number)
            loop.ack()
    return drains.seen


def by_hand_at_the_end(drains: Drains, source: Any = range(6), **options: Any) -> list[int]:
    with loop_of(drains.attempt, source, ack="manual") as loop:
        for number in loop:
            drains.body(number)
        loop.ack()
    return drains.seen


def mapped(drains: Drains, source: Any = range(6), **options: Any) -> list[int]:
    list(loop_of(drains.attempt, source).map(drains.body, workers=1))
    return drains.seen


def awaited(drains: Drains, source: Any = range(6), **options: Any) -> list[int]:
    async def consume() -> None:
        async for number in loop_of(drains.attempt, source):
            drains.body(number)

    asyncio.run(consume())
    return drains.seen


def mapped_awaited(drains: Drains, source: Any = range(6), **options: Any) -> list[int]:
    async def work(number: int) -> int:
        return drains.body(number)

    async def consume() -> None:
        async with loop_of(drains.attempt, source) as loop:
            async for _ in loop.amap(work, workers=1):
                pass

    asyncio.run(consume())
    return drains.seen


def with_state(drains: Drains, source: Any = range(6), **options: Any) -> list[int]:
    with loop_of(drains.attempt, source) as loop:
        for number in loop:
            loop.state["sum"] = loop.state.get("sum", 0) + number
            drains.body(number)
    return drains.seen


OPTIONS: list[dict[str, Any]] = [
    {},
    {"durability": "sync"},
    {"durability": "exit"},
    {"interval": timedelta(minutes=5), "max_uncommitted": timedelta(minutes=5)},
]


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("options", OPTIONS, ids=["async", "sync", "exit", "seldom"])
@pytest.mark.parametrize("source", [lambda: range(6), lambda: iter(range(6))], ids=["counted", "one by one"])
def test_a_loop_finishes_its_element_saves_and_comes_back(
    file: Path, source: Callable[[], Any], options: dict[str, Any], number: int
) -> None:
    first = Drains(file, task_context(retries=0), number)
    second = leaves(first, lambda drains: go(drains, source(), **options))
    assert first.seen == list(range(number + 1))
    assert (second.ti.try_number, second.ti.max_tries) == (1, 0)
    assert go(Drains(file, second, NEVER), source(), **options) == list(range(number + 1, 6))


@pytest.mark.parametrize("way", [mapped, awaited, mapped_awaited, with_state, by_hand])
def test_and_so_does_every_other_way_of_looping(file: Path, way: Callable[..., list[int]]) -> None:
    first = Drains(file, task_context(), 2)
    second = leaves(first, way)
    assert way(Drains(file, second, NEVER)) == list(range(6))[len(first.seen) :]
    assert len(first.seen) <= 4


def test_what_was_not_acked_by_hand_comes_again(file: Path) -> None:
    first = Drains(file, task_context(), 2)
    second = leaves(first, by_hand_at_the_end)
    assert first.seen == [0, 1, 2]
    assert by_hand_at_the_end(Drains(file, second, NEVER)) == list(range(6))


def test_at_most_once_nothing_comes_twice(file: Path) -> None:
    first = Drains(file, task_context(), 2)
    second = leaves(first, go, delivery="at_most_once")
    rest = go(Drains(file, second, NEVER), delivery="at_most_once")
    assert first.seen + rest == list(range(6))


def test_loops_inside_each_other_are_both_saved(file: Path) -> None:
    def nested(drains: Drains) -> None:
        outer = loop_of(drains.attempt, ["a", "b"])
        for _ in outer:
            inner = checkpoint(range(4), name="inner", within=outer)
            for number in on_clock(inner, drains.attempt.world.clock):
                drains.body(number)

    first = Drains(file, task_context(), 1)
    second = Drains(file, leaves(first, nested), NEVER)
    nested(second)
    assert (first.seen, second.seen) == ([0, 1], [2, 3, 0, 1, 2, 3])


# --- when ------------------------------------------------------------------------------------------------------


def test_a_file_of_before_ends_no_attempt(file: Path) -> None:
    attempt = task_context()
    touch(file, attempt.world.clock.now)
    attempt.world.clock.advance(timedelta(minutes=1))
    assert go(Drains(file, attempt.retry(), NEVER)) == list(range(6))


def test_elements_of_no_time_are_looked_after_once_a_second(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt, looks = task_context(), []
    stat = os.stat

    def counted(path: Any, *arguments: Any, **options: Any) -> os.stat_result:
        if str(path) == str(file):
            looks.append(attempt.world.clock.monotonic())
        return stat(path, *arguments, **options)

    monkeypatch.setattr(os, "stat", counted)
    go(Drains(file, attempt, NEVER, takes=timedelta(milliseconds=10)), range(1000))
    assert 9 <= len(looks) <= 12


def test_by_policy_a_retry_goes_on(file: Path) -> None:
    first = Drains(file, task_context(), 2)
    with pytest.raises(LoopStoppedError, match="shutdown"):
        go(first, on_shutdown="fail")
    first.attempt.world.clock.advance(timedelta(minutes=1))
    assert go(Drains(file, first.attempt.retry(), NEVER)) == [3, 4, 5]


def test_if_airflow_cannot_be_asked_the_reason_is_still_known(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_answer(*_arguments: object, **_options: object) -> None:
        raise ConnectionResetError

    attempt = task_context()
    monkeypatch.setattr(type(attempt.ti), "get_task_states", no_answer)
    leaves(Drains(file, attempt, 2), go)


def test_a_task_that_was_marked_as_well_does_not_come_back(file: Path) -> None:
    drains = Drains(file, task_context(), 2)
    drains.attempt.mark("failed")
    with pytest.raises(LoopStoppedError, match="user"):
        go(drains)


def test_the_log_says_why(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    leaves(Drains(file, task_context(), 2), go)
    (line,) = [line for line in caplog.messages if line.startswith("The worker shuts down")]
    assert "the loop 'l' stopped at element 4 of 6" in line
