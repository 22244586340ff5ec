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

import asyncio
import contextvars
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Generic, Protocol, TypeVar, cast

T = TypeVar("T")


class Reply(Generic[T]):
    """What a call will have returned.

    Not a `concurrent.futures.Future`: a signal handler may come while the main thread holds the lock inside one, and
    the channel then waits for that lock while the handler waits for the channel. Here the only lock is handed over.
    """

    def __init__(self) -> None:
        self.done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._ready = threading.Lock()
        self._ready.acquire()

    def settle(self, call: Callable[[], T]) -> None:
        """Make the call, keep what it returns or raises, and let the waiter go."""
        try:
            self._value = call()
        except BaseException as error:  # noqa: BLE001  it belongs to whoever waits
            self._error = error
        self.done = True
        self._ready.release()

    def result(self, timeout: float | None = None) -> T:
        """Wait for the call, and return or raise what it did.

        Args:
            timeout: in seconds.

        Raises:
            TimeoutError: it takes longer. The call is still made.
        """
        if not self.done:
            if not self._ready.acquire(timeout=-1 if timeout is None else timeout):
                raise TimeoutError(f"the call took longer than {timeout} s")
            self._ready.release()
        if self._error is not None:
            raise self._error
        return cast("T", self._value)


class Channel(Protocol):
    """Where store calls are made, one after the other."""

    def submit(self, call: Callable[[], T], /) -> Reply[T]:
        """Make the call when those before it are done."""
        ...


class InlineChannel:
    """Makes every call at once, in the caller's thread: for `dag.test()` and for stores that need no channel."""

    def submit(self, call: Callable[[], T], /) -> Reply[T]:
        """Make the call now; it is done when this returns. What is no `Exception` ends the caller at once."""
        reply: Reply[T] = Reply()
        reply.settle(call)
        with suppress(Exception):  # it is raised when the result is asked for
            reply.result()
        return reply


class ThreadChannel:
    """Makes every call on one daemon thread of its own.

    The queue is a `SimpleQueue`, which may be put to from a signal handler at any moment.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="airflow-resume", daemon=True)
        self._thread.start()

    def submit(self, call: Callable[[], T], /) -> Reply[T]:
        """Queue the call; one made from the channel's own thread is made at once."""
        if threading.current_thread() is self._thread:
            return InlineChannel().submit(call)
        reply: Reply[T] = Reply()
        context = contextvars.copy_context()  # what is logged and traced belongs to the caller
        self._calls.put(lambda: reply.settle(lambda: context.run(call)))
        return reply

    def _work(self) -> None:
        while True:
            self._calls.get()()


class LoopChannel:
    """Makes every call on an event loop, in the thread of it: for `dag.test()` of a task that is a coroutine."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def submit(self, call: Callable[[], T], /) -> Reply[T]:
        """Have the call made when the loop comes to it; the caller must not be on the loop."""
        reply: Reply[T] = Reply()
        context = contextvars.copy_context()
        self._loop.call_soon_threadsafe(reply.settle, lambda: context.run(call))
        return reply


_channels: dict[int, Channel] = {}
"""By process id: a forked child must not find its parent's."""


def task_channel() -> Channel:
    """The channel of this process to Airflow's supervisor."""
    if in_process_supervisor():
        return InlineChannel()
    # Of two threads that come first at once, both get the one that setdefault keeps.
    return _channels.get(os.getpid()) or _channels.setdefault(os.getpid(), ThreadChannel())


def on_event_loop() -> bool:
    """Whether the caller runs on an event loop, which a call that blocks would hold up."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def off_the_loop(call: Callable[[], T]) -> T:
    """Make a call that uses the channel without holding up the event loop, which may be what the channel waits for."""
    if in_process_supervisor():
        return call()
    return await asyncio.to_thread(call)


def in_process_supervisor() -> bool:
    """Whether this is `dag.test()`, whose supervisor lives in the task's own process."""
    runner = sys.modules.get("airflow.sdk.execution_time.task_runner")
    comms = getattr(runner, "SUPERVISOR_COMMS", None)
    return type(comms).__name__ == "InProcessSupervisorComms"


class LatestWriter(Generic[T]):
    """Writes the newest of the values it is offered: one write at a time, and no queue behind it.

    All methods belong to one thread. What a write raised is kept in `failure` until `raise_failure` raises it there;
    `on_failure` is called in the thread of the write.
    """

    def __init__(
        self,
        channel: Channel,
        write: Callable[[T], object],
        monotonic: Callable[[], float],
        *,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        self._channel = channel
        self._write = write
        self._monotonic = monotonic
        self._on_failure = on_failure
        self._lock = threading.Lock()
        self._waiting: list[T] = []
        self._draining = False
        self._drained: Reply[None] | None = None
        self.failure: Exception | None = None
        self.write_seconds = 0.0
        """How long the newest write took."""
        self.written_at = monotonic()
        """When the newest write returned."""

    def offer(self, value: T) -> None:
        """Have the value written soon, in place of any that still waits."""
        with self._lock:
            self._waiting[:] = [value]
            start, self._draining = not self._draining, True
        if start:
            self._drained = self._channel.submit(self._drain)

    def flush(self, timeout: float | None = None) -> None:
        """Return when everything offered is written.

        Args:
            timeout: in seconds.

        Raises:
            TimeoutError: it takes longer. It is still written.
            Whatever a write raised since the last time.
        """
        if self._drained is not None:
            self._drained.result(timeout)
        self.raise_failure()

    def raise_failure(self) -> None:
        """Raise what a write raised since the last time, if one did."""
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure

    def _drain(self) -> None:
        while (value := self._next()) is not None:
            started = self._monotonic()
            try:
                self._write(value[0])
            except Exception as error:  # noqa: BLE001  raised in the owner's thread
                self.failure = error
                self._on_failure()
            else:
                self.written_at = self._monotonic()
                self.write_seconds = self.written_at - started

    def _next(self) -> list[T] | None:
        """The value that waits. Finding none and stopping are one step, so that no offer falls in between."""
        with self._lock:
            value, self._waiting = self._waiting, []
            self._draining = bool(value)
            return value or None
