"""The lines of a comparison: each is run with Airflow's mixin and with ours, and stands in a table of a page."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path

import pytest

from stage import Stage
from tests.support.airflow.job_runs import Run

KINDS = ("airflows", "ours")
Scenario = Callable[[Stage, str], "Run | str"]
Line = tuple[str, str, str]


class Comparison:
    """The scenarios, what was seen, and what the page says."""

    def __init__(self, page: Path) -> None:
        self._page = page
        self._names: list[str] = []
        self._seen: dict[tuple[str, str], str] = {}

    def line(self, name: str) -> Callable[[Scenario], Callable[[Stage, str], None]]:
        """A test of one line of the table; the scenario returns the run to look at, or what is to be said."""
        self._names.append(name)

        def register(scenario: Scenario) -> Callable[[Stage, str], None]:
            @pytest.mark.side_by_side
            @pytest.mark.usefixtures("playing")
            @pytest.mark.parametrize("kind", KINDS)
            @wraps(scenario)
            def play(shared_stage: Stage, kind: str) -> None:
                came = scenario(shared_stage, kind)
                seen = self._seen[name, kind] = came if isinstance(came, str) else came.outcome()
                assert seen == self._said()[name][KINDS.index(kind)]

            return play

        return register

    def table(self) -> list[Line]:
        """What was seen, for the lines that were run."""
        return [(name, *(self._seen.get((name, kind), "") for kind in KINDS)) for name in self._names]  # type: ignore[misc]

    def page(self) -> list[Line]:
        """The lines of the page."""
        return [(name, *cells) for name, cells in self._said().items()]

    def _said(self) -> dict[str, tuple[str, str]]:
        found = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", self._page.read_text(), re.MULTILINE)
        return {name: (airflows, ours) for name, airflows, ours in found[1:]}


def as_markdown(lines: list[Line]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
