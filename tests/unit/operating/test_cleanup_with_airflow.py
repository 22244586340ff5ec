"""`cleanup --airflow`: what Airflow has no reference to is deleted, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.state import AssetScope, TaskScope

from airflow_resume.backends import SqlStoreBackend
from airflow_resume.operating.api import AirflowApi
from airflow_resume.operating.places import ENVELOPE
from airflow_resume.operating.references import references_of
from tests.support.operating.fake_airflow import FakeAirflow

Command = Callable[..., Any]


class Kept:
    """A database of values, and what the fake Airflow knows of them."""

    def __init__(self, url: str, airflow: FakeAirflow) -> None:
        self.url, self.airflow = url, airflow
        before = datetime.now(timezone.utc) - timedelta(days=1)
        self.backend = SqlStoreBackend(url, inline_bytes=0, now=lambda: before)

    def task(self, run: str, index: int = -1, *, is_there: bool = True) -> None:
        scope = TaskScope(dag_id="d", run_id=run, task_id="t", map_index=index)
        reference = self.backend.serialize_task_state_store_to_ref(value="x" * 50, key="k", scope=scope)
        if is_there:
            self.airflow.task("d", run, "t", index, k={ENVELOPE: reference}, inline={ENVELOPE: '{"a": 1}'}, plain=7)

    def asset(self, name: str, *, is_there: bool = True) -> None:
        scope = AssetScope(name=name)
        reference = self.backend.serialize_asset_state_store_to_ref(value="x" * 50, key="k", scope=scope)
        self.airflow.asset(name, **({"k": {ENVELOPE: reference}} if is_there else {}))

    def left(self) -> list[str]:
        return sorted(
            str(judged.scope.get("run_id") or judged.scope["asset_name"]) for judged in self.backend.plan_cleanup()
        )


@pytest.fixture
def kept(tmp_path: Path, airflow: FakeAirflow) -> Iterator[Kept]:
    airflow.others["/version"] = (200, {"version": "3.3.2"})
    made = Kept(f"sqlite:///{tmp_path / 'state.db'}", airflow)
    with closing(made.backend):
        yield made


def test_values_of_runs_that_were_deleted_go_and_those_with_a_reference_stay(kept: Kept, command: Command) -> None:
    kept.task("kept", 0)
    kept.task("kept", 1)
    kept.asset("orders")
    for number in range(96):
        kept.task(f"gone{number}", is_there=False)
    kept.asset("emptied", is_there=False)
    arguments = ("cleanup", kept.url, "--airflow", kept.airflow.url)
    plan = json.loads(command(*arguments, "--dry-run", "-o", "json").out)
    assert (plan["deleted"], plan["kept"], len(kept.left())) == (97, 3, 100)
    code, out, err = command(*arguments, "-v")
    assert (code, out) == (0, "Deleted 0 expired and 97 orphaned values\n")
    assert kept.left() == ["kept", "kept", "orders"]
    assert int(err.split()[0]) <= 1 + 1 + 1 + 97 + 3 + 1, "the login, the version, the assets, each scope once"


def test_doctor_counts_them_and_deletes_nothing(kept: Kept, command: Command) -> None:
    kept.airflow.be_asked_by_doctor()
    arguments = ("doctor", kept.url, "--airflow", kept.airflow.url)
    kept.task("kept")
    assert "1, each of a run or an asset that is there" in command(*arguments).out
    kept.task("gone", is_there=False)
    code, out, _ = command(*arguments)
    assert code == 0
    assert "1 of 2 belong to no run or asset that is there" in out
    assert kept.left() == ["gone", "kept"]


def test_without_an_airflow_they_all_stay(kept: Kept, command: Command) -> None:
    kept.task("gone", is_there=False)
    assert command("cleanup", kept.url).out == "Deleted 0 expired and 0 orphaned values\n"
    assert kept.left() == ["gone"]


def test_an_airflow_without_any_reference_is_taken_for_another_one(kept: Kept, command: Command) -> None:
    kept.task("gone", is_there=False)
    arguments = ("cleanup", kept.url, "--airflow", kept.airflow.url)
    code, out, err = command(*arguments)
    assert (code, out) == (1, "")
    assert "Is it the Airflow that uses this database?" in err
    assert kept.left() == ["gone"]
    assert command(*arguments, "--all-gone").code == 0
    assert kept.left() == []


@pytest.mark.parametrize("answer", [(403, {}), (500, {}), (404, None)], ids=["forbidden", "broken", "no Airflow"])
def test_if_airflow_does_not_say_everything_nothing_is_deleted(
    kept: Kept, command: Command, answer: tuple[int, Any]
) -> None:
    kept.task("kept")
    kept.task("gone", is_there=False)
    if answer[0] == 404:
        kept.airflow.others.clear()
    else:
        kept.airflow.answers += [None, None, answer]
    assert command("cleanup", kept.url, "--airflow", kept.airflow.url).code == 1
    assert kept.left() == ["gone", "kept"]


def test_an_asset_with_another_uri_by_now_keeps_the_values_of_both(kept: Kept, command: Command) -> None:
    kept.asset("orders", is_there=False)
    kept.asset("orders")
    assert command("cleanup", kept.url, "--airflow", kept.airflow.url).code == 0
    assert kept.left() == ["orders"]


def test_a_region_of_airflow_3_4_is_asked_for_by_its_id(airflow: FakeAirflow, api: AirflowApi) -> None:
    airflow.others["/version"] = (200, {"version": "3.4.0"})
    scope = {"dag_id": "d", "run_id": "r", "task_id": "t", "map_index": 4, "region_id": "0f" * 16}
    assert references_of(api, [scope]) == []
    asked = [params for path, params in airflow.asked if path.endswith("/state-store")]
    assert [(each["region_id"], each["region_index"]) for each in asked] == [(["0f" * 16], ["4"])]


def test_a_reference_that_makes_no_sense_deletes_nothing(kept: Kept, command: Command) -> None:
    kept.task("kept")
    kept.task("gone", is_there=False)
    kept.airflow.states["d", "kept", "t", -1]["other"] = {ENVELOPE: "airflow-resume:1:cut off"}
    code, _, err = command("cleanup", kept.url, "--airflow", kept.airflow.url)
    assert code == 1
    assert "cut off" in err
    assert kept.left() == ["gone", "kept"]
