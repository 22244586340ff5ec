"""The table of docs/conformance.md, written and read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

PAGE = Path(__file__).parents[3] / "docs" / "conformance.md"
BEGIN, END = "<!-- matrix -->\n", "<!-- end of matrix -->\n"
YES, NOT_OFFERED = "yes", "not offered"
VERSIONS = "tried with"

Faults: TypeAlias = Mapping[str, str]
"""The tests that fail, each with the reason."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """How one backend keeps the contract."""

    versions: str
    rows: Mapping[str, Faults | None]
    """By property; None where it is not offered."""


Matrix: TypeAlias = Mapping[str, Column]
"""By the name of the backend."""


def write(matrix: Matrix) -> str:
    """The table, and a note for every test that fails."""
    notes = _notes(matrix)
    rows = next(iter(matrix.values())).rows
    table = [
        ["", *matrix],
        ["---"] * (len(matrix) + 1),
        [VERSIONS, *(column.versions for column in matrix.values())],
        *([row, *(_cell(column.rows[row], notes) for column in matrix.values())] for row in rows),
    ]
    lines = [f"| {' | '.join(cells)} |" for cells in table]
    return "\n".join([*lines, "", *(f"{number}. `{test}`: {fault}" for (test, fault), number in notes.items()), ""])


def _notes(matrix: Matrix) -> dict[tuple[str, str], int]:
    found = (fault for column in matrix.values() for faults in column.rows.values() for fault in (faults or {}).items())
    return {fault: number for number, fault in enumerate(dict.fromkeys(found), 1)}


def _cell(faults: Faults | None, notes: Mapping[tuple[str, str], int]) -> str:
    if faults is None:
        return NOT_OFFERED
    return f"no: {', '.join(f'({notes[fault]})' for fault in faults.items())}" if faults else YES


def read(text: str) -> Matrix:
    """The table again."""
    notes = {
        number: (test, fault) for number, test, fault in re.findall(r"^(\d+)\. `(.+?)`: (.+)$", text, re.MULTILINE)
    }
    headings, _, versions, *rows = [_cells(line) for line in text.splitlines() if line.startswith("|")]
    return {
        name: Column(
            versions=versions[position],
            rows={row[0]: _faults(row[position], notes) for row in rows},
        )
        for position, name in enumerate(headings)
        if name
    }


def _cells(line: str) -> Sequence[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def _faults(cell: str, notes: Mapping[str, tuple[str, str]]) -> Faults | None:
    return None if cell == NOT_OFFERED else dict(notes[number] for number in re.findall(r"\((\d+)\)", cell))


def on_page() -> str:
    """The text between the marks on the page."""
    return PAGE.read_text().partition(BEGIN)[2].partition(END)[0]


def put_on_page(table: str) -> None:
    """Replace it."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + BEGIN + table + END + rest.partition(END)[2])
