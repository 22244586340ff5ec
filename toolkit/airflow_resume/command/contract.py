"""The contract, played on somebody's factory by a pytest of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from airflow_resume.command.factories import fixture_of
from airflow_resume.errors import ConformanceError

RESULTS = "results.json"
UNDERSTOOD = (0, 1)
"""Pytest's exit codes when tests were run."""

TEST_FILE = """
import pytest

from airflow_resume.command.factories import made_by
from airflow_resume.testing import StoreContract


class TestConformance(StoreContract):
    @pytest.fixture
    def {fixture}(self):
        with made_by({name!r}) as made:
            yield made
"""


@dataclass(frozen=True, kw_only=True)
class Tested:
    """A test, and how it went."""

    group: str
    test: str
    outcome: str
    """`passed`, `failed` or `skipped`."""
    reason: str
    properties: Sequence[tuple[str, object]]


@dataclass(frozen=True, kw_only=True)
class Conformance:
    """How a store keeps the contract."""

    factory: str
    fixture: str
    """As which fixture of the contract it was supplied."""
    tests: Sequence[Tested]

    @property
    def abilities(self) -> dict[str, bool]:
        """Which of the optional abilities it has."""
        said = (named for test in self.tests for named in test.properties)
        return {name.removeprefix("has "): bool(found) for name, found in said if name.startswith("has ")}

    @property
    def failed(self) -> list[Tested]:
        """What it does not keep."""
        return [test for test in self.tests if test.outcome == "failed"]

    @property
    def skipped(self) -> dict[str, int]:
        """Why tests were skipped, and how many."""
        return dict(Counter(test.reason for test in self.tests if test.outcome == "skipped"))

    def groups(self) -> Mapping[str, Counter[str]]:
        """How many of each group went how."""
        names = sorted({test.group for test in self.tests})
        return {name: Counter(test.outcome for test in self.tests if test.group == name) for name in names}


def run_contract(name: str, select: str | None) -> Conformance:
    """Run it; with `select` only the tests that pytest's `-k` would.

    Raises:
        ConformanceError: there is no pytest, or the factory cannot be used, or no test was run.
    """
    if find_spec("pytest") is None:
        raise ConformanceError(
            "The contract is run by pytest, which is not installed.", "Install it: pip install pytest"
        )
    with redirect_stdout(sys.stderr):  # whatever the factory prints is not part of the report
        fixture = fixture_of(name)
    with TemporaryDirectory(prefix="airflow-resume-") as folder:
        (Path(folder) / "pytest.ini").write_text("[pytest]\n")
        (Path(folder) / "test_conformance.py").write_text(TEST_FILE.format(fixture=fixture, name=name))
        tests = _play(Path(folder), () if select is None else ("-k", select))
    return Conformance(factory=name, fixture=fixture, tests=tests)


def _play(folder: Path, arguments: Sequence[str]) -> list[Tested]:
    command = [sys.executable, "-m", "airflow_resume.command.recorder", str(folder), *arguments]
    # Other plugins that happen to be installed are not what is tested.
    here = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    others = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**others, **here})  # noqa: S603
    if done.returncode not in UNDERSTOOD:
        said = (done.stdout + done.stderr).strip() or f"exit code {done.returncode}"
        raise ConformanceError(f"No test was run; pytest said: {said[-1000:]}")
    return [Tested(**test) for test in json.loads((folder / RESULTS).read_text())]
