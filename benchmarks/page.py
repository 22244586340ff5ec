"""What a look at the page in Airflow's UI costs the API server, with more and more task instances in a Dag run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import Result, Scale, at_most, tell
from tests.support.page.measured import measure as measured

MOST_MS, MOST_QUERIES = 50, 1


def measure(scale: Scale) -> Iterator[Result]:
    sizes = (scale.size(1_000, quick=100), 100, 10) if not scale.quick else (100, 10)
    with tempfile.TemporaryDirectory() as folder:
        looked = {size: measured(Path(folder), size) for size in sizes}
    largest, *smaller = sizes
    for row, member, unit, limit in (
        ("a look at the page of a Dag run", "ms", "ms", MOST_MS),
        ("its own queries of the database", "own", "calls", MOST_QUERIES),
    ):
        yield from tell(
            f"{row} of {largest:,} mapped task instances",
            {f"of {size:,}": looked[size]["run"][member] for size in sizes},
            unit=unit,  # type: ignore[arg-type]
            targets={f"of {size:,}": (at_most(limit),) for size in smaller},
        )
