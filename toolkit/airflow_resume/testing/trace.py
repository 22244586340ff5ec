"""The points around a crash, drawn for a person."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from airflow_resume.testing.points import Point

Steps = Mapping[int, str]
"""What happened at which point."""

BEFORE, AFTER = 6, 8
"""So many points are shown around a crash."""


def by_attempt(point: Point) -> str:
    """The heading of the points of one attempt."""
    return f"attempt {point.attempt}"


def draw(
    points: list[Point], way: Steps, *, heading: Callable[[Point], str] = by_attempt, near: Collection[int] = ()
) -> str:
    """One line a point; those that crashed are marked, and those far from any crash (and from `near`) left out."""
    shown = [point for point in points if any(-BEFORE <= point.number - at <= AFTER for at in (*way, *near))]
    return "\n".join(_lines(shown, points, way, heading))


def _lines(shown: list[Point], points: list[Point], way: Steps, heading: Callable[[Point], str]) -> Iterator[str]:
    previous: Point | None = None
    for point in shown:
        if point.number != (previous.number if previous else 0) + 1:
            yield "    ..."
        if previous is None or point.attempt != previous.attempt:
            yield f"    {heading(point)}"
        yield _line(point, way)
        previous = point
    if previous is not None and previous.number < len(points):
        yield f"    ... {len(points) - previous.number} more"


def _line(point: Point, way: Steps) -> str:
    kind = way.get(point.number)
    return f"  {'>' if kind else ' '} {point.number:4}  {point}" + (f"    <-- {kind}" if kind else "")
