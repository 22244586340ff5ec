from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = "airflow_resume.testing.plugin"
PROJECT = Path(__file__).parents[2] / "pyproject.toml"

USES = """
def test_fixtures(fake_jobs, explore_crashes):
    def attempt(world):
        with world.effect("submit"):
            fake_jobs.submit("a")
    report = explore_crashes(attempt, oracle=lambda outcome: None)
    assert [str(point) for point in report.points] == ["before submit", "after submit"]
    assert fake_jobs.alive()
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
    assert "airflow_resume.testing.explorer" not in sys.modules
"""


def run_pytest(folder: Path, test: str) -> subprocess.CompletedProcess[str]:
    """In a project of its own, with the plugin loaded by name as well as by entry point (if it is installed)."""
    (folder / "test_it.py").write_text(test)
    import airflow_resume

    root = str(Path(airflow_resume.__file__).parents[1])
    code = f"import sys; sys.path.insert(0, {root!r}); import pytest; sys.exit(pytest.main(sys.argv[1:]))"
    disabled = [f"-pno:{name}" for name in _other_plugins()]
    command = [sys.executable, "-c", code, "-q", "-p", PLUGIN, *disabled, "test_it.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def _other_plugins() -> list[str]:
    found = {entry.name for entry in importlib.metadata.entry_points(group="pytest11")}
    return sorted(found - {PLUGIN})


@pytest.mark.parametrize("test", [USES, USES_STORES, UNUSED], ids=["used", "stores", "unused"])
def test_the_plugin_gives_its_fixtures_and_loads_nothing_before(test: str, tmp_path: Path) -> None:
    done = run_pytest(tmp_path, test)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_entry_point_is_named_like_the_module() -> None:
    assert f'[project.entry-points.pytest11]\n"{PLUGIN}" = "{PLUGIN}"' in re.sub("\n#.*", "", PROJECT.read_text())
