"""A night on call on a real Airflow: 200 mapped loops, 100 jobs and 20 marks, and one person.

All task instances are real ones: the LocalExecutor runs each in a process of its own, forked from one that has imported
what all of them need. 20 loops have stopped at pages of their own; one submission was lost; five marks are three days
behind, and one has a gap. One loop and one job are still at work. Then each of the four questions (where is it, is it
stuck, what happens if I clear it, how do I set it back) is asked at the terminal, by one command, and at the page, by
one look, and each change is followed by the attempt that goes by it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.airflow.on_call import (
    DAYS_BEHIND,
    GAPPED,
    HELD_JOB,
    HELD_LOOP,
    JOBS,
    LAGGING,
    LOOPS,
    LOST,
    MARK_NAMES,
    MARKS,
    PAGES,
    STOPS,
    WRONG,
    Look,
    OnCall,
)

LOGIN, PLACE = 1, 1
SHOW = LOGIN + PLACE + 1
"""Requests of `show`: the login, the task instance, and its records; one more for the link to a job."""
CHANGE = 8
RESTARTING = [number for number in STOPS if not number // 10 % 2]
RESUMING = [number for number in STOPS if number // 10 % 2]


@pytest.fixture(scope="module")
def on_call(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnCall]:
    with OnCall(Path(tmp_path_factory.mktemp("on_call")), progress=lambda text: print(text, flush=True)) as running:
        yield running


def rows_of(look: Look) -> list[str]:
    """The rows of a list on the page, as text."""
    rows = re.findall(r"<tr class.*?</tr>", look.text, re.DOTALL)
    return [" ".join(re.sub("<[^>]*>", " ", row).split()) for row in rows]


def listed(on_call: OnCall, noun: str, *arguments: str, most: int) -> list[dict[str, Any]]:
    """What `list` says, which takes at most so many requests."""
    said = on_call.types(noun, "list", *arguments, "-o", "json", "-v")
    assert said.code == 0
    assert said.requests <= most
    found: list[dict[str, Any]] = json.loads(said.out)
    return found


def shown(on_call: OnCall, noun: str, *place: str, most: int = SHOW) -> dict[str, str]:
    """What `show` says, which takes at most so many requests."""
    said = on_call.types(noun, "show", *place, "-o", "plain", "-v")
    assert said.code == 0
    assert said.requests <= most
    found: dict[str, str] = {}
    for name, value in (line.split("\t", 1) for line in said.out.splitlines()):
        found[name] = f"{found[name]}\n{value}" if name in found else value
    return found


def changed(on_call: OnCall, *arguments: str) -> dict[str, Any]:
    """Make a change at the terminal, after a look at what it would do."""
    dry = on_call.types(*arguments, "-o", "json")
    assert (dry.code, json.loads(dry.out)["changed"]) == (0, False)
    said = on_call.types(*arguments, "--yes", "--record", json.loads(dry.out)["record"], "-o", "json", "-v")
    assert (said.code, json.loads(said.out)["changed"]) == (0, True)
    assert said.requests <= CHANGE
    found: dict[str, Any] = json.loads(said.out)
    return found


# --- the four questions -----------------------------------------------------------------------------------------------


def test_200_loops_are_seen_at_once_and_those_that_are_stuck_first(on_call: OnCall) -> None:
    run_id = on_call.runs["on_call_loops"]
    rows = listed(on_call, "loops", "on_call_loops", run_id, most=LOGIN + 2 + LOOPS)
    states = Counter(row["state"] for row in rows)
    assert states == {"done": LOOPS - len(STOPS) - 1, "stopped": len(STOPS), "running": 1}
    stuck = {row["place"]["map_index"]: row["done"] for row in rows if row["trouble"]}
    assert stuck == STOPS
    look = on_call.looks(on_call.run_page("on_call_loops"))
    assert len(look.statements) == 1
    assert f"{LOOPS} loops" in look.text
    assert f"{len(STOPS)} in trouble" in look.text
    found = rows_of(look)
    assert {row.split()[0] for row in found[: len(STOPS)]} == {f"load[{number}]" for number in STOPS}
    assert all(f"{STOPS[number]} of {PAGES}" in row for number in STOPS for row in found if f"load[{number}]" in row)


def test_what_is_stuck_anywhere_is_seen_without_asking_for_all_that_went_well(on_call: OnCall) -> None:
    """A new person on call does not know any Dag: it is the first thing they type."""
    said = on_call.types("loops", "list", "--trouble", "--check", "-o", "json", "-v")
    assert said.code == 3
    assert {row["place"]["map_index"] for row in json.loads(said.out)} == {*STOPS}
    open_ones = len(STOPS) + 1 + 6 + len(LAGGING)  # of the jobs: the lost, the refused, the running, three cancelled
    assert said.requests <= LOGIN + 1 + open_ones
    look = on_call.looks("dag?dag_id=on_call_loops")
    assert len(look.statements) == 1
    assert len(rows_of(look)) == len(STOPS) + 1


def test_a_loop_that_has_stopped_answers_the_four_questions(on_call: OnCall) -> None:
    number = RESTARTING[0]
    said = shown(on_call, "loops", *on_call.loop(number))
    done = STOPS[number]
    assert said["done"].startswith(f"{done} of {PAGES} ")
    assert (said["state"], said["trouble"]) == ("stopped", "the task is over, and the loop is not done")
    assert said["a retry"] == f"continues after {done} of {PAGES} elements"
    assert said["a clear"].startswith("starts over at the first element")
    there = " ".join(on_call.loop(number))
    ways = (f"airflow-resume loops rewind {there} --to N", f"airflow-resume loops restart {there}")
    assert said["set back"].splitlines() == [*ways]
    look = on_call.looks(on_call.task_page("on_call_loops", "load", number))
    assert len(look.statements) == 1
    for text in (f"{done} of {PAGES}", said["trouble"], said["a retry"], said["a clear"]):
        assert text in look.text
    for verb in ("resume", "rewind", "skip", "restart"):
        assert f'class="{verb}"' in look.text


def test_100_jobs_are_seen_at_once_and_the_lost_submission_first(on_call: OnCall) -> None:
    rows = listed(on_call, "jobs", "on_call_jobs", on_call.runs["on_call_jobs"], most=LOGIN + 1 + JOBS)
    states = Counter(row["state"] for row in rows)
    assert states == {"succeeded": JOBS - 5, "failed": 3, "lost": 1, "active": 1}
    assert [row["place"]["map_index"] for row in rows if row["trouble"]] == [LOST]
    look = on_call.looks(on_call.run_page("on_call_jobs"))
    assert len(look.statements) == 1
    assert f"{JOBS} jobs" in look.text
    assert rows_of(look)[0].startswith(f"train[{LOST}] job train lost")


def test_a_lost_submission_answers_the_four_questions(on_call: OnCall) -> None:
    said = shown(on_call, "jobs", *on_call.job(LOST), most=SHOW + 1)
    assert said["state"] == "lost"
    assert said["trouble"].startswith("its id was not saved: a job may run")
    there = " ".join(on_call.job(LOST))
    ways = (f"airflow-resume jobs adopt {there} ID", f"airflow-resume jobs forget {there}")
    assert said["set back"].splitlines() == [*ways]
    look = on_call.looks(on_call.task_page("on_call_jobs", "train", LOST))
    assert len(look.statements) == 1
    for text in (said["trouble"], said["a retry"], said["a clear"], "If there is one, adopt it"):
        assert text in look.text
    for verb in ("adopt", "forget"):
        assert f'class="{verb}"' in look.text


def test_of_20_marks_those_that_lag_and_the_one_with_a_gap_are_seen_at_once(on_call: OnCall) -> None:
    rows = listed(on_call, "marks", most=LOGIN + 1 + MARKS)
    assert len(rows) == MARKS
    two_days = timedelta(days=2).total_seconds()
    assert [row["place"]["name"] for row in rows if row["lag"] > two_days] == [*LAGGING]
    assert [row["place"]["name"] for row in rows if row["trouble"]] == [GAPPED]
    look = on_call.looks("marks")
    assert len(look.statements) == 1
    found = rows_of(look)
    assert found[0].startswith(GAPPED)
    assert "not loaded: " in found[0]
    assert {row.split()[0] for row in found if f" {DAYS_BEHIND} d " in row} == {*LAGGING}


def test_a_mark_that_lags_answers_the_four_questions(on_call: OnCall) -> None:
    name = LAGGING[0]
    said = shown(on_call, "marks", name, most=LOGIN + 1 + 1)
    assert said["behind"].startswith(f"{DAYS_BEHIND} d")
    assert said["owner"] == f"{name} load"
    ways = (f"airflow-resume marks rewind {name} --by DISTANCE", f"airflow-resume marks reset {name}")
    assert said["set back"].splitlines() == [*ways]
    look = on_call.looks(f"marks/{on_call.airflow.asset(name)['id']}")
    assert len(look.statements) == 1
    for text in (said["owner"], said["the next run"], said["a clear of a run"]):
        assert text in look.text
    for verb in ("rewind", "set", "reset"):
        assert f'class="{verb}"' in look.text


# --- changes, and the attempts that go by them ------------------------------------------------------------------------


def test_a_loop_is_set_back_at_the_terminal(on_call: OnCall) -> None:
    number = RESTARTING[3]
    changed(on_call, "loops", "rewind", *on_call.loop(number), "--to", "2", "--why", "page 2 was wrong")
    assert on_call.again("on_call_loops", "load", number) == "success"
    assert on_call.pages(number, 2) == [*range(1, PAGES)]
    assert "set back to element 2 by " in on_call.log("on_call_loops", "load", number)
    assert shown(on_call, "loops", *on_call.loop(number))["state"] == "done"


def test_a_loop_is_started_over_at_the_page(on_call: OnCall) -> None:
    number = RESUMING[3]
    person = on_call.at_task("on_call_loops", "load", number)
    preview = person.preview("restart", why="all of it was wrong")
    assert "starts over at the first element" in preview.text
    assert person.confirm(preview).status_code == 303
    assert on_call.again("on_call_loops", "load", number) == "success"
    assert on_call.pages(number, 2) == [*range(PAGES)]
    assert "all of it was wrong" in on_call.log("on_call_loops", "load", number)


@pytest.mark.parametrize("number", RESUMING[4:6])
def test_a_change_that_was_put_back_is_no_change(on_call: OnCall, number: int) -> None:
    before = on_call.digest("loops", *on_call.loop(number))
    if number == RESUMING[4]:
        changed(on_call, "loops", "restart", *on_call.loop(number))
        changed(on_call, "loops", "undo", *on_call.loop(number))
    else:
        person = on_call.at_task("on_call_loops", "load", number)
        assert person.confirm(person.preview("rewind", to="1")).status_code == 303
        assert person.confirm(person.preview("undo")).status_code == 303
    assert on_call.digest("loops", *on_call.loop(number)) == before
    assert on_call.again("on_call_loops", "load", number) == "success"
    assert on_call.pages(number, 2) == [*range(STOPS[number], PAGES)]


def test_the_lost_submission_is_forgotten_put_back_and_adopted(on_call: OnCall) -> None:
    (job,) = (each["id"] for each in on_call.stage.jobs.call("GET", "/jobs") if each["label"] == f"job-{LOST}")
    person = on_call.at_task("on_call_jobs", "train", LOST)
    assert person.confirm(person.preview("forget")).status_code == 303
    changed(on_call, "jobs", "undo", *on_call.job(LOST))
    assert shown(on_call, "jobs", *on_call.job(LOST), most=SHOW + 1)["state"] == "lost"
    preview = person.preview("adopt", id=str(job), as_json="yes", why="it was there")
    assert person.confirm(preview).status_code == 303
    assert on_call.again("on_call_jobs", "train", LOST) == "success"
    assert on_call.submitted(LOST) == 1
    assert on_call.airflow.xcom("on_call_jobs", on_call.runs["on_call_jobs"], "train", map_index=LOST) == job
    assert "it was there" in on_call.log("on_call_jobs", "train", LOST)


def test_a_job_whose_result_was_wrong_is_forgotten_at_the_terminal(on_call: OnCall) -> None:
    """Its task would take up the same job after a clear."""
    assert shown(on_call, "jobs", *on_call.job(WRONG), most=SHOW + 1)["a retry"].startswith(
        "submits nothing, and returns the result"
    )
    changed(on_call, "jobs", "forget", *on_call.job(WRONG), "--why", "its result is wrong")
    assert on_call.again("on_call_jobs", "train", WRONG) == "success"
    assert on_call.submitted(WRONG) == 2


def windows(on_call: OnCall, name: str) -> list[tuple[datetime, datetime]]:
    """What the runs of a mark have loaded."""
    return [(datetime.fromisoformat(start), datetime.fromisoformat(end)) for start, end in on_call.lines(name)]


@pytest.mark.parametrize("at", ["terminal", "page"])
def test_a_mark_is_set_back_and_the_next_run_loads_from_there(on_call: OnCall, at: str) -> None:
    name = MARK_NAMES[0 if at == "terminal" else 1]
    if at == "terminal":
        changed(on_call, "marks", "rewind", name, "--by", "12h", "--why", "late rows")
    else:
        person = on_call.at_mark(name)
        assert person.confirm(person.preview("rewind", by="12h", why="late rows")).status_code == 303
    on_call.trigger(name)
    assert on_call.ended(name) == "success"
    (_, before), (start, end) = windows(on_call, name)
    assert start == before - timedelta(hours=12)
    assert end > before


def test_a_run_of_its_owner_loads_the_gap_and_what_lags(on_call: OnCall) -> None:
    for name in (GAPPED, LAGGING[1]):
        on_call.trigger(name)
    for name in (GAPPED, LAGGING[1]):
        assert on_call.ended(name) == "success"
        said = shown(on_call, "marks", name, most=LOGIN + 1 + 1)
        assert " d" not in said["behind"]
        assert "trouble" not in said
        (_, before), *_, (start, _) = windows(on_call, name)
        assert start == before


# --- races ------------------------------------------------------------------------------------------------------------


def test_a_change_while_the_task_runs_is_refused_and_forced_by_name(on_call: OnCall) -> None:
    """And one against a record that has moved since it was shown is refused even then."""
    there, held = on_call.loop(HELD_LOOP), ("on_call_loops", "load", HELD_LOOP)
    name = f"The task on_call_loops {on_call.runs['on_call_loops']} load[{HELD_LOOP}] is running"
    on_call.until(lambda: shown(on_call, "loops", *there)["done"].startswith("3 "), "three pages are saved")
    # As it is shown now, at the terminal and at the page.
    digest, person = on_call.digest("loops", *there), on_call.at_task(*held)
    refused = on_call.types("loops", "restart", *there, "--yes", "--record", digest)
    assert (refused.code, name in refused.err) == (4, True)
    preview = person.preview("restart")
    assert name in preview.text
    assert person.confirm(preview).status_code == 409
    assert person.confirm(preview, force="on_call_loops").status_code == 409, "another name than that of the task"
    assert on_call.digest("loops", *there) == digest

    on_call.let_go("loop-3")
    on_call.until(lambda: shown(on_call, "loops", *there)["done"].startswith("6 "), "six pages are saved")
    moved = on_call.types("loops", "restart", *there, "--yes", "--force", "--record", digest)
    assert (moved.code, "The record has moved since it was shown" in moved.err) == (4, True)
    late = person.confirm(preview, force="load")
    assert (late.status_code, "has moved since it was shown" in late.text) == (409, True)

    assert person.confirm(person.preview("restart"), force="load").status_code == 303
    assert on_call.types("loops", "undo", *there, "--yes", "--force").code == 0
    on_call.let_go("loop-6")
    on_call.until(lambda: shown(on_call, "loops", *there)["state"] == "done", "the loop is done")
    assert on_call.pages(HELD_LOOP, 1) == [*range(PAGES)], "a running task goes by what it knows"


def test_nor_is_a_job_that_is_waited_for_forgotten_unless_it_is_forced(on_call: OnCall) -> None:
    there = on_call.job(HELD_JOB)
    refused = on_call.types("jobs", "forget", *there, "--yes")
    assert refused.code == 4
    assert f"train[{HELD_JOB}] is running" in refused.err
    person = on_call.at_task("on_call_jobs", "train", HELD_JOB)
    preview = person.preview("forget")
    assert f"train[{HELD_JOB}] is running" in preview.text
    assert "may be alive: there would be two" in preview.text
    assert person.confirm(preview).status_code == 409
    on_call.stage.jobs.call("POST", "/hurry", json={"label": f"job-{HELD_JOB}"})
    on_call.until(lambda: shown(on_call, "jobs", *there, most=SHOW + 1)["state"] == "succeeded", "the job has ended")
    assert on_call.submitted(HELD_JOB) == 1


def test_nor_is_a_mark_moved_while_its_owner_runs(on_call: OnCall) -> None:
    name = MARK_NAMES[2]
    run_id = on_call.trigger(name, {"holds": True})
    on_call.until_held(name)
    refused = on_call.types("marks", "rewind", name, "--by", "1h", "--yes")
    assert (refused.code, f"The task {name} {run_id} load is running" in refused.err) == (4, True)
    person = on_call.at_mark(name)
    preview = person.preview("rewind", by="1h")
    assert f"The task {name} {run_id} load is running" in preview.text
    assert person.confirm(preview).status_code == 409
    on_call.let_go(name)
    assert on_call.ended(name) == "success"
    moved = person.confirm(preview)
    assert (moved.status_code, "has moved since it was shown" in moved.text) == (409, True)
