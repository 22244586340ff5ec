"""A way: which points crash, and how. Written as "3:crash" or "3:crash,7:refused"."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypeAlias, TypeVar

from airflow_resume.testing.errors import InvalidWayError
from airflow_resume.testing.points import CRASH_KINDS, CrashKind, Point

T = TypeVar("T")

Way: TypeAlias = "dict[int, CrashKind]"
"""By the number of the point."""


def write_way(way: Way) -> str:
    """As `read_way` reads it."""
    return ",".join(f"{number}:{kind}" for number, kind in way.items())


def read_way(text: str) -> Way:
    """The way that `text` names.

    Raises:
        InvalidWayError: it names none.
    """
    return dict(_read_step(step) for step in text.split(","))


def _read_step(step: str) -> tuple[int, CrashKind]:
    number, _, name = step.strip().partition(":")
    for kind in CRASH_KINDS:
        if name == kind and number.isdecimal() and int(number):
            return int(number), kind
    raise InvalidWayError(f'{step!r} is not a number and a kind such as "3:crash"; kinds are {", ".join(CRASH_KINDS)}.')


def ways_at(points: Sequence[Point], kinds: Sequence[CrashKind], *, after: Way | None = None) -> Iterator[Way]:
    """Each kind of crash at each of the points where it can happen, once the crashes of `after` have happened."""
    for point in points:
        for kind in kinds:
            if point.allows(kind):
                yield {**(after or {}), point.number: kind}


def thinned(ways: Sequence[T], most: int) -> list[T]:
    """At most so many of the ways, spread evenly."""
    step = max(1, -(-len(ways) // most))
    return list(islice(ways, None, None, step))
