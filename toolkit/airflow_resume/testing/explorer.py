"""`explore_crashes`: crash at every point, try again, ask the oracle.

Theory of operation. Two runs without a crash must pass the same points; these are the moments at which a crash can
happen. For each, a fresh world is made, the crash is armed, and the attempt is tried until it succeeds. The run that
follows a first crash has points of its own, and each of them is where a second crash can happen. Singles come before
pairs and small numbers before large ones, so what is found first is the smallest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from airflow_resume.testing.crash_world import CrashWorld
from airflow_resume.testing.errors import (
    AttemptNotRunError,
    CleanRunError,
    CrashFoundError,
    NeverFiredError,
    NeverSucceededError,
    NotDeterministicError,
    NothingTriedError,
    OracleBrokenError,
    SharedWorldError,
)
from airflow_resume.testing.kinds import ERRORS, Errors, MakeError, is_of, read_errors, read_kinds
from airflow_resume.testing.oracles import Oracle
from airflow_resume.testing.outcome import Outcome, Tries
from airflow_resume.testing.points import IN_PROCESS, Point, Points
from airflow_resume.testing.quiet import quiet
from airflow_resume.testing.slips import (
    check_each_is_tried,
    check_no_points_missing,
    check_something_is_asked,
    why_not_judged,
    why_not_run,
)
from airflow_resume.testing.trace import draw
from airflow_resume.testing.ways import Way, read_way, thinned, ways_at, write_way

W = TypeVar("W", bound=CrashWorld)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A way that ends wrongly.

    Args:
        problem: what the oracle said, or how the attempt failed.
        points: that were passed, those of later attempts included.
    """

    attempt: str
    way: Way
    problem: str
    points: list[Point] = field(repr=False)
    error: CrashFoundError | AssertionError = field(repr=False)

    @property
    def only(self) -> str:
        """The way, as `explore_crashes(..., only=...)` takes it."""
        return write_way(self.way)

    @property
    def replay(self) -> str:
        """One line that goes this way alone, with the same arguments otherwise."""
        return f'explore_crashes({self.attempt}, ..., only="{self.only}")'

    @property
    def where(self) -> list[str]:
        """The points that crashed, such as `["after submit"]`."""
        return [str(self.points[number - 1]) for number in self.way]

    def __str__(self) -> str:
        crashes = " and ".join(f"{kind} at point {number}" for number, kind in self.way.items())
        return (
            f"{crashes} ({', '.join(self.where)}): {self.problem}\n{draw(self.points, self.way)}\nreplay: {self.replay}"
        )


@dataclass(frozen=True, kw_only=True)
class Report:
    """What was tried, and what was found.

    Args:
        points: of the run without a crash.
        ways: how many were gone, of which `pairs` with two crashes; `pairs_left_out`: more than `max_pairs`.
    """

    points: list[Point] = field(repr=False)
    ways: int = 0
    pairs: int = 0
    pairs_left_out: int = 0
    findings: list[Finding] = field(default_factory=list)

    def __str__(self) -> str:
        left_out = f" ({self.pairs_left_out} more left out)" if self.pairs_left_out else ""
        tried = f"{len(self.points)} points, {self.ways} ways tried, {self.pairs} with two crashes{left_out}"
        return "\n\n".join([f"{tried}: {len(self.findings)} findings", *map(str, self.findings)])


def explore_crashes(
    attempt: Callable[[W], Any],
    *,
    oracle: Oracle | Sequence[Oracle],
    world: Callable[[], W] = CrashWorld,  # type: ignore[assignment]
    kinds: Sequence[str] = IN_PROCESS,
    errors: Errors = ERRORS,
    double: bool = True,
    max_points: int = 1_000,
    max_pairs: int = 10_000,
    max_attempts: int = 8,
    retry_on: tuple[type[Exception], ...] = (),
    allowed_to_fail: tuple[type[BaseException], ...] = (),
    only: str | None = None,
    find_all: bool = False,
) -> Report:
    """Crash an attempt at every point, try again until it succeeds, and ask the oracle each time.

    Args:
        attempt: one try of the task. It gets the world, and makes everything else afresh.
        oracle: one or more functions that take the `Outcome` and assert; see `airflow_resume.testing.oracles`.
        world: makes what outlives an attempt, afresh for every way.
        kinds: of what happens. `"crash"`: the attempt ends at the point, and nothing it still tries has an effect.
            `"reply_lost"`: a store call is applied, then raises. `"refused"`: it raises and is not applied.
            `"sigkill"`: each attempt is a forked child, killed for real; then stores and sinks must outlive a process.
            `"raises_after"`: an effect or store call is done, then one of the `errors` comes.
            `"wrong_once"`: an answer of `FakeJobs` or of `world.answer` is wrong, and right when asked again.
            `"recreated"`, `"state_cleared"`, `"restored"`: the attempt dies, and before the next one the Dag run is
            deleted and made again, all task state is cleared, or the database is restored from a backup.
            A variant alone is named as in `only`: `"wrong_once gone"`, `"raises_after KeyError"`.
        errors: that `"raises_after"` raises: classes, functions that make one, errors, or a dict of these by name.
        double: let a second thing happen as well, at every point after the first.
        max_points: of the run without a crash; more are an error.
        max_pairs: of two crashes; if there are more, so many are taken, evenly spread.
        max_attempts: of one way, until it counts as never succeeding.
        retry_on: errors of the attempt after which Airflow's next try is part of the design. Any error other than
            `AirflowFailException` that follows a call made to fail or an answer made wrong is retried anyway.
        allowed_to_fail: errors with which a way may end; then the oracle judges, with `outcome.error`, and without a
            result. The run in which nothing happens must succeed all the same.
        only: go this one way, as a failure names it: `"3:crash"`, `"3:raises_after KeyError,7:refused"`. Everything
            else, `kinds` too, is as it was.
        find_all: put failures in the report instead of raising the first. No second crash is tried after a first
            one that is enough.

    Returns:
        What was tried, and with `find_all` what was found.

    Raises:
        CrashFoundError: a way ends wrongly. It is the smallest; the message has its trace and its replay.
        NeverSucceededError: no attempt of a way succeeds (a `CrashFoundError`); also of the run without a crash.
        CleanRunError: the oracle refuses the run without a crash.
        NotDeterministicError: two runs without a crash pass different points.
        NeverFiredError: an armed point was not reached.
        NothingTriedError: no kinds, no oracle, or no points; a kind that was named can happen nowhere.
        AttemptNotRunError: the attempt is async, or a generator function.
        SharedWorldError: `world` made one that was used before.
        OracleBrokenError: the oracle raised something other than AssertionError, or returned its judgement.
        TooManyPointsError: more than `max_points`.
        InvalidWayError: `only` names no way.
        InvalidKindError: something in `kinds` is no kind, or something in `errors` no error.
    """
    makers = read_errors(errors)
    faults = read_kinds(kinds, makers)
    way = None if only is None else read_way(only, makers)
    oracles = (oracle,) if callable(oracle) else tuple(oracle)
    check_something_is_asked(faults, oracles, max_points=max_points, max_pairs=max_pairs, errors=makers)
    tries = Tries(
        attempt=attempt,
        most=max_attempts,
        retry_on=retry_on,
        forked="sigkill" in (faults if way is None else way.values()),
        allowed_to_fail=allowed_to_fail,
    )
    rules = _Rules({*faults, *(way or {}).values()}, makers, max_points)
    exploration = _Exploration(tries, world, oracles, rules, find_all=find_all)
    if way is not None:
        return exploration.go_one(way)
    named = () if kinds is IN_PROCESS else tuple(kinds)
    with quiet():
        return exploration.go_all(faults, named=named, max_pairs=max_pairs if double else 0)


class _Rules(NamedTuple):
    """What holds for all ways.

    Args:
        faults: every one that may be tried: some of them have points of their own.
    """

    faults: set[str]
    errors: Mapping[str, MakeError]
    max_points: int

    def apply(self, points: Points, way: Way, *, most_attempts: int) -> None:
        """From here on: what the making of the world did is forgotten."""
        points.armed = dict(way)
        points.limit = self.max_points * (most_attempts if way else 1)
        points.errors = self.errors
        points.answers_count = self._has("wrong_once")
        points.ends_count = self._has("recreated") or self._has("restored")

    def _has(self, kind: str) -> bool:
        return any(is_of(fault, kind) for fault in self.faults)


class _Exploration(Generic[W]):
    """The ways of one attempt."""

    def __init__(
        self,
        tries: Tries[W],
        make_world: Callable[[], W],
        oracles: tuple[Oracle, ...],
        rules: _Rules,
        *,
        find_all: bool,
    ) -> None:
        self._tries = tries
        self._make_world = make_world
        self._oracles = oracles
        self._rules = rules
        self._find_all = find_all
        self._findings: list[Finding] = []
        self._clean = self._run_clean()
        self._points = self._clean.world.points.passed

    def go_one(self, way: Way) -> Report:
        """Go one way."""
        self._go(way)
        return Report(points=self._points, ways=1, pairs=int(len(way) > 1), findings=self._findings)

    def go_all(self, kinds: Sequence[str], *, named: Sequence[str], max_pairs: int) -> Report:
        """Go every way with one crash, and then those with two.

        Args:
            kinds: with their variants.
            named: the kinds of which each must be able to happen somewhere.
            max_pairs: so many at most.
        """
        singles = list(ways_at(self._points, kinds))
        pairs: list[Way] = []
        for way in singles:
            later = self._go(way)
            if max_pairs:
                pairs += ways_at(later, kinds, after=way)
        check_each_is_tried(named, singles, pairs)
        chosen = thinned(pairs, max_pairs) if pairs else []
        for way in chosen:
            self._go(way)
        return Report(
            points=self._points,
            ways=len(singles) + len(chosen),
            pairs=len(chosen),
            pairs_left_out=len(pairs) - len(chosen),
            findings=self._findings,
        )

    # --- without a crash --------------------------------------------------------------------------------------

    def _run_clean(self) -> Outcome[W]:
        first, second = self._run_to_end({}), self._run_to_end({})
        if first.world.points.passed != second.world.points.passed:
            raise NotDeterministicError(_difference(first.world.points.passed, second.world.points.passed))
        check_no_points_missing(first.world.points.passed)
        try:
            self._judge(first)
        except AssertionError as error:
            raise CleanRunError(f"Without any crash: {error}") from error
        return first

    def _run_to_end(self, way: Way) -> Outcome[W]:
        world = self._new_world(way)
        outcome = Outcome(world=world, result=self._tries.run(world))
        world.points.close()
        if why := why_not_run(outcome.result):
            raise AttemptNotRunError(
                f"The attempt {_name_of(self._tries.attempt)} {why}.\nPass a plain function that runs it to its end and"
                f" returns the result."
            )
        return outcome

    def _new_world(self, way: Way) -> W:
        world = self._make_world()
        if world.points.attempt:
            raise SharedWorldError(
                f"{_name_of(self._make_world)} returned a world in which an attempt has run before.\nMake the world and"
                f" all that is in it afresh in each call."
            )
        self._rules.apply(world.points, way, most_attempts=self._tries.most)
        return world

    # --- with one ---------------------------------------------------------------------------------------------

    def _go(self, way: Way) -> list[Point]:
        """Go a way, and return the points after its last crash: none when that was too much already."""
        world = self._new_world(way)
        try:
            result, error = self._tries.run_to_end(world)
            self._check_fired(world, way)
            world.points.close()
            self._judge(Outcome(world=world, result=result, error=error, clean=self._clean))
        except NeverSucceededError as error:
            self._check_fired(world, way)
            self._found(world, way, error)
            return []
        except (NeverFiredError, NotDeterministicError, NothingTriedError):
            raise
        except AssertionError as error:
            self._found(world, way, error)
            return []
        return world.points.passed[max(way) :]

    def _check_fired(self, world: W, way: Way) -> None:
        passed, first = world.points.passed, min(way)
        if missing := way.keys() - world.points.fired.keys():
            raise NeverFiredError(f"{write_way(way)}: {_why_not_fired(min(missing), way, passed)}\n{draw(passed, way)}")
        if passed[first - 1] != self._points[first - 1]:
            raise NotDeterministicError(_difference(self._points[:first], passed[:first]))

    def _judge(self, outcome: Outcome[W]) -> None:
        for oracle in self._oracles:
            ask(oracle, outcome)

    def _found(self, world: W, way: Way, error: AssertionError) -> None:
        finding = Finding(
            attempt=getattr(self._tries.attempt, "__name__", "attempt"),
            way=way,
            problem=str(error).strip() or "the oracle said no",
            points=world.points.passed,
            error=error,
        )
        if not self._find_all:
            kind = NeverSucceededError if isinstance(error, NeverSucceededError) else CrashFoundError
            raise kind(str(finding)) from error
        self._findings.append(finding)


def ask(oracle: Oracle, outcome: Outcome[Any]) -> None:
    """Let an oracle judge.

    Raises:
        AssertionError: it says no.
        OracleBrokenError: it raised something else.
    """
    try:
        said = oracle(outcome)
    except (AssertionError, OracleBrokenError):
        raise
    except Exception as error:
        raise OracleBrokenError(f"The oracle {_name_of(oracle)} raised {error!r} instead of judging.") from error
    if said is not None and (why := why_not_judged(said)):
        raise OracleBrokenError(f"The oracle {_name_of(oracle)} {why}")


def _why_not_fired(number: int, way: Way, passed: list[Point]) -> str:
    if number > len(passed):
        return f"point {number} was never reached; the way ended after {len(passed)} points."
    return f"{way[number]!r} cannot happen at point {number}, {str(passed[number - 1])!r}."


def _name_of(function: object) -> str:
    return str(getattr(function, "__name__", "")) or repr(function)


def _difference(first: list[Point], second: list[Point]) -> str:
    """Where two runs that should be alike part."""
    at = next((n for n, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second)))
    return f"Two runs part at point {at + 1}: first {_name(first, at)}, then {_name(second, at)}."


def _name(points: list[Point], at: int) -> str:
    return repr(str(points[at])) if at < len(points) else "the end"
