"""Every snippet of the tutorial is run, and every output it shows is the real one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from airflow_resume.testing.errors import CrashFoundError

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
    [("test_naive", "naive"), ("test_this_one_crash", "naive"), ("test_work_first_repeats", "exactly_once")],
)
def test_what_breaks_is_shown(tutorial: dict[str, Any], test: str, output: str) -> None:
    with pytest.raises(CrashFoundError) as caught:
        tutorial[test]()
    assert str(caught.value) == OUTPUTS[output].rstrip("\n")


@pytest.mark.parametrize(("test", "output"), [("test_resuming", "checkpoint"), ("test_a_lost_reply", "serve")])
def test_what_does_not_break(
    tutorial: dict[str, Any], capsys: pytest.CaptureFixture[str], test: str, output: str
) -> None:
    tutorial[test]()
    assert capsys.readouterr().out == OUTPUTS[output]


@pytest.mark.parametrize("test", ["test_work_first_loses_nothing", "test_run_job"])
def test_what_passes(tutorial: dict[str, Any], test: str) -> None:
    tutorial[test]()


def test_two_jobs_are_shown(tutorial: dict[str, Any]) -> None:
    with pytest.raises(CrashFoundError, match=r"crash at point 4 \(after submit\): \['job-0', 'job-1'\]"):
        tutorial["test_submit_and_save"]()
