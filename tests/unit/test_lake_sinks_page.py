"""Every snippet of docs/lake-sinks.md is run on local files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Asset

import airflow_resume.sinks
from airflow_resume.testing import TaskAttempt, task_context

PAGE = (Path(__file__).parents[2] / "docs" / "lake-sinks.md").read_text()
SNIPPETS = dict(re.findall(r"<!-- snippet: (\w+) -->\n```python\n(.*?)```", PAGE, re.DOTALL))


@pytest.fixture
def page(tmp_path: Path) -> dict[str, Any]:
    """The names of a reader who has pasted all snippets."""
    names: dict[str, Any] = {"__name__": "page", "LAKE": str(tmp_path)}
    for snippet in SNIPPETS.values():
        exec(snippet, names)  # noqa: S102  our own page
    return names


@pytest.fixture
def attempt() -> TaskAttempt:
    return task_context(assets=[Asset("orders")])


def ids_in(name: str) -> Callable[[dict[str, Any]], list[int]]:
    def ids(page: dict[str, Any]) -> list[int]:
        return sorted(page["DeltaTable"](f"{page['LAKE']}/{name}").to_pyarrow_table()["id"].to_pylist())

    return ids


ORDERS, NEW = ids_in("orders"), ids_in("new_orders")


def test_there_are_no_python_blocks_that_are_not_run() -> None:
    assert PAGE.count("```python") == len(SNIPPETS) == 6


def test_a_loop_appends_each_page_once_and_a_retry_nothing(page: dict[str, Any], attempt: TaskAttempt) -> None:
    with attempt:
        page["ingest"].function()
    with attempt.retry():
        page["ingest"].function()
    assert ORDERS(page) == [1, 2, 3]


def test_elements_are_committed_in_batches(page: dict[str, Any], attempt: TaskAttempt) -> None:
    with attempt:
        page["ingest_in_batches"]([{"id": number, "name": "x"} for number in range(4)])
    assert ORDERS(page) == [0, 1, 2, 3]
    assert len(list(Path(page["LAKE"]).glob("orders/*.parquet"))) == 1


def test_a_watermark_appends_what_is_new(page: dict[str, Any], attempt: TaskAttempt) -> None:
    with attempt:
        page["load"].function()
    attempt.succeed()
    page["SOURCE"].append({"id": 5, "name": "new"})
    with attempt.next_run():
        page["load"].function()
    assert NEW(page) == [0, 1, 2, 3, 4, 5]


def test_so_does_one_of_iceberg(page: dict[str, Any], attempt: TaskAttempt) -> None:
    with attempt:
        page["ingest_into_iceberg"].function()
    with attempt.retry():
        page["ingest_into_iceberg"].function()
    catalog = page["load_catalog"]("prod", **page["CATALOG"])
    rows = catalog.load_table("lake.orders").scan().to_arrow()
    catalog.engine.dispose()
    assert sorted(rows["id"].to_pylist()) == [1, 2, 3]


def test_files_are_written_once(page: dict[str, Any], attempt: TaskAttempt) -> None:
    with attempt:
        page["ingest_files"].function()
    with attempt.retry():
        page["ingest_files"].function()
    assert [json.loads(Path(path).read_text()) for path in page["read_files"]()] == [
        [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}],
        [{"id": 3, "name": "c"}],
    ]
    assert len(page["folder"].committed()) == 4


def test_every_crash_of_the_example_is_explored(page: dict[str, Any], tmp_path: Path) -> None:
    numbers = iter(range(10**6))
    report = page["explore"](lambda: str(tmp_path / str(next(numbers))))
    assert len(report.points) > 15


def test_the_page_names_every_sink_that_is_not_sql() -> None:
    names = {name for name in airflow_resume.sinks.__all__ if name.endswith("Sink")} - {"SqlSink"}
    assert all(f"| `{name}` |" in PAGE for name in names)
