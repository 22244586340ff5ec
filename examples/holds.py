"""Holds: where a demo or a test places a crash between "the server did it" and "the client knows".

A hold is armed for the nth matching request of one label. That request is carried out in full; only its
reply is withheld, until the client's connection is gone, the hold is released, or a limit has passed.
Whoever waits for `reached` and then kills the client has crashed it at exactly that point, every time.

Theory of operation: each request runs in a thread of its own, so a withheld reply blocks nobody else. The
counting is done under one lock; the waiting happens outside of it.
"""

from __future__ import annotations

import itertools
import select
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

_GLANCE = 0.02
"""Seconds between two checks of a client that is being held."""


@dataclass(kw_only=True, eq=False)
class Hold:
    """One armed hold.

    Attributes:
        label: The label whose requests count.
        path_prefix: The paths that count.
        method: The HTTP method that counts; all of them when None.
        remaining: How many matching requests are still to come, including the one that is held.
        reached: Set once the held request has been carried out.
        released: Set to let the reply go.
    """

    label: str
    path_prefix: str
    remaining: int
    method: str | None = None
    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def matches(self, *, method: str, label: str, path: str) -> bool:
        """Whether a request counts towards this hold."""
        return label == self.label and path.startswith(self.path_prefix) and self.method in (None, method)


class Holds:
    """The holds of one service."""

    def __init__(self, *, limit: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self._lock = threading.Lock()
        self._ids = itertools.count()
        self._holds: dict[int, Hold] = {}
        self._armed: list[Hold] = []

    def arm(self, *, label: str, path_prefix: str, nth: int = 1, method: str | None = None) -> int:
        """Hold the nth matching request from now on, and return the id of the hold.

        Raises:
            ValueError: If `nth` is not positive.
        """
        if nth < 1:
            raise ValueError(f"nth counts from 1, not {nth}")
        hold = Hold(label=label, path_prefix=path_prefix, remaining=nth, method=method)
        with self._lock:
            hold_id = next(self._ids)
            self._holds[hold_id] = hold
            self._armed.append(hold)
        return hold_id

    def take_turn(self, *, method: str, label: str, path: str) -> Hold | None:
        """Count a request that has arrived; return the hold that it reaches, if any."""
        with self._lock:
            counted = [hold for hold in self._armed if hold.matches(method=method, label=label, path=path)]
            for hold in counted:
                hold.remaining -= 1
            self._armed = [hold for hold in self._armed if hold.remaining > 0]
        return next((hold for hold in counted if hold.remaining == 0), None)

    def __contains__(self, hold_id: object) -> bool:
        return hold_id in self._holds

    def is_reached(self, hold_id: int) -> bool:
        """Whether the held request has been carried out.

        Raises:
            KeyError: If no such hold was armed.
        """
        return self._holds[hold_id].reached.is_set()

    def release(self, hold_id: int) -> None:
        """Let the reply go, or disarm a hold whose request never came.

        Raises:
            KeyError: If no such hold was armed.
        """
        hold = self._holds[hold_id]
        with self._lock:
            self._armed = [armed for armed in self._armed if armed is not hold]
        hold.released.set()

    def release_all(self) -> None:
        """Let every reply go: the service is stopping."""
        for hold_id in list(self._holds):
            self.release(hold_id)

    def keep_waiting(self, hold: Hold, client_is_gone: Callable[[], bool]) -> bool:
        """Withhold the reply to a request that has been carried out.

        Returns:
            True if the reply should be sent after all, False if nobody is left to read it.
        """
        hold.reached.set()
        deadline = self._clock() + self._limit
        while not hold.released.wait(_GLANCE):
            if client_is_gone():
                return False
            if self._clock() >= deadline:
                return True
        return True


def is_gone(connection: socket.socket) -> bool:
    """Whether the other end of a connection has vanished.

    A killed client's kernel closes its sockets, which makes this end readable with nothing to read. A client
    that sends more instead (pipelining) counts as present.
    """
    readable, _, _ = select.select([connection], [], [], 0)
    if not readable:
        return False
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except ConnectionError:
        return True
