"""A window as the predicate of a query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from airflow_resume.arguments import check_choice

Style = Literal["named", "qmark", "format", "pyformat"]
"""As in the DB-API: `:start`, `?`, `%s`, `%(start)s`."""


class _Parameters:
    """Placeholders in the style of a driver, and the values behind them, in the order of the text."""

    def __init__(self, style: Style) -> None:
        check_choice("style", style, Style)
        self._style = style
        self.named: dict[str, Any] = {}
        self.listed: list[Any] = []

    def add(self, name: str, value: Any) -> str:
        self.named[name] = value
        self.listed.append(value)
        return {"named": f":{name}", "qmark": "?", "format": "%s", "pyformat": f"%({name})s"}[self._style]

    @property
    def values(self) -> dict[str, Any] | list[Any]:
        return self.named if self._style in {"named", "pyformat"} else self.listed


def predicate(
    columns: str | Sequence[str], *, start: Any, end: Any, after: bool, keeps_nulls: bool, style: Style
) -> tuple[str, dict[str, Any] | list[Any]]:
    """The condition on the cursor's column or columns, and its parameters; `after`: without the start itself.

    Columns go into the text as they are: they are yours, never a user's.
    """
    one = isinstance(columns, str)
    names = [columns] if isinstance(columns, str) else list(columns)
    parameters = _Parameters(style)
    first, last = [start] if one else list(start), end if one or end is None else list(end)
    conditions = [_behind(names, first, parameters, "start", last=">" if after else ">=")]
    if last is not None and (one or len(last) == 1):
        conditions.append(f"{names[0]} < {parameters.add('end', end if one else last[0])}")
    elif last is not None:
        conditions.append(f"NOT {_behind(names, last, parameters, 'end', last='>=')}")
    text = " AND ".join(conditions)
    if keeps_nulls:
        text = f"({text} OR {' OR '.join(f'{name} IS NULL' for name in names)})"
    return text, parameters.values


def _behind(names: list[str], bounds: list[Any], parameters: _Parameters, name: str, *, last: str) -> str:
    """`(a, b) >= (x, y)`, in the words that every database has; a bound may be one of the first columns alone."""
    names = names[: len(bounds)]
    if len(names) == 1:
        return f"{names[0]} {last} {parameters.add(name, bounds[0])}"
    alternatives = []
    for place, column in enumerate(names):
        comparison = last if place == len(names) - 1 else ">"
        equal = [f"{names[i]} = {parameters.add(f'{name}_{place}_{i}', bounds[i])}" for i in range(place)]
        decides = f"{column} {comparison} {parameters.add(f'{name}_{place}', bounds[place])}"
        alternatives.append(" AND ".join([*equal, decides]))
    return f"({' OR '.join(f'({alternative})' for alternative in alternatives)})"
