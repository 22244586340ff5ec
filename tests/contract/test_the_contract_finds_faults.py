"""The contract can fail: every fault is found by the test that is named beside it."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

import pytest

from airflow_resume.store import MemoryStore
from airflow_resume.testing import StoreContract
from airflow_resume.testing.contract import Ability
from airflow_resume.testing.contract.samples import LOOKALIKES
from tests.support.backends import broken_stores
from tests.support.backends.broken_stores import CAUGHT_BY

BROKEN_STORES = Path(broken_stores.__file__)


@dataclass(frozen=True)
class Outcome:
    kind: str
    """passed, skipped, failure, or error."""
    text: str
    output: str
    properties: list[tuple[str | None, str | None]]


def run_pytest(folder: Path, *arguments: str) -> dict[tuple[str, str], Outcome]:
    """What comes of the tests, by class and name, when another pytest runs them without any plugin or setting."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    options = [
        "-c",
        "pytest.ini",
        "-q",
        "-p",
        "no:cacheprovider",
        "--junitxml=report.xml",
        "-o",
        "junit_logging=out-err",
    ]
    command = [sys.executable, "-m", "pytest", *options, *arguments]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    cases = ET.parse(folder / "report.xml").getroot().iter("testcase")  # noqa: S314  our own
    return {(case.attrib["classname"].rpartition(".")[2], case.attrib["name"]): outcome(case) for case in cases}


def outcome(case: ET.Element) -> Outcome:
    properties = [(found.get("name"), found.get("value")) for found in case.iter("property")]
    printed = case.findtext("system-out", "")
    for kind in ("failure", "error", "skipped"):
        if (found := case.find(kind)) is not None:
            return Outcome(kind, f"{found.get('message')}\n{found.text}", printed, properties)
    return Outcome("passed", "", printed, properties)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Outcome]:
    """Of every fault, the test that must find it; of the classes below, a few tests each. One run, for its imports."""
    folder = tmp_path_factory.mktemp("contract")
    (folder / "test_it.py").write_text(USES)
    faults = [f"{BROKEN_STORES}::Test{name}::{test}" for name, test in CAUGHT_BY.items()]
    chosen = "broken_stores or missing_key or abilities or scan or (Strict and alike)"
    return run_pytest(folder, "-o", "python_classes=*", "-k", chosen, *faults, "test_it.py")


@pytest.mark.parametrize("name", CAUGHT_BY)
def test_a_fault_is_found(outcomes: dict[tuple[str, str], Outcome], name: str) -> None:
    found = outcomes[f"Test{name}", CAUGHT_BY[name]]
    assert found.kind == "failure", found


def test_every_test_of_the_contract_has_a_fault_that_it_finds() -> None:
    shown = {test.partition("[")[0] for test in CAUGHT_BY.values()}
    assert {name for name in dir(StoreContract) if name.startswith("test_")} - shown == set()


def test_a_failure_shows_what_was_compared(outcomes: dict[tuple[str, str], Outcome]) -> None:
    assert "== {'key': 'one', 'Key': 'other'}" in outcomes["TestMergesCase", CASE].text


CASE = "test_keys_that_look_alike_are_two[case]"

USES = """
import re
import pytest
from airflow_resume.store import MemoryStore
from airflow_resume.testing import StoreContract

class Plain(StoreContract):
    @pytest.fixture
    def store(self):
        return MemoryStore()

class ABase(Plain):
    __test__ = False

class Differing(ABase):
    differs = {"test_a_missing_key_gives_the_default": "not really"}

class Nothing(StoreContract):
    pass

class PlainKeys(MemoryStore):
    def set(self, key, value):
        if not re.fullmatch("[A-Za-z0-9_:%-][A-Za-z0-9_:.%-]{0,199}", key):
            raise ValueError(key)
        super().set(key, value)

    def delete(self, key):
        self.values[key] and super().delete(key)

class Strict(StoreContract):
    @pytest.fixture
    def store(self):
        return PlainKeys()
"""


def test_subclasses_are_collected_whatever_their_name_and_the_contract_is_not(
    outcomes: dict[tuple[str, str], Outcome],
) -> None:
    classes = {name for name, _ in outcomes} - {f"Test{name}" for name in CAUGHT_BY}
    assert classes == {"Plain", "Differing", "Nothing", "Strict"}


def test_the_abilities_are_data_and_text(outcomes: dict[tuple[str, str], Outcome]) -> None:
    found = outcomes["Plain", "test_abilities"]
    assert found.kind == "passed"
    assert found.properties == [(f"has {ability.value}", "False") for ability in Ability]
    assert "scan                     no: give the store a method `scan(prefix)`" in found.output


def test_a_store_that_takes_plain_keys_only_passes(outcomes: dict[tuple[str, str], Outcome]) -> None:
    kinds = [found.kind for (name, test), found in outcomes.items() if name == "Strict" and "alike" in test]
    assert kinds == ["passed"] * len(LOOKALIKES)


def test_a_missing_ability_is_named_with_how_to_supply_it(outcomes: dict[tuple[str, str], Outcome]) -> None:
    skipped = outcomes["Plain", "test_scan_does_not_give_what_was_deleted"]
    assert skipped.kind == "skipped"
    assert "no scan: give the store a method `scan(prefix)`" in skipped.text
    assert skipped.properties == [("ability", "scan")]


def test_a_difference_that_is_none_any_more_fails(outcomes: dict[tuple[str, str], Outcome]) -> None:
    found = outcomes["Differing", "test_a_missing_key_gives_the_default"]
    assert found.kind == "failure"
    assert "[XPASS(strict)] not really" in found.text


def test_a_class_without_a_store_says_what_it_needs(outcomes: dict[tuple[str, str], Outcome]) -> None:
    found = outcomes["Nothing", "test_a_missing_key_gives_the_default"]
    assert found.kind == "error"
    assert "Nothing needs a fixture `store`, `open_store`, `backend` or `open_backend`" in found.text


def test_a_difference_in_a_test_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Wrong\.differs .*'test_nothing'"):
        type("Wrong", (StoreContract,), {"differs": {"test_nothing": "never"}})


def test_every_ability_says_how_to_supply_it() -> None:
    values = {"open_store": None, "backend": None, "cleanup": None, "store": MemoryStore()}
    assert all(ability.how and not ability.found(values.__getitem__) for ability in Ability)
