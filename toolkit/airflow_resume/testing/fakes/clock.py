"""A clock that moves only when a test moves it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

START = datetime(2026, 1, 1, tzinfo=timezone.utc)


class FakeClock:
    """A clock in UTC that a test can advance.

    `now`, `monotonic` and `sleep` can be passed wherever a function of that kind is an argument; `sleep` returns
    at once, and the time has passed.

    Args:
        start: the first time that it tells, with its zone; by default the beginning of 2026 in UTC.
    """

    def __init__(self, start: datetime = START) -> None:
        self._now = start
        self._start = start

    def now(self) -> datetime:
        """The time."""
        return self._now

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return (self._now - self._start).total_seconds()

    def sleep(self, seconds: float) -> None:
        """Let the seconds pass.

        Args:
            seconds: not negative.
        """
        self.advance(timedelta(seconds=seconds))

    def advance(self, by: timedelta) -> None:
        """Advance the clock.

        Args:
            by: how far, not negative.

        Raises:
            ValueError: `by` is negative.
        """
        if by < timedelta(0):
            raise ValueError(f"time does not go back: {by}")
        self._now += by
