"""What importing the package costs after Airflow's SDK, and what its pytest plugin adds to a pytest run."""

from __future__ import annotations

import compileall
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import airflow_resume
import airflow_resume_mixins
from benchmarks.harness import PER_SECOND, Result, Scale, Seconds, at_most, compare, results, tell

IMPORTS = """
import json, sys, time
times = [time.process_time()]
import airflow.sdk
times.append(time.process_time())
before = set(sys.modules)
from airflow_resume import checkpoint, run_job, watermark
from airflow_resume_mixins import ResumableJobMixin, WatermarkMixin
times.append(time.process_time())
heavy = [name for name in set(sys.modules) - before if name.split(".")[0] in {"sqlalchemy", "pytest", "_pytest"}]
print(json.dumps([times[2] - times[1], times[1] - times[0], len(heavy)]))
"""
PLUGIN = "airflow_resume.testing.plugin"
NO_TESTS = 5
"""The exit code of a pytest that found no tests."""


def measure(scale: Scale) -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as folder:
        compiled_into(folder)
        yield from imported(scale.rounds(9), folder)
        yield from plugin(scale.rounds(7), folder)


def compiled_into(folder: str) -> None:
    """The packages as pip installs them: Python need not compile them when they are imported."""
    for package in (airflow_resume, airflow_resume_mixins):
        source = Path(package.__path__[0])
        shutil.copytree(source, Path(folder, source.name), ignore=shutil.ignore_patterns("__pycache__"))
    if not compileall.compile_dir(folder, quiet=1):
        raise RuntimeError("the packages cannot be compiled")


def imported(rounds: int, folder: str) -> Iterator[Result]:
    """Both in one process, one after the other: the import of the SDK varies by more than ours takes."""
    told = [json.loads(run(["-c", IMPORTS], folder).stdout) for _ in range(rounds)]
    ours, sdk, heavy = zip(*told, strict=True)
    name, rival = "airflow_resume and airflow_resume_mixins", "import airflow.sdk itself"
    yield from results(
        "import, in addition to airflow.sdk",
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


def plugin(rounds: int, folder: str) -> list[Result]:
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
    """The processor time of a pytest run."""
    before = of_children()
    done = run(["-m", "pytest", "-q", *options], folder)
    if done.returncode != NO_TESTS:
        raise RuntimeError(f"pytest {options} ended with {done.returncode}")
    return Seconds(of_children() - before)


def run(arguments: Sequence[str], folder: str) -> subprocess.CompletedProcess[str]:
    """A Python in which the packages are those of the folder."""
    path = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": path}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False)


def of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
