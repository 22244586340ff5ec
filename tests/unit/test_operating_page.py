"""docs/operating.md: every command of it is run, and what it prints is what the page shows."""

from __future__ import annotations

import copy
import re
import shlex
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from airflow_resume.backends import SqlStoreBackend
from airflow_resume.command import main
from airflow_resume.operating.api import PASSWORD, TOKEN, URL, USER
from tests.support.operating.fake_airflow import FakeAirflow, fake_airflow
from tests.support.operating.records import JOB, lost_job, stopped_loop
from tests.support.watermarks.whole_numbers import MARK

PAGE = (Path(__file__).parents[2] / "docs" / "operating.md").read_text()
BLOCKS = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
SESSIONS = [part for block in BLOCKS for part in re.split(r"^\$ ", block, flags=re.MULTILINE) if part]
TYPED = sorted(
    set(re.findall(r"`(airflow-resume [^`]+)`", PAGE)) | {session.partition("\n")[0] for session in SESSIONS}
)
RUN = "scheduled__2026-01-05"
LOOP = "resume.loop.pages"
ADDRESS = "http://localhost:8080"


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeAirflow]:
    with fake_airflow() as running:
        for name in (TOKEN, USER, PASSWORD):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv(URL, running.url)
        url = f"sqlite:///{tmp_path / 'state.db'}"
        with closing(SqlStoreBackend(url)) as backend:
            assert backend.store_id
        monkeypatch.setenv("AIRFLOW__AIRFLOW_RESUME__BACKEND_URL", url)
        running.others |= {
            "/version": (200, {"version": "3.3.2"}),
            "/dags": (200, {"dags": [], "total_entries": 0}),
            "/monitor/health": (200, {"scheduler": {"status": "healthy"}}),
        }
        loop = {**stopped_loop(183, 400), "key": LOOP, "kind": "page_number", "pos": {"page": 184, "rows": 18300}}
        running.task("orders", RUN, "load", **{LOOP: loop})
        running.task("orders", RUN, "train", **{JOB: lost_job()})
        running.task("orders", RUN, "score", state="success", **{JOB: {**lost_job(), "phase": "terminal"}})
        running.asset("orders", **{MARK: MARKED})
        yield running


MARKED = {
    "v": 1, "key": MARK, "type": "datetime", "definition": {"type": "datetime"}, "at": "2026-01-02T00:00:00+00:00",
    "rev": 4, "epoch": "abc", "owner": {"dag_id": "orders", "task_id": "sync"},
    "history": [
        {"to": "2026-01-03T00:00:00+00:00", "run_id": "scheduled__2026-01-03", "when": "2026-01-03T00:05:00Z"},
        {
            "to": "2026-01-02T00:00:00+00:00", "run_id": "", "for_person": True, "when": "2026-01-05T04:13:00Z",
            "who": "ana", "why": "rows came late",
        },
    ],
}  # fmt: skip


def run(typed: str, airflow: FakeAirflow) -> int:
    """The exit code; a change that is to be undone is made before."""
    arguments = shlex.split(typed.replace(ADDRESS, airflow.url))[1:]
    if "undo" in arguments:
        change = ["reset", "orders"] if arguments[0] == "marks" else ["restart", "orders", "latest", "load"]
        assert main([arguments[0], *change, "--yes"]) == 0
    return main(arguments)


@pytest.mark.parametrize("typed", [command for command in TYPED if "watch" not in command])
def test_every_command_of_the_page_does_what_it_is_for(airflow: FakeAirflow, typed: str) -> None:
    before = copy.deepcopy(airflow.states)
    assert run(typed, airflow) == 0
    is_back = "undo" in typed
    assert (airflow.states != before) == (("--yes" in typed) != is_back)


@pytest.mark.parametrize("typed", [command for command in TYPED if "watch" in command])
def test_every_watch_of_the_page_looks(airflow: FakeAirflow, typed: str) -> None:
    assert run(typed, airflow) == 0


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.partition("\n")[0])
def test_what_the_page_shows_is_what_is_printed(
    airflow: FakeAirflow, session: str, capsys: pytest.CaptureFixture[str]
) -> None:
    typed, _, shown = session.partition("\n")
    capsys.readouterr()
    assert run(typed, airflow) == 0
    printed = capsys.readouterr().out
    assert [pattern(line) for line in printed.splitlines()] == [pattern(line) for line in shown.splitlines()]


def pattern(line: str) -> str:
    """The line without what differs between two runs: ages, times, digests, the user, and the widths of columns."""
    line = re.sub(r"\b[0-9a-f]{10}\b", "<record>", line)
    line = re.sub(r"\d+ [dhms]( \d+ [hms])?( ago)?", "<age>", line)
    line = re.sub(r"by \w+( \(\w+\))? at [\d-]+ [\d:]+ UTC", "by <who and when>", line)
    return re.sub(r"\s+", " ", line).strip()


def test_the_page_names_every_change_and_every_state() -> None:
    from airflow_resume.command.arguments import parser_for
    from airflow_resume.command.completion import words_of

    words: dict[tuple[str, ...], Any] = dict(words_of(parser_for([])))
    for noun in ("jobs", "loops", "marks"):
        for verb in words[noun,]:
            if not verb.startswith("-") and (noun, verb) not in {("jobs", "undo"), ("marks", "watch")}:
                assert f"airflow-resume {noun} {verb}" in PAGE, (noun, verb)
    for state in (
        "lost",
        "left alone",
        "unknown",
        "submitting",
        "stalled",
        "stopped",
        "unreadable",
        "elsewhere",
        "encrypted",
    ):
        assert f"`{state}`" in PAGE, state
