"""What `checkpoint` costs an element, in memory: nothing is done with the elements, and no store is far away."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import chain
from typing import Any, TypeVar

from environments import DLT, TORCHDATA, worker
from harness import Result, Scale, Work, compare, exhaust, extra_at_most, ratio_at_most

from airflow_resume import checkpoint
from airflow_resume.store import MemoryStore

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
    yield from beside_others(scale)


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
