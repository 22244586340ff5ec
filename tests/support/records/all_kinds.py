"""Everything that a release leaves for the next one, by name; run as a program, it writes it or continues from it.

`python -m tests.support.records.all_kinds leave FOLDER` writes a file for each kind; `take-up FOLDER` writes what comes
of them. `PYTHONPATH` decides which release runs: see `releases`.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import airflow_resume
from airflow_resume.testing import FakeJobs
from tests.support.records import backend as recorded_backend
from tests.support.records import jobs as recorded_jobs
from tests.support.records import loops as recorded_loops
from tests.support.records import marks as recorded_marks
from tests.support.records.scene import OF_LATER, Scene

KINDS: dict[str, dict[str, Any]] = {
    "jobs": recorded_jobs.SCENARIOS,
    "loops": recorded_loops.SCENARIOS,
    "marks": recorded_marks.SCENARIOS,
}
BACKEND = "backend"


def leave(kind: str) -> dict[str, Any]:
    """The state that all scenarios of a kind leave, by name, as JSON."""
    found = {}
    for name, scenario in KINDS[kind].items():
        scene = scenario.leave()
        found[name] = scene.left or scene.as_json()
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


def take_up(kind: str, name: str, left: dict[str, Any]) -> dict[str, Any]:
    """The outcome of continuing, and `lost`: records that are gone, or that lost a field which no release knows."""
    scenario = KINDS[kind][name]
    jobs = scenario.jobs() if kind == "jobs" else FakeJobs()
    scene = Scene.of(left, jobs, with_unknown_field=True)
    before = set(scene.records)
    outcome = json.loads(json.dumps(scenario.take_up(scene)))
    after = scene.records
    lost = [place for place in before if not OF_LATER.items() <= after.get(place, {}).items()]
    return {**outcome, "lost": sorted(lost)}


def expected(kind: str, name: str, left: dict[str, Any], *, by_0_1: bool = False) -> dict[str, Any]:
    """The required outcome; with `by_0_1`, that of version 0.1, which does not know all that is stored now."""
    scenario = KINDS[kind][name]
    must = scenario.expected(left) if kind == "loops" else scenario.expected()
    if by_0_1:
        must = {**must, **getattr(scenario, "expected_of_0_1", dict)()}
    return {**json.loads(json.dumps(must)), "lost": []}


def every(folder: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Kind, name, and what was left, of all that is written in a folder."""
    for kind in KINDS:
        for name, left in read(folder, kind).items():
            yield kind, name, left


def read(folder: Path, kind: str) -> dict[str, Any]:
    """What is written of a kind."""
    return json.loads((folder / f"{kind}.json").read_text())  # type: ignore[no-any-return]


def write_all(folder: Path) -> None:
    """Leave everything."""
    for kind in KINDS:
        _write(folder / f"{kind}.json", leave(kind))
    with tempfile.TemporaryDirectory() as place:
        _write(folder / f"{BACKEND}.json", recorded_backend.leave(Path(place)))


def _write(file: Path, found: object) -> None:
    file.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def take_up_all(folder: Path) -> dict[str, Any]:
    """The outcomes of everything, by kind and name."""
    outcomes: dict[str, Any] = {kind: {} for kind in KINDS}
    for kind, name, left in every(folder):
        outcomes[kind][name] = _outcome(partial(take_up, kind, name, left))
    with tempfile.TemporaryDirectory() as place:
        outcomes[BACKEND] = _outcome(lambda: recorded_backend.take_up(read(folder, BACKEND), Path(place)))
    return outcomes


def _outcome(play: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return play()
    except Exception as error:  # noqa: BLE001  a release that cannot take it up says so
        return {"raised": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    if not str(airflow_resume.__file__).startswith(os.environ["RECORDED_BY"]):
        raise SystemExit(f"{airflow_resume.__file__} is not of the release in {os.environ['RECORDED_BY']}")
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    what, where = sys.argv[1], Path(sys.argv[2])
    if what == "leave":
        write_all(where)
    else:
        outcomes = take_up_all(where)
        (where / "outcomes.json").write_text(json.dumps(outcomes))
