"""Runs of the Dags in `dags/loops`, and what their loops delivered according to the diaries."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.support.airflow.task_runs import TaskRun

Json = Any
LOOP_DAGS = Path(__file__).with_name("dags") / "loops"


@dataclass(frozen=True)
class Line:
    """A line of the diary: an element that was delivered."""

    element: Json
    try_number: int
    pid: int
    at: float
    more: dict[str, Json]


@dataclass(frozen=True)
class Delivered:
    """What one loop delivered: a list of elements for each attempt that came to it."""

    attempts: list[list[Json]]

    def overlaps(self, source: Sequence[Json]) -> list[int]:
        """For each attempt after the first, how many elements it was given again.

        Each attempt must have been given a part of the source in order, and nothing may be missing in between.
        """
        spans = [self._span(attempt, source) for attempt in self.attempts]
        for (_, end), (start, _) in pairwise(spans):
            assert start <= end, f"elements {end} to {start} were skipped"
        assert (spans[0][0], spans[-1][1]) == (0, len(source)), spans
        return [end - start for (_, end), (start, _) in pairwise(spans)]

    @staticmethod
    def _span(attempt: list[Json], source: Sequence[Json]) -> tuple[int, int]:
        start = source.index(attempt[0])
        end = start + len(attempt)
        assert attempt == list(source[start:end]), f"not in order: {attempt}"
        return start, end


@dataclass(frozen=True)
class LoopRun(TaskRun):
    """A run of one of the Dags."""

    @property
    def diary(self) -> Path:
        index = self.map_index if self.map_index >= 0 else ""
        return self.stage.airflow.database.with_name(f"{self.run_id}.diary{index}")

    def lines(self, loop: str = "loop") -> list[Line]:
        found = map(json.loads, self._text().splitlines())
        return [
            Line(
                element=each.pop("element"),
                try_number=each.pop("try"),
                pid=each.pop("pid"),
                at=each.pop("at"),
                more=each,
            )
            for each in found
            if each["loop"] == loop
        ]

    def _text(self) -> str:
        """The lines that are complete."""
        text = self.diary.read_text() if self.diary.exists() else ""
        return text[: text.rfind("\n") + 1]

    def attempts(self, loop: str = "loop") -> list[list[Line]]:
        """The lines of each attempt that came to the loop."""
        found: dict[int, list[Line]] = {}
        for line in self.lines(loop):
            found.setdefault(line.try_number, []).append(line)
        return list(found.values())

    def processes(self, loop: str = "loop") -> list[list[Json]]:
        """What was delivered in each process that came to the loop; several may be of one try."""
        found: dict[int, list[Json]] = {}
        for line in self.lines(loop):
            found.setdefault(line.pid, []).append(line.element)
        return list(found.values())

    def tries(self, loop: str = "loop") -> set[int]:
        """The tries that came to the loop."""
        return {line.try_number for line in self.lines(loop)}

    def delivered(self, loop: str = "loop") -> Delivered:
        return Delivered([[line.element for line in attempt] for attempt in self.attempts(loop)])

    def elements(self, loop: str = "loop") -> list[Json]:
        return [line.element for line in self.lines(loop)]

    def committed(self, loop: str = "loop") -> int:
        """How many elements the record counts."""
        record = self.state_store().get(f"resume.loop.{loop}")
        return 0 if record is None else int(record["n"])

    # --- what is waited for and done --------------------------------------------------------------------------

    def until_held(self, number: int = 0) -> None:
        """Wait until an attempt waits at a hold of the conf."""
        held = self._beside(f"held{number}")
        self.until(lambda: held.exists() or self._has_ended(), f"hold {number} is reached")
        assert held.exists(), f"hold {number} was not reached, and the run has ended"

    def _has_ended(self) -> bool:
        return self.stage.airflow.run_state(self.dag_id, self.run_id) in {"success", "failed"}

    def let_go(self, number: int = 0) -> None:
        self._beside(f"go{number}").touch()

    def until_told_to_stop(self) -> None:
        self.until(self._beside("told").exists, "on_kill is called")

    def let_trigger_fire(self, number: int) -> None:
        """That of a try."""
        self._beside(f"fire{number}").touch()

    def kill_at(self, number: int, *, loop: str = "loop") -> int:
        """Kill the task with SIGKILL when it has reached a hold; the number of committed elements."""
        self.until_held(number)
        committed = self.committed(loop)
        self.process.kill()
        return committed

    def defer_once(self, number: int) -> None:
        """Wait until a try is deferred, and let it go on."""
        self.until_deferred(number)
        self.let_trigger_fire(number)

    def _beside(self, name: str) -> Path:
        return self.diary.with_name(f"{self.diary.name}.{name}")
