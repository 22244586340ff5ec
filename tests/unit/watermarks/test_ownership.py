"""A mark has one owner: two that move it would skip each other's rows."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_resume.errors import WatermarkMismatchError
from airflow_resume.testing import TaskAttempt, World, task_context
from airflow_resume.watermarks.marks.mark_record import MarkRecord, Owner
from airflow_resume.watermarks.marks.ownership import Mover, Ownership
from tests.support.watermarks.whole_numbers import MARK, NUMBERS, Counter, load, marks, numbers, stands

LOAD, OTHER = Owner(dag_id="etl", task_id="load"), Owner(dag_id="etl", task_id="other")
ABROAD = Owner(dag_id="abroad", task_id="load")
TASKS = {"load": 0, "other": 0}

TABLE: list[tuple[Owner | None, bool, Owner | None, bool, Any, Ownership]] = [
    # owner of the mark, shared, the task, shared, tasks of its Dag
    (None, False, LOAD, False, TASKS, Ownership.FREE),
    (LOAD, False, None, False, None, Ownership.FREE),
    (LOAD, False, LOAD, False, TASKS, Ownership.MINE),
    (LOAD, True, LOAD, False, TASKS, Ownership.MINE),
    (LOAD, False, OTHER, False, TASKS, Ownership.TAKEN),
    (LOAD, False, OTHER, True, TASKS, Ownership.TAKEN),
    (LOAD, True, OTHER, False, TASKS, Ownership.TAKEN),
    (LOAD, True, OTHER, True, TASKS, Ownership.SHARED),
    (LOAD, False, OTHER, False, {"other": 0}, Ownership.LEFT),
    (LOAD, False, OTHER, False, None, Ownership.TAKEN),
    (LOAD, False, ABROAD, False, {"load": 0}, Ownership.TAKEN),
    (LOAD, True, ABROAD, True, {"load": 0}, Ownership.SHARED),
]


@pytest.mark.parametrize(("owner", "is_shared", "task", "shares", "task_ids", "found"), TABLE)
def test_whose_a_mark_is(
    *, owner: Owner | None, is_shared: bool, task: Owner | None, shares: bool, task_ids: Any, found: Ownership
) -> None:
    record = MarkRecord(key=MARK, type="int", at="0", epoch="e", owner=owner, shared=True if is_shared else None)
    assert Mover(owner=task, shared=shares, task_ids=task_ids).ownership(record) is found
    print(f"{owner} | {is_shared} | {task} | {shares} | {found.value}")


def of(world: World, dag_id: str, task_id: str = "load", run_id: str = "run-1") -> TaskAttempt:
    return task_context(assets=[NUMBERS], world=world, dag_id=dag_id, task_id=task_id, run_id=run_id)


@pytest.mark.parametrize(("dag_id", "task_id"), [("abroad", "load"), ("etl", "other")])
def test_a_second_mover_fails_before_it_loads_and_names_both(dag_id: str, task_id: str) -> None:
    world, clock = World(), Counter(10)
    load(of(world, "etl"), numbers(clock))
    clock.number = 20
    second = of(world, dag_id, task_id)
    with pytest.raises(WatermarkMismatchError, match=r"(?s)'load' of the Dag 'etl'.*name=.*shared=True") as raised:
        numbers(clock).begin(second.context)
    assert f"the task '{task_id}' of the Dag '{dag_id}'" in str(raised.value)
    assert isinstance(raised.value, AirflowFailException)
    load(of(world, "etl", run_id="run-2"), numbers(clock))
    assert stands(second) == "20"


def test_of_two_that_begin_at_a_mark_without_an_owner_the_second_does_not_move_it() -> None:
    world, clock = World(), Counter(10)
    first, second = of(world, "etl"), of(world, "abroad")
    numbers(clock).reset(first.context, 0)
    mark, other = numbers(clock), numbers(clock)
    windows = [mark.begin(first.context)]
    clock.number = 20
    windows.append(other.begin(second.context))
    mark.commit(first.context, windows[0])
    with pytest.raises(WatermarkMismatchError, match="is moved by"):
        other.commit(second.context, windows[1])
    assert marks(first)[MARK]["owner"] == {"dag_id": "etl", "task_id": "load"}


def test_two_that_say_so_share_a_mark() -> None:
    world, clock = World(), Counter(10)
    first = load(of(world, "etl"), numbers(clock, shared=True))
    clock.number = 20
    second = load(of(world, "abroad"), numbers(clock, shared=True))
    assert (first.end, second.start, second.end) == (10, 10, 20)
    with pytest.raises(WatermarkMismatchError, match="is moved by"):
        numbers(clock).begin(of(world, "etl", run_id="run-2").context)


def test_a_backfill_that_moves_nothing_may_be_of_another_dag() -> None:
    world, clock = World(), Counter(10)
    load(of(world, "etl"), numbers(clock))
    second = of(world, "abroad")
    second.context["dag_run"].conf = {"watermark": {"watermark": {"from": 2, "to": 5}}}
    assert numbers(clock).begin(second.context).end == 5


def test_a_mark_is_handed_over_by_hand() -> None:
    world, clock = World(), Counter(10)
    load(of(world, "etl"), numbers(clock))
    clock.number = 20
    second = of(world, "abroad")
    with pytest.raises(WatermarkMismatchError, match='Type "10" under') as raised:
        numbers(clock).begin(second.context)
    assert "in the asset's state in Airflow's UI" in str(raised.value)
    second.asset_stores[NUMBERS].set(MARK, "10")
    window = load(second, numbers(clock))
    assert (window.start, window.end) == (10, 20)
    assert marks(second)[MARK]["owner"] == {"dag_id": "abroad", "task_id": "load"}


def test_a_task_that_was_renamed_takes_its_mark_over(caplog: pytest.LogCaptureFixture) -> None:
    world, clock = World(), Counter(10)
    load(of(world, "etl"), numbers(clock))
    clock.number = 20
    renamed = of(world, "etl", "load_orders", run_id="run-2")
    dag = renamed.context["dag"]
    dag.task_dict.pop("load")
    window = load(renamed, numbers(clock))
    assert (window.start, window.end) == (10, 20)
    assert "which its Dag has no longer" in caplog.text
