from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from airflow_settings import airflow_environment

SCRIPT = Path(__file__).parents[1] / "support" / "airflow" / "run_dag_test.py"


def test_the_three_surfaces_and_all_ways_to_loop_work_under_dag_test(tmp_path: Path) -> None:
    """Its channel works in the caller's thread only: on another one every call would fail."""
    dags = tmp_path / "dags"
    dags.mkdir()
    script = shutil.copy(SCRIPT, dags)  # Airflow knows a Dag only from its Dags folder
    env = airflow_environment(tmp_path, dags, 1, None)
    subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], env=env, check=True, capture_output=True)
    done = subprocess.run([sys.executable, script], env=env, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen == {
        "job": "job-0",
        "loop": [1, 2, 3],
        "record": 3,
        "nested": ["a1", "a2", "b1", "b2"],
        "map": ["1", "2", "3"],
        "async": [1, 2, 3],
        "amap": ["1", "2", "3"],
        "window": "[2026-01-01T00:00:00+00:00, 2026-01-02T00:00:00+00:00)",
        "state": "success",
        "hours": [[0, 1, True], [1, 2, False]],
        "states": ["success", "success"],
        "deferred": [[0, 1, True], [1, 2, True]],
        "deferring": ["success", "success"],
        "looks": [[1, 0], [1, 1], [1, 2], [1, 3]],
        "rescheduling": "success",
    }
