"""Every snippet of the README is run as it is pasted."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Asset

from airflow_resume.testing import TaskAttempt, task_context

README = (Path(__file__).parents[2] / "README.md").read_text()
SNIPPETS = dict(re.findall(r"<!-- snippet: (\w+) -->\n```python\n(.*?)```", README, re.DOTALL))


@pytest.fixture
def first() -> TaskAttempt:
    return task_context(assets=[Asset("orders")])


def run_snippet(name: str, **given: Any) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "readme", **given}
    exec(SNIPPETS[name], namespace)  # noqa: S102  our own README
    return namespace


def test_there_are_no_python_blocks_that_are_not_run() -> None:
    assert README.count("```python") == len(SNIPPETS) == 4


def test_run_job(first: TaskAttempt) -> None:
    snippet = run_snippet("run_job")
    with first:
        assert snippet["train"].function() == {"job": "job-0"}
    with first.retry():
        assert snippet["train"].function() == {"job": "job-0"}
    assert len(snippet["client"].jobs) == 1


def test_what_runs_the_job_without_an_airflow_prints_its_result(capsys: pytest.CaptureFixture[str]) -> None:
    run_snippet("run", train=run_snippet("run_job")["train"])
    result = capsys.readouterr().out.splitlines()[-1]
    assert result == "{'job': 'job-0'}"
    assert f"`{result}`" in README


def test_the_job_of_an_attempt_that_died_is_taken_up(first: TaskAttempt) -> None:
    snippet = run_snippet("run_job")
    snippet["client"].fail_next("status", KeyboardInterrupt())
    with first, pytest.raises(KeyboardInterrupt):
        snippet["train"].function()
    with first.retry():
        assert snippet["train"].function() == {"job": "job-0"}
    assert len(snippet["client"].jobs) == 1


def test_checkpoint(first: TaskAttempt, capsys: pytest.CaptureFixture[str]) -> None:
    with first:
        assert run_snippet("checkpoint")["ingest"].function() == 3
    loads = re.findall(r"^load (.*) under the id (\w{32})$", capsys.readouterr().out, re.MULTILINE)
    assert [items for items, _ in loads] == ["['apple', 'pear']", "['plum']"]
    assert len({element for _, element in loads}) == 2


def test_a_page_that_failed_is_loaded_under_the_same_id(first: TaskAttempt) -> None:
    printed: list[tuple[Any, ...]] = []

    def fails_once(*words: Any) -> None:
        printed.append(words)
        if len(printed) == 2:
            raise ConnectionError

    ingest = run_snippet("checkpoint", print=fails_once)["ingest"]
    with first, pytest.raises(ConnectionError):
        ingest.function()
    with first.retry():
        assert ingest.function() == 3
    assert [words[1] for words in printed] == [["apple", "pear"], ["plum"], ["plum"]]
    assert printed[1] == printed[2]


def test_watermark(first: TaskAttempt) -> None:
    printed: list[tuple[Any, ...]] = []
    snippet = run_snippet("watermark", print=lambda *words: printed.append(words))
    with first:
        snippet["load_new"].function()
    ((_, start, _, end, _, rows),) = printed
    assert start == datetime(2026, 1, 1, tzinfo=timezone.utc)
    assert rows == snippet["ROWS"]
    kept: Any = first.asset_stores.single.values["resume.watermark.watermark"]
    assert kept["at"] == end.isoformat()
