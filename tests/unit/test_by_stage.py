"""Tests that share an Airflow are given to one process of pytest-xdist."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.airflow.stage_groups import SHARED, stage_of

ROOT = Path(__file__).parents[2]
CONFTEST = """
import os
import pytest
from tests.support.airflow.by_stage import ByStage

def pytest_xdist_make_scheduler(config, log):
    return ByStage(config, log)

@pytest.fixture
def shared_stage():
    return None

@pytest.fixture(autouse=True)
def played(request):
    with open("played", "a") as file:
        print(request.path.stem, os.environ["PYTEST_XDIST_WORKER"], file=file)
"""


def test_files_with_the_shared_fixture_are_one_group_and_every_other_file_is_one(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    for name, fixture in {"first": SHARED, "alone": "", "last": SHARED, "other": ""}.items():
        tests = "".join(f"def test_{number}({fixture}): pass\n" for number in range(3))
        (tmp_path / f"test_{name}.py").write_text(tests)
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    play = [sys.executable, "-m", "pytest", "-p", "xdist.plugin", "-n", "2", "."]
    subprocess.run(play, cwd=tmp_path, env=env, check=True)
    lines = (tmp_path / "played").read_text().splitlines()
    names = {line.split()[0] for line in lines}
    processes = {name: {line.split()[1] for line in lines if line.split()[0] == name} for name in names}
    assert len(lines) == 12
    assert processes["test_first"] == processes["test_last"] != processes["test_alone"]
    assert {len(those) for those in processes.values()} == {1}


def test_the_files_of_the_shared_airflow_are_known_by_its_name() -> None:
    shared = {file.name for file in (ROOT / "tests" / "airflow").glob("test_*.py") if stage_of(file) == SHARED}
    assert {"test_jobs_killed.py", "test_loops_killed.py"} <= shared
    assert not {"test_watermarks.py", "test_sql_backend.py"} & shared
