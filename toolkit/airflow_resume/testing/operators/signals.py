"""Signals to the main thread, in which the attempt runs, so that it dies in whatever call it is.

Theory of operation. A signal interrupts a call that waits in the main thread, and its handler runs there: what it
raises comes out of that call, whichever client library makes it. The sender is often the thread of a server. It waits
until the handler has begun: else its answer could arrive first. What is raised while Python runs a finalizer is lost,
as Python ignores it there. Then it is raised again a moment later.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_resume.testing.errors import CannotKillError
from airflow_resume.testing.points import CrashedError

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

HANDLER_SECONDS = 5.0
"""How long a sender waits for the handler to begin."""

AFTER_THE_FINALIZER = 0.002
"""Seconds until an error that a finalizer has lost is raised again."""


class HangsError(CrashedError):
    """The attempt did not end in time."""


class Signals:
    """Kills and terminates the code that runs in the main thread. Made by `listening`."""

    def __init__(self, terminate: Callable[[], None]) -> None:
        self.terminate = terminate
        self.is_dead = False
        """Whether the running attempt was killed. What it still does has no effect."""
        self._error: CrashedError | None = None
        self._begun = threading.Event()
        self._timers: list[threading.Timer] = []

    def kill(self, error: CrashedError | None = None) -> None:
        """Let the running attempt die, as by SIGKILL."""
        self.is_dead = True
        self._error = error or CrashedError()
        self._send(signal.SIGUSR1)

    def ask_to_end(self) -> None:
        """Send SIGTERM, as Airflow does when a worker shuts down and when a person marks the task."""
        self._send(signal.SIGTERM)

    @contextmanager
    def limit(self, seconds: float) -> Iterator[None]:
        """The attempt in this block dies when it takes longer."""
        self.is_dead = False
        self.kill_after(seconds, HangsError())
        try:
            yield
        finally:
            while self._timers:
                timer = self._timers.pop()
                timer.cancel()
                timer.join()
            self._error = None

    def kill_after(self, seconds: float, error: CrashedError | None = None) -> None:
        """Kill the running attempt later, unless it has ended by then."""
        timer = threading.Timer(seconds, self.kill, [error])
        timer.daemon = True
        self._timers.append(timer)
        timer.start()

    def kill_again(self, lost: CrashedError) -> None:
        """Kill the running attempt once more, after a finalizer has lost the error."""
        self.kill_after(AFTER_THE_FINALIZER, lost)

    def _send(self, signum: int) -> None:
        self._begun.clear()
        signal.pthread_kill(threading.main_thread().ident or 0, signum)
        if threading.current_thread() is not threading.main_thread():
            self._begun.wait(HANDLER_SECONDS)

    def die(self, _signum: int, _frame: Any) -> None:
        """The handler of SIGUSR1."""
        self._begun.set()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def end(self, _signum: int, _frame: Any) -> None:
        """The handler of SIGTERM."""
        self._begun.set()
        self.terminate()


@contextmanager
def listening(terminate: Callable[[], None]) -> Iterator[Signals]:
    """While the block runs, the main thread is killed and terminated by these signals.

    Args:
        terminate: called in the main thread, by SIGTERM.

    Raises:
        CannotKillError: this is not the main thread, or the platform has no such signals.
    """
    if not hasattr(signal, "pthread_kill"):
        raise CannotKillError(
            "check_operator kills attempts by signals, and this platform has no signal.pthread_kill.",
            "Run it on Linux or macOS.",
        )
    if threading.current_thread() is not threading.main_thread():
        raise CannotKillError(
            f"check_operator kills attempts by signals, which only the main thread gets, and this is the thread"
            f" {threading.current_thread().name!r}.",
            "Call it in the main thread.",
        )
    signals = Signals(terminate)
    before = {
        signal.SIGUSR1: signal.signal(signal.SIGUSR1, signals.die),
        signal.SIGTERM: signal.signal(signal.SIGTERM, signals.end),
    }
    hook = sys.unraisablehook

    def look_for_lost(unraisable: UnraisableHookArgs) -> None:
        if isinstance(unraisable.exc_value, CrashedError) and threading.current_thread() is threading.main_thread():
            signals.kill_again(unraisable.exc_value)
        else:
            hook(unraisable)

    sys.unraisablehook = look_for_lost
    try:
        yield signals
    finally:
        sys.unraisablehook = hook
        for signum, handler in before.items():
            signal.signal(signum, signal.SIG_DFL if handler is None else handler)  # None: not one of Python's
