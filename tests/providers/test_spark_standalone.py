"""`SparkSubmitOperator` on a real Spark standalone master, as it is and resumable: real processes, real kills.

It needs a Spark, and is skipped without one. See tests/support/providers/spark_standalone.py.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("airflow.providers.apache.spark", reason="the providers have an environment of their own")

from airflow.providers.apache.spark.operators import spark_submit as upstream

from airflow_resume_mixins.providers.spark import SparkSubmitOperator
from tests.support.providers.spark_standalone import START, Standalone, wait_until, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("spark")) as running:
        yield running


class Task:
    """A task in processes of its own, one for each attempt."""

    def __init__(self, spark: Standalone, name: str, *, is_ours: bool = True) -> None:
        self.spark, self.name, self.folder = spark, name, spark.folder / f"task-{name}"
        self.folder.mkdir()
        self._given: dict[str, Any] = {"is_ours": is_ours, "application": spark.application(name)}
        self._tries = 0
        self._before = set(spark.drivers())
        self._process: subprocess.Popen[bytes]

    def start(self, *, is_cleared: bool = False, dies_in_the_window: bool = False) -> None:
        """The next attempt."""
        for name in ("asked", "terminated", "ended.json"):
            (self.folder / name).unlink(missing_ok=True)
        how = {"tries": self._tries, "is_cleared": is_cleared, "dies_in_the_window": dies_in_the_window}
        self._tries += 1
        arguments = [str(self.folder), json.dumps({**self._given, **how})]
        variables = {**self.spark.environment(), "AIRFLOW_CONN_SPARK": self.spark.connection}
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        with (self.folder / "log").open("ab") as log:
            command = [sys.executable, "-m", "tests.support.providers.spark_task", *arguments]
            self._process = subprocess.Popen(command, env=variables, stdout=log, stderr=log)

    def wait_until_it_waits(self) -> None:
        """Until it has asked for the driver, and the driver has begun."""
        orders = self.spark.orders(self.name)
        wait_until(lambda: (self.folder / "asked").exists() and (orders / "started").exists(), self.log)

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait(60)

    def terminate(self) -> None:
        """SIGTERM, until `on_kill` has returned."""
        self._process.send_signal(signal.SIGTERM)
        wait_until((self.folder / "terminated").exists, self.log)

    def ended(self) -> dict[str, Any]:
        """How the attempt has ended; nothing if it was killed."""
        self._process.wait(START)
        file = self.folder / "ended.json"
        ended: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        return ended

    @property
    def drivers(self) -> dict[str, str]:
        """The drivers of this task, and their states."""
        return {driver: state for driver, state in self.spark.drivers().items() if driver not in self._before}

    @property
    def log(self) -> str:
        """Of all attempts."""
        return (self.folder / "log").read_text()[-3000:]


def states(task: Task) -> list[str]:
    return list(task.drivers.values())


def test_a_retry_takes_up_the_driver_after_a_sigkill_and_after_a_deploy(spark: Standalone) -> None:
    task = Task(spark, "killed")
    task.start()
    task.wait_until_it_waits()
    task.kill()
    task.start()
    task.wait_until_it_waits()
    task.terminate()
    task.kill()
    assert states(task) == ["RUNNING"]
    task.start()
    task.wait_until_it_waits()
    spark.end("killed")
    assert task.ended() == {"how": "returned", "id": next(iter(task.drivers))}, task.log
    assert states(task) == ["FINISHED"]


def test_a_clear_and_a_mark_kill_the_driver(spark: Standalone) -> None:
    task = Task(spark, "cleared")
    task.start()
    task.wait_until_it_waits()
    task.kill()
    (spark.orders("cleared") / "started").unlink()
    task.start(is_cleared=True)
    task.wait_until_it_waits()
    assert states(task) == ["KILLED", "RUNNING"]
    (task.folder / "marked").touch()
    task.terminate()
    wait_until(lambda: states(task) == ["KILLED", "KILLED"], task.log)
    task.kill()


def test_after_a_crash_in_the_window_the_retry_fails_and_names_the_token(spark: Standalone) -> None:
    task = Task(spark, "window")
    task.start(dies_in_the_window=True)
    assert task.ended() == {}
    task.start()
    ended = task.ended()
    token = json.loads((task.folder / "state.json").read_text())["resume.job.job"]["token"]
    assert (ended["how"], token in ended["text"]) == ("LostSubmissionError", True), task.log
    assert len(task.drivers) == 1
    assert token not in spark.all_it_says()  # nothing to look a driver up by
    shown = f"spark.airflow.resume.job={token}"

    def logs() -> list[Path]:
        return [file for file in spark.folder.glob("work/driver-*/stderr") if shown in file.read_text()]

    wait_until(lambda: len(logs()) == 1, f"{shown} in the log of the driver")
    spark.end("window")


def test_as_it_is_a_crash_in_the_window_leads_to_two_drivers(spark: Standalone) -> None:
    task = Task(spark, "alone", is_ours=False)
    task.start(dies_in_the_window=True)
    assert task.ended() == {}
    task.start()
    wait_until(lambda: states(task) == ["RUNNING", "RUNNING"], task.log)
    spark.end("alone")
    assert task.ended()["how"] == "returned", task.log


def test_a_driver_that_fails_is_followed_by_another(spark: Standalone) -> None:
    task = Task(spark, "fails")
    spark.end("fails", 3)
    task.start()
    assert task.ended()["how"] == "JobFailedError", task.log
    spark.end("fails")
    task.start()
    assert task.ended()["how"] == "returned", task.log
    assert states(task) == ["FAILED", "FINISHED"]


# --- what a master answers ------------------------------------------------------------------------------------


def asked(spark: Standalone, driver: str, patch: pytest.MonkeyPatch) -> BaseException:
    """The error of the real operator for a question about this driver."""
    patch.setenv("AIRFLOW_CONN_SPARK", spark.connection)
    patch.setattr(upstream.SparkSubmitOperator._fetch_driver_status.retry, "sleep", lambda _seconds: None)  # type: ignore[attr-defined]
    made = SparkSubmitOperator(task_id="task", conn_id="spark", application="app.jar")
    with pytest.raises(Exception, match=r".") as raised:
        made.get_job_status(driver, {})
    return raised.value


def meaning(error: BaseException) -> str:
    if SparkSubmitOperator.job_not_found(error):
        return "gone"
    return "asked again" if SparkSubmitOperator.transient_errors(error) else "fails"


def test_what_a_master_answers_about_a_driver_that_it_does_not_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = "driver-20260101000000-0000"
    recovery = {"spark.deploy.recoveryMode": "FILESYSTEM", "spark.deploy.recoveryDirectory": str(tmp_path / "recovery")}
    with Standalone(tmp_path / "spark", **recovery, **{"spark.worker.timeout": "600"}) as spark:
        answers = {}
        for name in (driver, "nonsense"):
            answers[name] = (spark.answer(name) or {})["success"], meaning(asked(spark, name, monkeypatch))
        spark.stop("worker")
        spark.stop("master")
        answers["down"] = spark.answer(driver), meaning(asked(spark, driver, monkeypatch))
        spark.start_master()  # it waits for the worker that it had
        answer = spark.answer(driver) or {}
        answers["recovering"] = answer["success"], meaning(asked(spark, driver, monkeypatch))
        assert "Current state is not alive: RECOVERING" in answer["message"]
    assert answers == {
        driver: (False, "gone"),
        "nonsense": (False, "gone"),
        "down": (None, "asked again"),
        "recovering": (False, "asked again"),
    }


def test_a_master_that_was_restarted_without_recovery_forgets_the_driver_and_has_it_killed(tmp_path: Path) -> None:
    with Standalone(tmp_path / "spark") as spark:
        task = Task(spark, "forgotten")
        task.start()
        task.wait_until_it_waits()
        task.kill()
        (driver,) = task.drivers
        spark.stop("master")
        spark.start_master()
        wait_until(lambda: (spark.answer(driver) or {}) == {**(spark.answer(driver) or {}), "success": False}, task.log)
        worker = spark.folder / "worker.log"
        wait_until(lambda: f"{driver} was killed by user" in worker.read_text(), worker.read_text()[-2000:])
        spark.end("forgotten")
        task.start()
        assert task.ended()["how"] == "returned", task.log
        assert states(task) == ["FINISHED"]
        assert driver not in task.drivers
