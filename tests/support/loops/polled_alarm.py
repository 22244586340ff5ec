"""A wake flag's alarm that reads a clock of the test instead of waiting for real time."""

from __future__ import annotations

from collections.abc import Callable

from airflow_resume.loops.wake_flag import Alarm, WakeFlag


class PolledAlarm(Alarm):
    """Wakes exactly when the clock says so.

    Args:
        monotonic: in seconds.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        super().__init__()
        self.monotonic = monotonic
        self.at: float | None = None

    def new_flag(self) -> WakeFlag:
        flag = PolledFlag(self)
        self._flags.append(flag)
        return flag

    def wake_in(self, seconds: float) -> bool:
        if self.at is None:
            self.at = self.monotonic() + seconds
        return True

    def look(self) -> None:
        """Wake if it is time."""
        if self.at is not None and self.monotonic() >= self.at:
            self.at = None
            self.wake()


class PolledFlag:
    """Looks at the clock whenever it is asked whether it is set."""

    def __init__(self, alarm: PolledAlarm) -> None:
        self._alarm = alarm
        self._is_set = False

    def append(self, why: str, /) -> None:
        del why
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def __len__(self) -> int:
        self._alarm.look()
        return int(self._is_set)
