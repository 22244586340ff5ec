"""How long a loop waits between two writes, alone and among thousands."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import pytest

from airflow_resume.loops.keeping.pace import FAST_SECONDS, Pace

INTERVAL, LONGEST = 1.0, 300.0


def pace(chance: Callable[[], float] = lambda: 0.0) -> Pace:
    return Pace(INTERVAL, longest=LONGEST, chance=chance)


@pytest.mark.parametrize(
    ("writes", "pause"),
    [
        ([], INTERVAL),
        ([0.0], INTERVAL),
        ([0.001] * 5, INTERVAL),
        # Neither one slow write nor any fast write means that the server is busy.
        ([0.001, FAST_SECONDS], INTERVAL),
        ([0.02] * 9 + [0.03], INTERVAL),
        # A store that is far away is not busy; a twentieth of the time is spent writing.
        ([0.2] * 20, 4.0),
        ([0.2] * 1_000, 4.0),
        ([0.4] * 1_000, 8.0),
        # Nothing takes a second alone.
        ([1.0] * 20, pytest.approx(37, abs=1)),
        ([5.0] * 20, LONGEST),
        # It takes a multiple of what it has taken: from three times on, the third power counts.
        ([0.05] * 9 + [0.1] * 9, pytest.approx(2.0, abs=0.1)),
        ([0.05] * 9 + [1.0] * 9, pytest.approx(174, abs=15)),
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
TIME_OUT = 5.0
"""How long a supervisor of Airflow waits for an answer: `[workers] execution_api_timeout`."""
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


def minutes_of(loops: int, *, opened_per_second: int = 12) -> Minutes:
    """Loops that write to one server, which does one thing after the other. When a loop begins, it reads and claims.

    With more than 12 that begin in a second, their first calls alone would keep the server busy.
    """
    chance = random.Random(1)  # noqa: S311
    paces: list[Pace | None] = [None] * loops
    due = [(chance.uniform(0, loops / opened_per_second), number) for number in range(loops)]
    opened = max(due)[0]
    heapq.heapify(due)
    is_free, busy = 0.0, 0.0
    writes, pauses = list[float](), list[float]()

    def call(now: float) -> float:
        nonlocal is_free, busy
        service = SERVICE * chance.lognormvariate(0, 0.3)
        is_free = max(now + TRAVEL / 2, is_free) + service
        if is_watched:
            busy += service
        return is_free + TRAVEL / 2 - now

    while (now := due[0][0]) < opened + 900:
        number = heapq.heappop(due)[1]
        is_watched = now > opened + 600  # they have found their pace
        mine = paces[number]
        if mine is None:
            mine = paces[number] = pace(chance.random)
            now += call(now)
        seconds = call(now)
        mine.note(seconds)
        heapq.heappush(due, (now + max(mine.pause, seconds), number))
        if is_watched:
            writes.append(seconds)
            pauses.append(mine.pause)
        elif now < opened:
            assert seconds < TIME_OUT
    return Minutes(busy=busy / 300, write=median(writes), pause=max(pauses))


@pytest.mark.parametrize(
    ("loops", "pause"),
    [(1, 1), (10, 1), (50, 15), (1_000, LONGEST), (5_000, LONGEST)],
)
def test_loops_slow_down_together_so_that_the_server_is_never_overloaded(loops: int, pause: float) -> None:
    seen = minutes_of(loops)
    assert seen.busy < 0.95
    assert seen.write < 10 * SERVICE
    assert seen.pause <= pause


@pytest.mark.parametrize(("chance", "pause"), [(0.0, 4.0), (0.5, 3.25), (1.0, 2.5)])
def test_half_of_what_is_more_than_the_shortest_pause_is_random(chance: float, pause: float) -> None:
    mine = pace(lambda: chance)
    for _ in range(20):
        mine.note(0.2)
    assert mine.pause == pause


def test_the_shortest_pause_is_never_shorter() -> None:
    mine = pace(lambda: 1.0)
    mine.note(0.001)
    assert mine.pause == INTERVAL
