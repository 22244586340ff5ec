"""The flag that interrupts a loop that only counts its elements, so that the loop need not look at the clock.

The loop checks its flag once per element. So the check must not cost more than the truth value of a list. The flag is
set by a timer, by the thread that writes, in signal handlers, and by methods of the loop that a body calls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sized
from threading import Timer
from typing import Protocol


class WakeFlag(Sized, Protocol):
    """A flag that is true while it is set."""

    def append(self, why: str, /) -> None:
        """Set it, until it is cleared. Safe in a signal handler."""

    def clear(self) -> None:
        """Clear it."""


class Alarm:
    """The flags of a loop and of the loops inside it, and a timer that sets them."""

    def __init__(self) -> None:
        self._flags: list[WakeFlag] = []
        self._timer: Timer | None = None

    def new_flag(self) -> WakeFlag:
        """Another flag."""
        flag: WakeFlag = deque(maxlen=1)
        self._flags.append(flag)
        return flag

    def remove(self, flag: WakeFlag) -> None:
        """Do not set this flag any more."""
        self._flags = [other for other in self._flags if other is not flag]

    def wake(self) -> None:
        """Set all flags. Safe in a signal handler."""
        for flag in self._flags:
            flag.append("")

    def wake_in(self, seconds: float) -> bool:
        """Set all flags after this number of seconds, or earlier if an earlier call asked for that.

        Returns:
            Whether the flags will be set. They are not if the process cannot start another thread.
        """
        if self._timer is None:
            self._timer = timer = Timer(seconds, self._time_is_over)
            timer.daemon = True
            try:
                timer.start()
            except RuntimeError:
                self._timer = None
                return False
            except BaseException:  # such as a time-out: whether the timer runs is not known
                self.close()
                raise
        return True

    def close(self) -> None:
        """Stop the timer."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _time_is_over(self) -> None:
        self._timer = None
        self.wake()
