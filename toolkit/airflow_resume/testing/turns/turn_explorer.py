"""Explores the interleavings of several runs, and collects what was found.

Theory of operation. The runs live in threads and hand over at points (`turn_taking`), so an interleaving is defined by
its switches: at which point which run continues. Interleavings without a switch are tried first, then those with one,
two, ...; each that was tried shows where the next switch can be. An interleaving that must end like one that was tried
before is left out (`commuting`). Smaller ones come first, so the first finding is the smallest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from airflow_resume.testing.crashes.crash_world import CrashWorld
from airflow_resume.testing.crashes.explorer import MAKE_ALIKE, ask
from airflow_resume.testing.crashes.fault_plans import thinned
from airflow_resume.testing.crashes.mistakes import check_all_is_watched, check_oracles_judge, new_world, oracles_of
from airflow_resume.testing.crashes.outcome import ExplorationOutcome, late_crashes_ignored
from airflow_resume.testing.crashes.point_listing import Steps, draw
from airflow_resume.testing.crashes.shared_state import SharedStateCheck
from airflow_resume.testing.errors import (
    CleanRunError,
    DeadlockError,
    ExplorerError,
    InterleavingFoundError,
    NeverFiredError,
    NeverSucceededError,
    NotDeterministicError,
    NothingTriedError,
    TooManyPointsError,
)
from airflow_resume.testing.points import IN_PROCESS, CrashKind, Point, PointRules
from airflow_resume.testing.turns.commuting import Schedule, Trace, TriedSchedules, around, traced
from airflow_resume.testing.turns.participants import Participants
from airflow_resume.testing.turns.turn_report import InterleavingFinding, InterleavingReport
from airflow_resume.testing.turns.turn_taking import TurnTaking

W = TypeVar("W", bound=CrashWorld)
MIN_RUNS = 2


@dataclass(frozen=True, kw_only=True)
class _Explored(Generic[W]):
    """An interleaving that was tried, or that must end like one that was."""

    schedule: Schedule
    steps: Steps
    trace: Trace


@dataclass(frozen=True, kw_only=True)
class _Candidate(Generic[W]):
    """An interleaving that extends another one by one more switch."""

    schedule: Schedule
    steps: Steps
    parent: _Explored[W]


@dataclass(frozen=True, kw_only=True)
class _Result(Generic[W]):
    """What came of one interleaving."""

    outcome: ExplorationOutcome[W] | None
    trace: Trace
    passed_by: list[int]
    error: AssertionError | None = None


class TurnExplorer(Generic[W]):
    """The interleavings of some runs."""

    def __init__(
        self,
        participants: Participants[W],
        make_world: Callable[[], W],
        oracle: Callable[[Any], object] | Sequence[Callable[[Any], object]],
        max_points: int,
        *,
        find_all: bool,
        prune: bool,
        watchdog: float,
    ) -> None:
        self._runs = participants
        self._make_world = make_world
        self._oracles = oracles_of(oracle)
        self._max_points = max_points
        self._find_all = find_all
        self._prune = prune
        self._watchdog = watchdog
        self._known = TriedSchedules()
        self._findings: list[InterleavingFinding] = []
        self._clean_outcome: ExplorationOutcome[W] | None = None
        with late_crashes_ignored():
            self._clean = self._run_clean()

    @late_crashes_ignored()
    def explore_one(self, steps: dict[int, str]) -> InterleavingReport:
        """Try one interleaving."""
        self._try_and_record(self._runs.begun(steps), None)
        return InterleavingReport(points=self._points, interleavings=1, findings=self._findings)

    @late_crashes_ignored()
    def explore_all(
        self, switches: int, kinds: Sequence[CrashKind], *, max_ways: int, max_pairs: int
    ) -> InterleavingReport:
        """Try all interleavings, those with fewer switches first, and then those with a crash."""
        if switches < 1 or max_ways < 1 or (kinds and max_pairs < 1):
            raise NothingTriedError(
                "Nothing would be tried.\nswitches, max_ways and (with kinds) max_pairs must be at least 1."
            )
        level = list(self._starts())
        every = [*level]
        interleavings = len(level) if self._runs.ends_without_a_switch else 0
        pruned = left_out = 0
        for _ in range(switches):
            candidates = [one for explored in level for one in self._switches(explored)]
            chosen = thinned(candidates, max_ways) if candidates else []
            interleavings, left_out = interleavings + len(candidates), left_out + len(candidates) - len(chosen)
            tried, predicted = self._explore_level(chosen)
            pruned += len(predicted)
            every += [explored for explored in tried if not explored.trace.is_wrong]
            level = [explored for explored in (*tried, *predicted) if not explored.trace.is_wrong]
            level.sort(key=lambda explored: list(explored.steps))  # the smallest first
        crashed, crashed_left_out = self._explore_crashes(every, switches, kinds, max_pairs) if kinds else (0, 0)
        return InterleavingReport(
            points=self._points,
            interleavings=interleavings,
            pruned=pruned,
            left_out=left_out,
            crashed=crashed,
            crashed_left_out=crashed_left_out,
            findings=self._findings,
        )

    @property
    def _points(self) -> list[Point]:
        points = (self._clean.ends[segment] for segment in self._clean.order)
        return [point for point in points if point.source != "end"]

    # --- without a switch ---------------------------------------------------------------------------------------

    def _run_clean(self) -> Trace:
        if self._runs.count < MIN_RUNS:
            raise NothingTriedError("Runs take turns, and there are fewer than two.\nPass two or more.")
        if not self._oracles:
            raise NothingTriedError("There is no oracle, so nothing would be judged.\nPass at least one.")
        check_oracles_judge(self._oracles)
        worlds = [new_world(self._make_world)]
        shared = SharedStateCheck(worlds[0], self._oracles)
        first = self._try({}, worlds[0])
        worlds.append(new_world(self._make_world))
        shared.check_worlds(worlds[1])
        second = self._try({}, worlds[1])
        self._compare(second.trace, first.trace, len(first.trace.order))
        check_all_is_watched(worlds[0].points)
        for run in self._runs.starts:
            if first.passed_by.count(run) == 1:  # that is its end
                raise NothingTriedError(
                    f"{self._runs.name(run)} passes no point, so no other run can take its turn in between.\nWatch its"
                    f" store (`world.watch`, or an attribute of the world), or register what it does with"
                    f" `world.effect`."
                )
        if first.error is not None:
            raise CleanRunError(f"One after the other: {first.error}") from first.error
        shared.check(worlds[1], lambda: self._judge(first.outcome))
        self._clean_outcome = first.outcome
        return first.trace

    def _starts(self) -> Iterator[_Explored[W]]:
        """The runs one after the other, with each of them first once."""
        for first in self._runs.starts:
            steps = self._runs.begun({0: self._runs.name(first)} if self._runs.ends_without_a_switch else {})
            trace = self._try_and_record(steps, None) if first else self._clean
            if self._runs.ends_without_a_switch:  # without a freeze there is no successor, so it equals none
                self._known.add((first, ()), trace)
            if not trace.is_wrong:
                yield _Explored(schedule=(first, ()), steps=steps, trace=trace)

    # --- with one more switch --------------------------------------------------------------------------------

    def _switches(self, explored: _Explored[W]) -> Iterator[_Candidate[W]]:
        """The interleavings with one more switch: at any point after the last step."""
        order, ends = explored.trace.order, explored.trace.ends
        first, switches = explored.schedule
        for place in _befores_first(explored.trace, max(explored.steps, default=0)):
            run, index = order[place]
            if not self._runs.ends_without_a_switch and run == 1 and not switches:
                continue
            ended = {segment[0] for segment in order[: place + 1] if ends[segment].source == "end"}
            others = [other for other in range(self._runs.count) if other != run and other not in ended]
            if run in ended and len(others) == 1:
                continue  # that run continues without a switch as well
            for other in others:
                steps = {**explored.steps, place + 1: self._runs.action(run, other)}
                yield _Candidate(schedule=(first, (*switches, (run, index + 1, other))), steps=steps, parent=explored)

    def _explore_level(self, candidates: Sequence[_Candidate[W]]) -> tuple[list[_Explored[W]], list[_Explored[W]]]:
        """The interleavings that were tried, and those that need not be because they must end like another one."""
        pending = {one.schedule: one for one in candidates}
        tried: list[_Explored[W]] = []
        predicted = self._predicted(pending, list(pending))
        while pending:
            one = pending.pop(next(iter(pending)))
            trace = self._try_and_record(one.steps, one.parent.trace)
            tried.append(self._add(one, trace))
            predicted += self._predicted(pending, around(one.schedule))
        return tried, predicted

    def _predicted(self, pending: dict[Schedule, _Candidate[W]], schedules: Iterable[Schedule]) -> list[_Explored[W]]:
        """Take out those that equal a known one. Each that does is known from then on, and may equal others."""
        found: list[_Explored[W]] = []
        waiting = deque(schedules if self._prune else ())
        while waiting:
            schedule = waiting.popleft()
            trace = self._known.predict(schedule) if schedule in pending else None
            if trace is not None:
                found.append(self._add(pending.pop(schedule), trace))
                waiting += around(schedule)
        return found

    def _add(self, one: _Candidate[W], trace: Trace) -> _Explored[W]:
        self._known.add(one.schedule, trace)
        return _Explored(schedule=one.schedule, steps=one.steps, trace=trace)

    def _explore_crashes(
        self, every: Sequence[_Explored[W]], switches: int, kinds: Sequence[CrashKind], max_pairs: int
    ) -> tuple[int, int]:
        """Crash at each point after the last switch; while switches are left, also switch once more after the crash."""
        crashes: list[tuple[Steps, _Explored[W]]] = []
        for explored in every:
            if not (explored.schedule[1] or self._runs.ends_without_a_switch):
                continue
            last = max(explored.steps, default=0)
            for number, segment in enumerate(explored.trace.order[last:], start=last + 1):
                point = explored.trace.ends[segment]
                crashes += [
                    ({**explored.steps, number: kind}, explored)
                    for kind in kinds
                    if point.source != "end" and point.allows(kind)
                ]
        chosen = thinned(crashes, max_pairs) if crashes else []
        further: list[tuple[Steps, _Explored[W]]] = []
        for steps, explored in chosen:
            trace = self._try_and_record(steps, explored.trace)
            if not trace.is_wrong and len(explored.schedule[1]) < switches:
                crashed: _Explored[W] = _Explored(schedule=explored.schedule, steps=steps, trace=trace)
                further += [(one.steps, crashed) for one in self._switches(crashed)]
        chosen_further = thinned(further, max_pairs) if further else []
        for steps, explored in chosen_further:
            self._try_and_record(steps, explored.trace)
        tried = len(chosen) + len(chosen_further)
        return tried, len(crashes) + len(further) - tried

    # --- one ----------------------------------------------------------------------------------------------------

    def _try_and_record(self, steps: Steps, parent: Trace | None) -> Trace:
        """Try an interleaving in a fresh world, record a finding if it ends wrongly, and return its trace."""
        played = self._try(steps, new_world(self._make_world))
        if parent is not None:
            self._compare(played.trace, parent, max(steps))
        if played.error is None:
            return played.trace
        points = [played.trace.ends[segment] for segment in played.trace.order]
        finding = InterleavingFinding(
            call=self._runs.call,
            steps=dict(steps),
            problem=str(played.error).strip() or "the oracle said no",
            points=points,
            drawn=self._drawn(points, played.passed_by, steps),
        )
        if not self._find_all:
            raise InterleavingFoundError(str(finding)) from played.error
        self._findings.append(finding)
        return replace(played.trace, is_wrong=True)

    def _drawn(self, points: list[Point], passed_by: Sequence[int], steps: Steps) -> str:
        def heading(point: Point) -> str:
            return self._runs.heading(point, passed_by[point.number - 1])

        happened = {number: what for number, what in steps.items() if number}
        ends = [point.number for point in points if point.source == "end"]
        return draw(points, happened, heading=heading, near=ends)

    def _try(self, steps: Steps, world: W) -> _Result[W]:
        """Run an interleaving in this world, and ask the oracles."""
        points = world.points
        points.rules = PointRules(
            armed={number: what for number, what in steps.items() if what in IN_PROCESS},
            sees_reads=True,
            limit=self._max_points * 8,
        )
        chosen = {number: self._runs.target(what) for number, what in steps.items() if what not in IN_PROCESS}
        turns: TurnTaking = TurnTaking(
            points,
            self._runs.calls(world, lambda: turns),
            chosen,
            name=self._runs.name,
            watchdog=self._watchdog,
        )
        error: AssertionError | None = None
        outcome = None
        try:
            results = turns.run_all()
            points.close()
            if points.overrun or (self._clean_outcome is None and len(points.passed) > self._max_points):
                raise TooManyPointsError(
                    f"More than {self._max_points} points were passed.\nTry less at once, or raise max_points."
                )
            outcome = self._runs.outcome(world, results, self._clean_outcome)
            self._check_fired(world, turns, steps)
            self._judge(outcome)
        except DeadlockError as stuck:
            raise DeadlockError(f"{stuck}\n{self._drawn(points.passed, turns.passed_by, steps)}") from None
        except NeverSucceededError as never:
            self._check_fired(world, turns, steps)
            error = never
        except ExplorerError:
            raise
        except AssertionError as refused:
            error = refused
        trace = traced(points.passed, turns.passed_by, turns.begun, followed=points.read_mark is not None)
        return _Result(outcome=outcome, trace=trace, passed_by=turns.passed_by, error=error)

    def _judge(self, outcome: ExplorationOutcome[W] | None) -> None:
        if outcome is not None:
            for oracle in self._oracles:
                ask(oracle, outcome)

    def _check_fired(self, world: W, turns: TurnTaking, steps: Steps) -> None:
        if missing := steps.keys() - turns.fired - world.points.fired.keys():
            raise NeverFiredError(
                f"Nothing could happen at point {min(missing)}; the way has {len(world.points.passed)} points.\n"
                f"{self._drawn(world.points.passed, turns.passed_by, steps)}"
            )

    def _compare(self, trace: Trace, parent: Trace, upto: int) -> None:
        """Up to its last step an interleaving must pass the same points as the one that it extends."""
        new, old = trace.texts(upto), parent.texts(upto)
        for number, (one, other) in enumerate(zip(old, new, strict=False), start=1):
            if one != other:
                raise NotDeterministicError(
                    f"Two runs that should be alike differ at point {number}: first {one[1]!r} of"
                    f" {self._runs.name(one[0])}, then {other[1]!r} of {self._runs.name(other[0])}.\n{MAKE_ALIKE}"
                )
        if len(new) != len(old) or (upto == len(parent.order) and len(trace.order) != upto):
            raise NotDeterministicError(
                f"Of two runs that should be alike one ends after {len(new)} points, and the other after {len(old)}.\n"
                f"{MAKE_ALIKE}"
            )


def _befores_first(trace: Trace, start: int) -> Iterator[int]:
    """The places of a trace from `start` on. Where "after X" and the next "before Y" are equal, "before" is first."""
    points = [trace.ends[segment] for segment in trace.order]
    runs = [segment[0] for segment in trace.order]
    place = start
    while place < len(points):
        following = place + 1
        if (
            following < len(points)
            and runs[place] == runs[following]
            and (points[place].phase, points[following].phase) == ("after", "before")
        ):
            yield following
            yield place
            place += 2
        else:
            yield place
            place += 1
