"""What the drain file means for an attempt. `pytest -s` prints the table."""

from __future__ import annotations

import logging
import os
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace

import pytest

from airflow_resume import drain
from airflow_resume.attempt import Attempt, Scope, current_attempt
from airflow_resume.drain import (
    LOOK_SECONDS,
    MOST_AHEAD_SECONDS,
    TOLERANCE_SECONDS,
    Drain,
    DrainWatch,
    drain_of,
    drain_watch,
)
from airflow_resume.drain_file import VARIABLE
from airflow_resume.testing import task_context

STARTED, NOW = 1000.0, 1500.0
DECISIONS: dict[str, tuple[float | None, Drain]] = {
    "there is no file": (None, Drain.NO_FILE),
    "touched years ago": (0.0, Drain.OLD_FILE),
    "touched for the worker of before": (STARTED - 2, Drain.OLD_FILE),
    "touched right before the attempt began": (STARTED - TOLERANCE_SECONDS, Drain.DRAINED),
    "touched when the attempt began": (STARTED, Drain.DRAINED),
    "touched during the attempt": (STARTED + 100, Drain.DRAINED),
    "touched just now": (NOW, Drain.DRAINED),
    "touched on a disk whose clock is ahead": (NOW + MOST_AHEAD_SECONDS, Drain.DRAINED),
    "touched in the future": (NOW + MOST_AHEAD_SECONDS + 1, Drain.AHEAD),
}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "drain"
    monkeypatch.setenv(VARIABLE, str(file))
    drain._warn.cache_clear()
    return file


@pytest.mark.parametrize(("modified", "expected"), DECISIONS.values(), ids=DECISIONS)
def test_the_decision(modified: float | None, expected: Drain, request: pytest.FixtureRequest) -> None:
    print(f"{request.node.callspec.id:40} -> {expected.value}")
    assert drain_of(modified, started=STARTED, now=NOW) is expected


def test_every_decision_is_in_the_table() -> None:
    assert {expected for _, expected in DECISIONS.values()} == set(Drain)


def watch_of(file: Path) -> DrainWatch:
    return DrainWatch(path=str(file), started=STARTED, now=lambda: NOW)


def touched_at(file: Path, at: float) -> None:
    file.touch()
    os.utime(file, (at, at))


def test_it_looks_once_a_second_at_most(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []
    monkeypatch.setattr(drain, "_modified", looks.append)
    watch = watch_of(file)
    found = [watch.finds_drain(tenth * LOOK_SECONDS / 10) for tenth in range(30)]
    assert (len(looks), any(found)) == (3, False)


def test_it_finds_the_drain_at_the_first_look_after_it(file: Path) -> None:
    watch = watch_of(file)
    assert not watch.finds_drain(0.0)
    touched_at(file, STARTED + 1)
    assert not watch.finds_drain(LOOK_SECONDS / 2)
    assert watch.finds_drain(LOOK_SECONDS)


@pytest.mark.parametrize("missing", ["there/is/no/folder", "drain/of/a/file"])
def test_where_no_file_can_be_there_is_none(file: Path, missing: str) -> None:
    file.touch()
    assert not watch_of(file.parent / missing).finds_drain(0.0)


def test_what_cannot_be_looked_at_is_said_once(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    watch = watch_of(file.parent / ("x" * 300))
    assert not watch.finds_drain(0.0)
    assert not watch.finds_drain(5.0)
    (line,) = [line for line in caplog.messages if "cannot be looked at" in line]
    assert "File name too long" in line


def test_a_file_from_the_future_is_said_once_and_counts_when_it_is_touched_again(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    watch = watch_of(file)
    touched_at(file, NOW + 3600)
    assert not watch.finds_drain(0.0)
    assert not watch.finds_drain(5.0)
    assert caplog.text.count("ahead of the clock of this worker") == 1
    touched_at(file, NOW)
    assert watch.finds_drain(10.0)


# --- who looks ------------------------------------------------------------------------------------------------

MOMENT = datetime(2026, 1, 1, tzinfo=timezone.utc)
ATTEMPT = Attempt(scope=Scope(dag_id="d", run_id="r", task_id="t"), started=MOMENT)


def now() -> datetime:
    return MOMENT + timedelta(hours=1)


def test_a_task_looks_from_its_start_on(file: Path) -> None:
    watch = drain_watch(ATTEMPT, now)
    assert watch is not None
    assert (watch.path, watch.started, watch.now()) == (str(file), MOMENT.timestamp(), now().timestamp())


def test_the_start_is_that_of_the_task_instance(file: Path) -> None:
    attempt = task_context()
    assert current_attempt(attempt.context).started == attempt.ti.start_date


def test_without_a_start_it_looks_from_now_on(file: Path) -> None:
    watch = drain_watch(Attempt(scope=ATTEMPT.scope), now)
    assert watch is not None
    assert watch.started == now().timestamp()


def test_after_a_deferral_it_looks_from_the_start_of_its_process_on(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow gives the start of the process before the deferral, and a file may have been touched in between."""
    runner = SimpleNamespace(SUPERVISOR_COMMS=object())
    monkeypatch.setitem(sys.modules, "airflow.sdk.execution_time.task_runner", runner)  # type: ignore[arg-type]
    watch = drain_watch(ATTEMPT, now)
    assert watch is not None
    assert MOMENT.timestamp() + 3600 < watch.started <= datetime.now(tz=timezone.utc).timestamp()


def test_a_script_does_not_look_as_nobody_would_start_it_again(file: Path) -> None:
    assert drain_watch(Attempt(), now) is None


def test_dag_test_does_not_look_as_it_does_not_reschedule(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    comms = type("InProcessSupervisorComms", (), {})()
    runner = SimpleNamespace(SUPERVISOR_COMMS=comms)
    monkeypatch.setitem(sys.modules, "airflow.sdk.execution_time.task_runner", runner)  # type: ignore[arg-type]
    assert drain_watch(ATTEMPT, now) is None


def test_without_the_setting_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert drain_watch(ATTEMPT, now) is None
    monkeypatch.setenv(VARIABLE, " ")
    assert drain_watch(ATTEMPT, now) is None


def test_a_path_that_depends_on_the_folder_is_refused_and_no_task_fails(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setenv(VARIABLE, "drain")
    assert drain_watch(ATTEMPT, now) is None
    assert "drain_file is 'drain', which is not an absolute path" in caplog.text
