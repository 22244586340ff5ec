"""What subcommands print, and where they find modules of others."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

MEASURED = 200
"""How many rows set the widths of the columns. A table may have more rows than memory holds."""


def lines(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """A table in columns, line by line. After the first rows a cell may be wider than its column."""
    texts = ([shown(cell) for cell in row] for row in rows)
    first = [list(headings), *islice(texts, MEASURED)]
    widths = [max(map(len, column)) for column in zip(*first, strict=True)]
    for row in chain(first, texts):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def shown(cell: object) -> str:
    """The cell on one line. Keys may have any characters, so what a terminal would obey is written as in JSON."""
    text = str(cell)
    return text if text.isprintable() else json.dumps(text)


def look_in_the_current_folder() -> None:
    """Find modules in the current folder too, as Python does for a script."""
    here = os.getcwd()  # noqa: PTH109  sys.path has texts
    if here not in sys.path:
        sys.path.insert(0, here)
