"""Backfills of local days on a real Airflow, east and west of UTC.

They have an Airflow of their own: beside many other runs the API server gives a backfill up when SQLite is locked, and
takes back the Dag runs that it has made, which ends a scheduler that has seen them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.airflow.watermark_runs import Loads


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loads]:
    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    with Loads(Path(tmp_path_factory.mktemp("local")), only="local_days.py", progress=say) as running:
        yield running


@pytest.mark.parametrize(("name", "offset"), [("west", "-08:00"), ("east", "+09:00")])
def test_a_backfill_of_local_days_loads_these_days(quiet: Loads, name: str, offset: str) -> None:
    for kind, midnight in (("days", ""), ("times", " 00:00:00"), ("moments", f" 00:00:00{offset}")):
        runs = quiet.backfill(f"{kind}_{name}", 5, 6, offset=offset)
        assert len(runs) == 2
        lines = quiet.lines(f"{kind}_{name}")
        days = [(f"2026-01-{day:02}{midnight}", f"2026-01-{day + 1:02}{midnight}") for day in (5, 6)]
        assert [(line["start"], line["end"]) for line in lines] == days
