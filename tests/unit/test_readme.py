"""Every snippet of the README is run."""

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


class Client:
    """Stands for the job system and the API that the snippets talk to."""

    def __init__(self) -> None:
        self.tokens: list[str] = []

    def submit(self, *_spec: Any, token: str = "") -> int:
        self.tokens.append(token or _spec[0])
        return len(self.tokens) - 1

    def find(self, token: str) -> int | None:
        return self.tokens.index(token) if token in self.tokens else None

    def status(self, _external_id: int) -> str:
        return "SUCCEEDED"

    def result(self, external_id: int) -> str:
        return f"model {external_id}"

    def orders(self, page_token: int | None) -> dict[str, Any]:
        number = page_token or 0
        return {"items": [number], "next_page_token": number + 1 if number < 2 else None}


@pytest.fixture
def first() -> TaskAttempt:
    return task_context(assets=[Asset("orders")])


def run_snippet(name: str, **given: Any) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "readme", **given}
    exec(SNIPPETS[name], namespace)  # noqa: S102  our own README
    return namespace


def test_there_are_no_python_blocks_that_are_not_run() -> None:
    assert README.count("```python") == len(SNIPPETS) == 4


def test_operator(first: TaskAttempt) -> None:
    client = Client()
    operator = run_snippet("operator", client=client)["TrainOperator"](task_id="train")
    assert operator.execute_resumable(first.context) == "model 0"
    assert operator.execute_resumable(first.retry().context) == "model 0"
    assert len(client.tokens) == 1


def test_run_job(first: TaskAttempt) -> None:
    client = Client()
    train = run_snippet("run_job", client=client)["train"].function
    with first:
        assert train() == "model 0"
    with first.retry():
        assert train() == "model 0"
    assert len(client.tokens) == 1


def test_checkpoint(first: TaskAttempt) -> None:
    loaded: dict[str, list[int]] = {}
    ingest = run_snippet("checkpoint", client=Client(), load=lambda items, key: loaded.update({key: list(items)}))
    with first:
        assert ingest["ingest"].function() == 3
    assert list(loaded.values()) == [[0], [1], [2]]


def test_watermark(first: TaskAttempt) -> None:
    replaced: list[tuple[datetime, datetime]] = []
    snippet = run_snippet(
        "watermark", query=lambda *_: [], replace=lambda start, end, _rows: replaced.append((start, end))
    )
    with first:
        snippet["load_new"].function()
    ((start, end),) = replaced
    assert start == datetime(2026, 1, 1, tzinfo=timezone.utc)
    kept: Any = first.asset_stores.single.values["resume.watermark.watermark"]
    assert kept["at"] == end.isoformat()
