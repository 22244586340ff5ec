"""Loops over a table that others change, consumed in every way: every crash, and pairs of crashes."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_resume.testing import explore_crashes
from airflow_resume.testing.crashes.explorer import CrashReport
from airflow_resume.testing.crashes.outcome import ExplorationOutcome
from tests.support.loops.changing_sources import CHANGING, Change
from tests.support.loops.consumption import WAYS, ChangingWorld, Script, attempt_of, check

ROWS = 5


def explored(source: str, way: str, durability: str, script: Script, **options: Any) -> CrashReport:
    def law(outcome: ExplorationOutcome[ChangingWorld]) -> None:
        outcome.world.held.clear()
        check(outcome.world, WAYS[way], CHANGING[source])

    return explore_crashes(
        attempt_of(WAYS[way], CHANGING[source], durability),
        oracle=law,
        world=lambda: ChangingWorld(ROWS, script),
        allowed_to_fail=CHANGING[source].fails,
        **options,
    )


DRAINING = Script(drains=1)
BROKEN = Script(endings=[("raise", 2)], changes={(2, -1): [Change("delete", 0)]})
CHANGED = Script(changes={(1, 1): [Change("insert", 2)], (2, -1): [Change("delete", 0)], (2, 0): [Change("update", 1)]})
SCRIPTS = {"draining": DRAINING, "changed": CHANGED}


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("source", CHANGING)
def test_no_row_is_skipped_whatever_the_source_does(source: str, script: str) -> None:
    report = explored(source, "for", "sync", SCRIPTS[script], max_pairs=60)
    assert report.pairs > 40


@pytest.mark.parametrize("durability", ["async", "counted", "exit"])
@pytest.mark.parametrize("source", ["rows of tokens", "rows of a keyset", "rows of page numbers", "files"])
def test_nor_when_the_position_is_written_later(source: str, durability: str) -> None:
    report = explored(source, "for", durability, DRAINING, max_pairs=60)
    assert report.pairs > 20


@pytest.mark.parametrize("way", [name for name, way in WAYS.items() if not way.threads])
@pytest.mark.parametrize("source", ["rows of tokens", "rows of a keyset"])
def test_nor_however_the_loop_is_gone_through(source: str, way: str) -> None:
    """The first attempt fails by itself, so what it had done must be saved."""
    report = explored(source, way, "exit", BROKEN, max_pairs=30)
    assert report.pairs > 20
