"""The one thread of this process that talks to Airflow's supervisor.

Theory of operation. A task talks to its supervisor over one socket, and replies are matched by order. If a signal
handler raises (the alarm of `execution_timeout`) while the main thread waits for a reply, that reply is left in the
socket and the next call gets it: another key's value. If the handler itself makes a call, it waits for a lock that
the interrupted call holds: a deadlock. So no other thread than the channel's ever makes a store call. The caller
waits for a `Future`; when its wait is interrupted, the channel still takes the reply off the socket.

Task processes are forked, and a thread does not survive a fork: there is one channel a process, made on first use.
`dag.test()` is different. Its channel works in the caller's thread only, so there the calls are made inline.
"""

from __future__ import annotations

import contextvars
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")


class Channel(Protocol):
    """Where store calls are made, one after the other."""

    def submit(self, call: Callable[[], T], /) -> Future[T]:
        """Make the call when those before it are done."""
        ...


@dataclass
class _Call(Generic[T]):
    function: Callable[[], T]
    context: contextvars.Context = field(default_factory=contextvars.copy_context)
    future: Future[T] = field(default_factory=Future)

    def run(self) -> None:
        try:
            self.future.set_result(self.context.run(self.function))
        except BaseException as error:  # noqa: BLE001  it belongs to whoever waits for the future
            self.future.set_exception(error)


class InlineChannel:
    """Makes every call at once, in the caller's thread: for `dag.test()` and for stores that need no channel."""

    def submit(self, call: Callable[[], T], /) -> Future[T]:
        """Make the call now; the future is done when this returns. What is no `Exception` ends the caller at once."""
        made = _Call(call)
        made.run()
        error = made.future.exception()
        if error is not None and not isinstance(error, Exception):
            raise error
        return made.future


class ThreadChannel:
    """Makes every call on one daemon thread of its own.

    The queue is a `SimpleQueue`, which may be put to from a signal handler at any moment.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[_Call[object]] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="airflow-resume", daemon=True)
        self._thread.start()

    def submit(self, call: Callable[[], T], /) -> Future[T]:
        """Queue the call; one made from the channel's own thread is made at once."""
        if threading.current_thread() is self._thread:
            return InlineChannel().submit(call)
        made = _Call(call)
        self._calls.put(made)  # type: ignore[arg-type]
        return made.future

    def _work(self) -> None:
        while True:
            self._calls.get().run()


_channel_of_process: tuple[int, Channel] | None = None


def task_channel() -> Channel:
    """The channel of this process to Airflow's supervisor."""
    global _channel_of_process  # noqa: PLW0603  one a process, and a forked child must see that it has none
    if _in_process_supervisor():
        return InlineChannel()
    if _channel_of_process is None or _channel_of_process[0] != os.getpid():
        _channel_of_process = (os.getpid(), ThreadChannel())
    return _channel_of_process[1]


def _in_process_supervisor() -> bool:
    """Whether this is `dag.test()`, whose supervisor lives in the task's own process."""
    runner = sys.modules.get("airflow.sdk.execution_time.task_runner")
    comms = getattr(runner, "SUPERVISOR_COMMS", None)
    return type(comms).__name__ == "InProcessSupervisorComms"


class LatestWriter(Generic[T]):
    """Writes the newest of the values it is offered: one write at a time, and no queue behind it.

    All methods belong to one thread. What a write raised is kept in `failure` until `raise_failure` raises it there.
    """

    def __init__(self, channel: Channel, write: Callable[[T], None], monotonic: Callable[[], float]) -> None:
        self._channel = channel
        self._write = write
        self._monotonic = monotonic
        self._waiting: list[T] = []
        self._lock = threading.Lock()
        self._running: Future[None] | None = None
        self.failure: Exception | None = None
        self.write_seconds = 0.0
        """How long the newest write took."""
        self.written_at = monotonic()
        """When the newest write returned."""

    def offer(self, value: T) -> None:
        """Have the value written soon, in place of any that still waits."""
        with self._lock:
            self._waiting[:] = [value]
        if self._running is None or self._running.done():
            self._running = self._channel.submit(self._drain)

    def flush(self) -> None:
        """Return when everything offered is written.

        Raises:
            Whatever a write raised since the last time.
        """
        while self._running is not None:
            running, self._running = self._running, None
            running.result()
            if self._waiting and self.failure is None:  # offered just as the channel had finished
                self._running = self._channel.submit(self._drain)
        self.raise_failure()

    def raise_failure(self) -> None:
        """Raise what a write raised since the last time, if one did."""
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure

    def _drain(self) -> None:
        while self.failure is None:
            with self._lock:
                if not self._waiting:
                    return
                value = self._waiting.pop()
            started = self._monotonic()
            try:
                self._write(value)
            except Exception as error:  # noqa: BLE001  raised in the owner's thread
                self.failure = error
                return
            self.written_at = self._monotonic()
            self.write_seconds = self.written_at - started
