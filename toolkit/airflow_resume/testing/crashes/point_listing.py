"""Lists the points around a crash as text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from airflow_resume.testing.points import Point

Steps = Mapping[int, str]
"""What happened at which point."""

AFTER_A_REPLAY = "  # remove only= once it passes"
"""Follows the call that repeats one plan."""

BEFORE, AFTER = 6, 8
"""How many points are shown before and after a crash."""


def by_attempt(point: Point) -> str:
    """The heading of the points of one attempt."""
    return f"attempt {point.attempt}"


def draw(
    points: list[Point], way: Steps, *, heading: Callable[[Point], str] = by_attempt, near: Collection[int] = ()
) -> str:
    """One line per point. Points with a fault are marked; those far from any fault (and from `near`) are left out."""
    shown = [point for point in points if any(-BEFORE <= point.number - at <= AFTER for at in (*way, *near))]
    return "\n".join(_lines(shown, points, way, heading))


def _lines(shown: list[Point], points: list[Point], way: Steps, heading: Callable[[Point], str]) -> Iterator[str]:
    previous: Point | None = None
    for point in shown:
        if point.number != (previous.number if previous else 0) + 1:
            yield "    ..."
        if previous is None or point.attempt != previous.attempt:
            yield f"    {heading(point)}"
        kind = way.get(point.number)
        yield f"  {'>' if kind else ' '} {point.number:4}  {point}" + (f"    <-- {kind}" if kind else "")
        previous = point
    if previous is not None and previous.number < len(points):
        yield f"    ... {len(points) - previous.number} more"


def difference(first: list[Point], second: list[Point], remedy: str) -> str:
    """A message that says where two runs that should be alike differ first."""
    at = next((n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second)))
    return (
        f"Two runs that should be alike differ at point {at + 1}: first {_name(first, at)}, then {_name(second, at)}.\n"
        f"{remedy}"
    )


def _name(points: list[Point], at: int) -> str:
    return repr(str(points[at])) if at < len(points) else "the end"
