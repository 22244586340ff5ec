"""What `checkpoint` costs for each element, in memory: nothing is done with the elements, and the store is local."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import chain
from typing import Any, TypeVar

from airflow_resume import checkpoint
from airflow_resume.store import MemoryStore
from benchmarks.environments import DLT, TORCHDATA, worker
from benchmarks.harness import Result, Scale, Work, compare, exhaust, extra_at_most, ratio_at_most

T = TypeVar("T")

PAGE = 1_000
PASSED = "a generator with `yield from`"
CHEAP = (ratio_at_most(3), extra_at_most(150))
FASTER = (ratio_at_most(1),)


def measure(scale: Scale) -> Iterator[Result]:
    count, rounds = scale.size(1_000_000, quick=20_000), scale.rounds(7)
    elements = range(count)
    yield from compare(
        "an element of checkpoint",
        {"checkpoint": lambda: looped(elements), PASSED: lambda: exhaust(passed(elements))},
        per=count,
        unit="ns",
        rounds=rounds,
        targets={PASSED: CHEAP},
        headline=True,
        clock=time.process_time,
    )
    pages = [elements[start : start + PAGE] for start in range(0, count, PAGE)]
    flat = "a generator over chain.from_iterable"
    yield from compare(
        "an element of checkpoint(pages of 1,000, each=True)",
        {
            "checkpoint": lambda: looped(pages, each=True),
            flat: lambda: exhaust(passed(chain.from_iterable(pages))),
        },
        per=count,
        unit="ns",
        rounds=rounds,
        targets={flat: CHEAP},
        clock=time.process_time,
    )
    yield from other_ways(scale)
    yield from beside_others(scale)


def other_ways(scale: Scale) -> Iterator[Result]:
    """`async for`, a body that keeps a sum in `state`, `map` and `amap`, beside what Python has for each."""
    count, rounds = scale.size(50_000, quick=1_000), scale.rounds(5)
    elements = range(count)
    for row, subjects in {
        "an element of `async for` over checkpoint": {
            "checkpoint": lambda: asyncio.run(looped_on_a_loop(elements)),
            "an asynchronous generator": lambda: asyncio.run(aexhaust(apassed(elements))),
        },
        "an element whose body counts in `state`": {
            "checkpoint": lambda: summed(elements),
            "a dict": lambda: counted(elements),
        },
        "an element of checkpoint.map(workers=8)": {
            "checkpoint": lambda: exhaust(checkpoint(elements, name="e", store=MemoryStore()).map(abs, workers=8)),
            "ThreadPoolExecutor.map": lambda: pooled(elements),
        },
        "an element of checkpoint.amap(workers=50)": {
            "checkpoint": lambda: asyncio.run(amapped(elements)),
            "a task an element and a semaphore": lambda: asyncio.run(tasked(elements)),
        },
    }.items():
        yield from compare(row, subjects, per=count, unit="us", rounds=rounds, clock=time.process_time)


async def looped_on_a_loop(source: Any) -> None:
    await aexhaust(checkpoint(source, name="elements", store=MemoryStore()))


async def aexhaust(iterable: AsyncIterable[object]) -> None:
    async for _ in iterable:
        pass


async def apassed(elements: Iterable[T]) -> AsyncIterator[T]:
    for element in elements:
        yield element


def summed(elements: Iterable[int]) -> None:
    with checkpoint(elements, name="elements", store=MemoryStore()) as loop:
        for _ in loop:
            loop.state["n"] = loop.state.get("n", 0) + 1


def counted(elements: Iterable[int]) -> None:
    state: dict[str, int] = {}
    for _ in passed(elements):
        state["n"] = state.get("n", 0) + 1


def pooled(elements: Iterable[int]) -> None:
    with ThreadPoolExecutor(8) as pool:
        exhaust(pool.map(abs, elements))


async def aabs(number: int) -> int:
    return abs(number)


async def amapped(elements: Iterable[int]) -> None:
    async with checkpoint(elements, name="elements", store=MemoryStore()) as loop:
        await aexhaust(loop.amap(aabs, workers=50))


async def tasked(elements: Iterable[int]) -> None:
    seats, tasks = asyncio.Semaphore(50), set[asyncio.Task[None]]()

    async def one(element: int) -> None:
        try:
            await aabs(element)
        finally:
            seats.release()

    for element in elements:
        await seats.acquire()
        task = asyncio.create_task(one(element))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)


def beside_others(scale: Scale) -> Iterator[Result]:
    """By themselves, elements cost these so much that fewer tell as well."""
    count = scale.size(50_000, quick=1_000)
    with ExitStack() as stack:
        dlt = stack.enter_context(worker(DLT, "dlt_worker.py", scale))
        torchdata = stack.enter_context(worker(TORCHDATA, "torchdata_worker.py", scale))
        rivals: dict[str, Work] = {}
        if dlt is not None:
            rivals["dlt incremental, row by row"] = dlt.work("rows", count=count)
        if torchdata is not None:
            rivals["torchdata StatefulDataLoader"] = torchdata.work("items", count=count)
        if rivals:
            yield from compare(
                f"an element of checkpoint, {count:,} in all",
                {"checkpoint": lambda: looped(range(count)), **rivals},
                per=count,
                unit="ns",
                rounds=scale.rounds(7),
                targets=dict.fromkeys(rivals, FASTER),
                headline=True,
                clock=time.process_time,
            )


def looped(source: Any, **options: Any) -> None:
    exhaust(checkpoint(source, name="elements", store=MemoryStore(), **options))


def passed(elements: Iterable[T]) -> Iterator[T]:
    yield from elements
