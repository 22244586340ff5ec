"""What was tried when runs took turns, and what was found."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_resume.testing.crashes.point_listing import AFTER_A_REPLAY, Steps
from airflow_resume.testing.crashes.unread_reports import TrackedReport
from airflow_resume.testing.points import Point


@dataclass(frozen=True, kw_only=True)
class InterleavingFinding:
    """An interleaving that ends wrongly.

    Args:
        steps: what happened at which point.
        problem: what the oracle said, or how a run failed.
        points: the points that all runs passed.
    """

    call: str
    steps: Steps
    problem: str
    points: list[Point] = field(repr=False)
    drawn: str = field(repr=False)

    @property
    def only(self) -> str:
        """The interleaving, as `only=` takes it."""
        return ",".join(f"{number}:{what}" for number, what in self.steps.items())

    @property
    def replay(self) -> str:
        """A call that tries this interleaving alone, with the same arguments otherwise."""
        return f'{self.call}, ..., only="{self.only}")'

    @property
    def where(self) -> list[str]:
        """The points at which something happened, such as `["before submit"]`."""
        return [str(self.points[number - 1]) for number in self.steps if number]

    def __str__(self) -> str:
        said = " and ".join(
            f"{what} at point {number} ({self.points[number - 1]})" if number else f"{what} first"
            for number, what in self.steps.items()
        )
        return f"{said}: {self.problem}\n{self.drawn}\nreplay: {self.replay}{AFTER_A_REPLAY}"


@dataclass(frozen=True, kw_only=True)
class InterleavingReport(TrackedReport):
    """What was tried, and what was found.

    Args:
        points: of the runs one after the other.
        interleavings: how many there are without a crash; `pruned` of them must end as one that was tried, and
            `left_out` were more than `max_ways`.
        crashed: how many were tried with a crash in them; `crashed_left_out`: more than `max_pairs`.
    """

    points: list[Point] = field(repr=False)
    interleavings: int = 0
    pruned: int = 0
    left_out: int = 0
    crashed: int = 0
    crashed_left_out: int = 0
    findings: list[InterleavingFinding] = field(default_factory=list)

    @property
    def tried(self) -> int:
        """How many interleavings were tried, including those with a crash."""
        return self.interleavings - self.pruned - self.left_out + self.crashed

    def __str__(self) -> str:
        findings = self.shown_findings
        left_out = f", {self.left_out} left out by max_ways" if self.left_out else ""
        crashed_left_out = f" ({self.crashed_left_out} more left out by max_pairs)" if self.crashed_left_out else ""
        crashed = f"; {self.crashed} tried with a crash{crashed_left_out}" if self.crashed else ""
        tried = f"{self.interleavings} interleavings, {self.pruned} of them pruned{left_out}{crashed}"
        return "\n\n".join([f"{len(self.points)} points, {tried}: {len(findings)} findings", *map(str, findings)])
