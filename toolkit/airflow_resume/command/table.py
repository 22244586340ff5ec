"""Plain text in columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

MEASURED = 200
"""Rows that the widths are taken from: a table may be longer than memory."""


def lines(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """The table, line by line. A row that comes later may stand out of its columns."""
    texts = ([shown(cell) for cell in row] for row in rows)
    first = [list(headings), *islice(texts, MEASURED)]
    widths = [max(map(len, column)) for column in zip(*first, strict=True)]
    for row in chain(first, texts):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def shown(cell: object) -> str:
    """On one line, and nothing that a terminal would obey: keys are anyone's."""
    text = str(cell)
    return text if text.isprintable() else json.dumps(text)
