"""How long a loop waits between two writes of its position.

Theory of operation. All loops of a deployment write to the same API servers, and a loop knows nothing of the others.
But it sees how long its own writes take. When an API server is busy, requests wait for each other, and a write takes a
multiple of what it takes alone. From `BUSY_MULTIPLE` on, each loop waits longer before its next write, by the third
power, so that the writes of many loops together stay what the server can do, and Airflow's heartbeats are answered as
well. It answers slower writes sooner than faster ones. Part of each longer pause is random, because loops that have
slowed down together would otherwise come back together. `tests/unit/loops/test_pace.py` shows what becomes of up to
5,000 loops.

"Alone" is the shortest write that the loop has seen, its claim included. It is forgotten slowly, because a deployment
may become slower for good. A write of up to `FAST_SECONDS` is never a sign that the server is busy. One of several
times `SLOW_SECONDS` always is, because a loop that begins on a busy server has seen nothing else. Where each write
takes so long for another reason, such as a worker far away, the pause is that of `BUSY_SHARE` up to half a second, and
is longer from there on.
"""

from __future__ import annotations

from collections.abc import Callable
from random import random

BUSY_SHARE = 0.05
"""At most this share of the loop's time is spent writing."""
FAST_SECONDS = 0.025
SLOW_SECONDS = 0.1
BUSY_MULTIPLE = 3.0
"""Up to this multiple of its usual time a write is no sign of a busy server, because any server is late at times."""
RISING, FALLING = 0.6, 0.3
"""The weight of the newest write in the average, if it took longer than that, or less."""
FORGETTING = 1.02
"""By which factor the shortest write grows with each write, until there is a shorter one."""
RANDOM_SHARE = 0.5
"""At most this share of what is more than the shortest pause is left out, at random."""


class Pace:
    """The pause before the next write.

    Args:
        interval: the shortest pause, in seconds.
        longest: the longest one.
        chance: returns a random number from 0 to 1.
    """

    def __init__(self, interval: float, *, longest: float, chance: Callable[[], float] = random) -> None:
        self.pause = interval
        self._interval, self._longest, self._chance = interval, max(interval, longest), chance
        self._average = 0.0
        self._shortest = 0.0

    def note(self, seconds: float) -> None:
        """Note how long a write took, and decide the pause after it."""
        if not self._shortest:
            self._average = self._shortest = seconds
        self._average += (RISING if seconds > self._average else FALLING) * (seconds - self._average)
        self._shortest = min(FORGETTING * self._shortest, seconds)
        alone = min(max(self._shortest, FAST_SECONDS), SLOW_SECONDS)
        multiple = max(1.0, self._average / alone / BUSY_MULTIPLE)
        pause = min(max(self._interval * multiple**3, self._average / BUSY_SHARE), self._longest)
        self.pause = pause - RANDOM_SHARE * self._chance() * max(0.0, pause - self._interval)
