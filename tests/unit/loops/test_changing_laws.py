"""Whatever a source does, however a loop is gone through, and however its attempts end: nothing is skipped."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.loops import consumption
from tests.support.loops.changing_laws import How
from tests.support.loops.changing_sources import CHANGING, Change, Table
from tests.support.loops.consumption import WAYS, ChangingWorld, Script, run

EXAMPLES = int(os.environ.get("AIRFLOW_RESUME_TEST_EXAMPLES", "500"))
"""Of every property; `--hypothesis-profile=search` takes others each time."""
DURABILITIES = ["sync", "async", "counted", "exit"]
"""`"counted"`: `"async"` as it is by default, where most elements are only counted."""

before_the_end: list[How] = ["raise", "break", "stop", "timeout", "kill"]
endings = st.lists(st.tuples(st.sampled_from(before_the_end), st.integers(0, 4)), max_size=5).filter(
    lambda chosen: sum(how == "kill" for how, _ in chosen) < 3
)
"""Fewer deaths than `max_stalls`, so that any `StalledError` is wrong."""
one_change = st.builds(Change, what=st.sampled_from(["delete", "insert", "update", "append"]), at=st.integers(0, 7))
changes = st.dictionaries(
    st.tuples(st.integers(1, 4), st.integers(-1, 4)), st.lists(one_change, min_size=1, max_size=2), max_size=3
)
everything = {
    "source": st.sampled_from(sorted(CHANGING)),
    "way": st.sampled_from(sorted(WAYS)),
    "durability": st.sampled_from(DURABILITIES),
    "rows": st.integers(1, 8),
    "endings": endings,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_loop_that_nothing_happens_to_delivers_everything_once(way: str) -> None:
    for source in CHANGING.values():
        world = ChangingWorld(7, Script())
        run(world, WAYS[way], source, "async")
        given = [key for entry in world.diary if entry.what == "given" for key in entry.keys]
        assert sorted(given) == sorted(world.table.throughout)


@given(**everything)
@settings(max_examples=EXAMPLES)
def test_what_is_done_is_saved_however_an_attempt_ends(
    *, source: str, way: str, durability: str, rows: int, endings: Any
) -> None:
    run(ChangingWorld(rows, Script(endings=endings)), WAYS[way], CHANGING[source], durability)


@given(**everything, drains=st.integers(1, 3))
@settings(max_examples=EXAMPLES)
def test_nothing_is_skipped_when_the_body_deletes_what_is_done(
    *, source: str, way: str, durability: str, rows: int, endings: Any, drains: int
) -> None:
    run(ChangingWorld(rows, Script(endings=endings, drains=drains)), WAYS[way], CHANGING[source], durability)


@given(**everything, changes=changes, drains=st.sampled_from([0, 0, 1, 2]))
@settings(max_examples=EXAMPLES)
def test_nor_when_others_delete_insert_and_update(
    *, source: str, way: str, durability: str, rows: int, endings: Any, changes: Any, drains: int
) -> None:
    world = ChangingWorld(rows, Script(endings=endings, changes=changes, drains=drains))
    run(world, WAYS[way], CHANGING[source], durability)


# --- that the laws find what they are for -------------------------------------------------------------------------


def numbered_rows(table: Table) -> Any:
    """A function whose position is a number, over rows that are deleted meanwhile: it skips some."""

    def resume(done: int | None) -> Any:
        rows = table.answer("all", table.all_rows())
        for number in range(done or 0, len(rows)):
            yield rows[number], number + 1

    return resume


def test_a_source_that_skips_rows_is_found() -> None:
    wrong = replace(CHANGING["function"], make=numbered_rows)
    world = ChangingWorld(5, Script(endings=[("raise", 2)], drains=1))
    with pytest.raises(AssertionError, match="never delivered"):
        run(world, WAYS["for"], wrong, "sync")


def test_a_loop_that_is_not_saved_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a process that is gone at once."""
    monkeypatch.setattr(consumption, "end_what_is_open", lambda owner: None)
    world = ChangingWorld(5, Script(endings=[("raise", 2)]))
    with pytest.raises(AssertionError, match="2 elements were done, and 0 are saved"):
        run(world, WAYS["held iterator"], CHANGING["list"], "exit")


@pytest.mark.parametrize("how", ["raise", "break", "stop", "timeout"])
def test_attempts_that_say_how_they_end_are_no_stall(how: How) -> None:
    """Also where the element in hand is the first one of a loop inside another one."""
    for way in WAYS.values():
        for durability in DURABILITIES:
            run(ChangingWorld(3, Script(endings=[(how, 0)] * 4)), way, CHANGING["rows of a keyset"], durability)
