"""Loops that only count: the same as those that look at every element, whatever happens and wherever it does."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import count
from types import FrameType
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowRescheduleException
from hypothesis import example, given, settings
from hypothesis import strategies as st

from airflow_resume import checkpoint
from airflow_resume.channel import InlineChannel, Reply
from airflow_resume.errors import SupersededError, TokenExpiredError
from airflow_resume.loops import Batches, Checkpoint, Chunk, Skip
from airflow_resume.store import MemoryStore
from airflow_resume.testing import FakeClock, task_context
from tests.support.loops.polled_alarm import PolledAlarm
from tests.support.loops.worlds import on_clock

KEY = "resume.loop.l"
LONG = timedelta(hours=1)


class Body:
    """What a loop does with its elements, by number: fail, be skipped, ask for this and that."""

    def __init__(self, does: dict[int, str], clock: FakeClock) -> None:
        self.does, self.clock = does, clock
        self.seen: list[Any] = []

    def __call__(self, loop: Checkpoint[int], number: int) -> None:
        self.seen.append(number)
        if number in self.does:
            getattr(self, self.does[number])(loop, number)

    def asks_for_the_count(self, loop: Checkpoint[int], _number: int) -> None:
        self.seen.append(loop.count)

    def asks_for_the_element(self, loop: Checkpoint[int], _number: int) -> None:
        self.seen.append(loop.element)

    def uses_the_state(self, loop: Checkpoint[int], number: int) -> None:
        loop.state["last"] = number

    def uses_a_state_that_needs_a_closer_look(self, loop: Checkpoint[int], number: int) -> None:
        loop.state["seen"] = [*loop.state.get("seen", ()), number]

    def has_another_state(self, loop: Checkpoint[int], number: int) -> None:
        loop.state = {"other": number}

    def is_skipped(self, loop: Checkpoint[int], number: int) -> None:
        with loop.skipping():
            raise ValueError(number)

    def has_a_loop_in_it(self, loop: Checkpoint[int], _number: int) -> None:
        self.seen.extend(checkpoint(range(3), name="inner", within=loop))

    def fails_in_a_loop(self, loop: Checkpoint[int], number: int) -> None:
        for inner in checkpoint(range(9), name="inner", within=loop):
            if inner == 5:
                raise RuntimeError(number)

    def takes_long(self, _loop: Checkpoint[int], _number: int) -> None:
        self.clock.sleep(100)

    def fails(self, _loop: Checkpoint[int], number: int) -> None:
        raise RuntimeError(number)


HAPPENINGS = [name for name in vars(Body) if not name.startswith("_")]


def failing(numbers: Iterable[int], at: int | None) -> Iterator[int]:
    for number in numbers:
        if number == at:
            raise OSError(number)
        yield number


SHAPES: dict[str, Callable[[int, int | None], Any]] = {
    "list": lambda length, _fails_at: list(range(length)),
    "generator": lambda length, fails_at: failing(range(length), fails_at),
    "pages": lambda length, _fails_at: Batches(range(length), size=4),
}


def gone_through(
    shape: str, does: dict[int, str], fails_at: int | None, *, by_itself: bool, managed: bool, awaited: bool = False
) -> Any:
    """What was seen, every record that was written, and what it ended with, over the attempts it takes."""
    store = RecordingStore()
    tale: list[Any] = []
    for attempt in range(4):
        clock = FakeClock()
        body = Body(does if attempt == 0 else {}, clock)
        source = SHAPES[shape](21, fails_at if attempt == 0 else None)
        options: dict[str, Any] = {"each": True} if shape == "pages" else {}
        loop = checkpoint(
            source, name="l", interval=timedelta(seconds=50), skip=Skip(on=(ValueError,)), store=store, **options
        )
        on_clock(loop, clock.monotonic)
        if by_itself:
            loop._run.plan = replace(loop._run.plan, alarm=partial(NoTimer, clock.monotonic))
        error: Any = None
        try:
            if awaited:
                asyncio.run(each_awaited(loop, body))
            elif managed:
                with loop:
                    each_by_itself(loop, body)
            else:
                each_by_itself(loop, body)
        except (RuntimeError, OSError) as failure:
            error = repr(failure)
        tale.append((body.seen, error, loop.count, loop.skipped, loop.done))
    return tale, store.records


class NoTimer(PolledAlarm):
    """Has no thread left for a timer, so that elements are never only counted."""

    def wake_in(self, seconds: float) -> bool:
        del seconds
        return False


def each_by_itself(loop: Checkpoint[int], body: Body) -> None:
    for number in loop:
        body(loop, number)


async def each_awaited(loop: Checkpoint[int], body: Body) -> None:
    async with loop:
        async for number in loop:
            body(loop, number)


def untimed(record: Any) -> Any:
    """Without what tells a time, in the loops inside it too."""
    if not isinstance(record, dict):
        return record
    timed = {"ts", "t0", "rate", "eta", "summary", "inner_at"}
    return {name: untimed(part) for name, part in record.items() if name not in timed}


class RecordingStore(MemoryStore):
    """Keeps every record, without the times in it."""

    channel = InlineChannel()

    def __init__(self) -> None:
        super().__init__()
        self.records: list[Any] = []

    def set(self, key: str, value: Any, **options: Any) -> None:
        super().set(key, value, **options)
        self.records.append(untimed(value))


@given(
    shape=st.sampled_from(sorted(SHAPES)),
    does=st.dictionaries(st.integers(0, 20), st.sampled_from(HAPPENINGS), max_size=5),
    fails_at=st.none() | st.integers(0, 20),
    managed=st.booleans(),
)
@settings(deadline=None)
@example(shape="list", does={0: "takes_long", 3: "fails"}, fails_at=None, managed=False)
def test_counting_is_not_to_be_told_from_looking_at_each(
    shape: str, does: dict[int, str], fails_at: int | None, *, managed: bool
) -> None:
    counted = gone_through(shape, does, fails_at, by_itself=False, managed=managed)
    assert counted == gone_through(shape, does, fails_at, by_itself=True, managed=managed)


@given(
    shape=st.sampled_from(sorted(SHAPES)),
    does=st.dictionaries(st.integers(0, 20), st.sampled_from(HAPPENINGS), max_size=5),
    fails_at=st.none() | st.integers(0, 20),
)
@settings(deadline=None, max_examples=50)
def test_nor_is_it_on_an_event_loop(shape: str, does: dict[int, str], fails_at: int | None) -> None:
    counted = gone_through(shape, does, fails_at, by_itself=False, managed=True, awaited=True)
    assert counted == gone_through(shape, does, fails_at, by_itself=True, managed=True, awaited=True)
    assert counted == gone_through(shape, does, fails_at, by_itself=True, managed=True)


# --- at any instruction -------------------------------------------------------------------------------------------


class TimeIsUpError(BaseException):
    """As Airflow raises it in a signal handler: between any two instructions."""


@contextmanager
def interrupted(at: int, *, by: str = "opcode") -> Iterator[Callable[[], bool]]:
    """Raise in our own code before its instruction (or call) of that number; whether there were less."""
    left = at

    def trace(frame: FrameType, event: str, _arg: object) -> Any:
        nonlocal left
        if "airflow_resume/loops" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == by:
            left -= 1
            if left == 0:
                raise TimeIsUpError
        return trace

    before = sys.gettrace()
    try:
        sys.settrace(trace)
        yield lambda: left > 0
    finally:
        sys.settrace(before)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # it may come in a generator's last word
@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_a_time_out_between_any_two_instructions_loses_no_element(shape: str) -> None:
    options: dict[str, Any] = {"each": True} if shape == "pages" else {}
    for at in count(1, 7 if shape == "pages" else 3):
        store, done = MemoryStore(), list[int]()
        with interrupted(at) as was_not, suppress(TimeIsUpError):
            for number in checkpoint(SHAPES[shape](6, None), name="l", interval=LONG, store=store, **options):
                done.append(number)
        finished = len(done)
        done.extend(checkpoint(SHAPES[shape](6, None), name="l", store=store, **options))
        assert sorted(set(done)) == list(range(6)), at
        assert len(done) <= 6 + max(finished, 1), at
        if was_not():
            assert done == list(range(6))
            break


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_after_a_time_out_what_is_saved_of_an_element_belongs_together() -> None:
    """A signal is handled when a function is entered, and not between any two instructions."""
    for at in count(1):
        store = MemoryStore()
        with interrupted(at, by="call") as was_not, suppress(TimeIsUpError):
            run_with_a_sum(store)
        record: Any = store.get(KEY)
        if record is not None:
            assert record["n"] == (record.get("pos") or 0), at
            assert record["skipped"] == (record["n"] > 1), at
            assert record["state"].get("done", 0) == record["n"] - record["skipped"], at
        if was_not():
            assert record["n"] == 4
            break


def run_with_a_sum(store: MemoryStore) -> None:
    loop = checkpoint(range(4), name="l", interval=LONG, skip=Skip(on=(ValueError,)), store=store)
    for _ in loop:
        if loop.count != 1:
            loop.state["done"] = loop.state.get("done", 0) + 1
            continue
        with loop.skipping():
            raise ValueError


# --- what calls a loop back ---------------------------------------------------------------------------------------


def test_a_write_is_made_when_it_is_due_and_not_before() -> None:
    clock, store = FakeClock(), RecordingStore()
    loop = checkpoint(range(100), name="l", interval=timedelta(seconds=10.5), store=store)
    for _ in on_clock(loop, clock.monotonic):
        clock.sleep(1)
    # An element takes a second; each write has what was acked until then.
    assert [record["n"] for record in store.records] == [0, *range(11, 100, 11), 100]


def test_a_real_clock_calls_as_well() -> None:
    store = RecordingStore()
    for _ in checkpoint(range(10**8), name="l", interval=timedelta(milliseconds=20), store=store):
        if len(store.records) > 3:
            break
    positions = [record["pos"] for record in store.records[1:4]]
    assert positions == sorted(set(positions))


def test_a_line_of_progress_is_written_in_a_loop_that_writes_only_at_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    clock = FakeClock()
    for _ in on_clock(checkpoint(range(80), name="l", durability="exit", store=MemoryStore()), clock.monotonic):
        clock.sleep(1)
    lines = [message for message in caplog.messages if "elements/s" in message]
    assert len(lines) == 3
    assert lines[0].startswith("Loop 'l': 30 of 80 elements (38%), 1 elements/s")


class Replaced(MemoryStore):
    """Refuses every write but the claim, and not before it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.channel = self
        self.held: list[tuple[Callable[[], Any], Reply[Any]]] = []

    def set(self, key: str, value: Any, **options: Any) -> None:
        if value["n"]:
            raise SupersededError("replaced")
        super().set(key, value, **options)

    def submit(self, call: Callable[[], Any], /) -> Reply[Any]:
        reply: Reply[Any] = Reply()
        self.held.append((call, reply))
        return reply

    def answer(self) -> None:
        for call, reply in self.held:
            reply.settle(call)


def test_a_write_that_is_refused_in_the_background_ends_the_loop_at_the_next_element() -> None:
    clock, store, seen = FakeClock(), Replaced(), list[int]()

    def go() -> None:
        for number in on_clock(checkpoint(range(100), name="l", store=store), clock.monotonic):
            seen.append(number)
            if number == 10:
                clock.sleep(2)
            elif number == 20:
                store.answer()

    with pytest.raises(SupersededError):
        go()
    assert seen == list(range(21))


def test_when_the_source_fails_all_that_it_gave_is_done() -> None:
    store, seen = MemoryStore(), list[int]()
    with pytest.raises(OSError, match="5"):
        seen.extend(checkpoint(failing(range(9), 5), name="l", store=store))
    assert list(checkpoint(failing(range(9), None), name="l", store=store)) == [5, 6, 7, 8]


def test_a_task_that_is_told_to_stop_does_so_at_the_next_element() -> None:
    attempt, seen = task_context(), list[int]()

    def go() -> None:
        for number in checkpoint(range(100), name="l", context=attempt.context):
            seen.append(number)
            if number == 50:
                attempt.context["ti"].task.on_kill()

    with pytest.raises(AirflowRescheduleException):
        go()
    assert seen == list(range(51))
    record: Any = attempt.task_store.values["resume.loop.l"]
    assert record["pos"] == 51


def test_what_a_map_did_ahead_is_not_delivered_again() -> None:
    store, done = MemoryStore(), list[int]()

    def work(number: int) -> None:
        if number == 0:
            while len(done) < 5:
                time.sleep(0.001)
            raise OSError(number)
        done.append(number)

    with pytest.raises(OSError, match="0"):
        list(checkpoint(range(30), name="l", store=store).map(work, workers=4))
    assert list(checkpoint(range(30), name="l", store=store)) == [number for number in range(30) if number not in done]


def test_another_thread_may_watch_the_count() -> None:
    seen, over = list[int](), threading.Event()
    loop = checkpoint(range(200_000), name="l", interval=timedelta(milliseconds=20), store=MemoryStore())

    def watch() -> None:
        while not over.is_set():
            if loop._run.is_open:
                seen.append(loop.count)

    with ThreadPoolExecutor() as pool:
        watching = pool.submit(watch)
        for number in loop:
            if number % 50_000 == 0:
                wait_for = len(seen) + 10
                while len(seen) < wait_for and not watching.done():
                    time.sleep(0)
        over.set()
        watching.result()
    assert seen == sorted(seen)
    assert loop.done


def test_nothing_is_left_running() -> None:
    loop = checkpoint(range(100), name="l", store=MemoryStore())
    assert len(list(loop)) == 100
    alarm = loop._run.loop.session.alarm
    assert alarm._timer is None
    assert alarm._flags == []


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), TimeIsUpError()])
def test_a_timer_that_cannot_be_started_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    store, start = RecordingStore(), threading.Timer.start

    def fails_once(timer: threading.Timer) -> None:
        monkeypatch.setattr(threading.Timer, "start", start)
        raise error

    monkeypatch.setattr(threading.Timer, "start", fails_once)
    outer = checkpoint(range(2), name="l", interval=timedelta(milliseconds=20), store=store)
    for _ in outer:
        inner = checkpoint(range(10**8), name="inner", within=outer)
        with suppress(TimeIsUpError):
            for _ in inner:
                if len(store.records) > 3:
                    break
        assert not inner.done
    assert len(store.records) > 3


# --- loops that are left in another way -----------------------------------------------------------------------------


class Closing:
    """Says when it was closed."""

    def __init__(self) -> None:
        self.closed = False

    def __iter__(self) -> Iterator[int]:
        try:
            yield from range(100)
        finally:
            self.closed = True


@pytest.mark.parametrize("managed", [False, True])
def test_the_source_is_closed_with_the_loop_and_not_when_garbage_is_collected(*, managed: bool) -> None:
    source, store = Closing(), MemoryStore()
    loop = checkpoint(source, name="l", store=store)
    gc.disable()
    try:
        with loop if managed else nullcontext():
            for number in loop:
                if number == 50:
                    break
            assert source.closed
    finally:
        gc.enable()
    assert list(checkpoint(Closing(), name="l", store=store))[0] == 50  # noqa: RUF015


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_what_an_inner_loop_has_done_is_saved_though_its_iterator_is_still_there(durability: Any) -> None:
    store = MemoryStore()
    outer = checkpoint(["a"], name="l", durability=durability, store=store)
    with pytest.raises(RuntimeError):
        for _ in outer:
            held = iter(checkpoint(range(1000), name="inner", within=outer))
            for number in held:
                if number == 500:
                    raise RuntimeError(number)
    record: Any = store.get(KEY)
    assert record["inner"]["inner"]["n"] == 500


def test_an_inner_iterator_may_be_closed_when_the_outer_loop_has_gone_on() -> None:
    outer, held = checkpoint(range(3), name="l", store=MemoryStore()), list[Any]()
    for _ in outer:
        held.append(iter(checkpoint(range(9), name="inner", within=outer)))
        next(held[-1])
        for iterator in held[:-1]:
            iterator.close()
    assert outer.done


def test_a_loop_that_was_told_of_an_expired_token_starts_over_with_nothing_done() -> None:
    class Expiring(Batches[int]):
        on_expired = "restart"

    store = MemoryStore()
    loop = checkpoint(Expiring(range(100)), name="l", store=store)
    elements: Any = iter(loop)
    for _ in range(10):
        next(elements)
    assert elements.throw(TokenExpiredError("told")) == 0
    assert loop.count == 0
    elements.close()
    record: Any = store.get(KEY)
    assert (record.get("pos"), record["n"]) == (None, 0)


def test_a_source_with_elements_of_its_own_is_asked_for_these() -> None:
    class Even(Batches[int]):
        def elements(self, position: Any) -> Iterator[tuple[int, Any]]:
            return ((number, after) for number, after in super().elements(position) if number % 2 == 0)

    class Odd(Even):
        def chunks(self, position: Any) -> Iterator[Chunk[int]] | None:
            return iter([Chunk(iter([1, 3, 5]), lambda done: (position or 0) + done)])

    assert list(checkpoint(Even(range(6)), name="even", store=MemoryStore())) == [0, 2, 4]
    assert list(checkpoint(Odd(range(6)), name="odd", store=MemoryStore())) == [1, 3, 5]
