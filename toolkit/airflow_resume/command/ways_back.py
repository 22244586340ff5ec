"""How a record can be set back, as commands that a person can type."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from typing import Any

from airflow_resume.operating import loop_changes
from airflow_resume.operating.places import Place, TaskPlace

_OF_TIMES = frozenset({"datetime", "date"})
"""Types of marks that are points in time."""


def ways_back(options: argparse.Namespace, place: Place, record: Any) -> Iterator[str]:
    """The commands that show how the record would be set back. What a person has to choose is a word in capitals.

    Args:
        options: those with which the record was found.
        place: of the record.
        record: of a job, a loop or a mark.
    """
    its: list[object]
    if isinstance(place, TaskPlace):
        its = [place.dag_id, place.run_id, place.task_id]
        its += [] if place.map_index < 0 else ["--map-index", place.map_index]
    else:
        its = [place.name]
        its += [] if options.partition is None else ["--partition", options.partition]
    its += [] if options.name is None else ["--name", options.name]
    where = [] if options.airflow is None else ["--airflow", options.airflow]
    for verb, *more in _changes(options.noun, record):
        yield shlex.join(map(str, ["airflow-resume", options.noun, verb, *its, *more, *where]))


def _changes(noun: str, record: Any) -> Iterator[tuple[str, ...]]:
    """The verbs with their arguments."""
    if record.set_by_hand is not None:
        yield ("undo",)
    if noun == "jobs":
        yield from (("adopt", "ID"), ("forget",))
    elif noun == "loops":
        to = ("--to", "N") if loop_changes.is_numbered(record) else ("--position", "JSON", "--done", "N")
        yield from ((("rewind", *to),) if record.n else ())
        yield ("restart",)
    else:
        yield ("rewind", *(("--by", "DISTANCE") if record.type in _OF_TIMES else ("--to", "VALUE")))
        yield ("reset",)
