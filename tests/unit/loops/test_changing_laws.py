"""Whatever a source does, however a loop is gone through, and however its attempts end: nothing is skipped."""

from __future__ import annotations

import os
from typing import Any

import pytest
from changing_sources import CHANGING, Change
from hypothesis import given, settings
from hypothesis import strategies as st
from ways_of_consuming import IN_PLACE, WAYS, ChangingWorld, Script, run

EXAMPLES = int(os.environ.get("AIRFLOW_RESUME_TEST_EXAMPLES", "600"))
"""More of them look for more: `--hypothesis-profile=search` for others each time."""
DURABILITIES = ["sync", "async", "counted", "exit"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("source", CHANGING)
def test_a_loop_that_nothing_happens_to(source: str, way: str) -> None:
    run(ChangingWorld(7, Script()), WAYS[way], CHANGING[source], "async")


# --- everything together ----------------------------------------------------------------------------------------

endings = st.lists(
    st.tuples(st.sampled_from(["raise", "break", "stop", "timeout", "kill"]), st.integers(0, 4)), max_size=4
).filter(lambda chosen: sum(how == "kill" for how, _ in chosen) < 3)
"""Fewer deaths than `max_stalls`, so that any `StalledError` is wrong."""
one_change = st.builds(
    Change, what=st.sampled_from(["delete", "insert", "update", "append"]), at=st.integers(0, 7)
)
changes = st.dictionaries(
    st.tuples(st.integers(1, 4), st.integers(-1, 4)), st.lists(one_change, min_size=1, max_size=2), max_size=3
)


@given(
    source=st.sampled_from(sorted(CHANGING)),
    way=st.sampled_from(sorted(WAYS)),
    durability=st.sampled_from(DURABILITIES),
    rows=st.integers(1, 8),
    endings=endings,
    changes=changes,
    drains=st.sampled_from([0, 0, 1, 1, 2, 3]),
)
@settings(max_examples=EXAMPLES)
def test_nothing_is_skipped_and_nothing_comes_again_beyond_the_bound(
    *, source: str, way: str, durability: str, rows: int, endings: Any, changes: Any, drains: int
) -> None:
    world = ChangingWorld(rows, Script(endings=endings, changes=changes, drains=drains))
    run(world, WAYS[way], CHANGING[source], durability)
