"""Which interleavings are the same but for the order of what commutes, and so need not be tried twice.

Theory of operation. A run is cut into *segments* by its points: the first one goes up to its first point, and the last
one to its end. Only segments have effects, and a segment touches what its footprint says:

- from "before X" on, X: the key of a store (read or written), or the outside world;
- from "after X" on, nothing: what a run shares with others it reaches through calls that are points. Inside of an
  effect (`with world.effect(...)`) the outside world, up to its end;
- a new attempt of a task: its task instance, and everything if it replaces another one.

Two neighbouring segments of different runs whose footprints share nothing that either writes can change places: each
reads what it read before, so it does the same and passes the same next point, and what is left behind is the same.
All orders that arise from each other in this way end alike; one of them is tried (Mazurkiewicz; partial-order
reduction). So a switch right after a call is the same as one right before the next call of that run, and a switch
before a call that nothing of the interposed stretch cares about is the same as one after it.

What an oracle can see beyond the end keeps its order, too: effects are never exchanged with effects or with questions
to a job system. With a mark that is read after each store call (`follow`), no call is exchanged with another.

A schedule is written in the runs' own counts: `(0, ((0, 3, 1), (1, 2, 0)))` is run 0 first, up to its 3rd point,
then run 1 up to its 2nd, then run 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from airflow_resume.testing.points import Point
from airflow_resume.testing.relay import Begun

Segment: TypeAlias = "tuple[int, int]"
"""A run, and how many points it had passed."""
Switch: TypeAlias = "tuple[int, int, int]"
"""A run, at which of its points it stops, and which run goes on."""
Schedule: TypeAlias = "tuple[int, tuple[Switch, ...]]"
Footprint: TypeAlias = "frozenset[tuple[str, bool]]"
"""What is touched, and whether it is written."""

NOTHING: Footprint = frozenset()
EVERYTHING: Footprint = frozenset({("*", True)})
OUTSIDE: Footprint = frozenset({("the outside world", True)})


@dataclass(frozen=True)
class Trace:
    """An interleaving: its segments in order, the point at which each ends, and what each touches."""

    order: tuple[Segment, ...]
    ends: Mapping[Segment, Point]
    prints: Mapping[Segment, Footprint]
    is_wrong: bool = False
    """It was found to end wrongly."""

    @cached_property
    def lengths(self) -> Mapping[int, int]:
        """How many segments each run has."""
        return Counter(run for run, _ in self.order)

    def texts(self, count: int) -> list[tuple[int, str]]:
        """The first points, in a form that two runs can be compared by."""
        return [(segment[0], str(self.ends[segment])) for segment in self.order[:count]]


def traced(points: Sequence[Point], passed_by: Sequence[int], begun: Sequence[Begun], *, followed: bool) -> Trace:
    """The trace of an interleaving that was tried."""
    made: dict[int, list[Begun]] = {}
    for start in begun:
        made.setdefault(start.segment, []).append(start)
    counts: dict[int, int] = dict.fromkeys(passed_by, 0)
    open_calls: dict[int, list[Point]] = {run: [] for run in counts}
    order: list[Segment] = []
    ends: dict[Segment, Point] = {}
    prints: dict[Segment, Footprint] = {}
    for place, (point, run) in enumerate(zip(points, passed_by, strict=True)):
        segment = run, counts[run]
        counts[run] += 1
        order.append(segment)
        ends[segment] = point
        prints[segment] = _touched(open_calls[run], made.get(place, []), followed=followed)
        _follow(open_calls[run], point)
    return Trace(tuple(order), ends, prints)


def _follow(open_calls: list[Point], point: Point) -> None:
    """Take down which calls are open after a point. A call of a store has ended by the next point at the latest."""
    while open_calls and (open_calls[-1].source != "effect" or open_calls[-1].attempt != point.attempt):
        open_calls.pop()
    if point.phase == "before":
        open_calls.append(point)
    elif open_calls and open_calls[-1].what == point.what:
        open_calls.pop()


def _touched(open_calls: Sequence[Point], begun: Sequence[Begun], *, followed: bool) -> Footprint:
    if any(start.replaces for start in begun):
        return EVERYTHING
    instances = frozenset((f"instance {start.instance}", True) for start in begun)
    return instances.union(*(_of_call(call, followed=followed) for call in open_calls))


def _of_call(call: Point, *, followed: bool) -> Footprint:
    if followed:
        return EVERYTHING
    if call.source != "store":
        return OUTSIDE
    name, _, key = call.what.partition(" ")
    if name == "clear" or key == ".":
        return EVERYTHING
    return frozenset({(f"key {key}", name != "get")})


def commute(one: Footprint, other: Footprint) -> bool:
    """Whether neither cares about the order."""
    if not one or not other:
        return True
    if one >= EVERYTHING or other >= EVERYTHING:
        return False
    return not any(
        what == other_what and (writes or other_writes) for what, writes in one for other_what, other_writes in other
    )


def around(schedule: Schedule) -> Iterator[Schedule]:
    """The schedules of which one switch is one point earlier or later."""
    first, switches = schedule
    for place, (run, count, target) in enumerate(switches):
        for moved in (count - 1, count + 1):
            yield first, (*switches[:place], (run, moved, target), *switches[place + 1 :])


class Known:
    """The interleavings that were tried, or are the same as one that was."""

    def __init__(self) -> None:
        self._traces: dict[Schedule, Trace] = {}

    def add(self, schedule: Schedule, trace: Trace) -> None:
        """Remember an interleaving."""
        self._traces[schedule] = trace

    def predict(self, schedule: Schedule) -> Trace | None:
        """The trace of an interleaving that need not be tried, as it is the same as a known one."""
        for trace in self._neighbours(schedule):
            order = _simulated(schedule, trace.lengths)
            if order is not None and _same(trace.order, order, trace.prints):
                return replace(trace, order=order)
        return None

    def _neighbours(self, schedule: Schedule) -> Iterator[Trace]:
        for near in around(schedule):
            for candidate in _tidy(*near):
                trace = self._traces.get(candidate)
                if trace is not None:
                    yield trace


def _tidy(first: int, switches: tuple[Switch, ...]) -> Iterator[Schedule]:
    """The schedule itself, and without a stretch in it that is empty or that ends with its run."""
    yield first, switches
    begun: dict[int, int] = {}
    current = first
    for place, (run, count, target) in enumerate(switches):
        if count == begun.get(run, 0) and run == current:
            yield from _without_stretch(first, switches, place)
        begun[run], current = count, target
    for place in range(len(switches)):  # it hands over at its end anyway
        yield first, switches[:place] + switches[place + 1 :]


def _without_stretch(first: int, switches: tuple[Switch, ...], place: int) -> Iterator[Schedule]:
    target = switches[place][2]
    if place == 0:
        yield target, switches[1:]
        return
    run, count, _ = switches[place - 1]
    before, after = switches[: place - 1], switches[place + 1 :]
    yield first, before + after if target == run else (*before, (run, count, target), *after)


def _simulated(schedule: Schedule, lengths: Mapping[int, int]) -> tuple[Segment, ...] | None:
    """The segments in the order of the schedule, or None if a switch of it is not reached."""
    current, switches = schedule
    done = dict.fromkeys(sorted(lengths), 0)
    order: list[Segment] = []
    pending = list(switches)
    while True:
        if done[current] < lengths[current]:
            order.append((current, done[current]))
            done[current] += 1
        if pending and pending[0][:2] == (current, done[current]):
            current = pending.pop(0)[2]
            if current not in done or done[current] == lengths[current]:
                return None
        elif done[current] == lengths[current]:
            waiting = [run for run in done if done[run] < lengths[run]]
            if not waiting:
                return None if pending else tuple(order)
            current = next((run for run in waiting if run > current), waiting[0])


def _same(old: Sequence[Segment], new: Sequence[Segment], prints: Mapping[Segment, Footprint]) -> bool:
    """Whether the one order arises from the other by moving a segment past others that it commutes with."""
    if old == new:
        return True
    low = next(place for place, pair in enumerate(zip(old, new, strict=True)) if pair[0] != pair[1])
    high = len(old) - next(
        n for n, pair in enumerate(zip(reversed(old), reversed(new), strict=True)) if pair[0] != pair[1]
    )
    here, there = tuple(old[low:high]), tuple(new[low:high])
    if there == (*here[1:], here[0]):
        moved, others = here[0], here[1:]
    elif there == (here[-1], *here[:-1]):
        moved, others = here[-1], here[:-1]
    else:
        return False
    return all(commute(prints[moved], prints[other]) for other in others)
