"""One thread per process ends calls that are overdue, because drivers wait for an answer without a limit.

A call is added when it begins and removed when it has ended, which costs less than a microsecond, because this does not
wake the thread. The thread checks all calls twenty times a second, and stops after some seconds without a call. A call
that is overdue is first cancelled, so that the server does not execute it later. Then the socket is shut, and the
driver sees a lost connection. Nothing more is sent after that.

Some waits cannot be ended (the look-up of a host name, a handshake). The thread that waits is abandoned then: see
`within`.
"""

from __future__ import annotations

import os
import socket
import struct
from _thread import allocate_lock, start_new_thread
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from time import monotonic, sleep
from typing import TypeVar

from airflow_resume.backends.span import OverdueError
from airflow_resume.shown import get_logger

T = TypeVar("T")

log = get_logger(__name__)

TICK = 0.05
IDLE_SECONDS = 5.0
"""The thread ends after this time without a call."""
CANCEL_SHARE, CANCEL_SECONDS = 0.2, 1.0
"""The last fifth of the time of a call, and no more than a second, is for cancelling it."""

_DISCARD = struct.pack("ii", 1, 0)
"""SO_LINGER: what was not sent yet is discarded when the socket is closed."""


class TimedCall:
    """A call on a driver's connection that the watchdog may end.

    Args:
        abort: shuts the connection.
        cancel: asks the server to end the call; takes the number of seconds that this may last.
        ends: when the time of the call is over, by the monotonic clock.
    """

    __slots__ = ("_abort", "_cancel", "cancels", "ends", "is_overdue")

    def __init__(self, abort: Callable[[], None], cancel: Callable[[float], None], ends: float) -> None:
        length = ends - monotonic()
        self._abort = abort
        self._cancel = cancel
        self.ends = ends
        self.cancels = ends - min(CANCEL_SECONDS, length * CANCEL_SHARE)
        self.is_overdue = False

    def check(self, now: float) -> None:
        """Cancel or end it, if its time is over."""
        if now < self.cancels:
            return
        if not self.is_overdue:
            self.is_overdue = True
            # In a thread of its own, as it waits for the server, and other calls are to be ended in time.
            start_new_thread(self._cancel_quietly, ())
        if now >= self.ends:
            self._abort()

    def _cancel_quietly(self) -> None:
        try:
            self._cancel(CANCEL_SECONDS)
        except Exception as error:  # noqa: BLE001  it is only tried
            log.debug("A statement could not be cancelled: %s", error)


def abort(socket_number: Callable[[], int]) -> None:
    """Shut the socket of a driver's connection, so that neither a call nor the closing waits for it any longer."""
    try:
        shut = socket.socket(fileno=socket_number())  # not a duplicate: there may be no free number
        try:
            shut.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DISCARD)
            shut.shutdown(socket.SHUT_RDWR)
        finally:
            shut.detach()  # the driver owns it, and closes it
    except Exception as error:  # noqa: BLE001  it is closed already, or the driver shows no socket
        log.debug("A connection could not be shut: %s", error)


class Watchdog:
    """The calls that are going on in this process."""

    def __init__(self) -> None:
        self._calls: set[TimedCall] = set()
        self._is_running = False
        self.closing = Lock()
        """Held while a connection is closed. Otherwise the number of a socket to shut might belong to another file."""

    def add(self, call: TimedCall) -> None:
        """Have the call ended when its time is over."""
        self._calls.add(call)
        if not self._is_running:
            self._is_running = True
            start_new_thread(self._run, ())

    def remove(self, call: TimedCall) -> None:
        """Note that the call has ended."""
        self._calls.discard(call)

    def _run(self) -> None:
        """Two threads may run this for a moment, when two calls begin at once: that does no harm."""
        quiet_since = monotonic()
        while True:
            sleep(TICK)
            now = monotonic()
            for call in tuple(self._calls):
                quiet_since = now
                with self.closing:
                    if call in self._calls:
                        call.check(now)
            if now - quiet_since > IDLE_SECONDS:
                self._is_running = False
                if not self._calls:  # one that is added after this line starts another thread
                    return
                quiet_since = now


watchdog = Watchdog()


def within(seconds: float, make: Callable[[], T], drop: Callable[[T], object], what: str) -> T:
    """The result of `make`, which runs in a thread of its own.

    If it takes longer, nobody waits for it, and its result goes to `drop`. A signal handler may raise at any moment in
    here, which `threading.Thread.start` and `Future.result` do not survive.

    Raises:
        OverdueError: it took longer.
    """
    made: list[tuple[T | None, BaseException | None]] = []
    abandoned: list[bool] = []
    ended = allocate_lock()
    ended.acquire()

    def drop_if_abandoned() -> None:
        """Drop the result. Both threads may call this, and only one of them gets the result."""
        with suppress(IndexError):
            given, error = made.pop()
            if error is None:
                drop(given)  # type: ignore[arg-type]

    def run() -> None:
        try:
            made.append((make(), None))
        except BaseException as error:  # noqa: BLE001  it is raised by who waits
            made.append((None, error))
        ended.release()
        if abandoned:
            drop_if_abandoned()

    start_new_thread(run, ())
    is_ended = False
    try:
        is_ended = ended.acquire(timeout=seconds)
    finally:
        if not is_ended:
            abandoned.append(True)
            drop_if_abandoned()
    if not is_ended:
        raise OverdueError(f"{what} within {seconds:.3g} s")
    given, error = made.pop()
    if error is not None:
        raise error
    return given  # type: ignore[return-value]


def _after_fork_in_child() -> None:
    """Start anew in a forked child: it has no such thread, and the calls belong to the parent."""
    watchdog.__init__()  # type: ignore[misc]


os.register_at_fork(after_in_child=_after_fork_in_child)
