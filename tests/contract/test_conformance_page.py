"""docs/conformance.md says what the tests of the contract expect of each backend, so what they find where they are run.

The tests that are known to fail are strict: one that passes fails the run. So it is enough to look at what is expected.
Not strict are two of the object storage, which depend on who is faster; what they show is shown strictly by a third.
"""

from __future__ import annotations

from collections import Counter
from importlib.metadata import version
from itertools import chain
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_resume.testing import StoreContract
from tests.support.backends.conformance import COLUMNS, ROWS, Outcomes, column_of, load
from tests.support.backends.conformance_page import Column, on_page, read, write
from tests.support.kit.next_airflow import IS_NEXT, pinned_airflow

ANEW = "make it anew: make matrix"
BEYOND = {
    "test_what_is_set_again_during_a_cleanup_is_not_collected",
    "test_a_write_that_is_killed_leaves_the_value_before",
}
"""Tests of some backends that are not in the contract, as they have to know how the backend works."""


def test_every_test_of_the_contract_belongs_to_one_property() -> None:
    contract = {name for name in dir(StoreContract) if name.startswith("test_")} - {"test_abilities"}
    named = Counter(chain.from_iterable(ROWS.values()))
    assert set(named) == contract | BEYOND
    assert set(named.values()) == {1}


def test_the_page_has_every_backend_and_every_property() -> None:
    matrix = read(on_page())
    assert list(matrix) == list(COLUMNS), ANEW
    assert [list(column.rows) for column in matrix.values()] == [list(ROWS)] * len(COLUMNS), ANEW


@pytest.mark.parametrize("name", COLUMNS)
def test_the_page_says_what_the_tests_expect(name: str) -> None:
    column, test_class = read(on_page())[name], load(COLUMNS[name])
    said = {test: fault for faults in column.rows.values() for test, fault in (faults or {}).items()}
    assert said == expected_faults(test_class), ANEW
    offered = [row for row, faults in column.rows.items() if faults is not None]
    assert offered == [row for row, tests in ROWS.items() if any(is_played(test_class, test) for test in tests)], ANEW


@pytest.mark.parametrize("name", [name for name, tried in COLUMNS.items() if tried.distribution == "apache-airflow"])
def test_the_page_was_made_with_this_version_of_airflow(name: str) -> None:
    """On the next Airflow the tests play the same contract, but the page is that of the pinned one."""
    made_with = pinned_airflow() if IS_NEXT else version("apache-airflow")
    assert f"apache-airflow {made_with}," in read(on_page())[name].versions, ANEW


def expected_faults(test_class: Any) -> dict[str, str]:
    """The tests that are marked to fail, and why."""
    tests = ((name, getattr(test_class, name)) for name in dir(test_class) if name.startswith("test_"))
    marked = {
        name: mark.kwargs["reason"]
        for name, test in tests
        for mark in getattr(test, "pytestmark", ())
        if mark.name == "xfail"
    }
    return {**test_class.differs, **marked}


def is_played(test_class: Any, name: str) -> bool:
    """Whether the class has the test, and its backend what that needs."""
    test = getattr(test_class, name, None)
    return test is not None and set(getattr(test, "needs", ())) <= set(test_class.promises)


def test_what_is_written_is_read_again() -> None:
    assert write(read(on_page())) == on_page()


def test_a_column_whose_server_is_missing_stays_as_it_was() -> None:
    before = Column(versions="MariaDB 1", rows={})
    assert column_of(COLUMNS["on MariaDB"], Outcomes(), before) is before


def test_what_fails_is_noted_with_its_reason_whether_it_was_expected_or_not() -> None:
    outcomes = Outcomes()
    note(outcomes, "test_scan_a[case]", wasxfail="reason: known")
    note(outcomes, "test_scan_b", failed=True, longreprtext="a line\nE   new")
    note(outcomes, "test_scan_c")
    assert outcomes.of("TestIt", ("test_scan_a", "test_scan_b")) == {
        "test_scan_a[case]": "known",
        "test_scan_b": "E   new",
    }
    assert outcomes.of("TestIt", ("test_scan_c",)) == {}
    assert outcomes.of("TestIt", ("test_other",)) is None


def note(outcomes: Outcomes, test: str, *, failed: bool = False, **more: str) -> None:
    report = SimpleNamespace(nodeid=f"file::TestIt::{test}", failed=failed, passed=not failed, when="call", **more)
    outcomes.pytest_runtest_logreport(report)
