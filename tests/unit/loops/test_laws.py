"""The laws of checkpointed loops, for crashes, failures, orders and changes that Hypothesis thinks of."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from math import prod
from typing import Any

import pytest
from airflow.sdk.execution_time.context import NEVER_EXPIRE
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_resume import checkpoint
from airflow_resume.channel import Channel, InlineChannel, Reply
from airflow_resume.errors import RowOrderError, SourceChangedError, StalledError, SupersededError
from airflow_resume.loops import Batches, CursorToken, Files, Keyset, Page, Skip, TimeSlice, TimeSlices
from airflow_resume.loops.sources.given import as_source
from airflow_resume.store import AirflowStore, MemoryStore
from airflow_resume.testing import FakeClock, FakeTaskStore, TaskAttempt, explore_crashes, task_context
from airflow_resume.testing.crashes.outcome import ExplorationOutcome
from airflow_resume.testing.errors import NeverSucceededError
from airflow_resume.testing.oracles import each_effect_at_least_once, same_result
from tests.support.loops.worlds import (
    HOUR,
    IN_PLACE,
    KEY,
    SOURCES,
    START,
    BrokenError,
    Gate,
    Laws,
    LoopWorld,
    Turns,
    at_every_ack,
    check_at_most_once,
    keyset,
    nested,
    nested_awaited,
    offsets,
    on_clock,
    on_event_loop,
    page_numbers,
    run_until_done,
    tokens,
    try_of,
    with_amap,
    with_async_for,
    with_for,
    with_map,
)

IN_HAND = {"sync": 1, "async": 1, "exit": None}
durabilities = st.sampled_from(["sync", "async", "exit"])
crashes = st.dictionaries(st.integers(1, 60), st.just("crash"), max_size=4)
failures = st.sets(st.tuples(st.integers(1, 4), st.integers(0, 8)), max_size=5)


# --- one after the other ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("source", ["list", "rows of tokens"])
def test_every_single_crash_is_survived(source: str, durability: str) -> None:
    def law(outcome: ExplorationOutcome[LoopWorld]) -> None:
        Laws(count=3, again=IN_HAND[durability]).check(outcome.world.diary)

    report = explore_crashes(
        with_for(SOURCES[source], 3, durability=durability),
        oracle=[each_effect_at_least_once, law, same_result],
        world=LoopWorld,
        double=False,  # tests/crashes has more, and the refusals
        kinds=["crash", "reply_lost"],
    )
    assert report.ways > len(report.points) >= 12


@given(
    source=st.sampled_from(sorted(SOURCES)),
    count=st.integers(0, 9),
    ways=crashes,
    broken=failures,
    durability=durabilities,
    awaited=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_no_element_is_lost_and_none_comes_again_beyond_the_bound(
    *,
    source: str,
    count: int,
    ways: Any,
    broken: Any,
    durability: str,
    awaited: bool,
) -> None:
    row = SOURCES[source]
    count, go = max(count, row.least), with_async_for if awaited or row.awaited else with_for
    world = LoopWorld(broken=broken)
    total = run_until_done(world, go(row, count, durability=durability, result="count"), ways, (BrokenError,))
    Laws(count=count, again=IN_HAND[durability]).check(world.diary)
    assert total == count


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("go", [with_for, with_async_for])
@pytest.mark.parametrize("source", ["generator", "tokens", "rows of a keyset", "files"])
def test_an_attempt_that_fails_keeps_all_that_it_finished(source: str, go: Callable[..., Any], durability: str) -> None:
    world = LoopWorld(broken={(1, 2)})
    attempt = go(SOURCES[source], 4, durability=durability)
    with suppress(BrokenError):
        attempt(world)
    assert world.kept == {0, 1}
    attempt(world)
    assert world.delivered() == [(1, 0), (1, 1), (1, 2), (2, 2), (2, 3)]


@given(source=st.sampled_from(sorted(SOURCES)), count=st.integers(1, 9), ways=crashes, awaited=st.booleans())
@settings(max_examples=60, deadline=None)
def test_at_most_once_never_delivers_twice_and_loses_one_in_a_crash(
    source: str,
    count: int,
    ways: Any,
    awaited: bool,  # noqa: FBT001
) -> None:
    row, world = SOURCES[source], LoopWorld()
    go = with_async_for if awaited or row.awaited else with_for
    run_until_done(world, go(row, count, delivery="at_most_once", durability="exit", result="count"), ways)
    check_at_most_once(world.diary, count, crashes=len(world.points.fired))


@given(interval=st.integers(1, 5), count=st.integers(1, 20), dies_at=st.sets(st.integers(0, 19), max_size=3))
@settings(max_examples=60, deadline=None)
def test_what_is_acked_comes_again_only_if_that_was_within_the_interval(
    interval: int, count: int, dies_at: set[int]
) -> None:
    """An element takes a second."""

    def attempt(world: LoopWorld) -> None:
        this, clock = try_of(world), FakeClock()
        loop = on_clock(
            checkpoint(
                range(count), name="l", interval=timedelta(seconds=interval), max_stalls=None, context=this.context
            ),
            clock.monotonic,
        )
        for number in loop:
            with world.body(this, number):
                clock.sleep(1)
                if number in dies_at:
                    dies_at.remove(number)
                    world.die()

    world = LoopWorld()
    run_until_done(world, attempt, {})
    Laws(count=count, again=interval).check(world.diary)


class SlowChannel:
    """Makes no call before somebody waits for it, or it is told to catch up: a store that is slower than the loop."""

    def __init__(self) -> None:
        self._calls: deque[Callable[[], None]] = deque()
        self._works = False

    def submit(self, call: Callable[[], Any], /) -> Reply[Any]:
        if self._works:
            return InlineChannel().submit(call)
        reply = SlowReply(self)
        self._calls.append(partial(reply.settle, call))
        return reply

    def catch_up(self) -> None:
        self._works = True
        while self._calls:
            self._calls.popleft()()
        self._works = False


class SlowReply(Reply[Any]):
    def __init__(self, channel: SlowChannel) -> None:
        super().__init__()
        self._channel = channel

    def result(self, timeout: float | None = None) -> Any:
        self._channel.catch_up()
        return super().result(timeout)


def slowly(store: FakeTaskStore, channel: Channel) -> AirflowStore:
    return AirflowStore(
        accessor=store,
        refused=SupersededError,
        options={"retention": NEVER_EXPIRE},
        find_channel=lambda: channel,
        sleep=store.sleep,
    )


@given(count=st.integers(1, 12), caught_up=st.sets(st.integers(0, 11)), dies_at=st.sets(st.integers(0, 11), max_size=3))
@settings(max_examples=80, deadline=None)
def test_in_async_a_write_in_the_background_holds_all_that_is_acked_when_it_is_made(
    count: int, caught_up: set[int], dies_at: set[int]
) -> None:
    """So what comes again is what was acked since the last finished write, and the element in hand."""

    def attempt(world: LoopWorld) -> None:
        this, channel = try_of(world), SlowChannel()
        store = slowly(this.task_store, channel)
        loop = checkpoint(
            range(count), name="l", interval=timedelta(0), max_stalls=None, store=store, context=this.context
        )
        for number in at_every_ack(loop):
            with world.body(this, number):
                if number in caught_up:
                    channel.catch_up()
                    assert len(world.kept) >= number - 1, "one write waits, and it is the newest"
                if number in dies_at:
                    dies_at.remove(number)
                    world.die()

    world = LoopWorld()
    run_until_done(world, attempt, {})
    Laws(count=count).check(world.diary)


@given(bad=st.sets(st.integers(0, 5)), ways=crashes, durability=durabilities)
@settings(max_examples=40, deadline=None)
def test_what_the_body_of_a_skipped_element_did_to_the_state_is_undone(
    bad: set[int], ways: Any, durability: str
) -> None:
    def attempt(world: LoopWorld) -> None:
        this = try_of(world)
        skip = Skip(on=(BrokenError,), limit=6)
        loop = SOURCES["range"].loop(6, this.context, durability=durability, skip=skip)
        for number in loop:
            with loop.skipping():
                loop.state["sum"] = loop.state.get("sum", 0) + number
                with world.body(this, number):
                    pass

    world = LoopWorld(broken={(tried, number) for tried in range(20) for number in bad})
    run_until_done(world, attempt, ways)
    Laws(count=6, again=IN_HAND[durability], skipped=frozenset(bad)).check(world.diary)


# --- loops in loops -----------------------------------------------------------------------------------------------


@given(
    sizes=st.lists(st.integers(1, 3), min_size=2, max_size=3),
    ways=crashes,
    durability=durabilities,
    go=st.sampled_from([nested, nested_awaited]),
)
@settings(max_examples=80, deadline=None)
def test_each_pair_of_loops_in_loops_is_delivered_within_the_bound(
    sizes: list[int], ways: Any, durability: str, go: Callable[..., Any]
) -> None:
    world = LoopWorld(*sizes)
    run_until_done(world, go(*sizes, durability=durability), ways)
    Laws(count=prod(sizes), again=IN_HAND[durability]).check(world.diary)


def test_a_loop_that_starts_over_forgets_the_loops_inside() -> None:
    def given_here(attempt: TaskAttempt, most: int) -> list[tuple[int, int]]:
        pairs: list[tuple[int, int]] = []
        for outer_number in (outer := checkpoint(range(2), name="l", context=attempt.context)):
            for number in checkpoint(range(3), name="inside", within=outer):
                if len(pairs) == most:
                    return pairs
                pairs.append((outer_number, number))
        return pairs

    for cleared in (False, True):
        first = task_context()
        assert given_here(first, 2) == [(0, 0), (0, 1)]
        assert len(given_here(first.clear() if cleared else first.retry(), 9)) == (6 if cleared else 4)


# --- several at a time ------------------------------------------------------------------------------------------

in_parallel = st.tuples(st.integers(1, 4), st.booleans())
"""Workers, and whether ordered."""


def in_flight(workers: int, ordered: bool) -> int:  # noqa: FBT001
    return 2 * workers if ordered else workers


def handed_out(world: LoopWorld) -> dict[int, list[int]]:
    """What each attempt was handed, in order."""
    numbers: dict[int, list[int]] = {}
    for note in world.diary:
        if note.what == "finished":
            numbers.setdefault(note.tried, []).append(note.number)
    return numbers


@given(
    source=st.sampled_from(["range", "generator", "tokens", "rows of offsets", "files"]),
    ranks=st.permutations(range(8)),
    how=in_parallel,
    ways=crashes,
    broken=failures,
    durability=durabilities,
)
@settings(max_examples=50, deadline=None)
def test_a_map_loses_nothing_in_whatever_order_its_threads_end(
    *, source: str, ranks: list[int], how: tuple[int, bool], ways: Any, broken: Any, durability: str
) -> None:
    workers, ordered = how
    gate, world = Gate(ranks, together=workers), LoopWorld(broken=broken)
    attempt = with_map(SOURCES[source], 8, workers=workers, ordered=ordered, work=gate.wait, durability=durability)
    assert run_until_done(world, attempt, ways, (BrokenError,)) == 8
    assert not ordered or all(numbers == sorted(numbers) for numbers in handed_out(world).values())
    Laws(count=8, again=in_flight(*how) if durability == "sync" else None, parallel=True).check(world.diary)


@given(
    source=st.sampled_from(sorted(SOURCES)),
    ranks=st.permutations(range(8)),
    how=in_parallel,
    ways=crashes,
    broken=failures,
    durability=durabilities,
)
@settings(max_examples=100, deadline=None)
def test_an_amap_loses_nothing_in_whatever_order_its_tasks_end(
    *, source: str, ranks: list[int], how: tuple[int, bool], ways: Any, broken: Any, durability: str
) -> None:
    workers, ordered = how
    world = LoopWorld(broken=broken)
    attempt = with_amap(SOURCES[source], 8, workers=workers, ordered=ordered, ranks=ranks, durability=durability)
    assert run_until_done(world, attempt, ways, (BrokenError,)) == 8
    assert not ordered or all(numbers == sorted(numbers) for numbers in handed_out(world).values())
    Laws(count=8, again=in_flight(*how) if durability == "sync" else None, parallel=True).check(world.diary)


@given(ranks=st.permutations(range(8)), how=in_parallel, number=st.integers(0, 7), durability=durabilities)
@settings(max_examples=40, deadline=None)
def test_a_map_that_fails_keeps_all_that_it_handed_out(
    ranks: list[int], how: tuple[int, bool], number: int, durability: str
) -> None:
    workers, ordered = how
    world = LoopWorld(broken={(1, number)})
    attempt = with_amap(SOURCES["range"], 8, workers=workers, ordered=ordered, ranks=ranks, durability=durability)
    with suppress(BrokenError):
        attempt(world)
    finished = {note.number for note in world.diary if note.what == "finished"}
    assert world.kept == finished
    assert {delivered for _, delivered in world.delivered()} == finished | {number}, "what was in flight is waited for"


@given(
    ranks=st.permutations(range(8)),
    how=in_parallel,
    ways=crashes,
    bad=st.sets(st.integers(0, 7), max_size=4),
    durability=durabilities,
)
@settings(max_examples=60, deadline=None)
def test_what_is_passed_over_is_counted_and_all_else_is_done(
    ranks: list[int], how: tuple[int, bool], ways: Any, bad: set[int], durability: str
) -> None:
    workers, ordered = how
    world = LoopWorld(broken={(tried, number) for tried in range(20) for number in bad})
    attempt = with_amap(
        SOURCES["range"],
        8,
        workers=workers,
        ordered=ordered,
        ranks=ranks,
        durability=durability,
        skip=Skip(on=(BrokenError,), limit=8),
    )
    run_until_done(world, attempt, ways)
    Laws(count=8, parallel=True, skipped=frozenset(bad)).check(world.diary)
    assert world.record is not None
    assert (world.record["n"], world.record["skipped"]) == (8, len(bad))


ways_through = st.one_of(
    st.just(lambda row: with_for(row, 8, durability="sync", result="count")),
    st.just(lambda row: with_async_for(row, 8, durability="sync", result="count")),
    st.builds(
        lambda ranks, how: (
            lambda row: with_amap(row, 8, workers=how[0], ordered=how[1], ranks=ranks, durability="sync")
        ),
        st.permutations(range(8)),
        in_parallel,
    ),
    st.builds(lambda how: lambda row: with_map(row, 8, workers=how[0], ordered=how[1], durability="sync"), in_parallel),
)


@given(
    source=st.sampled_from(sorted(IN_PLACE)),
    ways=st.dictionaries(st.integers(1, 60), st.just("crash"), min_size=1, max_size=5),
    through=st.lists(ways_through, min_size=2, max_size=5),
)
@settings(max_examples=80, deadline=None)
def test_what_one_way_of_going_through_left_another_finishes(source: str, ways: Any, through: list[Any]) -> None:
    def attempt(world: LoopWorld) -> Any:
        return through[world.attempt % len(through)](SOURCES[source])(world)

    world = LoopWorld()
    assert run_until_done(world, attempt, ways) == 8
    Laws(count=8, again=8, parallel=True).check(world.diary)


# --- a record of one source, read by another one ------------------------------------------------------------------


def rows_of(element: Any) -> list[Any]:
    """What an element is made of, and what it is called whatever the page it is on."""
    return list(element.items) if isinstance(element, Page) else element if isinstance(element, list) else [element]


def left(source: Any, at: int, **options: Any) -> tuple[Any, list[Any]]:
    """A first attempt that leaves with so many elements done, and their rows."""
    first, done = task_context(), list[Any]()
    for number, element in enumerate(checkpoint(source, name="l", context=first.context, **options)):
        if number == at:
            break
        done += rows_of(element)
    return first, done


def left_with_holes(source: Any, ranks: list[int], at: int) -> tuple[Any, list[Any]]:
    """The same of an `amap` of four workers, which leaves holes."""
    first, done = task_context(), list[Any]()

    async def main() -> None:
        turns, numbers = Turns(ranks), iter(range(len(ranks)))

        async def work(element: Any) -> Any:
            await turns.wait(next(numbers))
            return element

        loop = checkpoint(source, name="l", context=first.context)
        async with turns, loop:
            async for element in loop.amap(work, workers=4):
                if len(done) == at:
                    break
                done.append(element)

    on_event_loop(main())
    return first, [row for element in done for row in rows_of(element)]


def all_rows(source: Any, **options: Any) -> list[Any]:
    """The rows of a source."""
    return [row for element in checkpoint(source, name="x", store=MemoryStore(), **options) for row in rows_of(element)]


def given_to(attempt: Any, source: Any, **options: Any) -> list[Any]:
    """The rows that the next attempt is given."""
    loop = checkpoint(source, name="l", context=attempt.retry().context, **options)
    return [row for element in loop for row in rows_of(element)]


def listing(text: str) -> Files[str]:
    return Files(text.split())


def in_lists(count: int, size: int) -> Batches[Any]:
    return Batches(range(count), size=size)


GROWN: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "nothing": (lambda: tokens(10), lambda: tokens(10)),
    "pages were added": (lambda: offsets(10), lambda: offsets(14)),
    "files were added": (lambda: listing("a b c d e f"), lambda: listing("a b c d e f g h")),
    "a list grew": (lambda: list(range(6)), lambda: list(range(9))),
    "a list became a generator": (lambda: list(range(6)), lambda: (number for number in range(6))),
    "larger pages from an offset": (lambda: offsets(12), lambda: offsets(12, limit=3)),
    "smaller pages from an offset": (lambda: offsets(12, limit=4), lambda: offsets(12, limit=1)),
    "larger pages behind a key": (lambda: keyset(12), lambda: keyset(12, limit=3)),
    "larger lists": (lambda: in_lists(12, 2), lambda: in_lists(12, 3)),
    "the server chose larger pages": (lambda: tokens(12), lambda: tokens(12, size=3)),
}
"""What a position survives: before and after."""


@pytest.mark.parametrize("on_change", ["restart", "fail", "resume"])
@pytest.mark.parametrize("change", GROWN)
def test_what_may_grow_or_be_cut_otherwise_goes_on_without_a_gap(change: str, on_change: Any) -> None:
    before, after = GROWN[change]
    every_row = all_rows(after())
    for at in range(len(list(as_source(before()).elements(None)))):
        first, done = left(before(), at)
        assert done + given_to(first, after(), on_change=on_change) == every_row


@pytest.mark.parametrize("change", GROWN)
@given(ranks=st.permutations(range(12)), at=st.integers(0, 2))
@settings(max_examples=20, deadline=None)
def test_nor_is_there_a_gap_when_elements_were_done_ahead(change: str, ranks: list[int], at: int) -> None:
    before, after = GROWN[change]
    first, done = left_with_holes(before(), ranks, at)
    assert set(all_rows(after())) - set(done) <= set(given_to(first, after(), on_change="resume"))


@pytest.mark.parametrize(
    ("before", "after", "count"), [(offsets(12), offsets(12, limit=3), 4), (range(6), range(3), 3)]
)
def test_what_was_done_ahead_and_never_comes_again_is_not_counted(before: Any, after: Any, count: int) -> None:
    first, _ = left_with_holes(before, [5, 4, 3, 2, 1, 0], 3)
    assert first.task_store.values[KEY]["ahead"]
    assert given_to(first, after) == all_rows(after)
    record = first.task_store.values[KEY]
    assert (record["n"], record.get("ahead")) == (count, None)


CHANGED: dict[str, tuple[Callable[[], Any], Callable[[], Any], dict[str, Any]]] = {
    "another kind": (lambda: list(range(6)), lambda: offsets(12), {}),
    "rows for pages": (lambda: tokens(12), lambda: tokens(12), {"each": True}),
    "another fingerprint": (lambda: range(6), lambda: range(6), {"fingerprint": {"bucket": "b"}}),
    "another size": (lambda: page_numbers(12), lambda: page_numbers(12, size=3), {}),
    "another step": (
        lambda: TimeSlices(START, START + 12 * HOUR, HOUR),
        lambda: TimeSlices(START, START + 12 * HOUR, 2 * HOUR),
        {},
    ),
    "another column": (
        lambda: Keyset(lambda after, limit: a_table(after, limit, "id"), key="id", limit=2),
        lambda: Keyset(lambda after, limit: a_table(after, limit, "at"), key="at", limit=2),
        {},
    ),
}
"""What a position does not survive."""


def a_table(after: int | None, limit: int, column: str) -> list[Any]:
    rows = [{"id": number, "at": 10 * number} for number in range(12)]
    return [row for row in rows if after is None or row[column] > after][:limit]


@pytest.mark.parametrize("change", CHANGED)
def test_what_changed_starts_over_or_fails_with_nothing_touched(change: str) -> None:
    before, after, options = CHANGED[change]
    every_row = all_rows(after(), **options)
    for at in range(1, 6):
        first, _ = left(before(), at)
        kept = first.task_store.values
        with pytest.raises(SourceChangedError, match="changed: "):
            given_to(first, after(), on_change="fail", **options)
        assert first.task_store.values == kept
        assert given_to(first, after(), on_change="restart", **options) == every_row


@pytest.mark.parametrize("change", CHANGED)
def test_what_starts_over_forgets_what_was_done_ahead(change: str) -> None:
    before, after, options = CHANGED[change]
    first, done = left_with_holes(before(), list(reversed(range(12))), 3)
    assert done
    assert given_to(first, after(), **options) == all_rows(after(), **options)
    second, _ = left_with_holes(before(), list(reversed(range(12))), 3)
    assert [
        row for element in checkpoint(before(), name="l", context=second.clear().context) for row in rows_of(element)
    ] == all_rows(before())


@given(ranks=st.permutations(range(6)), at=st.integers(0, 5))
@settings(max_examples=20, deadline=None)
def test_another_fingerprint_is_gone_on_from_by_policy(ranks: list[int], at: int) -> None:
    first, done = left_with_holes(range(6), ranks, at)
    again = given_to(first, range(6), fingerprint={"bucket": "b"}, on_change="resume")
    assert sorted(done + again) == list(range(6))


@given(ranks=st.permutations(range(6)), at=st.integers(0, 5), steps=st.tuples(st.integers(1, 3), st.integers(1, 3)))
@settings(max_examples=40, deadline=None)
def test_no_hour_is_left_out_when_slices_become_longer(ranks: list[int], at: int, steps: tuple[int, int]) -> None:
    def cut(step: int) -> TimeSlices:
        return TimeSlices(START, START + 6 * HOUR, step * HOUR)

    def hours(slices: list[TimeSlice]) -> set[Any]:
        return {piece.start + n * HOUR for piece in slices for n in range((piece.end - piece.start) // HOUR)}

    first, done = left_with_holes(cut(steps[0]), ranks, at)
    again = given_to(first, cut(steps[1]), on_change="resume")
    assert hours(done + again) == hours(list(checkpoint(cut(1), name="x", store=MemoryStore())))


def test_another_kind_of_position_is_never_gone_on_from() -> None:
    for change in ("another kind", "rows for pages"):
        before, after, options = CHANGED[change]
        first, _ = left(before(), 2)
        with pytest.raises(SourceChangedError):
            given_to(first, after(), on_change="resume", **options)


LISTINGS = {
    "among the finished": ("a b c d e f", "a x b c d e f"),
    "at the front": ("a b c d e f", "x a b c d e f"),
    "behind the finished": ("a b c d e f", "a b c x d e f"),
    "out of order": ("a b c d e f", "f e d c b a"),
    "one is gone": ("a b c d e f", "a c d e f"),
    "one became another": ("a b c d e f", "x b c d e f"),
}


@pytest.mark.parametrize("change", LISTINGS)
def test_a_listing_that_changed_among_the_finished_files_starts_over(change: str) -> None:
    before, after = (text.split() for text in LISTINGS[change])
    for at in range(6):
        first, done = left(Files(before), at)
        assert done == before[:at]
        if after[:at] == done:
            assert given_to(first, Files(after)) == after[at:]
            continue
        with pytest.raises(SourceChangedError):
            given_to(first, Files(after), on_change="fail")
        assert given_to(first, Files(after)) == after


@pytest.mark.parametrize("change", LISTINGS)
@given(ranks=st.permutations(range(6)), at=st.integers(0, 6))
@settings(max_examples=20, deadline=None)
def test_nor_is_a_file_passed_over_when_others_were_done_ahead(change: str, ranks: list[int], at: int) -> None:
    before, after = (text.split() for text in LISTINGS[change])
    first, done = left_with_holes(Files(before), ranks, at)
    assert set(after) - set(done) <= set(given_to(first, Files(after)))


def test_a_key_of_more_columns_is_no_way_to_go_on() -> None:
    """A function hides how many there are until the first row is there."""
    first, _ = left(Keyset(lambda after, limit: a_table(after, limit, "id"), key=lambda row: row["id"], limit=2), 2)
    wider = Keyset(lambda after, limit: a_table(after, limit, "id"), key=lambda row: (row["id"], row["at"]), limit=2)
    with pytest.raises(RowOrderError, match="columns"):
        given_to(first, wider)


@given(sizes=st.tuples(st.integers(1, 4), st.integers(1, 4)), at=st.integers(0, 12))
@settings(max_examples=40, deadline=None)
def test_rows_of_pages_that_were_cut_anew_are_all_delivered(sizes: tuple[int, int], at: int) -> None:
    """The page in hand may come again from its start."""
    first, done = left(offsets(12, limit=sizes[0]), at, each=True)
    again = given_to(first, offsets(12, limit=sizes[1]), each=True)
    assert again == list(range(12 - len(again), 12))
    assert len(done) + len(again) - 12 in range(sizes[0])


@given(at=st.integers(0, 5), row=st.integers(0, 6))
def test_a_row_that_was_put_into_the_page_in_hand_is_delivered(at: int, row: int) -> None:
    def pages(second: list[str]) -> CursorToken[str]:
        return CursorToken(lambda token: Page(second) if token else Page(["a", "b"], "second"))

    before = ["c", "d", "e", "f"]
    after = [*before[:row], "new", *before[row:]]
    first, done = left(pages(before), at, each=True)
    assert {*done, *given_to(first, pages(after), each=True)} == {*"abcdef", "new"}


@given(at=st.integers(0, 5), each=st.booleans())
def test_a_token_that_expired_is_started_over_from(at: int, each: bool) -> None:  # noqa: FBT001
    def fetch(token: str | None) -> Page[int]:
        if token is not None and not fresh:
            raise KeyError(token)
        fresh.append(token)
        page: Page[int] = tokens(12)._fetch(token)
        return page

    fresh: list[Any] = []
    first, done = left(tokens(12), at, each=each)
    again = given_to(first, CursorToken(fetch, expired=KeyError), each=each)
    assert again == list(range(len(done) if len(done) < 2 else 0, 12)), "the first page needs no token"


@given(at=st.integers(0, 4), later=st.integers(0, 5))
def test_an_end_that_was_now_stays_the_end_of_the_first_attempt(at: int, later: int) -> None:
    def until(hours: int) -> TimeSlices:
        return TimeSlices(START, step=HOUR, now=lambda: START + hours * HOUR)

    first, done = left(until(5), at)
    assert len(done + given_to(first, until(5 + later))) == 5


# --- stalls -------------------------------------------------------------------------------------------------------


def deadly(number: int, *, count: int = 5, **options: Any) -> Callable[[LoopWorld], None]:
    """An attempt that is killed by one of the elements, as by a lack of memory."""

    def attempt(world: LoopWorld) -> None:
        this = try_of(world)
        for element in checkpoint(range(count), name="l", durability="sync", context=this.context, **options):
            with world.body(this, element):
                if element == number:
                    world.die()

    return attempt


def cause_of(error: pytest.ExceptionInfo[BaseException]) -> BaseException | None:
    return error.value.__cause__


@pytest.mark.parametrize("number", [0, 1, 4])
@pytest.mark.parametrize("max_stalls", [1, 3])
def test_an_element_that_kills_every_attempt_fails_the_task_without_a_retry(number: int, max_stalls: int) -> None:
    world = LoopWorld()
    with pytest.raises(NeverSucceededError) as error:
        run_until_done(world, deadly(number, max_stalls=max_stalls), {})
    assert isinstance(cause_of(error), StalledError)
    assert Counter(world.delivered())[1, number] == 1
    deaths = sum(found == number for _, found in world.delivered())
    assert deaths == max_stalls + (number > 0), "the attempt that came as far as here is not counted"
    assert world.kept == set(range(number))


@pytest.mark.parametrize("number", [0, 1, 4])
def test_or_is_passed_over_by_policy(number: int) -> None:
    world = LoopWorld()
    run_until_done(world, deadly(number, max_stalls=2, skip=Skip(stalled=True)), {})
    Laws(count=5, again=1, skipped=frozenset({number})).check(world.diary)
    assert world.record is not None
    assert world.record["skipped"] == 1


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_an_element_that_raises_has_not_stalled(durability: str) -> None:
    world = LoopWorld(broken={(tried, 2) for tried in range(9)})
    attempt = with_for(SOURCES["range"], 4, durability=durability, max_stalls=1)
    run_until_done(world, attempt, {}, (BrokenError,))
    assert world.attempt == 9
    Laws(count=4, again=1).check(world.diary)


@given(ways=st.dictionaries(st.integers(1, 60), st.just("crash"), max_size=2))
@settings(max_examples=40, deadline=None)
def test_fewer_crashes_than_max_stalls_never_fail_a_loop(ways: Any) -> None:
    world = LoopWorld()
    run_until_done(world, with_for(SOURCES["range"], 4, durability="exit", max_stalls=3), ways)
    Laws(count=4).check(world.diary)


def test_coming_further_in_a_loop_inside_is_no_stall() -> None:
    """Every attempt is killed by the second element that it is given: it comes further by one."""

    def attempt(world: LoopWorld) -> None:
        this, given_here = try_of(world), list[int]()
        outer = checkpoint(range(2), name="l", durability="sync", max_stalls=1, context=this.context)
        for letter in outer:
            for number in checkpoint(range(5), name="inside", within=outer):
                given_here.append(number)
                with world.body(this, 5 * letter + number):
                    if len(given_here) == 2:
                        world.die()

    world = LoopWorld(2, 5)
    run_until_done(world, attempt, {})
    Laws(count=10, again=1).check(world.diary)
    assert world.attempt == 10


# --- store calls --------------------------------------------------------------------------------------------------


def gone_through(loop: Any, clock: FakeClock, seconds: float) -> None:
    for _ in loop:
        clock.sleep(seconds)


def awaited_through(loop: Any, clock: FakeClock, seconds: float) -> None:
    async def main() -> None:
        async for _ in loop:
            clock.sleep(seconds)

    on_event_loop(main())


def mapped_through(loop: Any, clock: FakeClock, seconds: float) -> None:
    for _ in loop.map(str, workers=3):
        clock.sleep(seconds)


def amapped_through(loop: Any, clock: FakeClock, seconds: float) -> None:
    async def work(element: Any) -> None:
        pass

    async def main() -> None:
        async for _ in loop.amap(work, workers=3):
            clock.sleep(seconds)

    on_event_loop(main())


def nested_through(loop: Any, clock: FakeClock, seconds: float) -> None:
    for _ in loop:
        for _ in on_clock(checkpoint(range(10), name="inside", within=loop), clock.monotonic):
            clock.sleep(seconds / 10)


@pytest.mark.parametrize("count", [1, 100, 10_000])
@pytest.mark.parametrize("source", ["range", "rows of tokens"])
@pytest.mark.parametrize("go", [gone_through, awaited_through, mapped_through, amapped_through, nested_through])
def test_store_calls_are_two_to_open_one_to_finish_and_one_a_second_between(
    go: Callable[..., None], source: str, count: int
) -> None:
    if go is nested_through and count > 100:
        count //= 10
    for seconds in (0.0, 1 / 64):
        store, clock, given_source = FakeTaskStore(), FakeClock(), SOURCES[source]
        options = {**given_source.options, "context": {"task_state_store": store}}
        loop = on_clock(checkpoint(given_source.make(count), name="l", **options), clock.monotonic)
        go(loop, clock, seconds)
        calls = Counter(operation.name for operation in store.log)
        between = int(clock.monotonic())
        assert set(calls) == {"get", "set"}
        assert calls["get"] == 1
        assert calls["set"] - 2 in {between, max(between - 1, 0)}, "the last may fall together with the end"
