"""Measures subjects side by side, round by round, in one run.

A topic is a module with a function `measure(scale) -> Iterator[Result]`, and is named in `__main__.TOPICS`:

    def measure(scale: Scale) -> Iterator[Result]:
        rows = make_rows(scale.size(1_000_000, quick=20_000))
        yield from compare(
            "a row through window.track",
            {"window.track": lambda: ours(rows), "a loop with a maximum": lambda: plain(rows)},
            per=len(rows),
            unit="ns",
            rounds=scale.rounds(9),
            targets={"a loop with a maximum": (extra_at_most(100),)},
        )

The first subject is ours, the others are what it is compared with: a `Result`, and a line of the table, for each. A
subject does `per` operations each time it is called; one that returns `Seconds` has taken its time itself: a worker in
another process, a task in Airflow. They take turns, A B A B: what disturbs the machine disturbs them alike. One round
before the others warms up and does not count. The ratio and the difference are taken within a round, and of everything
the median and the quartiles are given.

Everything is a cost: less is better, and a ratio below 1 means that ours costs less. What is counted and not timed
(bytes, calls) goes through `tell`, with the same targets. How a thing grows is a comparison as well: with itself, where
it is small.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, field_serializer

Work: TypeAlias = "Callable[[], object]"
Unit = Literal["ns", "us", "ms", "s", "bytes", "KB", "MB", "calls", "modules"]

PER_SECOND: Mapping[str, float] = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0}


class Seconds(float):
    """The seconds that a subject took by its own clock."""


class NotMeasuredError(Exception):
    """Something that a topic needs is missing; the message says what, and the topic is left out."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much is measured.

    Args:
        quick: small sizes and few rounds: shows that everything runs, and its numbers mean little.
        without: environments of other programs that are not to be made; with `quick`, none is.
    """

    quick: bool = False
    without: frozenset[str] = frozenset()

    def size(self, full: int, *, quick: int) -> int:
        return quick if self.quick else full

    def rounds(self, full: int) -> int:
        return 1 if self.quick else full

    def allows(self, environment: str) -> bool:
        return not self.quick and environment not in self.without


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Spread(_Value):
    """The median and the quartiles of some rounds."""

    median: float
    low: float
    high: float

    @field_serializer("*")
    def _digits_that_count(self, value: float) -> float:
        return float(f"{value:.4g}")

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        if len(values) == 1:
            return cls(median=values[0], low=values[0], high=values[0])
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(median=median, low=low, high=high)


class Target(_Value):
    """What is to be reached: by the cost itself, by its ratio to the rival's, or by what it adds to the rival's."""

    of: Literal["cost", "ratio", "extra"]
    at_most: float


def at_most(cost: float) -> Target:
    return Target(of="cost", at_most=cost)


def ratio_at_most(ratio: float) -> Target:
    return Target(of="ratio", at_most=ratio)


def extra_at_most(cost: float) -> Target:
    return Target(of="extra", at_most=cost)


class Result(_Value):
    """A line of the table.

    Args:
        row: the operation that is measured. `subject`: ours, by its name.
        cost: of one operation, in `unit`.
        rival: what it is compared with, and `rival_cost`; None when it is measured alone.
        ratio, extra: cost / rival_cost and cost - rival_cost, within a round.
        reached: whether all targets are; None when there is none.
    """

    row: str
    subject: str
    unit: Unit
    cost: Spread
    rounds: int
    rival: str | None = None
    rival_cost: Spread | None = None
    ratio: Spread | None = None
    extra: Spread | None = None
    targets: tuple[Target, ...] = ()
    reached: bool | None = None
    headline: bool = False


def compare(
    row: str,
    subjects: Mapping[str, Work],
    *,
    per: int = 1,
    unit: Unit = "us",
    rounds: int = 9,
    targets: Mapping[str, tuple[Target, ...]] | None = None,
    headline: bool = False,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Result]:
    """Time the subjects, taking turns.

    Args:
        per: operations that a subject does when it is called.
        unit: of time, for one operation.
        targets: by the name of the rival; by our own where there is no rival.
        headline: whether the README and the chart show it.
        clock: `time.process_time` where only the processor is used: other programs disturb it less.
    """
    scale = PER_SECOND[unit] / per
    costs: dict[str, list[float]] = {name: [] for name in subjects}
    for number in range(rounds + 1):
        for name, work in subjects.items():
            seconds = _timed(work, clock)
            if number > 0:
                costs[name].append(seconds * scale)
    return results(row, costs, unit=unit, targets=targets, headline=headline)


def _timed(work: Work, clock: Callable[[], float]) -> float:
    gc.collect()  # nobody pays for what another left
    started = clock()
    own = work()
    return own if isinstance(own, Seconds) else clock() - started


def tell(
    row: str,
    counts: Mapping[str, float],
    *,
    unit: Unit,
    targets: Mapping[str, tuple[Target, ...]] | None = None,
    headline: bool = False,
) -> list[Result]:
    """Results that were counted: they are the same in every round, so one is enough."""
    costs = {name: [count] for name, count in counts.items()}
    return results(row, costs, unit=unit, targets=targets, headline=headline)


def results(
    row: str,
    costs: Mapping[str, Sequence[float]],
    *,
    unit: Unit,
    targets: Mapping[str, tuple[Target, ...]] | None = None,
    headline: bool = False,
) -> list[Result]:
    """A result for each rival, or one if there is no rival.

    Args:
        costs: by subject, in the order of the rounds; ours comes first.
    """
    wanted = targets or {}
    (subject, ours), *rivals = costs.items()
    alone = Result(row=row, subject=subject, unit=unit, cost=Spread.of(ours), rounds=len(ours), headline=headline)
    if not rivals:
        return [_judged(alone, wanted.get(subject, ()))]
    return [_judged(_against(alone, ours, rival, theirs), wanted.get(rival, ())) for rival, theirs in rivals]


def _against(alone: Result, ours: Sequence[float], rival: str, theirs: Sequence[float]) -> Result:
    pairs = list(zip(ours, theirs, strict=True))
    return alone.model_copy(
        update={
            "rival": rival,
            "rival_cost": Spread.of(theirs),
            "ratio": Spread.of([our / their for our, their in pairs]) if all(theirs) else None,
            "extra": Spread.of([our - their for our, their in pairs]),
        }
    )


def _judged(result: Result, targets: tuple[Target, ...]) -> Result:
    if not targets:
        return result
    found = {"cost": result.cost, "ratio": result.ratio, "extra": result.extra}
    pairs = [(found[target.of], target.at_most) for target in targets]
    reached = all(value is not None and value.median <= limit for value, limit in pairs)
    return result.model_copy(update={"targets": targets, "reached": reached})


def exhaust(iterable: Iterable[object]) -> None:
    """Consume an iterator at the least cost."""
    deque(iterable, maxlen=0)
