"""However a loop is consumed and left, what was acked is saved, and an attempt that lived to say so did not die."""

from __future__ import annotations

import asyncio
import gc
import itertools
import multiprocessing.pool
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_resume import checkpoint
from airflow_resume.backends import SqlStateStore, SqlStoreBackend
from airflow_resume.channel import ThreadChannel
from airflow_resume.errors import LoopError, StalledError, UsageError
from airflow_resume.loops import Checkpoint
from airflow_resume.store import MemoryStore
from airflow_resume.testing import TaskAttempt, task_context
from airflow_resume.testing.points import CrashedError

pytestmark = [
    # What an event loop that is left without finalising its generators does to them, from Python 3.12 on.
    pytest.mark.filterwarnings("ignore:coroutine method 'aclose' of:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*async_generator object:pytest.PytestUnraisableExceptionWarning"),
]

KEY = "resume.loop.l"
COUNT, LAST = 20, 7
"""How many elements there are, and in which the body is left."""


def loop_of(source: Any = range(COUNT), **options: Any) -> Checkpoint[Any]:
    return checkpoint(source, name="l", interval=timedelta(days=1), **options)


def record(attempt: TaskAttempt) -> dict[str, Any]:
    found: Any = attempt.task_store.values[KEY]
    return found  # type: ignore[no-any-return]


def saved(store: MemoryStore) -> dict[str, Any]:
    found: Any = store.values[KEY]
    return found  # type: ignore[no-any-return]


def event_loop_of_airflow(main: Coroutine[Any, Any, Any]) -> Any:
    """Airflow leaves the event loop of a task without finalising asynchronous generators."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()


class Progress:
    """As a progress bar does it."""

    def __init__(self, elements: Iterable[Any]) -> None:
        self._elements = elements

    def __iter__(self) -> Iterator[Any]:
        yield from self._elements


def by_hand(iterator: Iterator[Any]) -> Iterator[Any]:
    while True:
        try:
            element = next(iterator)
        except StopIteration:
            return
        yield element


Leave = Callable[[int], object]
Form = Callable[[Leave], object]
Held = list[Any]


def going_through(elements: Iterable[Any], leave: Leave) -> Any:
    for element in elements:
        if (left := leave(element)) is not None:
            return left
    return None


async def agoing_through(elements: AsyncIterator[Any], leave: Leave) -> Any:
    async for element in elements:
        await asyncio.sleep(0)
        if (left := leave(element)) is not None:
            return left
    return None


HELD: Held = []
"""By something else than the body: a traceback, a notebook, a progress bar."""


def held(thing: Any) -> Any:
    HELD.append(thing)
    return thing


@pytest.fixture(autouse=True)
def _let_go() -> Iterator[None]:
    yield
    HELD.clear()
    gc.collect()


def in_with(leave: Leave) -> Any:
    with loop_of() as loop:
        return going_through(loop, leave)


SYNC: dict[str, Form] = {
    "for": lambda leave: going_through(loop_of(), leave),
    "with": in_with,
    "iter held": lambda leave: going_through(held(iter(loop_of())), leave),
    "generator expression": lambda leave: going_through((element for element in loop_of()), leave),
    "generator expression held": lambda leave: going_through(held(element for element in loop_of()), leave),
    "zip": lambda leave: going_through((one for one, _ in held(zip(loop_of(), itertools.count()))), leave),
    "enumerate": lambda leave: going_through((one for _, one in held(enumerate(loop_of()))), leave),
    "islice": lambda leave: going_through(held(itertools.islice(loop_of(), None)), leave),
    "takewhile": lambda leave: going_through(held(itertools.takewhile(lambda _: True, loop_of())), leave),
    "chain": lambda leave: going_through(held(itertools.chain(loop_of(), ())), leave),
    "map of Python": lambda leave: going_through(held(map(int, loop_of())), leave),
    "progress bar": lambda leave: going_through(held(Progress(held(loop_of()))), leave),
    "progress bar held": lambda leave: going_through(held(iter(Progress(loop_of()))), leave),
    "next": lambda leave: going_through(by_hand(held(iter(loop_of()))), leave),
    "map": lambda leave: going_through(loop_of().map(int, workers=3, ordered=True), leave),
    "map held": lambda leave: going_through(held(loop_of().map(int, workers=3, ordered=True)), leave),
}


async def anint(element: int) -> int:
    await asyncio.sleep(0)
    return element


async def in_async_with(leave: Leave) -> Any:
    async with loop_of() as loop:
        return await agoing_through(loop.__aiter__(), leave)


async def amap_in_async_with(leave: Leave) -> Any:
    async with loop_of() as loop:
        return await agoing_through(loop.amap(anint, workers=3, ordered=True), leave)


async def plain_async_for(leave: Leave) -> Any:
    async for element in loop_of():
        if (left := leave(element)) is not None:
            return left
    return None


async def comprehension(leave: Leave) -> Any:
    return [element async for element in loop_of() if leave(element) != "left"]


async def with_aclosing(leave: Leave) -> Any:
    async with aclosing(loop_of().__aiter__()) as elements:  # type: ignore[type-var]
        return await agoing_through(elements, leave)


ASYNC: dict[str, Callable[[Leave], Coroutine[Any, Any, Any]]] = {
    "async for": plain_async_for,
    "async with": in_async_with,
    "aiter held": lambda leave: agoing_through(held(loop_of().__aiter__()), leave),
    "async comprehension": comprehension,
    "aclosing": with_aclosing,
    "amap": lambda leave: agoing_through(loop_of().amap(anint, workers=3, ordered=True), leave),
    "amap held": lambda leave: agoing_through(held(loop_of().amap(anint, workers=3, ordered=True)), leave),
    "amap in async with": amap_in_async_with,
}
FORMS: dict[str, Form] = SYNC | {
    name: lambda leave, form=form: event_loop_of_airflow(form(leave))  # type: ignore[misc]
    for name, form in ASYNC.items()
}


class BodyError(Exception):
    pass


class TimeIsUpError(BaseException):
    """As `AirflowTaskTimeout`."""


def raising(error: BaseException) -> Leave:
    def leave(element: int) -> None:
        if element == LAST:
            raise error

    return leave


def returning(element: int) -> str | None:
    return "left" if element == LAST else None


LEAVES: dict[str, Callable[[], Leave]] = {
    "error": lambda: raising(BodyError()),
    "time-out": lambda: raising(TimeIsUpError()),
    "cancelled": lambda: raising(asyncio.CancelledError()),
    "return": lambda: returning,
}


def attempted(attempt: TaskAttempt, form: Form, leave: Leave) -> tuple[list[int], BaseException | None]:
    """What the body of one attempt was given. As in Airflow, its error is there until the last message is sent."""
    seen: list[int] = []

    def body(element: int) -> object:
        seen.append(element)
        return leave(element)

    found: BaseException | None = None
    with attempt:
        try:
            form(body)
        except BaseException as error:  # noqa: BLE001  so does Airflow
            found = error
    return seen, found


@pytest.mark.parametrize("how", LEAVES)
@pytest.mark.parametrize("name", FORMS)
def test_what_was_acked_is_saved_and_the_attempt_did_not_die(name: str, how: str) -> None:
    attempt, form = task_context(), FORMS[name]
    seen, _error = attempted(attempt, form, LEAVES[how]())
    if (name, how) == ("async comprehension", "return"):
        assert seen == list(range(COUNT))
        return
    assert seen == list(range(LAST + 1))
    assert (record(attempt)["n"], record(attempt)["done"]) == (LAST, False)
    again, error = attempted(attempt.retry(), form, lambda _: None)
    assert error is None
    assert again == list(range(LAST, COUNT))
    assert (record(attempt)["n"], record(attempt)["done"], record(attempt)["at"]["stalls"]) == (COUNT, True, 0)


@pytest.mark.parametrize("name", FORMS)
def test_errors_at_the_first_element_are_no_stalls_however_many_there_are(name: str) -> None:
    attempt = task_context(retries=9)
    for _ in range(5):
        _seen, error = attempted(attempt, FORMS[name], raising_always)
        assert isinstance(error, BodyError), error
        assert not isinstance(error, StalledError)
        attempt = attempt.retry()
    assert record(attempt)["at"]["stalls"] == 0
    assert attempted(attempt, FORMS[name], lambda _: None) == (list(range(COUNT)), None)


def raising_a_new_one(element: int) -> None:
    """An error that nobody keeps, and so no iterator that its traceback refers to."""
    if element == LAST:
        raise BodyError


def raising_always(_element: int) -> None:
    raise BodyError


@pytest.mark.parametrize("name", FORMS)
def test_a_process_that_is_killed_saves_nothing_more(name: str) -> None:
    attempt = task_context()
    with suppress(CrashedError), attempt:
        FORMS[name](raising(CrashedError()))
    HELD.clear()
    assert record(attempt)["n"] in {0, LAST}, "a with statement or a for of its own still ends as the block is left"


def test_pairs_are_delivered_again_with_the_one_in_hand() -> None:
    attempt = task_context()
    seen: list[tuple[int, int]] = []
    with pytest.raises(BodyError), attempt:
        for pair in held(itertools.pairwise(loop_of())):
            if pair[1] == LAST:
                raise BodyError
            seen.append(pair)
    assert record(attempt)["n"] == LAST


@pytest.mark.parametrize("how", ["error", "return"])
@pytest.mark.parametrize("form", [going_through, lambda loop, leave: going_through(loop.map(int, workers=2), leave)])
def test_a_source_that_somebody_holds_is_closed_with_the_loop(form: Any, how: str) -> None:
    closed: list[bool] = []

    def numbers() -> Iterator[int]:
        try:
            yield from range(COUNT)
        finally:
            closed.append(True)

    source = numbers()
    gc.disable()  # at once, and not whenever it is collected
    try:
        with suppress(BodyError):
            form(checkpoint(source, name="l", store=MemoryStore()), raising_a_new_one if how == "error" else returning)
        assert closed == [True]
    finally:
        gc.enable()


# --- who reads ahead ------------------------------------------------------------------------------------------


def executor_map(elements: Iterable[Any]) -> list[Any]:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(int, elements))


def pool_imap(elements: Iterable[Any]) -> list[Any]:
    with multiprocessing.pool.ThreadPool(2) as pool:
        return list(pool.imap(int, elements))


def pool_map(elements: Iterable[Any]) -> list[Any]:
    with multiprocessing.pool.ThreadPool(2) as pool:
        return pool.map(int, elements)


AHEAD: list[Callable[[Iterable[Any]], list[Any]]] = [executor_map, pool_imap, pool_map]


@pytest.mark.parametrize("read", AHEAD)
@pytest.mark.parametrize("wrap", [iter, enumerate, lambda loop: (element for element in loop), Progress])
def test_who_takes_elements_ahead_is_refused_and_told_what_to_write(read: Any, wrap: Any) -> None:
    attempt = task_context()
    with attempt, pytest.raises(LoopError, match=r"(?s)before they are worked on.*loop\.map\(fn.*ack='manual'"):
        read(wrap(loop_of()))
    assert attempt.task_store.values == {}


@pytest.mark.parametrize("read", AHEAD)
def test_with_acks_by_hand_elements_may_be_taken_ahead(read: Any) -> None:
    with task_context() as attempt:
        loop = loop_of(ack="manual")
        assert read(loop) == list(range(COUNT))
        assert record(attempt)["n"] == 0
        loop.ack()
        assert record(attempt)["done"]


def test_a_loop_in_a_worker_of_a_pool_is_nobody_who_reads_ahead() -> None:
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda name: list(checkpoint([1, 2], name=name, store=MemoryStore())), "ab")
        assert list(found) == [[1, 2], [1, 2]]


# --- after an error -------------------------------------------------------------------------------------------


def failing(position: int | None) -> Iterator[tuple[int, int]]:
    for number in range(position or 0, 5):
        if number == 2:
            raise OSError("the source is away")
        yield number, number + 1


def test_after_its_source_raised_a_loop_does_not_look_as_if_it_were_at_its_end() -> None:
    elements = iter(checkpoint(failing, name="l", store=MemoryStore()))
    assert [next(elements), next(elements)] == [0, 1]
    with pytest.raises(OSError, match="is away"):
        next(elements)
    for _ in range(3):
        with pytest.raises(LoopError, match=r"left by OSError.*not done"):
            next(elements)


def test_after_its_source_raised_an_async_loop_does_not_look_as_if_it_were_at_its_end() -> None:
    async def main() -> None:
        elements = checkpoint(failing, name="l", store=MemoryStore()).__aiter__()
        assert [await anext(elements), await anext(elements)] == [0, 1]
        with pytest.raises(OSError, match="is away"):
            await anext(elements)
        for _ in range(3):
            with pytest.raises(LoopError, match=r"left by OSError.*not done"):
                await anext(elements)

    asyncio.run(main())


@pytest.mark.parametrize("ordered", [True, False])
def test_after_its_function_raised_a_map_does_not_look_as_if_it_were_at_its_end(*, ordered: bool) -> None:
    def work(element: int) -> int:
        raise OSError(element)

    results = checkpoint([1], name="l", store=MemoryStore()).map(work, workers=2, ordered=ordered)
    with pytest.raises(OSError, match="1"):
        next(results)
    for _ in range(3):
        with pytest.raises(LoopError, match=r"left by OSError.*not done"):
            next(results)


def test_after_its_end_or_a_close_a_loop_is_at_its_end() -> None:
    elements: Any = iter(checkpoint([1, 2], name="l", store=MemoryStore()))
    assert list(elements) == [1, 2]
    assert list(elements) == []
    closed: Any = iter(checkpoint([1, 2], name="m", store=MemoryStore()))
    next(closed)
    closed.close()
    assert list(closed) == []


def test_a_loop_that_was_ended_with_its_task_gives_nothing_more() -> None:
    with task_context():
        elements = iter(loop_of())
        next(elements)
    with pytest.raises(LoopError, match="left by the end of its task"):
        next(elements)


# --- the state ------------------------------------------------------------------------------------------------


def test_state_that_is_set_between_the_loop_and_the_end_of_with_is_saved() -> None:
    store = MemoryStore()
    for value in (1, 2):  # in the second run everything is done already
        with checkpoint(range(3), name="l", store=store) as loop:
            for _ in loop:
                pass
            loop.state["value"] = value
        assert saved(store)["state"] == {"value": value}


def test_state_that_is_set_after_an_async_loop_is_saved() -> None:
    store = MemoryStore()

    async def main() -> None:
        async with checkpoint(range(3), name="l", store=store) as loop:
            async for _ in loop:
                pass
            loop.state["value"] = 1

    asyncio.run(main())
    assert saved(store)["state"] == {"value": 1}


def test_state_that_is_set_after_a_loop_is_not_saved_when_what_follows_fails() -> None:
    store = MemoryStore()
    with pytest.raises(BodyError), checkpoint(range(3), name="l", store=store) as loop:
        for _ in loop:
            loop.state["value"] = 1
        loop.state["value"] += 1
        raise BodyError
    assert saved(store)["state"] == {"value": 1}
    assert saved(store)["done"]


def test_state_that_is_set_when_nothing_is_saved_any_more_is_refused_with_what_to_write() -> None:
    loop = checkpoint(range(3), name="l", store=MemoryStore())
    for element in loop:
        loop.state["last"] = element
    state = loop.state
    changes: list[Callable[[], object]] = [
        lambda: state.update(last=5),
        lambda: state.pop("last"),
        lambda: loop.state.__setitem__("last", 5),
        lambda: setattr(loop, "state", {}),
    ]
    for change in changes:
        with pytest.raises(LoopError, match=r"with checkpoint\(\.\.\., name='l'\) as loop"):
            change()
    assert loop.state == {"last": 2}
    assert dict(loop.state) == {"last": 2}


def test_a_state_that_was_given_as_a_whole_is_closed_as_well() -> None:
    with checkpoint(range(3), name="l", store=MemoryStore()) as loop:
        for element in loop:
            loop.state = {"last": element}
    with pytest.raises(LoopError, match="after the loop"):
        loop.state["last"] = 5


@pytest.mark.parametrize("use", ["read", "held"])
def test_the_state_is_refused_in_a_worker_of_a_map(use: str) -> None:
    with checkpoint(range(3), name="l", store=MemoryStore()) as loop:
        state = loop.state

        def work(element: int) -> int:
            (loop.state if use == "read" else state)["sum"] = element
            return element

        with pytest.raises(LoopError, match=r"(?s)worker of its map\(\).*in the body that takes the results"):
            list(loop.map(work, workers=2))
    assert loop.state == {}


def test_the_state_is_refused_in_a_task_of_an_amap() -> None:
    async def main() -> None:
        async with checkpoint(range(3), name="l", store=MemoryStore()) as loop:

            async def work(element: int) -> int:
                loop.state["sum"] = loop.state.get("sum", 0) + await anint(element)
                return element

            async for _ in loop.amap(work, workers=2):
                pass

    with pytest.raises(LoopError, match=r"worker of its map\(\)"):
        asyncio.run(main())


def test_the_body_that_takes_results_has_the_state_also_inside_a_worker_of_another_map() -> None:
    store = MemoryStore()

    def work(name: str) -> int:
        with checkpoint(range(3), name=name, store=store) as inner:
            for result in inner.map(lambda element: element, workers=2):
                inner.state["sum"] = inner.state.get("sum", 0) + result
        return int(inner.state["sum"])

    with checkpoint(["a", "b"], name="l", store=store) as loop:
        for result in loop.map(work, workers=2):
            loop.state["sum"] = loop.state.get("sum", 0) + result
    assert loop.state == {"sum": 6}


# --- how many at once -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ordered", [True, False])
def test_never_more_than_the_workers_are_at_work(*, ordered: bool) -> None:
    at_work: list[int] = [0]
    most = 0

    async def work(element: int) -> int:
        nonlocal most
        at_work[0] += 1
        most = max(most, at_work[0])
        for _ in range(1 + element % 3):
            await asyncio.sleep(0)
        at_work[0] -= 1
        return element

    async def main() -> list[int]:
        loop = checkpoint(range(100), name="l", store=MemoryStore())
        return [result async for result in loop.amap(work, workers=5, ordered=ordered)]

    results = asyncio.run(main())
    assert sorted(results) == list(range(100))
    assert not ordered or results == list(range(100))
    assert most == 5


# --- opening --------------------------------------------------------------------------------------------------


class Gate:
    """A store call that stays until it is let go."""

    def __init__(self, attempt: TaskAttempt) -> None:
        self._set = attempt.task_store.set
        self.reached, self.open = threading.Event(), threading.Event()
        attempt.task_store.set = self._wait  # type: ignore[method-assign]

    def _wait(self, *args: Any, **options: Any) -> None:
        self.reached.set()
        self.open.wait(60)
        self._set(*args, **options)


def test_an_async_open_that_is_cancelled_leaves_neither_its_name_in_use_nor_a_stall() -> None:
    attempt = task_context(retries=9)
    for _ in range(4):
        with attempt:
            gate = Gate(attempt)

            async def main(gate: Gate = gate) -> Any:
                opening = asyncio.create_task(agoing_through(loop_of().__aiter__(), lambda _: None))
                await asyncio.to_thread(gate.reached.wait, 60)
                opening.cancel()
                await asyncio.sleep(0)
                gate.open.set()
                with pytest.raises(asyncio.CancelledError):
                    await opening
                return await agoing_through(loop_of().__aiter__(), raising_always)

            with pytest.raises(BodyError):
                asyncio.run(main())
        assert record(attempt)["at"]["stalls"] == 0
        attempt = attempt.retry()


def test_an_event_loop_that_is_left_while_a_loop_is_being_opened_leaves_no_stall() -> None:
    """As by `execution_timeout`: nobody is told, and the thread goes on."""
    attempt = task_context(retries=9)
    for _ in range(5):
        with attempt:
            gate = Gate(attempt)

            async def main(gate: Gate = gate) -> None:
                opening = asyncio.create_task(agoing_through(held(loop_of().__aiter__()), lambda _: None))
                await asyncio.to_thread(gate.reached.wait, 60)
                held(opening)
                threading.Timer(0.01, gate.open.set).start()
                raise TimeIsUpError

            with pytest.raises(TimeIsUpError):
                event_loop_of_airflow(main())
        assert not record(attempt)["done"]
        assert record(attempt)["at"]["stalls"] == 0
        attempt = attempt.retry()


def test_a_claim_that_is_interrupted_leaves_no_stall() -> None:
    attempt = task_context(retries=9)
    for _ in range(5):
        with attempt:
            written = attempt.task_store.set

            def interrupted(*args: Any, written: Any = written, store: Any = attempt.task_store, **more: Any) -> None:
                written(*args, **more)
                store.set = written
                raise TimeIsUpError

            attempt.task_store.set = interrupted  # type: ignore[method-assign]
            with pytest.raises(TimeIsUpError):
                list(loop_of())
        attempt = attempt.retry()
    assert attempted(attempt, SYNC["for"], lambda _: None) == (list(range(COUNT)), None)
    assert record(attempt)["at"]["stalls"] == 0


def test_an_async_loop_that_was_left_by_an_error_may_be_opened_again_at_once() -> None:
    async def main() -> list[int]:
        with suppress(BodyError):
            async for element in loop_of():
                raising_a_new_one(element)
        return [element async for element in loop_of()]

    with task_context() as attempt:
        assert event_loop_of_airflow(main()) == list(range(LAST, COUNT))
    assert (record(attempt)["n"], record(attempt)["done"]) == (COUNT, True)


def test_a_name_is_in_use_while_its_iterator_is_held() -> None:
    with task_context() as attempt:
        iterator = iter(loop_of())
        next(iterator)
        with pytest.raises(UsageError, match="is used twice"):
            list(loop_of())
        assert list(iterator) == list(range(1, COUNT))
    assert record(attempt)["done"]


# --- processes and threads ------------------------------------------------------------------------------------


def test_a_fork_of_the_process_saves_nothing_of_its_parents_loop() -> None:
    with task_context() as attempt:
        for element in loop_of(durability="sync"):
            if element == 1:
                before = record(attempt)
                child = os.fork()
                if child == 0:
                    try:
                        attempt.__exit__(None, None, None)
                    finally:
                        os._exit(0 if record(attempt) == before else 1)
                assert os.waitpid(child, 0)[1] == 0
    assert record(attempt)["done"]


def test_a_loop_that_still_runs_in_another_thread_does_not_keep_the_task(caplog: pytest.LogCaptureFixture) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def slow(position: int | None) -> Iterator[tuple[int, int]]:
        yield 0, 1
        asked.set()
        go_on.wait(60)
        yield 1, 2

    with task_context():
        elements = iter(checkpoint(slow, name="l"))
        next(elements)

        def go_through() -> None:
            with suppress(LoopError):
                list(elements)

        thread = threading.Thread(target=go_through)
        thread.start()
        asked.wait(60)
    go_on.set()
    thread.join(60)
    assert "still runs in another thread" in caplog.text


def test_a_store_that_hangs_does_not_keep_the_last_message_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_resume.last_message.SECONDS", 0.05)
    let_go = threading.Event()

    class Hanging(MemoryStore):
        def __init__(self) -> None:
            super().__init__()
            self.channel, self.hangs = ThreadChannel(), threading.Event()

        def set(self, key: str, value: Any) -> None:
            if key in self.values:
                self.hangs.set()
                let_go.wait(60)
            super().set(key, value)

    store = Hanging()
    with task_context():
        elements = iter(checkpoint(range(9), name="l", store=store, interval=timedelta(days=1)))
        next(elements)
        next(elements)
    assert saved(store)["n"] == 0, "the write was not waited for"
    assert store.hangs.wait(60)
    let_go.set()


SCRIPT = """
import asyncio, sys
from datetime import timedelta
from airflow_resume import checkpoint
from airflow_resume.backends import SqlStateStore, SqlStoreBackend

store = SqlStateStore(SqlStoreBackend(sys.argv[1]), "script")
loop = checkpoint(range(9), name="l", store=store, interval=timedelta(days=1))

async def main(elements):
    for _ in range(3):
        await anext(elements)

if sys.argv[2] == "iter":
    elements = iter(loop)
    for _ in range(3):
        next(elements)
else:
    elements = loop.__aiter__()
    asyncio.new_event_loop().run_until_complete(main(elements))
raise RuntimeError("the end")
"""


@pytest.mark.parametrize("form", ["iter", "aiter"])
def test_a_script_saves_what_is_still_open_when_it_ends(tmp_path: Path, form: str) -> None:
    url = f"sqlite:///{tmp_path / 'state.db'}"
    script = subprocess.run([sys.executable, "-c", SCRIPT, url, form], capture_output=True, text=True, check=False)
    assert "RuntimeError: the end" in script.stderr
    found: Any = SqlStateStore(SqlStoreBackend(url), "script").get(KEY)
    assert (found["n"], found["at"].get("left")) == (2, None)
