"""A loop and a watermark that append to a lake: every crash, pairs of crashes, lost replies, and a planted fault."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Asset

from airflow_resume import checkpoint, watermark
from airflow_resume.errors import SinkBusyError, SupersededError
from airflow_resume.loops import CursorToken, Page
from airflow_resume.sink_protocol import Claimant
from airflow_resume.testing import (
    CrashWorld,
    FakeTaskStore,
    World,
    explore_crashes,
    explore_interleavings,
    task_context,
)
from airflow_resume.testing.crashes.outcome import ExplorationOutcome
from airflow_resume.testing.errors import CrashFoundError
from airflow_resume.testing.sinks import WatchedSink, each_row_exactly_once
from tests.support.sinks.lakes import LAKES, Lake


class LakeWorld(CrashWorld):
    """An Airflow, and a table in files."""

    def __init__(self, kind: str, folder: Path) -> None:
        super().__init__(airflow=World())
        folder.mkdir()
        self.lake: Lake = LAKES[kind](folder)
        self.lake.make()

    def rows(self) -> list[int]:
        return self.lake.ids()


@pytest.fixture(params=LAKES)
def new_world(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], LakeWorld]:
    numbers = iter(range(10**6))
    return lambda: LakeWorld(request.param, tmp_path / str(next(numbers)))


def pages() -> CursorToken[int]:
    def fetch(token: str | None) -> Page[int]:
        number = int(token or 0)
        return Page([2 * number, 2 * number + 1], str(number + 1) if number < 2 else None)

    return CursorToken(fetch)


def appending(sink_of: Callable[[Any], Any] = lambda sink: sink, **options: Any) -> Callable[[LakeWorld], int]:
    """An attempt that appends six rows of three pages."""

    def append(world: LakeWorld) -> int:
        sink = world.watch(WatchedSink(sink_of(world.lake.sink())))
        context = task_context(world=world.airflow, retries=9).context
        with checkpoint(pages(), name="rows", sink=sink, context=context, **options) as loop:
            for page in loop:
                world.lake.append(loop, [{"id": each} for each in (page.items if isinstance(page, Page) else [page])])
        return loop.count

    return append


EXACTLY = each_row_exactly_once(LakeWorld.rows)


@pytest.mark.parametrize("commit_every", [1, 2])
def test_no_crash_and_no_pair_of_crashes_loses_or_repeats_a_row(new_world: Any, commit_every: int) -> None:
    attempt = appending(commit_every=commit_every)
    report = explore_crashes(attempt, oracle=EXACTLY, world=new_world, max_pairs=30)
    assert len(report.points) > 15
    assert report.pairs > 25


def test_nor_within_a_page(new_world: Any) -> None:
    report = explore_crashes(appending(each=True, commit_every=4), oracle=EXACTLY, world=new_world, max_pairs=20)
    assert report.pairs > 15


def test_a_database_of_airflow_that_is_restored_or_cleared_changes_nothing(new_world: Any) -> None:
    report = explore_crashes(
        appending(), oracle=EXACTLY, world=new_world, kinds=["state_cleared", "restored", "crash"], max_pairs=20
    )
    assert report.pairs > 15


def test_an_error_after_the_commit_is_no_second_commit(new_world: Any) -> None:
    report = explore_crashes(
        appending(), oracle=EXACTLY, world=new_world, kinds=["raises_after", "reply_lost"], max_pairs=20
    )
    assert report.pairs > 15


# --- a watermark ------------------------------------------------------------------------------------------------

FLIGHTS = Asset("flights")
NEW_FLIGHTS = watermark(FLIGHTS, initial=0, now=lambda: 5)


def loading(world: LakeWorld) -> None:
    """A run that loads what is new of five rows, in two slices."""
    sink = world.watch(WatchedSink(world.lake.sink()))
    context = task_context(world=world.airflow, assets=[FLIGHTS], retries=9).context
    with NEW_FLIGHTS.open(context, sink=sink) as window:
        for part in window.split(3):
            world.lake.append(window, [{"id": each} for each in range(part.start, part.end)])


def test_no_crash_of_a_watermark_loses_or_repeats_a_row(new_world: Any) -> None:
    report = explore_crashes(loading, oracle=EXACTLY, world=new_world, max_pairs=20)
    assert len(report.points) > 15
    assert report.pairs > 15


# --- two runs at once -------------------------------------------------------------------------------------------


def script(world: LakeWorld) -> int:
    """A run of a script, which has no order among its runs."""
    sink = world.watch(WatchedSink(world.lake.sink(script="rows")))
    with checkpoint(pages(), name="rows", sink=sink, store=world.watch(FakeTaskStore())) as loop:
        for page in loop:
            world.lake.append(loop, [{"id": each} for each in page.items])
    return loop.count


def test_two_runs_in_every_order_leave_exactly_the_rows_before_the_position(new_world: Any) -> None:
    """Both may fail, as one is replaced; a later run finishes the rest."""

    def each_row_before_the_position(outcome: ExplorationOutcome[LakeWorld]) -> None:
        rows = outcome.world.rows()
        assert rows == list(range(len(rows)))
        [identity] = identities
        found: Any = outcome.world.lake.sink().claim(identity, Claimant()).position
        assert found["n"] * 2 == len(rows)

    identities: list[Any] = [["loop", "", "", "", -1, "resume.loop.rows"]]
    report = explore_interleavings(
        [script, script],
        oracle=each_row_before_the_position,
        world=new_world,
        may_fail=(SupersededError, SinkBusyError),
        max_ways=30,
    )
    assert report.interleavings > 20


# --- a planted fault --------------------------------------------------------------------------------------------


class TwoCommits:
    """The rows are committed first, and the position in a second commit."""

    def __init__(self, sink: Any) -> None:
        self._sink, self.target = sink, sink.target

    @property
    def commits(self) -> Any:
        return self._sink.commits

    @commits.setter
    def commits(self, commits: Any) -> None:
        self._sink.commits = commits

    def claim(self, identity: Any, claimant: Any) -> Any:
        claimed = self._sink.claim(identity, claimant)

        commit = claimed.commit

        def commit_twice(position: Any) -> None:
            commit(claimed._record.position)
            commit(position)

        claimed.commit = commit_twice
        return claimed


def test_a_position_in_a_second_commit_repeats_rows_and_is_found(new_world: Any) -> None:
    with pytest.raises(CrashFoundError, match=r"repeated rows: 0 1 x, 1 1 x\n"):
        explore_crashes(appending(TwoCommits), oracle=EXACTLY, world=new_world, kinds=["crash"], double=False)
