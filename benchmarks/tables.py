"""The results as tables: on the terminal, in the documentation, in the README."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.table import Table

from benchmarks.harness import Result, Spread, Target

COLUMNS = ("what", "ours", "against", "theirs", "ours / theirs", "to reach", "reached")
SHORT = ("what", "airflow-resume", "instead", "", "ours / theirs")
RIGHT = {"ours", "theirs", "ours / theirs", "airflow-resume", ""}


def printed(results: Sequence[Result]) -> Table:
    """For the terminal."""
    table = Table()
    for column in COLUMNS:
        table.add_column(column, justify="right" if column in RIGHT else "left")
    for result in results:
        table.add_row(*cells(result))
    return table


def documented(results: Sequence[Result]) -> str:
    """All results, in Markdown."""
    return markdown(COLUMNS, map(cells, results))


def shortened(results: Sequence[Result]) -> str:
    """The headlines that compare ours with others, in Markdown."""
    return markdown(SHORT, map(short_cells, filter(is_shown, results)))


def is_shown(result: Result) -> bool:
    return result.headline and result.ratio is not None


def markdown(columns: Sequence[str], lines: Iterator[tuple[str, ...]]) -> str:
    rule = ["---:" if column in RIGHT else "---" for column in columns]
    return "".join(f"| {' | '.join(line)} |\n" for line in (columns, rule, *lines))


def cells(result: Result) -> tuple[str, ...]:
    """The texts of a line."""
    return (
        result.row,
        cost(result.cost, result.unit, with_quartiles),
        result.rival or "",
        "" if result.rival_cost is None else cost(result.rival_cost, result.unit, with_quartiles),
        " ".join(beside(result)),
        ", ".join(goal(target, result.unit) for target in result.targets),
        {None: "", True: "yes", False: "no"}[result.reached],
    )


def short_cells(result: Result) -> tuple[str, ...]:
    assert result.ratio is not None
    assert result.rival_cost is not None
    return (
        result.row,
        cost(result.cost, result.unit, median),
        result.rival or "",
        cost(result.rival_cost, result.unit, median),
        figure(result.ratio.median),
    )


def cost(spread: Spread, unit: str, text: Callable[[Spread], str]) -> str:
    return f"{text(spread)} {unit}"


def median(spread: Spread) -> str:
    return figure(spread.median)


def with_quartiles(spread: Spread) -> str:
    """The median, and the quartiles where they differ."""
    low, high = figure(spread.low), figure(spread.high)
    return median(spread) if low == high else f"{median(spread)} ({low}-{high})"


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
