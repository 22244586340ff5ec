"""A worker in another process, here in an environment that is there already."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.environments import DLT, RIVALS, Environment, worker
from benchmarks.harness import Scale, Seconds

SCRIPT = f"""
import sys
sys.path.append({str(RIVALS)!r})
from protocol import serve
def double(count):
    print("rivals may print")
    return 2 * count
serve({{"double": double, "fail": lambda: 1 / 0, "argument": lambda: float(sys.argv[1])}})
"""


class Here(Environment):
    """Nothing is installed."""

    def python(self) -> Path:
        return Path(sys.executable)


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "worker.py"
    path.write_text(SCRIPT)
    return str(path)


HERE = Here(name="here", requirements=())


def test_a_worker_answers_with_seconds_again_and_again(script: str) -> None:
    with worker(HERE, script, Scale(), "7") as running:
        assert running is not None
        answers = [running.ask("double", count=1), running.work("double", count=2)(), running.ask("argument")]
    assert [float(answer) for answer in answers] == [2.0, 4.0, 7.0]
    assert all(isinstance(answer, Seconds) for answer in answers)


def test_a_worker_that_ended_is_an_error(script: str, capfd: pytest.CaptureFixture[str]) -> None:
    with worker(HERE, script, Scale()) as running:
        assert running is not None
        with pytest.raises(RuntimeError, match="has ended"):
            running.ask("fail")
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_no_worker_is_started_where_others_are_not_wanted() -> None:
    with worker(HERE, "there is no such script", Scale(quick=True)) as running:
        assert running is None


def test_another_version_has_another_folder() -> None:
    assert replace(DLT, requirements=("dlt==0",)).folder != DLT.folder
