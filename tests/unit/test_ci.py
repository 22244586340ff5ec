"""What CI plays: the suites of the Makefile, and tests that failed once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import make_url

from tests.support.backends.databases import MYSQL, POSTGRESQL

ROOT = Path(__file__).parents[2]
RUN = (ROOT / ".ci" / "run").read_text() if (ROOT / ".ci").exists() else ""

pytestmark = pytest.mark.skipif(not RUN, reason="a copy of the tests without .ci, as the wheel is tested from")

PLANTED = """
import pathlib, pytest

def first_time(name):
    file = pathlib.Path(name)
    return not file.exists() and file.touch() is None

@pytest.mark.parametrize("number", range({flakes}))
def test_flaky(number, record_property):
    record_property("number", number)
    assert not first_time(f"flaky {{number}}")

def test_right():
    assert first_time("right")  # never played twice

def test_wrong():
    assert not {wrong}

def test_skipped_later():
    if {skipped} and not first_time("skipped"):
        pytest.skip("its server is gone")
    assert not {skipped}
"""


def played(folder: Path, *, flakes: int = 0, wrong: bool = False, skipped: bool = False) -> tuple[bool, list[str]]:
    """Whether CI goes on after a suite, and the tests that it prints at its end."""
    (folder / "test_planted.py").write_text(PLANTED.format(flakes=flakes, wrong=wrong, skipped=skipped))
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    beginning = RUN[: RUN.index("# The tests of poolers")].replace('cd "$(dirname "$0")/.."', "")
    script = f"{beginning}\nsuite {sys.executable} -p xdist.plugin -q -n 0 test_planted.py\necho the next suite"
    env = {**os.environ, "CI_SHARES": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # plugins take seconds to import
    done = subprocess.run(["/bin/bash", "-c", script], cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert ("the next suite" in done.stdout) == (done.returncode == 0), done.stdout + done.stderr
    _, _, listed = done.stdout.partition("failed once, and passed alone:\n")
    return done.returncode == 0, listed.split("\n  ") if listed else []


def test_tests_that_fail_once_are_played_alone_and_named_at_the_end(tmp_path: Path) -> None:
    goes_on, listed = played(tmp_path, flakes=3)
    assert goes_on
    assert sorted(name.strip() for name in listed) == [f"test_planted.py::test_flaky[{number}]" for number in range(3)]


def test_a_suite_that_passes_is_played_once(tmp_path: Path) -> None:
    assert played(tmp_path) == (True, [])


@pytest.mark.parametrize(
    "planted",
    [{"flakes": 4}, {"wrong": True}, {"flakes": 1, "wrong": True}, {"skipped": True}],
    ids=["more than three", "fails again", "one of two fails again", "skipped when played again"],
)
def test_a_suite_fails_with_what_is_no_single_flake(tmp_path: Path, planted: dict[str, int]) -> None:
    assert played(tmp_path, **planted) == (False, [])  # type: ignore[arg-type]


def test_a_suite_that_could_not_begin_is_not_played_again(tmp_path: Path) -> None:
    assert played(tmp_path, flakes="nothing") == (False, [])  # type: ignore[arg-type]


PLAYED = ("unit", "contract", "crashes", "airflow", "providers")
"""The targets of the Makefile whose suites CI plays."""


@pytest.mark.parametrize("target", PLAYED)
def test_the_suites_of_a_target_are_played_with_the_same_arguments(target: str) -> None:
    makefile = (ROOT / "Makefile").read_text()
    recipe = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert recipe
    suites = re.findall(r"/python -m pytest (.*?)(?:; tested.*)?$", recipe.group(1), re.MULTILINE)
    assert suites
    assert [
        arguments
        for arguments in suites
        if not re.search(f"^ *suite .*python {re.escape(arguments)}$", RUN, re.MULTILINE)
    ] == []


# --- the file for GitHub ------------------------------------------------------------------------------------------

WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"


def jobs() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(WORKFLOW.read_text())["jobs"]
    return found


def test_every_python_that_is_promised_is_tested() -> None:
    (job,) = jobs().values()
    promised = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text())
    assert job["strategy"]["matrix"]["python"] == promised


def test_what_is_played_on_github_is_what_ci_plays() -> None:
    (job,) = jobs().values()
    assert [step["run"] for step in job["steps"] if "run" in step][-1] == ".ci/run"


def test_the_servers_that_tests_look_for_are_services() -> None:
    (job,) = jobs().values()
    given = {name: make_url(url).host for name, url in job["env"].items() if name.endswith("_URL")}
    assert given == {POSTGRESQL.variable: "postgresql", MYSQL.variable: "mariadb"}
    assert set(given.values()) < set(job["services"])
