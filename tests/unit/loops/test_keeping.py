"""Acks by hand, elements passed over, attempts that stall, tasks that are told to stop, and what a person sees."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_resume import checkpoint
from airflow_resume.errors import LoopError, LoopStoppedError, StalledError, StoreUnavailableError, UnackedError
from airflow_resume.loops import Checkpoint, CursorToken, Page, Skip
from airflow_resume.store import MemoryStore
from airflow_resume.testing import FakeTaskStore, TaskAttempt, task_context

KEY = "resume.loop.l"


def record(store: Any) -> dict[str, Any]:
    found: Any = store.values[KEY]
    return found  # type: ignore[no-any-return]


def loop_over(store: Any, source: Any = range(6), **options: Any) -> Checkpoint[Any]:
    return checkpoint(source, name="l", store=store, **options)


def on_clock(loop: Checkpoint[Any], monotonic: Callable[[], float]) -> Checkpoint[Any]:
    loop._run.plan = replace(loop._run.plan, monotonic=monotonic)
    return loop


# --- acks by hand ---------------------------------------------------------------------------------------------


def test_only_what_was_acked_by_hand_counts() -> None:
    store = MemoryStore()
    loop = loop_over(store, ack="manual", durability="sync")
    for number in loop:
        if number in {1, 3}:
            loop.ack()
            assert record(store)["pos"] == number + 1
        if number == 4:
            break
    assert record(store)["pos"] == 4
    assert list(loop_over(store)) == [4, 5]


def test_the_rest_may_be_acked_behind_the_loop() -> None:
    store, batches, batch = MemoryStore(), [], []
    loop = loop_over(store, range(5), ack="manual")
    for number in loop:
        batch.append(number)
        if len(batch) == 2:
            batches.append(tuple(batch))
            batch.clear()
            loop.ack()
    assert (loop.done, record(store)["done"]) == (False, False)
    loop.ack()
    assert (loop.done, record(store)["done"], record(store)["n"]) == (True, True, 5)
    assert batches == [(0, 1), (2, 3)]


@pytest.mark.parametrize("acked", [True, False])
def test_a_with_statement_misses_acks_that_never_came(acked: bool) -> None:  # noqa: FBT001
    store = MemoryStore()
    with (
        pytest.raises(UnackedError, match="3 elements were not acked") if not acked else suppress(),
        loop_over(store, range(3), ack="manual") as loop,
    ):
        list(loop)
        if acked:
            loop.ack()
    assert record(store)["done"] is acked


def test_on_an_event_loop_acks_are_saved_at_the_next_element() -> None:
    store, saved = MemoryStore(), []

    async def run() -> None:
        async with loop_over(store, range(3), ack="manual", durability="sync") as loop:
            async for _ in loop:
                saved.append(record(store)["n"])
                loop.ack()
        assert loop.done

    asyncio.run(run())
    assert saved == [0, 1, 2]
    assert record(store)["done"]


def test_acks_that_mean_nothing_are_named() -> None:
    with loop_over(MemoryStore()) as loop, pytest.raises(LoopError, match="acks every element by itself"):
        loop.ack()
    with pytest.raises(ValueError, match="ack='manual' means nothing with delivery='at_most_once'"):
        loop_over(MemoryStore(), ack="manual", delivery="at_most_once")
    with pytest.raises(LoopError, match="needs `async with`"):
        loop_over(MemoryStore(), ack="manual").__aiter__()
    with pytest.raises(ValueError, match="ack='never' is not a choice"):
        loop_over(MemoryStore(), ack="never")


# --- at most once ---------------------------------------------------------------------------------------------


def test_at_most_once_the_element_in_hand_is_not_delivered_again() -> None:
    store = MemoryStore()
    with pytest.raises(KeyError):
        for number in loop_over(store, delivery="at_most_once"):
            assert record(store)["pos"] == number + 1
            if number == 2:
                raise KeyError
    assert list(loop_over(store, delivery="at_most_once")) == [3, 4, 5]


# --- elements passed over -------------------------------------------------------------------------------------


def test_an_element_is_passed_over_and_what_it_did_to_the_state_undone(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    with loop_over(store, skip=Skip(on=(ValueError,))) as loop:
        for number in loop:
            with loop.skipping():
                loop.state["sum"] = loop.state.get("sum", 0) + number
                if number in {2, 3}:
                    raise ValueError(f"row {number} is bad")
    assert (loop.state, loop.skipped, loop.count) == ({"sum": 0 + 1 + 4 + 5}, 2, 6)
    assert record(store)["skips"] == [
        {"pos": 2, "error": "ValueError: row 2 is bad"},
        {"pos": 3, "error": "ValueError: row 3 is bad"},
    ]
    assert "skipped element 2: row 2 is bad" in caplog.text


def test_other_errors_and_those_past_the_limit_are_raised() -> None:
    store = MemoryStore()

    def run(error: type[Exception]) -> None:
        with loop_over(store, skip=Skip(on=(ValueError,), limit=2)) as loop:
            for _ in loop:
                with loop.skipping():
                    raise error

    with pytest.raises(KeyError):
        run(KeyError)
    with pytest.raises(ValueError):  # noqa: PT011
        run(ValueError)
    assert (record(store)["pos"], record(store)["skipped"]) == (2, 2)
    with pytest.raises(ValueError):  # noqa: PT011  the limit holds for all attempts together
        run(ValueError)
    assert record(store)["pos"] == 2


def test_the_newest_fifty_skips_are_kept_in_few_words() -> None:
    store = MemoryStore()
    with loop_over(store, range(80), skip=Skip(on=(ValueError,), limit=100)) as loop:
        for _ in loop:
            with loop.skipping():
                raise ValueError("x" * 1000)
    skips = record(store)["skips"]
    assert (record(store)["skipped"], len(skips), skips[-1]["pos"]) == (80, 50, 79)
    assert max(len(skip["error"]) for skip in skips) == 160


def test_a_secret_is_masked_before_it_is_shown_to_all() -> None:
    from airflow.sdk.log import mask_secret

    mask_secret("hunter2-and-more")
    store = MemoryStore()
    with loop_over(store, [1], skip=Skip(on=(ValueError,))) as loop:
        for _ in loop:
            with loop.skipping():
                raise ValueError("login with hunter2-and-more failed")
    assert record(store)["skips"][0]["error"] == "ValueError: login with *** failed"


def test_skips_that_mean_nothing_are_named() -> None:
    with loop_over(MemoryStore()) as loop, pytest.raises(LoopError, match=r"give it skip=Skip\(on="), loop.skipping():
        pass
    with pytest.raises(TypeError, match="must be errors"):
        Skip(on=("ValueError",))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="passes over nothing"):
        Skip()
    with pytest.raises(ValueError, match="limit=0"):
        Skip(on=(ValueError,), limit=0)
    for options in ({"ack": "manual"}, {"delivery": "at_most_once"}):
        with pytest.raises(ValueError, match=r"skip=Skip"):
            loop_over(MemoryStore(), skip=Skip(on=(ValueError,)), **options)
    assert Skip(on=ValueError) == Skip(on=(ValueError,))  # type: ignore[arg-type]


# --- attempts that die without a word -------------------------------------------------------------------------


class Died(BaseException):
    """Ends an attempt where no handler runs."""


def dies_at(number: int, attempt: TaskAttempt, **options: Any) -> list[int]:
    """What an attempt delivers that is killed in the body of the element."""
    seen: list[int] = []
    iterator = iter(checkpoint(range(6), name="l", durability="sync", context=attempt.context, **options))
    for element in iterator:
        seen.append(element)
        if element == number:
            iterator._never_closed = True if False else None  # type: ignore[attr-defined]
            break
    return seen
