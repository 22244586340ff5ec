"""What the pytest plugin costs a run that uses none of it: one line.

python tests/benchmarks/bench_plugin.py
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import airflow_resume

PLUGIN = "airflow_resume.testing.plugin"
RUNS = 9
NO_TESTS = 5


def start_of_pytest(option: str, folder: str) -> float:
    """The processor time, in milliseconds, of a pytest that finds no test."""
    path = os.pathsep.join([str(Path(airflow_resume.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    before = _children()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", option],
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": path},
        stdout=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode != NO_TESTS:
        raise SystemExit(f"pytest {option} ended with {done.returncode}")
    return 1000 * (_children() - before)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        options = (f"-pno:{PLUGIN}", f"-p{PLUGIN}")
        runs = [[start_of_pytest(option, folder) for option in options] for _ in range(RUNS)]
    without, with_it = map(statistics.median, zip(*runs, strict=True))
    ratio = with_it / without
    print(f"start of pytest, CPU ms: {without:,.0f} without the plugin, {with_it:,.0f} with it ({ratio:.2f} x)")


if __name__ == "__main__":
    main()
