"""No row is missed, the mark stays, an idle run reads nothing: whatever happens to the source and the runs.

tests/crashes has more of it.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.watermarks.concurrent_runs import Duet
from tests.support.watermarks.live_source import LAWS, STEPS, Loader, play


@pytest.mark.parametrize("law", LAWS)
@given(steps=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 7)), max_size=40))
@settings(max_examples=25, deadline=None)
def test_no_row_is_missed(law: str, steps: list[tuple[str, int]]) -> None:
    body, options = LAWS[law]
    play(Loader(body, options), steps)


# --- two runs at once, step by step -------------------------------------------------------------------------------

# Each letter is a step of a run, the first (b, w, c) or the second (B, W, C): begin, work, commit.
# `+`: an hour later. `f`: the first one's attempt fails, and its next one begins. `r`: a person sets the mark back.
# `z`: the first one's attempt is replaced, and lives on. `x`: the first one is cleared, and begins again.
BY_HAND = {
    "one after the other": ("bwc+BWC", "advanced advanced"),
    "the second begins before the first is done": ("b+BwWcC", "advanced advanced"),
    "the second overtakes": ("b+BWCwc", "advanced noop"),
    "both the same window": ("bBWwCc", "advanced noop"),
    "the first fails and the second goes on": ("bw+BfWCwc", "advanced noop"),
    "the first fails after the second": ("b+BWCfwc", "advanced noop"),
    "set back before both commit": ("b+BwWrcC", "fenced fenced"),
    "set back between the commits": ("b+BwWcrC", "advanced fenced"),
    "set back between the beginnings": ("br+BwWcC", "fenced advanced"),
    "a replaced one commits late": ("bwz+BWCcwc", "advanced superseded noop"),
    "cleared while the second is under way": ("bwc+BxwcWC", "advanced noop advanced"),
    "cleared after the second": ("bwc+BWCxwc", "advanced advanced noop"),
}


@pytest.mark.parametrize("row", BY_HAND)
@pytest.mark.parametrize("mode", ["window", "window, lookback", "observed", "split"])
def test_of_two_runs_at_once_neither_skips_a_number(mode: str, row: str) -> None:
    steps, outcomes = BY_HAND[row]
    duet = Duet(mode)
    for step in steps:
        duet.play(step)
    if mode in {"window", "window, lookback"}:
        assert " ".join(duet.outcomes) == outcomes
    duet.pair.finish()
