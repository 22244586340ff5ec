from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Any

import pytest

from airflow_resume import checkpoint
from airflow_resume.errors import LoopError, SourceChangedError, UsageError
from airflow_resume.loops import Checkpoint
from airflow_resume.store import MemoryStore
from airflow_resume.testing import task_context

KEY = "resume.loop.outer"


def outer_loop(store: Any, source: Any = "ab", **options: Any) -> Checkpoint[Any]:
    return checkpoint(list(source), name="outer", store=store, **options)


def record(store: MemoryStore) -> dict[str, Any]:
    found: Any = store.values[KEY]
    return found  # type: ignore[no-any-return]


def cells(
    store: MemoryStore, *, stop: tuple[str, int] | None = None, inner: Any = range(3), **options: Any
) -> list[Any]:
    """The cells that are delivered, until the body fails at `stop`."""
    seen = []
    outer = outer_loop(store)
    for row in outer:
        for column in checkpoint(inner, name="columns", within=outer, **options):
            seen.append((row, column))
            if (row, column) == stop:
                return seen
    return seen


def test_the_inner_loop_goes_on_inside_the_element_it_was_left_in() -> None:
    store = MemoryStore()
    assert cells(store, stop=("b", 1)) == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]
    assert record(store)["pos"] == 1
    assert record(store)["inner"]["columns"]["pos"] == 1
    assert cells(store) == [("b", 1), ("b", 2)]
    assert record(store)["done"]


def test_advancing_the_outer_loop_drops_the_inner_one_in_the_same_write() -> None:
    store = MemoryStore()
    seen = []

    class Watched(MemoryStore):
        def set(self, key: str, value: Any) -> None:
            super().set(key, value)
            seen.append((value.get("pos"), (value.get("inner") or {}).get("columns", {}).get("pos")))

    store = Watched()
    outer = outer_loop(store, durability="sync")
    for _ in outer:
        list(checkpoint(range(2), name="columns", within=outer))
    assert seen == [
        (None, None),
        (None, 1),
        (None, 2),
        (None, 2),
        (1, None),
        (1, 1),
        (1, 2),
        (1, 2),
        (2, None),
        (2, None),
    ]


def test_inner_loops_make_no_store_calls_of_their_own() -> None:
    first = task_context()
    outer = checkpoint(range(50), name="outer", interval=timedelta(hours=1), context=first.context)
    for _ in outer:
        list(checkpoint(range(50), name="inner", within=outer))
    assert [operation.name for operation in first.task_store.log] == ["get", "set", "set"]


def test_several_inner_loops_and_deeper_ones() -> None:
    store = MemoryStore()

    def run(stop: tuple[Any, ...] | None) -> list[tuple[Any, ...]]:
        seen: list[tuple[Any, ...]] = []

        def note(*cell: Any) -> None:
            seen.append(cell)
            if cell == stop:
                raise KeyError(stop)

        outer = outer_loop(store)
        for row in outer:
            for number in checkpoint(range(2), name="first", within=outer):
                note(row, "first", number)
            second = checkpoint(range(2), name="second", within=outer)
            for number in second:
                for deep in checkpoint(["x", "y"], name="deep", within=second):
                    note(row, "second", number, deep)
        return seen

    with pytest.raises(KeyError):
        run(("b", "second", 1, "y"))
    assert run(None) == [("b", "second", 1, "y")]


def test_the_state_of_an_inner_loop_is_its_own() -> None:
    store = MemoryStore()

    def run(*, fail: bool) -> int:
        outer = outer_loop(store)
        for _ in outer:
            inner = checkpoint(range(4), name="inner", within=outer)
            for number in inner:
                inner.state["sum"] = inner.state.get("sum", 0) + number
                if fail and number == 2:
                    raise KeyError
            outer.state["sums"] = outer.state.get("sums", 0) + inner.state["sum"]
        return int(outer.state["sums"])

    with pytest.raises(KeyError):
        run(fail=True)
    assert run(fail=False) == 12


def test_an_inner_loop_that_changed_starts_over_by_itself(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    cells(store, stop=("b", 1), fingerprint={"query": 1})
    with caplog.at_level(logging.INFO):
        assert cells(store, fingerprint={"query": 2}) == [("b", 0), ("b", 1), ("b", 2)]
    assert "Loop 'columns': started over, as the source changed (query)" in caplog.text


def test_an_inner_loop_that_changed_fails_by_policy() -> None:
    store = MemoryStore()
    cells(store, stop=("b", 1), fingerprint={"query": 1})
    with pytest.raises(SourceChangedError, match="'columns' stands at 1"):
        cells(store, fingerprint={"query": 2}, on_change="fail")


def test_the_ids_of_elements_differ_between_the_elements_around_them() -> None:
    outer = outer_loop(MemoryStore())
    ids = []
    for _ in outer:
        inner = checkpoint(range(2), name="inner", within=outer)
        ids += [inner.element.id for _ in inner]
    assert len(set(ids)) == 4


def test_an_inner_loop_inside_an_event_loop() -> None:
    store = MemoryStore()

    async def run(stop: tuple[str, int] | None) -> list[tuple[str, int]]:
        seen = []
        async with outer_loop(store) as outer:
            async for row in outer:
                async for column in checkpoint(range(2), name="columns", within=outer):
                    seen.append((row, column))
                    if (row, column) == stop:
                        return seen
        return seen

    assert asyncio.run(run(("b", 1))) == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert asyncio.run(run(None)) == [("b", 1)]


def test_an_inner_loop_that_was_left_by_an_error_may_be_taken_up_in_the_same_body() -> None:
    outer = outer_loop(MemoryStore(), "a")
    for _ in outer:
        with pytest.raises(KeyError):
            for number in checkpoint(range(3), name="inner", within=outer):
                if number == 1:
                    raise KeyError
        assert list(checkpoint(range(3), name="inner", within=outer)) == [1, 2]


def test_what_cannot_be_nested_is_named() -> None:
    outer = outer_loop(MemoryStore())
    with pytest.raises(LoopError, match="has no element in hand"):
        list(checkpoint([1], name="inner", within=outer))
    with pytest.raises(ValueError, match="durability cannot be chosen for 'inner'"):
        checkpoint([1], name="inner", within=outer, durability="sync")
    for options in ({"ack": "manual"}, {"delivery": "at_most_once"}):
        other = outer_loop(MemoryStore(), **options)
        for _ in other:
            with pytest.raises(LoopError, match="acks each element by itself"):
                list(checkpoint([1], name="inner", within=other))
    again = outer_loop(MemoryStore())
    for _ in again:
        list(checkpoint([1], name="inner", within=again))
        with pytest.raises(UsageError, match="used twice inside one element"):
            list(checkpoint([1], name="inner", within=again))
