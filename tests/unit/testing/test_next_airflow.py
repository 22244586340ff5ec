"""The list of what differs on the next Airflow: it names tests that exist, and for each one that shows it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.kit.next_airflow import DIFFERENCES, ROOT, Difference, expect_differences

WAITS = Difference(
    tests="tests/a.py::test_it", only="supervisor", why="it waits", shown_by="tests/b.py::test_that", is_played=False
)
FAILS = Difference(tests="tests/a.py::test_that", why="it fails", shown_by="tests/b.py::test_that")


def is_there(nodeid: str, *, whole: bool) -> bool:
    file, _, name = nodeid.partition("::")
    name = name.rpartition("::")[2].partition("[")[0]
    return f"def {name}{'(' if whole else ''}" in (ROOT / file).read_text()


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda each: each.tests)
def test_it_names_tests_that_exist_and_one_that_shows_the_difference(difference: Difference) -> None:
    assert is_there(difference.tests, whole=False)
    assert is_there(difference.shown_by, whole=True)


PAGE = (ROOT / "docs" / "installing.md").read_text()
TABLE = PAGE.partition("<!-- airflow 3.4 -->")[2].partition("<!-- end of airflow 3.4 -->")[0]
ROWS = TABLE.strip().splitlines()[2:]


def test_every_difference_is_on_the_page() -> None:
    assert [each.shown_by for each in DIFFERENCES if each.shown_by not in TABLE] == []


@pytest.mark.parametrize("row", ROWS)
def test_each_row_of_the_page_names_tests_that_exist(row: str) -> None:
    named = re.findall(r"`(tests/[a-z0-9_/]+\.py::test_\w+)`", row)
    assert named
    assert [test for test in named if not is_there(test, whole=True)] == []


@dataclass
class Item:
    """As of pytest."""

    nodeid: str
    markers: list[pytest.MarkDecorator] = field(default_factory=list)

    def add_marker(self, marker: pytest.MarkDecorator) -> None:
        self.markers.append(marker)


def collected(*, is_next: bool) -> tuple[dict[str, list[pytest.MarkDecorator]], list[str]]:
    """The tests that are left, with their markers, and those that are left out."""
    names = ["test_it[ours-supervisor]", "test_it[ours-process]", "test_that[1]", "test_other"]
    items: Any = [Item(f"tests/a.py::{name}") for name in names]
    left_out: list[Any] = []
    config: Any = SimpleNamespace(hook=SimpleNamespace(pytest_deselected=lambda *, items: left_out.extend(items)))
    expect_differences(config, items, among=(WAITS, FAILS), is_next=is_next)
    return {item.nodeid.split("::")[1]: item.markers for item in items}, [item.nodeid for item in left_out]


def test_on_the_next_airflow_a_listed_test_must_fail_and_one_that_would_only_wait_is_left_out() -> None:
    left, left_out = collected(is_next=True)
    assert left_out == ["tests/a.py::test_it[ours-supervisor]"]
    assert [name for name, markers in left.items() if markers] == ["test_that[1]"]
    (marker,) = left["test_that[1]"]
    assert (marker.name, marker.kwargs["strict"]) == ("xfail", True)
    assert "it fails" in marker.kwargs["reason"]


def test_on_the_pinned_airflow_every_test_must_pass() -> None:
    left, left_out = collected(is_next=False)
    assert left_out == []
    assert [name for name, markers in left.items() if markers] == []
    assert len(left) == 4
