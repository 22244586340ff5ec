"""What keeps the explorer quick, counted and not timed."""

from __future__ import annotations

import cProfile
import logging
import pstats
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from airflow.sdk import Asset, BaseOperator

from airflow_resume import watermark
from airflow_resume.testing import CrashWorld, World, explore_crashes, explore_interleavings, task_context
from airflow_resume.testing.errors import OneWayWarning
from airflow_resume.testing.turns.commuting import Trace
from airflow_resume_mixins import WatermarkMixin

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
ORDERS = Asset("orders")
ROWS = [{"id": number, "at": START + timedelta(minutes=number)} for number in range(90)]


def hours() -> list[int]:
    return [1, 2, 3]


def load(world: CrashWorld, run_id: str, hour: int) -> None:
    mark = watermark(ORDERS, initial=START, delay=timedelta(0), now=lambda: START + timedelta(minutes=30 * hour))
    attempt = task_context(world=world.airflow, assets=[ORDERS], run_id=run_id)
    with attempt, mark.open(attempt.context) as window:
        start, end = window.start, window.end
        with world.effect(f"load {hour}"):
            found = [row for row in ROWS if start <= row["at"] < end]
            world.sink.update((row["id"], row) for row in window.track(found, "at"))
    attempt.succeed()


def three_runs(world: CrashWorld) -> None:
    for hour in hours():
        load(world, f"run-{hour}", hour)


def a_sink() -> CrashWorld:
    return CrashWorld(airflow=World(), sink={})


def each_row_is_there(outcome: Any) -> None:
    assert sorted(outcome.world.sink) == [row["id"] for row in ROWS]


def calls_of(function: Callable[[], Any]) -> tuple[Any, pstats.Stats]:
    profile = cProfile.Profile()
    result = profile.runcall(function)
    return result, pstats.Stats(profile)


def test_a_plain_window_costs_few_calls_of_functions() -> None:
    def explore() -> Any:
        return explore_crashes(three_runs, world=a_sink, oracle=each_row_is_there, max_pairs=40)

    explore()  # what is made once a process is made
    report, stats = calls_of(explore)
    each: Any = stats
    runs = next(calls for (_, _, name), (calls, *_) in each.stats.items() if name == "load")
    assert report.ways > 100
    # 2,100 in Python 3.11, of which 110 see that a record is one that an attempt can have written; before plain values
    # were taken for what they are 950 more, and the log came on top.
    assert each.total_calls / runs < 2_300


def test_the_configuration_is_not_read_for_every_attempt() -> None:
    class Load(WatermarkMixin, BaseOperator):
        watermark = watermark(ORDERS, initial=START, delay=timedelta(0), now=lambda: START + timedelta(hours=1))

        def execute_window(self, context: Any, window: Any) -> None: ...

    def attempt(world: CrashWorld) -> None:
        with task_context(lambda: Load(task_id="load"), world=world.airflow) as only:
            only.ti.task.execute(only.context)
        with world.effect("the end"):
            pass

    def explore() -> Any:
        return explore_crashes(attempt, world=a_sink, oracle=lambda outcome: None, double=False)

    explore()
    report, stats = calls_of(explore)
    each: Any = stats
    of_a_dag = [calls for (file, _, name), (calls, *_) in each.stats.items() if name == "getint" and "config" in file]
    assert report.ways > 10
    assert sum(of_a_dag) == 0


def test_a_dag_is_made_once_a_world_for_assets_that_are_made_in_each_attempt() -> None:
    def attempt(world: CrashWorld) -> None:
        asset = Asset("orders")
        mark = watermark(asset, initial=START, delay=timedelta(0), now=lambda: START + timedelta(hours=1))
        attempt = task_context(world=world.airflow, assets=[asset])
        with mark.open(attempt.context), world.effect("load"):
            pass

    def explore() -> Any:
        return explore_crashes(attempt, world=a_sink, oracle=lambda outcome: None, double=False)

    explore()
    _, stats = calls_of(explore)
    each: Any = stats
    counts = {name: calls for (_, _, name), (calls, *_) in each.stats.items()}
    assert 0 < counts["new_dag"] <= counts["a_sink"] < counts["context_entries"]


def test_the_length_of_a_run_is_counted_once_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    assert dict(Trace(((0, 0), (1, 0), (1, 1), (0, 1), (0, 2)), {}, {}).lengths) == {0: 3, 1: 2}
    counted: list[Trace] = []
    made = Trace.__dict__["lengths"]
    found = made.func

    def count(trace: Trace) -> Any:
        counted.append(trace)
        return found(trace)

    monkeypatch.setattr(made, "func", count)
    report = explore_interleavings(
        [lambda world: load(world, "run-1", 3), lambda world: load(world, "run-2", 3)],
        world=a_sink,
        oracle=each_row_is_there,
        switches=2,
    )
    assert len(counted) <= report.interleavings


class TestTheLog:
    @pytest.fixture
    def logged(self, caplog: pytest.LogCaptureFixture) -> Callable[..., list[str]]:
        def explore(**options: Any) -> list[str]:
            caplog.clear()
            explore_crashes(three_runs, world=a_sink, oracle=each_row_is_there, double=False, **options)
            return [record.levelname for record in caplog.records if record.name.startswith("airflow_resume")]

        logging.getLogger().setLevel(logging.INFO)
        logging.getLogger("airflow_resume").setLevel(logging.NOTSET)
        return explore

    @pytest.fixture(autouse=True)
    def _levels(self) -> Iterator[None]:
        root, ours = logging.getLogger(), logging.getLogger("airflow_resume")
        before = root.level, ours.level
        yield
        root.setLevel(before[0])
        ours.setLevel(before[1])

    def test_has_only_warnings_of_thousands_of_ways(self, logged: Callable[..., list[str]]) -> None:
        of_the_runs_without_a_crash = 2 * 2 * len(hours())
        assert logged() == ["INFO"] * of_the_runs_without_a_crash
        assert logging.getLogger("airflow_resume").level == logging.NOTSET

    def test_has_all_of_a_way_that_is_gone_alone(self, logged: Callable[..., list[str]]) -> None:
        with pytest.warns(OneWayWarning):
            lines = logged(only="8:crash")
        assert len(lines) > 2 * 2 * len(hours())

    def test_has_all_where_a_level_was_set(self, logged: Callable[..., list[str]]) -> None:
        logging.getLogger("airflow_resume").setLevel(logging.INFO)
        assert len(logged()) > 100
