"""The tables of docs/providers.md with all scenarios: every class of the pack is there, and tests compare the rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_resume.testing.operators import OperatorReport, Played
from airflow_resume_mixins.providers.twins import pack, read_twins
from tests.support.providers import scenario_table
from tests.support.providers.scenario_table import OURS, OWN, documented, on_page, read, write

ONE = Played(jobs=1, most_alive=1, cancelled=0, result="same result")
TWO = Played(jobs=2, most_alive=2, cancelled=0, result="RuntimeError")
REPORT = OperatorReport(operator="X", rows={"plain": ONE, "deploy": TWO}, ideal={"plain": (ONE,), "deploy": (ONE,)})


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "page.md"
    made.write_text(f"before\n{scenario_table.BEGIN}{scenario_table.END}after\n")
    monkeypatch.setattr(scenario_table, "PAGE", made)
    monkeypatch.setattr(scenario_table, "NOTED", tmp_path / "noted")
    return made


def test_a_row_that_the_page_does_not_have_is_an_error_until_the_page_is_written(page: Path) -> None:
    with pytest.raises(AssertionError, match="another row"):
        documented(REPORT, "acme", OURS, "X, fast")
    scenario_table.main()
    assert page.read_text() == (
        f"before\n{scenario_table.BEGIN}| `acme` |  | plain | deploy |\n| --- | --- | --- | --- |\n"
        f"| X, fast | ours | 1/1 | **2/2 RuntimeError** |\n{scenario_table.END}after\n"
    )
    assert documented(REPORT, "acme", OURS, "X, fast") is REPORT


def test_a_row_that_was_not_played_stays(page: Path) -> None:
    for side, operator in ((OURS, "X"), (OWN, "X"), (OURS, "Y")):
        with pytest.raises(AssertionError):
            documented(REPORT, "acme", side, operator)
    scenario_table.main()
    before = page.read_text()
    for noted in scenario_table.NOTED.iterdir():
        noted.unlink()
    scenario_table.main()
    assert page.read_text() == before
    assert list(read(on_page())) == [("acme", "X", OWN), ("acme", "X", OURS), ("acme", "Y", OURS)]


def test_a_row_that_changes_is_an_error(page: Path) -> None:
    with pytest.raises(AssertionError):
        documented(REPORT, "acme", OURS, "X")
    scenario_table.main()
    other = OperatorReport(operator="X", rows={"plain": TWO, "deploy": TWO}, ideal=REPORT.ideal)
    with pytest.raises(AssertionError, match="another row"):
        documented(other, "acme", OURS, "X")
    assert json.loads((scenario_table.NOTED / "acme X ours.json").read_text())[1]["plain"] == "**2/2 RuntimeError**"


def test_the_page_is_as_it_is_written() -> None:
    assert write(read(on_page())) == on_page()


@pytest.mark.parametrize("module", pack())
def test_every_class_of_the_pack_is_on_the_page_beside_the_providers_own(module: str) -> None:
    twins = read_twins((module,))
    if twins.errors:
        pytest.skip(f"the provider of {module} is not installed")
    classes = {twin.kind.__name__ for twin in twins.by_operator.values()}
    for side in (OWN, OURS):
        assert {name.split(",")[0] for of, name, by in read(on_page()) if (of, by) == (module, side)} == classes
