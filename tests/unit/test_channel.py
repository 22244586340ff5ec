from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from airflow_resume.channel import InlineChannel, LatestWriter, ThreadChannel, task_channel


def test_calls_are_made_in_order_on_one_other_thread() -> None:
    channel = ThreadChannel()
    threads = [channel.submit(threading.get_ident) for _ in range(3)]
    made = {future.result() for future in threads}
    assert len(made) == 1
    assert threading.get_ident() not in made


def test_an_error_is_raised_where_the_result_is_waited_for() -> None:
    future = ThreadChannel().submit(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        future.result()


def test_a_call_from_the_channels_own_thread_does_not_wait_for_itself() -> None:
    channel = ThreadChannel()
    assert channel.submit(lambda: channel.submit(lambda: 5).result()).result(timeout=5) == 5


def test_a_wait_that_a_signal_interrupts_leaves_no_answer_for_the_next_call() -> None:
    """The alarm of `execution_timeout` while a call waits must not hand its answer to another key."""
    channel, entered = ThreadChannel(), threading.Event()
    release = threading.Event()

    class AlarmError(Exception):
        pass

    def alarm(_signal: int, _frame: object) -> None:
        # In the handler the main thread is inside a call, and makes another one: no deadlock.
        threading.Timer(0, release.set).start()
        answers.append(channel.submit(lambda: "third").result(timeout=5))
        raise AlarmError

    def slow() -> str:
        entered.set()
        release.wait(5)
        return "first"

    answers: list[str] = []
    before = signal.signal(signal.SIGALRM, alarm)
    try:
        future = channel.submit(slow)
        entered.wait(5)
        with pytest.raises(AlarmError):
            os.kill(os.getpid(), signal.SIGALRM)
            future.result(timeout=5)
        answers.append(channel.submit(lambda: "second").result(timeout=5))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert answers == ["third", "second"]


def test_a_forked_child_gets_a_channel_of_its_own() -> None:
    assert task_channel().submit(lambda: 1).result(timeout=5) == 1
    child = os.fork()
    if child == 0:
        try:
            code = task_channel().submit(lambda: 42).result(timeout=5)
        except BaseException:  # noqa: BLE001  a child that fails must still end here
            code = 1
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42


class HeldChannel:
    """Makes calls when told to."""

    def __init__(self) -> None:
        self.calls: list[tuple[Callable[[], Any], Future[Any]]] = []

    def submit(self, call: Callable[[], Any], /) -> Future[Any]:
        future: Future[Any] = Future()
        self.calls.append((call, future))
        return future

    def go(self) -> None:
        for call, future in self.calls:
            future.set_result(call())
        self.calls.clear()


def test_the_writer_has_one_write_in_flight_and_writes_the_newest_next() -> None:
    channel, written = HeldChannel(), []  # type: ignore[var-annotated]
    writer = LatestWriter(channel, written.append, time.monotonic)
    for value in range(5):
        writer.offer(value)
    assert len(channel.calls) == 1
    channel.go()
    assert written == [4]


def test_flush_returns_when_the_newest_is_written() -> None:
    written: list[int] = []
    writer = LatestWriter(ThreadChannel(), written.append, time.monotonic)
    for value in range(100):
        writer.offer(value)
    writer.flush()
    assert written[-1] == 99
    assert written == sorted(written)


def test_what_a_write_raised_is_raised_in_the_owners_thread_once() -> None:
    def refuse(_value: int) -> None:
        raise KeyError("refused")

    writer = LatestWriter(InlineChannel(), refuse, time.monotonic)
    writer.offer(1)
    with pytest.raises(KeyError, match="refused"):
        writer.flush()
    writer.flush()
