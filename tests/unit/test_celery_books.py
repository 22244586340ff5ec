from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.support.celery.books import UNSAVED_ELEMENTS, books_of
from tests.support.celery.played import Everything


def ended_run(folder: Path, run_id: str = "a", *, max_alive: int = 1, tries: int = 2, **lines: list[Any]) -> Everything:
    """A run that has written lines, with jobs of which so many were alive at the same time."""
    for task_id, written in lines.items():
        (folder / f"{run_id}.{task_id}").write_text("".join(json.dumps(line) + "\n" for line in written))
    stats = {"submitted": 1, "alive": 0, "max_alive": max_alive, "cancels": 0}
    stage: Any = SimpleNamespace(jobs=SimpleNamespace(call=lambda *_, **__: stats))
    return Everything(stage, folder, run_id, tries={"loop": tries})


def elements(*numbers: int, attempt: int = 1) -> list[dict[str, int]]:
    return [{"try": attempt, "element": number} for number in numbers]


def window(start: int, end: int, *, ended: bool = True) -> dict[str, Any]:
    return {"try": 1, "start": start, "end": end, "ended": ended}


def test_books_that_are_even(tmp_path: Path) -> None:
    twice = [window(0, 5, ended=False), window(0, 5), window(0, 5)]
    run = ended_run(tmp_path, loop=elements(0, 1, 1, 2), mark=twice, next_mark=[window(5, 9)])
    assert books_of(run) == {
        "jobs": 4,
        "jobs twice alive": 0,
        "elements": 3,
        "elements lost": 0,
        "elements again": 1,
        "elements again at most": UNSAVED_ELEMENTS,
        "rows": 9,
        "rows lost": 0,
    }


def test_jobs_that_were_alive_at_the_same_time_are_found(tmp_path: Path) -> None:
    assert books_of(ended_run(tmp_path, max_alive=2, loop=elements(0)))["jobs twice alive"] == 4


def test_elements_that_are_missing_are_found(tmp_path: Path) -> None:
    assert books_of(ended_run(tmp_path, loop=elements(0, 3)))["elements lost"] == 2


def test_rows_between_two_windows_and_before_the_first_are_found(tmp_path: Path) -> None:
    run = ended_run(tmp_path, loop=elements(0), mark=[window(2, 5)], next_mark=[window(6, 9)])
    assert books_of(run)["rows lost"] == 3


def test_a_window_that_did_not_end_has_loaded_nothing(tmp_path: Path) -> None:
    run = ended_run(tmp_path, loop=elements(0), mark=[window(0, 5, ended=False)], next_mark=[window(5, 9)])
    assert books_of(run)["rows lost"] == 5


def test_a_loop_without_a_second_try_may_repeat_nothing(tmp_path: Path) -> None:
    assert books_of(ended_run(tmp_path, tries=1, loop=elements(0, 0)))["elements again at most"] == 0


def test_a_cleared_loop_may_repeat_what_its_first_try_delivered(tmp_path: Path) -> None:
    lines = [*elements(0, 1), *elements(0, 1, 2, attempt=2)]
    assert books_of(ended_run(tmp_path, "cleared", loop=lines))["elements again at most"] == 2
