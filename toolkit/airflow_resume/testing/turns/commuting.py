"""Finds interleavings that differ only in the order of segments that commute, so that one of them is tried.

Theory of operation. The points of a run divide it into *segments*: the first one ends at its first point, and the last
one at its end. Only segments have effects, and a segment touches what its footprint says:

- from "before X" on, X: the key of a store (read or written), or the outside world;
- from "after X" on, nothing: a run reaches what it shares with others only through calls that are points. Inside an
  effect (`with world.effect(...)`): the outside world, until the effect ends;
- a new attempt of a task: its task instance, and everything if it replaces another attempt.

Two neighbouring segments of different runs can be exchanged if their footprints share nothing that either of them
writes: each reads what it read before, so it does the same and passes the same next point, and the result is the same.
All orders that arise from each other in this way end alike, and one of them is tried (Mazurkiewicz traces,
partial-order reduction). So a switch right after a call equals one right before the next call of that run, and a
switch before a call equals one after it if the segments in between touch nothing that the call touches.

Whatever else an oracle can see keeps its order, too: effects are never exchanged with effects or with calls of a job
system. With a mark that is read after each store call (`follow`), no call is exchanged with another.

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
from airflow_resume.testing.turns.turn_taking import AttemptStart

Segment: TypeAlias = "tuple[int, int]"
"""A run, and how many points it had passed before the segment."""
Switch: TypeAlias = "tuple[int, int, int]"
"""A run, the number of its point at which it stops, and the run that continues."""
Schedule: TypeAlias = "tuple[int, tuple[Switch, ...]]"
Footprint: TypeAlias = "frozenset[tuple[str, bool]]"
"""What a segment touches, and whether it writes that."""

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
    """Whether it ended wrongly."""

    @cached_property
    def lengths(self) -> Mapping[int, int]:
        """The number of segments of each run."""
        return Counter(run for run, _ in self.order)

    def texts(self, count: int) -> list[tuple[int, str]]:
        """The first points as text, to compare two runs."""
        return [(segment[0], str(self.ends[segment])) for segment in self.order[:count]]


def traced(
    points: Sequence[Point], passed_by: Sequence[int], begun: Sequence[AttemptStart], *, followed: bool
) -> Trace:
    """The trace of an interleaving that was tried."""
    made: dict[int, list[AttemptStart]] = {}
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
        stack = open_calls[run]
        # A store call has ended at the next point at the latest; an effect may contain others.
        while stack and (stack[-1].source != "effect" or stack[-1].attempt != point.attempt):
            stack.pop()
        if point.phase == "before":
            stack.append(point)
        elif stack and stack[-1].what == point.what:
            stack.pop()
    return Trace(tuple(order), ends, prints)


def _touched(open_calls: Sequence[Point], begun: Sequence[AttemptStart], *, followed: bool) -> Footprint:
    if any(start.replaces for start in begun) or (followed and open_calls):
        return EVERYTHING
    touched = {(f"instance {start.instance}", True) for start in begun}
    for call in open_calls:
        if call.source != "store":
            touched |= OUTSIDE
            continue
        name, _, key = call.what.partition(" ")
        touched |= EVERYTHING if name == "clear" or key == "." else {(f"key {key}", name != "get")}
    return frozenset(touched)


def commute(one: Footprint, other: Footprint) -> bool:
    """Whether two segments have the same effect in either order."""
    if not one or not other:
        return True
    if one >= EVERYTHING or other >= EVERYTHING:
        return False
    return not any(
        what == other_what and (writes or other_writes) for what, writes in one for other_what, other_writes in other
    )


def around(schedule: Schedule) -> Iterator[Schedule]:
    """The schedules in which one switch is one point earlier or later."""
    first, switches = schedule
    for place, (run, count, target) in enumerate(switches):
        for moved in (count - 1, count + 1):
            yield first, (*switches[:place], (run, moved, target), *switches[place + 1 :])


class TriedSchedules:
    """The interleavings that were tried, or that equal one that was."""

    def __init__(self) -> None:
        self._traces: dict[Schedule, Trace] = {}

    def add(self, schedule: Schedule, trace: Trace) -> None:
        """Remember an interleaving."""
        self._traces[schedule] = trace

    def predict(self, schedule: Schedule) -> Trace | None:
        """The trace of an interleaving that equals a known one, so that it need not be tried; None if there is none."""
        for near in around(schedule):
            for candidate in _tidy(*near):
                trace = self._traces.get(candidate)
                if trace is None:
                    continue
                order = _simulated(schedule, trace.lengths)
                if order is not None and _same(trace.order, order, trace.prints):
                    return replace(trace, order=order)
        return None


def _tidy(first: int, switches: tuple[Switch, ...]) -> Iterator[Schedule]:
    """The schedule, and the schedule without a switch that changes nothing: it stops an empty or an ended segment."""
    yield first, switches
    begun: dict[int, int] = {}
    current = first
    for place, (run, count, target) in enumerate(switches):
        if count == begun.get(run, 0) and run == current:
            yield from _without_stretch(first, switches, place)
        begun[run], current = count, target
    for place in range(len(switches)):  # a run hands over at its end anyway
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
    """The segments in the order of the schedule; None if it has a switch that is never reached."""
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
    """Whether one order arises from the other by moving one segment past others that it commutes with."""
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
