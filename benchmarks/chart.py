"""The headlines as a chart: bars from 1 on a logarithmic axis, to the left where ours costs less."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from benchmarks.harness import Result
from benchmarks.tables import figure, is_shown

WIDTH, LINE, TOP = 960, 40, 48
LEFT, RIGHT = 470, 900
"""The start and the end of the axis."""
LESS, MORE, QUIET = "#2a9d6f", "#d98324", "#777777"


def drawn(results: Sequence[Result]) -> str:
    """An SVG."""
    shown = [result for result in results if is_shown(result)]
    axis = Axis([result.ratio.median for result in shown if result.ratio is not None])
    height = TOP + LINE * len(shown) + 16
    parts = [*axis.drawn(height), *(part for number, result in enumerate(shown) for part in bar(result, number, axis))]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif"'
        f' font-size="13">\n<rect width="{WIDTH}" height="{height}" fill="white"/>\n'
        + "".join(f"{part}\n" for part in parts)
        + "</svg>\n"
    )


class Axis:
    """From the power of ten below the least ratio to the one above the greatest, 1 included."""

    def __init__(self, ratios: Sequence[float]) -> None:
        self.low = math.floor(math.log10(min(ratios, default=1)))
        self.high = max(math.ceil(math.log10(max(ratios, default=1))), 0, self.low + 1)

    def place(self, ratio: float) -> float:
        return LEFT + (RIGHT - LEFT) * (math.log10(ratio) - self.low) / (self.high - self.low)

    def drawn(self, height: int) -> Iterator[str]:
        yield text(LEFT, 16, "cost of ours / cost of theirs: less is better", QUIET)
        for power in range(self.low, self.high + 1):
            x = self.place(10.0**power)
            color = "black" if power == 0 else "#dddddd"
            yield f'<line x1="{x:.0f}" x2="{x:.0f}" y1="{TOP - 8}" y2="{height - 8}" stroke="{color}"/>'
            yield text(x, TOP - 12, f"{10.0**power:g}", QUIET, anchor="middle")


def bar(result: Result, number: int, axis: Axis) -> Iterator[str]:
    assert result.ratio is not None
    ratio, y = result.ratio.median, TOP + LINE * number
    one, end = axis.place(1), axis.place(ratio)
    color = LESS if ratio <= 1 else MORE
    yield text(8, y + 15, result.row)
    yield text(8, y + 30, f"against {result.rival}", QUIET)
    yield f'<rect x="{min(one, end):.1f}" y="{y + 6}" width="{abs(end - one):.1f}" height="20" fill="{color}"/>'
    yield text(max(one, end) + 6, y + 21, figure(ratio))


def text(x: float, y: float, words: str, color: str = "black", *, anchor: str = "start") -> str:
    return f'<text x="{x:.0f}" y="{y}" fill="{color}" text-anchor="{anchor}">{escape(words)}</text>'
