"""What may happen to a watermark and to a loop besides a crash: late errors, lost state, backups, lying sources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_resume import checkpoint
from airflow_resume.loops import CursorToken, Keyset, Offset, Page, PageNumber
from airflow_resume.testing import CrashWorld, World, explore_crashes, task_context
from airflow_resume.testing.crashes.outcome import ExplorationOutcome
from airflow_resume.testing.oracles import each_effect_at_least_once, mark_never_decreases, same_result
from tests.support.loops.worlds import SOURCES, LoopWorld, with_for
from tests.support.watermarks.usages import EVERY_WAY, SECOND, everything_before_the_mark_is_loaded
from tests.support.watermarks.usages import a_world as a_mark_world
from tests.support.watermarks.whole_numbers import NUMBERS, numbers

FAULTS = ["raises_after OSError", "state_cleared", "recreated"]
BACKUPS = ["restored", "crash"]


# --- watermarks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["window", "observed", "token", "split"])
def test_a_mark_skips_nothing_and_stays_after_late_errors_and_without_the_state_of_its_task(name: str) -> None:
    way = EVERY_WAY[name]
    report = explore_crashes(
        way.attempt, oracle=way.oracles, world=way.world, retry_on=way.retry_on, kinds=FAULTS, max_pairs=50
    )
    assert report.pairs > 40


@pytest.mark.parametrize("name", ["window", "observed", "split"])
def test_a_mark_that_a_backup_sets_back_skips_nothing(name: str) -> None:
    way = EVERY_WAY[name]
    oracles = [oracle for oracle in way.oracles if oracle is not mark_never_decreases]
    report = explore_crashes(
        way.attempt, oracle=oracles, world=way.world, retry_on=way.retry_on, kinds=BACKUPS, max_pairs=50
    )
    assert report.pairs > 40


def loads_what_it_is_told(mark_of: Callable[[CrashWorld], Any]) -> Callable[[CrashWorld], list[int]]:
    """Two runs, the second of which comes later; the source may leave out the last rows, or all, or give them twice."""

    def attempt(world: CrashWorld) -> list[int]:
        while True:
            trying = task_context(assets=[NUMBERS], world=world.airflow, run_id=f"run {world.clock.number}")
            with mark_of(world).open(trying.context) as window:
                there = [{"n": number} for number in range(window.start, world.clock.number)]
                lies = {"empty": [], "short": there[:-1], "repeated": there + there}
                for row in window.track(world.answer("rows", there, lies), "n", unique=True):
                    with world.effect(f"load {row['n']}"):
                        world.loaded.add(row["n"])
            trying.succeed()
            if world.clock.number == SECOND:
                return sorted(world.loaded)
            world.clock.number = SECOND

    return attempt


def test_an_observed_mark_goes_no_further_than_what_a_lying_source_has_given() -> None:
    explore_crashes(
        loads_what_it_is_told(lambda _: numbers()),
        oracle=[everything_before_the_mark_is_loaded, mark_never_decreases],
        world=a_mark_world,
        kinds=["wrong_once", "crash"],
        max_pairs=50,
    )


def test_a_window_is_believed_to_hold_what_its_source_has_given() -> None:
    """Nobody else knows; `lookback` reads again."""

    def lost(**options: Any) -> set[str]:
        report = explore_crashes(
            loads_what_it_is_told(lambda world: numbers(world.clock, **options)),
            oracle=everything_before_the_mark_is_loaded,
            world=a_mark_world,
            kinds=["wrong_once"],
            double=False,
            find_all=True,
        )
        return {kind for finding in report.findings for kind in finding.way.values()}

    assert lost() == {"wrong_once empty", "wrong_once short"}


# --- loops ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["sync", "async"])
@pytest.mark.parametrize("source", ["range", "tokens", "rows of offsets"])
def test_a_loop_loses_no_element(source: str, durability: str) -> None:
    report = explore_crashes(
        with_for(SOURCES[source], 3, durability=durability),
        oracle=[each_effect_at_least_once, same_result],
        world=LoopWorld,
        kinds=[*FAULTS, "restored"],
        max_pairs=60,
    )
    assert report.pairs > 50


ROWS, LIMIT = 6, 2


class Source(CrashWorld):
    """Rows that are asked for by two, a table, and what a page may wrongly be once."""

    def __init__(self) -> None:
        super().__init__(airflow=World(), table=set())

    def page(self, at: int, as_page: Callable[[list[int]], Any] = list) -> Any:
        def rows(at: int, count: int = LIMIT) -> Any:
            return as_page(list(range(ROWS))[max(at, 0) :][:count])

        lies = {"empty": rows(ROWS), "short": rows(at, 1), "repeated": rows(at - LIMIT)}
        return self.answer(f"rows from {at}", rows(at), lies)


def token_pages(source: Source, token: str | None) -> Any:
    at = int(token or 0)
    return source.page(at, lambda rows: Page(rows, str(at + LIMIT) if at + LIMIT < ROWS else None))


LYING: dict[str, tuple[Callable[[Source], Any], set[str], set[str]]] = {
    "a total": (
        lambda source: Offset(lambda at, _: source.page(at, lambda rows: Page(rows, total=ROWS)), limit=LIMIT),
        set(),
        {"repeated"},
    ),
    "keys": (
        lambda source: Keyset(
            lambda after, _: source.page(0 if after is None else after + 1), key=lambda row: row, limit=LIMIT
        ),
        {"empty"},
        {"repeated"},
    ),
    "offsets": (lambda source: Offset(lambda at, _: source.page(at), limit=LIMIT), {"empty"}, {"repeated"}),
    "page numbers": (
        lambda source: PageNumber(lambda number: source.page(LIMIT * (number - 1)), size=LIMIT),
        {"empty", "short"},
        {"repeated"},
    ),
    "tokens": (
        lambda source: CursorToken(lambda token: token_pages(source, token)),
        {"empty", "short", "repeated"},
        set(),
    ),
}
"""The source; which lies it believes, so that rows are left out; with which it fails for good, and leaves out none."""


@pytest.mark.parametrize("name", LYING)
def test_what_a_loop_believes_of_a_source_that_lies_once(name: str) -> None:
    source, believed, refused = LYING[name]

    def attempt(world: Source) -> None:
        with task_context(world=world.airflow) as running:
            rows = checkpoint(source(world), name="rows", each=True, durability="sync", context=running.context)
            for row in rows:
                with world.effect(f"load {row}"):
                    world.table.add(row)

    def all_rows(outcome: ExplorationOutcome[Source]) -> None:
        assert outcome.world.table == set(range(ROWS)), "left out"

    report = explore_crashes(attempt, oracle=all_rows, world=Source, kinds=["wrong_once"], double=False, find_all=True)
    found = {(kind.partition(" ")[2], finding.problem) for finding in report.findings for kind in finding.way.values()}
    assert {lie for lie, problem in found if problem.startswith("left out")} == believed
    assert {lie for lie, problem in found if "EndlessSourceError" in problem or "RowOrderError" in problem} == refused
    assert report.ways > 8
