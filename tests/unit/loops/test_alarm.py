from __future__ import annotations

import threading
import time
from collections.abc import Callable

from airflow_resume.loops.wake_flag import Alarm


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.001)


def timers() -> int:
    return sum(isinstance(thread, threading.Timer) for thread in threading.enumerate())


def test_all_flags_are_set_until_they_are_cleared() -> None:
    alarm = Alarm()
    first, second = alarm.new_flag(), alarm.new_flag()
    assert not first
    alarm.wake()
    alarm.wake()
    assert first
    assert second
    first.clear()
    assert not first
    assert second


def test_a_flag_that_was_removed_is_not_set() -> None:
    alarm = Alarm()
    first, second = alarm.new_flag(), alarm.new_flag()
    alarm.remove(first)
    alarm.wake()
    assert not first
    assert second


def test_there_is_one_timer_at_a_time_and_none_after_the_end() -> None:
    alarm, before = Alarm(), timers()
    alarm.wake_in(600)
    alarm.wake_in(1)
    assert timers() == before + 1
    alarm.close()
    alarm.close()
    until(lambda: timers() == before)


def test_when_the_time_is_over_it_wakes_and_may_be_asked_again() -> None:
    alarm = Alarm()
    flag = alarm.new_flag()
    for _ in range(2):
        alarm.wake_in(0.001)
        until(lambda: len(flag) > 0)
        flag.clear()
