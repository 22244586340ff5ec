"""An attempt is frozen at every point, given up, and wakes at every point of its successor, or after its end."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import BaseOperator

from airflow_resume import PollPolicy, ResumePolicy, checkpoint, run_job
from airflow_resume.errors import LostSubmissionError, SupersededError
from airflow_resume.testing import (
    CrashWorld,
    FakeJobs,
    FakeTaskStore,
    TaskAttempt,
    World,
    explore_freezes,
    task_context,
)
from airflow_resume.testing.crashes.outcome import ExplorationOutcome
from airflow_resume.testing.errors import InterleavingFoundError, InvalidWayError, NeverFiredError, OneWayWarning
from airflow_resume.testing.oracles import each_effect_at_least_once, mark_never_decreases, same_result
from airflow_resume.testing.turns.participants import FreezeOutcome
from airflow_resume.testing.turns.turn_report import InterleavingReport
from airflow_resume_mixins import ResumableJobMixin
from tests.support.jobs.hooks import JobHooks, LookUpHooks, equipped
from tests.support.loops.worlds import on_clock
from tests.support.watermarks.hourly_orders import at, load_two_runs, two_runs

AT_ONCE = PollPolicy(interval=timedelta(0), max_interval=timedelta(0), jitter=0)
POLICY = ResumePolicy(poll=AT_ONCE)


def said(report: InterleavingReport) -> set[tuple[str, ...]]:
    """What happened where, in the ways that end wrongly."""
    return {
        tuple(map(" ".join, zip(finding.steps.values(), finding.where, strict=True))) for finding in report.findings
    }


# --- what is explored -----------------------------------------------------------------------------------------


def counts_pages(world: CrashWorld) -> int:
    for page in range(world.store.get("page", 0), 2):
        with world.effect(f"load {page}"):
            pass
        world.store.set("page", page + 1)
    return int(world.store.get("page"))


def a_store() -> CrashWorld:
    return CrashWorld(store=FakeTaskStore())


def two_pages(outcome: ExplorationOutcome[CrashWorld]) -> None:
    assert outcome.world.store.values == {"page": 2}


def followed() -> CrashWorld:
    world = a_store()
    world.follow(lambda: world.store.values.get("page", 0))
    return world


def test_an_attempt_on_a_store_without_a_fence_sets_its_successor_back() -> None:
    with pytest.raises(InterleavingFoundError) as caught:
        explore_freezes(counts_pages, oracle=mark_never_decreases, world=followed)
    assert str(caught.value).startswith("freeze at point 3 (before load 0): the mark went back from 2 to 1\n")


def test_a_finding_is_replayed_by_its_line() -> None:
    with pytest.raises(InterleavingFoundError) as first:
        explore_freezes(counts_pages, oracle=mark_never_decreases, world=followed)
    only = str(first.value).rpartition('only="')[2].partition('"')[0]
    with pytest.raises(InterleavingFoundError) as second:
        explore_freezes(counts_pages, oracle=mark_never_decreases, world=followed, only=only)
    assert str(second.value) == str(first.value)


@pytest.mark.parametrize("switches", [1, 2, 3])
def test_what_is_pruned_ends_as_what_is_tried(switches: int) -> None:
    def endings(*, prune: bool) -> tuple[InterleavingReport, set[str]]:
        seen: set[str] = set()

        def note(outcome: FreezeOutcome[CrashWorld]) -> None:
            seen.add(repr((outcome.effects, outcome.result, outcome.woken, outcome.world.store.values)))

        report = explore_freezes(counts_pages, oracle=note, world=a_store, switches=switches, prune=prune)
        return report, seen

    (all_of_them, every), (fewer, some) = endings(prune=False), endings(prune=True)
    assert some == every
    assert fewer.pruned > 0 == all_of_them.pruned
    assert fewer.interleavings == all_of_them.interleavings


def test_with_three_switches_the_woken_one_is_frozen_again() -> None:
    with pytest.warns(OneWayWarning):
        report = explore_freezes(counts_pages, oracle=two_pages, world=a_store, only="1:freeze,2:wake,3:freeze")
    assert report.tried == 1


@pytest.mark.parametrize("only", ["3", "3:wakes", "3:run 1", "x:freeze"])
def test_what_names_no_way_is_refused(only: str) -> None:
    with pytest.raises(InvalidWayError):
        explore_freezes(counts_pages, oracle=two_pages, world=a_store, only=only)


def test_a_child_process_cannot_be_frozen() -> None:
    with pytest.raises(
        InvalidWayError,
        match=r"kinds=\['sigkill'\] cannot be tried, as .* one process\.\nKinds here are crash, reply_lost, refused",
    ):
        explore_freezes(counts_pages, oracle=two_pages, world=a_store, kinds=["sigkill"])


def test_a_point_that_is_not_there_is_an_error() -> None:
    with pytest.raises(NeverFiredError, match="point 99"):
        explore_freezes(counts_pages, oracle=two_pages, world=a_store, only="99:freeze")


def test_a_crash_of_the_woken_one_or_of_its_successor_is_tried_as_well() -> None:
    seen: set[tuple[str, int]] = set()

    def note(outcome: FreezeOutcome[CrashWorld]) -> None:
        points = outcome.world.points
        seen.update((kind, points.passed[number - 1].attempt) for number, kind in points.fired.items())

    report = explore_freezes(
        counts_pages,
        oracle=[each_effect_at_least_once, note],
        world=a_store,
        kinds=["crash", "reply_lost", "refused"],
        max_pairs=300,
    )
    assert {kind for kind, _ in seen} == {"crash", "reply_lost", "refused"}
    assert {attempt for _, attempt in seen} >= {1, 2}
    assert 300 < report.crashed <= 600
    assert report.crashed_left_out > 0


# --- jobs -------------------------------------------------------------------------------------------------------


def job_world(**options: Any) -> Callable[[], CrashWorld]:
    return lambda: CrashWorld(airflow=World(), jobs=FakeJobs(**options))


def job(world: CrashWorld, policy: ResumePolicy = POLICY) -> Any:
    with task_context(world=world.airflow) as attempt:
        return run_job(world.jobs, policy=policy, context=attempt.context)


class Train(LookUpHooks, ResumableJobMixin, BaseOperator):
    """Of a system that can be asked for a job."""


class TrainByToken(JobHooks, ResumableJobMixin, BaseOperator):
    """Of a system that knows a token again."""

    submission_is_idempotent = True

    def get_job_result(self, external_id: Any, context: Any) -> Any:
        return self.jobs.result(external_id)


def by_operator(kind: Any) -> Callable[[CrashWorld], Any]:
    def attempt(world: CrashWorld) -> Any:
        with task_context(world=world.airflow) as running:
            operator = equipped(kind(task_id="train", resume_policy=POLICY), jobs=world.jobs)
            return operator.execute(running.context)

    return attempt


def one_job(outcome: ExplorationOutcome[CrashWorld]) -> None:
    assert len(outcome.world.jobs.jobs) == 1, "two jobs"


def the_woken_one_touches_nothing(outcome: FreezeOutcome[CrashWorld]) -> None:
    """It returns what there is, or stops because it was replaced."""
    assert outcome.woken == outcome.result or isinstance(outcome.woken, SupersededError), outcome.woken
    assert not [event for event in outcome.world.jobs.events if event.call == "cancel"]


BEFORE_SUBMIT: set[tuple[str, ...]] = {
    ("freeze before submit",),
    ("freeze after set resume.job.job", "wake before submit"),
}
"""What docs/jobs.md says is not guaranteed without tokens: one of the two has looked in vain, and submits later than
the other one, which has looked in vain as well."""

JOBS: dict[str, tuple[Callable[..., Any], dict[str, Any], set[tuple[str, ...]]]] = {
    "look-up": (job, {}, BEFORE_SUBMIT),
    "look-up, no cancelling": (job, {"can_cancel": False}, BEFORE_SUBMIT),
    "look-up, an operator": (by_operator(Train), {}, BEFORE_SUBMIT),
    "tokens": (job, {"dedupes": True, "can_find": False}, set()),
    "tokens and look-up": (job, {"dedupes": True}, set()),
    "tokens, an operator": (by_operator(TrainByToken), {"dedupes": True, "can_find": False}, set()),
}


@pytest.mark.parametrize("name", JOBS)
def test_there_is_one_job_but_for_the_window_that_is_named(name: str) -> None:
    attempt, options, windows = JOBS[name]
    oracles = [one_job, same_result, the_woken_one_touches_nothing]
    report = explore_freezes(attempt, oracle=oracles, world=job_world(**options), find_all=True)
    assert said(report) == windows, report
    assert all(finding.problem.startswith("two jobs") for finding in report.findings)
    assert report.interleavings > 150
    print(report)


@pytest.mark.parametrize("name", ["tokens", "tokens, an operator"])
def test_nor_with_a_crash_of_either(name: str) -> None:
    attempt, options, _ = JOBS[name]
    explore_freezes(
        attempt, oracle=[one_job, same_result], world=job_world(**options), kinds=["crash", "reply_lost"], max_pairs=200
    )


@pytest.mark.parametrize("policy", ["fail", "resubmit"])
def test_with_neither_look_up_nor_tokens_exactly_the_window_is_left_to_the_policy(policy: Any) -> None:
    """From the intent that was saved to the id that was not."""

    def left_to_the_policy(world: CrashWorld) -> Any:
        return job(world, ResumePolicy(on_lost_submission=policy, poll=AT_ONCE))

    report = explore_freezes(
        left_to_the_policy, oracle=one_job, world=job_world(can_find=False), find_all=True, switches=2
    )
    assert said(report) == {("freeze before submit",), ("freeze before set resume.job.job",)}
    wanted = LostSubmissionError.__name__ if policy == "fail" else "two jobs"
    assert all(wanted in finding.problem for finding in report.findings)


# --- loops ------------------------------------------------------------------------------------------------------

PAGES = 4
GIVEN_UP_AFTER = 300.0
"""Seconds without a heartbeat."""


class LoopWorld(CrashWorld):
    """A table, and a clock: a page takes a second, and a frozen attempt is given up when it has stalled."""

    def __init__(self, stalled: float = GIVEN_UP_AFTER) -> None:
        super().__init__(airflow=World(), table=set())
        self.stalled = stalled

    def begin(self) -> TaskAttempt:
        if self.attempt > 1:
            self.airflow.clock.sleep(self.stalled)
        return task_context(world=self.airflow)


def loop(durability: Any) -> Callable[[LoopWorld], int]:
    def attempt(world: LoopWorld) -> int:
        with world.begin() as running:
            pages = checkpoint(range(PAGES), name="pages", durability=durability, context=running.context)
            for page in on_clock(pages, world.airflow.clock.monotonic):
                with world.effect(f"load {page}"):
                    world.table.add(page)
                    world.airflow.clock.sleep(1)
        return len(world.table)

    return attempt


def again_at_most(bound: int) -> Callable[[FreezeOutcome[LoopWorld]], None]:
    """The successor delivers again what was in hand, and the woken one what it finds before its next write."""

    def at_most(outcome: FreezeOutcome[LoopWorld]) -> None:
        assert len(outcome.effects) - PAGES <= bound, [str(effect) for effect in outcome.effects]
        assert outcome.woken == PAGES or isinstance(outcome.woken, SupersededError), outcome.woken

    return at_most


@pytest.mark.parametrize(
    ("durability", "stalled", "bound"),
    [("sync", GIVEN_UP_AFTER, 1), ("sync", 0.0, 1), ("async", GIVEN_UP_AFTER, 2), ("async", 0.0, 2)],
)
def test_no_page_is_lost_and_the_woken_one_stops_at_its_next_write(durability: str, stalled: float, bound: int) -> None:
    oracles = [each_effect_at_least_once, same_result, again_at_most(bound)]
    # A loop reads its clock between two points, so nothing is pruned here.
    report = explore_freezes(loop(durability), oracle=oracles, world=lambda: LoopWorld(stalled), prune=False)
    assert report.interleavings > 200
    print(report)


def test_no_page_is_lost_with_a_crash_of_either() -> None:
    explore_freezes(
        loop("sync"),
        oracle=[each_effect_at_least_once, same_result],
        world=LoopWorld,
        kinds=["crash", "reply_lost", "refused"],
        max_pairs=200,
    )


# --- watermarks -------------------------------------------------------------------------------------------------


def hours_are_loaded(outcome: FreezeOutcome[CrashWorld]) -> None:
    assert outcome.world.loaded == set(range(5))
    for mark, loaded in zip(outcome.marks, outcome.world.loaded_then, strict=True):
        assert mark is None or mark <= at(loaded).isoformat(), "the mark is never ahead of what is loaded"
    kept = [mark for mark in outcome.marks if mark is not None]
    assert kept == sorted(kept), "the mark never goes back"


def test_no_hour_is_skipped_by_a_watermark() -> None:
    report = explore_freezes(load_two_runs, oracle=hours_are_loaded, world=two_runs, max_ways=200)
    assert report.interleavings > 300
    print(report)
