"""Loops whose task is told to stop: when the worker goes, the same try goes on elsewhere; otherwise a retry does."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRescheduleException

from airflow_resume import checkpoint
from airflow_resume.channel import InlineChannel
from airflow_resume.errors import LoopStoppedError, SupersededError
from airflow_resume.loops import Checkpoint, Skip
from airflow_resume.loops.plan import OnShutdown
from airflow_resume.reschedule import RESCHEDULE_AFTER, reschedule
from airflow_resume.store import MemoryStore
from airflow_resume.testing import TaskAttempt, task_context

KEY = "resume.loop.l"


def record(attempt: TaskAttempt) -> dict[str, Any]:
    found: Any = attempt.task_store.values[KEY]
    return found  # type: ignore[no-any-return]


def loop_of(attempt: TaskAttempt, source: Any = range(6), **options: Any) -> Checkpoint[Any]:
    return checkpoint(source, name="l", context=attempt.context, **options)


def stopped_at(number: int, attempt: TaskAttempt, *, before: Callable[[], object] = list, **options: Any) -> list[int]:
    """What a loop delivers whose task is told to stop in an element, where something happened `before`."""
    seen = []
    for element in loop_of(attempt, **{"durability": "exit", **options}):
        seen.append(element)
        if element == number:
            before()
            attempt.ti.task.on_kill()
    return seen


# --- the worker goes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("retries", [3, 0])
def test_when_the_worker_goes_the_same_try_goes_on_where_it_was(retries: int) -> None:
    first = task_context(retries=retries)
    with pytest.raises(AirflowRescheduleException):
        stopped_at(2, first)
    assert record(first)["pos"] == 3
    second = first.reschedule()
    assert (second.ti.try_number, second.ti.max_tries) == (1, retries)
    assert stopped_at(9, second) == [3, 4, 5]


def test_the_task_comes_back_some_seconds_later() -> None:
    before = datetime.now(tz=timezone.utc)
    with pytest.raises(AirflowRescheduleException) as raised:
        stopped_at(2, task_context())
    after = datetime.now(tz=timezone.utc)
    assert before <= raised.value.reschedule_date - RESCHEDULE_AFTER <= after
    assert timedelta(seconds=10) <= RESCHEDULE_AFTER <= timedelta(minutes=1)


def test_anything_may_be_rescheduled_by_the_same_function() -> None:
    now = datetime(2026, 1, 1, tzinfo=timezone.utc)
    with pytest.raises(AirflowRescheduleException) as raised:
        reschedule(timedelta(seconds=20), now=lambda: now)
    assert raised.value.reschedule_date == datetime(2026, 1, 1, 0, 0, 20, tzinfo=timezone.utc)


def test_the_log_says_where_the_loop_stopped_and_that_its_try_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with pytest.raises(AirflowRescheduleException):
        stopped_at(2, task_context())
    (line,) = [line for line in caplog.messages if line.startswith("The worker shuts down")]
    assert "the loop 'l' stopped at element 4 of 6" in line
    assert "its try goes on there" in line


def test_a_loop_that_was_stopped_delivers_nothing_any_more() -> None:
    attempt = task_context()
    iterator = iter(loop_of(attempt))
    next(iterator)
    attempt.ti.task.on_kill()
    seen: list[int] = []
    for _ in range(3):  # whoever swallows it must not take it for the end
        with pytest.raises(AirflowRescheduleException):
            seen.extend(iterator)
    assert seen == []


def test_a_loop_that_is_done_is_not_stopped_any_more() -> None:
    first = task_context()
    with pytest.raises(AirflowRescheduleException):
        stopped_at(5, first)
    assert stopped_at(9, first.reschedule()) == []


def test_after_the_loop_on_kill_is_the_tasks_own_again() -> None:
    first = task_context()
    list(loop_of(first, range(2)))
    first.ti.task.on_kill()
    assert list(checkpoint(range(2), name="m", context=first.context)) == [0, 1]


def test_attempts_that_came_no_further_as_they_were_stopped_did_not_die_there() -> None:
    attempt = task_context()
    for _ in range(5):
        with pytest.raises(AirflowRescheduleException):
            stopped_at(0, attempt, ack="manual")
        attempt = attempt.reschedule()
    assert record(attempt)["at"]["stalls"] == 0


# --- every way to loop ----------------------------------------------------------------------------------------


def test_what_is_in_flight_is_finished_first() -> None:
    first, results = task_context(), list[int]()
    with pytest.raises(AirflowRescheduleException):
        for result in loop_of(first).map(lambda number: number, workers=2):
            results.append(result)
            first.ti.task.on_kill()
    assert len(results) in {1, 2, 3}
    assert record(first)["n"] == len(results)
    rest = list(loop_of(first.reschedule()))
    assert sorted(results + rest) == list(range(6))


def test_an_element_that_fails_after_the_task_was_told_to_stop_is_left_to_the_next_process() -> None:
    first, taken = task_context(), list[int]()

    def work(number: int) -> int:
        if number == 1:
            while not taken:
                pass
            raise ConnectionError
        return number

    with pytest.raises(AirflowRescheduleException):
        for result in loop_of(first, range(2)).map(work, workers=2):
            first.ti.task.on_kill()
            taken.append(result)
    assert list(loop_of(first.reschedule(), range(2))) == [1]


def test_an_element_whose_work_fails_while_the_task_is_told_to_stop_uses_a_retry() -> None:
    first = task_context()

    def work(_number: int) -> None:
        first.ti.task.on_kill()
        raise ConnectionError

    with pytest.raises(ConnectionError):
        list(loop_of(first).map(work, workers=1))
    assert list(loop_of(first.retry())) == list(range(6))


def test_loops_on_an_event_loop_stop_alike() -> None:
    first, seen = task_context(), list[int]()

    async def go(attempt: TaskAttempt, number: int) -> None:
        async for element in loop_of(attempt):
            seen.append(element)
            if element == number:
                attempt.ti.task.on_kill()

    async def go_on(attempt: TaskAttempt) -> None:
        async def same(number: int) -> int:
            return number

        async with loop_of(attempt) as loop:
            async for element in loop.amap(same, workers=1):
                seen.append(element)
                if element == 3:
                    attempt.ti.task.on_kill()

    with pytest.raises(AirflowRescheduleException):
        asyncio.run(go(first, 1))
    assert seen == [0, 1]
    second = first.reschedule()
    with pytest.raises(AirflowRescheduleException):
        asyncio.run(go_on(second))
    assert seen == [0, 1, 2, 3]
    asyncio.run(go(second.reschedule(), 9))
    assert seen == [0, 1, 2, 3, 4, 5]


def test_what_was_not_acked_by_hand_is_delivered_again() -> None:
    first = task_context()

    def go() -> None:
        with loop_of(first, ack="manual") as loop:
            for number in loop:
                if number == 1:
                    loop.ack()
                if number == 3:
                    first.ti.task.on_kill()

    with pytest.raises(AirflowRescheduleException):
        go()
    assert list(loop_of(first.reschedule())) == [2, 3, 4, 5]


def test_an_inner_loop_stops_as_well_and_both_are_saved_while_the_error_is_still_held() -> None:
    first = task_context()

    def go() -> None:
        outer = loop_of(first, ["a", "b"], durability="exit")
        for _ in outer:
            for number in checkpoint(range(4), name="inner", within=outer):
                if number == 1:
                    first.ti.task.on_kill()

    with pytest.raises(AirflowRescheduleException):
        try:
            go()
        except AirflowRescheduleException:  # whose traceback keeps the outer loop from being closed
            assert record(first)["inner"]["inner"]["pos"] == 2
            raise
    outer = loop_of(first.reschedule(), ["a", "b"])
    seen = [[name, *checkpoint(range(4), name="inner", within=outer)] for name in outer]
    assert seen == [["a", 2, 3], ["b", 0, 1, 2, 3]]


def test_no_element_is_skipped_for_the_end_of_its_attempt() -> None:
    first = task_context()

    def go(reason: OnShutdown) -> None:
        with checkpoint(
            ["a"], name=reason, context=first.context, on_shutdown=reason, skip=Skip(on=(Exception,))
        ) as outer:
            for _ in outer:
                with outer.skipping():
                    for _ in checkpoint(range(4), name="inner", within=outer):
                        first.ti.task.on_kill()

    with pytest.raises(AirflowRescheduleException):
        go("reschedule")
    with pytest.raises(LoopStoppedError):
        go("fail")


# --- other reasons --------------------------------------------------------------------------------------------


def no_answer(*_args: object, **_options: object) -> None:
    raise ConnectionResetError


REASONS: dict[str, tuple[Callable[[TaskAttempt], object], str]] = {
    "marked failed": (lambda attempt: attempt.mark("failed"), "user"),
    "marked successful": (lambda attempt: attempt.mark("success"), "user"),
    "Airflow does not know the task": (lambda attempt: attempt.world.instances.clear(), "unknown"),
}


@pytest.mark.parametrize(("happens", "reason"), REASONS.values(), ids=REASONS)
def test_for_any_other_reason_the_attempt_ends_and_what_is_done_is_saved(
    happens: Callable[[TaskAttempt], object], reason: str
) -> None:
    first = task_context()
    with pytest.raises(LoopStoppedError) as raised:
        stopped_at(2, first, before=lambda: happens(first))
    assert f"told to stop ({reason}), so the loop 'l' stopped at element 4 of 6" in str(raised.value)
    assert record(first)["pos"] == 3


def test_a_question_that_is_not_answered_is_no_reason_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    first = task_context()
    monkeypatch.setattr(type(first.ti), "get_task_states", no_answer)
    with pytest.raises(LoopStoppedError, match=r"told to stop \(unknown\)"):
        stopped_at(2, first)
    assert stopped_at(9, first.retry()) == [3, 4, 5]


@pytest.mark.parametrize(
    "replaced",
    [TaskAttempt.supersede, lambda attempt: attempt.clear(while_running=True)],
    ids=["by another attempt", "by a clear"],
)
def test_an_attempt_that_was_replaced_does_not_come_back(replaced: Callable[[TaskAttempt], object]) -> None:
    first = task_context()
    with pytest.raises(SupersededError):
        stopped_at(2, first, before=lambda: replaced(first))


def test_a_replaced_attempt_that_has_nothing_to_save_does_not_come_back_either() -> None:
    first = task_context()
    with pytest.raises(LoopStoppedError, match="replaced"):
        stopped_at(2, first, before=first.supersede, source=range(6), store=MemoryLike(first))


class MemoryLike(MemoryStore):
    """Takes what a replaced attempt writes, and shows it nothing."""

    def __init__(self, attempt: TaskAttempt) -> None:
        super().__init__()
        self._attempt = attempt

    def get(self, key: str, default: Any = None) -> Any:
        return default if self._attempt.task_store.replaced else super().get(key, default)


def test_by_policy_a_worker_that_goes_costs_a_retry() -> None:
    first = task_context()
    with pytest.raises(LoopStoppedError, match="shutdown"):
        stopped_at(2, first, on_shutdown="fail")
    assert stopped_at(9, first.retry()) == [3, 4, 5]


def test_the_policy_is_that_of_the_outermost_loop() -> None:
    first = task_context()
    outer = loop_of(first)
    with pytest.raises(ValueError, match=r"on_shutdown cannot be chosen for 'inner'"):
        checkpoint(range(3), name="inner", within=outer, on_shutdown="fail")
    with pytest.raises(ValueError, match="on_shutdown='wait'"):
        loop_of(first, on_shutdown="wait")


def test_under_dag_test_nothing_is_rescheduled(monkeypatch: pytest.MonkeyPatch) -> None:
    comms = type("InProcessSupervisorComms", (), {})()
    runner = SimpleNamespace(SUPERVISOR_COMMS=comms)
    monkeypatch.setitem(sys.modules, "airflow.sdk.execution_time.task_runner", runner)
    with pytest.raises(LoopStoppedError, match="unknown"):
        stopped_at(2, task_context())


def test_a_position_that_cannot_be_saved_is_told_and_the_task_comes_back_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first = task_context()

    class Away(MemoryStore):
        channel = InlineChannel()

        def set(self, key: str, value: Any) -> None:
            if value["n"]:
                raise OSError("no route to the store")
            super().set(key, value)

    with pytest.raises(AirflowRescheduleException):
        stopped_at(2, first, store=Away())
    assert "The position of the loop 'l' could not be saved: OSError('no route to the store')" in caplog.text
