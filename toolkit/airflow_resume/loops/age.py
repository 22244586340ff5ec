"""How old a token is, where it is good for a limited time only.

Theory of operation. A token counts from when it was received, not from when it was saved: every attempt saves the
record anew, and retries that come faster than the token expires would keep it young for ever. So the source notes when
each was received, the record keeps that time for the token in its position, and the next attempt takes it up.

The time of day may be moved, also backwards. Then a token would come from the future, and be younger than it is. So
the time that has passed by the monotonic clock counts as well, and a time in the future is taken for now.
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
"""More tokens than can be in flight, or done and not saved yet."""

_DIFFERENCE = timedelta(seconds=1)
"""Clocks that nobody has moved differ by less."""


class Received:
    """When tokens were received.

    Args:
        now: the time, aware.
        monotonic: the same in seconds, by a clock that nobody moves.
    """

    def __init__(self, now: Callable[[], datetime] = utc_now, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._now, self._monotonic = now, monotonic
        self._times: dict[str, tuple[datetime, float]] = {}

    def note(self, token: JsonValue) -> None:
        """The token was received now."""
        self._keep(token, self._now(), self._monotonic())

    def take_up(self, token: JsonValue, received: datetime) -> None:
        """An earlier attempt received the token then."""
        now = self._now()
        received = min(received, now)
        self._keep(token, received, self._monotonic() - (now - received).total_seconds())

    def when(self, token: JsonValue) -> datetime | None:
        """When the token was received, by the time of day as it is now; None if it is not known."""
        kept = self._times.get(_key(token))
        if kept is None:
            return None
        received, at = kept
        by_monotonic = self._now() - timedelta(seconds=self._monotonic() - at)
        return by_monotonic if received - by_monotonic > _DIFFERENCE else received

    def age(self, token: JsonValue) -> timedelta:
        """How long ago it was received; nothing if that is not known."""
        received = self.when(token)
        return timedelta(0) if received is None else self._now() - received

    def _keep(self, token: JsonValue, received: datetime, at: float) -> None:
        self._times.pop(key := _key(token), None)  # the newest stand last
        self._times[key] = (received, at)
        if len(self._times) > MAX_KEPT:
            del self._times[next(iter(self._times))]


def _key(token: JsonValue) -> str:
    return values.fingerprint(token, length=32)
