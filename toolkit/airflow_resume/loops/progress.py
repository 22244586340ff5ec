"""What a person reads about a loop: where it was opened, how far it is, how fast, and when it will be done."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

SECONDS_BETWEEN_LINES = 30.0
_SECONDS_BEFORE_A_RATE = 1.0


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a loop is.

    Args:
        noun: what one element is called.
        n: elements done. `total`: of how many, if known.
        rows: rows in the elements done, if the source counts them.
    """

    noun: str
    n: int
    total: int | None
    rows: int | None
    skipped: int

    def opened(self) -> str:
        """Where the loop continues, such as `at page 183 of 400`."""
        return f"{'after' if self._is_at_end else 'at'} {self.here()}"

    def here(self) -> str:
        """Which element is next, such as `page 183 of 400`; `400 of 400 pages` if the last that was known is done."""
        if self._is_at_end:
            return f"{self.n:,}{self._of_total()} {self._nouns}"
        return f"{self.noun} {self.n + 1:,}{self._of_total()}"

    @property
    def _is_at_end(self) -> bool:
        return self.total is not None and 0 < self.total <= self.n

    def details(self) -> str:
        """Rows and skipped elements."""
        rows = "" if self.rows is None else f"{self.rows:,} rows, "
        return f"{rows}{self.skipped:,} skipped"

    def done(self) -> str:
        """How many are done, such as `183 of 400 pages (46 %)`."""
        share = f" ({self.n / self.total:.0%})" if self.total else ""
        return f"{self.n:,}{self._of_total()} {self._nouns}{share}"

    def finished(self) -> str:
        """What there was, such as `400 pages`."""
        return f"{self.n:,} {self.noun}{'' if self.n == 1 else 's'}"

    @property
    def _nouns(self) -> str:
        return self.noun if (self.total or self.n) == 1 else f"{self.noun}s"

    def _of_total(self) -> str:
        return "" if self.total is None else f" of {self.total:,}"


class Pace:
    """How fast a loop is in this attempt. Times are seconds of a monotonic clock."""

    def __init__(self, *, n: int, now: float) -> None:
        self._n, self._since = n, now
        self._next_line = now + SECONDS_BETWEEN_LINES

    def is_line_due(self, now: float) -> bool:
        """Whether it is time for another line. If it is, the caller must write one, and the next has to wait."""
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

    def time_to_go(self, n: int, total: int | None, now: float) -> timedelta | None:
        """How long the loop will still take; None if that is not known."""
        rate = self.rate(n, now)
        return timedelta(seconds=round(max(total - n, 0) / rate)) if rate and total is not None else None

    def line(self, count: Progress, now: float) -> str:
        """How far, how fast, and when done."""
        rate, to_go = self.rate(count.n, now), self.time_to_go(count.n, count.total, now)
        speed = "" if rate is None else f", {_of_three_digits(rate)} {count.noun}s/s"
        until = "" if to_go is None else f", about {to_go} left"
        return f"{count.done()}{speed}{until}, {count.details()}"


def in_words(
    count: Progress,
    *,
    done: bool,
    try_number: int,
    rate: float | None = None,
    eta: datetime | None = None,
    now: datetime,
    inside: str = "",
) -> str:
    """One line for the record, such as `page 183 of 400, 1.9/s, done about 14:05 UTC, try 2`.

    It shows numbers and no position, because a position may contain something that not everybody may read.

    Args:
        count: how far it is.
        done: whether the loop is done.
        try_number: of the attempt that has opened the loop.
        rate: elements per second.
        eta: when it will be done.
        now: the date is added to an `eta` of another day.
        inside: where the loops inside the element are.
    """
    rows = None if count.rows is None else f"{count.rows:,} rows"
    skipped = f"{count.skipped:,} skipped" if count.skipped else None
    if done:
        parts = ["done", count.finished(), rows, skipped]
    else:
        speed = None if rate is None else f"{_of_three_digits(rate)}/s"
        until = None if eta is None else f"done about {clock_time(eta, now)}"
        parts = [f"{count.here()}{inside}", speed, until, rows, skipped, f"try {try_number}"]
    return ", ".join(part for part in parts if part is not None)


def clock_time(moment: datetime, now: datetime) -> str:
    """A time in UTC to the minute, with its date if that is not today's."""
    moment = moment.astimezone(timezone.utc)
    is_today = moment.date() == now.astimezone(timezone.utc).date()
    return f"{moment:%H:%M} UTC" if is_today else f"{moment:%Y-%m-%d %H:%M} UTC"


def _of_three_digits(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"  # noqa: PLR2004
