"""How old a token is, if tokens expire.

Theory of operation. The age of a token counts from the time at which it was received, and not from that at which it was
saved. Every attempt saves the record again, so if retries came faster than the token expires, the token would never
look old. So the source notes when each token was received, the record keeps that time for the token in its position,
and the next attempt restores it.

The system clock may be set, also backwards. Then a token would seem to come from the future, and younger than it is. So
the time by the monotonic clock counts as well, and a time in the future is replaced by the present.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from airflow_resume import values
from airflow_resume.attempt import utc_now

if TYPE_CHECKING:
    from pydantic import JsonValue

MAX_KEPT = 2_000
"""How many tokens are kept. There are never more in flight, or done and not saved yet."""

_DIFFERENCE = timedelta(seconds=1)
"""Two clocks that nobody has set differ by less than this."""


class Received:
    """When tokens were received.

    Args:
        now: the time, aware.
        monotonic: the time in seconds, by a clock that nobody can set.
    """

    def __init__(self, now: Callable[[], datetime] = utc_now, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._now, self._monotonic = now, monotonic
        self._times: dict[str, tuple[datetime, float]] = {}

    def note(self, token: JsonValue) -> None:
        """Note that the token was received now."""
        self._keep(token, self._now(), self._monotonic())

    def take_up(self, token: JsonValue, received: datetime) -> None:
        """Note that an earlier attempt received the token at that time."""
        now = self._now()
        received = min(received, now)
        self._keep(token, received, self._monotonic() - (now - received).total_seconds())

    def when(self, token: JsonValue) -> datetime | None:
        """When the token was received, by the system clock as it is set now; None if that is not known."""
        kept = self._times.get(_key(token))
        if kept is None:
            return None
        received, at = kept
        by_monotonic = self._now() - timedelta(seconds=self._monotonic() - at)
        return by_monotonic if received - by_monotonic > _DIFFERENCE else received

    def age(self, token: JsonValue) -> timedelta:
        """How long ago it was received; zero if that is not known."""
        received = self.when(token)
        return timedelta(0) if received is None else self._now() - received

    def _keep(self, token: JsonValue, received: datetime, at: float) -> None:
        self._times.pop(key := _key(token), None)  # so that the newest is the last
        self._times[key] = (received, at)
        if len(self._times) > MAX_KEPT:
            del self._times[next(iter(self._times))]


def _key(token: JsonValue) -> str:
    return values.fingerprint(token, length=32)
