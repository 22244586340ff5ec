from __future__ import annotations

import gc
import inspect
import os
import signal
import struct
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowFailException, AirflowRescheduleException

from airflow_resume import checkpoint
from airflow_resume.testing import CrashWorld, FakeTaskStore, World, explore_crashes, task_context
from airflow_resume.testing.crashes.child import in_child
from airflow_resume.testing.crashes.outcome import ExplorationOutcome
from airflow_resume.testing.errors import (
    CleanRunError,
    CrashFoundError,
    InvalidWayError,
    NeverFiredError,
    NeverSucceededError,
    NotDeterministicError,
    OneWayWarning,
    OracleBrokenError,
    TooManyPointsError,
)
from airflow_resume.testing.fakes.clock import START
from airflow_resume.testing.fakes.rows import StoredRows
from airflow_resume.testing.oracles import (
    each_effect_at_least_once,
    each_effect_at_most,
    each_effect_exactly_once,
    mark_never_decreases,
    nothing_left_behind,
    same_result,
)
from airflow_resume.testing.points import IN_PROCESS, CrashedError
from tests.support.kit.file_rows import FileRows

PAGES = 3
MINUTE = timedelta(minutes=1)


def a_store() -> CrashWorld:
    return CrashWorld(store=FakeTaskStore())


def sets_after_the_work(world: CrashWorld) -> int:
    """The loop of Airflow's documentation."""
    page = world.store.get("page", 0)
    while page < PAGES:
        with world.effect(f"load {page}"):
            pass
        page += 1
        world.store.set("page", page)
    return int(page)


def sets_before_the_work(world: CrashWorld) -> int:
    for page in range(world.store.get("page", 0), PAGES):
        world.store.set("page", page + 1)
        with world.effect(f"load {page}"):
            pass
    return PAGES


def checkpoints(world: CrashWorld) -> int:
    count = 0
    for page in checkpoint(range(PAGES), name="pages", durability="sync", store=world.store):
        with world.effect(f"load {page}"):
            count += 1
    return PAGES


# --- what it finds --------------------------------------------------------------------------------------------


def test_a_set_after_the_work_delivers_again_and_the_smallest_crash_is_named() -> None:
    with pytest.raises(CrashFoundError) as caught:
        explore_crashes(sets_after_the_work, oracle=each_effect_exactly_once, world=a_store)
    assert str(caught.value).splitlines() == [
        "crash at point 4 (after load 0): repeated: 'load 0' 2 x; at most 1 x is right",
        "    attempt 1",
        "       1  before get page",
        "       2  after get page",
        "       3  before load 0",
        "  >    4  after load 0    <-- crash",
        "    attempt 2",
        "       5  before get page",
        "       6  after get page",
        "       7  before load 0",
        "       8  after load 0",
        "       9  before set page",
        "      10  after set page",
        "      11  before load 1",
        "      12  after load 1",
        "    ... 6 more",
        'replay: explore_crashes(sets_after_the_work, ..., only="4:crash")  # remove only= once it passes',
    ]


def test_a_replay_goes_the_one_way() -> None:
    with pytest.raises(CrashFoundError, match="crash at point 4"):
        explore_crashes(sets_after_the_work, oracle=each_effect_exactly_once, world=a_store, only="4:crash")
    with pytest.warns(OneWayWarning):
        report = explore_crashes(sets_after_the_work, oracle=each_effect_exactly_once, world=a_store, only="3:crash")
    assert (report.ways, report.findings) == (1, [])


def test_every_finding_of_find_all_can_be_replayed() -> None:
    report = explore_crashes(sets_after_the_work, oracle=each_effect_exactly_once, world=a_store, find_all=True)
    assert {finding.where[-1] for finding in report.findings} == {
        *(f"after load {page}" for page in range(PAGES)),
        "before set page",
    }
    assert any(len(finding.way) == 2 for finding in report.findings)
    for finding in report.findings[:: len(report.findings) // 10]:
        with pytest.raises(CrashFoundError) as caught:
            explore_crashes(sets_after_the_work, oracle=each_effect_exactly_once, world=a_store, only=finding.only)
        assert finding.replay in str(caught.value)
    assert f"{len(report.findings)} findings" in str(report)


def test_a_set_after_the_work_loses_nothing() -> None:
    report = explore_crashes(
        sets_after_the_work, oracle=[each_effect_at_least_once, each_effect_at_most(3), same_result], world=a_store
    )
    assert len(report.points) == 2 + 4 * PAGES
    assert report.pairs > 300


def test_a_set_before_the_work_loses_a_page() -> None:
    with pytest.raises(CrashFoundError, match="lost: 'load 0' 1 x") as caught:
        explore_crashes(sets_before_the_work, oracle=each_effect_at_least_once, world=a_store)
    assert str(caught.value).startswith("crash at point 4 (after set page)")


@pytest.mark.parametrize("kinds", [("crash",), ("reply_lost",), ("refused",), ("crash", "reply_lost", "refused")])
def test_checkpoint_loses_nothing_and_repeats_at_most_what_was_in_hand(kinds: Any) -> None:
    def in_hand(outcome: ExplorationOutcome[CrashWorld]) -> None:
        assert len(outcome.effects) - PAGES <= outcome.crashes

    report = explore_crashes(
        checkpoints, oracle=[each_effect_at_least_once, in_hand, same_result], world=a_store, kinds=kinds
    )
    assert report.pairs > 0


# --- kinds ----------------------------------------------------------------------------------------------------


def test_a_dead_attempt_can_do_nothing_more() -> None:
    def tidies_up(world: CrashWorld) -> None:
        try:
            with world.effect("work"):
                pass
        finally:
            world.store.set("finally", world.attempt)

    def untouched(outcome: ExplorationOutcome[CrashWorld]) -> None:
        assert outcome.world.store.values == {"finally": world_attempts(outcome)}

    def world_attempts(outcome: ExplorationOutcome[CrashWorld]) -> int:
        return outcome.world.attempt

    explore_crashes(tidies_up, oracle=untouched, world=a_store, double=False, kinds=["crash"])


def test_what_a_dead_attempt_made_is_dead_in_the_next_one() -> None:
    made: list[FakeTaskStore] = []

    def keeps_its_store(world: CrashWorld) -> None:
        made.append(world.watch(FakeTaskStore(world.rows)))
        made[-1].set("own", world.attempt)
        if world.attempt == 2:
            with pytest.raises(CrashedError):
                made[-2].set("late", 1)

    def no_late_write(outcome: ExplorationOutcome[CrashWorld]) -> None:
        assert "late" not in outcome.world.rows

    explore_crashes(keeps_its_store, oracle=no_late_write, world=lambda: CrashWorld(rows=StoredRows()), double=False)


def test_all_stores_of_an_airflow_are_watched_at_once() -> None:
    def writes_both(world: CrashWorld) -> None:
        attempt = task_context(world=world.airflow, assets=[Asset("a")])
        attempt.task_store.set("t", 1)
        attempt.asset_stores.set("a", 1)

    report = explore_crashes(
        writes_both, oracle=lambda _: None, world=lambda: CrashWorld(airflow=World()), max_pairs=10
    )
    assert [str(point) for point in report.points] == ["before set t", "after set t", "before set a", "after set a"]


@pytest.mark.filterwarnings("error")
def test_a_loop_that_a_dead_attempt_has_left_disturbs_nobody(recwarn: pytest.WarningsRecorder) -> None:
    """A generator is closed when it is taken apart, and this one wants to save where it is."""

    def left(world: CrashWorld) -> None:
        for number in checkpoint(range(3), name="l", durability="exit", store=world.store):
            with world.effect(f"load {number}"):
                pass

    explore_crashes(left, oracle=each_effect_at_least_once, world=a_store, max_pairs=50)
    gc.collect()
    assert not recwarn.list


def test_a_swallowed_crash_is_still_the_end() -> None:
    def swallows(world: CrashWorld) -> int:
        try:
            world.store.set("a", 1)
        except BaseException:  # noqa: BLE001
            return -1
        return 1

    explore_crashes(swallows, oracle=same_result, world=a_store, kinds=["crash"])


def test_a_lost_reply_is_applied_and_a_refused_call_is_not() -> None:
    seen: dict[str, Any] = {}

    def one_set(world: CrashWorld) -> None:
        try:
            world.store.set("a", 1)
        except Exception as error:
            kind = next(iter(world.points.fired.values()))
            seen[kind] = dict(world.store.values), type(error).__name__
            raise

    explore_crashes(one_set, oracle=lambda _: None, world=a_store, double=False, kinds=["reply_lost", "refused"])
    assert seen == {"reply_lost": ({"a": 1}, "AirflowRuntimeError"), "refused": ({}, "AirflowRuntimeError")}


@pytest.mark.parametrize(("attempt", "broken"), [(sets_after_the_work, True), (sets_before_the_work, False)])
def test_a_real_kill_finds_the_same(attempt: Any, broken: bool, tmp_path: Path) -> None:  # noqa: FBT001
    worlds = iter(range(10**6))

    def files() -> CrashWorld:
        return CrashWorld(store=FakeTaskStore(FileRows(tmp_path / f"{next(worlds)}.json")))

    oracle = each_effect_exactly_once if broken else each_effect_at_least_once
    with pytest.raises(CrashFoundError, match=r"sigkill at point 4 .*\n(.*\n)* +attempt 2"):
        explore_crashes(attempt, oracle=oracle, world=files, kinds=["sigkill"])


def in_files(tmp_path: Path) -> Any:
    """Makes worlds that outlive a process."""
    worlds = iter(range(10**6))
    return lambda: CrashWorld(store=FakeTaskStore(FileRows(tmp_path / f"{next(worlds)}.json")))


def test_a_real_kill_cannot_break_checkpoint(tmp_path: Path) -> None:
    oracles = [each_effect_at_least_once, same_result]
    report = explore_crashes(checkpoints, oracle=oracles, world=in_files(tmp_path), kinds=["sigkill"], max_pairs=10)
    assert report.ways == len(report.points) + report.pairs


def test_a_child_that_is_killed_while_another_of_its_threads_reports_a_point_was_killed() -> None:
    def attempt(world: CrashWorld) -> None:
        sender = inspect.getclosurevars(world.points.listener).nonlocals["sender"]  # type: ignore[arg-type]
        os.write(sender.fileno(), struct.pack("!i", 100) + b"the beginning")
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(CrashedError, match="killed"):
        in_child(attempt, CrashWorld())


def test_in_child_processes_the_other_kinds_work_as_well(tmp_path: Path) -> None:
    report = explore_crashes(
        checkpoints, oracle=same_result, world=in_files(tmp_path), kinds=["sigkill", *IN_PROCESS], double=False
    )
    assert report.ways > 2 * len(report.points)


def test_a_mark_is_followed_through_child_processes(tmp_path: Path) -> None:
    def followed() -> CrashWorld:
        world: CrashWorld = files()
        world.follow(lambda: world.store.values.get("mark"))
        return world

    def starts_over(world: CrashWorld) -> None:
        for mark in (1, 2):
            world.store.set("mark", mark)

    files = in_files(tmp_path)
    with pytest.raises(CrashFoundError, match="the mark went back from 2 to 1"):
        explore_crashes(starts_over, oracle=mark_never_decreases, world=followed, kinds=["sigkill"])


def test_a_child_without_end_is_an_error() -> None:
    def endless(world: CrashWorld) -> None:
        while True:
            world.store.get("a")

    with pytest.raises(TooManyPointsError):
        explore_crashes(endless, oracle=ok, world=a_store, kinds=["sigkill"], max_points=5)


# --- what is wrong with the test ------------------------------------------------------------------------------


def ok(_outcome: ExplorationOutcome[CrashWorld]) -> None:
    pass


def test_a_point_that_is_never_reached_is_an_error() -> None:
    with pytest.raises(NeverFiredError, match="99:crash: point 99 was never reached; the way ended after 14 points"):
        explore_crashes(sets_after_the_work, oracle=ok, world=a_store, only="99:crash")


def test_an_attempt_that_changes_after_two_equal_runs_is_found_by_its_missing_point() -> None:
    runs = iter(range(100))

    def fickle(world: CrashWorld) -> None:
        for _ in range(3 if next(runs) < 2 else 0):
            world.store.get("a")

    with pytest.raises(NeverFiredError, match="1:crash"):
        explore_crashes(fickle, oracle=ok, world=a_store)


def test_two_unequal_runs_are_an_error() -> None:
    runs = iter(range(100))

    def random(world: CrashWorld) -> None:
        world.store.get("same")
        world.store.get(f"key-{next(runs)}")

    with pytest.raises(
        NotDeterministicError,
        match=r"alike differ at point 3: first 'before get key-0', then 'before get key-1'\.\nTake random names",
    ):
        explore_crashes(random, oracle=ok, world=a_store)


def test_an_oracle_that_does_not_judge_is_an_error() -> None:
    def broken(_outcome: ExplorationOutcome[CrashWorld]) -> None:
        raise KeyError("typo")

    with pytest.raises(OracleBrokenError, match=r"The oracle broken raised KeyError\('typo'\)"):
        explore_crashes(sets_after_the_work, oracle=broken, world=a_store, find_all=True)


def test_an_oracle_that_refuses_the_clean_run_is_an_error() -> None:
    def never(_outcome: ExplorationOutcome[CrashWorld]) -> None:
        raise AssertionError("no")

    with pytest.raises(CleanRunError, match="Without any crash: no"):
        explore_crashes(sets_after_the_work, oracle=never, world=a_store)


def test_an_attempt_that_fails_after_a_crash_is_a_finding() -> None:
    def once(world: CrashWorld) -> None:
        if world.store.get("begun"):
            raise RuntimeError("begun already")
        world.store.set("begun", True)

    with pytest.raises(NeverSucceededError, match=r"crash at point 4 (.*\n)*replay: .*once, ..., only=\"4:crash\""):
        explore_crashes(once, oracle=ok, world=a_store)
    with pytest.raises(NeverSucceededError, match=r"8 attempts, and none succeeded\. The last: RuntimeError"):
        explore_crashes(once, oracle=ok, world=a_store, retry_on=(RuntimeError,))


def test_an_attempt_that_never_succeeds_is_an_error() -> None:
    def hopeless(world: CrashWorld) -> None:
        raise OSError(world.attempt)

    with pytest.raises(NeverSucceededError, match="attempt 1 failed"):
        explore_crashes(hopeless, oracle=ok)
    with pytest.raises(NeverSucceededError, match="3 attempts"):
        explore_crashes(hopeless, oracle=ok, retry_on=(OSError,), max_attempts=3)


def test_an_attempt_without_end_is_an_error() -> None:
    def endless(world: CrashWorld) -> None:
        while True:
            world.store.get("a")

    with pytest.raises(TooManyPointsError, match="More than 50 points"):
        explore_crashes(endless, oracle=ok, world=a_store, max_points=50)


@pytest.mark.parametrize("only", ["3", "x:crash", "0:crash", "3:boom", ""])
def test_a_way_that_cannot_be_read_is_an_error(only: str) -> None:
    with pytest.raises(InvalidWayError, match="is not a number and a kind"):
        explore_crashes(sets_after_the_work, oracle=ok, world=a_store, only=only)


# --- oracles and bounds ---------------------------------------------------------------------------------------


def test_a_mark_that_goes_back_is_found() -> None:
    def followed() -> CrashWorld:
        world = a_store()
        world.follow(lambda: world.store.values.get("mark"))
        return world

    def starts_over(world: CrashWorld) -> None:
        for mark in (1, 2):
            world.store.set("mark", mark)

    with pytest.raises(CrashFoundError, match="the mark went back from 2 to 1") as caught:
        explore_crashes(starts_over, oracle=mark_never_decreases, world=followed)
    assert str(caught.value).startswith("crash at point 4 (after set mark)")


def test_what_is_left_behind_is_found() -> None:
    def leaks(world: CrashWorld) -> None:
        world.store.set(f"temporary-{world.attempt}", 1)
        world.store.delete(f"temporary-{world.attempt}")

    with pytest.raises(CrashFoundError, match=r"left behind: \{'temporary-1': 1\}"):
        explore_crashes(leaks, oracle=nothing_left_behind(lambda world: world.store.values), world=a_store)


def test_pairs_are_bounded_and_what_is_left_out_is_said() -> None:
    report = explore_crashes(sets_after_the_work, oracle=ok, world=a_store, max_pairs=20)
    assert 0 < report.pairs <= 20
    assert f"({report.pairs_left_out} more left out by max_pairs)" in str(report)


def test_an_effect_can_be_a_decorator() -> None:
    def decorated(world: CrashWorld) -> None:
        @world.effect("send")
        def send() -> None:
            pass

        send()

    with pytest.raises(CrashFoundError, match="repeated: 'send' 2 x"):
        explore_crashes(decorated, oracle=each_effect_exactly_once)


def test_a_failure_that_airflow_never_tries_again_is_final_even_after_a_refused_call() -> None:
    def gives_up(world: CrashWorld) -> None:
        try:
            world.store.set("a", 1)
        except Exception as error:
            raise AirflowFailException("no use") from error

    with pytest.raises(NeverSucceededError, match=r"Airflow does not try again after an AirflowFailException"):
        explore_crashes(gives_up, oracle=ok, world=a_store, kinds=["refused"])


# --- attempts that reschedule themselves -----------------------------------------------------------------------


def an_airflow() -> CrashWorld:
    return CrashWorld(airflow=World(), tries=[])


def looks_three_times(world: CrashWorld) -> int:
    """Each look is one process of the same try."""
    attempt = task_context(world=world.airflow)
    looks: Any = attempt.task_store.get("looks") or 0
    world.tries.append(attempt.ti.try_number)
    if looks < 2:
        attempt.task_store.set("looks", looks + 1)
        raise AirflowRescheduleException(world.airflow.clock.now() + MINUTE)  # type: ignore[no-untyped-call]
    return int(world.airflow.clock.monotonic())


def test_an_attempt_that_reschedules_itself_goes_on_in_the_same_try_and_a_crash_uses_another_one() -> None:
    def one_try_more_for_each_crash(outcome: ExplorationOutcome[CrashWorld]) -> None:
        assert outcome.world.tries[-1] == 1 + outcome.crashes

    def time_has_passed(outcome: ExplorationOutcome[CrashWorld]) -> None:
        assert outcome.crashes or outcome.result == 120

    report = explore_crashes(
        looks_three_times, oracle=[one_try_more_for_each_crash, time_has_passed], world=an_airflow, kinds=["crash"]
    )
    assert {point.attempt for point in report.points} == {1, 2, 3}
    assert report.pairs > 0


def test_the_end_of_a_look_is_a_moment_at_which_the_run_may_be_created_again() -> None:
    report = explore_crashes(looks_three_times, oracle=ok, world=an_airflow, kinds=["recreated"], max_attempts=20)
    assert [point.attempt for point in report.points if str(point) == "after the end"] == [1, 2, 3]


def test_an_attempt_that_reschedules_itself_for_ever_is_found() -> None:
    def for_ever(world: CrashWorld) -> None:
        world.store.set("look", 1)
        raise AirflowRescheduleException(START)  # type: ignore[no-untyped-call]

    with pytest.raises(NeverSucceededError, match=r"8 attempts, and none succeeded\. The last: it rescheduled itself"):
        explore_crashes(for_ever, oracle=ok, world=a_store)


def test_an_attempt_in_a_child_process_reschedules_itself_too(tmp_path: Path) -> None:
    def in_a_child(world: CrashWorld) -> int:
        looks = int(world.store.get("looks") or 0)
        world.store.set("looks", looks + 1)
        if looks < 2:
            raise AirflowRescheduleException(START)  # type: ignore[no-untyped-call]
        return looks

    files = iter(range(1_000))

    def of_files() -> CrashWorld:
        return CrashWorld(store=FakeTaskStore(FileRows(tmp_path / str(next(files)))))

    report = explore_crashes(in_a_child, oracle=ok, world=of_files, kinds=["sigkill"], double=False)
    assert {point.attempt for point in report.points} == {1, 2, 3}
