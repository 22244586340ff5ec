"""What a crash point costs the explorer: a world, one or two crashes, all attempts until success, and the oracle."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from airflow.sdk import Asset

from airflow_resume import PollPolicy, ResumePolicy, checkpoint, run_job, watermark
from airflow_resume.testing import (
    CrashWorld,
    FakeJobs,
    FakeTaskStore,
    World,
    explore_crashes,
    explore_interleavings,
    task_context,
)
from airflow_resume.testing.crashes.outcome import ExplorationOutcome
from airflow_resume.testing.oracles import each_effect_at_least_once, each_effect_exactly_once
from benchmarks.harness import Result, Scale, Seconds, Target, at_most, compare
from tests.support.kit.file_rows import FileRows

AT_ONCE = ResumePolicy(poll=PollPolicy(interval=timedelta(0), max_interval=timedelta(0), jitter=0))
ORDERS = Asset("orders")
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
ROWS: list[dict[str, Any]] = [{"id": number, "at": START + timedelta(minutes=2 * number)} for number in range(90)]
A_THOUSAND_A_SECOND = (at_most(1),)
"""Milliseconds, each."""
TARGETS = {"a plain window": (at_most(1_000 / 300),)}
"""Three runs, each with rows."""


def measure(scale: Scale) -> Iterator[Result]:
    pairs = scale.size(1_000, quick=50)
    for name, attempt, world, oracle in (
        ("a plain loop", documented_loop, a_store, each_effect_at_least_once),
        ("checkpoint", our_loop, a_task, each_effect_at_least_once),
        ("run_job", our_job, a_task, each_effect_exactly_once),
        ("watermark", our_mark, a_task, each_effect_at_least_once),
        ("a plain window", plain_windows, a_table, each_row_is_loaded),
    ):
        explore = partial(seconds_a_way, attempt, world, oracle=oracle, max_pairs=pairs)
        yield from explored(name, explore, scale, TARGETS.get(name, A_THOUSAND_A_SECOND))
    at_once: list[tuple[str, list[Callable[[CrashWorld], None]], Any]] = [
        ("run_job", [our_job, our_job_in_another_run], each_effect_exactly_once),
        ("checkpoint", [our_loop, our_loop_in_another_run], each_effect_at_least_once),
        ("watermark", [our_mark, our_mark_in_another_run], each_effect_at_least_once),
    ]
    for name, runs, oracle in at_once:
        take_turns = partial(seconds_an_interleaving, runs, oracle=oracle, switches=1 if scale.quick else 2)
        yield from interleaved(name, take_turns, scale)
    with tempfile.TemporaryDirectory() as folder:
        kill: dict[str, Any] = {"oracle": each_effect_at_least_once, "kinds": ["sigkill"], "max_pairs": 20}
        explore = partial(seconds_a_way, documented_loop, in_files(folder), **kill)
        yield from explored("a plain loop, SIGKILL of a child process", explore, scale, ())


def explored(name: str, explore: Callable[[], Seconds], scale: Scale, targets: tuple[Target, ...]) -> list[Result]:
    row = f"a crash point of {name}"
    return compare(row, {name: explore}, unit="ms", rounds=scale.rounds(3), targets={name: targets})


def interleaved(name: str, take_turns: Callable[[], Seconds], scale: Scale) -> list[Result]:
    row = f"an interleaving of two runs of {name}"
    return compare(row, {name: take_turns}, unit="ms", rounds=scale.rounds(3))


def seconds_an_interleaving(runs: Sequence[Callable[[CrashWorld], None]], **options: Any) -> Seconds:
    """Of processor time; those that need not be tried count as well."""
    started = time.process_time()
    report = explore_interleavings(runs, world=a_task, **options)
    print(f"  {report}", file=sys.stderr)
    return Seconds((time.process_time() - started) / report.interleavings)


def seconds_a_way(
    attempt: Callable[[CrashWorld], None], make_world: Callable[[], CrashWorld], **options: Any
) -> Seconds:
    """Of processor time, that of child processes included."""
    started = sum(os.times()[:4])
    report = explore_crashes(attempt, world=make_world, **options)
    return Seconds((sum(os.times()[:4]) - started) / report.ways)


def documented_loop(world: CrashWorld) -> None:
    for page in range(world.store.get("page", 0), 10):
        with world.effect(f"load {page}"):
            pass
        world.store.set("page", page + 1)


def our_loop(world: CrashWorld, run_id: str = "run-1") -> None:
    attempt = task_context(world=world.airflow, run_id=run_id)
    for page in checkpoint(range(3), name="pages", durability="sync", context=attempt.context):
        with world.effect(f"load {page}"):
            pass


def our_loop_in_another_run(world: CrashWorld) -> None:
    our_loop(world, "run-2")


def our_job(world: CrashWorld, run_id: str = "run-1") -> None:
    run_job(world.jobs, policy=AT_ONCE, context=task_context(world=world.airflow, run_id=run_id).context)


def our_job_in_another_run(world: CrashWorld) -> None:
    our_job(world, "run-2")


def our_mark(world: CrashWorld, run_id: str = "run-1") -> None:
    mark = watermark(ORDERS, initial=START, delay=timedelta(0), now=lambda: START + timedelta(hours=1))
    attempt = task_context(world=world.airflow, assets=[ORDERS], run_id=run_id)
    with mark.open(attempt.context), world.effect("load"):
        pass


def our_mark_in_another_run(world: CrashWorld) -> None:
    our_mark(world, "run-2")


def plain_windows(world: CrashWorld) -> None:
    """Three runs, each of which reads its rows from a list and writes them to a sink."""
    for hour in range(3):
        mark = watermark(ORDERS, initial=START, delay=timedelta(0), now=partial(hours_later, hour + 1))
        attempt = task_context(world=world.airflow, assets=[ORDERS], run_id=f"run-{hour}")
        with attempt, mark.open(attempt.context) as window, world.effect(f"load {hour}"):
            start, end = window.start, window.end
            found = [row for row in ROWS if start <= row["at"] < end]
            world.sink.update((row["id"], row) for row in window.track(found, "at"))
        attempt.succeed()


def hours_later(hours: int) -> datetime:
    return START + timedelta(hours=hours)


def each_row_is_loaded(outcome: ExplorationOutcome[Any]) -> None:
    assert sorted(outcome.world.sink) == [row["id"] for row in ROWS]


def a_table() -> CrashWorld:
    return CrashWorld(airflow=World(), sink={})


def a_store() -> CrashWorld:
    return CrashWorld(store=FakeTaskStore())


def a_task() -> CrashWorld:
    return CrashWorld(airflow=World(), jobs=FakeJobs())


def in_files(folder: str) -> Callable[[], CrashWorld]:
    numbers: Iterator[int] = count()
    return lambda: CrashWorld(store=FakeTaskStore(FileRows(Path(folder, f"{next(numbers)}.json"))))
