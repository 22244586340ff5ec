"""The table of docs/deployments.md for the Kubernetes and the Edge executor, as it was seen in the simulation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.support.celery.books import elements_of
from tests.support.celery.played import IN_A_WORKER, JOBS, Everything
from tests.support.executors.events import EVENTS

PAGE = Path(__file__).parents[3] / "docs" / "deployments.md"
BEGIN, END = "<!-- executors -->\n", "<!-- end of executors -->\n"
HEAD = ["what happens", "jobs", *(f"`{task_id}`" for task_id in IN_A_WORKER), "elements again"]


def row_of(run: Everything) -> tuple[str, ...]:
    """The cells of a run that has ended: jobs and tries of each task, and elements that were delivered again."""
    jobs = {run.books(task_id)["submitted"] for task_id in JOBS}
    delivered = elements_of(run)
    tries = [str(run.tries[task_id]) for task_id in IN_A_WORKER]
    return (", ".join(map(str, sorted(jobs))), *tries, str(len(delivered) - len(set(delivered))))


def described(event: str) -> str:
    """What happens, in words: the docstring of the event."""
    return str(EVENTS[event].__doc__).rstrip(".")


def written() -> dict[str, tuple[str, ...]]:
    """The rows of the page, by event."""
    table = PAGE.read_text().split(BEGIN)[1].split(END)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    events = {described(name): name for name in EVENTS}
    return {events[first]: tuple(cells) for first, *cells in rows}


def put_on_page(rows: Mapping[str, tuple[str, ...]]) -> None:
    """Write the table into the page. A row of an event that was not played stays as it was."""
    all_rows = {**written(), **rows}
    lines = [HEAD, ["---"] * len(HEAD), *([described(name), *all_rows[name]] for name in EVENTS if name in all_rows)]
    before, rest = PAGE.read_text().split(BEGIN)
    table = "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
    PAGE.write_text(before + BEGIN + table + END + rest.split(END)[1])
