from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from airflow_resume.channel import InlineChannel, LatestWriter, Reply, ThreadChannel, task_channel


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
        self.calls: list[tuple[Callable[[], Any], Reply[Any]]] = []

    def submit(self, call: Callable[[], Any], /) -> Reply[Any]:
        reply: Reply[Any] = Reply()
        self.calls.append((call, reply))
        return reply

    def go(self) -> None:
        while self.calls:
            call, reply = self.calls.pop(0)
            reply.settle(call)


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


def test_an_offer_that_comes_while_the_channel_stops_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding nothing to write and stopping are one step."""
    channel, written = HeldChannel(), list[int]()
    writer = LatestWriter(channel, written.append, time.monotonic)
    writer.offer(1)
    next_value = writer._next

    def offered_in_between() -> Any:
        value = next_value()
        if value is None and written == [1]:
            writer.offer(2)
        return value

    monkeypatch.setattr(writer, "_next", offered_in_between)
    channel.go()
    assert written == [1, 2]


def test_a_handler_that_interrupts_the_wait_itself_is_answered() -> None:
    """The waiter holds no lock that the channel needs to answer: at whatever line the signal comes."""
    import sys

    channel, answers = ThreadChannel(), list[int]()

    def handler(_signal: int, _frame: object) -> None:
        answers.append(channel.submit(lambda: 2).result(timeout=5))

    def at_each_line(frame: Any, event: str, _argument: object) -> Any:
        if event == "line" and frame.f_code.co_name == "result" and len(answers) < 3:
            os.kill(os.getpid(), signal.SIGUSR1)
        return at_each_line

    before, tracing = signal.signal(signal.SIGUSR1, handler), sys.gettrace()
    release = threading.Event()
    try:
        reply = channel.submit(lambda: release.wait(5) and 1)
        threading.Timer(0.05, release.set).start()
        sys.settrace(at_each_line)
        waited = reply.result(timeout=5)
    finally:
        sys.settrace(tracing)
        signal.signal(signal.SIGUSR1, before)
    assert waited == 1
    assert answers
    assert set(answers) == {2}


def test_threads_that_come_first_at_once_share_one_channel() -> None:
    barrier, found = threading.Barrier(4), list[object]()

    def find() -> None:
        barrier.wait()
        found.append(task_channel())

    from airflow_resume import channel

    channel._channels.pop(os.getpid(), None)
    threads = [threading.Thread(target=find) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1
