"""Runs of the Dag `all_flights`: uninterrupted, or killed at random moments, and what the kills cost."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from statistics import median
from typing import Any

from scenarios import ALL_FLIGHTS
from stage import GLANCE, Stage
from tests.support.airflow.loop_runs import LoopRun


@dataclass(frozen=True)
class FlightsRun(LoopRun):
    """A run over all flights."""

    @classmethod
    def begin(cls, stage: Stage, service: str, **conf: Any) -> FlightsRun:
        """Start a run, and return when its loop is opened.

        Args:
            service: "flights" or "arrivals": both have all flights, and each has a warehouse of its own.
        """
        run = cls.start(stage, "all_flights", service=f"{service.upper()}_URL", **conf)
        run.until_opened(1)
        return run

    def until_opened(self, number: int) -> None:
        self.until(lambda: len(self.lines("opening")) >= number, f"the loop is opened, {number}")

    def kill_at_pages(self, places: Iterable[int]) -> list[float]:
        """Kill the task with SIGKILL when it has reached each of the pages; the times of the kills."""
        return [self._kill_at_page(place, number) for number, place in enumerate(places, start=1)]

    def _kill_at_page(self, place: int, number: int) -> float:
        self.until_opened(number)
        process = self.process
        while not self.has_come_to(place, number):
            time.sleep(GLANCE)
        moment = time.time()
        process.kill()
        return moment

    def has_come_to(self, place: int, number: int) -> bool:
        """Whether the attempt that was this one to open the loop has delivered the page, or a later one."""
        tried = self.lines("opening")[number - 1].try_number
        return any(line.try_number == tried and line.element >= place for line in self.lines()[-1:])

    def audit(self, service: str) -> dict[str, int]:
        """Rows loaded, duplicated and lost, as the warehouse counts them."""
        found: dict[str, int] = getattr(self.stage, service).call("GET", f"/warehouse/{self.run_id}/audit")
        return found

    def seconds(self, kills: list[float]) -> float:
        """Seconds from the first opening to the end, without those from each kill to the next opening."""
        openings = [line.at for line in self.lines("opening")]
        starting = sum(opening - kill for kill, opening in zip(kills, openings[1:], strict=True))
        return self.lines("end")[-1].at - openings[0] - starting

    def seconds_thrown_away(self, kills: list[float]) -> list[float]:
        """For each kill, the seconds since the first page that had to be done again was begun."""
        began_again = [pages[0].element for pages in self.attempts()[1:]]
        return [kill - self._finished(page - 1, before=kill) for kill, page in zip(kills, began_again, strict=True)]

    def _finished(self, page: int, *, before: float) -> float:
        """The last time before a moment at which a page was finished or the loop was opened."""
        lines = [line for line in self.lines() if line.element == page] + self.lines("opening")
        return max(line.at for line in lines if line.at < before)

    def seconds_of_a_page(self) -> float:
        """The median."""
        times = [[line.at for line in attempt] for attempt in self.attempts()]
        return median(after - before for attempt in times for before, after in pairwise(attempt))


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What kills cost a loop over all flights; pairs are of the uninterrupted run and of the one that was killed.

    Args:
        places: the pages at which it was killed.
        audit: of the warehouse.
        pages_again: for each kill, the pages that are in the diary once more.
        thrown_away: for each kill, the seconds since the first page was begun that had to be done again.
        seconds: that the loop took, without the start-up of the retries.
        page: the median of a page, which tells whether the machine was as busy in one run as in the other.
    """

    places: list[int]
    audit: dict[str, int]
    pages_again: list[int]
    thrown_away: list[float]
    seconds: tuple[float, float]
    page: tuple[float, float]

    def __str__(self) -> str:
        (plain, killed), away = self.seconds, sum(self.thrown_away)
        return (
            f"killed at pages {self.places}: {self.audit}, pages again {self.pages_again},"
            f" seconds thrown away {[round(each, 2) for each in self.thrown_away]};"
            f" {plain:.1f} s uninterrupted, {killed:.1f} s killed, ratio {killed / plain:.3f}"
            f" (by what was thrown away {1 + away / plain:.3f}; ms a page: {1000 * self.page[0]:.1f} uninterrupted,"
            f" {1000 * self.page[1]:.1f} killed)"
        )


def cost_of_kills(
    stage: Stage, *, seed: int, kills: int = 5, limit: int = 250, latency: float = 0, **conf: Any
) -> Cost:
    """Load all flights twice, one after the other, the second time with kills at random pages.

    Args:
        limit: rows of a page.
        latency: seconds that the source takes for a page, besides what it needs.
    """
    # Three attempts that are killed within the first second, before a write, are no reason to give up here.
    conf |= {"limit": limit, "latency": latency, "max_stalls": None}
    plain = FlightsRun.begin(stage, "flights", **conf)
    assert plain.end() == "success"
    pages = -(-ALL_FLIGHTS // limit)
    places = sorted(Random(seed).sample(range(1, pages), kills))  # noqa: S311  a seed that is printed is the point
    killed = FlightsRun.begin(stage, "arrivals", **conf)
    moments = killed.kill_at_pages(places)
    assert killed.end() == "success"
    return Cost(
        places=places,
        audit=killed.audit("arrivals"),
        pages_again=killed.delivered().overlaps(range(pages)),
        thrown_away=killed.seconds_thrown_away(moments),
        seconds=(plain.seconds([]), killed.seconds(moments)),
        page=(plain.seconds_of_a_page(), killed.seconds_of_a_page()),
    )
