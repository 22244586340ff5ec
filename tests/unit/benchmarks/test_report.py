"""The pages show what is in `docs/benchmarks.json`, and the tables say it right."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from benchmarks.chart import LESS, MORE, Axis, drawn
from benchmarks.harness import Result, extra_at_most, results
from benchmarks.report import DOCS, Machine, Report, pages, with_table
from benchmarks.tables import cells, documented, figure, shortened


def two_results() -> list[Result]:
    return [
        *results(
            "an element", {"ours": [30, 31, 32], "<theirs>": [10, 10, 10]}, unit="ns",
            targets={"<theirs>": (extra_at_most(25),)}, headline=True,
        ),
        *results("a step", {"ours": [1], "theirs": [1_000]}, unit="us", headline=True),
        *results("bytes", {"ours": [335]}, unit="bytes"),
    ]  # fmt: skip


def test_the_pages_show_what_is_in_the_file() -> None:
    report = Report.read(DOCS)
    for page, table in pages(report).items():
        assert with_table(page.read_text(), table) == page.read_text()
    assert drawn(report.results) == (DOCS / "benchmarks.svg").read_text()


def test_the_file_has_rows_with_others_and_says_nothing_of_where_it_was_made() -> None:
    report = Report.read(DOCS)
    assert {result.rival for result in report.results} > {None, "DBOS step", "dlt incremental, row by row"}
    text = (DOCS / "benchmarks.json").read_text()
    assert not re.search(r"/(home|root|tmp|usr|var)\b", text)
    assert set(Machine.model_fields) == {"cores", "cpu", "system", "versions"}


def test_a_page_without_a_place_for_the_table_is_refused() -> None:
    with pytest.raises(LookupError, match="no place"):
        with_table("# A page\n", "table")


def test_a_report_keeps_the_digits_that_count_and_the_chart_is_drawn_from_them(tmp_path: Path) -> None:
    found = results("row", {"ours": [0.00099996], "theirs": [1.0]}, unit="us", headline=True)
    machine = Machine(cores=2, cpu="a processor", system="Linux", versions={"python": "3.12.1"})
    written = Report(machine=machine, results=found).write(tmp_path)
    assert written == Report.read(tmp_path)
    assert (written.machine, written.results[0].cost.median) == (machine, 0.001)
    assert drawn(written.results) == (tmp_path / "benchmarks.svg").read_text() != drawn(found)


def test_topics_that_are_measured_again_take_the_place_of_what_was_published() -> None:
    machine = Machine(cores=2, cpu="a processor", system="Linux", versions={"python": "3.12.1"})
    old = Report(machine=machine, results=two_results())
    again = results("a step", {"ours": [2], "theirs": [4]}, unit="us") + results("a row", {"ours": [1]}, unit="us")
    renewed = old.renewed(Report(machine=machine, results=again))
    assert [result.row for result in renewed.results] == ["an element", "bytes", "a step", "a row"]
    assert renewed.results[2].cost.median == 2
    with pytest.raises(ValueError, match="on 4 cores"):
        old.renewed(Report(machine=machine.model_copy(update={"cores": 4}), results=again))


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.00123456, "0.00123"), (1, "1"), (9.876, "9.88"), (99.94, "99.9"), (12345.6, "12,346")],
)
def test_a_figure_has_three_digits_that_count(value: float, text: str) -> None:
    assert figure(value) == text


def test_a_line_has_the_spread_and_the_difference_where_it_counts() -> None:
    assert [cells(result) for result in two_results()] == [
        ("an element", "31 (30.5-31.5) ns", "<theirs>", "10 ns", "3.1 (+21 ns)", "<= 25 ns more", "yes"),
        ("a step", "1 us", "theirs", "1,000 us", "0.001", "", ""),
        ("bytes", "335 bytes", "", "", "", "", ""),
    ]


def test_the_short_table_has_the_headlines_that_compare() -> None:
    lines = shortened(two_results()).splitlines()
    assert lines[2:] == [
        "| an element | 31 ns | <theirs> | 10 ns | 3.1 |",
        "| a step | 1 us | theirs | 1,000 us | 0.001 |",
    ]
    assert len(documented(two_results()).splitlines()) == 2 + 3


def test_the_chart_has_a_bar_to_the_left_where_ours_costs_less_and_one_to_the_right_where_more() -> None:
    svg = ET.fromstring(drawn(two_results()))  # noqa: S314  our own
    _, dearer, cheaper = svg.findall("{*}rect")
    one = Axis([3.1, 0.001]).place(1)
    assert (dearer.get("fill"), cheaper.get("fill")) == (MORE, LESS)
    assert float(dearer.get("x", "")) == pytest.approx(one, abs=0.1)
    assert float(cheaper.get("x", "")) + float(cheaper.get("width", "")) == pytest.approx(one, abs=0.2)
    assert float(cheaper.get("width", "")) == pytest.approx(3 / 4 * 430, abs=0.2)  # 10^-3 to 10^0 of 10^-3 to 10^1
