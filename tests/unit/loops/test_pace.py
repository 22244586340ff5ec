"""How long a loop waits between two writes, alone and among thousands."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass
from statistics import median

import pytest

from airflow_resume.loops.keeping.pace import FAST_SECONDS, Pace

INTERVAL, LONGEST = 1.0, 300.0


def pace() -> Pace:
    return Pace(INTERVAL, longest=LONGEST)


@pytest.mark.parametrize(
    ("writes", "pause"),
    [
        ([], INTERVAL),
        ([0.0], INTERVAL),
        ([0.001] * 5, INTERVAL),
        # Neither one slow write nor any fast write means that the server is busy.
        ([0.001, FAST_SECONDS], INTERVAL),
        ([0.02] * 9 + [0.03], INTERVAL),
        # A store that is always slow is not busy; a twentieth of the time is spent writing.
        ([0.2] * 20, 4.0),
        ([0.2] * 1_000, 4.0),
        ([0.5] * 1_000, 10.0),
        # Nothing takes five seconds alone.
        ([5.0] * 20, 100.0),
        # It takes a multiple of what it has taken: from three times on, the square counts.
        ([0.05] * 9 + [0.1] * 9, pytest.approx(2.0, abs=0.1)),
        ([0.05] * 9 + [1.0] * 9, pytest.approx(29, abs=5)),
        ([0.05] * 9 + [5.0] * 9, LONGEST),
        # And back.
        ([0.05] * 9 + [5.0] * 9 + [0.02] * 40, INTERVAL),
    ],
)
def test_the_pause_after_some_writes(writes: list[float], pause: float) -> None:
    mine = pace()
    for seconds in writes:
        mine.note(seconds)
    assert mine.pause == pause


def test_an_interval_that_is_longer_than_the_longest_one_wins() -> None:
    mine = Pace(600, longest=LONGEST)
    for seconds in [0.05] * 9 + [5.0] * 9:
        mine.note(seconds)
    assert mine.pause == 600


# --- among others -----------------------------------------------------------------------------------------------

SERVICE = 0.016
"""The seconds that an API server is busy with a write, as measured: `python -m benchmarks --only fleet`."""
TRAVEL = 0.004
"""The seconds that a request is on its way, there and back."""


@dataclass(frozen=True, kw_only=True)
class Minutes:
    """Some minutes of a fleet. Times are in seconds."""

    busy: float
    """The share of the server's time."""
    write: float
    """The median."""
    pause: float
    """The longest."""


def minutes_of(loops: int) -> Minutes:
    """Loops that write to one server, which does one thing after the other."""
    chance = random.Random(1)  # noqa: S311
    paces = [pace() for _ in range(loops)]
    due = [(chance.uniform(0, loops / 20), number) for number in range(loops)]
    heapq.heapify(due)
    is_free, busy = 0.0, 0.0
    writes, pauses = list[float](), list[float]()
    while (now := due[0][0]) < 900:
        number = heapq.heappop(due)[1]
        service = SERVICE * chance.lognormvariate(0, 0.3)
        is_free = max(now + TRAVEL / 2, is_free) + service
        seconds = is_free + TRAVEL / 2 - now
        paces[number].note(seconds)
        heapq.heappush(due, (max(now + paces[number].pause, is_free), number))
        if now > 600:  # they have found their pace
            busy += service
            writes.append(seconds)
            pauses.append(paces[number].pause)
    return Minutes(busy=busy / 300, write=median(writes), pause=max(pauses))


@pytest.mark.parametrize(
    ("loops", "pause"),
    [(1, 1), (10, 1), (50, 2), (1_000, LONGEST), (5_000, LONGEST)],
)
def test_loops_slow_down_together_so_that_the_server_is_never_overloaded(loops: int, pause: float) -> None:
    seen = minutes_of(loops)
    assert seen.busy < 0.9
    assert seen.write < 10 * SERVICE
    assert seen.pause <= pause
