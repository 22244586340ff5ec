"""How costs grow with the number of elements, workers and partitions, and with the size of a record."""

from __future__ import annotations

import logging
import math
import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import psutil
from airflow.sdk import Asset

from airflow_resume import checkpoint, watermark
from airflow_resume.loops import Skip
from airflow_resume.testing import World, task_context
from benchmarks.counting import CountingStore, size_of
from benchmarks.harness import Result, Scale, Unit, at_most, compare, exhaust, ratio_at_most, results, tell

NUMBERS = Asset("numbers")
KB = 1_000


def measure(scale: Scale) -> Iterator[Result]:
    yield from elements(scale)
    yield from stragglers(scale)
    yield from workers(scale)
    yield from partitions(scale)
    yield from caps(scale)


# --- elements -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Grown:
    """The cost of a loop."""

    calls: int
    largest: int
    memory: int
    seconds: float


def looped(elements: int) -> Grown:
    """A loop in a process that did nothing else before, but for one that warms up."""
    exhaust(checkpoint(range(1_000), name="warm", store=CountingStore()))
    process, store = psutil.Process(), CountingStore()
    memory, started = process.memory_info().rss, time.perf_counter()
    exhaust(checkpoint(range(elements), name="elements", store=store))
    seconds = time.perf_counter() - started
    grown = process.memory_info().rss - memory
    return Grown(calls=store.calls, largest=store.largest, memory=grown, seconds=seconds)


def elements(scale: Scale) -> Iterator[Result]:
    sizes = (scale.size(10_000_000, quick=50_000), scale.size(100_000, quick=5_000), 1_000)
    with multiprocessing.get_context("spawn").Pool(1, logging.disable, (logging.ERROR,), maxtasksperchild=1) as pool:
        grown = {size: pool.apply(looped, (size,)) for size in sizes}
    # To open takes two, to finish one, and in between there is at most one a second.
    calls = 3 + math.ceil(grown[sizes[0]].seconds)
    yield from among("store calls of a loop", grown, lambda each: each.calls, "calls", calls)
    yield from among("the largest record of a loop", grown, lambda each: each.largest, "bytes", KB)
    yield from among("memory that is added by a loop", grown, lambda each: each.memory / KB, "KB", 1_000)


def among(row: str, grown: dict[int, Grown], of: Callable[[Grown], float], unit: Unit, limit: float) -> list[Result]:
    """The largest beside the smaller ones; the limit is for the largest."""
    largest, *_ = grown
    return tell(
        f"{row} over {largest:,} elements",
        {f"over {size:,}": of(each) for size, each in grown.items()},
        unit=unit,
        targets={f"over {size:,}": (at_most(limit),) for size in grown if size != largest},
    )


# --- workers --------------------------------------------------------------------------------------------------


def stragglers(scale: Scale) -> list[Result]:
    """Every thousandth element takes long, so that the finished elements after it must be stored one by one."""
    total = scale.size(100_000, quick=2_000)
    store, finished = CountingStore(), "a list of the finished ids"

    def work(number: int) -> None:
        if number % 1_000 == 0:
            time.sleep(0.01)

    exhaust(checkpoint(range(total), name="elements", store=store, durability="sync").map(work, workers=64))
    return tell(
        f"the largest record, {total:,} elements, 64 workers, stragglers",
        {"run lengths": store.largest, finished: size_of(list(range(total)))},
        unit="bytes",
        targets={finished: (at_most(KB),)},
        headline=True,
    )


def workers(scale: Scale) -> Iterator[Result]:
    total = scale.size(10_000, quick=500)
    for number in (1, 8, 64):
        plain = "ThreadPoolExecutor.map"
        yield from compare(
            f"an element of map, {number} workers",
            {"checkpoint.map": partial(mapped, total, number), plain: partial(pooled, total, number)},
            per=total,
            rounds=scale.rounds(5),
        )


def mapped(total: int, workers: int) -> None:
    loop = checkpoint(range(total), name="elements", store=CountingStore())
    exhaust(loop.map(abs, workers=workers))


def pooled(total: int, workers: int) -> None:
    with ThreadPoolExecutor(workers) as pool:
        exhaust(pool.map(abs, range(total)))


# --- partitions -----------------------------------------------------------------------------------------------


def partitions(scale: Scale) -> list[Result]:
    """Each has a mark of its own: a window of one is no dearer for the others."""
    total, some = scale.size(10_000, quick=500), scale.size(500, quick=100)
    world = World()
    took = [1e6 * load_partition(world, number) for number in range(total)]
    return results(
        f"a window of a partition, when there are {total:,}",
        {"the last": took[-some:], f"of the first {some:,}": took[:some]},
        unit="us",
        targets={f"of the first {some:,}": (ratio_at_most(1.5),)},
    )


def load_partition(world: World, number: int) -> float:
    """The seconds of processor time that it takes."""
    started = time.process_time()
    attempt = task_context(world=world, assets=[NUMBERS], run_id=f"run-{number}")
    mark = watermark(NUMBERS, initial=0, now=lambda: 10, partition=f"table {number}")
    with mark.open(attempt.context):
        pass
    took = time.process_time() - started
    attempt.succeed()
    # Airflow finds these by an index. The fakes look at each, which is not what is measured.
    for searched in (world.xcoms.kept, world.events, world.instances):
        searched.clear()
    return took


# --- what a record remembers ----------------------------------------------------------------------------------


def caps(scale: Scale) -> Iterator[Result]:
    many = scale.size(1_000, quick=60)
    yield from tell(
        f"a mark after {many:,} moves, with {many:,} windows behind gaps",
        {"then": mark_after(many), "at first": mark_after(0)},
        unit="bytes",
        targets={"at first": (at_most(5 * KB),)},
    )
    yield from tell(
        f"the record of a loop that skipped {many:,} elements",
        {"then": skipping(many), "that skipped none": skipping(0)},
        unit="bytes",
        targets={"that skipped none": (at_most(16 * KB),)},
    )


def mark_after(moves: int) -> int:
    """The size of a mark that moved so often, and beyond which so many windows were loaded with gaps between them."""
    world = World()
    numbers = [0, *range(1, moves + 1)]
    for number in numbers:
        run_window(world, f"run-{number}", number + 1, None)
    for number in numbers[1:]:
        start = moves + 10 * number
        run_window(world, f"beyond-{number}", start + 20, {"from": start, "to": start + 5, "commit": True})
    attempt = task_context(world=world, assets=[NUMBERS], run_id="look")
    return size_of(attempt.asset_stores[NUMBERS].values["resume.watermark.watermark"])


def run_window(world: World, run_id: str, now: int, wish: dict[str, Any] | None) -> None:
    attempt = task_context(world=world, assets=[NUMBERS], run_id=run_id)
    attempt.context["dag_run"].conf = {} if wish is None else {"watermark": {"watermark": wish}}
    with watermark(NUMBERS, initial=0, now=lambda: now).open(attempt.context):
        pass
    attempt.succeed()


def skipping(failures: int) -> int:
    """The largest record of a loop of which so many elements fail, with long messages."""
    store = CountingStore()
    with checkpoint(
        range(failures + 10),
        name="elements",
        store=store,
        durability="exit",
        skip=Skip(on=(ValueError,), limit=failures + 1),
    ) as loop:
        for number in loop:
            with loop.skipping():
                if number < failures:
                    raise ValueError("x" * 1_000)
    return store.largest
