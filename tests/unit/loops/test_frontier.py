"""The frontier against a plain set, and how large a record gets."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_resume.attempt import Epoch
from airflow_resume.loops import CursorToken, Page, Source
from airflow_resume.loops.keeping.frontier import FURTHEST_AHEAD, MAX_IDS, Frontier
from airflow_resume.loops.keeping.ledger import Ledger
from airflow_resume.loops.loop_record import Ahead, Level, LoopRecord, Opened
from airflow_resume.loops.sources.given import as_source
from tests.support.loops.worlds import SOURCES, Given, numbers_done


class Walk:
    """One attempt at a map: takes elements, finishes those in flight, and leaves the rest to the next attempt.

    Args:
        given: the kind of the source.
        count: of its elements.
        saved: the position, and what is done ahead, as an earlier attempt left it.
    """

    def __init__(self, given: Given, count: int, saved: tuple[Any, Any]) -> None:
        self.given, self.count = given, count
        source = as_source(given.make(count))
        position, ahead = json.loads(json.dumps(saved))
        self.frontier = Frontier(source, position, None if ahead is None else Ahead.model_validate(ahead))
        self._todo, self._at = source.elements(position), position
        self.flights: dict[int, tuple[int, Any, Any]] = {}

    def take(self) -> tuple[int, bool] | None:
        """Which element comes, and whether it is to be done; None at the end."""
        before = self._at
        element, self._at = next(self._todo, (None, None))
        if element is None:
            return None
        number, flight = self.given.number(element), self.frontier.take(before, self._at)
        if flight is not None:
            self.flights[number] = (flight, before, self._at)
        return number, flight is not None

    def finish(self, number: int) -> None:
        self.frontier.finish(*self.flights.pop(number))

    def saved(self) -> tuple[Any, Any]:
        """What the next attempt is given."""
        ahead = self.frontier.ahead()
        return self.frontier.position, None if ahead is None else ahead.model_dump(mode="json")

    def done(self, low: int) -> set[int]:
        """What that says, when so many are done from the start on."""
        _, ahead = self.saved()
        far = 0 if ahead is None else Ahead.model_validate(ahead).done
        return set(numbers_done({"n": low + far, "ahead": ahead}, ids=self.given.ids(self.count)))


@pytest.mark.parametrize("source", ["list", "files", "tokens", "keyset"])
@given(data=st.data(), count=st.integers(1, 14), workers=st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_a_frontier_is_a_set_that_is_opened_again_and_again(
    source: str, data: st.DataObject, count: int, workers: int
) -> None:
    given_source, done, low = SOURCES[source], set[int](), 0
    walk = Walk(given_source, count, (as_source(given_source.make(count)).first(), None))
    for _ in range(3):
        taken = low
        for _ in range(data.draw(st.integers(0, 2 * count), label="steps")):
            while len(walk.flights) < workers and (found := walk.take()) is not None:
                number, is_to_be_done = found
                assert number == taken
                assert is_to_be_done == (number not in done), "done elements are passed over, and no other"
                taken += 1
            if not walk.flights:
                break
            landed = data.draw(st.sampled_from(sorted(walk.flights)), label="landed")
            walk.finish(landed)
            done.add(landed)
            # What is done and was not taken yet lies behind the watermark until the source yields it.
            low = next(number for number in range(low, taken + 1) if number not in done or number == taken)
            assert walk.done(low) == done
        walk = Walk(given_source, count, walk.saved())
        assert walk.done(low) == done
    rest = [found for found in iter(walk.take, None) if found[1]]
    assert {number for number, _ in rest} == set(range(count)) - done


# --- the size of a record ---------------------------------------------------------------------------------------

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


def size_of_record(ledger: Ledger) -> int:
    """Bytes in the store."""
    at = Opened(try_number=2, epoch=Epoch(max_tries=3), opens=2, where="01234567")
    fresh = LoopRecord(key="resume.loop.l", kind="files", at=at, t0=NOW, ts=NOW, fp={"bucket": "0123456789"})
    record = fresh.model_copy(update={**ledger.fields(), "rate": 123.456, "eta": NOW})
    return len(json.dumps(record.to_json()))


def landing(source: Source[Any], workers: int, pick: Callable[[Sequence[int]], int]) -> Iterator[Ledger]:
    """A map, of which `pick` says which flight lands next; as it is after every landing."""
    ledger = Ledger("resume.loop.l", source, Level(kind=source.kind, pos=source.first()))
    before = source.first()
    todo, flights = source.elements(before), dict[int, Any]()
    while True:
        while len(flights) < workers and not (flights and ledger.frontier.is_full):
            element, after = next(todo, (None, None))
            if element is None:
                break
            number = ledger.take(before, after)
            assert number is not None
            flights[number] = (before, after)
            before = after
        if not flights:
            return
        number = pick(list(flights))
        ledger.ack(number, *flights.pop(number))
        yield ledger


def newest_first(flights: Sequence[int]) -> int:
    """All but one straggle for ever."""
    return flights[-1]


def slow_ones(every: int) -> Callable[[Sequence[int]], int]:
    """One of so many straggles until nothing else is in flight."""

    def pick(flights: Sequence[int]) -> int:
        return next((number for number in reversed(flights) if number % every), flights[-1])

    return pick


MOST_BYTES = {"list": 1024, "tokens": 1792}
"""Of a record: elements that are counted take less than those each of which is named."""


@pytest.mark.parametrize("source", MOST_BYTES)
@pytest.mark.parametrize(
    ("pick", "count"),
    [(newest_first, 10_000), (slow_ones(1_499), 100_000), (slow_ones(100), 5_000), (slow_ones(2), 5_000)],
    ids=["newest first", "one of 1,499 is slow", "one of 100 is slow", "one of two is slow"],
)
def test_a_record_of_64_workers_and_stragglers_stays_small(
    source: str, pick: Callable[[Sequence[int]], int], count: int
) -> None:
    sizes = []
    for landed, ledger in enumerate(landing(as_source(SOURCES[source].make(count)), 64, pick), start=1):
        if landed % 97 == 0 or landed > count - 200:
            sizes.append(size_of_record(ledger))
    assert landed == count
    assert (ledger.frontier.ahead(), ledger.count) == (None, count)
    assert max(sizes) <= MOST_BYTES[source]


@given(seed=st.integers(0, 10**6), workers=st.sampled_from([2, 8, 64]), source=st.sampled_from(sorted(MOST_BYTES)))
@settings(max_examples=8, deadline=None)
def test_nor_does_it_grow_when_they_land_as_they_like(seed: int, workers: int, source: str) -> None:
    luck = random.Random(seed)  # noqa: S311  a test that can be repeated
    slow = {number for number in range(400) if luck.random() < 0.05}

    def pick(flights: Sequence[int]) -> int:
        return luck.choice([number for number in flights if number not in slow] or flights)

    for landed, ledger in enumerate(landing(as_source(SOURCES[source].make(400)), workers, pick)):
        assert landed % 50 or size_of_record(ledger) <= MOST_BYTES[source]
    assert (ledger.frontier.ahead(), ledger.count) == (None, 400)


def test_ids_that_do_not_come_again_hold_no_map_up_for_ever() -> None:
    frontier = Frontier(CursorToken(Page), None, Ahead(ids="".join(f"{number:08x}" for number in range(MAX_IDS))))
    assert frontier.is_full
    for number in range(FURTHEST_AHEAD + 1):
        assert frontier.take(number, number + 1) == number
        frontier.finish(number, number, number + 1)
    assert not frontier.is_full
    assert (frontier.forgotten, frontier.ahead()) == (MAX_IDS, None)


def test_what_is_done_ahead_reads_alike_in_whatever_order_and_attempt_it_was_done() -> None:
    """`Level.where` is made of it: a loop that stands still must not look as if it had moved."""

    def with_done(numbers: list[int], earlier: Ahead | None = None) -> Ahead | None:
        frontier = Frontier(CursorToken(lambda _token: Page([])), None, earlier)
        for number in range(4):
            frontier.take({"token": number}, {"token": number + 1})
        for number in numbers:
            frontier.finish(number, {"token": number}, {"token": number + 1})
        return frontier.ahead()

    assert with_done([3, 1, 2]) == with_done([1, 2, 3]) == with_done([1, 3, 2]) == with_done([], with_done([2, 3, 1]))


@pytest.mark.parametrize("source", [CursorToken(lambda _token: Page([])), as_source(range(9))])
@pytest.mark.parametrize("order", [[1, 0], [1, 2, 0], [1, 3, 2], [2, 1], [1, 2, 4, 3, 0]])
def test_a_time_out_at_any_call_leaves_an_element_done_or_not(source: Any, order: list[int]) -> None:
    """If the call is cut short, nothing of it counts: its state would not be saved either."""
    *earlier, last = order
    for cut_at in count():
        frontier = Frontier(source, 0)
        for number in range(6):
            frontier.take(number, number + 1)
        for number in earlier:
            frontier.finish(number, number, number + 1)
        before = (frontier.position, frontier.ahead())
        calls = count()

        def cut(_frame: Any, event: str, called: Any, calls: Any = calls, cut_at: int = cut_at) -> None:
            if event in {"call", "c_call"} and called is not sys.setprofile and next(calls) == cut_at:
                sys.setprofile(None)
                raise TimeoutError

        try:
            sys.setprofile(cut)
            frontier.finish(last, last, last + 1)
            sys.setprofile(None)
        except TimeoutError:
            assert (frontier.position, frontier.ahead()) == before
            frontier.finish(last, last, last + 1)  # and it can be done still
        else:
            return
        finally:
            sys.setprofile(None)
