"""What people on call type, on a real Airflow: what they see, and that the next run goes by what they have changed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from local_airflow import LocalAirflow
from tests.support.airflow.sql_backend_stage import EXPOSE_CONFIG
from tests.support.operating.terminal import Said, typed

DAGS = Path(__file__).parents[1] / "support" / "airflow" / "dags" / "operating"
TASK = "run"
NO_STACK = {"failed", "success"}


class Operated:
    """The Airflow, its board, and a person at a terminal."""

    def __init__(self, airflow: LocalAirflow, board: Path) -> None:
        self.airflow, self.board = airflow, board

    def types(self, *arguments: str) -> Said:
        return typed(self.airflow.ui_url, *arguments)

    def show(self, noun: str, *arguments: str) -> dict[str, Any]:
        said = self.types(noun, "show", *arguments, "-o", "json")
        assert said.code == 0
        found: dict[str, Any] = json.loads(said.out)
        return found

    def run(self, dag_id: str, ends: str, **conf: Any) -> str:
        run_id = self.airflow.trigger(dag_id, conf)
        assert self.airflow.wait_for_run(dag_id, run_id) == ends
        return run_id

    def again(self, dag_id: str, run_id: str) -> str:
        """Clear the task, and wait for the end of the run."""
        before = self.airflow.task_instance(dag_id, run_id, TASK)["try_number"]
        self.airflow.clear(dag_id, run_id, TASK)

        def ended() -> str | None:
            task = self.airflow.task_instance(dag_id, run_id, TASK)
            return str(task["state"]) if task["try_number"] > before and task["state"] in NO_STACK else None

        return self.airflow.wait_for(ended, what=f"another try of {run_id}", timeout=150)

    def lines(self, run_id: str, name: str) -> list[str]:
        return (self.board / f"{run_id}.{name}").read_text().splitlines()

    def log(self, dag_id: str, run_id: str) -> str:
        number = self.airflow.task_instance(dag_id, run_id, TASK)["try_number"]
        return self.airflow.logs(dag_id, run_id, TASK, number)


@pytest.fixture(scope="module")
def operated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    home = Path(tmp_path_factory.mktemp("operated"))
    board = home / "board"
    board.mkdir()
    with LocalAirflow(
        home / "airflow", DAGS, env={"BOARD": str(board), EXPOSE_CONFIG: "non-sensitive-only"}
    ) as airflow:
        for dag_id in ("steered_loop", "steered_job", "steered_mark", "steered_many"):
            airflow.wait_until_parsed(dag_id)
        yield Operated(airflow, board)


def pages(operated: Operated, run_id: str, number: int) -> list[int]:
    """What a try delivered."""
    found = (line.split() for line in operated.lines(run_id, "delivered"))
    return [int(page) for at, page in found if int(at) == number]


# --- loops ------------------------------------------------------------------------------------------------------------


def test_a_loop_that_failed_is_found_set_back_and_cleared(operated: Operated) -> None:
    run_id = operated.run("steered_loop", "failed", fails_at=7)
    there = ("steered_loop", run_id, TASK)
    listed = operated.types("loops", "list", "--trouble")
    assert "7 of 10 (70%)" in listed.out
    assert "the task is over, and the loop is not done" in listed.out
    shown = operated.show("loops", *there)
    assert shown["next"]["a retry"] == "continues after 7 of 10 elements"
    assert shown["next"]["a clear"].startswith("starts over")
    change = ("loops", "rewind", *there, "--to", "4", "--why", "page 4 was wrong", "--record", shown["digest"])
    assert operated.types(*change).code == 0
    assert operated.show("loops", *there)["digest"] == shown["digest"], "without --yes nothing is changed"
    assert operated.types(*change, "--yes").code == 0
    assert operated.types(*change, "--yes").code == 4, "it is another record now"
    assert operated.again("steered_loop", run_id) == "success"
    assert (pages(operated, run_id, 1), pages(operated, run_id, 2)) == ([*range(7)], [*range(3, 10)])
    assert "set back to element 4 by " in operated.log("steered_loop", run_id)
    assert operated.show("loops", *there)["state"] == "done"


def test_a_loop_that_was_set_to_start_over_does_so_and_one_that_was_put_back_does_not(operated: Operated) -> None:
    conf = {"fails_at": 5, "on_clear": "resume"}
    restarted, undone = (operated.run("steered_loop", "failed", **conf) for _ in range(2))
    for run_id in (restarted, undone):
        assert operated.types("loops", "restart", "steered_loop", run_id, TASK, "--yes").code == 0
    assert operated.types("loops", "undo", "steered_loop", "latest", TASK, "--yes").code == 0
    for run_id in (restarted, undone):
        assert operated.again("steered_loop", run_id) == "success"
    assert pages(operated, restarted, 2) == [*range(10)]
    assert pages(operated, undone, 2) == [*range(5, 10)]


def test_a_loop_that_shall_continue_where_it_was_does_so_after_a_clear(operated: Operated) -> None:
    run_id = operated.run("steered_loop", "failed", fails_at=6)
    assert operated.types("loops", "resume", "steered_loop", run_id, TASK, "--yes").code == 0
    assert operated.again("steered_loop", run_id) == "success"
    assert pages(operated, run_id, 2) == [6, 7, 8, 9]


def test_a_loop_whose_task_runs_is_not_changed(operated: Operated) -> None:
    run_id = operated.airflow.trigger("steered_loop", {"holds_at": 3})
    there = ("steered_loop", run_id, TASK)

    def holds() -> bool | None:
        record = operated.airflow.state_store(*there).get("resume.loop.pages")
        return record is not None or None

    operated.airflow.wait_for(holds, what="the loop is opened", timeout=150)
    before = operated.airflow.state_store(*there)
    refused = operated.types("loops", "restart", *there, "--yes")
    assert refused.code == 4
    assert f"The task steered_loop {run_id} run is running" in refused.err
    assert operated.airflow.state_store(*there)["resume.loop.pages"]["at"] == before["resume.loop.pages"]["at"]
    assert "by_hand" not in operated.airflow.state_store(*there)["resume.loop.pages"]
    assert operated.types("loops", "restart", *there, "--yes", "--force").code == 0
    (operated.board / f"{run_id}.go").touch()
    assert operated.airflow.wait_for_run("steered_loop", run_id) == "success"
    assert pages(operated, run_id, 1) == [*range(10)], "a running task goes by what it knows"


# --- jobs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("change", "jobs"), [(["adopt", "job-1"], 1), (["forget"], 2)], ids=["adopt", "forget"])
def test_a_submission_that_was_lost_is_found_and_seen_to(operated: Operated, change: list[str], jobs: int) -> None:
    run_id = operated.run("steered_job", "failed")
    there = ("steered_job", run_id, TASK)
    shown = operated.show("jobs", *there)
    assert shown["state"] == "lost"
    assert shown["trouble"].startswith("its id was not saved: a job may run")
    verb, *more = change
    assert operated.types("jobs", verb, *there, *more, "--yes", "--why", "looked at 03:10").code == 0
    assert operated.again("steered_job", run_id) == "success"
    assert len(operated.lines(run_id, "jobs")) == jobs
    assert operated.airflow.xcom(*there) == f"job-{jobs}"
    assert "looked at 03:10" in operated.log("steered_job", run_id)
    assert operated.show("jobs", *there)["state"] == "succeeded"


# --- marks ------------------------------------------------------------------------------------------------------------


def test_a_mark_is_set_back_and_the_next_run_loads_from_there(operated: Operated) -> None:
    first = operated.run("steered_mark", "success")
    listed = operated.types("marks", "list", "steered_orders")
    assert "2026-01-02T00:00:00+00:00" in listed.out
    assert "steered_mark run" in listed.out
    assert operated.types("marks", "rewind", "steered_orders", "--by", "6h", "--yes", "--why", "late rows").code == 0
    assert "6 h" not in operated.types("marks", "show", "steered_orders").err
    second = operated.run("steered_mark", "success")
    assert operated.lines(first, "windows") == ["01 00 02 00"]
    assert operated.lines(second, "windows") == ["01 18 02 00"]
    assert operated.types("marks", "set", "steered_orders", "2026-01-01T12:00:00Z", "--yes").code == 0
    assert operated.types("marks", "undo", "steered_orders", "--yes").code == 0
    assert operated.types("marks", "reset", "steered_orders", "--yes").code == 0
    third = operated.run("steered_mark", "success")
    assert operated.lines(third, "windows") == ["01 00 02 00"]


# --- all of it --------------------------------------------------------------------------------------------------------


def test_the_doctor_looks_at_the_whole_airflow(operated: Operated) -> None:
    operated.run("steered_loop", "failed", fails_at=2)
    said = operated.types("doctor", "--airflow", operated.airflow.ui_url, "-o", "json")
    found = {finding["about"]: finding for finding in json.loads(said.out)["findings"]}
    assert found["scheduler"]["level"] == "ok"
    assert found["airflow-resume"]["found"].endswith("here and on the API server")
    assert found["clock"]["level"] == "ok"
    assert found["backend (workers)"]["found"].startswith("none")
    assert found["retention"]["found"].startswith("30 days")
    assert "the task is over, and the loop is not done" in found["loops"]["found"]


# --- many -------------------------------------------------------------------------------------------------------------


def test_a_run_of_many_mapped_tasks_is_seen_while_it_runs(operated: Operated) -> None:
    run_id = operated.airflow.trigger("steered_many")

    listed: list[Said] = []

    def several() -> list[dict[str, Any]] | None:
        began = time.monotonic()
        listed.append(operated.types("loops", "list", "steered_many", run_id, "-v", "-o", "json"))
        print(f"{time.monotonic() - began:.1f} s")
        found: list[dict[str, Any]] = json.loads(listed[-1].out)
        return found if len(found) >= 4 else None  # the others have not begun, or not saved anything yet

    rows = operated.airflow.wait_for(several, what="some tasks have begun", timeout=300)
    said = listed[-1]
    assert {row["state"] for row in rows} <= {"running", "done"}
    assert all(row["total"] == 40 for row in rows)
    assert said.requests <= 30 + 2, "the login, a page of task instances, and one for each that has begun"
    operated.airflow.end_run("steered_many", run_id)
