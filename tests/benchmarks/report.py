"""The results as a table on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness import Result, Spread, Target
from rich.table import Table

COLUMNS = ("what", "ours", "against", "theirs", "ours / theirs", "to reach", "reached")


def printed(results: Sequence[Result]) -> Table:
    """For the terminal."""
    table = Table(*COLUMNS)
    for column in (1, 3, 4):
        table.columns[column].justify = "right"
    for result in results:
        table.add_row(*cells(result))
    return table


def cells(result: Result) -> tuple[str, ...]:
    """The texts of a line."""
    return (
        result.row,
        cost(result.cost, result.unit),
        result.rival or "",
        "" if result.rival_cost is None else cost(result.rival_cost, result.unit),
        " ".join(beside(result)),
        ", ".join(goal(target, result.unit) for target in result.targets),
        {None: "", True: "yes", False: "no"}[result.reached],
    )


def cost(spread: Spread, unit: str) -> str:
    """The median, and the quartiles where they differ."""
    median, low, high = map(figure, (spread.median, spread.low, spread.high))
    return f"{median} {unit}" if low == high else f"{median} ({low}-{high}) {unit}"


def beside(result: Result) -> Iterator[str]:
    """The ratio, and the difference where that is what counts."""
    if result.ratio is not None:
        yield figure(result.ratio.median)
    if result.extra is not None and any(target.of == "extra" for target in result.targets):
        yield f"(+{figure(result.extra.median)} {result.unit})"


def goal(target: Target, unit: str) -> str:
    limit = figure(target.at_most)
    return {"cost": f"<= {limit} {unit}", "ratio": f"<= {limit} x", "extra": f"<= {limit} {unit} more"}[target.of]


def figure(value: float) -> str:
    """Three digits that count."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
