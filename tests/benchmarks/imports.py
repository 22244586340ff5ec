"""What the import of the package takes behind that of Airflow's SDK, and what its pytest plugin adds to a pytest."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from harness import PER_SECOND, Result, Scale, Seconds, at_most, compare, results, tell

import airflow_resume

IMPORTS = """
import json, sys, time
times = [time.process_time()]
import airflow.sdk
times.append(time.process_time())
before = set(sys.modules)
from airflow_resume import checkpoint, run_job, watermark
import airflow_resume_mixins
times.append(time.process_time())
heavy = [name for name in set(sys.modules) - before if name.split(".")[0] in {"sqlalchemy", "pytest", "_pytest"}]
print(json.dumps([times[2] - times[1], times[1] - times[0], len(heavy)]))
"""
PLUGIN = "airflow_resume.testing.plugin"
NO_TESTS = 5
"""The exit code of a pytest that found none."""


def measure(scale: Scale) -> Iterator[Result]:
    yield from imported(scale.rounds(9))
    yield from plugin(scale.rounds(7))


def imported(rounds: int) -> Iterator[Result]:
    """Both in one process, one behind the other: that of the SDK varies by more than ours takes."""
    ours, sdk, heavy = zip(*[json.loads(run(["-c", IMPORTS]).stdout) for _ in range(rounds)], strict=True)
    name, rival = "airflow_resume and airflow_resume_mixins", "import airflow.sdk itself"
    yield from results(
        "import, behind airflow.sdk",
        {
            name: [PER_SECOND["ms"] * seconds for seconds in ours],
            rival: [PER_SECOND["ms"] * seconds for seconds in sdk],
        },
        unit="ms",
        targets={rival: (at_most(50),)},
    )
    yield from tell(
        "import: modules of SQLAlchemy and pytest that it loads",
        {name: max(heavy)},
        unit="modules",
        targets={name: (at_most(0),)},
    )


def plugin(rounds: int) -> list[Result]:
    with tempfile.TemporaryDirectory() as folder:
        return compare(
            "the start of a pytest that finds no test",
            {
                "with the plugin": partial(started, [f"-p{PLUGIN}"], folder),
                "without it": partial(started, [f"-pno:{PLUGIN}"], folder),
            },
            unit="ms",
            rounds=rounds,
        )


def started(options: Sequence[str], folder: str) -> Seconds:
    """The processor time of a pytest."""
    before = of_children()
    done = run(["-m", "pytest", "-q", *options], folder)
    if done.returncode != NO_TESTS:
        raise RuntimeError(f"pytest {options} ended with {done.returncode}")
    return Seconds(of_children() - before)


def run(arguments: Sequence[str], folder: str | None = None) -> subprocess.CompletedProcess[str]:
    packages = str(Path(airflow_resume.__file__).parents[1])
    path = os.pathsep.join([packages, os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": path}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False)


def of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
