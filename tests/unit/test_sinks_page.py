"""Every snippet of docs/sinks.md is run against a real PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.common.sql.hooks.sql import DbApiHook
from sqlalchemy import select

from airflow_resume.loops import Page
from airflow_resume.testing import TaskAttempt, task_context
from tests.support.backends.databases import schema_on_postgresql

PAGE = (Path(__file__).parents[2] / "docs" / "sinks.md").read_text()
SNIPPETS = dict(re.findall(r"<!-- snippet: (\w+) -->\n```python\n(.*?)```", PAGE, re.DOTALL))


@pytest.fixture
def page() -> Iterator[dict[str, Any]]:
    """The names of a reader who has pasted all snippets, on a schema with a table of orders."""
    with schema_on_postgresql() as url:
        names: dict[str, Any] = {"__name__": "page", "URL": url}
        for snippet in SNIPPETS.values():
            exec(snippet, names)  # noqa: S102  our own page
        names["orders"].create(names["sink"].engine)
        yield names
        names["sink"].engine.dispose()


@pytest.fixture
def attempt(page: dict[str, Any]) -> TaskAttempt:
    return task_context(assets=[page["ORDERS"]])


def ids(page: dict[str, Any]) -> list[int]:
    with page["sink"].engine.connect() as connection:
        return sorted(connection.scalars(select(page["orders"].c.id)))


def test_there_are_no_python_blocks_that_are_not_run() -> None:
    assert PAGE.count("```python") == len(SNIPPETS) == 7


def test_a_loop_appends_each_page_once_and_a_retry_nothing(page: dict[str, Any], attempt: TaskAttempt) -> None:
    with attempt:
        page["ingest"].function()
    with attempt.retry():
        page["ingest"].function()
    assert ids(page) == [1, 2, 3]


def test_elements_are_committed_in_batches(page: dict[str, Any], attempt: TaskAttempt) -> None:
    with attempt:
        page["ingest_in_batches"]([{"id": number, "name": "x"} for number in range(4)])
    assert ids(page) == [0, 1, 2, 3]


class Hook(DbApiHook):
    """A hook of psycopg."""

    conn_name_attr = "conn_id"
    supports_autocommit = True
    placeholder = "%s"

    def _generate_insert_sql(self, table: str, values: Any, *_: Any, **__: Any) -> str:
        return f"INSERT INTO {table} VALUES ({', '.join(['%s'] * len(values))})"  # noqa: S608


def test_rows_are_written_in_every_way(page: dict[str, Any], attempt: TaskAttempt) -> None:
    with page["checkpoint"]([1], name="ways", sink=page["sink"], context=attempt.context) as loop:
        for number in loop:
            page["ways"](loop, Page([{"id": number, "name": "x"}], None), Hook(conn_id="warehouse"))
            assert ids(page) == []
    assert ids(page) == [1, 1, 1, 1]


def test_a_cleared_loop_deletes_its_rows_first(page: dict[str, Any], attempt: TaskAttempt) -> None:
    with attempt:
        page["ingest_again"]()
    with attempt.clear():
        page["ingest_again"]()
    assert ids(page) == [1, 2, 3]


def test_a_watermark_appends_what_is_new(page: dict[str, Any], attempt: TaskAttempt) -> None:
    with attempt:
        page["load"].function()
    attempt.succeed()
    page["SOURCE"].append({"id": 5, "name": "new"})
    with attempt.next_run():
        page["load"].function()
    assert ids(page) == [0, 1, 2, 3, 4, 5]


def test_the_statement_is_printed(page: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    exec(SNIPPETS["ddl"], page)  # noqa: S102  our own page
    assert capsys.readouterr().out.startswith("CREATE TABLE IF NOT EXISTS airflow_resume_positions (")


def test_every_crash_of_the_example_is_explored(page: dict[str, Any], tmp_path: Path) -> None:
    numbers = iter(range(10**6))
    report = page["explore"](lambda: f"sqlite:///{tmp_path / str(next(numbers))}.db")
    assert len(report.points) > 20


def test_the_page_names_every_database() -> None:
    from airflow_resume.sinks.databases import DATABASES

    assert all(name in PAGE.lower() for name in DATABASES)
