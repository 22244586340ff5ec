"""A fault plan: which faults happen, and at which points.

The docs, messages and `only=` call it a way. It is written as "3:crash" or "3:raises_after KeyError,7:refused".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeAlias, TypeVar

from airflow_resume.arguments import check_type
from airflow_resume.testing.errors import InvalidKindError, InvalidWayError
from airflow_resume.testing.kinds import MakeError, faults_at, read_kind
from airflow_resume.testing.points import CRASH_KINDS, Point

T = TypeVar("T")

FaultPlan: TypeAlias = "dict[int, str]"
"""The number of each point at which a fault happens, and the kind of the fault."""


def write_plan(way: FaultPlan) -> str:
    """The text that `read_plan` reads."""
    return ",".join(f"{number}:{kind}" for number, kind in way.items())


def read_plan(text: str, errors: Mapping[str, MakeError]) -> FaultPlan:
    """The plan that `text` describes.

    Raises:
        InvalidWayError: it cannot be read.
    """
    check_type("only", text, str, 'a way as a failure writes it, such as "3:crash"')
    plan: FaultPlan = {}
    for step in text.split(","):
        number, _, kind = step.strip().partition(":")
        if not (number.isdecimal() and int(number) and kind.partition(" ")[0] in CRASH_KINDS):
            raise InvalidWayError(
                f'only={text!r}: {step!r} is not a number and a kind such as "3:crash"; kinds are'
                f" {', '.join(CRASH_KINDS)}."
            )
        try:
            fault = read_kind(kind, errors)
        except InvalidKindError as error:
            raise InvalidWayError(f"{step!r} cannot be tried: {error}") from error
        if int(number) in plan:
            raise InvalidWayError(f"{text!r} names a point twice.")
        plan[int(number)] = fault
    return plan


def plans_at(points: Sequence[Point], kinds: Sequence[str], *, after: FaultPlan | None = None) -> Iterator[FaultPlan]:
    """Each kind of fault at each of the points where it can happen, following the faults of `after`."""
    for point in points:
        for fault in faults_at(point, kinds):
            yield {**(after or {}), point.number: fault}


def thinned(ways: Sequence[T], most: int) -> list[T]:
    """At most `most` of the plans, evenly spread."""
    step = max(1, -(-len(ways) // most))
    return list(islice(ways, None, None, step))
