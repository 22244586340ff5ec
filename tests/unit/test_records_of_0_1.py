"""What release 0.1 left in the stores is taken up: no job twice, no element and no mark lost, no field dropped.

And back: 0.1 takes up what this release leaves, or says by name that it cannot.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from airflow_resume import checkpoint
from airflow_resume.loops import PageNumber
from airflow_resume.loops.loop_record import LoopRecord
from airflow_resume.testing import task_context
from tests.support.records import all_kinds as recorded
from tests.support.records import backend as recorded_backend
from tests.support.records.jobs import RESULTS
from tests.support.records.releases import NoHistoryError, run_recorded, unpack

LEFT = Path(__file__).parents[1] / "fixtures" / "records-0.1"
EVERY = {(kind, name): left for kind, name, left in recorded.every(LEFT)}


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_what_was_left_is_taken_up(kind: str, name: str) -> None:
    left = EVERY[kind, name]
    assert recorded.take_up(kind, name, left) == recorded.expected(kind, name, left)


def test_a_database_that_was_left_has_all_values(tmp_path: Path) -> None:
    assert recorded_backend.take_up(recorded.read(LEFT, recorded.BACKEND), tmp_path) == recorded_backend.expected()


def test_records_of_every_phase_and_kind_were_left() -> None:
    """So that a scenario which leaves nothing is noticed."""
    jobs, loops, windows, marks = (_records(prefix) for prefix in ("job", "loop", "window", "watermark"))
    assert {job["phase"] for job in jobs} == {"intent", "submitted", "terminal"}
    assert {job.get("status") for job in jobs} >= {None, "succeeded", "failed"}
    assert {json.dumps(job.get("id")) for job in jobs} >= {"0", '""', "7", "null", '["eu", 7]', '"job-0"'}
    assert sum("result" in job for job in jobs) >= len(RESULTS) - 1
    assert max(len(job["history"]) for job in jobs) == 2
    assert {loop["kind"] for loop in loops} >= {
        "batches", "keyset", "cursor_token", "page_number", "offset", "files", "time_slices", "stateful", "function"
    }  # fmt: skip
    for field in ("ahead", "skips", "inner"):
        assert any(field in loop for loop in loops), field
    assert {loop["done"] for loop in loops} == {True, False}
    assert {window["state"] for window in windows} == {"claimed", "pending", "committed"}
    assert {mark["type"] for mark in marks} == {"int", "decimal", "datetime", "date", "text", "keyset", "token"}
    assert any(mark["islands"] for mark in marks)
    assert any(mark.get("ties") for mark in marks)
    assert max(len(mark["history"]) for mark in marks) == 10


def test_a_loop_of_0_1_that_ended_short_is_taken_up_as_done() -> None:
    """0.1 did not keep that an API had ended before the number of pages that it had announced."""
    pages = next(loop for loop in _records("loop") if loop["kind"] == "page_number" and loop.get("total"))
    short = {**pages, "done": True, "n": pages["total"] - 1}
    assert LoopRecord.model_validate(short).done
    of_today = {**short, "at": {**short["at"], "epoch": {**short["at"]["epoch"], "try": 1}}}
    with pytest.raises(ValueError, match="has done all its elements"):
        LoopRecord.model_validate(of_today)


def test_a_task_that_takes_up_a_loop_of_0_1_that_ended_short_leaves_what_the_next_one_reads() -> None:
    pages = next(loop for loop in _records("loop") if loop["kind"] == "page_number" and loop.get("total"))
    epoch = {name: value for name, value in pages["at"]["epoch"].items() if name != "try"}
    key, at = pages["key"], {**pages["at"], "epoch": {**epoch, "max_tries": 3, "clear_number": 0}}
    attempt = task_context(retries=3)
    attempt.context["task_state_store"].set(key, {**pages, "done": True, "n": pages["total"] - 1, "at": at})
    for _ in range(2):
        attempt = attempt.retry()
        with attempt:
            source: PageNumber[Any] = PageNumber(lambda _page: pytest.fail("it is done"))
            assert list(checkpoint(source, name=key.removeprefix("resume.loop."), on_change="resume")) == []


def _records(prefix: str) -> list[Any]:
    places = [
        values
        for left in EVERY.values()
        for values in [*(t["values"] for t in left["tasks"]), *left["assets"].values()]
    ]
    return [record for values in places for key, record in values.items() if key.startswith(f"resume.{prefix}.")]


# --- and back -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def taken_up_by_0_1(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What 0.1 makes of what this release leaves; beside it, that is in `left`."""
    packages, folder = tmp_path_factory.mktemp("packages"), tmp_path_factory.mktemp("left")
    try:
        unpack("0.1", packages)
    except NoHistoryError as error:
        pytest.skip(f"{error}: a downgrade is tested in a full clone")
    recorded.write_all(folder)
    try:
        run_recorded(packages, "take-up", folder)
    except subprocess.CalledProcessError as error:
        pytest.fail(error.stderr)
    outcomes: dict[str, Any] = json.loads((folder / "outcomes.json").read_text())
    return {"left": {(kind, name): left for kind, name, left in recorded.every(folder)}, **outcomes}


REFUSALS_OF_0_1: dict[tuple[str, str], str] = {}
"""By kind and scenario, the error by which 0.1 says that it cannot go on from what this release leaves."""


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_0_1_takes_up_what_this_release_leaves(kind: str, name: str, taken_up_by_0_1: dict[str, Any]) -> None:
    outcome = taken_up_by_0_1[kind][name]
    if (kind, name) in REFUSALS_OF_0_1:
        assert REFUSALS_OF_0_1[kind, name] in json.dumps(outcome)
        assert outcome.get("submits", 0) == 0
    else:
        assert outcome == recorded.expected(kind, name, taken_up_by_0_1["left"][kind, name], by_0_1=True)


def test_0_1_has_all_values_of_a_database_that_this_release_leaves(taken_up_by_0_1: dict[str, Any]) -> None:
    assert taken_up_by_0_1[recorded.BACKEND] == recorded_backend.expected()
