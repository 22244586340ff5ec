"""A worker that is drained at each element of a loop and at each question about a job, and crashes besides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_resume import checkpoint, run_job
from airflow_resume.errors import JobError
from airflow_resume.testing import FakeJobs, explore_crashes
from airflow_resume.testing.crashes.outcome import ExplorationOutcome
from airflow_resume.testing.oracles import each_effect_at_least_once, same_result
from tests.crashes.test_job_crashes import POLICY, TaskWorld, jobs_submitted, one_alive
from tests.support.drained import VARIABLE, on_clock, touch
from tests.support.loops.worlds import LoopWorld, try_of

COUNT = 4
MANY = 12
LONG = ["RUNNING"] * 3 + ["SUCCEEDED"]
SECOND = timedelta(seconds=1)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "drain"
    monkeypatch.setenv(VARIABLE, str(file))
    return file


def tries_are_used_by_crashes_only(outcome: ExplorationOutcome[Any]) -> None:
    (record,) = outcome.world.airflow.instances.values()
    assert record.try_number <= 1 + outcome.crashes


class Drained:
    """Touches the file of a world in one element, or at one question, of the first attempt that comes there."""

    def __init__(self, file: Path, number: int) -> None:
        self._file, self._number = file, number
        self.times = 0

    def new_world(self) -> None:
        """Before a world begins."""
        self._file.unlink(missing_ok=True)
        self._is_done = False

    def at(self, world: Any, number: int) -> None:
        """This is where an attempt is."""
        if number == self._number and not self._is_done:
            self._is_done = True
            self.times += 1
            touch(self._file, world.airflow.clock.now)


@pytest.mark.parametrize("durability", ["async", "sync", "exit"])
@pytest.mark.parametrize("source", [range, lambda count: iter(range(count))], ids=["counted", "one by one"])
@pytest.mark.parametrize("number", range(COUNT))
def test_a_loop_that_is_drained_at_any_element_loses_none_and_uses_no_try(
    file: Path, number: int, source: Callable[[int], Any], durability: Any
) -> None:
    drained = Drained(file, number)

    def world() -> LoopWorld:
        drained.new_world()
        return LoopWorld()

    def attempt(world: LoopWorld) -> int:
        this = try_of(world)
        loop = checkpoint(source(COUNT), name="l", durability=durability, max_stalls=None, context=this.context)
        with on_clock(loop, world.airflow.clock):
            for element in loop:
                loop.state["sum"] = loop.state.get("sum", 0) + element
                with world.body(this, element):
                    drained.at(world, element)
                world.airflow.clock.advance(SECOND)
            return int(loop.state["sum"])

    oracle = [each_effect_at_least_once, same_result, tries_are_used_by_crashes_only]
    report = explore_crashes(attempt, oracle=oracle, world=world, max_attempts=MANY, max_pairs=40)
    print(report)
    assert {point.attempt for point in report.points} == {1, 2}, "the run without a crash was drained once"
    assert report.pairs >= 40


@pytest.mark.parametrize("question", range(4))
def test_a_job_whose_worker_is_drained_at_any_question_is_one_job_and_uses_no_try(file: Path, question: int) -> None:
    drained = Drained(file, question)

    def world() -> TaskWorld:
        drained.new_world()
        return TaskWorld(FakeJobs(scripts=[LONG]))

    def attempt(world: TaskWorld) -> Any:
        asked: Iterator[int] = iter(range(100))

        def observe(when: str, call: str) -> None:
            if (when, call) == ("before", "status"):
                drained.at(world, next(asked))

        world.jobs.read_observer = observe
        return run_job(world.jobs, policy=POLICY, context=world.begin().context)

    oracle = [one_alive, jobs_submitted(1), same_result, tries_are_used_by_crashes_only]
    report = explore_crashes(
        attempt, oracle=oracle, world=world, retry_on=(JobError,), max_attempts=MANY, max_pairs=200
    )
    print(report)
    assert report.pairs > 100
    assert drained.times > report.pairs
