"""The copy of a loop's state that every ack takes: by a glance where that is enough, and the same as without."""

from __future__ import annotations

import asyncio
import json
import math
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_resume import checkpoint, values
from airflow_resume.errors import InvalidValueError, LoopError, ValueTooLargeError
from airflow_resume.loops import Skip
from airflow_resume.loops.keeping.room import Growth
from airflow_resume.loops.keeping.saved_state import SavedState
from airflow_resume.loops.loop_record import Level
from airflow_resume.store import MemoryStore

LONG = timedelta(hours=1)
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30)
STATES = st.dictionaries(
    st.text(max_size=10) | st.sampled_from(["~datetime", "a"]), PLAIN | st.lists(PLAIN), max_size=4
)


def saved_state(state: dict[str, Any]) -> SavedState:
    saved = SavedState("l", {}, Growth("l", Level(kind="test")))
    saved.now.update(state)
    return saved


@given(STATES)
@example({"n": 2**64 - 1, "x": -1.7976931348623157e308, 'quo"te': '"' * 30})
def test_a_glance_sees_the_same_as_a_closer_look_and_never_less(state: dict[str, Any]) -> None:
    saved = saved_state(state)
    seen = saved.glance()
    if seen is None:
        return
    encoded = {key: values.encode(value) for key, value in state.items()}
    size = values.check_sized(encoded, at="state")
    assert (seen, json.dumps(seen)) == (encoded, json.dumps(encoded))
    assert saved._growth.has_seen(size), "the estimate was too small"
    assert all(type(seen[key]) is type(value) for key, value in state.items())


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, 2**64, -(2**63) - 1, "\ud800", "a\0b", "é", [1], {"a": 1}, Decimal(1), (1,), b"", "x" * 5_000],
)
def test_what_needs_a_closer_look_gets_one(value: Any) -> None:
    assert saved_state({"a": value}).glance() is None


def test_a_copy_is_not_what_the_next_body_changes() -> None:
    saved = saved_state({"n": 1})
    copies = [saved.copy(), saved.glance()]
    saved.now["n"] = 2
    assert copies == [{"n": 1}, {"n": 1}]
    assert [type(copy) for copy in copies] == [dict, dict]


@pytest.mark.parametrize(("value", "error"), [(2**64, InvalidValueError), ("x" * 60_000, ValueTooLargeError)])
def test_a_state_that_cannot_be_saved_fails_at_the_end_of_its_body(value: Any, error: type[Exception]) -> None:
    """Also in the middle of a stretch whose elements are only counted."""
    store, seen = MemoryStore(), list[int]()

    def go() -> None:
        with checkpoint(range(100), name="l", interval=LONG, store=store) as loop:
            for number in loop:
                seen.append(number)
                loop.state["sum"] = value if number == 50 else number

    with pytest.raises(error):
        go()
    assert seen == list(range(51))
    record: Any = store.get("resume.loop.l")
    assert (record["pos"], record["state"]) == (50, {"sum": 49})


@pytest.mark.parametrize("fails_at", [0, 1, 2, 50, 99])
@pytest.mark.parametrize("on_a_loop", [False, True])
def test_a_sum_counts_every_element_once_whenever_a_body_fails(fails_at: int, *, on_a_loop: bool) -> None:
    store = MemoryStore()

    def body(state: dict[str, Any], number: int, *, fails: bool) -> None:
        state["sum"] = state.get("sum", 0) + number
        if fails and number == fails_at:
            raise OSError(number)

    def attempt(*, fails: bool) -> Any:
        with checkpoint(range(100), name="l", interval=LONG, store=store) as loop:
            for number in loop:
                body(loop.state, number, fails=fails)
        return dict(loop.state)

    async def awaited_attempt(*, fails: bool) -> Any:
        async with checkpoint(range(100), name="l", interval=LONG, store=store) as loop:
            async for number in loop:
                body(loop.state, number, fails=fails)
        return dict(loop.state)

    def run(*, fails: bool) -> Any:
        return asyncio.run(awaited_attempt(fails=fails)) if on_a_loop else attempt(fails=fails)

    with pytest.raises(OSError, match=str(fails_at)):
        run(fails=True)
    record: Any = store.get("resume.loop.l")
    assert record["state"].get("sum", 0) == sum(range(fails_at))
    assert run(fails=False) == {"sum": sum(range(100))}


def test_another_state_is_guarded_as_the_first_one_was() -> None:
    with checkpoint(range(2), name="l", store=MemoryStore()) as loop:
        for number in loop:
            loop.state = {"n": number}
            held = loop.state
    with pytest.raises(LoopError, match="changed after the loop"):
        held["n"] = 5

    def worker(number: int) -> int:
        if number > 1:
            held["n"] = number
        return number

    again = checkpoint(range(4), name="l", store=MemoryStore())
    with pytest.raises(LoopError, match="in a worker of its map"), again:
        for number in again.map(worker, workers=1):
            again.state = {"n": number}
            held = again.state


def test_a_state_may_be_set_to_itself() -> None:
    with checkpoint(range(2), name="l", store=MemoryStore()) as loop:
        for number in loop:
            loop.state["n"] = number
            loop.state = loop.state
        assert loop.state == {"n": 1}


def test_what_a_body_holds_of_the_state_stays_a_part_of_it_when_an_element_is_skipped() -> None:
    store = MemoryStore()
    with checkpoint(range(6), name="l", skip=Skip(on=(ValueError,)), store=store) as loop:
        totals, rows, seen = loop.state.setdefault("totals", {}), loop.state.setdefault("rows", [[]]), list[int]()
        for number in loop:
            with loop.skipping():
                totals["n"] = totals.get("n", 0) + 1
                rows[0].append(number)
                if number == 2:
                    raise ValueError(number)
                seen.append(number)
        assert loop.state == {"totals": {"n": 5}, "rows": [seen]}
        assert (loop.state["totals"], loop.state["rows"]) == (totals, rows)
    record: Any = store.get("resume.loop.l")
    assert record["state"] == {"totals": {"n": 5}, "rows": [[0, 1, 3, 4, 5]]}


def test_two_parts_of_a_state_that_were_one_object_are_put_back_as_they_were() -> None:
    saved = saved_state({})
    saved.saved = {"a": [1], "b": [2]}
    saved.restore()
    saved.now["a"] = saved.now["b"]
    saved.restore()
    assert saved.now == {"a": [1], "b": [2]}
