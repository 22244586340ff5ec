"""Acks by hand, elements passed over, attempts that stall, and what a person sees."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_resume import checkpoint, last_message
from airflow_resume.errors import (
    IncompleteLoopError,
    LoopError,
    SourceChangedError,
    StalledError,
    StoreUnavailableError,
)
from airflow_resume.loops import Checkpoint, CursorToken, Page, Skip
from airflow_resume.store import MemoryStore
from airflow_resume.testing import FakeTaskStore, task_context
from tests.support.loops.worlds import on_clock

KEY = "resume.loop.l"


def record(store: Any) -> dict[str, Any]:
    found: Any = store.values[KEY]
    return found  # type: ignore[no-any-return]


def loop_over(store: Any, source: Any = range(6), **options: Any) -> Checkpoint[Any]:
    return checkpoint(source, name="l", store=store, **options)


# --- acks by hand ---------------------------------------------------------------------------------------------


def test_only_what_was_acked_by_hand_counts() -> None:
    store = MemoryStore()
    loop = loop_over(store, ack="manual", durability="sync")
    for number in loop:
        if number in {1, 3}:
            loop.ack()
            assert record(store)["pos"] == number + 1
        if number == 4:
            break
    assert record(store)["pos"] == 4
    assert list(loop_over(store)) == [4, 5]


def test_the_rest_may_be_acked_behind_the_loop() -> None:
    store, batches, batch = MemoryStore(), [], []
    loop = loop_over(store, range(5), ack="manual")
    for number in loop:
        batch.append(number)
        if len(batch) == 2:
            batches.append(tuple(batch))
            batch.clear()
            loop.ack()
    assert (loop.done, record(store)["done"]) == (False, False)
    loop.ack()
    assert (loop.done, record(store)["done"], record(store)["n"]) == (True, True, 5)
    assert batches == [(0, 1), (2, 3)]


def test_to_ack_once_more_behind_a_loop_that_is_done_writes_nothing() -> None:
    store = FakeTaskStore()
    loop = checkpoint(range(4), name="l", ack="manual", context={"task_state_store": store})
    for _ in loop:
        loop.ack()
    calls = len(store.log)
    loop.ack()
    assert (loop.done, len(store.log)) == (True, calls)


@pytest.mark.parametrize("acked", [True, False])
def test_a_with_statement_misses_acks_that_never_came(acked: bool) -> None:  # noqa: FBT001
    store = MemoryStore()
    with (
        pytest.raises(IncompleteLoopError, match="3 elements were not acked") if not acked else nullcontext(),
        loop_over(store, range(3), ack="manual") as loop,
    ):
        list(loop)
        if acked:
            loop.ack()
    assert record(store)["done"] is acked


def test_on_an_event_loop_acks_are_saved_at_the_next_element() -> None:
    store, saved = MemoryStore(), []

    async def run() -> None:
        async with loop_over(store, range(3), ack="manual", durability="sync") as loop:
            async for _ in loop:
                saved.append(record(store)["n"])
                loop.ack()
        assert loop.done

    asyncio.run(run())
    assert saved == [0, 1, 2]
    assert record(store)["done"]


def test_acks_that_mean_nothing_are_named() -> None:
    with loop_over(MemoryStore()) as loop, pytest.raises(LoopError, match="acks every element by itself"):
        loop.ack()
    with pytest.raises(ValueError, match="ack='manual' means nothing with delivery='at_most_once'"):
        loop_over(MemoryStore(), ack="manual", delivery="at_most_once")
    with pytest.raises(LoopError, match="in no `async with`\\.\nUse `async with"):
        loop_over(MemoryStore(), ack="manual").__aiter__()
    with pytest.raises(ValueError, match="ack='never' is not a choice"):
        loop_over(MemoryStore(), ack="never")


# --- at most once ---------------------------------------------------------------------------------------------


def test_at_most_once_the_element_in_hand_is_not_delivered_again() -> None:
    store = MemoryStore()
    with pytest.raises(KeyError):
        for number in loop_over(store, delivery="at_most_once"):
            assert record(store)["pos"] == number + 1
            if number == 2:
                raise KeyError
    assert list(loop_over(store, delivery="at_most_once")) == [3, 4, 5]


# --- elements passed over -------------------------------------------------------------------------------------


def test_an_element_is_passed_over_and_what_it_did_to_the_state_undone(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    with loop_over(store, skip=Skip(on=(ValueError,))) as loop:
        for number in loop:
            with loop.skipping():
                loop.state["sum"] = loop.state.get("sum", 0) + number
                if number in {2, 3}:
                    raise ValueError(f"row {number} is bad")
    assert (loop.state, loop.skipped, loop.count) == ({"sum": 0 + 1 + 4 + 5}, 2, 6)
    assert record(store)["skips"] == [
        {"pos": 2, "error": "ValueError: row 2 is bad"},
        {"pos": 3, "error": "ValueError: row 3 is bad"},
    ]
    assert "skipped element 2: row 2 is bad" in caplog.text


def test_other_errors_and_those_past_the_limit_are_raised() -> None:
    store = MemoryStore()

    def run(error: type[Exception]) -> None:
        with loop_over(store, skip=Skip(on=(ValueError,), limit=2)) as loop:
            for _ in loop:
                with loop.skipping():
                    raise error

    with pytest.raises(KeyError):
        run(KeyError)
    with pytest.raises(ValueError):  # noqa: PT011
        run(ValueError)
    assert (record(store)["pos"], record(store)["skipped"]) == (2, 2)
    with pytest.raises(ValueError):  # noqa: PT011  the limit holds for all attempts together
        run(ValueError)
    assert record(store)["pos"] == 2


def test_the_newest_fifty_skips_are_kept_in_few_words() -> None:
    store = MemoryStore()
    with loop_over(store, range(80), skip=Skip(on=(ValueError,), limit=100)) as loop:
        for _ in loop:
            with loop.skipping():
                raise ValueError("x" * 1000)
    skips = record(store)["skips"]
    assert (record(store)["skipped"], len(skips), skips[-1]["pos"]) == (80, 50, 79)
    assert max(len(skip["error"]) for skip in skips) == 160


def test_a_secret_is_masked_before_it_is_shown_to_all() -> None:
    from airflow.sdk.log import mask_secret

    mask_secret("hunter2-and-more")
    store = MemoryStore()
    with loop_over(store, [1], skip=Skip(on=(ValueError,))) as loop:
        for _ in loop:
            with loop.skipping():
                raise ValueError("login with hunter2-and-more failed")
    assert record(store)["skips"][0]["error"] == "ValueError: login with *** failed"


def test_skips_that_mean_nothing_are_named() -> None:
    with (
        loop_over(MemoryStore()) as loop,
        pytest.raises(LoopError, match=r"skips nothing\.\nGive it skip=Skip\(on="),
        loop.skipping(),
    ):
        pass
    with pytest.raises(TypeError, match="must be exception classes"):
        Skip(on=("ValueError",))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="skips nothing"):
        Skip()
    with pytest.raises(ValueError, match="limit=0"):
        Skip(on=(ValueError,), limit=0)
    for options in ({"ack": "manual"}, {"delivery": "at_most_once"}):
        with pytest.raises(ValueError, match=r"skip=Skip"):
            loop_over(MemoryStore(), skip=Skip(on=(ValueError,)), **options)
    assert Skip(on=ValueError) == Skip(on=(ValueError,))  # type: ignore[arg-type]


# --- attempts that die without a word -------------------------------------------------------------------------


class MortalStore(MemoryStore):
    """Of a process that may be killed: then nothing is written any more."""

    killed = False

    def set(self, key: str, value: Any) -> None:
        if not self.killed:
            super().set(key, value)


def killed_at(number: int, store: MortalStore, **options: Any) -> list[int]:
    """What an attempt delivers whose process is killed in the body of the element."""
    seen, store.killed = list[int](), False
    for element in loop_over(store, durability="sync", **options):
        seen.append(element)
        if element == number:
            store.killed = True
            break
    return seen


def test_an_element_that_kills_every_attempt_is_found_and_not_tried_for_ever() -> None:
    store = MortalStore()
    assert [killed_at(2, store) for _ in range(4)] == [[0, 1, 2], [2], [2], [2]]
    assert record(store)["at"]["stalls"] == 2  # the next opening sees one more
    before = dict(store.values)
    with pytest.raises(StalledError, match=r"'l' stands at 2, and the last 3 attempts died there"):
        killed_at(2, store)
    assert store.values == before
    assert killed_at(9, store, max_stalls=None) == [2, 3, 4, 5]


def test_an_element_that_kills_may_be_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    store, skip = MortalStore(), Skip(stalled=True)
    for _ in range(3):
        killed_at(2, store, skip=skip, max_stalls=2)
    assert killed_at(9, store, skip=skip, max_stalls=2) == [3, 4, 5]
    assert record(store)["skips"] == [{"pos": 2, "error": "2 attempts died at this element"}]
    assert "resumed after an element at which attempts died" in caplog.text or "skipped element 2" in caplog.text


def test_an_attempt_that_lives_to_raise_is_no_stall() -> None:
    store = MemoryStore()
    for _ in range(6):
        with pytest.raises(ConnectionError):
            for _number in loop_over(store):
                raise ConnectionError("the API is away for an hour")
    assert list(loop_over(store)) == [0, 1, 2, 3, 4, 5]


def test_a_clear_is_a_wish_to_try_again() -> None:
    attempt = task_context()
    for _ in range(3):
        iterator = iter(checkpoint(range(3), name="l", context=attempt.context))
        next(iterator)
        attempt.task_store.replaced = True  # what is left of it cannot write
        del iterator
        attempt = attempt.retry()
    with pytest.raises(StalledError):
        list(checkpoint(range(3), name="l", context=attempt.context))
    cleared = attempt.clear()
    assert list(checkpoint(range(3), name="l", on_clear="resume", context=cleared.context)) == [0, 1, 2]


# --- what a person sees ---------------------------------------------------------------------------------------


def pages_of(*lengths: int) -> CursorToken[int]:
    """Pages of so many items; each says how many pages there are."""

    def fetch(token: int | None) -> Page[int]:
        number = token or 0
        following = number + 1 if number + 1 < len(lengths) else None
        return Page([0] * lengths[number], following, pages=len(lengths))

    return CursorToken(fetch)


def test_the_first_line_says_where_the_loop_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    for _ in zip(range(3), loop_over(store, pages_of(1000, 1000, 1000, 1000)), strict=False):
        pass
    with caplog.at_level(logging.INFO):
        next(iter(loop_over(store, pages_of(1000, 1000, 1000, 1000))))
    assert "Loop 'l': resumed at page 3 of 4, try 1, 2,000 rows, 0 skipped" in caplog.text


def test_every_thirty_seconds_a_line_says_how_far_how_fast_and_until_when(caplog: pytest.LogCaptureFixture) -> None:
    seconds = [0.0]
    loop = on_clock(loop_over(MemoryStore(), pages_of(*[10] * 50)), lambda: seconds[0])
    with caplog.at_level(logging.INFO):
        for _ in loop:
            seconds[0] += 2
    lines = [line.getMessage() for line in caplog.records if "pages/s" in line.getMessage()]
    assert lines == [
        "Loop 'l': 15 of 50 pages (30%), 0.5 pages/s, about 0:01:10 left, 150 rows, 0 skipped",
        "Loop 'l': 30 of 50 pages (60%), 0.5 pages/s, about 0:00:40 left, 300 rows, 0 skipped",
        "Loop 'l': 45 of 50 pages (90%), 0.5 pages/s, about 0:00:10 left, 450 rows, 0 skipped",
        "Loop 'l': done, 50 of 50 pages (100%), 0.5 pages/s, about 0:00:00 left, 500 rows, 0 skipped",
    ]


def test_the_record_shows_count_total_rate_and_when_it_will_be_done() -> None:
    store, seconds = MemoryStore(), [0.0]
    loop = on_clock(loop_over(store, pages_of(*[10] * 50), durability="sync"), lambda: seconds[0])
    for _ in zip(range(21), loop, strict=False):
        seconds[0] += 2
    kept = record(store)
    assert (kept["n"], kept["total"], kept["rate"]) == (20, 50, 0.5)
    assert len(str(kept)) <= 500
    eta = kept["eta"]
    assert eta > kept["ts"]


def test_a_loop_costs_two_calls_to_open_one_to_finish_and_at_most_one_a_second() -> None:
    for count in (1, 100, 3000):
        store, seconds = FakeTaskStore(), [0.0]
        loop = checkpoint(range(count), name="l", context={"task_state_store": store})
        for _ in on_clock(loop, lambda seconds=seconds: seconds[0]):  # type: ignore[misc]
            seconds[0] += 1 / 128
        calls = Counter(operation.name for operation in store.log)
        assert calls == {"get": 1, "set": 1 + count // 128 + 1}


def test_an_empty_source_is_done_or_an_error_that_a_retry_asks_again() -> None:
    store = MemoryStore()
    with pytest.raises(IncompleteLoopError, match="leave on_empty='fail' out"):
        list(loop_over(store, [], on_empty="fail"))
    with pytest.raises(IncompleteLoopError, match="had no page at all"):
        list(loop_over(MemoryStore(), CursorToken[int](lambda _token: Page([])), on_empty="fail"))
    assert record(store)["done"] is False
    assert list(loop_over(store, [1], on_empty="fail")) == [1]
    assert list(loop_over(store, [1], on_empty="fail")) == []
    assert list(loop_over(MemoryStore(), [])) == []


def test_a_large_state_is_warned_of_once_and_a_larger_one_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    with loop_over(MemoryStore()) as loop:
        for _ in loop:
            loop.state["seen"] = "x" * 20_000
    warnings = [line.getMessage() for line in caplog.records if "bytes" in line.getMessage()]
    assert len(warnings) == 1
    assert (
        "'resume.loop.l' has 20012 bytes. Its biggest part is $.seen with 20,002 bytes.\nKeep that part elsewhere"
        in warnings[0]
    )


# --- on an event loop -----------------------------------------------------------------------------------------


def test_async_for_goes_on_where_it_was_left_and_awaits_the_fetch() -> None:
    store = MemoryStore()

    async def fetch(token: int | None) -> Page[int]:
        await asyncio.sleep(0)
        number = token or 0
        return Page([number], number + 1 if number < 4 else None)

    async def run(stop: int | None) -> list[int]:
        seen = []
        async for page in loop_over(store, CursorToken(fetch)):
            seen.append(page.items[0])
            if page.items[0] == stop:
                break
        return seen

    assert asyncio.run(run(2)) == [0, 1, 2]
    assert record(store)["pos"]["token"] == 2  # saved although nobody closed the loop
    assert asyncio.run(run(None)) == [2, 3, 4]


def test_an_asynchronous_source_and_a_plain_one() -> None:
    async def numbers() -> AsyncIterator[int]:
        for number in range(4):
            yield number

    async def run(source: Any) -> list[int]:
        async with loop_over(MemoryStore(), source, durability="sync") as loop:
            return [number async for number in loop]

    assert asyncio.run(run(numbers())) == [0, 1, 2, 3]
    assert asyncio.run(run(range(4))) == [0, 1, 2, 3]


def test_an_error_of_the_body_is_raised_as_it_is_on_an_event_loop_too() -> None:
    store = MemoryStore()

    async def run() -> None:
        async with loop_over(store) as loop:
            async for number in loop:
                if number == 3:
                    raise KeyError(number)

    with pytest.raises(KeyError):
        asyncio.run(run())
    assert record(store)["pos"] == 3


# --- a store that is away -------------------------------------------------------------------------------------


def test_trouble_with_the_store_is_raised_and_the_position_kept() -> None:
    class Away(MemoryStore):
        away = False

        def set(self, key: str, value: Any) -> None:
            if self.away:
                raise StoreUnavailableError
            super().set(key, value)

    store = Away()
    with pytest.raises(StoreUnavailableError):
        for number in loop_over(store, durability="sync"):
            store.away = number == 3
    store.away = False
    assert list(loop_over(store)) == [3, 4, 5]


def test_a_context_without_a_task_object_is_fine() -> None:
    context = {"task_state_store": FakeTaskStore(), "ti": None}
    assert list(checkpoint(range(2), name="l", context=context)) == [0, 1]


def test_at_most_once_a_page_whose_rows_changed_is_an_error_and_none_of_them_comes_twice() -> None:
    store, rows = MemoryStore(), [1, 2, 3, 4]

    def loop() -> Any:
        source = CursorToken(lambda _token: Page(list(rows)))
        return checkpoint(source, name="l", store=store, each=True, delivery="at_most_once")

    for row in loop():
        if row == 2:
            break
    rows[0] = 9
    for _ in range(2):
        with pytest.raises(SourceChangedError, match="at_most_once"):
            next(iter(loop()))


# --- ends that come from outside ------------------------------------------------------------------------------


class SlowStore(FakeTaskStore):
    """Whose first read waits."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.may_answer = threading.Event(), threading.Event()

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.set()
        assert self.may_answer.wait(20)
        return super().get(key, default)


def test_an_async_with_that_is_cancelled_while_it_opens_lets_the_name_go() -> None:
    store = SlowStore()
    context = {"task_state_store": store}
    first = loop_over(None, context=context)

    async def enter() -> None:
        async with first:
            raise AssertionError

    async def run() -> None:
        entering = asyncio.ensure_future(enter())
        await asyncio.to_thread(store.asked.wait)
        entering.cancel()
        await asyncio.sleep(0)
        store.may_answer.set()
        with pytest.raises(asyncio.CancelledError):
            await entering
        while not first._run.is_open:  # noqa: ASYNC110  its thread goes on
            await asyncio.sleep(0.001)
        assert first._run.loop.is_closed
        assert [number async for number in loop_over(None, context=context)] == list(range(6))

    asyncio.run(run())


class Interrupt(BaseException):
    """Such as a time-out."""


def test_an_interrupt_while_the_loop_is_closed_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    loop = loop_over(store, durability="exit")

    def interrupted() -> None:
        monkeypatch.undo()
        raise Interrupt

    with pytest.raises(Interrupt), loop:
        elements = iter(loop)
        assert [next(elements) for _ in range(3)] == [0, 1, 2]
        monkeypatch.setattr(loop._run.loop.session, "count_stretch", interrupted)
    assert record(store)["pos"] == 2


def test_an_interrupt_after_the_claim_is_no_death_of_the_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()

    def interrupted(*_: Any) -> None:
        raise Interrupt

    with monkeypatch.context() as patch:
        patch.setattr("airflow_resume.loops.meter.Meter.opened", interrupted)
        with pytest.raises(Interrupt):
            next(iter(loop_over(store)))
    assert list(loop_over(store, durability="exit"))[:1] == [0]  # the channel is in order: the note was written before
    assert record(store)["at"].get("stalls", 0) == 0


def test_an_iterator_that_outlives_its_with_statement_says_that_nothing_is_saved() -> None:
    store = MemoryStore()
    with loop_over(store) as loop:
        elements, taken = iter(loop), []
        taken += [next(elements), next(elements), next(elements)]
    for _ in range(2):
        with pytest.raises(LoopError, match="left by the end of its `with` statement"):
            next(elements)
    assert (taken, record(store)["pos"]) == ([0, 1, 2], 2)
    with loop_over(store) as loop:
        elements = iter(loop)
    with pytest.raises(LoopError, match="left by the end of its `with` statement"):
        next(elements)
    with loop_over(store) as loop:
        results = loop.map(str, workers=1)
        assert next(results) == "2"
    with pytest.raises(LoopError, match="left by the end of its `with` statement"):
        next(results)
    with loop_over(store) as loop:
        elements = iter(loop)
        assert list(elements) == [2, 3, 4, 5]
    assert next(elements, None) is None  # it was done


@pytest.mark.parametrize("acked", [True, False])
def test_a_plain_for_that_ends_with_elements_not_acked_is_told_at_the_end_of_the_task(
    acked: bool,  # noqa: FBT001
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = FakeTaskStore()
    context = {"task_state_store": store}
    loop = loop_over(None, range(3), ack="manual", context=context)
    assert list(loop) == [0, 1, 2]
    if acked:
        loop.ack()
    last_message._end(lambda opened: opened.key == KEY)
    assert ("3 elements were not acked" in caplog.text) is not acked


def test_what_is_registered_while_the_last_one_is_removed_is_told_of_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    class Comms:
        def send(self, msg: object) -> None:
            """Sends nothing."""

    comms, ended, threads = Comms(), [], []
    monkeypatch.setattr(last_message, "_open", [])
    monkeypatch.setattr(last_message, "_listening", [])
    runner = SimpleNamespace(SUPERVISOR_COMMS=comms)
    monkeypatch.setitem(sys.modules, "airflow.sdk.execution_time.task_runner", runner)  # type: ignore[arg-type]
    listen_no_more = last_message._listen_no_more

    def register(key: str) -> last_message.EndAction:
        return last_message.before_last_message(
            lambda _: ended.append(key), owner=None, key=key, is_abandoned=lambda: False
        )

    def meanwhile() -> None:
        monkeypatch.setattr(last_message, "_listen_no_more", listen_no_more)
        threads.append(threading.Thread(target=register, args=["b"]))
        threads[0].start()
        threads[0].join(0.2)  # it has to wait
        listen_no_more()

    first = register("a")
    monkeypatch.setattr(last_message, "_listen_no_more", meanwhile)
    first.remove()
    threads[0].join(5)
    comms.send(type("RetryTask", (), {})())
    assert ended == ["b"]
