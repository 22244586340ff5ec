"""What subcommands print: tables, records, findings. And where they find modules of others."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
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


# --- what the doctor found ------------------------------------------------------------------------------------


class Severity(Enum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    level: Severity
    about: str
    found: str
    remedy: str = ""
    """What to do; nothing where all is well."""


def ok(about: str, found: str) -> Finding:
    """All is well."""
    return Finding(level=Severity.OK, about=about, found=found)


def warning(about: str, found: str, remedy: str) -> Finding:
    """It works, and somebody should look at it."""
    return Finding(level=Severity.WARNING, about=about, found=found, remedy=remedy)


def error(about: str, found: str, remedy: str) -> Finding:
    """It does not work."""
    return Finding(level=Severity.ERROR, about=about, found=found, remedy=remedy)


def print_findings(what: str, name: str, findings: Sequence[Finding], output: str) -> int:
    """Print them, and return the exit code: 1 if there is an error.

    Args:
        what: was looked at, such as `database`.
        name: of it.
        findings: in the order in which they are printed.
        output: `table` or `json`.
    """
    if output == "json":
        found = [{**asdict(finding), "level": finding.level.value} for finding in findings]
        print(json.dumps({what: name, "findings": found}, indent=2))
    else:
        print(name)
        rows = [(finding.level.value, finding.about, finding.found) for finding in findings]
        heading, *others = lines(("LEVEL", "ABOUT", "FOUND"), rows)
        print(heading)
        for finding, line in zip(findings, others, strict=True):
            print(line)
            if finding.remedy:
                print("         ->", finding.remedy)
    return 1 if any(finding.level is Severity.ERROR for finding in findings) else 0
