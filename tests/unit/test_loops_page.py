"""Every snippet of docs/loops.md is run, and its tables name what there is."""

from __future__ import annotations

import asyncio
import re
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowRescheduleException

from airflow_resume import checkpoint, errors, killed, loops
from airflow_resume.loops import CursorToken, Page
from airflow_resume.reschedule import RESCHEDULE_AFTER
from airflow_resume.testing import TaskAttempt, task_context

PAGE = (Path(__file__).parents[2] / "docs" / "loops.md").read_text()
SNIPPETS = dict(re.findall(r"<!-- snippet: (\w+) -->\n```python\n(.*?)```", PAGE, re.DOTALL))


@pytest.fixture
def first() -> TaskAttempt:
    return task_context()


def pasted() -> dict[str, Any]:
    """The names that a reader has who pasted the snippets as they are, one after the other."""
    names: dict[str, Any] = {"__name__": "page"}
    for name, snippet in SNIPPETS.items():
        if name != "script":
            exec(snippet, names)  # noqa: S102  our own page
    return names


@pytest.fixture
def page() -> dict[str, Any]:
    """The same, with what notes what was done in place of the page's stand-ins."""
    done: list[Any] = []

    def load(rows: list[Any], key: str = "") -> None:
        assert key == "" or len(key) == 32
        done.append(list(rows))

    def parse(path: str) -> None:
        if path == "bad":
            raise ValueError(path)
        done.append(path)

    async def download(url: str) -> str:
        await asyncio.sleep(0)
        return url.upper()

    names = pasted()
    names |= {
        "load": load,
        "parse": parse,
        "process": str.upper,
        "report": done.append,
        "download": download,
        "urls": ["u", "v"],
        "paths": ["a", "b"],
        "done": done,
    }
    return names


ROWS = [[0, 1], [2, 3], [4, 5]]


def test_there_are_no_python_blocks_that_are_not_run() -> None:
    assert PAGE.count("```python") == len(SNIPPETS) == 13


def test_a_loop_and_its_state(page: dict[str, Any], first: TaskAttempt) -> None:
    with first:
        page["ingest"].function()
        assert page["count_rows"].function() == 6
    assert page["done"] == ROWS + ROWS


class Http:
    """Three pages of two, with links as httpx and requests read them, and with `has_more`."""

    def get(self, url: str, params: Any = None) -> Any:
        rows = [{"id": number} for number in range(6)]
        if params is not None:
            start = 0 if params["starting_after"] is None else params["starting_after"] + 1
            return SimpleNamespace(json=lambda: {"data": rows[start : start + 2], "has_more": start + 2 < len(rows)})
        start = int(url.partition("?start=")[2] or 0)
        links = {"next": {"url": f"https://api.example.com/orders?start={start + 2}", "rel": "next"}}
        return SimpleNamespace(json=lambda: rows[start : start + 2], links=links if start + 2 < len(rows) else {})


@pytest.mark.parametrize("fetch", ["fetch_linked", "fetch_more"])
def test_links_and_has_more(fetch: str, page: dict[str, Any], first: TaskAttempt) -> None:
    page["httpx"] = Http()
    found: list[int] = []
    attempt = first
    for leave_at in (3, None):
        with attempt:
            for number, row in enumerate(checkpoint(CursorToken(page[fetch]), name="rows", each=True)):
                if number == leave_at:
                    break
                found.append(row["id"])
        attempt = attempt.retry()
    assert found == list(range(6))


def test_the_page_runs_as_it_is_pasted(first: TaskAttempt, capsys: pytest.CaptureFixture[str]) -> None:
    names = pasted()
    with first:
        names["ingest"].function()
        assert names["count_rows"].function() == 6
        names["load_tables"](["t"])
        names["process_all"](names["paths"])
        asyncio.run(names["fetch_all"].function())
        names["parse_all"](["a.csv", "bad.csv"])
    seen = [line for line in capsys.readouterr().out.splitlines() if "[info" not in line]
    assert seen[:9] == ["load [0, 1]", "load [2, 3]", "load [4, 5]"] * 3
    assert sorted(seen[9:]) == ["A.CSV", "B.CSV", "HTTPS://EXAMPLE.COM/A", "HTTPS://EXAMPLE.COM/B"]


def test_a_queue_that_is_drained(page: dict[str, Any], first: TaskAttempt) -> None:
    rows = [{"id": number} for number in range(250)]

    def after(key: int | None, limit: int) -> list[dict[str, int]]:
        return [row for row in rows if key is None or row["id"] > key][:limit]

    def delete(row: dict[str, int]) -> None:
        rows.remove(row)
        if len(rows) in {200, 77}:
            raise ConnectionError

    attempt = first
    for failures in (1, 1, 0):
        with attempt, pytest.raises(ConnectionError) if failures else nullcontext():
            page["drain"](SimpleNamespace(after=after, delete=delete))
        attempt = attempt.retry()
    assert [row["id"] for (row,) in page["done"]] == list(range(250))
    assert rows == []


def test_acks_by_hand(page: dict[str, Any], first: TaskAttempt) -> None:
    with first:
        page["load_in_blocks"](range(1500))
    assert [len(block) for block in page["done"]] == [1000, 500]
    record: Any = first.task_store.values["resume.loop.blocks"]
    assert record["done"]


def test_loops_inside_loops(page: dict[str, Any], first: TaskAttempt) -> None:
    with first:
        page["load_tables"](["t", "u"])
    assert page["done"] == ROWS + ROWS


def test_several_at_a_time(page: dict[str, Any], first: TaskAttempt) -> None:
    with first:
        page["process_all"](["a", "b", "c"])
        assert sorted(page["done"]) == ["A", "B", "C"]
        asyncio.run(page["fetch_all"].function())
    assert sorted(page["done"][3:]) == ["U", "V"]


def test_elements_that_cannot_be_done(page: dict[str, Any], first: TaskAttempt) -> None:
    with first:
        page["parse_all"](["a", "bad", "c"])
    assert page["done"] == ["a", "c"]


def test_a_loop_whose_errors_are_reported(page: dict[str, Any], first: TaskAttempt) -> None:
    page["ingest_or_report"].function.__globals__["load"] = lambda _rows: first.ti.task.on_kill()
    with first, pytest.raises(AirflowRescheduleException):
        page["ingest_or_report"].function()
    assert page["done"] == []
    page["ingest_or_report"].function.__globals__["load"] = lambda _rows: 1 / 0
    with first.reschedule() as second, pytest.raises(ZeroDivisionError):
        page["ingest_or_report"].function()
    assert second.ti.try_number == 1
    assert [str(error) for error in page["done"]] == ["division by zero"]


def test_the_seconds_of_a_deploy_are_those_of_the_code() -> None:
    assert f"{RESCHEDULE_AFTER.seconds} s later the same try goes on" in PAGE
    assert f"within {killed.ANSWER_SECONDS:.0f} s" in PAGE


def test_the_row_of_a_mapped_task(page: dict[str, Any], first: TaskAttempt) -> None:
    with first:
        page["ingest_table"].function("orders")
        assert get_current_context()["progress"] == "orders: done, 3 pages"  # type: ignore[typeddict-item]


def test_outside_a_task(page: dict[str, Any], tmp_path: Path) -> None:
    seen: list[str] = []
    names = {**page, "process": seen.append}
    script = SNIPPETS["script"].replace("nightly.db", f"{tmp_path}/nightly.db")
    exec(script, names)  # noqa: S102  our own page
    names["nightly"]()
    assert seen == ["a", "b"]
    names["process"] = lambda path: seen.append(path) if path == "a" else 1 / 0
    with pytest.raises(ZeroDivisionError):
        names["nightly"]()
    assert seen == ["a", "b", "a"]
    names["process"] = seen.append
    names["nightly"]()
    assert seen == ["a", "b", "a", "b"]
    names["nightly"](fresh=True)
    assert seen == ["a", "b"] * 3


def test_every_error_and_every_source_is_on_the_page() -> None:
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, errors.LoopError) and kind is not errors.LoopError:
            assert f"`{name}`" in PAGE or name == "WrongAnswerError"
    for name in ("CursorToken", "PageNumber", "Offset", "Keyset", "Files", "TimeSlices", "Batches"):
        assert f"`{name}(" in PAGE
        assert name in loops.__all__
    assert Page.__name__ in PAGE
