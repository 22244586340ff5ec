"""A run with little time plays a share of the tests, and some runs play everything."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.share import Share

ROOT = Path(__file__).parents[2]
CONFTEST = """
import sys
from tests.conftest import pytest_addoption
from tests.support import share
from tests.support.share import Share
from pathlib import Path

share.AIRFLOWS = Path(__file__).parent / "airflow"

def pytest_collection_modifyitems(config, items):
    if found := config.getoption("share"):
        items[:], others = found.split(items)
        config.hook.pytest_deselected(items=others)
"""
FUNCTIONS = """
import pytest

@pytest.mark.parametrize("number", range(7))
def test_of_many(number): pass

@pytest.mark.parametrize("number", range(2))
def test_of_two(number): pass

def test_of_one(): pass
"""
ON_AIRFLOW = "def test_first(): pass\ndef test_second(): pass\n"


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_functions.py").write_text(FUNCTIONS)
    (tmp_path / "airflow").mkdir()
    for name in ("a", "b"):
        (tmp_path / "airflow" / f"test_{name}.py").write_text(ON_AIRFLOW)
        (tmp_path / "airflow" / f"test_{name}_shared.py").write_text(f"# uses shared_stage\n{ON_AIRFLOW}")
    return tmp_path


def played(suite: Path, share: str) -> list[str]:
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "--share", share]
    done = subprocess.run(command, cwd=suite, env=env, check=True, capture_output=True, text=True)
    return [line for line in done.stdout.splitlines() if "::" in line]


def test_every_function_is_in_every_share_and_every_test_in_some(suite: Path) -> None:
    shares = [played(suite, f"{number}/3") for number in (1, 2, 3)]
    functions = [[name for name in share if "test_functions.py" in name] for share in shares]
    for found in functions:
        assert {name.split("[")[0].split("::")[1] for name in found} == {"test_of_many", "test_of_two", "test_of_one"}
    often = Counter(name.split("::")[1] for found in functions for name in found)
    many = {f"test_of_many[{number}]": 1 for number in range(7)}
    assert often == {**many, "test_of_two[0]": 3, "test_of_two[1]": 3, "test_of_one": 3}


def test_all_tests_of_one_airflow_are_in_one_share(suite: Path) -> None:
    names = [played(suite, f"{number}/3") for number in (1, 2, 3)]
    assert [{name.split("::")[0] for name in share if "airflow" in name} for share in names] == [
        {"airflow/test_a.py"},
        {"airflow/test_a_shared.py", "airflow/test_b_shared.py"},
        {"airflow/test_b.py"},
    ]


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "a/b", ""])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Share.parsed(text)
