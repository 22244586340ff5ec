"""All the ways in which some runs can take turns, and what was found on them.

Theory of operation. The runs live in threads and hand over at points (`relay`), so an interleaving is its switches:
at which point which run goes on. First those without a switch are gone, then with one, two, ...; each that was gone
says where the next switch can be. What must end as one that was gone before is left out (`commuting`). Smaller ones
come first, so what is found first is the smallest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

from airflow_resume.testing.commuting import Known, Schedule, Trace, around, traced
from airflow_resume.testing.crash_world import CrashWorld
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
from airflow_resume.testing.explorer import ask
from airflow_resume.testing.outcome import Outcome, last_words_ignored
from airflow_resume.testing.points import IN_PROCESS, CrashKind, Point
from airflow_resume.testing.relay import Relay
from airflow_resume.testing.trace import Steps, draw
from airflow_resume.testing.ways import thinned

W = TypeVar("W", bound=CrashWorld)
A_RUN_AND_ANOTHER = 2


class Play(Protocol[W]):
    """What takes turns: `airflow_resume.testing.interleaving` has two."""

    count: int
    """Of runs."""
    starts: Sequence[int]
    """The runs that may be first."""
    ends_without_a_switch: bool
    """Whether the runs one after the other are an interleaving, too."""
    call: str
    """How it is called, for the replay."""
    actions: Sequence[str]
    """The names of switches."""

    def name(self, run: int) -> str:
        """Of a run."""
        ...

    def action(self, run: int, target: int, /) -> str:
        """The name of the switch from a run to another one."""
        ...

    def target(self, action: str) -> int:
        """Which run goes on."""
        ...

    def begun(self, steps: Steps) -> dict[int, str]:
        """The steps, with the first run named where that is a choice."""
        ...

    def heading(self, point: Point, run: int, /) -> str:
        """Of the points of one attempt."""
        ...

    def calls(self, world: W, relay: Callable[[], Relay], /) -> list[Callable[[], Any]]:
        """The runs."""
        ...

    def outcome(self, world: W, results: list[Any], clean: Outcome[W] | None) -> Outcome[W]:
        """What the oracle judges."""
        ...


@dataclass(frozen=True, kw_only=True)
class Finding:
    """An interleaving that ends wrongly.

    Args:
        steps: what happened at which point.
        problem: what the oracle said, or how a run failed.
        points: that were passed, by all runs.
    """

    call: str
    steps: Steps
    problem: str
    points: list[Point] = field(repr=False)
    drawn: str = field(repr=False)

    @property
    def only(self) -> str:
        """The interleaving, as `only=` takes it."""
        return ",".join(f"{number}:{what}" for number, what in self.steps.items())

    @property
    def replay(self) -> str:
        """One line that goes this way alone, with the same arguments otherwise."""
        return f'{self.call}, ..., only="{self.only}")'

    @property
    def where(self) -> list[str]:
        """The points at which something happened, such as `["before submit"]`."""
        return [str(self.points[number - 1]) for number in self.steps if number]

    def __str__(self) -> str:
        said = " and ".join(
            f"{what} at point {number} ({self.points[number - 1]})" if number else f"{what} first"
            for number, what in self.steps.items()
        )
        return f"{said}: {self.problem}\n{self.drawn}\nreplay: {self.replay}"


@dataclass(frozen=True, kw_only=True)
class Report:
    """What was tried, and what was found.

    Args:
        points: of the runs one after the other.
        interleavings: how many there are without a crash; `pruned` of them must end as one that was tried, and
            `left_out` were more than `max_ways`.
        crashed: how many were tried with a crash in them; `crashed_left_out`: more than `max_pairs`.
    """

    points: list[Point] = field(repr=False)
    interleavings: int = 0
    pruned: int = 0
    left_out: int = 0
    crashed: int = 0
    crashed_left_out: int = 0
    findings: list[Finding] = field(default_factory=list)

    @property
    def tried(self) -> int:
        """How many were gone, those with a crash included."""
        return self.interleavings - self.pruned - self.left_out + self.crashed

    def __str__(self) -> str:
        left_out = f", {self.left_out} left out" if self.left_out else ""
        crashed_left_out = f" ({self.crashed_left_out} more left out)" if self.crashed_left_out else ""
        crashed = f"; {self.crashed} tried with a crash{crashed_left_out}" if self.crashed else ""
        tried = f"{self.interleavings} interleavings, {self.pruned} of them pruned{left_out}{crashed}"
        return "\n\n".join(
            [f"{len(self.points)} points, {tried}: {len(self.findings)} findings", *map(str, self.findings)]
        )


@dataclass(frozen=True, kw_only=True)
class _Gone(Generic[W]):
    """An interleaving that was gone, or must end as one that was."""

    schedule: Schedule
    steps: Steps
    trace: Trace


@dataclass(frozen=True, kw_only=True)
class _Candidate(Generic[W]):
    """An interleaving that goes on from another one with one more switch."""

    schedule: Schedule
    steps: Steps
    parent: _Gone[W]


@dataclass(frozen=True, kw_only=True)
class _Played(Generic[W]):
    outcome: Outcome[W] | None
    trace: Trace
    passed_by: list[int]
    error: AssertionError | None = None


class TurnExplorer(Generic[W]):
    """The interleavings of some runs."""

    def __init__(
        self,
        play: Play[W],
        make_world: Callable[[], W],
        oracle: Callable[[Any], object] | Sequence[Callable[[Any], object]],
        max_points: int,
        *,
        find_all: bool,
        prune: bool,
        watchdog: float,
    ) -> None:
        self._play = play
        self._make_world = make_world
        self._oracles = (oracle,) if callable(oracle) else tuple(oracle)
        self._max_points = max_points
        self._find_all = find_all
        self._prune = prune
        self._watchdog = watchdog
        self._known = Known()
        self._findings: list[Finding] = []
        self._clean_outcome: Outcome[W] | None = None
        with last_words_ignored():
            self._clean = self._run_clean()

    def go_one(self, steps: dict[int, str]) -> Report:
        """Go one way."""
        with last_words_ignored():
            self._go(self._play.begun(steps), None)
        return Report(points=self._points, interleavings=1, findings=self._findings)

    def go_all(self, switches: int, kinds: Sequence[CrashKind], *, max_ways: int, max_pairs: int) -> Report:
        """Go every way, those with fewer switches first, and then those with a crash."""
        with last_words_ignored():
            return self._go_all(switches, kinds, max_ways=max_ways, max_pairs=max_pairs)

    def _go_all(self, switches: int, kinds: Sequence[CrashKind], *, max_ways: int, max_pairs: int) -> Report:
        if switches < 1 or max_ways < 1 or (kinds and max_pairs < 1):
            raise NothingTriedError(
                "Nothing would be tried.\nswitches, max_ways and (with kinds) max_pairs must be 1 at least."
            )
        level = list(self._starts())
        every = [*level]
        interleavings = len(level) if self._play.ends_without_a_switch else 0
        pruned = left_out = 0
        for _ in range(switches):
            candidates = [one for gone in level for one in self._switches(gone)]
            chosen = thinned(candidates, max_ways) if candidates else []
            interleavings, left_out = interleavings + len(candidates), left_out + len(candidates) - len(chosen)
            tried, predicted = self._go_level(chosen)
            pruned += len(predicted)
            every += [gone for gone in tried if not gone.trace.is_wrong]
            level = [gone for gone in (*tried, *predicted) if not gone.trace.is_wrong]
            level.sort(key=_smallest_first)
        crashed, crashed_left_out = self._go_crashes(every, switches, kinds, max_pairs) if kinds else (0, 0)
        return Report(
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
        if self._play.count < A_RUN_AND_ANOTHER:
            raise NothingTriedError("There are no two runs that could take turns.\nPass two or more.")
        if not self._oracles:
            raise NothingTriedError("There is no oracle, so nothing would be judged.\nPass at least one.")
        first, second = self._try({}), self._try({})
        self._compare(second.trace, first.trace, len(first.trace.order))
        for run in self._play.starts:
            if first.passed_by.count(run) == 1:  # that is its end
                raise NothingTriedError(
                    f"{self._play.name(run)} passes no point, so nothing can come in between.\nWatch its store"
                    f" (`world.watch`, or an attribute of the world), or register what it does with `world.effect`."
                )
        if first.error is not None:
            raise CleanRunError(f"One after the other: {first.error}") from first.error
        self._clean_outcome = first.outcome
        return first.trace

    def _starts(self) -> Iterator[_Gone[W]]:
        """The runs one after the other, each of them first once."""
        for first in self._play.starts:
            steps = self._play.begun({0: self._play.name(first)} if self._play.ends_without_a_switch else {})
            trace = self._go(steps, None) if first else self._clean
            if self._play.ends_without_a_switch:  # without a freeze there is no successor: that is like no other way
                self._known.add((first, ()), trace)
            if not trace.is_wrong:
                yield _Gone(schedule=(first, ()), steps=steps, trace=trace)

    # --- with one more ------------------------------------------------------------------------------------------

    def _switches(self, gone: _Gone[W]) -> Iterator[_Candidate[W]]:
        """Where another run can go on: after the last step of a way, at any point."""
        order, ends = gone.trace.order, gone.trace.ends
        first, switches = gone.schedule
        for place in _befores_first(gone.trace, max(gone.steps, default=0)):
            run, index = order[place]
            if not self._play.ends_without_a_switch and run == 1 and not switches:
                continue
            ended = {segment[0] for segment in order[: place + 1] if ends[segment].source == "end"}
            others = [other for other in range(self._play.count) if other != run and other not in ended]
            if run in ended and len(others) == 1:
                continue  # it goes on anyway
            for other in others:
                steps = _with(gone.steps, place + 1, self._play.action(run, other))
                yield _Candidate(schedule=(first, (*switches, (run, index + 1, other))), steps=steps, parent=gone)

    def _go_level(self, candidates: Sequence[_Candidate[W]]) -> tuple[list[_Gone[W]], list[_Gone[W]]]:
        """Those that were tried, and those that need not be, as they must end as another one."""
        pending = {one.schedule: one for one in candidates}
        tried: list[_Gone[W]] = []
        predicted = self._predicted(pending, list(pending))
        while pending:
            one = pending.pop(next(iter(pending)))
            trace = self._go(one.steps, one.parent.trace)
            tried.append(self._add(one, trace))
            predicted += self._predicted(pending, around(one.schedule))
        return tried, predicted

    def _predicted(self, pending: dict[Schedule, _Candidate[W]], schedules: Iterable[Schedule]) -> list[_Gone[W]]:
        """Take those out that are the same as a known one; each that is makes others known."""
        found: list[_Gone[W]] = []
        waiting = deque(schedules if self._prune else ())
        while waiting:
            schedule = waiting.popleft()
            trace = self._known.predict(schedule) if schedule in pending else None
            if trace is not None:
                found.append(self._add(pending.pop(schedule), trace))
                waiting += around(schedule)
        return found

    def _add(self, one: _Candidate[W], trace: Trace) -> _Gone[W]:
        self._known.add(one.schedule, trace)
        return _Gone(schedule=one.schedule, steps=one.steps, trace=trace)

    def _go_crashes(
        self, every: Sequence[_Gone[W]], switches: int, kinds: Sequence[CrashKind], max_pairs: int
    ) -> tuple[int, int]:
        """Crash at each point after the last switch; and, while switches are left, switch once more after that."""
        crashes: list[tuple[Steps, _Gone[W]]] = [
            (_with(gone.steps, number, kind), gone)
            for gone in every
            if gone.schedule[1] or self._play.ends_without_a_switch
            for number, kind in _crashes(gone, kinds)
        ]
        chosen = thinned(crashes, max_pairs) if crashes else []
        further: list[tuple[Steps, _Gone[W]]] = []
        for steps, gone in chosen:
            trace = self._go(steps, gone.trace)
            if not trace.is_wrong and len(gone.schedule[1]) < switches:
                crashed: _Gone[W] = _Gone(schedule=gone.schedule, steps=steps, trace=trace)
                further += [(one.steps, crashed) for one in self._switches(crashed)]
        chosen_further = thinned(further, max_pairs) if further else []
        for steps, gone in chosen_further:
            self._go(steps, gone.trace)
        tried = len(chosen) + len(chosen_further)
        return tried, len(crashes) + len(further) - tried

    # --- one ----------------------------------------------------------------------------------------------------

    def _go(self, steps: Steps, parent: Trace | None) -> Trace:
        """Go a way, and return its trace."""
        played = self._try(steps)
        if parent is not None:
            self._compare(played.trace, parent, max(steps))
        if played.error is None:
            return played.trace
        finding = self._finding(steps, played, str(played.error).strip() or "the oracle said no")
        if not self._find_all:
            raise InterleavingFoundError(str(finding)) from played.error
        self._findings.append(finding)
        return replace(played.trace, is_wrong=True)

    def _finding(self, steps: Steps, played: _Played[W], problem: str) -> Finding:
        points = [played.trace.ends[segment] for segment in played.trace.order]
        return Finding(
            call=self._play.call,
            steps=dict(steps),
            problem=problem,
            points=points,
            drawn=self._drawn(points, played.passed_by, steps),
        )

    def _drawn(self, points: list[Point], passed_by: Sequence[int], steps: Steps) -> str:
        def heading(point: Point) -> str:
            return self._play.heading(point, passed_by[point.number - 1])

        happened = {number: what for number, what in steps.items() if number}
        ends = [point.number for point in points if point.source == "end"]
        return draw(points, happened, heading=heading, near=ends)

    def _try(self, steps: Steps) -> _Played[W]:
        """Go a way in a fresh world, and ask the oracle."""
        world = self._make_world()
        points = world.points
        points.sees_reads = True
        points.armed = {number: what for number, what in steps.items() if what in IN_PROCESS}
        points.limit = self._max_points * 8
        chosen = {number: self._play.target(what) for number, what in steps.items() if what not in IN_PROCESS}
        relay: Relay = Relay(
            points,
            self._play.calls(world, lambda: relay),
            chosen,
            name=self._play.name,
            watchdog=self._watchdog,
        )
        error: AssertionError | None = None
        outcome = None
        try:
            results = relay.race()
            points.close()
            self._check_limit(world)
            outcome = self._play.outcome(world, results, self._clean_outcome)
            self._check_fired(world, relay, steps)
            for oracle in self._oracles:
                ask(oracle, outcome)
        except DeadlockError as stuck:
            raise DeadlockError(f"{stuck}\n{self._drawn(points.passed, relay.passed_by, steps)}") from None
        except NeverSucceededError as never:
            self._check_fired(world, relay, steps)
            error = never
        except ExplorerError:
            raise
        except AssertionError as refused:
            error = refused
        trace = traced(points.passed, relay.passed_by, relay.begun, followed=points.read_mark is not None)
        return _Played(outcome=outcome, trace=trace, passed_by=relay.passed_by, error=error)

    def _check_limit(self, world: W) -> None:
        if world.points.overrun or (self._clean_outcome is None and len(world.points.passed) > self._max_points):
            raise TooManyPointsError(
                f"More than {self._max_points} points were passed.\nTry less at once, or raise max_points."
            )

    def _check_fired(self, world: W, relay: Relay, steps: Steps) -> None:
        if missing := steps.keys() - relay.fired - world.points.fired.keys():
            raise NeverFiredError(
                f"Nothing could happen at point {min(missing)}; the way has {len(world.points.passed)} points.\n"
                f"{self._drawn(world.points.passed, relay.passed_by, steps)}"
            )

    def _compare(self, trace: Trace, parent: Trace, upto: int) -> None:
        """Up to its last step a way passes the points of the one that it goes on from."""
        new, old = trace.texts(upto), parent.texts(upto)
        for number, (one, other) in enumerate(zip(old, new, strict=False), start=1):
            if one != other:
                raise NotDeterministicError(
                    f"Two runs part at point {number}: first {one[1]!r} of {self._play.name(one[0])}, then {other[1]!r}"
                    f" of {self._play.name(other[0])}."
                )
        if len(new) != len(old) or (upto == len(parent.order) and len(trace.order) != upto):
            raise NotDeterministicError(f"One run ends after {len(new)} points, another one after {len(old)}.")


def _smallest_first(gone: _Gone[Any]) -> list[int]:
    return list(gone.steps)


def _with(steps: Steps, number: int, what: str) -> Steps:
    return {**steps, number: what}


def _befores_first(trace: Trace, start: int) -> Iterator[int]:
    """The places of a trace from `start` on; of two that are the same, "before" the next call is said first."""
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


def _crashes(gone: _Gone[W], kinds: Sequence[CrashKind]) -> Iterator[tuple[int, CrashKind]]:
    last = max(gone.steps, default=0)
    for place, segment in enumerate(gone.trace.order[last:], start=last):
        point = gone.trace.ends[segment]
        for kind in kinds:
            if point.source != "end" and point.allows(kind):
                yield place + 1, kind
