"""The error classes, and what their sources say of them: for the tests of the classes and of the page about them."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from airflow.sdk.exceptions import AirflowFailException

from airflow_resume import errors
from airflow_resume.errors import ResumeError

ROOT = Path(__file__).parents[3]
SOURCES = [ROOT / "toolkit" / "airflow_resume", ROOT / "mixins" / "airflow_resume_mixins"]
KINDS: list[type[ResumeError]] = [
    kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ResumeError)
]
"""In the order in which they are written."""


def own_fields(kind: type[ResumeError]) -> list[str]:
    """Those that the class adds to its bases."""
    return [name for name in inspect.get_annotations(kind) if name in kind.FIELDS]


def documented(kind: type[ResumeError]) -> list[str]:
    """The names under "Fields:" in the docstring of the class itself."""
    _, _, part = inspect.cleandoc(vars(kind).get("__doc__") or "").partition("Fields:\n")
    entries = [line for line in part.split("\n") if line.startswith("    ") and line[4] != " "]
    return [line.partition(":")[0].strip() for line in entries]


@cache
def set_in_sources() -> dict[str, set[str]]:
    """By the name of each class the fields that a raise of it sets."""
    found: dict[str, set[str]] = {}
    for name, keyword in _keywords():
        found.setdefault(name, set()).add(keyword)
    return found


def _keywords() -> Iterator[tuple[str, str]]:
    for path in (path for folder in SOURCES for path in sorted(folder.rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), keywords=keywords):
                    yield from ((name, keyword.arg) for keyword in keywords if keyword.arg is not None)


# --- docs/errors.md -------------------------------------------------------------------------------------------


def table() -> str:
    """A row for each class."""
    rows = ["| error | when | fields | also | a retry |", "|---|---|---|---|---|", *map(_row, KINDS)]
    return "\n".join(rows)


def merged_table() -> str:
    """A row for each name that was merged."""
    rows = [f"| `{old}` | `{new}` |" for old, new in errors.MERGED.items()]
    return "\n".join(["| name of 0.1 | is now |", "|---|---|", *rows])


def _row(kind: type[ResumeError]) -> str:
    first = (inspect.getdoc(kind) or "").partition("\n")[0].replace("|", r"\|")
    ours = [base for base in kind.__mro__[1:] if base in KINDS]
    fields = [name for name in kind.FIELDS if not any(name in base.FIELDS for base in ours)]
    bases = [base.__name__ for base in kind.__bases__ if base not in {Exception, AirflowFailException}]
    also = [name for name in bases if name not in {"ResumeError", "DeclaredError"}]
    retry = "cannot help" if issubclass(kind, AirflowFailException) else "may help"
    return f"| `{kind.__name__}` | {first} | {_names(fields)} | {_names(also)} | {retry} |"


def _names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
