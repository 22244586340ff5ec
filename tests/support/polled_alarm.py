"""An alarm that asks a clock of the test's, instead of waiting for a real one."""

from __future__ import annotations

from collections.abc import Callable

from airflow_resume.loops.alarm import Alarm, Bell


class PolledAlarm(Alarm):
    """Rings when the clock says so, and not a moment later.

    Args:
        monotonic: in seconds.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        super().__init__()
        self.monotonic = monotonic
        self.at: float | None = None

    def bell(self) -> Bell:
        bell = PolledBell(self)
        self._bells.append(bell)
        return bell

    def ring_in(self, seconds: float) -> bool:
        if self.at is None:
            self.at = self.monotonic() + seconds
        return True

    def look(self) -> None:
        """Ring if it is time."""
        if self.at is not None and self.monotonic() >= self.at:
            self.at = None
            self.ring()


class PolledBell:
    """Looks at the clock whenever it is asked whether it rings."""

    def __init__(self, alarm: PolledAlarm) -> None:
        self._alarm = alarm
        self._rings = False

    def append(self, why: str, /) -> None:
        del why
        self._rings = True

    def clear(self) -> None:
        self._rings = False

    def __len__(self) -> int:
        self._alarm.look()
        return int(self._rings)
