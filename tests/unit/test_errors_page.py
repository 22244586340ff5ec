"""The tables of docs/errors.md are those of the code, and its snippets are run."""

from __future__ import annotations

import re
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from airflow_resume.errors import StalledError, WindowNotReadError
from airflow_resume.testing import task_context
from tests.support.kit.error_classes import ROOT, merged_table, table

PAGE = (ROOT / "docs" / "errors.md").read_text()


@pytest.mark.parametrize("make", [table, merged_table])
def test_the_page_has_a_row_for_every_error_and_every_merged_name(make: object) -> None:
    assert callable(make)
    whole = make()
    assert whole in PAGE, f"docs/errors.md needs this table:\n\n{whole}\n"


# --- the snippets -----------------------------------------------------------------------------------------------------

SNIPPETS = dict(re.findall(r"<!-- snippet: (\w+) -->\n```python\n(.*?)```", PAGE, re.DOTALL))


def pasted(name: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "page"}
    exec(SNIPPETS[name], names)  # noqa: S102  our own page
    return names


def test_there_are_no_python_blocks_that_are_not_run() -> None:
    assert PAGE.count("```python") == len(SNIPPETS) == 2


def test_an_alert_reads_the_fields_of_any_error(capsys: pytest.CaptureFixture[str]) -> None:
    attempt = task_context(task_id="train")
    for error in (StalledError("It died.", position=7, attempts=3), OSError("the disk")):
        pasted("fields")["tell"]({**attempt.context, "exception": error})
    stalled, other = capsys.readouterr().out.splitlines()
    assert stalled.startswith("train It died. {")
    assert "'attempts': 3" in stalled
    assert other == "train the disk {}"


@pytest.mark.parametrize("problem", ["full page", "unread"])
def test_a_case_is_told_by_its_problem(problem: Literal["full page", "unread"]) -> None:
    catch = pasted("catch")["load_or_change_the_way"]
    done: list[str] = []

    def load(_window: Any) -> None:
        raise WindowNotReadError("Not read.", problem=problem)

    mark = SimpleNamespace(open=lambda _context: nullcontext("window"))
    with nullcontext() if problem == "full page" else pytest.raises(WindowNotReadError):
        catch(mark, {}, load, lambda: done.append("by keyset"))
    assert done == (["by keyset"] if problem == "full page" else [])
