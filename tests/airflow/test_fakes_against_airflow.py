"""The fakes of the testing kit against a real Airflow: the same cases on both, and the outcomes must be the same.

Whichever Airflow is installed: `make next` runs this file on the pre-release of the next one.
"""

from __future__ import annotations

import asyncio
import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Asset

from airflow_resume.last_message import before_last_message
from airflow_resume.testing import FakeAssetStores, TaskAttempt, World
from airflow_resume.testing import task_context as task_context_of
from airflow_resume.testing.fakes.task_instance import UNKNOWN, UNKNOWN_SINCE_3_4
from local_airflow import LocalAirflow
from tests.support.kit import store_facts as facts
from tests.support.kit.next_airflow import FAKES

ROOT = Path(__file__).parents[2]
DAGS = ROOT / "tests" / "support" / "airflow" / "dags" / "facts"
DAG_ID = "store_facts"
RUNS, ENDS = f"{DAG_ID}_runs", f"{DAG_ID}_ends"


def new_world() -> World:
    return World(airflow=FAKES)


def task_context(*, world: World | None = None, **options: Any) -> TaskAttempt:
    return task_context_of(world=world or new_world(), **options)


class Seen:
    """What the real tasks saw, a file for each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __getitem__(self, name: str) -> Any:
        return json.loads((self._folder / f"{name}.json").read_text())


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    home = tmp_path_factory.mktemp("facts")
    folder = home / "seen"
    folder.mkdir()
    env = {"FACTS": str(folder), "AIRFLOW__WORKERS__EXECUTION_API_RETRIES": "1"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])))
        with LocalAirflow(home / "airflow", DAGS, env=env) as running:
            live_through(running, folder)
    return Seen(folder)


def live_through(running: LocalAirflow, folder: Path) -> None:
    """The main run with a retry and a clear while running; a clear; a clear with another list; two runs more."""
    write_items(folder, "a", "b")
    running.wait_until_parsed(DAG_ID, timeout=120)
    run_id = running.trigger(DAG_ID)
    assert running.wait_for_run(DAG_ID, run_id, timeout=400) == "success"
    running.clear(DAG_ID, run_id, "life")
    assert running.wait_for_run(DAG_ID, run_id) == "success"
    write_items(folder, "b", "a", "c")
    body = {"dry_run": False, "dag_run_id": run_id, "task_ids": ["items"], "only_failed": False}
    running.call("POST", f"/api/v2/dags/{DAG_ID}/clearTaskInstances", body={**body, "include_downstream": True})
    assert running.wait_for_run(DAG_ID, run_id) == "success"
    for name in ("run-1", "run-2", "run-3"):
        assert running.wait_for_run(RUNS, running.trigger(RUNS, run_id=name)) == "success"
    assert running.wait_for_run(ENDS, running.trigger(ENDS), timeout=200) == "failed"


def write_items(folder: Path, *items: str) -> None:
    (folder / "items").write_text(json.dumps(items))


@pytest.mark.parametrize("name", facts.TASK_CASES)
def test_the_store_of_a_task(real: Seen, name: str) -> None:
    store = new_world().task_store(("dag", "run", "task", -1))
    assert facts.run_case(store, facts.TASK_CASES[name]) == real["task"][name]


@pytest.mark.parametrize("name", facts.ASSET_CASES)
def test_the_store_of_an_asset(real: Seen, name: str) -> None:
    assert facts.run_case(FakeAssetStores([facts.ONE]), facts.ASSET_CASES[name]) == real["asset"][name]


def test_looking_assets_up(real: Seen) -> None:
    world = new_world()
    world.know([facts.ONE])
    uri = Asset.ref(uri="s3://facts/first")
    attempt = task_context(assets=[facts.FIRST, uri, facts.SECOND, Asset.ref(name="facts_one")], world=world)
    assert facts.asset_look_ups(attempt.asset_stores) == real["look_ups"]


def test_an_asset_that_airflow_does_not_know(real: Seen) -> None:
    attempt = task_context(assets=[Asset.ref(uri="s3://facts/nowhere")])
    assert facts.look_ups_of_an_unknown_asset(attempt.asset_stores) == real["unknown"]


def seen(attempt: TaskAttempt, mark: object) -> dict[str, Any]:
    return facts.seen_by_an_attempt(attempt.context, mark)


def test_a_retry_and_a_clear(real: Seen) -> None:
    attempt = task_context(dag_id=DAG_ID, task_id="life", assets=[facts.LIFE], retries=2)
    assert seen(attempt, 1) == real["life_1"]
    attempt = attempt.retry()
    assert seen(attempt, 2) == real["life_2"]
    attempt.clear_another_task()
    assert seen(attempt.clear(), 3) == real["life_3"]


def test_a_run_keeps_its_start_over_retries_and_clears_until_it_is_over(real: Seen) -> None:
    first = task_context(dag_id=DAG_ID, task_id="life")
    attempts = [first, first.retry(), first.clear()]
    starts = [str(attempt.context["dag_run"].start_date) for attempt in attempts]
    of_life = [real[f"start_of_life_{number}"] for number in (1, 2, 3)]
    while_running = [real[f"start_of_cleared_{number}"] for number in (1, 2)]
    assert _which_are_the_same(starts) == _which_are_the_same(of_life) == [True, False]
    assert of_life[1:2] + while_running[:1] == while_running, "others were cleared, or this one while it ran"
    again = first.clear(while_running=True).context["dag_run"].start_date
    assert str(again) == starts[-1]


def _which_are_the_same(found: list[str]) -> list[bool]:
    return [one == other for one, other in pairwise(found)]


def test_a_clear_while_running(real: Seen) -> None:
    replaced = task_context(dag_id=DAG_ID, task_id="cleared_while_running", assets=[facts.CLEARED], retries=2)
    assert seen(replaced, 1) == real["cleared_1"]
    attempt = replaced.clear(while_running=True)
    assert facts.seen_when_replaced(replaced.context) == real["replaced"]
    with attempt:
        assert seen(attempt, 2) == real["cleared_2"]


def test_a_mapped_task_whose_list_changes(real: Seen) -> None:
    world = new_world()
    named: dict[str, Any] = {"dag_id": DAG_ID, "task_id": "mapped", "assets": [facts.MAPPED], "retries": 1}
    before = [task_context(map_index=index, world=world, **named) for index in range(2)]
    for attempt, item in zip(before, "ab", strict=True):
        assert without_clears(seen(attempt, item)) == without_clears(real[f"mapped_2_{item}"])
    for attempt, item in zip(before[0].remap("bac"), "bac", strict=True):
        assert without_clears(seen(attempt, item)) == without_clears(real[f"mapped_3_{item}"])


def without_clears(found: dict[str, Any]) -> dict[str, Any]:
    """How often other tasks of the run were cleared is told by the other tests."""
    return {name: value for name, value in found.items() if name != "clear_number"}


def test_another_run(real: Seen) -> None:
    attempt = task_context(assets=[facts.RUNS], retries=0, dag_id=RUNS, task_id="run", run_id="run-1")
    for run_id in ("run-1", "run-2", "run-3"):
        assert seen(attempt, run_id) == real[run_id]
        assert facts.seen_of_events(attempt.context, run_id) == real[f"events_{run_id}"]
        assert facts.seen_of_xcoms(attempt.context, run_id) == real[f"xcoms_{run_id}"]
        attempt.succeed()
        attempt = attempt.next_run()


def test_ti_and_dag_run_have_what_the_real_ones_have(real: Seen) -> None:
    attempt = task_context(assets=[facts.RUNS], retries=0, dag_id=RUNS, task_id="run", run_id="run-1")
    unknown = UNKNOWN if FAKES == "3.3" else UNKNOWN | UNKNOWN_SINCE_3_4
    ours = facts.attributes_of(attempt.context)
    for thing, theirs in real["attributes_run-1"].items():
        missing = unknown if thing == "ti" else {}
        assert {
            name: kind for name, kind in theirs.items() if name not in missing and ours[thing].get(name) != kind
        } == {}
    assert set(unknown) <= set(real["attributes_run-1"]["ti"])


@pytest.mark.parametrize(
    "end", ["succeeds_0", "fails_0", "fails_1", "gives_up_0", "skips_0", "exits_0", "exits_1", "reschedules_0"]
)
def test_at_its_end_an_attempt_may_still_write_and_its_generators_are_not_finalised(real: Seen, end: str) -> None:
    with task_context() as attempt:
        left, found = facts.LeftOpen(attempt.context), []
        before_last_message(
            lambda _: found.append(left.seen()), owner=attempt.task_store, key="l", is_abandoned=lambda: False
        )
        loop = asyncio.new_event_loop()
        loop.run_until_complete(anext(left.elements))
        loop.close()
    assert real[f"end_of_{end}"] == found[0]
    assert found[0]["set"] == "None"
    assert found[0]["finalised"] is False
