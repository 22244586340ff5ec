"""Every way to consume a loop, and every way in which an attempt can end meanwhile.

An attempt is a task as Airflow runs it: when it is over, for whatever reason, the process sends its last message and
exits. No generator is closed, no event loop is finalised, and objects in variables are never collected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import count, islice
from typing import Any

from airflow.sdk.exceptions import AirflowRescheduleException, AirflowTaskTimeout

from airflow_resume import checkpoint
from airflow_resume.errors import IncompleteLoopError, LoopStoppedError, ResumeError
from airflow_resume.last_message import end_what_is_open, forget_what_is_open
from airflow_resume.loops import Checkpoint
from airflow_resume.testing import CrashWorld, FakeClock, TaskAttempt, World, task_context
from airflow_resume.testing.crashes.outcome import late_crashes_ignored
from airflow_resume.testing.points import CrashedError
from tests.support.kit.raised import is_one
from tests.support.loops.changing_laws import ALL, Entry, How, Laws
from tests.support.loops.changing_sources import LIST, Change, Changing, Row, Table, keys_of
from tests.support.loops.worlds import InlineLoop, at_every_ack, on_clock

KEY = "resume.loop.l"
INSIDE = "rows"


class BodyError(Exception):
    """An ordinary error of a body."""


class TaskOverError(Exception):
    """Raised by the task after it left its loop with `break`, so that it is tried again."""


# --- worlds -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Script:
    """What happens while a loop runs.

    Args:
        endings: of the attempts in turn, and at which of the elements it is given; those after them end by themselves.
        changes: by attempt and element, from 0 (-1: before the attempt begins).
        drains: the body deletes what it has finished, so many elements at a time; 0: never.
    """

    endings: Sequence[tuple[How, int]] = ()
    changes: Mapping[tuple[int, int], Sequence[Change]] = field(default_factory=dict)
    drains: int = 0


class ChangingWorld(CrashWorld):
    """A task, a table, and a diary.

    Attributes:
        held: what the attempts held in variables.
        error: with which the loop failed for good.
        is_nested: whether the loop over the table is inside another one.
    """

    def __init__(self, rows: int, script: Script) -> None:
        super().__init__(airflow=World())
        self.table, self.script = Table(rows), script
        self.diary: list[Entry] = []
        self.held: list[Any] = []
        self.error: BaseException | None = None
        self.is_nested = False
        self.table.listener = self._note_question
        self.follow(self._note_record)

    def note(self, entry: Entry) -> None:
        """Write a line, unless the attempt is dead."""
        if not self.points.state.dead:
            self.diary.append(entry)

    def _note_question(self, asked: Any, rows: Sequence[Row], before: Sequence[Row] | None) -> None:
        keys = tuple(row["id"] for row in rows)
        moved = before is not None and before != rows
        self.note(Entry(what="asked", asked=asked, keys=keys, rows=rows, moved=moved))

    def _note_record(self) -> None:
        record = self.airflow.instances["dag", "run-1", "task", -1].rows.values_by_key().get(KEY)
        if record is None:
            return
        level, n = record, record["n"]
        if self.is_nested:
            level = (record.get("inner") or {}).get(INSIDE, {"n": 0, "kind": ""})
            n = ALL if n > AROUND.index(INSIDE) else level["n"]
        asked, start = question_of(level["kind"], level.get("pos"))
        answers = self.table.answered.get(asked, [[]])
        index = (level.get("pos") or {}).get("index", 0) if asked is not NOT_IN_A_PAGE else 0
        rows = answers[-1] if start is None else answers[-1][start : start + LIST]
        self.note(Entry(what="kept", n=n, asked=asked, start=start, index=index, rows=rows, over=record["done"]))


NOT_IN_A_PAGE = object()


def question_of(kind: str, position: Any) -> tuple[Any, int | None]:
    """What was asked for the page in which a position lies; and where the page begins, where a list is cut."""
    if not isinstance(position, dict) or "of" not in position:
        return NOT_IN_A_PAGE, None
    page: Any = position.get("page")
    match kind:
        case "each cursor_token":
            return (page or {}).get("token"), None
        case "each keyset":
            return (page or {}).get("after"), None
        case "each page_number":
            return (page or {}).get("page", 1), None
        case "each offset":
            return (page or {}).get("offset", 0), None
        case "each batches":
            return "all", page or 0
    raise AssertionError(f"{kind}: {position}")


AROUND = ["before", INSIDE, "after"]
"""The elements of an outer loop; inside the second one is the loop over the source."""


# --- one attempt ------------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class Body:
    """The work of an attempt on its elements, and the loop that it consumes.

    Args:
        options: of the loop.
    """

    world: ChangingWorld
    attempt: TaskAttempt
    source: Changing
    durability: str
    ending: How
    at: int
    number: int = 0
    clock: FakeClock = field(default_factory=FakeClock)
    finished: list[int] = field(default_factory=list)

    def loop(self, **options: Any) -> Checkpoint[Any]:
        """The loop over the source."""
        chosen = {**self.source.options, **options}
        if options.get("within") is None:
            chosen |= {"name": "l", "context": self.attempt.context, **self._kept()}
        return self.timed(checkpoint(self.source.make(self.world.table), **chosen))

    def _kept(self) -> dict[str, Any]:
        if self.durability == "counted":  # most elements are only counted, as each takes a second
            return {"durability": "async", "interval": timedelta(seconds=2)}
        return {"durability": self.durability, "interval": timedelta(0)}

    def outer(self) -> Checkpoint[str]:
        """A loop around it."""
        self.world.is_nested = True
        return self.timed(checkpoint(AROUND, name="l", context=self.attempt.context, **self._kept()))

    def timed(self, loop: Checkpoint[Any]) -> Checkpoint[Any]:
        return on_clock(loop, self.clock.monotonic) if self.durability == "counted" else at_every_ack(loop)

    def hold(self, thing: Any) -> Any:
        """Hold it in a variable that outlives the loop."""
        self.world.held.append(thing)
        return thing

    # --- an element -------------------------------------------------------------------------------------------

    def __call__(self, element: Any, *, awaited: bool = False) -> bool:
        """Do the work of an element, and return whether to `break`."""
        self.take(element)
        return self.work(element, awaited=awaited)

    def take(self, element: Any) -> Any:
        """Note that an element is delivered."""
        self.world.note(Entry(what="given", keys=tuple(keys_of(element))))
        return element

    def work(self, element: Any, *, awaited: bool = False) -> bool:
        """Do the work after the delivery."""
        here, self.number = self.number, self.number + 1
        keys = keys_of(element)
        for change in self.world.script.changes.get((self.world.attempt, here), ()):
            self.world.table.apply(change)
        if here == self.at:
            match self.ending:
                case "raise":
                    raise BodyError(here)
                case "timeout":
                    raise asyncio.CancelledError if awaited else AirflowTaskTimeout
                case "kill":
                    self.world.points.state.dead = True
                    raise CrashedError("killed by the element in hand")
                case "break":
                    return True
                case "stop":
                    self.attempt.ti.task.on_kill()
        with self.world.effect(f"load {keys}"):
            self.clock.sleep(1)
        self._drain(keys)
        self.world.note(Entry(what="finished", keys=tuple(keys)))
        return False

    def raise_after_break(self) -> None:
        """Fail after a loop that was left with `break`, so that the task is tried again.

        Raises:
            TaskOverError: the loop was left with `break`.
        """
        if self.ending == "break" and self.number > self.at:
            raise TaskOverError

    def acked(self) -> None:
        """All of it was acked by hand."""
        self.world.note(Entry(what="acked"))

    def _drain(self, keys: Sequence[int]) -> None:
        self.finished += keys
        drains = self.world.script.drains
        if drains and len(self.finished) >= drains:
            for key in self.finished:
                self.world.table.delete(key)
            self.finished.clear()


# --- ways -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Way:
    """A way to consume a loop.

    Args:
        go: consumes it, and returns at its end or after a `break`.
        by_hand: whether elements are acknowledged by hand.
        parallel: whether several are worked on at a time.
        threads: whether in threads, so that no two runs are the same.
        each_is_known: whether an ending in the body of one element is one of no other element.
    """

    go: Callable[[Body], Any]
    by_hand: bool = False
    parallel: bool = False
    threads: bool = False


def plain(body: Body) -> None:
    for element in body.loop():
        if body(element):
            break


def with_statement(body: Body) -> None:
    with body.loop() as loop:
        for element in loop:
            if body(element):
                break


def with_state(body: Body) -> None:
    with body.loop() as loop:
        for element in loop:
            if body(element):
                break
            loop.state["count"] = loop.state.get("count", 0) + 1


def held_loop(body: Body) -> None:
    for element in body.hold(body.loop()):
        if body(element):
            break


def held_iterator(body: Body) -> None:
    for element in body.hold(iter(body.loop())):
        if body(element):
            break


def with_held_iterator(body: Body) -> None:
    with body.loop() as loop:
        for element in body.hold(iter(loop)):
            if body(element):
                break


def generator_expression(body: Body) -> None:
    for element in body.hold(element for element in body.loop()):
        if body(element):
            break


def zipped(body: Body) -> None:
    for element, _ in body.hold(zip(body.loop(), count(), strict=False)):
        if body(element):
            break


def enumerated(body: Body) -> None:
    for _, element in body.hold(enumerate(body.loop())):
        if body(element):
            break


def sliced(body: Body) -> None:
    """Slices of one iterator, of an element each; the last one is empty."""
    elements = body.hold(iter(body.loop()))
    while taken := list(islice(elements, 1)):
        for element in taken:
            if body(element):
                return


def next_by_hand(body: Body) -> None:
    elements, end = body.hold(iter(body.loop())), object()
    while (element := next(elements, end)) is not end:
        if body(element):
            return


def batched_by_hand(body: Body) -> None:
    """Two are taken before the work on either begins, so they are acknowledged by hand."""
    loop = body.loop(ack="manual")
    elements = body.hold(iter(loop))
    while taken := list(islice(elements, 2)):
        for element in taken:
            body.take(element)
        for element in taken:
            if body.work(element):
                return
        body.acked()
        loop.ack()


def with_batched_by_hand(body: Body) -> None:
    """A `break` before the last `ack` would be an error of its own, so the task raises at once."""
    with body.loop(ack="manual") as loop:
        elements = body.hold(iter(loop))
        while taken := list(islice(elements, 2)):
            for element in taken:
                body.take(element)
            for element in taken:
                if body.work(element):
                    raise TaskOverError
            body.acked()
            loop.ack()


def nested(body: Body) -> None:
    outer = body.outer()
    for around in outer:
        if around == INSIDE:
            for element in body.loop(name=INSIDE, within=outer):
                if body(element):
                    return


def nested_held(body: Body) -> None:
    outer = body.hold(body.outer())
    for around in body.hold(iter(outer)):
        if around == INSIDE:
            for element in body.hold(iter(body.loop(name=INSIDE, within=outer))):
                if body(element):
                    return


def mapped(body: Body, *, workers: int = 2, ordered: bool = False) -> None:
    with body.loop() as loop:
        for element in loop.map(body.take, workers=workers, ordered=ordered):
            if body.work(element):
                break


def mapped_without_with(body: Body, *, workers: int = 2, ordered: bool = False) -> None:
    for element in body.hold(body.loop().map(body.take, workers=workers, ordered=ordered)):
        if body.work(element):
            break


async def async_for(body: Body) -> None:
    async for element in body.loop():
        if body(element, awaited=True):
            break


async def async_with(body: Body) -> None:
    async with body.loop() as loop:
        async for element in loop:
            if body(element, awaited=True):
                break


async def async_held(body: Body) -> None:
    async for element in body.hold(aiter(body.loop())):
        if body(element, awaited=True):
            break


async def async_generator_expression(body: Body) -> None:
    async for element in body.hold(element async for element in body.loop()):
        if body(element, awaited=True):
            break


async def anext_by_hand(body: Body) -> None:
    elements, end = body.hold(aiter(body.loop())), object()
    while (element := await anext(elements, end)) is not end:
        if body(element, awaited=True):
            return


async def async_nested(body: Body) -> None:
    outer = body.outer()
    async for around in outer:
        if around == INSIDE:
            async for element in body.loop(name=INSIDE, within=outer):
                if body(element, awaited=True):
                    return


async def amapped(body: Body, *, ordered: bool = False) -> None:
    async for element in body.loop().amap(_taking(body), workers=2, ordered=ordered):
        if body.work(element, awaited=True):
            break


async def amapped_in_with(body: Body, *, ordered: bool = False) -> None:
    async with body.loop() as loop:
        async for element in loop.amap(_taking(body), workers=3, ordered=ordered):
            if body.work(element, awaited=True):
                break


def _taking(body: Body) -> Callable[[Any], Awaitable[Any]]:
    """Every second element takes longer, so that others finish before it."""

    async def take(element: Any) -> Any:
        body.take(element)
        for _ in range(9 * (keys_of(element)[0] // 1000 % 2) if keys_of(element) else 1):
            await asyncio.sleep(0)
        return element

    return take


def as_airflow_runs(main: Callable[[Body], Coroutine[Any, Any, None]]) -> Callable[[Body], None]:
    """On an event loop that is closed at the end of the task without any other cleanup."""

    def go(body: Body) -> None:
        loop = InlineLoop()
        try:
            loop.run_until_complete(main(body))
        finally:
            loop.close()

    return go


IN_PLACE: dict[str, Way] = {
    "for": Way(go=plain),
    "with": Way(go=with_statement),
    "with, state": Way(go=with_state),
    "held loop": Way(go=held_loop),
    "held iterator": Way(go=held_iterator),
    "with, held iterator": Way(go=with_held_iterator),
    "generator expression": Way(go=generator_expression),
    "zip": Way(go=zipped),
    "enumerate": Way(go=enumerated),
    "islice": Way(go=sliced),
    "next": Way(go=next_by_hand),
    "batched, by hand": Way(go=batched_by_hand, by_hand=True),
    "with, batched, by hand": Way(go=with_batched_by_hand, by_hand=True),
    "nested": Way(go=nested),
    "nested, held": Way(go=nested_held),
    "map of one": Way(go=partial(mapped, workers=1), parallel=True),
    "map": Way(go=mapped, parallel=True, threads=True),
    "map, ordered": Way(go=partial(mapped, ordered=True), parallel=True, threads=True),
    "map without with": Way(go=mapped_without_with, parallel=True, threads=True),
}
AWAITED: dict[str, Way] = {
    "async for": Way(go=as_airflow_runs(async_for)),
    "async with": Way(go=as_airflow_runs(async_with)),
    "async, held": Way(go=as_airflow_runs(async_held)),
    "async generator expression": Way(go=as_airflow_runs(async_generator_expression)),
    "anext": Way(go=as_airflow_runs(anext_by_hand)),
    "async, nested": Way(go=as_airflow_runs(async_nested)),
    "amap": Way(go=as_airflow_runs(amapped), parallel=True),
    "amap, ordered": Way(go=as_airflow_runs(partial(amapped, ordered=True)), parallel=True),
    "async with, amap": Way(go=as_airflow_runs(amapped_in_with), parallel=True),
    "async with, amap, ordered": Way(go=as_airflow_runs(partial(amapped_in_with, ordered=True)), parallel=True),
}
WAYS = IN_PLACE | AWAITED


# --- a whole run ------------------------------------------------------------------------------------------------


def attempt_of(way: Way, source: Changing, durability: str) -> Callable[[ChangingWorld], str]:
    """One try of a task that consumes the loop."""

    def attempt(world: ChangingWorld) -> str:
        script, number = world.script, world.attempt
        for change in script.changes.get((number, -1), ()):
            world.table.apply(change)
        ending, at = script.endings[number - 1] if number <= len(script.endings) else ("end", -1)
        world.diary.append(Entry(what="begun"))
        this = task_context(world=world.airflow)
        body = Body(world=world, attempt=this, source=source, durability=durability, ending=ending, at=at)
        try:
            way.go(body)
            body.raise_after_break()
        except BaseException as error:
            _task_ends(world, this, ending)
            world.error = _failure(error, world, source)
            world.points.state.dead = world.error is None
            raise
        _task_ends(world, this, "end")
        return "done"

    return attempt


def _failure(error: BaseException, world: ChangingWorld, source: Changing) -> BaseException | None:
    """The error, if it comes from the loop and no attempt follows it."""
    if is_one(error, IncompleteLoopError, problem="short"):
        assert source.announces, f"nothing was announced: {error}"
        assert world.table.deleted, f"all came: {error}"
    is_for_good = isinstance(error, ResumeError) and not isinstance(error, RETRIED)
    return error if is_for_good and not world.points.state.faulty else None


def _task_ends(world: ChangingWorld, attempt: TaskAttempt, how: How) -> None:
    """End the attempt after it has returned or raised: Airflow sends the last message, and the process exits."""
    store = attempt.context["task_state_store"]
    if world.points.state.dead:
        forget_what_is_open(owner=store)
        return
    end_what_is_open(owner=store)
    # A store that failed may have failed to save.
    world.note(Entry(what="ended", how="kill" if world.points.state.faulty else how))


RETRIED = (
    BodyError,
    TaskOverError,
    AirflowTaskTimeout,
    asyncio.CancelledError,
    AirflowRescheduleException,
    LoopStoppedError,
    IncompleteLoopError,
)
"""What an attempt ends with that is tried again."""
SHORT = 2
"""Attempts after which a source that ends too early is taken at its word."""


def run(world: ChangingWorld, way: Way, source: Changing, durability: str) -> None:
    """Try until an attempt reaches the end of the loop, or the loop fails; then check the laws.

    Raises:
        AssertionError: one does not, or no attempt comes to the end.
    """
    attempt = attempt_of(way, source, durability)
    with late_crashes_ignored():
        try:
            _try_until_the_end(attempt, world)
            check(world, way, source)
        finally:
            world.held.clear()


def _try_until_the_end(attempt: Callable[[ChangingWorld], str], world: ChangingWorld) -> None:
    for _ in range(len(world.script.endings) + 1 + SHORT):
        world.points.begin_attempt()
        try:
            attempt(world)
        except (*RETRIED, CrashedError):
            continue
        except ResumeError:
            return
        return
    raise AssertionError("no attempt came to the end of the loop")


def check(world: ChangingWorld, way: Way, source: Changing) -> None:
    """Check the laws."""
    Laws(
        table=world.table,
        source=source,
        error=world.error,
        by_hand=way.by_hand,
        parallel=way.parallel,
        inside=world.is_nested,
    ).check(world.diary)
