"""A look at a job in a real Airflow: by reschedule, which starts a process for each, and in a worker that waits."""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness import PER_SECOND, Result, Scale, results
from local_airflow import LocalAirflow

DAGS = Path(__file__).with_name("dags")
DAG_ID = "waiting_jobs"
PATIENCE = 1_200
OURS, THEIRS = 'run_job, wait="reschedule"', "run_job in a worker that waits"


class Question(NamedTuple):
    """When a task asks for the status: seconds of processor time, and of life, of its process."""

    processor: float
    lived: float


def measure(scale: Scale) -> Iterator[Result]:
    asked = questions(scale.size(8, quick=3))
    # The process of a look asks once. The one that waits asks again and again.
    looks, waits = asked["reschedule"], list(pairwise(asked["worker"]))
    count = min(len(looks), len(waits))
    processor = {
        OURS: [PER_SECOND["ms"] * look.processor for look in looks[:count]],
        THEIRS: [PER_SECOND["ms"] * (after.processor - before.processor) for before, after in waits[:count]],
    }
    yield from results("a look at a job in a real Airflow, until the question (processor time)", processor, unit="ms")
    slot = {
        OURS: [look.lived for look in looks[:count]],
        THEIRS: [after.lived - before.lived for before, after in waits[:count]],
    }
    yield from results("a worker slot is held for a look each 15 s (wall-clock time)", slot, unit="s")


def questions(count: int) -> dict[str, list[Question]]:
    """The questions of the two tasks, each of which asks so many times."""
    asked: dict[str, list[Question]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder, "lines")
        env = {"BENCHMARK_FILE": str(lines), "BENCHMARK_LOOKS": str(count)}
        with LocalAirflow(Path(folder, "airflow"), DAGS, env=env) as airflow:
            airflow.wait_until_parsed(DAG_ID)
            run = airflow.trigger(DAG_ID, {})
            state = airflow.wait_for_run(DAG_ID, run, timeout=PATIENCE)
        if state != "success":
            raise RuntimeError(f"the run of {DAG_ID} ended as {state}")
        for name, processor, lived in map(json.loads, lines.read_text().splitlines()):
            asked[name].append(Question(processor, lived))
    return asked
