"""`explore_crashes`: crash at every point, try again, ask the oracle.

Theory of operation. Two runs without a crash must pass the same points; these are the moments at which a crash can
happen. For each of them a fresh world is made, the crash is armed, and the attempt is tried until it succeeds. The run
after a first crash has points of its own, and a second crash can happen at each of those. One crash is tried before
two, and small point numbers before large ones, so the first finding is the smallest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from airflow_resume.arguments import check_flag, check_whole
from airflow_resume.testing.crashes.crash_world import CrashWorld
from airflow_resume.testing.crashes.exceptions import Meaning, meaning, refuse_skip
from airflow_resume.testing.crashes.fault_plans import FaultPlan, plans_at, read_plan, thinned, write_plan
from airflow_resume.testing.crashes.log_levels import errors_only
from airflow_resume.testing.crashes.mistakes import (
    ENDS_WITH_ANY,
    RETRIES_ALL,
    check_all_is_watched,
    check_each_is_tried,
    check_errors_are_named,
    check_no_points_missing,
    check_oracles_judge,
    check_something_is_asked,
    name_of,
    new_world,
    oracles_of,
    warn_of_one_way,
    why_not_judged,
)
from airflow_resume.testing.crashes.outcome import AttemptRunner, ExplorationOutcome, Oracle
from airflow_resume.testing.crashes.point_listing import AFTER_A_REPLAY, difference, draw
from airflow_resume.testing.crashes.shared_state import SharedStateCheck
from airflow_resume.testing.crashes.unread_reports import TrackedReport
from airflow_resume.testing.errors import (
    CleanRunError,
    CrashFoundError,
    ExplorerError,
    NeverFiredError,
    NeverSucceededError,
    NotDeterministicError,
    NothingTriedError,
    OracleBrokenError,
)
from airflow_resume.testing.kinds import ERRORS, Errors, MakeError, is_of, read_errors, read_kinds
from airflow_resume.testing.points import IN_PROCESS, Point, PointRules, Points

W = TypeVar("W", bound=CrashWorld)

MAKE_ALIKE = "Take random names, the time and the order of sets out of the attempt, and make its world afresh."
"""The remedy if two runs pass different points."""


@dataclass(frozen=True, kw_only=True)
class CrashFinding:
    """A fault plan after which the attempt ends wrongly.

    Args:
        way: the fault plan. Messages, docs and `only=` call it a way.
        problem: what the oracle said, or how the attempt failed.
        points: the points that were passed, including those of later attempts.
    """

    attempt: str
    way: FaultPlan
    problem: str
    points: list[Point] = field(repr=False)
    error: CrashFoundError | AssertionError = field(repr=False)

    @property
    def only(self) -> str:
        """The plan, as `explore_crashes(..., only=...)` takes it."""
        return write_plan(self.way)

    @property
    def replay(self) -> str:
        """A call that tries this plan alone, with the same arguments otherwise."""
        return f'explore_crashes({self.attempt}, ..., only="{self.only}")'

    @property
    def where(self) -> list[str]:
        """The points that crashed, such as `["after submit"]`."""
        return [str(self.points[number - 1]) for number in self.way]

    def __str__(self) -> str:
        crashes = " and ".join(f"{kind} at point {number}" for number, kind in self.way.items())
        return (
            f"{crashes} ({', '.join(self.where)}): {self.problem}\n{draw(self.points, self.way)}\nreplay: {self.replay}"
            f"{AFTER_A_REPLAY}"
        )


@dataclass(frozen=True, kw_only=True)
class CrashReport(TrackedReport):
    """What was tried, and what was found.

    Args:
        points: of the run without a crash.
        ways: how many fault plans were tried. `pairs`: how many of them have two crashes.
        pairs_left_out: how many plans with two crashes were not tried because of `max_pairs`.
    """

    points: list[Point] = field(repr=False)
    ways: int = 0
    pairs: int = 0
    pairs_left_out: int = 0
    findings: list[CrashFinding] = field(default_factory=list)

    def __str__(self) -> str:
        findings = self.shown_findings
        left_out = f" ({self.pairs_left_out} more left out by max_pairs)" if self.pairs_left_out else ""
        tried = f"{len(self.points)} points, {self.ways} ways tried, {self.pairs} with two crashes{left_out}"
        return "\n\n".join([f"{tried}: {len(findings)} findings", *map(str, findings)])


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
    retry_on: tuple[type[BaseException], ...] = (),
    allowed_to_fail: tuple[type[BaseException], ...] = (),
    only: str | None = None,
    find_all: bool = False,
) -> CrashReport:
    """Crash an attempt at every point, try again until it succeeds, and ask the oracle each time.

    Args:
        attempt: one try of the task. It gets the world, and makes everything else afresh. An async attempt runs in an
            event loop of its own; a generator is consumed, and its result is the list of its elements. If it raises
            `AirflowRescheduleException`, its process ends, and the next attempt continues in the same try.
        oracle: one or more functions that take the `ExplorationOutcome` and assert; see
            `airflow_resume.testing.oracles`.
        world: makes what outlives an attempt, afresh for every fault plan.
        kinds: the kinds of faults. `"crash"`: the attempt ends at the point, and whatever it still tries has no
            effect. `"reply_lost"`: a store call is applied, then raises. `"refused"`: it raises and is not applied.
            `"sigkill"`: each attempt is a forked child that is really killed; stores and sinks must then outlive a
            process. `"raises_after"`: an effect or store call is done, then one of the `errors` is raised.
            `"wrong_once"`: an answer of `FakeJobs` or of `world.answer` is wrong, and right when asked again.
            `"recreated"`, `"state_cleared"`, `"restored"`: the attempt dies, and before the next one the Dag run is
            deleted and created again, all task state is cleared, or the database is restored from a backup.
            A single variant is named as in `only`: `"wrong_once gone"`, `"raises_after KeyError"`.
        errors: what `"raises_after"` raises: classes, functions that make an error, errors, or a dict of these by
            name.
        double: also let a second fault happen, at every point after the first.
        max_points: the most points of the run without a crash; more are an error.
        max_pairs: the most plans with two faults; if there are more, this many are tried, evenly spread.
        max_attempts: after this many attempts a plan counts as never succeeding.
        retry_on: errors of the attempt after which Airflow's next try is part of the design. After a call that was
            made to fail or an answer that was made wrong, any error other than `AirflowFailException` is retried
            anyway.
        allowed_to_fail: errors with which the attempt may end after a fault. The oracle then judges with
            `outcome.error` and without a result. The run without a fault must succeed all the same.
        only: try only this plan, written as in a failure: `"3:crash"`, `"3:raises_after KeyError,7:refused"`. Keep the
            other arguments, `kinds` too. If nothing is found, a `OneWayWarning` says that no other plan was tried.
        find_all: put failures in the report instead of raising the first. After a finding with one fault, no second
            fault is added to it.

    Returns:
        What was tried, and with `find_all` what was found.

    Raises:
        CrashFoundError: a plan ends wrongly. It is the smallest one; the message has its trace and a call that repeats
            it.
        NeverSucceededError: no attempt succeeds (a `CrashFoundError`); also in the run without a crash.
        CleanRunError: the oracle refuses the run without a crash.
        NotDeterministicError: two runs without a crash pass different points.
        NeverFiredError: an armed point was not reached.
        NothingTriedError: there are no kinds, no oracles or no points, or a kind that was named cannot happen anywhere.
        AttemptNotRunError: the attempt returned something that nobody runs, such as an operator.
        UnwatchedError: the attempt calls a fake that is not in the world, or makes an effect and does not enter it.
        SharedWorldError: `world` returned a world that was used before, or one that contains something used before.
        SkippedError: the attempt, the oracle or `world` skips the test.
        OracleBrokenError: the oracle raised something other than AssertionError, returned something, or cannot fail.
        TooManyPointsError: more than `max_points`.
        InvalidWayError: `only` cannot be read.
        InvalidKindError: `kinds` has something that is not a kind, or `errors` something that is not an error.
    """
    check_flag("double", double)
    check_flag("find_all", find_all)
    check_whole("max_points", max_points)
    check_whole("max_pairs", max_pairs)
    makers = read_errors(errors)
    faults = read_kinds(kinds, makers)
    way = None if only is None else read_plan(only, makers)
    oracles = oracles_of(oracle)
    check_something_is_asked(faults, oracles, max_points=max_points, max_pairs=max_pairs, errors=makers)
    check_oracles_judge(oracles)
    check_errors_are_named(retry_on, "retry_on", hides=RETRIES_ALL)
    check_errors_are_named(allowed_to_fail, "allowed_to_fail", hides=ENDS_WITH_ANY)
    tries = AttemptRunner(
        attempt=attempt,
        most=max_attempts,
        retry_on=retry_on,
        forked="sigkill" in (faults if way is None else way.values()),
        allowed_to_fail=allowed_to_fail,
    )
    rules = _Rules({*faults, *(way or {}).values()}, makers, max_points)
    exploration = _Exploration(tries, world, oracles, rules, find_all=find_all)
    if way is not None:
        report = exploration.explore_one(way)
        warn_of_one_way(write_plan(way))
        return report
    named = () if kinds is IN_PROCESS else tuple(kinds)
    with errors_only():
        return exploration.explore_all(faults, named=named, max_pairs=max_pairs if double else 0)


class _Rules(NamedTuple):
    """What holds for all plans.

    Args:
        faults: every fault that may be tried; some kinds of faults add points of their own.
    """

    faults: set[str]
    errors: Mapping[str, MakeError]
    max_points: int

    def apply(self, points: Points, way: FaultPlan, *, most_attempts: int) -> None:
        """Apply them to the points of a new world; what making the world did does not count."""
        points.rules = PointRules(
            armed=dict(way),
            errors=self.errors,
            answers_count=self._has("wrong_once"),
            ends_count=self._has("recreated") or self._has("restored"),
            limit=self.max_points * (most_attempts if way else 1),
        )

    def _has(self, kind: str) -> bool:
        return any(is_of(fault, kind) for fault in self.faults)


class _Exploration(Generic[W]):
    """The exploration of one attempt."""

    def __init__(
        self,
        tries: AttemptRunner[W],
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
        self._findings: list[CrashFinding] = []
        self._clean = self._run_clean()
        self._points = self._clean.world.points.passed

    def explore_one(self, way: FaultPlan) -> CrashReport:
        """Try one fault plan."""
        self._try(way)
        return CrashReport(points=self._points, ways=1, pairs=int(len(way) > 1), findings=self._findings)

    def explore_all(self, kinds: Sequence[str], *, named: Sequence[str], max_pairs: int) -> CrashReport:
        """Try every fault plan with one crash, and then those with two.

        Args:
            kinds: with their variants.
            named: kinds that must each be able to happen somewhere.
            max_pairs: the most plans with two crashes that are tried.
        """
        singles = list(plans_at(self._points, kinds))
        pairs: list[FaultPlan] = []
        for way in singles:
            later = self._try(way)
            if max_pairs:
                pairs += plans_at(later, kinds, after=way)
        check_each_is_tried(named, singles, pairs)
        chosen = thinned(pairs, max_pairs) if pairs else []
        for way in chosen:
            self._try(way)
        return CrashReport(
            points=self._points,
            ways=len(singles) + len(chosen),
            pairs=len(chosen),
            pairs_left_out=len(pairs) - len(chosen),
            findings=self._findings,
        )

    # --- without a crash --------------------------------------------------------------------------------------

    def _run_clean(self) -> ExplorationOutcome[W]:
        world = self._new_world({})
        shared = SharedStateCheck(world, self._oracles)
        first = self._run_to_end(world)
        refused: AssertionError | ExplorerError | None = None
        try:  # before another run can leave anything behind; other mistakes are reported first
            self._judge(first)
        except (AssertionError, ExplorerError) as error:
            refused = error
        other_world = self._new_world({})
        shared.check_worlds(other_world)
        second = self._run_to_end(other_world)
        if first.world.points.passed != second.world.points.passed:
            raise NotDeterministicError(difference(first.world.points.passed, second.world.points.passed, MAKE_ALIKE))
        check_all_is_watched(first.world.points)
        check_no_points_missing(first.world.points.passed)
        if refused is None:
            shared.check(second.world, lambda: self._judge(first))
        elif isinstance(refused, ExplorerError):
            raise refused
        else:
            raise CleanRunError(f"Without any crash: {refused}") from refused
        return first

    def _run_to_end(self, world: W) -> ExplorationOutcome[W]:
        outcome = ExplorationOutcome(world=world, result=self._tries.run(world))
        world.points.close()
        return outcome

    def _new_world(self, way: FaultPlan) -> W:
        world = new_world(self._make_world)
        self._rules.apply(world.points, way, most_attempts=self._tries.most)
        return world

    # --- with one ---------------------------------------------------------------------------------------------

    def _try(self, way: FaultPlan) -> list[Point]:
        """Try a plan. Return the points after its last crash, or none if it ended wrongly."""
        world = self._new_world(way)
        try:
            result, error = self._tries.run_to_end(world)
            self._check_fired(world, way)
            world.points.close()
            self._judge(ExplorationOutcome(world=world, result=result, error=error, clean=self._clean))
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

    def _check_fired(self, world: W, way: FaultPlan) -> None:
        passed, first = world.points.passed, min(way)
        if missing := way.keys() - world.points.fired.keys():
            number = min(missing)
            why = (
                f"point {number} was never reached; the way ended after {len(passed)} points."
                if number > len(passed)
                else f"{way[number]!r} cannot happen at point {number}, {str(passed[number - 1])!r}."
            )
            raise NeverFiredError(f"{write_plan(way)}: {why}\n{draw(passed, way)}")
        if passed[first - 1] != self._points[first - 1]:
            raise NotDeterministicError(difference(self._points[:first], passed[:first], MAKE_ALIKE))

    def _judge(self, outcome: ExplorationOutcome[W]) -> None:
        for oracle in self._oracles:
            ask(oracle, outcome)

    def _found(self, world: W, way: FaultPlan, error: AssertionError) -> None:
        finding = CrashFinding(
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


def ask(oracle: Oracle, outcome: ExplorationOutcome[Any]) -> None:
    """Let an oracle judge.

    Raises:
        AssertionError: the outcome is wrong.
        OracleBrokenError: the oracle raised something else, or returned something.
    """
    try:
        said = oracle(outcome)
    except (AssertionError, OracleBrokenError):
        raise
    except BaseException as error:
        refuse_skip(error, f"The oracle {name_of(oracle)}")
        match meaning(error):
            case Meaning.STOP:
                raise
            case Meaning.FAIL:
                raise AssertionError(str(error)) from error
        raise OracleBrokenError(f"The oracle {name_of(oracle)} raised {error!r} instead of judging.") from error
    if why := why_not_judged(said):
        raise OracleBrokenError(f"The oracle {name_of(oracle)} {why}")
