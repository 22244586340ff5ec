"""What subcommands print, and where they find modules of others."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import Any

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


def plain(rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """The rows without headings, with a tab between two cells, for `cut` and `awk`."""
    return ("\t".join(shown(cell) for cell in row) for row in rows)


def pairs(found: Mapping[str, object]) -> Iterator[str]:
    """A line for each name and value that is there; a value of several lines is indented."""
    known = {name: str(value) for name, value in found.items() if value not in (None, "", ())}
    width = max(map(len, known), default=0)
    for name, value in known.items():
        first, *others = value.split("\n")
        yield f"{name.ljust(width)}  {shown(first)}"
        yield from (f"{' ' * width}  {shown(other)}" for other in others)


def dumped(value: object, output: str) -> str:
    """A value as JSON or YAML."""
    simple = as_json(value)
    if output == "json":
        return json.dumps(simple, indent=2)
    import yaml

    return str(yaml.safe_dump(simple, sort_keys=False, allow_unicode=True)).rstrip("\n")


def as_json(value: object) -> Any:
    """Data classes as dicts, times in ISO 8601, durations in seconds."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): as_json(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(each) for each in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return value.total_seconds() if isinstance(value, timedelta) else value


def look_in_the_current_folder() -> None:
    """Find modules in the current folder too, as Python does for a script."""
    here = os.getcwd()  # noqa: PTH109  sys.path has texts
    if here not in sys.path:
        sys.path.insert(0, here)
