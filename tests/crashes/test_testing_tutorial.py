"""Every snippet of the tutorial is run, and every output it shows is the real one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import airflow_resume
from airflow_resume.testing.errors import CrashFoundError, InterleavingFoundError

TUTORIAL = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
SNIPPETS = dict(re.findall(r"<!-- snippet: (\w+) -->\n```python\n(.*?)```", TUTORIAL, re.DOTALL))
OUTPUTS = dict(re.findall(r"<!-- output: (\w+) -->\n```text\n(.*?)```", TUTORIAL, re.DOTALL))


@pytest.fixture
def tutorial() -> dict[str, Any]:
    """What a reader has who typed everything in."""
    namespace: dict[str, Any] = {"__name__": "tutorial"}
    for snippet in SNIPPETS.values():
        exec(snippet, namespace)  # noqa: S102  our own tutorial
    return namespace


def test_there_is_no_code_that_is_not_run() -> None:
    assert TUTORIAL.count("```python") == len(SNIPPETS)
    assert TUTORIAL.count("```text") == len(OUTPUTS)


@pytest.mark.parametrize(
    ("test", "output"),
    [
        ("test_naive", "naive"),
        ("test_this_one_crash", "naive"),
        ("test_work_first_repeats", "exactly_once"),
        ("test_a_late_error", "raises_after"),
    ],
)
def test_what_breaks_is_shown(tutorial: dict[str, Any], test: str, output: str) -> None:
    with pytest.raises(CrashFoundError) as caught:
        tutorial[test]()
    assert str(caught.value) == OUTPUTS[output].rstrip("\n")


def test_what_breaks_when_runs_take_turns_is_shown(tutorial: dict[str, Any]) -> None:
    with pytest.raises(InterleavingFoundError) as caught:
        tutorial["test_two_count"]()
    assert str(caught.value) == OUTPUTS["at_once"].rstrip("\n")
    with pytest.raises(InterleavingFoundError) as caught:
        tutorial["test_a_job_of_a_frozen_attempt"]()
    assert str(caught.value).startswith(OUTPUTS["freezes"])  # the page shows its beginning


@pytest.mark.parametrize(("test", "output"), [("test_resuming", "checkpoint"), ("test_a_lost_reply", "serve")])
def test_what_does_not_break(
    tutorial: dict[str, Any], capsys: pytest.CaptureFixture[str], test: str, output: str
) -> None:
    tutorial[test]()
    assert capsys.readouterr().out == OUTPUTS[output]


def test_the_first_of_several_findings_is_shown(tutorial: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    tutorial["test_a_wrong_page"]()
    assert capsys.readouterr().out.startswith(OUTPUTS["wrong_once"])


@pytest.mark.parametrize(
    "test",
    [
        "test_work_first_loses_nothing",
        "test_draining",
        "test_run_job",
        "test_as_a_task",
        "test_a_new_run_has_a_job_of_its_own",
    ],
)
def test_what_passes(tutorial: dict[str, Any], test: str) -> None:
    tutorial[test]()


def test_a_dag_authors_own_tests_pass(tutorial: dict[str, Any], mocker: Any) -> None:
    explore = tutorial["explore_crashes"]
    tutorial["test_training_is_submitted_once"](mocker, explore)
    tutorial["test_no_row_is_lost"](explore)
    tutorial["test_orders_are_loaded_in_any_case"](explore)


def test_the_operator_of_a_provider_submits_one_job_with_the_mixin_and_two_without(
    tutorial: dict[str, Any], mocker: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tutorial["test_one_batch_is_submitted"](mocker, monkeypatch)
    assert capsys.readouterr().out.endswith(": 0 findings\n")
    tutorial["test_the_operator_alone_submits_two"](mocker, monkeypatch)


def test_a_dag_authors_own_tests_fail_where_the_task_is_wrong(
    tutorial: dict[str, Any], mocker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same tests, with a slip in the task."""
    explore = tutorial["explore_crashes"]

    def saves_first(client: Any, load: Any, store: Any) -> None:
        for after in range(store.get("after", 0), 6, 2):
            store.set("after", after + 2)
            for row in client.get("/rows", params={"after": after}).json()["rows"]:
                load(row)

    monkeypatch.setitem(tutorial, "copy_pages", saves_first)
    with pytest.raises(CrashFoundError):
        tutorial["test_no_row_is_lost"](explore)
    monkeypatch.setattr(tutorial["TrainOperator"], "execute", lambda self, context: self.submit_job(context))
    with pytest.raises(CrashFoundError):
        tutorial["test_training_is_submitted_once"](mocker, explore)


def test_the_scenarios_of_an_operator_are_shown(
    tutorial: dict[str, Any], mocker: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tutorial["test_livy_as_it_is"](mocker, monkeypatch)
    assert capsys.readouterr().out.endswith(OUTPUTS["scenarios"])  # before it is what the operator logs
    tutorial["test_livy_wrapped"](mocker, monkeypatch)


def test_the_section_about_scenarios_can_be_copied_without_the_rest_of_the_page(
    mocker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone: dict[str, Any] = {"__name__": "copied"}
    for name in ("scenarios", "scenarios_wrapped"):
        exec(SNIPPETS[name], alone)  # noqa: S102  our own tutorial
    alone["test_livy_wrapped"](mocker, monkeypatch)


def test_every_argument_of_check_operator_is_explained() -> None:
    import inspect

    from airflow_resume.testing import check_operator

    section = TUTORIAL[TUTORIAL.index("## Any operator, in every scenario") : TUTORIAL.index("## Kinds of crash")]
    names = list(inspect.signature(check_operator).parameters)[2:]
    assert [name for name in names if f"{name}=" not in section and f"`{name}`" not in section] == []


def test_every_scenario_is_explained() -> None:
    from airflow_resume.testing.operators import SCENARIOS

    rows = TUTORIAL.split("| scenario | what happens |")[1].split("\n\n")[0]
    assert re.findall(r"`([^`=]+)`(?=, `|\s\|)", rows) == list(SCENARIOS)


def test_two_jobs_are_shown(tutorial: dict[str, Any]) -> None:
    with pytest.raises(CrashFoundError, match=r"crash at point 4 \(after submit\): \['job-0', 'job-1'\]"):
        tutorial["test_submit_and_save"]()


def test_the_contract_finds_the_fault_of_the_tutorials_store(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(SNIPPETS["contract"] + SNIPPETS["differs"])
    root = str(Path(airflow_resume.__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": root, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider", "-rf", "test_it.py"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    failed = re.findall(r"^FAILED (\S+)", done.stdout, re.MULTILINE)
    assert failed == ["test_it.py::TestDictStore::test_a_value_is_a_copy_both_ways"], done.stdout + done.stderr
    assert "1 failed" in done.stdout
    assert "1 xfailed" in done.stdout
