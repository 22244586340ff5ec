"""Every way of using a watermark, dying at every point; and long histories of runs over a source that is written."""

from __future__ import annotations

import random

import pytest

from airflow_resume.testing import explore_crashes
from tests.support.watermarks.live_source import LAWS, STEPS, Loader, play
from tests.support.watermarks.usages import EVERY_WAY, Way

HISTORIES = 150


@pytest.mark.parametrize("name", EVERY_WAY)
def test_nothing_is_skipped_whenever_the_attempts_die(name: str) -> None:
    way: Way = EVERY_WAY[name]
    report = explore_crashes(way.attempt, oracle=way.oracles, world=way.world, retry_on=way.retry_on, max_pairs=400)
    assert report.pairs > 100


@pytest.mark.parametrize("law", LAWS)
def test_in_long_histories_no_row_is_missed(law: str) -> None:
    body, options = LAWS[law]
    for seed in range(HISTORIES):
        rng = random.Random(f"{law} {seed}")  # noqa: S311
        play(Loader(body, options), [(rng.choice(STEPS), rng.randrange(8)) for _ in range(rng.randrange(60))])
