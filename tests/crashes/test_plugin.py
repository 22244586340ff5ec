from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = "airflow_resume.testing.plugin"
PROJECT = Path(__file__).parents[2] / "pyproject.toml"

USES = """
from airflow_resume.testing import CrashWorld, FakeJobs

def test_explore_crashes(explore_crashes):
    def attempt(world):
        world.jobs.submit("a")
    report = explore_crashes(attempt, oracle=lambda outcome: None, world=lambda: CrashWorld(jobs=FakeJobs()))
    assert [str(point) for point in report.points] == ["before submit", "after submit"]

def test_fake_jobs(fake_jobs):
    fake_jobs.submit("a")
    assert fake_jobs.alive()
"""

SLIPS = """
import pytest

def loads(world):
    with world.effect("load"):
        pass

def none_twice(outcome):
    assert len(outcome.effects) == 1

def test_never_calls(explore_crashes):
    explore_crashes

def test_never_looks(explore_crashes):
    explore_crashes(loads, oracle=none_twice, find_all=True)

def test_looks(explore_crashes):
    assert explore_crashes(loads, oracle=none_twice, find_all=True).findings

def test_prints(explore_crashes):
    print(explore_crashes(loads, oracle=none_twice, find_all=True))

def test_skips(explore_crashes):
    pytest.skip("not today")
"""

ONE_WAY = """
def loads(world):
    with world.effect("load"):
        pass

def test_one_way(explore_crashes):
    def ok(outcome):
        pass
    explore_crashes(loads, oracle=ok, only="1:crash")
"""

USES_STORES = """
import pytest
from airflow_resume import checkpoint

def test_a_retry_goes_on(task_attempt):
    with task_attempt() as first, pytest.raises(KeyError):
        for number in checkpoint([1, 2, 3], name="l"):
            if number == 2:
                raise KeyError
    with first.retry():
        assert list(checkpoint([1, 2, 3], name="l")) == [2, 3]

def test_the_stores(task_state_store, asset_state_store):
    task_state_store.set("k", 1)
    asset_state_store.set("k", 2)
    assert (task_state_store.get("k"), asset_state_store.get("k")) == (1, 2)
"""

UNUSED = """
import sys
def test_nothing_is_loaded():
    assert "airflow_resume.testing.plugin" in sys.modules
    assert not [name for name in sys.modules if name.split(".")[0] in {"airflow", "pydantic", "sqlalchemy"}]
    assert "airflow_resume.testing.crashes.explorer" not in sys.modules
"""


def run_pytest(folder: Path, test: str) -> subprocess.CompletedProcess[str]:
    """In a project of its own, with the plugin loaded by name as well as by entry point (if it is installed)."""
    (folder / "test_it.py").write_text(test)
    import airflow_resume

    root = str(Path(airflow_resume.__file__).parents[1])
    code = f"import sys; sys.path.insert(0, {root!r}); import pytest; sys.exit(pytest.main(sys.argv[1:]))"
    disabled = [f"-pno:{name}" for name in _other_plugins()]
    command = [sys.executable, "-c", code, "-q", "-p", PLUGIN, *disabled, "test_it.py"]
    # In a CI pytest writes whole messages into its summary, so what is counted here would be there twice.
    environment = {name: value for name, value in os.environ.items() if name not in {"CI", "BUILD_NUMBER"}}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def _other_plugins() -> list[str]:
    found = {entry.name for entry in importlib.metadata.entry_points(group="pytest11")}
    return sorted(found - {PLUGIN})


@pytest.mark.parametrize("test", [USES, USES_STORES, UNUSED], ids=["used", "stores", "unused"])
def test_the_plugin_gives_its_fixtures_and_loads_nothing_before(test: str, tmp_path: Path) -> None:
    done = run_pytest(tmp_path, test)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_test_that_explores_nothing_or_does_not_look_at_what_was_found_fails(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, SLIPS)
    assert "3 failed, 1 passed, 1 skipped" in done.stdout, done.stdout
    assert "asks for the fixture explore_crashes and never calls it" in done.stdout
    said = "find_all=True found 2, and the test did not look.\nWrite `assert not report.findings`"
    assert done.stdout.count(said) == 2, "to print is not to look"


def test_one_way_alone_is_in_the_summary_with_the_line_that_asks_for_it(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, ONE_WAY)
    assert "1 passed, 1 warning" in done.stdout, done.stdout
    assert re.search(r'test_it\.py:9: OneWayWarning: only="1:crash" tries one way', done.stdout), done.stdout


def test_the_entry_point_is_named_like_the_module() -> None:
    assert f'[project.entry-points.pytest11]\n"{PLUGIN}" = "{PLUGIN}"' in re.sub("\n#.*", "", PROJECT.read_text())
