"""A run with little time plays a share of the tests, and some runs play everything."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest

from tests.support.share import Share

ROOT = Path(__file__).parents[2]
CONFTEST = """
from pathlib import Path
from tests.conftest import pytest_addoption
from tests.support import share

share.UNIT, share.AIRFLOW = Path(__file__).parent / "unit", Path(__file__).parent / "airflow"

def pytest_collection_modifyitems(config, items):
    items[:], others = config.getoption("share").split(items)
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
    for folder in ("unit", "crashes", "airflow"):
        (tmp_path / folder).mkdir()
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    for folder in ("unit", "crashes"):
        (tmp_path / folder / f"test_{folder}.py").write_text(FUNCTIONS)
    for name in ("a", "b", "c"):
        (tmp_path / "airflow" / f"test_{name}.py").write_text(ON_AIRFLOW)
        (tmp_path / "airflow" / f"test_{name}_shared.py").write_text(f"# uses shared_stage\n{ON_AIRFLOW}")
    return tmp_path


def shares_of(suite: Path, folder: str) -> list[list[str]]:
    """The tests of a folder, by share."""
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    found = []
    for number in (1, 2, 3):
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "--share", f"{number}/3", folder]
        done = subprocess.run(command, cwd=suite, env=env, check=False, capture_output=True, text=True)
        assert done.returncode in (0, 5), done.stdout + done.stderr  # 5: no test is in this share
        found.append([line.partition("/")[2] for line in done.stdout.splitlines() if "::" in line])
    return found


def test_every_unit_test_is_in_some_share_and_every_function_in_every_share(suite: Path) -> None:
    shares = [[name.partition("::")[2] for name in share] for share in shares_of(suite, "unit")]
    for share in shares:
        assert {name.split("[")[0] for name in share} == {"test_of_many", "test_of_two", "test_of_one"}
    many = {f"test_of_many[{number}]": 1 for number in range(7)}
    assert Counter(chain.from_iterable(shares)) == {**many, "test_of_two[0]": 3, "test_of_two[1]": 3, "test_of_one": 3}


def test_every_other_test_is_in_one_share(suite: Path) -> None:
    often = Counter(chain.from_iterable(shares_of(suite, "crashes")))
    assert set(often.values()) == {1}
    assert len(often) == 10


def test_all_tests_of_one_airflow_are_in_one_share(suite: Path) -> None:
    files = [{name.partition("::")[0] for name in share} for share in shares_of(suite, "airflow")]
    names = ("a", "b", "c")
    assert sorted(name for share in files for name in share) == sorted(
        f"test_{name}{shared}.py" for name in names for shared in ("", "_shared")
    )
    assert {f"test_{name}_shared.py" for name in names} in [
        {name for name in share if "shared" in name} for share in files
    ]


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "a/b", ""])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Share.parsed(text)
