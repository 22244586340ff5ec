"""How long a loop waits between two writes of its position.

Theory of operation. All loops of a deployment write to the same API servers, and a loop knows nothing of the others.
But it sees how long its own writes take. When an API server is busy, requests wait for each other, and a write takes a
multiple of what it takes alone. From `BUSY_MULTIPLE` on, each loop waits longer before its next write, by the square,
so that the writes of many loops together stay what the server can do, and Airflow's heartbeats are answered as well.
`tests/unit/loops/test_pace.py` shows what becomes of up to 5,000 loops.

"Alone" is the shortest write that the loop has seen. It is forgotten slowly, because a deployment may become slower for
good. A write of up to `FAST_SECONDS` is never a sign that the server is busy. One of more than `SLOW_SECONDS` always
is, because a loop that begins on a busy server has seen nothing else.
"""

from __future__ import annotations

BUSY_SHARE = 0.05
"""At most this share of the loop's time is spent writing."""
FAST_SECONDS = 0.025
SLOW_SECONDS = 0.5
BUSY_MULTIPLE = 3.0
"""Up to this multiple of its usual time a write is no sign of a busy server, because any server is late at times."""
SMOOTHING = 0.3
"""The weight of the newest write in the average."""
FORGETTING = 1.02
"""By which factor the shortest write grows with each write, until there is a shorter one."""


class Pace:
    """The pause before the next write.

    Args:
        interval: the shortest pause, in seconds.
        longest: the longest one.
    """

    def __init__(self, interval: float, *, longest: float) -> None:
        self.pause = interval
        self._interval = interval
        self._longest = max(interval, longest)
        self._average = 0.0
        self._shortest = 0.0

    def note(self, seconds: float) -> None:
        """Note how long a write took, and decide the pause after it."""
        if not self._shortest:
            self._average = self._shortest = seconds
        self._average += SMOOTHING * (seconds - self._average)
        self._shortest = min(FORGETTING * self._shortest, seconds)
        alone = min(max(self._shortest, FAST_SECONDS), SLOW_SECONDS)
        multiple = max(1.0, self._average / alone / BUSY_MULTIPLE)
        self.pause = min(max(self._interval * multiple**2, self._average / BUSY_SHARE), self._longest)
