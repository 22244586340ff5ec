"""What `[airflow_resume] upgrade` costs when a Dag file of 100 tasks is parsed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from airflow_resume_mixins.providers.policy import VARIABLES
from benchmarks.harness import Result, Scale, Seconds, compare, extra_at_most, ratio_at_most

TASKS = 100
DAG_FILE = f"""
from airflow.sdk import DAG
from airflow.providers.standard.operators.bash import BashOperator

with DAG("hundred", schedule=None):
    for number in range({TASKS}):
        BashOperator(task_id=f"task_{{number}}", bash_command="true")
"""


ANEW = """
import sys, time
from airflow.dag_processing.dagbag import DagBag
import airflow.providers.standard.operators.bash
bag = DagBag(sys.argv[1], collect_dags=False)
before = time.process_time()
bag.process_file(sys.argv[1], only_if_updated=False)
print(time.process_time() - before)
"""
ITEM = "benchmarks.bash_twin.Bash"


def measure(scale: Scale) -> Iterator[Result]:
    """As Airflow's Dag processor and its workers parse a file once each; and again in the same process."""
    rounds, without = scale.rounds(15), "without the setting"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "hundred.py")
        file.write_text(DAG_FILE)
        for row, parse, target in (
            (f"a new process parses a Dag file of {TASKS} tasks", parsed_anew, extra_at_most(150)),
            (f"a Dag file of {TASKS} tasks is parsed again", parsed, ratio_at_most(1.5)),
        ):
            yield from compare(
                row,
                {"upgrade of all tasks": partial(parse, file, ITEM), without: partial(parse, file, "")},
                unit="ms",
                rounds=rounds,
                targets={without: (target,)},
            )


def parsed(file: Path, items: str) -> Seconds:
    """The processor time of one parse in this process."""
    from airflow.dag_processing.dagbag import DagBag

    os.environ[VARIABLES[0]] = items
    try:
        bag = DagBag(file.parent, collect_dags=False)
        before = time.process_time()
        bag.process_file(str(file), only_if_updated=False)  # type: ignore[no-untyped-call]
        took = Seconds(time.process_time() - before)
    finally:
        del os.environ[VARIABLES[0]]
    if {hasattr(task, "resume_policy") for task in bag.dags["hundred"].tasks} != {bool(items)}:
        raise RuntimeError("the setting was not followed")
    return took


def parsed_anew(file: Path, items: str) -> Seconds:
    """The processor time of one parse in a process that has imported Airflow and the operator, and nothing of ours."""
    environment = {**os.environ, VARIABLES[0]: items, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", ANEW, str(file)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return Seconds(float(done.stdout.splitlines()[-1]))
