from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest

from airflow_resume import checkpoint
from airflow_resume.channel import InlineChannel, LatestWriter
from airflow_resume.errors import (
    EndlessSourceError,
    InvalidKeyError,
    InvalidValueError,
    LoopError,
    NoStateStoreError,
    SourceChangedError,
    StoreUnavailableError,
    SupersededError,
    UnreadableRecordError,
    UsageError,
    ValueTooLargeError,
)
from airflow_resume.loops import Batches, Checkpoint, CursorToken, Page
from airflow_resume.loops.keeping.keeper import Keeper
from airflow_resume.loops.plan import Keeping
from airflow_resume.store import MemoryStore
from airflow_resume.testing import FakeTaskStore, TaskAttempt, task_context
from tests.support.loops.worlds import KEY, LoopWorld, at_every_ack, on_clock, run_until_done, tokens, try_of

# --- leaving --------------------------------------------------------------------------------------------------


def leave_by_break(loop: Checkpoint[int]) -> None:
    for number in loop:
        if number == 2:
            break


def leave_by_return(loop: Checkpoint[int]) -> int | None:
    for number in loop:
        if number == 2:
            return number
    return None


def leave_by_error(loop: Checkpoint[int]) -> None:
    with pytest.raises(KeyError):
        for number in loop:
            if number == 2:
                raise KeyError


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("leave", [leave_by_break, leave_by_return, leave_by_error])
@pytest.mark.parametrize("managed", [True, False], ids=["with", "for"])
def test_leaving_in_any_way_saves_what_is_acked_and_not_the_element_in_hand(
    durability: Any,
    leave: Callable[[Checkpoint[int]], object],
    managed: bool,  # noqa: FBT001
) -> None:
    store = MemoryStore()
    loop = checkpoint(range(5), name="l", durability=durability, store=store)
    if managed:
        with loop:
            leave(loop)
    else:
        leave(loop)
    record: Any = store.values[KEY]
    assert record["pos"] == 2  # type: ignore[index, call-overload]
    assert list(checkpoint(range(5), name="l", store=store)) == [2, 3, 4]


def test_a_finished_loop_yields_nothing_and_keeps_its_state() -> None:
    store = MemoryStore()
    with checkpoint(range(3), name="l", store=store) as first:
        for number in first:
            first.state["last"] = number
    with checkpoint(range(3), name="l", store=store) as again:
        assert list(again) == []
        assert again.state == {"last": 2}
        assert again.done


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"none": None, "zero": 0},
        {"at": datetime(2026, 1, 1, tzinfo=timezone.utc), "pair": (1, 2)},
        {"~datetime": "not one"},
    ],
)
def test_any_state_comes_back_as_it_was_an_emptied_one_too(state: dict[str, Any]) -> None:
    store = MemoryStore()
    with checkpoint([1, 2], name="l", store=store) as loop:
        for number in loop:
            loop.state = {"first": 1} if number == 1 else dict(state)
    with checkpoint([1, 2], name="l", store=store) as again:
        assert again.state == state


def test_what_the_body_of_the_element_in_hand_did_to_the_state_is_not_saved() -> None:
    store = MemoryStore()
    with pytest.raises(KeyError), checkpoint([1, 2], name="l", store=store) as loop:
        for number in loop:
            loop.state["sum"] = loop.state.get("sum", 0) + number
            if number == 2:
                raise KeyError
    with checkpoint([1, 2], name="l", store=store) as again:
        assert again.state == {"sum": 1}


def test_a_flush_that_fails_never_replaces_the_error_of_the_body(caplog: pytest.LogCaptureFixture) -> None:
    store = FakeTaskStore()

    class BodyError(Exception):
        pass

    with pytest.raises(BodyError), checkpoint(range(5), name="l", context={"task_state_store": store}) as loop:
        for number in loop:
            if number == 2:
                store.replaced = True
                raise BodyError
    assert "could not be saved" in caplog.text


# --- store calls ----------------------------------------------------------------------------------------------


def calls(store: FakeTaskStore) -> dict[str, int]:
    """How often each was called."""
    return Counter(operation.name for operation in store.log)


@pytest.mark.parametrize("count", [1, 100, 10_000])
def test_opening_costs_two_calls_and_finishing_one_however_many_elements(count: int) -> None:
    store = FakeTaskStore()
    for _ in checkpoint(range(count), name="l", interval=timedelta(hours=1), context={"task_state_store": store}):
        pass
    assert calls(store) == {"get": 1, "set": 2}


def test_sync_writes_once_an_element() -> None:
    store = FakeTaskStore()
    for _ in checkpoint(range(10), name="l", durability="sync", context={"task_state_store": store}):
        pass
    assert calls(store)["set"] == 1 + 10 + 1


def test_async_writes_at_most_once_an_interval() -> None:
    store, seconds = FakeTaskStore(), [0.0]
    loop = checkpoint(range(100), name="l", interval=timedelta(seconds=40), context={"task_state_store": store})
    for _ in on_clock(loop, lambda: seconds[0]):
        seconds[0] += 3
    assert 3 <= calls(store)["set"] <= 9


def test_a_record_is_small_and_readable() -> None:
    store = FakeTaskStore()
    for _ in checkpoint(range(100_000), name="l", interval=timedelta(0), context={"task_state_store": store}):
        pass
    record: Any = store.values[KEY]
    assert len(str(record)) < 450
    assert record["n"] == 100_000


# --- opening --------------------------------------------------------------------------------------------------


def rest(attempt: TaskAttempt, source: Any = range(6), **options: Any) -> list[Any]:
    """What the attempt is given."""
    return list(checkpoint(source, name="l", context=attempt.context, **options))


def half_done(**options: Any) -> TaskAttempt:
    """An attempt that left three elements of six."""
    first = task_context()
    for number in checkpoint(range(6), name="l", context=first.context, **options):
        if number == 3:
            break
    return first


def test_a_cleared_task_starts_over_and_a_retry_goes_on() -> None:
    second = half_done().retry()
    assert rest(second) == [3, 4, 5]
    cleared = second.clear()
    assert rest(cleared) == [0, 1, 2, 3, 4, 5]
    assert rest(cleared.clear(), on_clear="resume") == []


def test_a_change_is_named_and_follows_the_policy(caplog: pytest.LogCaptureFixture) -> None:
    first = half_done(fingerprint={"bucket": "a", "day": 1})
    before = first.task_store.values
    changed = {"bucket": "b", "day": 1}
    second = first.retry()
    with pytest.raises(SourceChangedError, match=r"changed: bucket\. Nothing was touched"):
        rest(second, fingerprint=changed, on_change="fail")
    assert second.task_store.values == before
    third = second.retry()
    assert rest(third, fingerprint=changed, on_change="resume") == [3, 4, 5]
    with caplog.at_level(logging.INFO):
        assert rest(third.retry(), tokens(2, 1)) == [Page([0], "0b1"), Page([1])]
    assert "started over, as the source changed (source, bucket, day)" in caplog.text


def test_a_record_that_cannot_be_read_is_an_error_or_a_new_start() -> None:
    store = MemoryStore()
    store.set(KEY, {"v": 9, "key": KEY})
    with pytest.raises(UnreadableRecordError, match="newer version"):
        list(checkpoint(range(3), name="l", store=store))
    assert store.get(KEY) == {"v": 9, "key": KEY}
    assert list(checkpoint(range(3), name="l", on_unreadable="restart", store=store)) == [0, 1, 2]


def test_a_listing_that_shrank_is_named() -> None:
    store = MemoryStore()
    leave_by_break(checkpoint(range(5), name="l", store=store))
    for shorter in ([0], iter([0])):
        with pytest.raises(SourceChangedError, match="2 elements were done before"):
            list(checkpoint(shorter, name="l", on_change="resume", store=store))
    with pytest.raises(SourceChangedError, match="has changed: it had at least 2 elements, and has 1 now"):
        list(checkpoint([0], name="l", on_change="fail", store=store))
    assert list(checkpoint([0], name="l", store=store)) == [0]


def test_the_log_says_where_the_loop_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    first = half_done()
    with caplog.at_level(logging.INFO):
        rest(first.retry())
    assert "resumed at element 4 of 6, try 2, 0 skipped" in caplog.text


# --- old attempts, stores that are away -----------------------------------------------------------------------


def test_a_replaced_attempt_delivers_nothing() -> None:
    store = FakeTaskStore()
    store.replaced = True
    with pytest.raises(SupersededError):
        list(checkpoint(range(3), name="l", context={"task_state_store": store}))


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_an_attempt_that_is_replaced_in_the_middle_delivers_nothing_more(durability: Any) -> None:
    store, delivered = FakeTaskStore(), list[int]()
    loop = at_every_ack(
        checkpoint(
            range(9), name="l", durability=durability, interval=timedelta(0), context={"task_state_store": store}
        )
    )
    with pytest.raises(SupersededError):
        for number in loop:
            delivered.append(number)
            store.replaced = number >= 2
    assert delivered in ([0, 1, 2], [0, 1, 2, 3])
    record: Any = store.values[KEY]
    assert record["pos"] == 2


class AwayStore(MemoryStore):
    def set(self, key: str, value: Any) -> None:
        if isinstance(value, dict) and value["n"] >= 1:
            raise StoreUnavailableError
        super().set(key, value)


def test_a_store_that_stays_away_stops_the_loop_or_is_borne_by_policy() -> None:
    with pytest.raises(StoreUnavailableError):
        list(checkpoint(range(3), name="l", durability="sync", store=AwayStore()))
    store = AwayStore()
    assert list(checkpoint(range(3), name="l", durability="sync", on_store_error="continue", store=store)) == [0, 1, 2]
    assert list(checkpoint(range(3), name="l", store=MemoryStore())) == [0, 1, 2]


# --- bad input ------------------------------------------------------------------------------------------------


def test_bad_arguments_are_refused_at_the_call() -> None:
    for arguments, error, message in [
        ({"name": "a b"}, InvalidKeyError, "cannot be a name"),
        (
            {"durability": "fast"},
            ValueError,
            "durability='fast' is not a choice\\.\nTake one of 'async', 'sync', 'exit'",
        ),
        ({"on_clear": "no"}, ValueError, "on_clear='no'"),
    ]:
        with pytest.raises(error, match=message):
            checkpoint([1], **{"name": "l", **arguments})  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"checkpoint\(CursorToken\(fetch\), name=\.\.\.\)"):
        checkpoint(7, name="l")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="CursorToken"):
        list(checkpoint(lambda _token: Page([]), name="l", store=MemoryStore()))  # type: ignore[arg-type, return-value]
    with pytest.raises(TypeError, match=r"Pass sorted\(\.\.\.\)"):
        checkpoint({1, 2}, name="l")
    with pytest.raises(TypeError, match="needs a function"):
        CursorToken([1])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="size=0"):
        Batches([1], size=0)


def test_outside_a_task_the_error_says_what_to_do() -> None:
    with pytest.raises(NoStateStoreError, match="pass `store=`"):
        list(checkpoint([1], name="l"))


def test_nothing_is_touched_before_the_first_element_is_asked_for() -> None:
    def fetch(_token: Any) -> Page[int]:
        raise AssertionError

    store = MemoryStore()
    iter(checkpoint(CursorToken(fetch), name="l", store=store))
    assert store.values == {}


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (Page([1], "same"), EndlessSourceError, "would never end"),
        ([1], TypeError, r"Return a Page\(items, next\)"),
        (Page([1], float("nan")), InvalidValueError, "the token after"),
    ],
)
def test_a_fetch_that_answers_nonsense_is_named(answer: Any, error: type[Exception], message: str) -> None:
    def fetch(token: Any) -> Any:
        return Page([0], "same") if token is None else answer

    store = MemoryStore()
    with pytest.raises(error, match=message):
        list(checkpoint(CursorToken(fetch), name="l", store=store))
    assert store.values[KEY]["pos"] == {"token": "same", "rows": 1}  # type: ignore[index, call-overload]


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (float("nan"), InvalidValueError, r"resume\.loop\.l\.state\.x is nan"),
        ("y" * 70_000, ValueTooLargeError, r"biggest part is \$\.x"),
    ],
)
def test_a_state_the_store_would_refuse_stops_before_it_is_acked(
    value: Any, error: type[Exception], message: str
) -> None:
    store = MemoryStore()
    with pytest.raises(error, match=message), checkpoint([1, 2, 3], name="l", store=store) as loop:
        for number in loop:
            if number == 2:
                loop.state["x"] = value
    assert store.values[KEY]["pos"] == 1  # type: ignore[index, call-overload]


def test_a_loop_is_iterated_once() -> None:
    loop = checkpoint([1], name="l", store=MemoryStore())
    list(loop)
    with pytest.raises(LoopError, match="iterated already"):
        iter(loop)


def test_the_element_needs_an_open_loop() -> None:
    with pytest.raises(LoopError, match="not open yet"):
        _ = checkpoint([1], name="l", store=MemoryStore()).element


# --- what a user sees -----------------------------------------------------------------------------------------


def test_an_element_has_the_same_id_in_every_attempt_and_no_other_has_it() -> None:
    seen: list[tuple[int, str]] = []

    def attempt(world: LoopWorld) -> None:
        options: Any = {"durability": "exit", "max_stalls": None, "context": try_of(world).context}
        with checkpoint(range(4), name="l", **options) as loop:
            for number in loop:
                seen.append((number, loop.element.id))
                with world.effect(f"load {number}"):
                    pass

    world = LoopWorld()
    run_until_done(world, attempt, {9: "crash", 20: "crash"})
    assert [str(world.points.passed[number - 1]) for number in world.points.fired] == ["before load 2", "before load 3"]
    ids = dict(seen)
    assert len(seen) == 3 + 4 + 4
    assert len(set(ids.values())) == 4
    assert set(seen) == set(ids.items())


def test_batches_are_lists_of_a_size_and_the_size_may_change_between_attempts() -> None:
    store = MemoryStore()

    def first() -> Iterator[list[int]]:
        for batch in checkpoint(Batches(range(7), size=3), name="l", store=store):
            yield batch
            if batch[0] == 3:
                return

    assert list(first()) == [[0, 1, 2], [3, 4, 5]]
    assert list(checkpoint(Batches(range(7), size=2), name="l", store=store)) == [[3, 4], [5, 6]]


# --- found by trying ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["async", "exit"])
def test_a_refused_write_is_raised_at_the_end_of_the_with_also_after_a_break(durability: Any) -> None:
    """Else a replaced attempt would go on behind the loop."""
    store = FakeTaskStore()
    with (
        pytest.raises(SupersededError),
        checkpoint(range(5), name="l", durability=durability, context={"task_state_store": store}) as loop,
    ):
        for number in loop:
            if number == 2:
                store.replaced = True
                break


def test_a_store_that_is_slow_never_has_more_than_max_uncommitted_waiting() -> None:
    """Writes take 5 s of a clock on which elements take 1 s."""
    seconds, at = [0.0], list[float]()

    class Slow(MemoryStore):
        channel = InlineChannel()

        def set(self, key: str, value: Any) -> None:
            seconds[0] += 5
            at.append(seconds[0])
            super().set(key, value)

    half_a_minute = timedelta(seconds=30)
    loop = checkpoint(range(300), name="l", max_interval=half_a_minute, max_uncommitted=half_a_minute, store=Slow())
    on_clock(loop, lambda: seconds[0])
    for _ in loop:
        seconds[0] += 1
    assert max(later - earlier for earlier, later in pairwise(at)) <= 30 + 5 + 1


@pytest.mark.parametrize("pause", [0.5, 2.0, 2.8, 10.0])
def test_the_loop_waits_for_a_store_as_soon_as_a_write_is_not_completed_for_max_uncommitted(pause: float) -> None:
    nobody = cast("Any", SimpleNamespace(submit=lambda _: None))
    writer = LatestWriter[Any](nobody, lambda _: None, lambda: 0.0)
    patience, interval = timedelta(seconds=3), timedelta(seconds=pause)
    keeping = Keeping(interval=interval, max_interval=interval, max_uncommitted=patience)
    keeper = Keeper("l", keeping=keeping, writer=writer, record=cast("Any", dict), now=0.0)
    waits = next(seconds for tenths in range(1, 200) if keeper.note(seconds := tenths / 10))
    assert waits == pytest.approx(pause + 3, abs=0.11)


def test_a_name_used_twice_in_one_attempt_is_an_error_and_not_the_first_loops_position() -> None:
    context = task_context().context
    list(checkpoint(["a1", "a2"], name="l", context=context))
    with pytest.raises(UsageError, match=r"name=f'orders-\{table\}'"):
        list(checkpoint(["b1", "b2", "b3"], name="l", context=context))


def test_a_loop_left_by_an_error_may_be_taken_up_in_the_same_attempt() -> None:
    context = task_context().context
    leave_by_error(checkpoint(range(4), name="l", context=context))
    assert list(checkpoint(range(4), name="l", context=context)) == [2, 3]


def test_a_token_too_large_to_keep_is_found_before_its_page_is_delivered() -> None:
    with pytest.raises(ValueTooLargeError, match="the token"):
        next(iter(checkpoint(CursorToken(lambda _token: Page([1], "x" * 70_000)), name="l", store=MemoryStore())))


def test_a_deque_is_entered_where_it_was_left() -> None:
    store = MemoryStore()
    leave_by_break(checkpoint(deque(range(4)), name="l", store=store))
    assert list(checkpoint(deque(range(4)), name="l", store=store)) == [2, 3]


def test_a_loop_whose_claim_takes_long_writes_less_often_from_the_start() -> None:
    now, written = 0.0, list[float]()

    class Slow(MemoryStore):
        channel = InlineChannel()

        def set(self, key: str, value: Any) -> None:
            nonlocal now
            now += 0 if written else 1.0
            written.append(now)
            super().set(key, value)

    loop = on_clock(checkpoint(range(30), name="l", store=Slow()), lambda: now)
    for _ in loop:
        now += 0.5  # the interval is one second
    assert len(written) == 2  # the claim, and the end


@pytest.mark.parametrize("field", ["interval", "max_interval", "max_uncommitted"])
@pytest.mark.parametrize(("value", "error"), [(5, TypeError), (timedelta(-1), ValueError)])
def test_a_duration_is_a_timedelta_at_the_call(field: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=field):
        checkpoint([1], name="l", **{field: value})
