"""Positions of loops over a table whose attempts died, as a release stored them, and what the next attempt does.

`python -m tests.support.records.positions leave FOLDER` writes it to a file. `PYTHONPATH` decides which release runs:
see `releases`. So it imports only what all of them have.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import airflow_resume
from airflow_resume import checkpoint
from airflow_resume.testing import FakeJobs
from tests.support.loops.changing_sources import CHANGING, Change, Changing, Table, keys_of
from tests.support.records.scene import Scene

ROWS = 8
FILE = "places.json"
KEY = "resume.loop.loop"
DONE = [1, 2, 4, 6]
"""So many elements were done when an attempt died."""


def loop_over(table: Table, source: Changing, scene: Scene) -> Any:
    return checkpoint(source.make(table), name="loop", durability="sync", context=scene.context, **source.options)


def leave(source: Changing, done: int) -> dict[str, Any] | None:
    """What is left by an attempt that dies in the element after so many; None where there are not so many."""
    scene = Scene()
    finished: list[int] = []
    with scene.dying():
        for number, element in enumerate(loop_over(Table(ROWS), source, scene)):
            if number == done:
                scene.notes["finished"] = finished
                scene.die()
            finished += keys_of(element)
    return scene.left


def leave_holes(source: Changing, done: int) -> dict[str, Any] | None:
    """The same of a `map` whose first element takes longer than all others."""
    scene, may_end = Scene(), threading.Event()
    finished: list[int] = []
    first = keys_of(next(iter(loop_over(Table(ROWS), source, Scene()))))

    def work(element: Any) -> Any:
        if keys_of(element) == first:
            may_end.wait(10)
        return element

    with scene.dying():
        try:
            for number, element in enumerate(loop_over(Table(ROWS), source, scene).map(work, workers=2)):
                if number == done:
                    scene.notes["finished"] = finished
                    scene.die()
                finished += keys_of(element)
                if number + 1 == done:
                    may_end.set()
        finally:
            may_end.set()
    return scene.left


def leave_all() -> dict[str, Any]:
    """By name."""
    found = {}
    for name, source in CHANGING.items():
        for done in DONE:
            found[f"{name}, {done} done"] = leave(source, done)
        if name != "stateful":  # it cannot be gone through out of order
            found[f"{name}, 2 done ahead"] = leave_holes(source, 2)
    return {name: left for name, left in found.items() if left is not None}


def source_of(name: str) -> Changing:
    """That by which something was left."""
    return CHANGING[name.rpartition(", ")[0]]


# --- taken up ---------------------------------------------------------------------------------------------------


def drained(table: Table, finished: list[int]) -> None:
    """What was finished is gone."""
    for key in finished:
        table.delete(key)


def moved_up(table: Table, finished: list[int]) -> None:
    """The first row that was finished is gone, and another one is there at the end."""
    table.delete(finished[0])
    table.apply(Change("append", 0))


def moved_down(table: Table, finished: list[int]) -> None:
    """A row was inserted before the last one that was finished, and the last of all is gone."""
    table.apply(Change("insert", table.keys.index(finished[-1])))
    table.delete(table.keys[-1])


def updated(table: Table, finished: list[int]) -> None:
    """What was finished has changed."""
    table.rows[finished[-1]] += 1


CHANGES: dict[str, Callable[[Table, list[int]], object]] = {
    "as it was": lambda *_: None,
    "drained": drained,
    "moved up": moved_up,
    "moved down": moved_down,
    "updated": updated,
}


def take_up(name: str, left: dict[str, Any], change: str) -> tuple[Table, list[int], list[int], Exception | None]:
    """The table, the keys that were finished before, those that are delivered now, and how the loop fails."""
    table, finished = Table(ROWS), list(left["notes"]["finished"])
    table.farthest = max(finished)
    before = Table(ROWS)
    list(loop_over(before, replace(source_of(name), options={}), Scene()))
    table.answered = {asked: list(answers) for asked, answers in before.answered.items()}
    CHANGES[change](table, finished)
    scene = Scene.of(left, FakeJobs())
    scene.retry()
    delivered: list[int] = []
    failure: Exception | None = None
    try:
        for element in loop_over(table, source_of(name), scene):
            delivered += keys_of(element)
    except Exception as error:  # noqa: BLE001  it is judged
        failure = error
    table.answered = {asked: found for asked, found in table.answered.items() if found != before.answered.get(asked)}
    return table, finished, delivered, failure


def every(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name, and what was left, of all that is written there."""
    yield from json.loads((folder / FILE).read_text()).items()


if __name__ == "__main__":
    if not str(airflow_resume.__file__).startswith(os.environ["RECORDED_BY"]):
        raise SystemExit(f"{airflow_resume.__file__} is not of the release in {os.environ['RECORDED_BY']}")
    logging.disable(logging.CRITICAL)
    lines = [f"{json.dumps(name)}: {json.dumps(left)}" for name, left in leave_all().items()]
    (Path(sys.argv[2]) / FILE).write_text("{\n" + ",\n".join(lines) + "\n}\n")
