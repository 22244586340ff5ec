"""No row is missed, the mark stays, an idle run reads nothing: whatever happens to the source and the runs.

tests/crashes has more of it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from written_while_read import (
    Body,
    Loader,
    by_advance,
    in_slices,
    play,
    some_fail,
    track_all,
    track_unique,
)

STEPS = [
    "write",
    "write_ahead",
    "delete",
    "tick",
    "start",
    "step",
    "finish_body",
    "finish",
    "fail",
    "give_up",
    "supersede",
    "clear",
    "backfill",
    "rewind",
]
LAWS: dict[str, tuple[Body, dict[str, Any]]] = {
    "window": (track_all, {}),
    "window, lookback": (track_all, {"lookback": timedelta(seconds=2)}),
    "window, max_span": (track_all, {"max_span": timedelta(seconds=2)}),
    "window, fill": (track_all, {"backfill": "fill"}),
    "window, jump": (some_fail, {"on_gap": "jump", "backfill": "isolated"}),
    "window, fail_from": (some_fail, {"backfill": "fill"}),
    "observed": (track_unique, {"advance": "observed"}),
    "observed, max_span": (track_unique, {"advance": "observed", "max_span": timedelta(seconds=2)}),
    "observed, lookback": (track_unique, {"advance": "observed", "backfill": "fill"}),
    "explicit": (by_advance, {"advance": "explicit"}),
    "split": (in_slices, {}),
    "split, fill": (in_slices, {"backfill": "fill"}),
}


@pytest.mark.parametrize("law", LAWS)
@given(steps=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 7)), max_size=40))
@settings(max_examples=25, deadline=None)
def test_no_row_is_missed(law: str, steps: list[tuple[str, int]]) -> None:
    body, options = LAWS[law]
    play(Loader(body, options), steps)
