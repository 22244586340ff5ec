"""The points around a crash, drawn for a person."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_resume.testing.points import Point
from airflow_resume.testing.ways import Way

BEFORE, AFTER = 6, 8
"""So many points are shown around a crash."""


def draw(points: list[Point], way: Way) -> str:
    """One line a point; those that crashed are marked, and those far from any crash left out."""
    shown = [point for point in points if any(-BEFORE <= point.number - at <= AFTER for at in way)]
    return "\n".join(_lines(shown, points, way))


def _lines(shown: list[Point], points: list[Point], way: Way) -> Iterator[str]:
    previous: Point | None = None
    for point in shown:
        if point.number != (previous.number if previous else 0) + 1:
            yield "    ..."
        if previous is None or point.attempt != previous.attempt:
            yield f"    attempt {point.attempt}"
        yield _line(point, way)
        previous = point
    if previous is not None and previous.number < len(points):
        yield f"    ... {len(points) - previous.number} more"


def _line(point: Point, way: Way) -> str:
    kind = way.get(point.number)
    return f"  {'>' if kind else ' '} {point.number:4}  {point}" + (f"    <-- {kind}" if kind else "")
