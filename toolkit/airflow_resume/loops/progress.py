"""What a person is told of a loop: where it was opened, how far it is, how fast, and when it will be done."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

SECONDS_BETWEEN_LINES = 30.0
_SECONDS_BEFORE_A_RATE = 1.0


@dataclass(frozen=True, kw_only=True)
class Count:
    """How far a loop is.

    Args:
        noun: what one element is called.
        n: elements done. `total`: of how many, where known.
        rows: rows in the elements done, where the source counts them.
    """

    noun: str
    n: int
    total: int | None
    rows: int | None
    skipped: int

    def opened(self) -> str:
        """Where the loop goes on, such as `at page 183 of 400`."""
        return f"at {self.noun} {self.n + 1:,}{self._of_total()}"

    def details(self) -> str:
        """Rows and skipped elements."""
        rows = "" if self.rows is None else f"{self.rows:,} rows, "
        return f"{rows}{self.skipped:,} skipped"

    def done(self) -> str:
        """How many are done, such as `183 of 400 pages (46 %)`."""
        share = f" ({self.n / self.total:.0%})" if self.total else ""
        return f"{self.n:,}{self._of_total()} {self.noun}{'' if (self.total or self.n) == 1 else 's'}{share}"

    def _of_total(self) -> str:
        return "" if self.total is None else f" of {self.total:,}"


class Pace:
    """How fast a loop is in this attempt. Times are seconds of a monotonic clock."""

    def __init__(self, *, n: int, now: float) -> None:
        self._n, self._since = n, now
        self._next_line = now + SECONDS_BETWEEN_LINES

    def is_line_due(self, now: float) -> bool:
        """Whether it is time for another line; asking takes it."""
        if now < self._next_line:
            return False
        self._next_line = now + SECONDS_BETWEEN_LINES
        return True

    def until_line(self, now: float) -> float:
        """Seconds until it is time for another line."""
        return self._next_line - now

    def rate(self, n: int, now: float) -> float | None:
        """Elements a second in this attempt; None while too little is known."""
        seconds = now - self._since
        return round((n - self._n) / seconds, 3) if seconds >= _SECONDS_BEFORE_A_RATE and n > self._n else None

    def left(self, n: int, total: int | None, now: float) -> timedelta | None:
        """How long it will take from now on; None where that is not known."""
        rate = self.rate(n, now)
        return timedelta(seconds=round(max(total - n, 0) / rate)) if rate and total is not None else None

    def line(self, count: Count, now: float) -> str:
        """How far, how fast, and when done."""
        rate, left = self.rate(count.n, now), self.left(count.n, count.total, now)
        speed = "" if rate is None else f", {_of_three_digits(rate)} {count.noun}s/s"
        until = "" if left is None else f", about {left} left"
        return f"{count.done()}{speed}{until}, {count.details()}"


def _of_three_digits(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"  # noqa: PLR2004
