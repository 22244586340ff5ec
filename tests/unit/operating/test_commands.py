"""`jobs`, `loops` and `marks` as a person types them."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
import yaml

from airflow_resume.command import main
from airflow_resume.operating.places import ENVELOPE
from airflow_resume.operating.rows import digest_of
from tests.support.operating.fake_airflow import FakeAirflow, token_of
from tests.support.operating.records import JOB, LOOP, ended_job, lost_job, moved_mark, stopped_loop
from tests.support.watermarks.whole_numbers import MARK

Command = Callable[..., Any]
AT = ("d", "r", "t", -1)
THERE = ("d", "r", "t")


@pytest.fixture
def loop(airflow: FakeAirflow) -> dict[str, Any]:
    airflow.task(*THERE, **{LOOP: stopped_loop(), JOB: lost_job(), "other": 1})
    return airflow.states[AT][LOOP]  # type: ignore[no-any-return]


# --- what is shown ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("loop")
def test_a_list_has_a_row_for_each_record(command: Command) -> None:
    code, out, err = command("loops", "list", "-v")
    heading, row = out.splitlines()
    assert code == 0
    assert heading.split() == ["TASK", "NAME", "STATE", "DONE", "PACE", "SKIPPED", "SAVED", "TROUBLE"]
    assert row.split()[:9] == ["d", "r", "t", "l", "stopped", "7", "of", "10", "(70%)"]
    assert row.endswith("the task is over, and the loop is not done")
    assert err.startswith("3 requests to http://127.0.0.1:")


@pytest.mark.usefixtures("loop")
def test_jobs_and_loops_of_one_task_are_told_apart(command: Command) -> None:
    assert "lost" in command("jobs", "list", *THERE).out
    assert "stopped" not in command("jobs", "list", *THERE).out


def test_each_form_of_output_has_the_same_rows(command: Command, loop: dict[str, Any]) -> None:
    [row] = json.loads(command("loops", "list", "-o", "json").out)
    assert (row["name"], row["done"], row["place"]["task_id"], row["stalled_since"]) == ("l", 7, "t", None)
    assert row["saved"].startswith(loop["ts"][:19])
    assert yaml.safe_load(command("loops", "list", "-o", "yaml").out) == [row]
    assert command("loops", "list", "-o", "plain").out.split("\t")[:3] == ["d r t", "l", "stopped"]


def test_what_somebody_else_named_is_not_obeyed_by_a_terminal(airflow: FakeAirflow, command: Command) -> None:
    airflow.task("d", "r\x1b[2J\n", "[red]t[/red]", **{LOOP: stopped_loop()})
    for output in ("table", "plain"):
        out = command("loops", "list", "-o", output).out
        assert "\x1b" not in out
        assert "[red]t[/red]" in out


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        ([], ["a", "c"]),
        (["--all"], ["a", "b", "c"]),
        (["d1"], ["a"]),
        (["d1", "r1"], ["a", "b"]),
        (["d1", "latest"], ["a", "b"]),
        (["d1", "r1", "b"], ["b"]),
        (["--most", "1"], ["a"]),
        (["--name", "other"], []),
        (["--trouble", "--all"], ["a", "c"]),
    ],
)
def test_a_list_is_of_a_run_a_dag_or_all_that_is_not_finished(
    airflow: FakeAirflow, command: Command, arguments: list[str], seen: list[str]
) -> None:
    airflow.task("d1", "r1", "a", **{LOOP: stopped_loop()})
    airflow.task("d1", "r1", "b", state="success", **{LOOP: {**stopped_loop(), "done": True, "n": 10, "pos": 10}})
    airflow.task("d2", "r2", "c", **{LOOP: stopped_loop()})
    airflow.task("d2", "r2", "not begun", state="scheduled", tries=0)
    rows = json.loads(command("loops", "list", "-o", "json", *arguments).out)
    assert [row["place"]["task_id"] for row in rows] == seen


def test_each_task_instance_costs_one_request_and_what_has_not_run_none(airflow: FakeAirflow, command: Command) -> None:
    for index in range(150):
        airflow.task("d", "r", "t", index, **({LOOP: stopped_loop()} if index < 3 else {}))
        airflow.task("d", "r", "u", index, state=None, tries=0)
    assert len(command("loops", "list", "d", "r").out.splitlines()) == 4
    listed = [call for call in airflow.calls if call.endswith("taskInstances")]
    stores = [call for call in airflow.calls if call.endswith("state-store")]
    assert (len(listed), len(stores)) == (3, 150)
    assert airflow.most_at_once <= 8


def test_a_record_that_cannot_be_read_is_a_row_like_others(airflow: FakeAirflow, command: Command) -> None:
    airflow.task(*THERE, **{LOOP: {"v": 99, "key": LOOP}, "resume.loop.far": {ENVELOPE: "airflow-resume:1:x"}})
    airflow.asset("a", **{MARK: {"v": 99, "key": MARK}})
    rows = json.loads(command("loops", "list", "-o", "json").out)
    assert [row["state"] for row in rows] == ["unreadable", "elsewhere"]
    assert "newer version of airflow-resume" in command("loops", "list").out
    assert "newer version of airflow-resume" in command("loops", "show", *THERE, "--name", "l").out
    assert command("marks", "list", "--check").code == 3


def test_show_answers_the_four_questions(command: Command, loop: dict[str, Any]) -> None:
    del loop
    said = dict(line.split("  ", 1) for line in command("loops", "show", *THERE).out.splitlines())
    said = {name.strip(): value.strip() for name, value in said.items()}
    assert said["done"] == "7 of 10 (70%)"
    assert said["trouble"] == "the task is over, and the loop is not done"
    assert said["a retry"] == "continues after 7 of 10 elements"
    assert said["a clear"].startswith("starts over at the first element")
    assert said["position"] == "7"
    assert len(said["record"]) == 10
    assert said["set back"] == "airflow-resume loops rewind d r t --to N"


TOKENS = {**stopped_loop(), "kind": "token", "pos": "abc"}
PLACES: Mapping[str, tuple[tuple[str, ...], list[str]]] = {
    "a loop": (
        ("loops", "show", "d", "latest", "t", "--name", "l"),
        ["loops rewind d r t --name l --to N", "loops restart d r t --name l"],
    ),
    "a loop whose positions cannot be counted": (
        ("loops", "show", "d", "r", "two words", "--map-index", "3"),
        [
            "loops rewind d r 'two words' --map-index 3 --position JSON --done N",
            "loops restart d r 'two words' --map-index 3",
        ],
    ),
    "a loop that has done nothing": (("loops", "show", "d", "r", "new"), ["loops restart d r new"]),
    "a job": (("jobs", "show", "d", "r", "t"), ["jobs adopt d r t ID", "jobs forget d r t"]),
    "a mark of numbers": (("marks", "show", "numbers"), ["marks rewind numbers --to VALUE", "marks reset numbers"]),
    "a mark of times": (("marks", "show", "times"), ["marks rewind times --by DISTANCE", "marks reset times"]),
    "a mark that was typed": (("marks", "show", "typed"), []),
}


@pytest.mark.parametrize("what", PLACES)
def test_show_says_how_to_set_a_record_back_and_that_can_be_typed(
    airflow: FakeAirflow, command: Command, loop: dict[str, Any], what: str
) -> None:
    airflow.task("d", "r", "two words", 3, **{LOOP: TOKENS})
    airflow.task("d", "r", "new", **{LOOP: stopped_loop(0)})
    airflow.task(*THERE, **{LOOP: loop, JOB: lost_job()})
    airflow.asset("numbers", **{MARK: moved_mark()})
    first, at = "2020-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00"
    times = {"type": "datetime", "definition": {"type": "datetime"}, "first": first, "at": at, "history": []}
    airflow.asset("times", **{MARK: {**moved_mark(), **times}})
    airflow.asset("typed", **{MARK: 30})
    show, expected = PLACES[what]
    said = json.loads(command(*show, "--airflow", airflow.url, "-o", "json").out)
    assert said["set_back"] == [f"airflow-resume {way} --airflow {airflow.url}" for way in expected]
    values = {"N": "2", "JSON": '"ab"', "ID": "job-9", "VALUE": "5", "DISTANCE": "3d"}
    for way in said["set_back"]:
        typed = [values.get(word, word) for word in shlex.split(way)[1:]]
        code, out, err = command(*typed, "-o", "json")
        assert (code, err) == (0, "")
        assert json.loads(out)["record"] == said["digest"]


@pytest.mark.usefixtures("loop")
def test_show_says_first_that_a_change_can_be_undone(command: Command) -> None:
    assert command("loops", "restart", *THERE, "--yes").code == 0
    said = json.loads(command("loops", "show", *THERE, "-o", "json").out)
    assert said["set_back"][0] == "airflow-resume loops undo d r t"


def test_show_as_json_has_the_record_itself(command: Command, loop: dict[str, Any]) -> None:
    said = json.loads(command("loops", "show", *THERE, "-o", "json").out)
    assert said["stored"] == loop
    assert said["next"]["a retry"] == "continues after 7 of 10 elements"
    assert command("loops", "show", *THERE, "-o", "plain").out.startswith("task\td r t\n")


@pytest.mark.usefixtures("loop")
@pytest.mark.parametrize("check", [False, True])
def test_a_script_learns_of_trouble_by_the_exit_code(command: Command, *, check: bool) -> None:
    for verb in (["list"], ["show", *THERE], ["watch", "--times", "1"]):
        assert command("loops", *verb, *(["--check"] if check else [])).code == (3 if check else 0)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["loops", "show", "d", "r", "nothing"], "There is no task 'nothing' in this run. There are 't', 'two'."),
        (["loops", "show", "d", "r", "tw"], "There is no task 'tw' in this run. Did you mean 'two' or 't'?"),
        (["loops", "show", "d", "r", "t", "--map-index", "7"], "A mapped one needs its --map-index"),
        (["loops", "show", "d", "rr", "t"], "The Dag 'd' has no run 'rr'. Did you mean 'r'?"),
        (["loops", "show", "day", "r", "t"], "There is no Dag 'day' that you may see. Did you mean 'd'?"),
        (["loops", "show", "day", "latest", "t"], "There is no Dag 'day' that you may see. Did you mean 'd'?"),
        (["loops", "list", "day"], "There is no Dag 'day' that you may see. Did you mean 'd'?"),
        (["loops", "list", "d", "rr"], "The Dag 'd' has no run 'rr'. Did you mean 'r'?"),
        (["loops", "show", *THERE, "--name", "x"], "There is no loop 'x' here. There is 'l'."),
        (["loops", "show", "d", "r", "two", "--name", "A"], "There is no loop 'A' here. Did you mean 'a'?"),
        (["jobs", "show", *THERE], "There is no job here"),
        (["loops", "show", "d", "r", "two"], "There are 2 of loop here: a, b. Say which with --name."),
        (["marks", "show", "order"], "There is no asset 'order' that you may see. Did you mean 'orders'?"),
        (["marks", "list", "order"], "There is no asset 'order' that you may see. Did you mean 'orders'?"),
        (["marks", "show", "empty"], "There is no mark here"),
        (["marks", "show", "orders", "--name", "watermarks"], "There is no mark 'watermarks' here. Did you mean"),
        (["marks", "show", "orders", "--partition", "eu"], "There is no partition 'eu' here."),
        (["loops", "list", "--airflow", "x"], "not the address of an Airflow"),
        (["loops", "list", "--airflow", ""], "--airflow is empty. Write the address after it, or leave it out."),
        (["doctor", "--airflow", " "], "--airflow is empty. Write the address after it, or leave it out."),
    ],
)
def test_what_is_not_there_is_said_in_one_line(
    airflow: FakeAirflow, command: Command, arguments: list[str], says: str
) -> None:
    airflow.task(*THERE, **{LOOP: stopped_loop()})
    airflow.task("d", "r", "two", **{"resume.loop.a": 1, "resume.loop.b": 2})
    airflow.asset("orders", **{MARK: moved_mark()})
    airflow.asset("empty")
    code, out, err = command(*arguments)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert says in err


def test_a_list_that_is_empty_because_of_a_name_says_which_there_are(airflow: FakeAirflow, command: Command) -> None:
    airflow.task(*THERE, **{LOOP: stopped_loop()})
    said = command("loops", "list", "--name", "ll")
    assert (said.code, len(said.out.splitlines())) == (0, 1)
    assert said.err == "No loop here has the name 'll'. Did you mean 'l'?\n"
    assert command("loops", "list", "--name", "l").err == ""
    assert "Did you mean 't'?" in command("loops", "list", "d", "r", "tt").err


def test_watch_looks_again_and_leaves_out_what_is_over(airflow: FakeAirflow, command: Command) -> None:
    airflow.task(*THERE, state="running", **{LOOP: stopped_loop()})
    airflow.task("d", "r", "empty", state="success")
    said = command("loops", "watch", "d", "r", "--times", "3", "--every", "0", "-o", "json")
    looks = [json.loads(line) for line in said.out.splitlines()]
    assert [[row["state"] for row in look] for look in looks] == [["running"]] * 3
    assert sum(call.endswith("empty/state-store") for call in airflow.calls) == 1


def test_on_a_terminal_the_list_is_drawn_in_place_and_nothing_in_it_is_markup(
    airflow: FakeAirflow, command: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    del capsys  # its stdout is there now
    airflow.task("d", "r", "[red]t[/red]", state="running", **{LOOP: stopped_loop()})
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "200")
    said = command("loops", "watch", "--times", "2", "--every", "0")
    assert said.code == 0
    assert "[red]t[/red]" in said.out
    assert "Ctrl-C ends" in said.out


def test_marks_are_listed_by_the_names_of_their_assets(airflow: FakeAirflow, command: Command) -> None:
    """Airflow lists assets in the order in which it came to know them, which is that of no file."""
    for name in ("c", "a", "b"):
        airflow.asset(name, **{MARK: moved_mark()})
    rows = json.loads(command("marks", "list", "-o", "json").out)
    assert [row["place"]["name"] for row in rows] == ["a", "b", "c"]


def test_a_mark_is_listed_with_its_owner(airflow: FakeAirflow, command: Command) -> None:
    airflow.asset("numbers", **{MARK: moved_mark()})
    airflow.asset("numbers too")
    out = command("marks", "list", "numbers").out
    assert "dag task" in out
    assert "30" in out
    moves = command("marks", "show", "numbers").out
    assert "10 by run-1" in moves


LINK = "/dags/d/dagRuns/r/taskInstances/t/xcomEntries/_link_JobLink"


@pytest.mark.parametrize("stored", ["https://j.example/7", '"https://j.example/7"', "https://ana:x@j.example/7?sig=x"])
def test_show_has_the_address_of_a_job(airflow: FakeAirflow, command: Command, stored: str) -> None:
    airflow.task(*THERE, **{JOB: ended_job()})
    airflow.others[LINK] = (200, {"key": "_link_JobLink", "value": stored})
    assert "link       https://j.example/7" in command("jobs", "show", *THERE).out.splitlines()
    assert json.loads(command("jobs", "show", *THERE, "-o", "json").out)["link"] == "https://j.example/7"


@pytest.mark.parametrize("answer", [(404, {}), (403, {}), (200, {"value": None}), (200, {"value": "javascript:x"})])
def test_without_an_address_that_may_be_seen_there_is_none(
    airflow: FakeAirflow, command: Command, answer: tuple[int, Any]
) -> None:
    airflow.task(*THERE, **{JOB: ended_job()})
    airflow.others[LINK] = answer
    said = command("jobs", "show", *THERE)
    assert (said.code, "link " in said.out) == (0, False)
    assert json.loads(command("jobs", "show", *THERE, "-o", "json").out)["link"] is None


# --- the moves of a mark ----------------------------------------------------------------------------------------------


def moves(command: Command, *arguments: str) -> list[dict[str, Any]]:
    return json.loads(command("marks", "history", "numbers", "-o", "json", *arguments).out)  # type: ignore[no-any-return]


@pytest.fixture
def ana(airflow: FakeAirflow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_RESUME_API_TOKEN", token_of("ana"))
    monkeypatch.setattr("getpass.getuser", lambda: "ana")
    airflow.asset("numbers", **{MARK: moved_mark()})


@pytest.mark.usefixtures("ana")
def test_the_history_of_a_mark_has_each_move_with_when_who_and_why(command: Command) -> None:
    command("marks", "rewind", "numbers", "--to", "15", "--why", "rows were wrong", "--yes")
    found = moves(command)
    names = ("from", "to", "who", "why", "run")
    assert [tuple(each[name] for name in names) for each in found] == [
        ("30", "15", "ana", "rows were wrong", None),
        ("20", "30", None, None, "run-3"),
        ("10", "20", None, None, "run-2"),
        (None, "10", None, None, "run-1"),
    ]
    times = [datetime.fromisoformat(each["when"].replace("Z", "+00:00")) for each in found]
    assert times == sorted(times, reverse=True)
    assert datetime.now(timezone.utc) - times[-1] < timedelta(minutes=5)
    assert moves(command, "--most", "2") == found[:2]
    assert yaml.safe_load(command("marks", "history", "numbers", "-o", "yaml").out) == found
    heading, newest, *_ = command("marks", "history", "numbers").out.splitlines()
    assert heading.split() == ["WHEN", "FROM", "TO", "WHO", "WHY", "RUN"]
    assert newest.endswith("UTC  30    15  ana  rows were wrong")
    plain = command("marks", "history", "numbers", "-o", "plain").out.splitlines()
    assert [line.split("\t")[1:] for line in plain[:2]] == [
        ["30", "15", "ana", "rows were wrong", ""], ["20", "30", "", "", "run-3"],
    ]  # fmt: skip
    assert "15 by ana" in command("marks", "show", "numbers").out


@pytest.mark.usefixtures("ana")
def test_an_undo_leaves_no_move(command: Command) -> None:
    before = moves(command)
    command("marks", "set", "numbers", "15", "--yes")
    command("marks", "undo", "numbers", "--yes")
    assert moves(command) == before


def test_moves_of_an_older_release_have_no_time(airflow: FakeAirflow, command: Command) -> None:
    record = moved_mark()
    record["history"] = [{"to": "10", "run_id": "a"}, {"to": "30", "run_id": "", "for_person": True}]
    airflow.asset("numbers", **{MARK: record})
    assert [(each["when"], each["who"], each["run"]) for each in moves(command)] == [
        (None, "a person", None), (None, None, "a"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("stored", "says"),
    [
        (15, "no run has taken it up yet"),
        (
            {ENVELOPE: f"airflow-resume:1:{'a' * 32}:{'b' * 64}:m"},
            "cannot be read from here: it is m in the database aaa",
        ),
        ({"v": 99, "key": MARK}, "newer version of airflow-resume"),
    ],
)
def test_a_mark_without_a_history_says_why(airflow: FakeAirflow, command: Command, stored: Any, says: str) -> None:
    airflow.asset("numbers", **{MARK: stored})
    code, out, err = command("marks", "history", "numbers")
    assert (code, out) == (1, "")
    assert says in err


# --- what is changed --------------------------------------------------------------------------------------------------


def test_without_yes_nothing_is_changed_and_it_is_shown_what_would_be(
    airflow: FakeAirflow, command: Command, loop: dict[str, Any]
) -> None:
    code, out, _ = command("loops", "rewind", *THERE, "--to", "3", "--why", "a bad page")
    assert code == 0
    assert airflow.states[AT][LOOP] == loop
    assert not [call for call in airflow.calls if not call.startswith("GET")]
    assert f"no, this is what would be changed; --yes --record {digest_of(loop)} does it" in out
    assert "continues after 2 of 10 elements" in out
    assert "the same, as it was set by hand (set back to element 3 by admin (" in out
    for dry in (["--dry-run"], ["--dry-run", "--yes"]):
        assert command("loops", "rewind", *THERE, "--to", "3", *dry).code == 0
    assert airflow.states[AT][LOOP] == loop


def test_a_change_is_made_of_the_record_that_was_shown_and_undone(
    airflow: FakeAirflow, command: Command, loop: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_RESUME_API_TOKEN", token_of("ana"))
    monkeypatch.setattr("getpass.getuser", lambda: "ana")
    shown = json.loads(command("loops", "show", *THERE, "-o", "json").out)["digest"]
    made = command("loops", "rewind", *THERE, "--to", "3", "--yes", "--record", shown, "--why", "bad", "-o", "json")
    said = json.loads(made.out)
    assert (made.code, said["changed"], said["a retry"]) == (0, True, "continues after 2 of 10 elements")
    assert airflow.states[AT][LOOP]["by_hand"]["who"] == "ana"
    assert "set back to element 3 by ana" in command("loops", "list").out + command("loops", "show", *THERE).out
    code, _, err = command("loops", "restart", *THERE, "--yes", "--record", shown)
    assert code == 4
    assert f"it was {shown}, and is {said['record']}" in err
    assert command("loops", "undo", *THERE, "--yes", "--record", said["record"]).code == 0
    assert airflow.states[AT][LOOP] == loop


@pytest.mark.usefixtures("loop")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["loops", "skip", *THERE], "element 8 is not delivered"),
        (["loops", "rewind", *THERE, "--to", "9"], "is no earlier one"),
        (
            ["loops", "rewind", *THERE, "--position", "5"],
            "Give that number too. The options: airflow-resume loops rewind --help.",
        ),
        (["loops", "undo", *THERE], "nothing to undo"),
        (["jobs", "adopt", *THERE, ""], "is not the id of a job"),
    ],
)
def test_a_refused_change_ends_with_4(command: Command, arguments: list[str], says: str) -> None:
    for how in ([], ["--yes"]):
        code, _, err = command(*arguments, *how)
        assert code == 4
        assert says in err


@pytest.mark.usefixtures("loop")
def test_what_is_refused_says_with_which_option_it_is_done(airflow: FakeAirflow, command: Command) -> None:
    for how in ([], ["--yes"]):
        assert "--force does it nevertheless" in command("loops", "skip", *THERE, *how).err
    assert "--record" in command("loops", "restart", *THERE, "--yes", "--record", "0123456789").err
    airflow.instances[0]["state"] = "running"
    assert "--force does it nevertheless" in command("loops", "restart", *THERE, "--yes").err


@pytest.mark.usefixtures("loop")
def test_a_task_that_runs_is_left_alone_unless_it_is_forced(airflow: FakeAirflow, command: Command) -> None:
    airflow.instances[0]["state"] = "running"
    assert command("loops", "restart", *THERE, "--yes").code == 4
    assert command("loops", "restart", *THERE).code == 4
    assert command("loops", "restart", *THERE, "--yes", "--force").code == 0


@pytest.mark.usefixtures("loop")
def test_a_lost_job_is_adopted_or_forgotten(airflow: FakeAirflow, command: Command) -> None:
    assert command("jobs", "adopt", *THERE, "17", "--as-json", "--yes").code == 0
    assert airflow.states[AT][JOB]["id"] == 17
    assert command("jobs", "undo", *THERE, "--yes").code == 0
    assert command("jobs", "adopt", *THERE, "17", "--yes").code == 0
    assert airflow.states[AT][JOB]["id"] == "17"
    assert command("jobs", "forget", *THERE, "--yes").code == 4
    assert command("jobs", "forget", *THERE, "--yes", "--force").code == 0
    assert "id" not in airflow.states[AT][JOB]


def test_a_job_that_has_ended_is_forgotten_without_a_risk(airflow: FakeAirflow, command: Command) -> None:
    airflow.task(*THERE, **{JOB: ended_job()})
    assert command("jobs", "forget", *THERE, "--yes").code == 0


def test_marks_are_set_back_set_and_reset(airflow: FakeAirflow, command: Command) -> None:
    airflow.asset("numbers", **{MARK: moved_mark()})
    there = airflow.states[(1,)]
    assert command("marks", "rewind", "numbers", "--by", "5", "--yes").code == 0
    assert there[MARK]["at"] == "25"
    assert command("marks", "set", "numbers", "90", "--yes").code == 4
    assert command("marks", "set", "numbers", "90", "--yes", "--force").code == 0
    assert command("marks", "rewind", "numbers", "--to", "12", "--yes").code == 0
    assert there[MARK]["at"] == "12"
    assert "sets the mark to its initial value" in command("marks", "reset", "numbers", "--yes").out
    assert there[MARK]["by_hand"]["start_over"] is True
    for _ in range(4):
        assert command("marks", "undo", "numbers", "--yes").code == 0
    assert there[MARK]["at"] == "30"
    assert command("marks", "undo", "numbers", "--yes").code == 4


def test_a_value_that_was_typed_is_not_changed(airflow: FakeAirflow, command: Command) -> None:
    airflow.asset("numbers", **{MARK: 15})
    code, _, err = command("marks", "set", "numbers", "12", "--yes")
    assert code == 1
    assert "no run has taken it up yet" in err
    assert "typed" in command("marks", "show", "numbers").out


@pytest.mark.parametrize(
    "arguments",
    [
        ["loops"],
        ["loops", "show"],
        ["loops", "rewind", *THERE],
        ["loops", "rewind", *THERE, "--to", "1", "--position", "2"],
        ["jobs", "adopt", *THERE],
        ["jobs", "list", "--most", "0"],
        ["jobs", "watch", "--every", "nan"],
        ["jobs", "watch", "--times", "x"],
        ["marks", "rewind", "a"],
        ["marks", "adopt", "a"],
    ],
)
def test_a_wrong_usage_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: airflow-resume" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["jobs", "list", "--most", "0"], "argument --most: '0' is no number of 1 or more"),
        (["marks", "history", "a", "--most", "-1"], "argument --most: '-1' is no number of 1 or more"),
        (["loops", "watch", "--times", "x"], "argument --times: 'x' is no number of 1 or more"),
        (["loops", "watch", "--every", "nan"], "argument --every: 'nan' is no number of seconds, such as 5 or 0.5"),
    ],
)
def test_a_number_that_cannot_be_is_said_in_words(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("distance", ["", "x", "3", "3y", "1d 2h", "-3d"])
def test_a_distance_in_time_is_understood_or_refused(airflow: FakeAirflow, command: Command, distance: str) -> None:
    record = {
        "v": 1, "key": MARK, "type": "datetime", "at": "2026-01-10T00:00:00+00:00", "rev": 1, "epoch": "e",
        "definition": {"type": "datetime"},
    }  # fmt: skip
    airflow.asset("orders", **{MARK: record})
    assert command("marks", "rewind", "orders", f"--by={distance}", "--yes").code in {1, 4}
    assert command("marks", "rewind", "orders", "--by", "1d12h", "--yes").code == 0
    assert airflow.states[(1,)][MARK]["at"] == "2026-01-08T12:00:00+00:00"
