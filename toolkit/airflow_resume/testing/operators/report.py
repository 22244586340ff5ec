"""What came out of the scenarios."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from textwrap import shorten

SAME = "same result"
OTHER = "other result"
HANGS = "hangs"
AT_ONCE = "returns at once"
NO_JOB_LEFT = "no job left"
JOB_LEFT = "a job lives on"

MOST = 80
"""The most characters of a detail in the table."""


@dataclass(frozen=True, kw_only=True)
class Played:
    """What came out of one scenario.

    Args:
        jobs: how many jobs were ever made.
        most_alive: how many were alive at once, at most.
        cancelled: how many were cancelled while they were alive.
        result: `same result` as the undisturbed run, `other result`, `hangs`, the class of an error, or what else the
            scenario asks for (`returns at once`, `no job left`, `a job lives on`, `does not defer`).
        detail: more about it, such as the text of the error.
    """

    jobs: int
    most_alive: int
    cancelled: int
    result: str
    detail: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.jobs} / {self.most_alive} / {self.cancelled}, {self.result}"


@dataclass(frozen=True, kw_only=True)
class OperatorReport(Mapping[str, Played]):
    """What came out, by scenario: `report["deploy"].jobs`. `print(report)` shows a table.

    Args:
        operator: the name of the operator's class.
        rows: by scenario, in the order in which they were played.
        ideal: what comes out if one job is made, with the result of the undisturbed run.
    """

    operator: str
    rows: Mapping[str, Played]
    ideal: Mapping[str, tuple[Played, ...]] = field(repr=False)

    def __getitem__(self, scenario: str) -> Played:
        return self.rows[scenario]

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def problems(self) -> dict[str, Played]:
        """The scenarios in which something else comes out than should."""
        return {scenario: played for scenario, played in self.rows.items() if played not in self.ideal[scenario]}

    def __str__(self) -> str:
        head = (self.operator, "jobs", "alive at once", "cancelled", "result")
        lines = [
            head,
            *(
                (scenario, str(played.jobs), str(played.most_alive), str(played.cancelled), _result(played))
                for scenario, played in self.rows.items()
            ),
        ]
        widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
        )


def _result(played: Played) -> str:
    return f"{played.result}: {shorten(played.detail, MOST)}" if played.detail else played.result
