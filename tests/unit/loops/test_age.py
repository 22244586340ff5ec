"""A token counts from when it was received: however often it is saved, and whatever the clock does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_resume import checkpoint
from airflow_resume.errors import TokenExpiredError
from airflow_resume.loops import Checkpoint, CursorToken, Page, Source
from airflow_resume.loops.sources.token_age import MAX_KEPT, Received
from airflow_resume.store import MemoryStore

KEY = "resume.loop.l"
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


class Clock:
    """Both clocks. `back` moves the time of day alone."""

    def __init__(self) -> None:
        self.now_is, self.seconds = START, 0.0

    def now(self) -> datetime:
        return self.now_is

    def monotonic(self) -> float:
        return self.seconds

    def pass_by(self, time: timedelta) -> None:
        self.now_is += time
        self.seconds += time.total_seconds()

    def put_back(self, time: timedelta) -> None:
        self.now_is -= time

    def reboot(self) -> None:
        """Another machine counts from elsewhere."""
        self.seconds = 7.0


class Api:
    """Pages 0 to 5 of two rows; a token is the number of a page, and whoever holds one sees when it is asked for."""

    def __init__(self, clock: Clock, store: MemoryStore | None = None) -> None:
        self.clock, self.store = clock, store or MemoryStore()
        self.asked: list[int | None] = []

    def fetch(self, token: int | None) -> Page[int]:
        self.asked.append(token)
        number = token or 0
        return Page([number, number], number + 1 if number < 5 else None)

    def loop(self, *, on_expired: Any = "restart", max_age: timedelta | None = HOUR, **options: Any) -> Checkpoint[Any]:
        clock = self.clock
        source = CursorToken(
            self.fetch, max_age=max_age, on_expired=on_expired, now=clock.now, monotonic=clock.monotonic
        )
        loop = checkpoint(source, name="l", store=self.store, durability="sync", **options)
        loop._run.plan = replace(loop._run.plan, now=clock.now)
        return loop

    def take(self, elements: int, **options: Any) -> list[Any]:
        """The first elements of an attempt that dies in the one after them."""
        taken: list[Any] = []
        with suppress(ZeroDivisionError):
            for element in self.loop(**options):
                if len(taken) == elements:
                    raise ZeroDivisionError
                taken.append(element if isinstance(element, int) else element.items[0])
        return taken

    @property
    def record(self) -> dict[str, Any]:
        found: Any = self.store.values[KEY]
        return found  # type: ignore[no-any-return]


@pytest.fixture
def api() -> Api:
    return Api(Clock())


# --- between attempts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("each", [False, True])
def test_retries_that_come_faster_than_it_expires_do_not_renew_it(api: Api, each: bool) -> None:  # noqa: FBT001
    assert api.take(2 if not each else 4, each=each) == ([0, 1] if not each else [0, 0, 1, 1])
    for _ in range(5):
        api.clock.pass_by(11 * MINUTE)
        assert api.take(0, each=each) == []
        assert api.record["pos_at"] == "2026-01-01T00:00:00Z"
    assert api.asked[-1] == 2
    api.clock.pass_by(11 * MINUTE)
    assert api.take(1, each=each) == [0]
    assert None in api.asked[-2:]


def test_within_a_page_it_is_that_of_the_page(api: Api) -> None:
    """A later attempt gets the page again, with the token that was received before it."""
    assert api.take(2, each=True) == [0, 0]
    api.clock.pass_by(40 * MINUTE)
    assert api.take(1, each=True) == [1]
    assert api.record["pos"]["index"] == 1
    assert api.record["pos_at"] == "2026-01-01T00:00:00Z"
    api.clock.pass_by(40 * MINUTE)
    assert api.take(1, each=True) == [0]


def test_a_body_that_took_long_makes_its_token_older(api: Api) -> None:
    loop = iter(api.loop())
    next(loop)
    api.clock.pass_by(30 * MINUTE)
    next(loop)
    assert api.record["pos_at"] == "2026-01-01T00:00:00Z"


def test_it_fails_by_policy_and_tells_the_age(api: Api) -> None:
    api.take(2)
    api.clock.pass_by(2 * HOUR)
    with pytest.raises(TokenExpiredError, match=r"received 2:00:00 ago[^Z]*Nothing was touched") as caught:
        api.take(1, on_expired="fail")
    assert "clear the task" not in str(caught.value).lower()
    assert api.record["n"] == 2


def test_the_first_page_has_no_token_and_never_gets_too_old(api: Api) -> None:
    assert api.take(0, on_expired="fail") == []
    assert "pos_at" not in api.record
    api.clock.pass_by(9 * HOUR)
    assert api.take(1, on_expired="fail") == [0]


def test_a_loop_that_is_done_never_gets_too_old(api: Api) -> None:
    assert api.take(9) == [0, 1, 2, 3, 4, 5]
    assert "pos_at" not in api.record
    api.clock.pass_by(9 * HOUR)
    assert api.take(9, on_expired="fail") == []


def test_without_max_age_nothing_is_kept(api: Api) -> None:
    api.take(2, max_age=None)
    assert "pos_at" not in api.record
    api.clock.pass_by(9 * HOUR)
    assert api.take(1, max_age=None) == [2]


def test_an_old_record_counts_from_when_it_was_written_and_stays_that_old(api: Api) -> None:
    api.take(2)
    del api.record["pos_at"]
    for _ in range(5):
        api.clock.pass_by(11 * MINUTE)
        assert api.take(0) == []
        assert api.record["pos_at"] == "2026-01-01T00:00:00Z"
    api.clock.pass_by(11 * MINUTE)
    assert api.take(1) == [0]


class Minutely(Source[list[int]]):
    """Pages of three rows whose positions get too old, and that knows of none when it came."""

    kind = "minutely"
    max_age = HOUR

    def elements(self, position: Any) -> Iterator[tuple[list[int], Any]]:
        for number in range(position or 0, 3):
            yield [3 * number, 3 * number + 1, 3 * number + 2], number + 1


def test_rows_do_not_renew_the_position_of_their_page_where_only_the_loop_knows_its_age() -> None:
    clock, store = Clock(), MemoryStore()
    loop = checkpoint(Minutely(), name="l", store=store, durability="sync", each=True)
    loop._run.plan = replace(loop._run.plan, now=clock.now)
    received = []
    for _ in loop:
        record: Any = store.values[KEY]
        received.append(record.get("pos_at"))
        clock.pass_by(20 * MINUTE)
    times = [None, "2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z"]
    assert received == [None, None, None, *[times[1]] * 3, *[times[2]] * 3]


@pytest.mark.parametrize("each", [False, True])
def test_the_clock_of_the_source_is_the_one_that_counts_at_the_opening(api: Api, *, each: bool) -> None:
    """A clock that stands at the beginning of 2026 finds no token too old that it has seen."""

    def loop() -> Checkpoint[Any]:
        clock = api.clock
        source = CursorToken(api.fetch, max_age=HOUR, on_expired="fail", now=clock.now, monotonic=clock.monotonic)
        make: Any = checkpoint
        made: Checkpoint[Any] = make(source, name="l", store=api.store, durability="sync", each=each)
        return made

    for number, _ in enumerate(loop()):
        if number == 3:
            break
    api.clock.pass_by(50 * MINUTE)
    next(iter(loop()))
    assert api.record["pos_at"] == "2026-01-01T00:00:00Z"
    api.clock.pass_by(20 * MINUTE)
    with pytest.raises(TokenExpiredError, match="received 1:10:00 ago"):
        next(iter(loop()))


# --- in mid-run -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("each", [False, True])
def test_a_token_that_got_too_old_in_a_body_is_not_sent(api: Api, each: bool) -> None:  # noqa: FBT001
    """The loop starts over, once."""
    seen: list[Any] = []
    for element in api.loop(each=each):
        number = element if each else element.items[0]
        if number == 2 and seen.count(0) == (2 if each else 1):
            api.clock.pass_by(2 * HOUR)
        seen.append(number)
    rows = 2 if each else 1
    first = [number for number in (0, 1, 2) for _ in range(rows)]
    assert api.asked == [None, 1, 2, None, 1, 2, 3, 4, 5]
    assert seen[: len(first)] == first
    assert seen[len(first) :] == [number for number in range(6) for _ in range(rows)]
    assert api.record["done"]


def test_it_fails_there_by_policy(api: Api) -> None:
    with pytest.raises(TokenExpiredError, match=r"token 1 of the next page was received 2:00:00 ago.*max_age=1:00:00"):
        for _ in api.loop(on_expired="fail"):
            api.clock.pass_by(2 * HOUR)
    assert (api.asked, api.record["n"]) == ([None], 1)


def test_a_second_time_it_fails(api: Api) -> None:
    with pytest.raises(TokenExpiredError, match="smaller pages"):
        for _ in api.loop():
            api.clock.pass_by(2 * HOUR)
    assert api.asked == [None, None]


def test_a_token_of_an_earlier_attempt_that_gets_too_old_before_it_is_used(api: Api) -> None:
    api.take(2)
    api.clock.pass_by(50 * MINUTE)
    with api.loop() as loop:
        api.clock.pass_by(20 * MINUTE)
        assert next(iter(loop)).items == [0, 0]


def test_a_token_within_its_time_is_sent(api: Api) -> None:
    for _ in api.loop(on_expired="fail"):
        api.clock.pass_by(59 * MINUTE)
    assert api.record["done"]


def test_on_an_event_loop_and_in_a_map_too(api: Api) -> None:
    async def run() -> list[int]:
        seen = []
        async with api.loop() as loop:
            async for page in loop:
                seen.append(page.items[0])
                if seen == [0, 1]:
                    api.clock.pass_by(2 * HOUR)
        return seen

    assert asyncio.run(run()) == [0, 1, 0, 1, 2, 3, 4, 5]

    def work(page: Page[int]) -> int:
        if len(results) == 1 and page.items[0] == 1:
            api.clock.pass_by(2 * HOUR)
        return page.items[0]

    api.store.values.clear()
    results: list[int] = []
    for result in api.loop().map(work, workers=1):
        results.append(result)  # noqa: PERF402  work looks at it
    assert sorted(set(results)) == [0, 1, 2, 3, 4, 5]
    assert api.record["done"]


# --- a loop inside another ------------------------------------------------------------------------------------


def inner_pages(api: Api, elements: int, *, old: bool = False) -> list[int]:
    outer = checkpoint(["a"], name="l", store=api.store, durability="sync")
    outer._run.plan = replace(outer._run.plan, now=api.clock.now)
    clock = api.clock
    taken: list[int] = []
    with suppress(ZeroDivisionError), outer:
        for _ in outer:
            source = CursorToken(api.fetch, max_age=HOUR, now=clock.now, monotonic=clock.monotonic)
            inner = checkpoint(source, name="in", within=outer)
            inner._run.plan = replace(inner._run.plan, now=clock.now)
            for page in inner:
                if len(taken) == elements:
                    raise ZeroDivisionError
                taken.append(page.items[0])
    if old:
        record = json.loads(json.dumps(api.record).replace('"pos_at"', '"ignored"'))
        api.store.values[KEY] = record
    return taken


@pytest.mark.parametrize("old", [False, True])
def test_so_it_is_in_a_loop_inside_another(api: Api, old: bool) -> None:  # noqa: FBT001
    """Also one of a record that told no times, in an attempt that dies before it comes to the inner loop."""
    assert inner_pages(api, 2, old=old) == [0, 1]
    for _ in range(5):
        api.clock.pass_by(11 * MINUTE)
        with suppress(ZeroDivisionError):
            outer = checkpoint(["a"], name="l", store=api.store)
            outer._run.plan = replace(outer._run.plan, now=api.clock.now)
            next(iter(outer))
    api.clock.pass_by(MINUTE)
    assert inner_pages(api, 1) == [2]
    assert api.record["inner"]["in"]["pos_at"] == "2026-01-01T00:56:00Z"
    api.clock.pass_by(2 * HOUR)
    assert inner_pages(api, 1) == [0]


# --- clocks that are moved ------------------------------------------------------------------------------------


def test_a_clock_that_is_put_back_in_mid_run_does_not_make_it_younger(api: Api) -> None:
    loop = iter(api.loop())
    next(loop)
    api.clock.put_back(24 * HOUR)
    api.clock.pass_by(50 * MINUTE)
    next(loop)
    api.clock.pass_by(20 * MINUTE)
    assert next(loop).items == [2, 2]
    api.clock.put_back(24 * HOUR)
    api.clock.pass_by(61 * MINUTE)
    assert next(loop).items == [0, 0]


def test_a_clock_that_was_put_back_before_an_attempt_makes_it_no_younger_than_new(api: Api) -> None:
    api.take(2)
    api.clock.put_back(24 * HOUR)
    api.clock.reboot()
    assert api.take(0) == []
    assert api.record["pos_at"] == "2025-12-31T00:00:00Z"
    api.clock.pass_by(61 * MINUTE)
    assert api.take(1) == [0]


# --- parts ----------------------------------------------------------------------------------------------------


class Leased(Source[int]):
    """A source of one's own that says `max_age`, and keeps no times."""

    kind = "leased"
    max_age = HOUR
    on_expired = "restart"

    def elements(self, position: Any) -> Iterator[tuple[int, Any]]:
        for number in range(position or 0, 4):
            yield number, number + 1


def test_a_source_of_ones_own_counts_from_when_the_loop_first_had_the_position() -> None:
    clock, store = Clock(), MemoryStore()

    def first_of_attempt() -> int:
        loop = checkpoint(Leased(), name="l", store=store, durability="sync")
        loop._run.plan = replace(loop._run.plan, now=clock.now)
        return next(iter(loop))

    loop = checkpoint(Leased(), name="l", store=store, durability="sync")
    loop._run.plan = replace(loop._run.plan, now=clock.now)
    assert [number for number, _ in zip(loop, range(2), strict=False)] == [0, 1]
    for _ in range(5):
        clock.pass_by(11 * MINUTE)
        assert first_of_attempt() == 2
    clock.pass_by(11 * MINUTE)
    assert first_of_attempt() == 0


def test_of_tokens_only_the_newest_are_remembered() -> None:
    clock = Clock()
    received = Received(clock.now, clock.monotonic)
    for number in range(MAX_KEPT + 1):
        received.note(number)
    assert received.when(0) is None
    assert received.age(0) == timedelta(0)
    assert received.when(1) == START
