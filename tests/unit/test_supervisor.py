"""A task process whose supervisor is killed ends itself."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from airflow_resume import supervisor
from airflow_resume.supervisor import EXIT_CODE, dies_with_supervisor

TASK_RUNNER = "airflow.sdk.execution_time.task_runner"


def test_outside_of_a_task_process_nothing_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, TASK_RUNNER, raising=False)
    assert not supervisor.is_supervised()
    with dies_with_supervisor():
        pass


def test_dag_test_is_its_own_supervisor(monkeypatch: pytest.MonkeyPatch) -> None:
    comms = type("InProcessSupervisorComms", (), {})()
    monkeypatch.setitem(sys.modules, TASK_RUNNER, SimpleNamespace(SUPERVISOR_COMMS=comms))  # type: ignore[arg-type]
    assert not supervisor.is_supervised()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a supervisor forks its task process: only where there is fork")
@pytest.mark.parametrize("lives", [False, True])
def test_an_orphan_ends_within_moments_and_a_task_whose_supervisor_lives_goes_on(
    *, monkeypatch: pytest.MonkeyPatch, lives: bool
) -> None:
    monkeypatch.setitem(sys.modules, TASK_RUNNER, SimpleNamespace(SUPERVISOR_COMMS=object()))  # type: ignore[arg-type]
    monkeypatch.setattr(supervisor, "CHECK_SECONDS", 0.05)
    told, tell = os.pipe()
    parent = os.fork()
    if parent == 0:
        child = os.fork()
        if child == 0:
            os.close(told)
            with dies_with_supervisor():
                os.write(tell, b"begun ")
                time.sleep(1 if lives else 60)
            os.write(tell, b"ended")
            os._exit(0)
        os.close(tell)
        _, status = os.waitpid(child, 0)
        os._exit(os.waitstatus_to_exitcode(status))
    os.close(tell)
    assert os.read(told, 6) == b"begun "
    if not lives:
        os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    # The pipe is at its end when the task process is; it says so first if it came to the end of its block.
    assert os.read(told, 6) == (b"ended" if lives else b"")
    os.close(told)
    assert EXIT_CODE != 0


def test_the_supervisor_is_the_parent_that_imported_this_not_whoever_has_adopted_the_orphan_by_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervisor, "_IMPORTED_BY", (os.getpid(), 999_999_999))
    assert supervisor._supervisor() == 999_999_999
    monkeypatch.setattr(supervisor, "_IMPORTED_BY", (os.getpid() + 1, 999_999_999))
    assert supervisor._supervisor() == os.getppid()


def test_where_no_thread_can_be_started_the_task_goes_on_and_the_log_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setitem(sys.modules, TASK_RUNNER, SimpleNamespace(SUPERVISOR_COMMS=object()))  # type: ignore[arg-type]
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    with dies_with_supervisor():
        pass
    assert "cannot be watched: can't start new thread" in caplog.text
