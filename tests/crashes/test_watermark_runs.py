"""Two runs of a watermark, dying at every point and at every pair of points."""

from __future__ import annotations

from airflow_resume.testing import explore_crashes
from tests.support.watermarks.hourly_orders import ORACLES, load_two_runs, two_runs


def test_no_hour_is_skipped_whenever_the_attempts_die() -> None:
    report = explore_crashes(load_two_runs, oracle=ORACLES, world=two_runs)
    assert report.pairs_left_out == 0
    assert report.pairs > 1_000
