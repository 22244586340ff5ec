"""Checkpointed loops in worlds whose attempts die: the sources, a diary of what happened, and the laws for it.

A law is about numbers: the k-th element of a source has the number k, and of nested loops the elements of the innermost
one are numbered through. What a loop does is written in a diary, and so is every record that reaches the store. The
laws read the diary and know nothing of positions, sources or crashes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from functools import cache, partial
from itertools import pairwise
from math import prod
from threading import Condition
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from airflow_resume import checkpoint
from airflow_resume.loops import Batches, Checkpoint, CursorToken, Files, Keyset, Offset, Page, PageNumber, TimeSlices
from airflow_resume.loops.keeping.frontier import _id_of
from airflow_resume.loops.loop_record import ID_DIGITS
from airflow_resume.testing import CrashWorld, FakeClock, TaskAttempt, World, task_context
from airflow_resume.testing.crashes.outcome import AttemptRunner
from airflow_resume.testing.points import CrashedError, CrashKind
from tests.support.loops.polled_alarm import PolledAlarm

T = TypeVar("T")

KEY = "resume.loop.l"


# --- worlds -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Note:
    """One line of a diary.

    Args:
        tried: the try number.
        number: of the element that was delivered, finished or skipped.
        kept: the numbers of the elements that are done, by the record in the store.
        over: the record says that nothing is left.
        sum: what the states of the loops add up to; None: they do not add up anything.
    """

    what: Literal["delivered", "finished", "kept"]
    tried: int = 0
    number: int = -1
    kept: frozenset[int] = frozenset()
    over: bool = False
    sum: int | None = None


class BrokenError(Exception):
    """What a body raises."""


class LoopWorld(CrashWorld):
    """A task, and a diary.

    Args:
        sizes: of nested loops, the numbers of elements from the outermost to the innermost; of one loop, nothing.
        broken: in which attempt which element fails.
    """

    def __init__(self, *sizes: int, broken: Collection[tuple[int, int]] = ()) -> None:
        super().__init__(airflow=World())
        self.broken = broken
        self.diary: list[Note] = []
        self.ids: Mapping[str, int] = {}
        self._below = sizes[1:]
        self.follow(self._note_record)

    @property
    def record(self) -> dict[str, Any] | None:
        """What is in the store."""
        rows = self.airflow.instances["dag", "run-1", "task", -1].rows
        found: dict[str, Any] | None = rows.values_by_key().get(KEY)
        return found

    def _note_record(self) -> None:
        record = self.record
        if record is not None:
            kept = frozenset(numbers_done(record, self._below, self.ids))
            self.diary.append(Note(what="kept", kept=kept, over=record["done"], sum=sum_in_states(record)))

    def note(self, what: Literal["delivered", "finished"], attempt: TaskAttempt, number: int) -> None:
        """Write down what an attempt did, unless it is dead."""
        if not self.points.state.dead:
            self.diary.append(Note(what=what, tried=attempt.ti.try_number, number=number))

    @contextmanager
    def body(self, attempt: TaskAttempt, number: int) -> Iterator[None]:
        """The work on an element; an effect, so that the attempt may die before and after it."""
        self.note("delivered", attempt, number)
        self.fail_if_broken(attempt, number)
        with self.effect(f"load {number}"):
            yield
        self.note("finished", attempt, number)

    def fail_if_broken(self, attempt: TaskAttempt, number: int) -> None:
        """The element may be one that fails."""
        if (attempt.ti.try_number, number) in self.broken:
            raise BrokenError(number)

    def die(self) -> None:
        """The process dies at once."""
        self.points.state.dead = True
        raise CrashedError("killed by the element in hand")

    @property
    def kept(self) -> frozenset[int]:
        """Write down what the record in the store says is finished."""
        return next((note.kept for note in reversed(self.diary) if note.what == "kept"), frozenset())

    def delivered(self) -> list[tuple[int, int]]:
        """The name of an element in a try."""
        return [(note.tried, note.number) for note in self.diary if note.what == "delivered"]


def try_of(world: CrashWorld) -> TaskAttempt:
    """The next attempt of the task."""
    return task_context(world=world.airflow)


def run_until_done(
    world: CrashWorld,
    attempt: Callable[[Any], Any],
    ways: Mapping[int, CrashKind],
    retry_on: tuple[type[Exception], ...] = (),
) -> Any:
    """The result of the attempt when it crashes at these points, as far as it reaches them."""
    world.points.rules.armed = dict(ways)
    return AttemptRunner(attempt=attempt, most=12, retry_on=retry_on, forked=False).run(world)


def numbers_done(
    level: Mapping[str, Any], below: Sequence[int] = (), ids: Mapping[str, int] = MappingProxyType({})
) -> Iterator[int]:
    """The numbers of the elements that are done, by what the store has of a loop and those inside it.

    Args:
        level: what it has of the loop.
        below: the numbers of elements in the loops inside it.
        ids: what stands for an element that was done ahead, where elements are not counted.
    """
    each, ahead = prod(below), level.get("ahead") or {}
    runs, names = ahead.get("runs", []), ahead.get("ids", "")
    far = [names[at : at + ID_DIGITS] for at in range(0, len(names), ID_DIGITS)]
    low = at = level["n"] - sum(runs[1::2]) - len(far)
    yield from range(low * each)
    yield from (ids[name] for name in far)
    for missing, done in zip(runs[::2], runs[1::2], strict=True):
        yield from range((at + missing) * each, (at + missing + done) * each)
        at += missing + done
    for inner in (level.get("inner") or {}).values():
        yield from (low * each + number for number in numbers_done(inner, below[1:]))


def sum_in_states(level: Mapping[str, Any]) -> int | None:
    """What a loop and those inside it added up; None if nothing."""
    levels = [level, *(level.get("inner") or {}).values()]
    sums = [level["state"].get("sum"), *map(sum_in_states, levels[1:])]
    found = [number for number in sums if number is not None]
    return sum(found) if found else None


# --- clocks -----------------------------------------------------------------------------------------------------


def on_clock(loop: Checkpoint[Any], monotonic: Callable[[], float]) -> Checkpoint[Any]:
    """The loop, with a clock of the test."""
    loop._run.plan = replace(loop._run.plan, monotonic=monotonic, alarm=partial(PolledAlarm, monotonic))
    return loop


def at_every_ack(loop: Checkpoint[Any]) -> Checkpoint[Any]:
    """In `"async"` with an interval of 0, write at every ack: on a clock that stands still, every one is due."""
    return on_clock(loop, lambda: 0.0)


# --- sources ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Given:
    """A source of a table.

    Args:
        make: `make(count)` makes it afresh, with so many elements.
        number: of an element.
        options: of the checkpoint.
        least: the fewest elements; an API of pages always has a first one.
        awaited: whether it needs `async for`.
    """

    make: Callable[[int], Any]
    number: Callable[[Any], int] = int
    options: Mapping[str, Any] = field(default_factory=dict)
    least: int = 0
    awaited: bool = False

    def loop(self, count: int, context: Any, **options: Any) -> Checkpoint[Any]:
        """A loop over this many elements."""
        chosen = {"name": "l", "interval": timedelta(0), "max_stalls": None, **self.options, **options}
        return at_every_ack(checkpoint(self.make(count), context=context, **chosen))

    @cache  # noqa: B019  there is a table of them
    def ids(self, count: int) -> Mapping[str, int]:
        """The numbers of the elements, by what stands for one that was done ahead where they are not counted."""
        source = checkpoint(self.make(count), name="l", **self.options)._run.plan.source
        positions = [source.first()]

        async def walk() -> None:
            async for _, after in source.aelements(positions[0]):
                positions.append(after)

        on_event_loop(walk())
        around = pairwise(positions)
        return {_id_of(before, after): number for number, (before, after) in enumerate(around)}


START = datetime(2026, 1, 1, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)


def rows_between(start: int, stop: int, count: int) -> list[int]:
    """The rows of one page, of so many in all."""
    return list(range(start, min(stop, count)))


def tokens(rows: int, size: int = 2) -> CursorToken[int]:
    """Pages of two rows; the tokens are opaque."""

    def fetch(token: str | None) -> Page[int]:
        start = 0 if token is None else int(token, 2)
        return Page(rows_between(start, start + size, rows), bin(start + size) if start + size < rows else None)

    return CursorToken(fetch)


def tokens_awaited(rows: int) -> CursorToken[int]:
    """The same, of a coroutine function."""
    fetch = tokens(rows)._fetch

    async def fetch_awaited(token: str | None) -> Page[int]:
        await asyncio.sleep(0)
        page: Page[int] = fetch(token)
        return page

    return CursorToken(fetch_awaited)


def page_numbers(rows: int, size: int = 2) -> PageNumber[int]:
    """Pages of two rows, the last of which is followed by an empty one."""
    return PageNumber(lambda number: rows_between(size * (number - 1), size * number, rows), size=size)


def page_numbers_announced(rows: int) -> PageNumber[int]:
    """Pages of two rows; the API says how many there are."""
    return PageNumber(lambda number: Page(rows_between(2 * number, 2 * number + 2, rows), pages=-(-rows // 2)), start=0)


def offsets(rows: int, limit: int = 2) -> Offset[int]:
    """Pages of two rows."""
    return Offset(lambda offset, limit: rows_between(offset, offset + limit, rows), limit=limit)


def offsets_announced(rows: int) -> Offset[int]:
    """Pages of two rows; the API says how many there are."""
    return Offset(lambda offset, limit: Page(rows_between(offset, offset + limit, rows), total=rows), limit=2)


def keyset(rows: int, limit: int = 2) -> Keyset[int]:
    """Pages of two rows; the key is a time and a number."""

    def fetch(after: tuple[datetime, int] | None, limit: int) -> list[int]:
        start = 0 if after is None else after[1] + 1
        return rows_between(start, start + limit, rows)

    return Keyset(fetch, key=lambda row: (START + row * HOUR, row), limit=limit)


class Numbers:
    """An iterable that saves its own state."""

    def __init__(self, count: int) -> None:
        self._count, self._done = count, 0

    def state_dict(self) -> dict[str, int]:
        return {"done": self._done}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self._done = state["done"]

    def __iter__(self) -> Iterator[int]:
        while self._done < self._count:
            self._done += 1
            yield self._done - 1


class NumbersAwaited(Numbers):
    """The same for `async for`."""

    __iter__ = None  # type: ignore[assignment]

    async def __aiter__(self) -> AsyncIterator[int]:
        for number in Numbers.__iter__(self):
            await asyncio.sleep(0)
            yield number


def resuming(count: int) -> Callable[[Any], Iterator[tuple[int, Any]]]:
    """A function that is given the position; the positions are times."""

    def numbers(position: datetime | None) -> Iterator[tuple[int, datetime]]:
        start = 0 if position is None else (position - START) // HOUR
        for number in range(start, count):
            yield number, START + (number + 1) * HOUR

    return numbers


def resuming_awaited(count: int) -> Callable[[Any], AsyncIterator[tuple[int, Any]]]:
    """The same for `async for`."""

    async def numbers(position: Any) -> AsyncIterator[tuple[int, Any]]:
        for pair in resuming(count)(position):
            await asyncio.sleep(0)
            yield pair

    return numbers


async def generated(count: int) -> AsyncIterator[int]:
    """An asynchronous iterable."""
    for number in range(count):
        await asyncio.sleep(0)
        yield number


def files(count: int) -> Files[str]:
    """A listing."""
    return Files([f"{number:03}.csv" for number in range(count)])


def slices(count: int) -> TimeSlices:
    """Hours."""
    return TimeSlices(START, START + count * HOUR, HOUR)


def number_of_page(page: Any) -> int:
    """Of a page of two rows, or a list of two."""
    return int(getattr(page, "items", page)[0]) // 2


def in_pages(make: Callable[[int], Any], **options: Any) -> Given:
    """Pages of two rows."""
    return Given(make=lambda count: make(2 * count), number=number_of_page, **options)


def one_by_one(make: Callable[[int], Any], **options: Any) -> Given:
    """The rows of such pages."""
    return Given(make=make, options={"each": True}, **options)


SOURCES: dict[str, Given] = {
    "list": Given(make=lambda count: list(range(count))),
    "range": Given(make=range),
    "iterator": Given(make=lambda count: iter(range(count))),
    "generator": Given(make=lambda count: (number for number in range(count))),
    "batches": in_pages(lambda rows: Batches(range(rows), size=2)),
    "tokens": in_pages(tokens, least=1),
    "page numbers": in_pages(page_numbers),
    "page numbers, announced": in_pages(page_numbers_announced),
    "offsets": in_pages(offsets),
    "offsets, announced": in_pages(offsets_announced),
    "keyset": in_pages(keyset),
    "files": Given(make=files, number=lambda path: int(path[:3])),
    "slices": Given(make=slices, number=lambda piece: int((piece.start - START) / HOUR)),
    "stateful": Given(make=Numbers),
    "function": Given(make=resuming),
    "rows of batches": one_by_one(lambda rows: Batches(range(rows), size=2)),
    "rows of tokens": one_by_one(tokens),
    "rows of page numbers": one_by_one(page_numbers),
    "rows of offsets": one_by_one(offsets),
    "rows of a keyset": one_by_one(keyset),
    "async generator": Given(make=generated, awaited=True),
    "async tokens": in_pages(tokens_awaited, least=1, awaited=True),
    "async stateful": Given(make=NumbersAwaited, awaited=True),
    "async function": Given(make=resuming_awaited, awaited=True),
    "rows of async tokens": one_by_one(tokens_awaited, awaited=True),
}
IN_PLACE = {name: given for name, given in SOURCES.items() if not given.awaited}
"""Those that a plain `for` goes through."""


# --- ways of going through a loop ---------------------------------------------------------------------------------


def with_for(
    given: Given, count: int, *, result: Literal["sum", "count"] = "sum", **options: Any
) -> Callable[[LoopWorld], Any]:
    """An attempt that consumes the loop with `for`. Its state adds up what was loaded."""

    def attempt(world: LoopWorld) -> Any:
        this = try_of(world)
        with given.loop(count, this.context, **options) as loop:
            for element in loop:
                number = given.number(element)
                loop.state["sum"] = loop.state.get("sum", 0) + number
                with world.body(this, number):
                    pass
            return loop.state["sum"] if result == "sum" else loop.count

    return attempt


def with_async_for(
    given: Given, count: int, *, result: Literal["sum", "count"] = "sum", **options: Any
) -> Callable[[LoopWorld], Any]:
    """The same with `async for`."""

    async def main(world: LoopWorld) -> Any:
        this = try_of(world)
        async with given.loop(count, this.context, **options) as loop:
            async for element in loop:
                number = given.number(element)
                loop.state["sum"] = loop.state.get("sum", 0) + number
                with world.body(this, number):
                    await asyncio.sleep(0)
            return loop.state["sum"] if result == "sum" else loop.count

    return lambda world: on_event_loop(main(world))


def counting(given: Given, count: int, *, every: int = 2, **options: Any) -> Callable[[LoopWorld], int]:
    """The same with a body that asks the loop for nothing, so that most elements are only counted.

    Each takes a second, and a write is due `every` so many.
    """

    def attempt(world: LoopWorld) -> int:
        this, clock = try_of(world), FakeClock()
        chosen = {"interval": timedelta(seconds=every), "max_stalls": None, **given.options, **options}
        loop = on_clock(checkpoint(given.make(count), name="l", context=this.context, **chosen), clock.monotonic)
        for element in loop:
            with world.body(this, given.number(element)):
                clock.sleep(1)
        return loop.count

    return attempt


def nested(*sizes: int, **options: Any) -> Callable[[LoopWorld], Any]:
    """An attempt that consumes nested loops with these numbers of elements, from the outermost to the innermost.

    Every loop adds up in its state what it went through in the loop inside it.
    """

    def gone_through(world: LoopWorld, this: TaskAttempt, level: int, first: int, within: Any) -> int:
        loop = level_of(sizes[level], level, within, context=this.context, **options)
        each = prod(sizes[level + 1 :])
        with loop:
            for number in loop:
                here = first + number * each
                if level + 1 < len(sizes):
                    inner = gone_through(world, this, level + 1, here, loop)
                else:
                    inner = here
                    with world.body(this, here):
                        pass
                loop.state["sum"] = loop.state.get("sum", 0) + inner
            return int(loop.state["sum"])

    return lambda world: gone_through(world, try_of(world), 0, 0, None)


def nested_awaited(*sizes: int, **options: Any) -> Callable[[LoopWorld], Any]:
    """The same with `async for`."""

    async def gone_through(world: LoopWorld, this: TaskAttempt, level: int, first: int, within: Any) -> int:
        loop = level_of(sizes[level], level, within, context=this.context, **options)
        each = prod(sizes[level + 1 :])
        async with loop:
            async for number in loop:
                here = first + number * each
                if level + 1 < len(sizes):
                    inner = await gone_through(world, this, level + 1, here, loop)
                else:
                    inner = here
                    with world.body(this, here):
                        await asyncio.sleep(0)
                loop.state["sum"] = loop.state.get("sum", 0) + inner
            return int(loop.state["sum"])

    return lambda world: on_event_loop(gone_through(world, try_of(world), 0, 0, None))


def level_of(count: int, level: int, within: Any, **options: Any) -> Checkpoint[Any]:
    """The loop at a level; what is chosen is chosen for the outermost one."""
    if within is not None:
        return at_every_ack(checkpoint(range(count), name=f"inside-{level}", within=within))
    return at_every_ack(checkpoint(range(count), name="l", interval=timedelta(0), max_stalls=None, **options))


def with_map(
    given: Given,
    count: int,
    *,
    workers: int,
    ordered: bool = False,
    work: Callable[[int], object] = int,
    **options: Any,
) -> Callable[[LoopWorld], Any]:
    """An attempt that consumes the loop with `map`. `work` gets the number of the element."""

    def attempt(world: LoopWorld) -> int:
        this, world.ids = try_of(world), given.ids(count)

        def worked(element: Any) -> int:
            number = given.number(element)
            world.note("delivered", this, number)
            work(number)
            world.fail_if_broken(this, number)
            return number

        with given.loop(count, this.context, **options) as loop:
            for number in loop.map(worked, workers=workers, ordered=ordered):
                loop.state["sum"] = loop.state.get("sum", 0) + number
                with world.effect(f"load {number}"):
                    pass
                world.note("finished", this, number)
            return loop.count

    return attempt


def with_amap(
    given: Given, count: int, *, workers: int, ranks: Sequence[int], ordered: bool = False, **options: Any
) -> Callable[[LoopWorld], Any]:
    """The same with `amap`. Elements in flight end in the order of `ranks`, which is the same in every run."""
    ids = given.ids(count)

    async def main(world: LoopWorld) -> int:
        this, turns, world.ids = try_of(world), Turns(ranks), ids

        async def worked(element: Any) -> int:
            number = given.number(element)
            world.note("delivered", this, number)
            await turns.wait(number)
            world.fail_if_broken(this, number)
            return number

        async with turns, given.loop(count, this.context, **options) as loop:
            async for number in loop.amap(worked, workers=workers, ordered=ordered):
                loop.state["sum"] = loop.state.get("sum", 0) + number
                with world.effect(f"load {number}"):
                    pass
                world.note("finished", this, number)
            return loop.count

    return lambda world: on_event_loop(main(world))


class InlineLoop(asyncio.SelectorEventLoop):
    """An event loop without threads: what belongs in one is called at once, so that every run is the same."""

    def run_in_executor(self, _executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except BaseException as error:  # noqa: BLE001  it belongs to whoever waits
            future.set_exception(error)
        return future


def on_event_loop(main: Coroutine[Any, Any, T]) -> T:
    """What the coroutine returns."""
    loop = InlineLoop()
    try:
        return loop.run_until_complete(main)
    finally:
        ending = asyncio.all_tasks(loop)
        loop.run_until_complete(asyncio.wait(ending) if ending else loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


class Turns:
    """Lets the tasks of an `amap` that are in flight end in an order chosen by the test.

    Args:
        ranks: by the number of the element; the lowest in flight ends first.
    """

    def __init__(self, ranks: Sequence[int]) -> None:
        self._ranks = ranks
        self._waiting: dict[int, asyncio.Future[None]] = {}

    async def __aenter__(self) -> None:
        self._director = asyncio.get_running_loop().create_task(self._direct())

    async def __aexit__(self, *_: object) -> None:
        self._director.cancel()
        await asyncio.gather(self._director, return_exceptions=True)

    async def wait(self, number: int) -> None:
        """Return when it is the turn of this element."""
        self._waiting[number] = turn = asyncio.get_running_loop().create_future()
        try:
            await turn
        finally:
            self._waiting.pop(number, None)

    async def _direct(self) -> None:
        while True:
            for _ in range(8):  # until whoever iterates has started all that it may
                await asyncio.sleep(0)
            if self._waiting:
                first = min(self._waiting, key=lambda number: self._ranks[number])
                self._waiting.pop(first).set_result(None)


class Gate:
    """Lets the threads of a `map` end in an order chosen by the test, as far as they run at the same time.

    Args:
        ranks: by the number of the element; the lowest of those that wait ends first.
        together: so many are waited for; less, when no other one comes.
    """

    def __init__(self, ranks: Sequence[int], *, together: int) -> None:
        self._ranks, self._together = ranks, together
        self._waiting: set[int] = set()
        self._changed = Condition()

    def wait(self, number: int) -> None:
        """Return when it is the turn of this element."""
        with self._changed:
            self._waiting.add(number)
            if len(self._waiting) >= self._together:
                self._let_one_go()
            while number in self._waiting:
                if not self._changed.wait(0.002):
                    self._let_one_go()

    def _let_one_go(self) -> None:
        if self._waiting:
            self._waiting.discard(min(self._waiting, key=lambda number: self._ranks[number]))
            self._changed.notify_all()


# --- laws -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Laws:
    """Checks the laws on a diary, whenever its attempts died.

    Args:
        count: of the elements.
        again: how many elements an attempt may be given although an earlier one was; None: what was not kept.
        eventual: whether a write that was refused is heard of at the ack after it; what it held comes again.
        parallel: whether elements are worked on in any order.
        skipped: elements that are passed over after their delivery.
    """

    count: int
    again: int | None = None
    eventual: bool = False
    parallel: bool = False
    skipped: frozenset[int] = frozenset()

    def check(self, diary: Sequence[Note]) -> None:
        """Raise AssertionError if a law is broken."""
        self._check_what_is_kept(diary)
        self._check_what_is_delivered(diary)
        self._check_what_is_repeated(diary)

    def _check_what_is_kept(self, diary: Sequence[Note]) -> None:
        """At every moment, what is kept is finished; nothing kept is lost; a loop is over only when all is finished."""
        finished, kept, over = set(self.skipped), frozenset[int](), False
        for note in diary:
            if note.what == "finished":
                finished.add(note.number)
            if note.what == "kept":
                assert note.kept <= finished, f"kept and not finished: {sorted(note.kept - finished)}"
                assert note.kept >= kept, f"no longer kept: {sorted(kept - note.kept)}"
                added = sum(note.kept - self.skipped)
                assert note.sum in {None, added}, f"the states add up to {note.sum}, and {sorted(note.kept)} are kept"
                assert not note.over or len(note.kept) == self.count, "over before the end"
                assert note.over >= over, "over, and then not any more"
                kept, over = note.kept, note.over
        assert finished == set(range(self.count)), f"lost: {sorted(set(range(self.count)) - finished)}"
        assert over, "never over"

    def _check_what_is_delivered(self, diary: Sequence[Note]) -> None:
        """In order, from the first that is not kept when the attempt begins, without a gap; never what is kept."""
        kept: frozenset[int] = frozenset()
        latest: dict[int, int] = {}
        for note in diary:
            if note.what == "kept":
                kept = note.kept
            if note.what == "delivered":
                assert note.number not in kept, f"{note.number} was kept, and was delivered again"
                if not self.parallel:
                    before = latest.get(note.tried, -1)
                    left_out = set(range(before + 1, note.number)) - kept - self.skipped
                    assert note.number > before, f"{note.number} was delivered after {before}"
                    assert not left_out, f"{note.number} was delivered, and {sorted(left_out)} come before it"
                latest[note.tried] = note.number

    def _check_what_is_repeated(self, diary: Sequence[Note]) -> None:
        if self.again is None:
            return
        given: dict[int, list[int]] = {}
        for note in diary:
            if note.what == "delivered":
                given.setdefault(note.tried, []).append(note.number)
        before: set[int] = set()
        for tried, numbers in given.items():
            assert len(numbers) == len(set(numbers)), f"try {tried} was given an element twice"
            again = before.intersection(numbers)
            assert len(again) <= self.again, f"delivered again in try {tried}: {sorted(again)}; {self.again} is right"
            before.update(numbers)


def check_at_most_once(diary: Sequence[Note], count: int, *, crashes: int) -> None:
    """In order, none twice, each kept before it is delivered, and no more lost than attempts died."""
    kept: frozenset[int] = frozenset()
    delivered: list[int] = []
    for note in diary:
        if note.what == "kept":
            kept = note.kept
            unseen = kept.difference(delivered)
            assert len(unseen) <= crashes + 1, f"kept far ahead: {sorted(unseen)}"
        if note.what == "delivered":
            assert note.number in kept, f"{note.number} was delivered before it was kept"
            delivered.append(note.number)
    assert delivered == sorted(set(delivered)), f"not in order, or twice: {delivered}"
    lost = set(range(count)).difference(delivered)
    assert len(lost) <= crashes, f"lost in {crashes} crashes: {sorted(lost)}"
