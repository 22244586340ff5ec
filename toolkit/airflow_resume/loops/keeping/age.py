"""When the part of a position that expires, such as a page token, was received."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_resume.loops.loop_record import Level
from airflow_resume.loops.sources.source import Source

if TYPE_CHECKING:
    from pydantic import JsonValue


class Age:
    """Knows when the part that expires was received, for the current position of the loop.

    Args:
        source: of the positions. It may know the time itself, and may have a clock of its own.
        level: as the record has it when the loop is opened.
        now: the clock of the loop.
    """

    def __init__(self, source: Source[Any], level: Level, now: Callable[[], datetime]) -> None:
        self._source, self._clock = source, now
        # The clock may have been set back. But nothing can have been received in the future.
        received = None if level.pos_at is None else min(level.pos_at, self._now())
        self._newest: tuple[JsonValue, datetime | None] = (source.expiring(level.pos), received)

    def received(self, position: JsonValue) -> datetime | None:
        """When the part of the position that expires was received; None if nothing in it expires."""
        if not self._source.expires(position):
            return None
        received = self._source.received(position)
        if received is None:
            expiring, received = self._source.expiring(position), self._newest[1]
            if received is None or expiring != self._newest[0]:
                received = self._now()
                self._newest = (expiring, received)
        return received.replace(microsecond=0)

    def _now(self) -> datetime:
        return self._source.age_now() or self._clock()
