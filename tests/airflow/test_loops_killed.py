"""Loops on a real Airflow whose tasks die, stall, are told to go, run out of time, or are cleared.

What the bodies wrote down is compared with the source: nothing skipped, in order, and again only what was not
committed. `pytest -s` prints the numbers that are compared.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from stage import Stage
from tests.support.airflow.loop_runs import LoopRun

pytestmark = [pytest.mark.side_by_side, pytest.mark.usefixtures("playing")]

SYNC: dict[str, Any] = {"durability": "sync"}


def say(run: LoopRun, **facts: object) -> None:
    print(run.dag_id, *(f"{name}={value}" for name, value in facts.items()))


def kill_at_each(run: LoopRun, *, loop: str = "loop", holds: Sequence[int] = (0,)) -> list[int]:
    """Kill -9 the task at each hold; how many elements were committed then."""
    return [run.kill_at(number, loop=loop) for number in holds]


# --- how many elements ----------------------------------------------------------------------------------------


def test_a_loop_of_one_element_delivers_it_again_and_then_no_more(shared_stage: Stage) -> None:
    run = LoopRun.start(shared_stage, "loops", count=1, holds=[["loop", 0], ["after", "all loops"]])
    committed = kill_at_each(run, holds=[0, 1])
    assert run.end() == "success"
    say(run, delivered=run.delivered().attempts, committed=committed)
    assert run.delivered().attempts == [[0], [0]]
    assert committed == [0, 1]
    assert run.elements("after") == ["all loops"] * 2


def test_ten_thousand_elements_and_three_kills_lose_none(shared_stage: Stage) -> None:
    count, places = 10_000, [2_000, 5_000, 9_999]
    holds = [["loop", place] for place in places]
    run = LoopRun.start(shared_stage, "loops", count=count, holds=holds, interval=0.25, pace=0.0002)
    committed = kill_at_each(run, holds=[0, 1, 2])
    assert run.end() == "success"
    delivered, again = run.delivered(), run.delivered().overlaps(range(count))
    say(run, committed=committed, again=again)
    resumed_at = [attempt[0] for attempt in delivered.attempts[1:]]
    assert all(saved <= start <= place for saved, start, place in zip(committed, resumed_at, places, strict=True))
    assert committed[-1] > 0
    assert run.result() == [sum(range(count))]
    assert run.committed() == count


def test_in_sync_only_the_element_in_hand_is_delivered_again(shared_stage: Stage) -> None:
    holds = [["loop", 3], ["loop", 4], ["loop", 11]]
    run = LoopRun.start(shared_stage, "loops", count=12, holds=holds, **SYNC)
    committed = kill_at_each(run, holds=[0, 1, 2])
    assert run.end() == "success"
    say(run, committed=committed, delivered=run.delivered().attempts)
    assert committed == [3, 4, 11]
    assert run.delivered().overlaps(range(12)) == [1, 1, 1]
    assert [line.more["number"] for line in run.lines()] == run.elements()
    assert "resumed at element 12 of 12" in run.log_from(4)


# --- several loops --------------------------------------------------------------------------------------------


def test_of_two_loops_in_a_task_each_goes_on_where_it_was(shared_stage: Stage) -> None:
    holds = [["first", 5], ["second", 7]]
    run = LoopRun.start(shared_stage, "loops", count=10, loops=["first", "second"], holds=holds, **SYNC)
    committed = [run.kill_at(0, loop="first"), run.kill_at(1, loop="second")]
    assert run.end() == "success"
    say(run, committed=committed, first=run.delivered("first").attempts, second=run.delivered("second").attempts)
    assert committed == [5, 7]
    assert run.delivered("first").attempts == [[0, 1, 2, 3, 4, 5], [5, 6, 7, 8, 9]]
    assert run.delivered("second").attempts == [[0, 1, 2, 3, 4, 5, 6, 7], [7, 8, 9]]
    assert run.result() == [45, 45]


def test_each_instance_of_a_mapped_task_goes_on_at_its_own_element(shared_stage: Stage) -> None:
    items, holds = ["a", "b"], [["loop", 4]]
    run = LoopRun.over(shared_stage, "loops_expanded", items=items, count=8, holds=holds, **SYNC)
    instances = [run.at(index) for index in range(len(items))]
    for instance in instances:
        instance.kill_at(0)
    assert run.end() == "success"
    for item, instance in zip(items, instances, strict=True):
        say(run, item=item, delivered=instance.delivered().attempts)
        assert instance.delivered().attempts == [[0, 1, 2, 3, 4], [4, 5, 6, 7]]
        assert {line.more["item"] for line in instance.lines()} == {item}


def test_a_deferral_between_two_loops_loses_the_place_in_neither(shared_stage: Stage) -> None:
    holds = [["before", 2], ["behind", 3]]
    run = LoopRun.start(shared_stage, "loops_deferred", count=5, holds=holds, **SYNC)
    run.kill_at(0, loop="before")
    run.defer_once(2)
    run.kill_at(1, loop="behind")
    run.defer_once(3)
    assert run.end() == "success"
    say(run, before=run.delivered("before").attempts, behind=run.delivered("behind").attempts)
    assert run.delivered("before").attempts == [[0, 1, 2], [2, 3, 4]]
    assert run.delivered("behind").attempts == [[0, 1, 2, 3], [3, 4]]
    assert run.result() == 10


# --- time-outs, stalls, clears --------------------------------------------------------------------------------


def test_a_time_out_in_a_store_call_hands_no_key_the_value_of_another(shared_stage: Stage) -> None:
    timeouts = 3
    run = LoopRun.start(shared_stage, "loops_short", timeouts=timeouts)
    assert run.end() == "success"
    interrupted = run.lines("interrupted")
    in_store_calls = sum("airflow_resume.channel.result" in line.element for line in interrupted)
    attempts = run.delivered().attempts
    resumed = [[before[-1], after[0]] for before, after in pairwise(attempts)]
    say(run, time_outs=len(interrupted), of_them_in_store_calls=in_store_calls, last_and_first=resumed)
    assert len(interrupted) >= timeouts
    assert in_store_calls >= 1
    wrong = {
        key: value for line in interrupted for key, value in line.more["read"].items() if value != f"that of {key}"
    }
    assert wrong == {}
    assert run.elements() == [element for attempt in attempts for element in attempt]
    assert all(after in {before, before + 1} for before, after in resumed)


@pytest.mark.parametrize(("durability", "more"), [("sync", 0), ("async", 10)])
def test_a_stalled_attempt_that_wakes_up_delivers_nothing_more_once_a_write_is_refused(
    shared_stage: Stage, durability: str, more: int
) -> None:
    """Written in the background, elements may come until the answer is there, and no more than may be uncommitted."""
    options = {"durability": durability, "max_uncommitted": 10, "interval": 0.1}
    run = LoopRun.start(shared_stage, "loops", count=40, pace=0.02, holds=[["loop", 20], ["loop", 30]], **options)
    run.until_held(0)
    old = run.process
    stalled = [run.supervisor, old]
    for process in stalled:
        process.suspend()
    try:
        run.until_held(1)
    finally:
        run.let_go(0)
        for process in stalled:
            process.resume()
    run.until_gone(old)
    run.let_go(1)
    assert run.end() == "success"
    attempts = run.delivered().attempts
    say(run, durability=durability, delivered=[(attempt[0], attempt[-1]) for attempt in attempts])
    assert attempts[0] == list(range(len(attempts[0])))
    assert 21 <= len(attempts[0]) <= 21 + more
    assert run.delivered().overlaps(range(40))
    assert run.result() == [sum(range(40))]


def test_a_cleared_task_starts_over(shared_stage: Stage) -> None:
    run = LoopRun.start(shared_stage, "loops", count=5)
    assert run.end() == "success"
    run.clear()
    run.until(lambda: run.task["try_number"] > 1, "another try")
    assert run.end() == "success"
    say(run, delivered=run.delivered().attempts)
    assert run.delivered().attempts == [[0, 1, 2, 3, 4]] * 2
    assert run.result() == [10]


# --- told to go -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("told", ["process", "supervisor"])
@pytest.mark.parametrize("dag_id", ["loops", "loops_once"])
def test_a_loop_whose_worker_goes_goes_on_in_the_same_try_and_repeats_no_element(
    shared_stage: Stage, dag_id: str, told: str
) -> None:
    run = LoopRun.start(shared_stage, dag_id, count=10, holds=[["loop", 4]])
    tell_to_go(run, told)
    assert run.end() == "success"
    say(run, delivered=run.processes(), tries=run.tries(), retries=run.task["max_tries"])
    assert run.processes() == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert run.tries() == {1}
    assert run.task["try_number"] == 1
    assert "resumed at element 6 of 10" in run.log(1)


def test_a_loop_within_another_is_saved_with_it_when_the_worker_goes(shared_stage: Stage) -> None:
    run = LoopRun.start(shared_stage, "loops_nested_once", holds=[["rows", ["b", 2]]])
    tell_to_go(run, "supervisor")
    assert run.end() == "success"
    pairs = [[table, row] for table in "abcd" for row in range(5)]
    say(run, delivered=[len(each) for each in run.processes("rows")], tries=run.tries("rows"))
    assert run.processes("rows") == [pairs[:8], pairs[8:]]
    assert run.tries("rows") == {1}


def test_an_async_loop_whose_worker_goes_repeats_no_element_either(shared_stage: Stage) -> None:
    run = LoopRun.start(shared_stage, "loops_async", count=10, holds=[["loop", 4]])
    tell_to_go(run, "supervisor")
    assert run.end() == "success"
    say(run, delivered=run.processes(), tries=run.tries())
    assert run.processes() == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert run.tries() == {1}


@pytest.mark.parametrize("dag_id", ["loops_map", "loops_amap"])
def test_a_parallel_loop_whose_worker_goes_finishes_what_is_in_flight(shared_stage: Stage, dag_id: str) -> None:
    held = [4, 5, 6, 7]  # one for each worker
    run = LoopRun.start(shared_stage, dag_id, count=12, holds=[["function", element] for element in held])
    tell_to_go(run, "supervisor", holds=range(len(held)))
    assert run.end() == "success"
    say(run, delivered=run.processes("function"), tries=run.tries("function"))
    first, second = run.processes("function")
    assert sorted(first + second) == list(range(12))
    assert set(held) <= set(first)
    assert run.tries("function") == {1}
    assert run.result() == 2 * sum(range(12))


def test_a_loop_that_is_to_fail_when_its_worker_goes_uses_a_retry(shared_stage: Stage) -> None:
    run = LoopRun.start(shared_stage, "loops", count=10, holds=[["loop", 4]], on_shutdown="fail")
    tell_to_go(run, "supervisor")
    assert run.end() == "success"
    say(run, delivered=run.delivered().attempts)
    assert run.delivered().attempts == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert "LoopStoppedError: The task was told to stop (shutdown)" in run.log(1)
    assert "resumed at element 6 of 10" in run.log_from(2)


def test_a_loop_that_a_person_marks_as_failed_does_not_come_back(shared_stage: Stage) -> None:
    run = LoopRun.start(shared_stage, "loops", count=10, holds=[["loop", 4]])
    run.until_held()
    process = run.process
    run.mark("failed")
    run.until_told_to_stop()
    run.let_go()
    run.until_gone(process)
    assert run.end() == "failed"
    say(run, delivered=run.processes())
    assert run.processes() == [[0, 1, 2, 3, 4]]
    assert "LoopStoppedError: The task was told to stop (user)" in run.log(1)


def tell_to_go(run: LoopRun, told: str, *, holds: Sequence[int] = (0,)) -> None:
    """SIGTERM in the middle of elements, which are then finished."""
    for number in holds:
        run.until_held(number)
    process = run.process
    getattr(run, told).send_signal(signal.SIGTERM)
    run.until_told_to_stop()
    for number in holds:
        run.let_go(number)
    run.until_gone(process)


# --- nested, parallel, asynchronous ---------------------------------------------------------------------------


def test_a_nested_loop_goes_on_within_the_element_of_the_outer_one(shared_stage: Stage) -> None:
    holds = [["rows", ["b", 3]], ["rows", ["c", 0]], ["rows", ["d", 4]]]
    run = LoopRun.start(shared_stage, "loops_nested", holds=holds, **SYNC)
    kill_at_each(run, loop="tables", holds=[0, 1, 2])
    assert run.end() == "success"
    pairs = [[table, row] for table in "abcd" for row in range(5)]
    say(run, began_at=[attempt[0] for attempt in run.delivered("rows").attempts])
    assert run.delivered("rows").overlaps(pairs) == [1, 1, 1]
    assert run.result() == 20


def test_a_slow_element_of_a_parallel_loop_is_the_only_one_done_again(shared_stage: Stage) -> None:
    slow_one_is_done_again(LoopRun.start(shared_stage, "loops_map", count=40, holds=[["function", 5]], **SYNC))


def test_a_slow_element_of_a_parallel_async_loop_is_the_only_one_done_again(shared_stage: Stage) -> None:
    slow_one_is_done_again(LoopRun.start(shared_stage, "loops_amap", count=40, holds=[["function", 5]], **SYNC))


def slow_one_is_done_again(run: LoopRun) -> None:
    run.until(lambda: run.committed() == 39, "all but the slow one are done")
    run.process.kill()
    assert run.end() == "success"
    say(run, function=run.delivered("function").attempts)
    first, *later = run.delivered("function").attempts
    assert (sorted(first), later) == (list(range(40)), [[5]])
    assert sorted(run.elements("result")) == [2 * element for element in range(40)]
    assert run.result() == 2 * sum(range(40))


def test_an_async_loop_goes_on_at_the_element_in_hand(shared_stage: Stage) -> None:
    run = LoopRun.start(shared_stage, "loops_async", count=10, holds=[["loop", 4], ["loop", 9]], **SYNC)
    committed = kill_at_each(run, holds=[0, 1])
    assert run.end() == "success"
    say(run, committed=committed, delivered=run.delivered().attempts)
    assert committed == [4, 9]
    assert run.delivered().overlaps(range(10)) == [1, 1]
    assert run.result() == 45


# --- left open ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["async for", "amap", "iter held", "generator expression held"])
def test_a_loop_that_nothing_closes_goes_on_at_the_element_in_hand(shared_stage: Stage, form: str) -> None:
    run = LoopRun.start(shared_stage, "loops_left_open", form=form, count=10, fails=[0, 0, 0, 0, 4, 9])
    assert run.end() == "success"
    say(run, form=form, delivered=run.delivered().attempts)
    assert run.delivered().attempts == [[0], [0], [0], [0], [0, 1, 2, 3, 4], [4, 5, 6, 7, 8, 9], [9]]
    assert run.result() == 10
    assert run.state_store()["resume.loop.loop"]["at"]["stalls"] == 0
