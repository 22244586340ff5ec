"""What docs/architecture.md says of the code: its picture, the modules that it names, and the tests that it names."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
SURFACES = ("jobs", "loops", "watermarks", "backends", "testing", "command")


def test_the_picture_is_that_of_the_code() -> None:
    drawn = subprocess.run([sys.executable, "docs/architecture_picture.py", "--check"], cwd=ROOT, check=False)
    assert drawn.returncode == 0, "make picture draws it anew"


def named_modules() -> list[str]:
    return sorted(set(re.findall(r"`([a-z_/]+(?:\.py|/))`", PAGE)))


@pytest.mark.parametrize("name", named_modules())
def test_a_module_that_is_named_is_there(name: str) -> None:
    toolkit = ROOT / "toolkit" / "airflow_resume"
    places = [toolkit / name, toolkit / "watermarks" / name, toolkit / "loops" / "parallel" / name, ROOT / name]
    assert any(place.exists() for place in places)


def named_tests() -> list[tuple[str, str]]:
    return re.findall(r"`(tests/[a-z_/]+\.py)::(test_\w+)`", PAGE)


@pytest.mark.parametrize(("file", "name"), named_tests())
def test_a_test_that_watches_a_fact_is_there(file: str, name: str) -> None:
    assert f"def {name}(" in (ROOT / file).read_text()


def test_enough_is_named_for_the_tests_above_to_mean_something() -> None:
    assert len(named_modules()) > 30
    assert len(named_tests()) > 10


def test_each_package_of_the_toolkit_is_on_the_page() -> None:
    assert all(f"`{name}`" in PAGE for name in SURFACES)
