"""What calls a loop that only counts back to its duties, so that it needs no clock and no question of its own.

A bell is true while it rings. It is looked at once an element, so it must cost no more than the truth of a list does;
it is rung by a timer, by the thread that writes, in signal handlers, and by whatever a body asks the loop for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sized
from threading import Timer
from typing import Protocol


class Bell(Sized, Protocol):
    """True while it rings."""

    def append(self, why: str, /) -> None:
        """Ring, until it is cleared. Safe in a signal handler."""

    def clear(self) -> None:
        """Be quiet."""


class Alarm:
    """Rings the bells of a loop and of those inside it."""

    def __init__(self) -> None:
        self._bells: list[Bell] = []
        self._timer: Timer | None = None

    def bell(self) -> Bell:
        """Another bell."""
        bell: Bell = deque(maxlen=1)
        self._bells.append(bell)
        return bell

    def remove(self, bell: Bell) -> None:
        """Do not ring this one any more."""
        self._bells = [other for other in self._bells if other is not bell]

    def ring(self) -> None:
        """Ring all bells. Safe in a signal handler."""
        for bell in self._bells:
            bell.append("")

    def ring_in(self, seconds: float) -> bool:
        """Ring when the time is over; while it waits already, at the moment that was asked for first.

        Returns:
            Whether it will: a process may have no thread left.
        """
        if self._timer is None:
            self._timer = timer = Timer(seconds, self._time_is_over)
            timer.daemon = True
            try:
                timer.start()
            except RuntimeError:
                self._timer = None
                return False
            except BaseException:  # such as a time-out: whether it runs is not known
                self.close()
                raise
        return True

    def close(self) -> None:
        """Ring no more by itself."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _time_is_over(self) -> None:
        self._timer = None
        self.ring()
