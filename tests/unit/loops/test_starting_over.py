"""A script whose loop was done says so, and how to start over; nothing outside a task tells anybody to clear one."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from airflow_resume import checkpoint
from airflow_resume.channel import InlineChannel
from airflow_resume.errors import SourceChangedError, StoreUnavailableError, TokenExpiredError
from airflow_resume.given import GivenStore
from airflow_resume.loops import CursorToken, Files, Page
from airflow_resume.store import MemoryStore
from airflow_resume.testing import World, task_context

KEY = "resume.loop.l"


def script(store: Any, *, fails_at: int | None = None, **options: Any) -> list[int]:
    """What one run of a script does."""
    done = []
    with suppress(ZeroDivisionError):
        for number in checkpoint(range(4), name="l", store=store, **options):
            if number == fails_at:
                raise ZeroDivisionError
            done.append(number)
    return done


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [entry.getMessage() for entry in caplog.records if entry.levelno >= logging.WARNING]


def test_a_script_whose_loop_was_done_says_so_and_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    assert (script(store), warnings(caplog)) == ([0, 1, 2, 3], [])
    assert script(store) == []
    [line] = warnings(caplog)
    assert line.startswith("Loop 'l' delivers nothing: an earlier run was done at 20")
    assert "on_done='restart', or restart=True" in line


def test_a_retry_of_a_task_finds_nothing_to_warn_of(caplog: pytest.LogCaptureFixture) -> None:
    first = task_context()
    with first:
        list(checkpoint(range(4), name="l"))
    with first.retry():
        assert list(checkpoint(range(4), name="l")) == []
    assert warnings(caplog) == []


def test_a_nightly_script_goes_on_after_a_crash_and_starts_anew_the_next_night(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MemoryStore()
    assert script(store, fails_at=2, on_done="restart") == [0, 1]
    assert script(store, on_done="restart") == [2, 3]
    assert script(store, on_done="restart") == [0, 1, 2, 3]
    assert warnings(caplog) == []
    assert script(store, restart=True, fails_at=1) == [0]
    assert script(store, restart=True) == [0, 1, 2, 3]


def test_in_a_task_restart_holds_once_a_clear_and_a_retry_goes_on() -> None:
    def attempt_does(attempt: Any, fails_at: int | None = None, **options: Any) -> list[int]:
        with attempt:
            return script(None, restart=True, fails_at=fails_at, **options)

    first = task_context()
    assert attempt_does(first, 2) == [0, 1]
    second = first.retry()
    assert attempt_does(second, 3) == [2]
    cleared = second.clear()
    assert attempt_does(cleared, 1, on_clear="resume") == [0]
    assert attempt_does(cleared.retry(), on_clear="resume") == [1, 2, 3]


def test_in_a_task_a_loop_inside_another_goes_on_too() -> None:
    attempt, seen = task_context(), list[int]()
    for fails_at in (1, None):
        with attempt, suppress(ZeroDivisionError), checkpoint(["a"], name="l") as outer:
            for _ in outer:
                for number in checkpoint(range(3), name="in", within=outer, restart=True):
                    if number == fails_at:
                        raise ZeroDivisionError
                    seen.append(number)
        attempt = attempt.retry()
    assert seen == [0, 1, 2]


def test_in_a_task_restart_holds_for_what_another_run_has_left_in_a_store() -> None:
    store, world = MemoryStore(), World()
    for run in ("run-1", "run-2"):
        with task_context(run_id=run, world=world):
            assert script(store, restart=True) == [0, 1, 2, 3]
        world.clock.sleep(60)


def test_restart_forgets_a_record_that_cannot_be_read() -> None:
    store = MemoryStore()
    unreadable: tuple[Any, ...] = ("nonsense", {"v": 9, "key": KEY})
    for left in unreadable:
        store.set(KEY, left)
        assert script(store, restart=True) == [0, 1, 2, 3]


def test_a_loop_inside_another_may_start_over_with_its_element() -> None:
    store, seen = MemoryStore(), list[int]()
    for _ in range(2):
        outer = checkpoint(["a"], name="l", store=store)
        with suppress(ZeroDivisionError), outer:
            for _ in outer:
                seen.extend(checkpoint(range(2), name="in", within=outer, on_done="restart"))
                raise ZeroDivisionError
    assert seen == [0, 1, 0, 1]


@pytest.mark.parametrize(("options", "error"), [({"on_done": "begin"}, ValueError), ({"restart": "yes"}, TypeError)])
def test_what_cannot_be_meant_is_refused_at_once(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=next(iter(options))):
        script(MemoryStore(), **options)


class GoneError(Exception):
    """What an API raises for a token that is too old."""


def gone(token: str | None) -> Page[int]:
    if token is not None:
        raise GoneError
    return Page([1], "t")


def failures(**options: Any) -> list[str]:
    """The messages of all ways in which the opening, or a source, refuses to go on."""
    told = []
    tokens = CursorToken(gone, expired=GoneError, on_expired="fail")
    with pytest.raises(TokenExpiredError) as expired:
        list(checkpoint(tokens, name="a", **options))
    told.append(str(expired.value))
    next(iter(checkpoint(Files(["x"]), name="b", **options)))
    with pytest.raises(SourceChangedError) as changed:
        next(iter(checkpoint(["y"], name="b", on_change="fail", **options)))
    told.append(str(changed.value))
    return told


def test_outside_a_task_nobody_is_told_to_clear_one() -> None:
    told = failures(store=MemoryStore())
    assert [text for text in told if "clear the task" in text.lower()] == []
    assert all("restart=True" in text for text in told)


def test_in_a_task_somebody_is() -> None:
    tokens = CursorToken(gone, expired=GoneError, on_expired="fail")
    with task_context(), pytest.raises(TokenExpiredError, match="clear the task"):
        list(checkpoint(tokens, name="a"))


# --- a store that was passed ----------------------------------------------------------------------------------


class Away(MemoryStore):
    """Its writes fail by script, with an error of its own; it notes its threads."""

    def __init__(self, *fails: int) -> None:
        super().__init__()
        self.fails, self.writes = fails, 0
        self.threads: set[str] = set()

    def set(self, key: str, value: Any) -> None:
        self.writes += 1
        self.threads.add(threading.current_thread().name)
        if self.writes in self.fails:
            raise ConnectionError("redis://:s3cret@host is gone")
        super().set(key, value)


def test_an_error_of_its_own_is_borne_by_policy() -> None:
    store = Away(3, 4)
    assert script(store, durability="sync", on_store_error="continue") == [0, 1, 2, 3]
    record: Any = store.values[KEY]
    assert record["done"]


def test_else_it_is_raised_by_one_of_our_names() -> None:
    with pytest.raises(StoreUnavailableError, match=r"Away\.set\(\) raised ConnectionError") as caught:
        script(Away(3, 4), durability="sync")
    assert isinstance(caught.value.__cause__, ConnectionError)
    assert "s3cret" not in str(caught.value)


def test_it_is_written_in_the_background_on_one_thread() -> None:
    """While a write takes long, elements are delivered."""
    going_on, in_write = threading.Event(), threading.Event()

    class Slow(Away):
        def set(self, key: str, value: Any) -> None:
            if 0 < value["n"] < 4:
                in_write.set()
                assert going_on.wait(30)
            super().set(key, value)

    store = Slow()
    for number in checkpoint(range(4), name="l", store=store, interval=timedelta(0)):
        if number == 2:
            assert in_write.wait(30)
            going_on.set()
    assert len(store.threads) == 1
    assert store.threads != {threading.current_thread().name}
    record: Any = store.values[KEY]
    assert record["done"]


def test_one_that_must_not_leave_its_thread_says_so() -> None:
    store = Away()
    store.channel = InlineChannel()  # type: ignore[attr-defined]
    script(store, durability="sync")
    assert store.threads == {threading.current_thread().name}
    assert isinstance(GivenStore(MemoryStore()).channel, InlineChannel)
