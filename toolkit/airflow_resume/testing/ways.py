"""A way: what happens at which points. Written as "3:crash" or "3:raises_after KeyError,7:refused"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeAlias, TypeVar

from airflow_resume.testing.errors import InvalidKindError, InvalidWayError
from airflow_resume.testing.kinds import MakeError, faults_at, read_kind
from airflow_resume.testing.points import CRASH_KINDS, Point

T = TypeVar("T")

Way: TypeAlias = "dict[int, str]"
"""By the number of the point."""


def write_way(way: Way) -> str:
    """As `read_way` reads it."""
    return ",".join(f"{number}:{kind}" for number, kind in way.items())


def read_way(text: str, errors: Mapping[str, MakeError]) -> Way:
    """The way that `text` names.

    Raises:
        InvalidWayError: it names none.
    """
    steps = [_read_step(step, errors) for step in text.split(",")]
    if len(way := dict(steps)) < len(steps):
        raise InvalidWayError(f"{text!r} names a point twice.")
    return way


def _read_step(step: str, errors: Mapping[str, MakeError]) -> tuple[int, str]:
    number, _, kind = step.strip().partition(":")
    if not (number.isdecimal() and int(number) and kind.partition(" ")[0] in CRASH_KINDS):
        raise InvalidWayError(
            f'{step!r} is not a number and a kind such as "3:crash"; kinds are {", ".join(CRASH_KINDS)}.'
        )
    try:
        return int(number), read_kind(kind, errors)
    except InvalidKindError as error:
        raise InvalidWayError(f"{step!r} cannot be gone: {error}") from error


def ways_at(points: Sequence[Point], kinds: Sequence[str], *, after: Way | None = None) -> Iterator[Way]:
    """Each kind of fault at each of the points where it can happen, once those of `after` have happened."""
    for point in points:
        for fault in faults_at(point, kinds):
            yield {**(after or {}), point.number: fault}


def thinned(ways: Sequence[T], most: int) -> list[T]:
    """At most so many of the ways, spread evenly."""
    step = max(1, -(-len(ways) // most))
    return list(islice(ways, None, None, step))
