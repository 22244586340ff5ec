"""What came out of every scenario, of the providers' operators and of ours: tables in docs/providers.md.

Each report is played by one test, which passes it to `documented`. That compares it with the page, and notes it in a
file of its own, so that workers of pytest need not share anything. `make providers` runs the tests and then this
module, which writes the page from the files. A row that was not played stays as it was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from airflow_resume.testing.operators import SCENARIOS, OperatorReport, Played
from airflow_resume.testing.operators.report import AT_ONCE, NO_JOB_LEFT, SAME

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "providers.md"
NOTED = ROOT / "build" / "scenarios"
BEGIN, END = "<!-- scenarios -->\n", "<!-- end of scenarios -->\n"
OWN, OURS = "own", "ours"

Row: TypeAlias = tuple[str, str, str]
"""The module of the pack, the operator, and `own` or `ours`."""
Cells: TypeAlias = Mapping[str, str]
"""By scenario; one that was not played is missing."""


def documented(report: OperatorReport, module: str, side: str, operator: str) -> OperatorReport:
    """Note the report for the page, and compare it with the page.

    Args:
        report: is returned.
        module: of the pack, such as `amazon`.
        side: `OWN` or `OURS`.
        operator: its name in the table: that of its class, and perhaps how it is used.

    Raises:
        AssertionError: the page says something else.
    """
    row, cells = (module, operator, side), cells_of(report)
    NOTED.mkdir(parents=True, exist_ok=True)
    (NOTED / f"{' '.join(row)}.json").write_text(json.dumps([row, cells]))
    written = read(on_page()).get(row)
    assert written == cells, f"docs/providers.md has another row: `make providers` has written it anew.\n{report}"
    return report


def cells_of(report: OperatorReport) -> dict[str, str]:
    """Short cells, by scenario. What is not as it should be is bold."""
    return {name: f"**{_cell(it)}**" if name in report.problems else _cell(it) for name, it in report.items()}


def _cell(played: Played) -> str:
    result = "" if played.result in {SAME, AT_ONCE, NO_JOB_LEFT} else f" {played.result}"
    return f"{played.jobs}/{played.most_alive}{result}"


def write(rows: Mapping[Row, Cells]) -> str:
    """A table for each module of the pack."""
    modules = sorted({module for module, _, _ in rows})
    return "\n".join(
        _table(module, {row[1:]: cells for row, cells in rows.items() if row[0] == module}) for module in modules
    )


def _table(module: str, rows: Mapping[tuple[str, str], Cells]) -> str:
    scenarios = [name for name in SCENARIOS if any(name in cells for cells in rows.values())]
    lines = [
        [f"`{module}`", "", *scenarios],
        ["---"] * (len(scenarios) + 2),
        *(
            [operator, side, *(cells.get(name, "") for name in scenarios)]
            for (operator, side), cells in sorted(rows.items(), key=lambda row: (row[0][0], row[0][1] == OURS))
        ),
    ]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def read(text: str) -> dict[Row, dict[str, str]]:
    """The rows of the tables again."""
    rows: dict[Row, dict[str, str]] = {}
    for table in filter(None, text.split("\n\n")):
        head, _, *lines = ([cell.strip() for cell in line.split("|")[1:-1]] for line in table.strip().splitlines())
        for operator, side, *cells in lines:
            played = {scenario: cell for scenario, cell in zip(head[2:], cells, strict=True) if cell}
            rows[head[0].strip("`"), operator, side] = played
    return rows


def on_page() -> str:
    """The text between the marks on the page."""
    return PAGE.read_text().partition(BEGIN)[2].partition(END)[0]


def main() -> None:
    """Write the page."""
    rows = read(on_page())
    for noted in sorted(NOTED.glob("*.json")):
        row, cells = json.loads(noted.read_text())
        rows[tuple(row)] = cells
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + BEGIN + write(rows) + END + rest.partition(END)[2])


if __name__ == "__main__":
    main()
