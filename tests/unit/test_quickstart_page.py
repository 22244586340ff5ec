"""Every snippet of docs/quickstart.md is run as it is pasted, one after the other, and prints what the page shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from airflow_resume.testing import task_context

PAGE = (Path(__file__).parents[2] / "docs" / "quickstart.md").read_text()
SNIPPETS = dict(re.findall(r"<!-- snippet: (\w+) -->\n```python\n(.*?)```", PAGE, re.DOTALL))
OUTPUTS = dict(re.findall(r"<!-- output: (\w+) -->\n```text\n(.*?)```", PAGE, re.DOTALL))
LINE_OF_THE_LOG = re.compile(r"^\S*\d{4}-\d\d-\d\dT.* \[(?:info|warning) .*\n", re.MULTILINE)


def paste(name: str, names: dict[str, Any]) -> dict[str, Any]:
    exec(compile(SNIPPETS[name], f"docs/quickstart.md, {name}", "exec"), names)  # noqa: S102  our own page
    return names


def test_there_is_no_code_that_is_not_run_and_no_output_that_is_not_compared() -> None:
    assert PAGE.count("```python") == len(SNIPPETS)
    assert PAGE.count("```text") == len(OUTPUTS)
    assert set(OUTPUTS) == set(SNIPPETS) - {"setup", "dag"}


def test_every_pair_prints_what_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "quickstart"}
    for name in SNIPPETS:
        paste(name, names)
        assert LINE_OF_THE_LOG.sub("", capsys.readouterr().out) == OUTPUTS.get(name, "")


def test_the_operator_of_the_page_submits_once_and_has_the_same_result_again() -> None:
    names: dict[str, Any] = {"__name__": "quickstart"}
    for name in ("setup", "job_before", "job_after"):
        paste(name, names)
    with names["attempt"].retry() as again:
        assert again.ti.task.execute_resumable(again.context) == {"job": "job-0"}
    assert len(names["client"].jobs) == 1


def test_the_dag_goes_on_where_it_was_killed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    naps: list[float] = []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 7:
            raise KeyboardInterrupt

    names = paste("dag", {"__name__": "quickstart"})
    monkeypatch.setattr("time.sleep", sleep)
    with task_context() as first, pytest.raises(KeyboardInterrupt):
        names["count"].function()
    with first.retry():
        names["count"].function()
    seen = [int(number) for number in re.findall(r"^element (\d+);", capsys.readouterr().out, re.MULTILINE)]
    assert seen == [*range(7), *range(6, 60)]
    assert [task.task_id for task in names["dag"].tasks] == ["count"]
