"""The table of docs/deployments.md: what each event costs, as it was seen when the page was written.

The numbers are those of the pinned Airflow. For another one there is a column that says what differs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.celery.books import elements_of
from tests.support.celery.events import EVENTS
from tests.support.celery.played import JOBS, TASKS, Everything
from tests.support.kit.next_airflow import AIRFLOW, IS_NEXT

PAGE = Path(__file__).parents[3] / "docs" / "deployments.md"
BEGIN, END = "<!-- celery -->\n", "<!-- end of celery -->\n"
HEAD = ["what happens", "jobs", *(f"`{task_id}`" for task_id in TASKS), "elements again"]


def row_of(run: Everything) -> tuple[str, ...]:
    """The event of a run that has ended, and its cells: jobs and tries of each task, and elements delivered again."""
    jobs = {run.books(task_id)["submitted"] for task_id in JOBS}
    tries = [str(run.tries[task_id]) for task_id in TASKS]
    delivered = elements_of(run)
    again = str(len(delivered) - len(set(delivered)))
    return (run.run_id, ", ".join(map(str, sorted(jobs))), *tries, again)


def written(text: str | None = None) -> dict[str, tuple[str, ...]]:
    """The rows of the page, by event, as the pinned Airflow has them."""
    return {event: cells[: len(HEAD) - 1] for event, cells in _table(text)[1].items()}


def described(event: str) -> str:
    """What happens, in words: the docstring of the event."""
    return re.sub(r"\s+", " ", str(EVENTS[event].__doc__)).rstrip(".")


def put_on_page(rows: Mapping[str, tuple[str, ...]]) -> None:
    """Write what came of the events into the page. What was not played now stays as it was."""
    text = PAGE.read_text()
    PAGE.write_text(with_column(text, rows, str(AIRFLOW)) if IS_NEXT else with_rows(text, rows))


def with_rows(text: str, rows: Mapping[str, tuple[str, ...]]) -> str:
    """The page with other rows for the pinned Airflow. What other Airflows did was compared with the rows before."""
    head, old = _table(text)
    more = [old[event][len(HEAD) - 1 :] if event in old else ("",) * (len(head) - len(HEAD)) for event in rows]
    new = {event: (*cells, *others) for (event, cells), others in zip(rows.items(), more, strict=True)}
    return _with_table(text, head, {**old, **new})


def with_column(text: str, rows: Mapping[str, tuple[str, ...]], version: str) -> str:
    """The page with a column for another Airflow: what differs from the pinned one, event by event."""
    head, old = _table(text)
    name = f"on Airflow {version}"
    at = head.index(name) - 1 if name in head else len(head) - 1
    new = dict(old)
    for event, cells in rows.items():
        known = list(_padded(old[event], at + 1))
        known[at] = differing(old[event], cells)
        new[event] = tuple(known)
    head = head if name in head else [*head, name]
    return _with_table(text, head, {event: _padded(cells, len(head) - 1) for event, cells in new.items()})


def _padded(cells: Sequence[str], count: int) -> tuple[str, ...]:
    return (*cells, *[""] * (count - len(cells)))


def differing(before: Sequence[str], now: Sequence[str]) -> str:
    """What differs, with the names of the columns. How many elements are delivered again differs from run to run."""
    named = zip(HEAD[1:-1], before, now, strict=False)
    return ", ".join(f"{name} {new}" for name, old, new in named if old != new) or "the same"


def _table(text: str | None = None) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """The head, and the cells by event."""
    table = (PAGE.read_text() if text is None else text).split(BEGIN)[1].split(END)[0]
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines())
    events = {described(name): name for name in EVENTS}
    return head, {events[first]: tuple(cells) for first, *cells in rows}


def _with_table(text: str, head: Sequence[str], rows: Mapping[str, Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([described(name), *rows[name]] for name in EVENTS if name in rows)]
    table = "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
    before, rest = text.split(BEGIN)
    return before + BEGIN + table + END + rest.split(END)[1]
