"""The one thread of this process that talks to Airflow's supervisor.

Theory of operation. A task talks to its supervisor over one socket, and replies are matched by order. If a signal
handler raises (the alarm of `execution_timeout`) while the main thread waits for a reply, that reply stays in the
socket and the next call gets it: the value of another key. If the handler itself makes a call, it waits for a lock that
the interrupted call holds: a deadlock. So only the thread of the channel ever makes a store call. The caller waits for
a `Reply`; when its wait is interrupted, the channel still reads the reply from the socket.

Task processes are forked, and a thread does not survive a fork, so each process has a channel of its own, made on first
use. In `dag.test()` the supervisor can be called from the caller's thread only, so there the calls are made inline.
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
    """The result of a call on a channel, which may not be there yet.

    It is not a `concurrent.futures.Future`, because a `Future` has an internal lock. A signal handler may run while the
    main thread holds that lock. Then the channel waits for the lock, and the handler waits for the channel. A `Reply`
    has one lock only, and the channel itself releases it.
    """

    def __init__(self) -> None:
        self.done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._ready = threading.Lock()
        self._ready.acquire()

    def settle(self, call: Callable[[], T]) -> None:
        """Make the call, keep what it returns or raises, and wake up the caller that waits."""
        try:
            self._value = call()
        except BaseException as error:  # noqa: BLE001  raised in the thread that waits
            self._error = error
        self.done = True
        self._ready.release()

    def result(self, timeout: float | None = None) -> T:
        """Wait for the call, and return its result or raise its error.

        Args:
            timeout: in seconds.

        Raises:
            TimeoutError: the call takes longer. It is still made.
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
        """Make the call when all earlier ones are done."""
        ...


class InlineChannel:
    """Makes every call at once, in the caller's thread: for `dag.test()` and for stores that need no channel."""

    def submit(self, call: Callable[[], T], /) -> Reply[T]:
        """Make the call now. It is done when this returns. An error that is not an `Exception` is raised at once."""
        reply: Reply[T] = Reply()
        reply.settle(call)
        with suppress(Exception):  # raised when the result is asked for
            reply.result()
        return reply


class ThreadChannel:
    """Makes every call on one daemon thread of its own.

    The queue is a `SimpleQueue`, because a signal handler may put a call into it at any moment.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="airflow-resume", daemon=True)
        self._thread.start()

    def submit(self, call: Callable[[], T], /) -> Reply[T]:
        """Queue the call. A call from the channel's own thread is made at once."""
        if threading.current_thread() is self._thread:
            return InlineChannel().submit(call)
        reply: Reply[T] = Reply()
        context = contextvars.copy_context()  # logs and traces of the call belong to the caller
        self._calls.put(lambda: reply.settle(lambda: context.run(call)))
        return reply

    def _work(self) -> None:
        while True:
            self._calls.get()()


class LoopChannel:
    """Makes every call on an event loop: for `dag.test()` of a task that is a coroutine."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def submit(self, call: Callable[[], T], /) -> Reply[T]:
        """Schedule the call on the loop. The caller must not run on that loop, as it would wait for itself."""
        reply: Reply[T] = Reply()
        context = contextvars.copy_context()
        self._loop.call_soon_threadsafe(reply.settle, lambda: context.run(call))
        return reply


_channels: dict[int, Channel] = {}
"""The channels by process id, because a forked child must not use its parent's channel."""


def task_channel() -> Channel:
    """The channel of this process to Airflow's supervisor."""
    if in_process_supervisor():
        return InlineChannel()
    # If two threads make the first call at the same time, both get the channel that `setdefault` keeps.
    return _channels.get(os.getpid()) or _channels.setdefault(os.getpid(), ThreadChannel())


def on_event_loop() -> bool:
    """Whether the caller runs on an event loop, so that it must not block."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def off_the_loop(call: Callable[[], T]) -> T:
    """Make a call that uses the channel without blocking the event loop, which the channel may need for its reply."""
    if in_process_supervisor():
        return call()
    return await asyncio.to_thread(call)


def in_process_supervisor() -> bool:
    """Whether this is `dag.test()`, whose supervisor is in the task's own process."""
    runner = sys.modules.get("airflow.sdk.execution_time.task_runner")
    comms = getattr(runner, "SUPERVISOR_COMMS", None)
    return type(comms).__name__ == "InProcessSupervisorComms"


class LatestWriter(Generic[T]):
    """Writes the newest of the values that it is given: one write at a time, without a queue.

    All methods must be called in one thread. The error of a write is kept in `failure` until `raise_failure` raises it
    in that thread. `on_failure` is called in the thread of the write.
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
        """Have the value written soon. It replaces a value that is still waiting."""
        with self._lock:
            self._waiting[:] = [value]
            start, self._draining = not self._draining, True
        if start:
            self._drained = self._channel.submit(self._drain)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until every value that was offered is written or replaced.

        Args:
            timeout: in seconds.

        Raises:
            TimeoutError: the write takes longer. It is still made.
            Any error that a write has raised since the last call.
        """
        if self._drained is not None:
            self._drained.result(timeout)
        self.raise_failure()

    def raise_failure(self) -> None:
        """Raise the error of a write since the last call, if there was one."""
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
        """The waiting value. To find no value and to stop are one step, so that no offer can come in between."""
        with self._lock:
            value, self._waiting = self._waiting, []
            self._draining = bool(value)
            return value or None
