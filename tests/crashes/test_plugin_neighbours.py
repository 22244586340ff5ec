"""The pytest plugin beside the plugins that people who test Dags have, in a real pytest with two workers."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.kit.next_airflow import AIRFLOW

PLUGIN = "airflow_resume.testing.plugin"
NEIGHBOURS = ["pytest_airflow_in_a_box.plugin", "pytest_mock", "xdist.plugin"]

USES_ALL = """
import pytest
from airflow.sdk import BaseOperator

from airflow_resume import checkpoint
from airflow_resume.testing import TaskAttempt

OURS = ["task_state_store", "asset_state_store", "task_attempt", "fake_jobs", "explore_crashes"]


class Tries(BaseOperator):
    def execute(self, context):
        return context["ti"].try_number


@pytest.mark.parametrize("name", OURS)
def test_no_other_plugin_has_a_fixture_of_our_name(request, name):
    found = request.session._fixturemanager.getfixturedefs(name, request.node)
    assert [each.func.__module__ for each in found] == ["airflow_resume.testing.plugin"]


def test_jobs_and_mocks(fake_jobs, mocker, worker_id):
    spy = mocker.spy(fake_jobs, "submit")
    assert fake_jobs.submit("a") == "job-0"
    spy.assert_called_once_with("a")
    assert worker_id in {"gw0", "gw1"}


def test_stores_and_mocks(task_state_store, asset_state_store, mocker):
    mocker.patch.object(asset_state_store, "get", return_value=7)
    task_state_store.set("k", 1)
    assert (task_state_store.get("k"), asset_state_store.get("k")) == (1, 7)


def test_an_attempt_of_ours_and_a_context_of_theirs(task_attempt, task_context, airflow_home):
    assert airflow_home.is_dir()
    with task_context(Tries(task_id="tries"), try_number=3) as theirs:
        assert theirs.task.execute(theirs.context) == 3
    with task_attempt() as first, pytest.raises(KeyError):
        for number in checkpoint([1, 2, 3], name="l"):
            if number == 2:
                raise KeyError
    with first.retry() as second:
        assert isinstance(second, TaskAttempt)
        assert list(checkpoint([1, 2, 3], name="l")) == [2, 3]


@pytest.mark.parametrize("effects", [1, 2])
def test_an_exploration(explore_crashes, effects):
    def attempt(world):
        for number in range(effects):
            with world.effect(f"load {number}"):
                pass

    assert len(explore_crashes(attempt, oracle=lambda outcome: None).points) == 2 * effects
"""

PRINTS_MODULES = """
import sys

def test_modules(capsys):
    with capsys.disabled():
        print("modules:", *sorted(sys.modules))
"""


def run_pytest(folder: Path, test: str, *options: str, **environment: str) -> str:
    """What a pytest in a project of its own says; it must pass."""
    import airflow_resume

    (folder / "test_it.py").write_text(test)
    root = str(Path(airflow_resume.__file__).parents[1])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    # This very test may be run by a worker of xdist, and the other pytest is none.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "test_it.py"],
        cwd=folder,
        env={**inherited, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def is_missing(module: str) -> bool:
    return importlib.util.find_spec(module.partition(".")[0]) is None


@pytest.mark.skipif(
    any(map(is_missing, NEIGHBOURS)), reason="needs what the group dev has: pip install --group dev, or make test"
)
@pytest.mark.skipif(AIRFLOW.is_prerelease, reason="pytest-airflow-in-a-box takes no pre-release of Airflow")
@pytest.mark.parametrize("names", [[PLUGIN, *NEIGHBOURS], [*NEIGHBOURS, PLUGIN]], ids=["first", "last"])
def test_ours_works_beside_the_others_whether_it_is_loaded_first_or_last(names: list[str], tmp_path: Path) -> None:
    said = run_pytest(
        tmp_path,
        USES_ALL,
        "-v",
        "-n2",
        "-ppytest_timeout",  # needed by the first of the others
        *[f"-p{name}" for name in names],
        PYTEST_DISABLE_PLUGIN_AUTOLOAD="1",
        TMPDIR=str(tmp_path),
    )
    assert "10 passed" in said
    assert {worker for worker in ("gw0", "gw1") if f"[{worker}]" in said} == {"gw0", "gw1"}


def test_a_run_that_uses_no_fixture_loads_the_plugin_and_nothing_else(tmp_path: Path) -> None:
    def modules(option: str) -> set[str]:
        said = run_pytest(tmp_path, PRINTS_MODULES, "-q", option, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
        return set(said.partition("modules: ")[2].splitlines()[0].split())

    without = modules(f"-pno:{PLUGIN}")
    added = modules(f"-p{PLUGIN}") - without
    assert added == {"airflow_resume", "airflow_resume.late", "airflow_resume.testing", PLUGIN}
    assert not {name.partition(".")[0] for name in without} & {"airflow", "pydantic", "sqlalchemy"}
