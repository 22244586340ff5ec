"""A loop in a task of a real Airflow, beside the same loop without state, and the loop of Airflow's documentation."""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from benchmarks.harness import PER_SECOND, Result, Scale, ratio_at_most, results
from local_airflow import LocalAirflow

DAGS = Path(__file__).with_name("dags")
DAG_ID = "loops_of_5_ms"
PATIENCE = 600

NAMES = {
    "ours": "checkpoint",
    "bare": "a bare loop",
    "documented": "Airflow's documented pattern, a `set` per element",
}


def measure(scale: Scale) -> Iterator[Result]:
    count = scale.size(1_000, quick=50)
    took = seconds_in_tasks(count, rounds=1 if scale.quick else 3)
    costs = {name: [PER_SECOND["ms"] * seconds / count for seconds in took[loop]] for loop, name in NAMES.items()}
    # The target says nothing about a loop that is over before its first write is due.
    targets = {} if scale.quick else {NAMES["bare"]: (ratio_at_most(1.02),)}
    yield from results("an element of 5 ms in a real Airflow", costs, unit="ms", targets=targets, headline=True)


def seconds_in_tasks(count: int, *, rounds: int) -> dict[str, list[float]]:
    """The seconds that each loop took inside its task, in the order of the rounds."""
    took: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder, "seconds")
        env = {
            "BENCHMARK_FILE": str(lines),
            "BENCHMARK_ELEMENTS": str(count),
            "BENCHMARK_ROUNDS": str(rounds),
        }
        with LocalAirflow(Path(folder, "airflow"), DAGS, env=env) as airflow:
            airflow.wait_until_parsed(DAG_ID)
            run = airflow.trigger(DAG_ID, {})
            state = airflow.wait_for_run(DAG_ID, run, timeout=PATIENCE)
        if state != "success":
            raise RuntimeError(f"the run of {DAG_ID} ended as {state}")
        for loop, seconds in map(json.loads, lines.read_text().splitlines()):
            took[loop].append(seconds)
    return took
