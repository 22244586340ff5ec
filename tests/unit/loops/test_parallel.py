"""`map` and `amap`: the order of things. What holds under every crash is in the laws."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest

from airflow_resume import checkpoint
from airflow_resume.errors import LoopError
from airflow_resume.loops import Batches, Checkpoint, Files, Keyset, Skip
from airflow_resume.loops.serial.each import Each
from airflow_resume.store import MemoryStore

KEY = "resume.loop.l"


def loop_over(store: MemoryStore, source: Any = range(6), **options: Any) -> Checkpoint[Any]:
    return checkpoint(source, name="l", store=store, **options)


def record(store: MemoryStore) -> dict[str, Any]:
    found: Any = store.values[KEY]
    return found  # type: ignore[no-any-return]


def mapped(loop: Checkpoint[Any], fn: Callable[[Any], Any], **options: Any) -> Iterator[Any]:
    """The results of `map`, or of `amap` with the same function made a coroutine function."""
    return loop.map(fn, **options)


def amapped(loop: Checkpoint[Any], fn: Callable[[Any], Any], **options: Any) -> Iterator[Any]:
    async def work(element: Any) -> Any:
        return fn(element)

    async def collect() -> list[Any]:
        return [result async for result in loop.amap(work, **options)]

    return iter(asyncio.run(collect()))


BOTH = pytest.mark.parametrize("run", [mapped, amapped], ids=["threads", "tasks"])


@BOTH
@pytest.mark.parametrize("workers", [1, 3, 10])
@pytest.mark.parametrize("ordered", [True, False])
def test_every_element_is_worked_on_once_and_the_loop_is_done(run: Any, workers: int, ordered: bool) -> None:  # noqa: FBT001
    store = MemoryStore()
    results = list(run(loop_over(store), lambda number: number * 2, workers=workers, ordered=ordered))
    assert sorted(results) == [0, 2, 4, 6, 8, 10]
    assert not ordered or results == sorted(results)
    assert (record(store)["done"], record(store)["n"], record(store)["pos"]) == (True, 6, 6)
    assert list(loop_over(store)) == []


def test_what_is_done_above_a_hole_is_kept_and_not_done_again() -> None:
    store, first_may_end = MemoryStore(), threading.Event()

    def work(number: int) -> int:
        if number == 0:
            first_may_end.wait()
            raise KeyError(number)
        return number

    results = []
    with pytest.raises(KeyError):
        for result in loop_over(store).map(work, workers=3):
            results.append(result)
            if len(results) == 4:
                first_may_end.set()
    assert 0 not in results
    kept = record(store)
    assert (kept.get("pos"), kept["n"]) == (None, len(results))
    assert list(loop_over(store)) == sorted(set(range(6)) - set(results))


def test_a_failing_element_starts_nothing_more_and_what_is_in_flight_is_handed_out() -> None:
    store, both_fly = MemoryStore(), threading.Barrier(2)

    def work(number: int) -> int:
        if number < 2:
            both_fly.wait()
        if number == 0:
            raise KeyError(number)
        return number

    loop, results = loop_over(store), list[int]()
    with pytest.raises(KeyError):
        results.extend(loop.map(work, workers=2))
    assert "pos" not in record(store)
    assert record(store)["n"] == loop.count >= 1


@BOTH
def test_an_element_that_may_be_skipped_is_recorded_and_yields_no_result(run: Any) -> None:
    def work(number: int) -> int:
        if number in {1, 4}:
            raise ValueError(f"bad {number}")
        return number

    store = MemoryStore()
    loop = loop_over(store, skip=Skip(on=(ValueError,)))
    assert sorted(run(loop, work, workers=2)) == [0, 2, 3, 5]
    assert (loop.skipped, record(store)["skipped"], record(store)["n"], record(store)["done"]) == (2, 2, 6, True)
    assert [skip["error"] for skip in sorted(record(store)["skips"], key=lambda skip: skip["pos"])] == [
        "ValueError: bad 1",
        "ValueError: bad 4",
    ]


@BOTH
def test_past_the_limit_the_error_itself_is_raised(run: Any) -> None:
    def work(number: int) -> int:
        raise ValueError(number)

    store = MemoryStore()
    with pytest.raises(ValueError, match="2"):
        list(run(loop_over(store, skip=Skip(on=(ValueError,), limit=2)), work, workers=1))
    assert (record(store)["pos"], record(store)["skipped"], record(store)["done"]) == (2, 2, False)


def test_a_consumer_that_leaves_acks_nothing_it_did_not_come_back_for() -> None:
    store = MemoryStore()
    for result in loop_over(store).map(lambda number: number, workers=1):
        if result == 2:
            break
    assert record(store)["pos"] == 2


@BOTH
def test_the_function_sees_its_own_element_and_the_context_of_the_caller(run: Any) -> None:
    setting: ContextVar[str] = ContextVar("setting")
    setting.set("the caller's")
    loop = loop_over(MemoryStore())

    def work(_: int) -> tuple[str, str]:
        return loop.element.id, setting.get()

    in_map = list(run(loop, work, workers=3, ordered=True))
    plain = loop_over(MemoryStore())
    assert in_map == [(plain.element.id, "the caller's") for _ in plain]


def test_at_most_once_the_position_is_written_before_the_work_starts() -> None:
    store = MemoryStore()
    seen = list(loop_over(store, delivery="at_most_once").map(lambda number: (number, record(store)["n"]), workers=1))
    assert seen == [(number, number + 1) for number in range(6)]


def test_no_more_than_the_workers_are_in_flight() -> None:
    lock, flying, most = threading.Lock(), [0], [0]

    def work(number: int) -> int:
        with lock:
            flying[0] += 1
            most[0] = max(most[0], flying[0])
        with lock:
            flying[0] -= 1
        return number

    list(loop_over(MemoryStore(), range(200)).map(work, workers=3))
    assert 1 <= most[0] <= 3


def test_a_source_that_fails_is_raised_when_all_in_flight_is_done() -> None:
    def source(position: Any) -> Iterator[tuple[int, int]]:
        for number in range(position or 0, 3):
            yield number, number + 1
        raise OSError("the API is away")

    store = MemoryStore()
    results = list[int]()
    with pytest.raises(OSError, match="away"):
        results.extend(loop_over(store, source).map(lambda number: number, workers=2))
    assert record(store)["n"] == 3


def test_a_thread_that_ends_as_if_the_process_should_fails_the_loop_and_loses_nothing() -> None:
    def work(number: int) -> int:
        if number == 2:
            raise SystemExit
        return number

    store = MemoryStore()
    with pytest.raises(LoopError, match=r"A thread of map\(\) ended by SystemExit"):
        list(loop_over(store).map(work, workers=1))
    assert record(store)["pos"] == 2


def test_a_map_that_is_not_possible_is_named() -> None:
    with pytest.raises(TypeError, match="fn=3 must be a function of an element"):
        loop_over(MemoryStore()).map(3, workers=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="workers=0"):
        loop_over(MemoryStore()).map(str, workers=0)
    with pytest.raises(ValueError, match="means nothing to map"):
        loop_over(MemoryStore(), ack="manual").map(str, workers=1)
    outer = loop_over(MemoryStore())
    for _ in outer.map(lambda number: number, workers=1):
        with pytest.raises(LoopError, match="may not be a map"):
            list(checkpoint([1], name="i", within=outer))


async def later(element: int) -> int:
    return element


def lazily(element: int) -> Iterator[int]:
    yield element


class Later:
    async def __call__(self, element: int) -> int:
        return element


@pytest.mark.parametrize(
    "fn", [later, partial(later), Later(), Later().__call__], ids=["function", "partial", "object", "method"]
)
def test_map_refuses_a_coroutine_function_and_names_amap(fn: Any) -> None:
    store = MemoryStore()
    with pytest.raises(TypeError, match=r"loop\.amap"):
        loop_over(store).map(fn, workers=2)
    assert store.values == {}


def test_map_refuses_a_generator_function() -> None:
    with pytest.raises(TypeError, match="Return a list"):
        loop_over(MemoryStore()).map(lazily, workers=2)


@pytest.mark.filterwarnings("error")
def test_a_coroutine_that_comes_back_from_map_fails_the_loop_and_no_element_is_passed_over() -> None:
    store = MemoryStore()
    with pytest.raises(TypeError, match=r"returned a coroutine, later\(\)"):
        list(loop_over(store, skip=Skip(on=(Exception,))).map(lambda number: later(number), workers=2))  # noqa: PLW0108
    assert (record(store)["n"], record(store).get("done", False)) == (0, False)


@pytest.mark.parametrize("ordered", [True, False])
def test_amap_over_a_plain_function_says_so(ordered: bool) -> None:  # noqa: FBT001
    async def collect() -> None:
        loop = loop_over(store, skip=Skip(on=(Exception,)))
        async for _ in loop.amap(str, workers=2, ordered=ordered):  # type: ignore[arg-type]
            pass

    store = MemoryStore()
    with pytest.raises(TypeError, match=r"amap\(\) needs a coroutine function; .* returned str"):
        asyncio.run(collect())
    assert record(store)["n"] == 0


@pytest.mark.parametrize("by_itself", [True, False])
def test_work_that_is_cancelled_by_somebody_else_fails_the_loop_and_loses_nothing(by_itself: bool) -> None:  # noqa: FBT001
    async def work(number: int) -> int:
        if number == 2:
            sleeper = asyncio.current_task() if by_itself else asyncio.ensure_future(asyncio.sleep(60))
            assert sleeper is not None
            sleeper.cancel()
            await (asyncio.sleep(60) if by_itself else sleeper)
        return number

    async def collect() -> None:
        async for result in loop_over(store).amap(work, workers=1):
            results.append(result)  # noqa: PERF401

    store: MemoryStore = MemoryStore()
    results: list[int] = []
    with pytest.raises(LoopError, match=r"an element of amap\(\) was cancelled"):
        asyncio.run(asyncio.wait_for(collect(), 5))
    assert (results, record(store)["pos"]) == ([0, 1], 2)


def test_the_source_is_closed_before_the_error_of_a_map_arrives() -> None:
    closed = []

    def resume(position: int | None) -> Iterator[tuple[int, int]]:
        try:
            for number in range(position or 0, 6):
                yield number, number + 1
        finally:
            closed.append(True)

    def work(number: int) -> int:
        raise KeyError(number)

    try:
        list(loop_over(MemoryStore(), resume).map(work, workers=1))
    except KeyError as error:
        raised = error  # whoever keeps it keeps the frames of the loop as well
    assert isinstance(raised, KeyError)
    assert closed == [True]


# --- a source that changed while a hole was open --------------------------------------------------------------


def left_with_a_hole(store: MemoryStore, source: Any, hole: Any) -> list[Any]:
    """What was done when one element failed and those behind it had landed."""
    landed = threading.Event()

    def work(element: Any) -> Any:
        if element == hole:
            landed.wait()
            raise KeyError(element)
        return element

    done = []
    with pytest.raises(KeyError):
        for element in loop_over(store, source).map(work, workers=3):
            done.append(element)
            if len(done) == 3:
                landed.set()
    assert "ahead" in record(store)
    return done


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (lambda: Files(list("abcdef")), lambda: Files(["a", "a2", "b", "c", "d", "e", "f"])),
        (lambda: Files(list("abcdef")), lambda: Files(["b", "c", "d", "e", "f"])),
        (lambda: Files(list("abcdef")), lambda: Files(list("abcdefg"))),
        (lambda: Each(Batches(list("abcdef"), size=3)), lambda: Each(Batches(list("abcdef"), size=2))),
        (lambda: Each(Batches(list("abcdef"), size=2)), lambda: Each(Batches(list("abxcdef"), size=7))),
        (lambda: Keyset(rows("abcdef"), key=str, limit=1), lambda: Keyset(rows("abcdefg"), key=str, limit=2)),
    ],
    ids=["inserted", "removed", "appended", "smaller pages", "larger pages", "larger limit"],
)
def test_nothing_is_lost_when_the_source_changes_while_a_hole_is_open(
    before: Callable[[], Any], after: Callable[[], Any]
) -> None:
    def parts(elements: Any) -> set[str]:
        return {part for element in elements for part in getattr(element, "items", element)}

    store = MemoryStore()
    for hole in "ab":
        store = MemoryStore()
        source = before()
        whole = [element for element, _ in source.elements(source.first())]
        failing = next(element for element in whole if hole in parts([element]))
        done = left_with_a_hole(store, before(), failing)
        rest = list(loop_over(store, after()))
        there = [element for element, _ in after().elements(after().first())]
        assert parts(done) | parts(rest) >= parts(there)


def rows(letters: str) -> Callable[[Any, int], list[str]]:
    return lambda behind, limit: [letter for letter in letters if behind is None or letter > behind][:limit]
