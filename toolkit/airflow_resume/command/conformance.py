"""The subcommand `conformance`: does a store keep the contract? Its tests run in a pytest process of their own."""

from __future__ import annotations

import argparse
import inspect
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from airflow_resume.command.console import lines, look_in_the_current_folder
from airflow_resume.errors import UsageError

Factory: TypeAlias = Callable[[], Any]

OUTCOMES = ("passed", "failed", "skipped")
RESULTS = "results.json"
TESTS_WERE_RUN = (0, 1)
"""Pytest's exit codes."""

TEST_FILE = """
import pytest

from airflow_resume.command.conformance import made_by
from airflow_resume.testing import StoreContract


class TestConformance(StoreContract):
    @pytest.fixture
    def {fixture}(self):
        with made_by({name!r}) as made:
            yield made
"""


def run(options: argparse.Namespace) -> int:
    """Run the tests of the contract, and print the results."""
    conformance = run_contract(options.factory, options.select)
    groups = conformance.groups()
    if options.output == "json":
        described = {
            "factory": conformance.factory,
            "supplied_as": conformance.fixture,
            "abilities": conformance.abilities,
            "groups": {name: {outcome: went[outcome] for outcome in OUTCOMES} for name, went in groups.items()},
            "skipped": conformance.skipped,
            "failed": {test.test: test.reason for test in conformance.failed},
        }
        print(json.dumps(described, indent=2))
    else:
        rows = [(name, *(went[outcome] for outcome in OUTCOMES)) for name, went in groups.items()]
        for line in lines(("GROUP", "PASSED", "FAILED", "SKIPPED"), rows):
            print(line)
        for reason, count in conformance.skipped.items():
            print(f"skipped {count}: {reason}")
        for test in conformance.failed:
            print(f"failed {test.test}: {test.reason.partition(chr(10))[0]}")
    return 1 if conformance.failed else 0


# --- the contract ---------------------------------------------------------------------------------------------


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
    """The name of the contract's fixture that supplied it."""
    tests: Sequence[Tested]

    @property
    def abilities(self) -> dict[str, bool]:
        """Which of the optional abilities it has."""
        said = (named for test in self.tests for named in test.properties)
        return {name.removeprefix("has "): bool(found) for name, found in said if name.startswith("has ")}

    @property
    def failed(self) -> list[Tested]:
        """The tests that failed."""
        return [test for test in self.tests if test.outcome == "failed"]

    @property
    def skipped(self) -> dict[str, int]:
        """Why tests were skipped, and how many."""
        return dict(Counter(test.reason for test in self.tests if test.outcome == "skipped"))

    def groups(self) -> Mapping[str, Counter[str]]:
        """How many tests of each group had which result."""
        names = sorted({test.group for test in self.tests})
        return {name: Counter(test.outcome for test in self.tests if test.group == name) for name in names}


def run_contract(name: str, select: str | None) -> Conformance:
    """Run the tests of the contract; with `select`, only those that pytest's `-k` selects.

    Raises:
        UsageError: there is no pytest, or the factory cannot be used, or no test was run.
    """
    if find_spec("pytest") is None:
        raise UsageError(
            "The contract is run by pytest, which is not installed.", "Install it: pip install pytest", name=name
        )
    with redirect_stdout(sys.stderr):  # whatever the factory prints is not part of the report
        fixture = fixture_of(name)
    arguments = () if select is None else ("-k", select)
    # Other plugins that happen to be installed must not have an effect on the tests.
    here = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    others = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    with TemporaryDirectory(prefix="airflow-resume-") as made:
        folder = Path(made)
        (folder / "pytest.ini").write_text("[pytest]\n")
        (folder / "test_conformance.py").write_text(TEST_FILE.format(fixture=fixture, name=name))
        command = [sys.executable, "-m", "airflow_resume.command.recorder", made, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={**others, **here})  # noqa: S603
        if done.returncode not in TESTS_WERE_RUN:
            said = (done.stdout + done.stderr).strip() or f"exit code {done.returncode}"
            raise UsageError(f"No test was run; pytest said: {said[-1000:]}")
        tests = [Tested(**test) for test in json.loads((folder / RESULTS).read_text())]
    return Conformance(factory=name, fixture=fixture, tests=tests)


# --- the factory ----------------------------------------------------------------------------------------------


@contextmanager
def made_by(name: str) -> Iterator[Any]:
    """What the factory makes. It is closed afterwards, or left if it is a context manager."""
    made = load(name)()
    if isinstance(made, AbstractContextManager):
        with made as entered:
            yield entered
        return
    try:
        yield made
    finally:
        close = getattr(made, "close", None)
        if close is not None and not _is_opener(made):
            close()


def load(name: str) -> Factory:
    """The factory, by `MODULE:FACTORY`. Modules are looked for in the current folder as well.

    Raises:
        UsageError: there is none.
    """
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise UsageError(
            f"{name!r} names no factory.", "Write MODULE:FACTORY, such as my_stores:open_orders.", name=name
        )
    look_in_the_current_folder()
    try:
        module = import_module(module_name)
    except Exception as error:
        kind = type(error).__name__
        raise UsageError(f"{module_name} cannot be imported: {kind}: {error}", name=name) from error
    factory = getattr(module, attribute, None)
    if not callable(factory):
        raise UsageError(f"{module_name} has no function {attribute!r}", name=name)
    return factory  # type: ignore[no-any-return]


def fixture_of(name: str) -> str:
    """The fixture of the contract that the factory can supply. It is called once to see.

    Raises:
        UsageError: it cannot be called, or makes something else.
    """
    try:
        with made_by(name) as made:
            if not _is_opener(made):
                return _kind(name, made)
            opened = made()
            try:
                return f"open_{_kind(name, opened)}"
            finally:
                if hasattr(opened, "close"):
                    opened.close()
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"{name} failed: {type(error).__name__}: {error}", name=name) from error


def _is_opener(made: object) -> bool:
    """Whether it is a function that opens the place, as often as one likes."""
    return callable(made) and not hasattr(made, "get")


def _kind(name: str, made: Any) -> str:
    if not all(callable(getattr(made, method, None)) for method in ("get", "set", "delete")):
        raise UsageError(
            f"{name} makes a {type(made).__name__}: neither a store nor a backend, with get, set and delete,"
            f" nor a function that opens one",
            name=name,
        )
    return "backend" if "scope" in inspect.signature(made.get).parameters else "store"
