"""`doctor --airflow`: a table of what it says, and the questions that it asks."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from airflow_resume.command.console import Severity
from airflow_resume.command.doctor import AirflowFacts, judge
from tests.support.operating.fake_airflow import FakeAirflow
from tests.support.operating.records import JOB, LOOP, lost_job, moved_mark, stopped_loop
from tests.support.watermarks.whole_numbers import MARK

WELL = AirflowFacts(
    airflow="3.3.2",
    here="0.2.0",
    there="0.2.0",
    latency=0.02,
    clock_seconds=0.0,
    health={"scheduler": "healthy"},
    settings={("state_store", "default_retention_days"): "30"},
    counts={"jobs": 1, "loops": 2, "marks": 0},
    looked=5,
    total=5,
)


def settings(**options: str) -> AirflowFacts:
    return replace(WELL, settings={tuple(name.split("__")): value for name, value in options.items()})  # type: ignore[misc]


SQL = "airflow_resume.backends.SqlStoreBackend"
CASES: dict[str, tuple[AirflowFacts, str, str]] = {
    "no state stores": (replace(WELL, airflow="3.2.1"), "error", "has no state stores"),
    "another release on the server": (replace(WELL, there="0.1.0"), "warning", "0.1.0 on the API server"),
    "the scheduler is away": (replace(WELL, health={"scheduler": "unhealthy"}), "error", "unhealthy"),
    "the API is slow": (replace(WELL, latency=0.4), "warning", "400 ms an answer"),
    "the clocks differ": (replace(WELL, clock_seconds=-70.0), "warning", "70 s behind"),
    "the settings are not shown": (replace(WELL, settings=None), "warning", "does not show them"),
    "the backend is in the wrong place": (settings(state_store__backend=SQL), "error", SQL),
    "the backend has no database": (settings(workers__state_store_backend=SQL), "warning", "knows no database of it"),
    "records go at success": (settings(state_store__clear_on_success="True"), "warning", "deleted when their task"),
    "a loop stalls": (replace(WELL, troubles={"loops": ["d r t l: stalled"]}), "warning", "1 of 2 in trouble: d r t l"),
    "runs are gone": (replace(WELL, values=(2, 5)), "warning", "2 of 5 belong to no run"),
    "many are in trouble": (replace(WELL, troubles={"loops": ["a", "b", "c", "d"]}), "warning", "a; b; c; ..."),
}


def test_a_deployment_that_is_well_has_no_warning() -> None:
    assert {finding.level for finding in judge(replace(WELL, values=(0, 5)))} == {Severity.OK}


@pytest.mark.parametrize("case", CASES)
def test_findings(case: str) -> None:
    facts, level, says = CASES[case]
    [found] = [finding for finding in judge(facts) if finding.level is not Severity.OK]
    print(f"{case:35} -> {found.level.value}: {found.about}: {found.found}")
    assert found.level.value == level
    assert says in found.found
    assert found.remedy


def test_a_backend_that_is_set_up_is_well() -> None:
    facts = settings(workers__state_store_backend=SQL, airflow_resume__backend_url="< hidden >")
    assert {finding.level for finding in judge(facts)} == {Severity.OK}


def test_it_asks_and_says_what_is_in_trouble(airflow: FakeAirflow, command: Callable[..., Any]) -> None:
    airflow.be_asked_by_doctor()
    airflow.task("d", "r", "t", **{LOOP: stopped_loop(), JOB: lost_job()})
    airflow.task("d", "r", "u", **{LOOP: {"v": 99, "key": LOOP}})
    airflow.asset("numbers", **{MARK: {k: v for k, v in moved_mark().items() if k != "owner"}})
    code, out, _ = command("doctor", "--airflow", airflow.url, "-o", "json")
    found = {finding["about"]: finding for finding in json.loads(out)["findings"]}
    assert code == 0
    assert "9.9 on the API server" in found["airflow-resume"]["found"]
    assert found["retention"]["found"].startswith("30 days")
    assert found["jobs"]["found"].startswith("1 of 1 in trouble: d r t job: its id was not saved")
    assert found["loops"]["found"].startswith("2 of 2 in trouble: d r t l: the task is over")
    assert "newer version" in found["loops"]["found"]
    assert found["marks"]["found"] == "1 of 1 in trouble: asset numbers watermark: no task owns it"
    assert [call for call in airflow.calls if not call.startswith(("GET", "POST /auth"))] == []


def test_a_user_who_may_not_see_the_settings_is_told_so(airflow: FakeAirflow, command: Callable[..., Any]) -> None:
    airflow.be_asked_by_doctor(shows_settings=False)
    airflow.others["/monitor/health"] = (200, {"scheduler": {"status": "unhealthy"}})
    code, out, _ = command("doctor", "--airflow", airflow.url)
    assert code == 1
    assert "the API does not show them to this user" in out


def test_it_looks_at_one_thing_at_a_time(command: Callable[..., Any]) -> None:
    assert command("doctor", "--dags", ".", "--airflow", "http://x").code == 1
