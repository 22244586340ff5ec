"""What a Celery worker does with the file of `[airflow_resume] drain_file`; the worker itself is a stand-in."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from celery.signals import celeryd_init

from airflow_resume import celery_worker
from airflow_resume.celery_worker import TellTasks, touched
from airflow_resume.drain_file import VARIABLE


@pytest.fixture
def worker() -> Any:
    """A worker that is being made: steps are added to its app."""
    return SimpleNamespace(app=SimpleNamespace(steps=defaultdict(set)), steps=[])


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "drain"
    monkeypatch.setenv(VARIABLE, str(file))
    return file


def test_a_worker_that_begins_gets_the_step(file: Path, worker: Any) -> None:
    celeryd_init.send(sender="worker@test", instance=worker, conf={}, options={})
    assert dict(worker.app.steps) == {"worker": {TellTasks}}


def test_without_the_setting_a_worker_stays_as_it_is(monkeypatch: pytest.MonkeyPatch, worker: Any) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    celeryd_init.send(sender="worker@test", instance=worker, conf={}, options={})
    assert dict(worker.app.steps) == {}


def test_a_relative_path_is_refused(
    monkeypatch: pytest.MonkeyPatch, worker: Any, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(VARIABLE, "drain")
    celeryd_init.send(sender="worker@test", instance=worker, conf={}, options={})
    assert dict(worker.app.steps) == {}
    assert "not an absolute path" in caplog.text


def test_a_worker_that_begins_to_stop_touches_the_file_again_and_again(
    file: Path, worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(celery_worker, "TOUCH_SECONDS", 0.01)
    TellTasks(worker).close(worker)
    for _ in range(3):
        os.utime(file, (0, 0))
        deadline = time.monotonic() + 60
        while file.stat().st_mtime == 0:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_folder_that_cannot_be_written_to_stops_no_worker(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert not touched(tmp_path / "missing" / "drain")
    assert "cannot be touched" in caplog.text
    assert "Let the user of the worker write into the folder" in caplog.text
