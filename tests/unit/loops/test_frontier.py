"""The frontier against a plain set, and how large a record gets."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_worlds import numbers_done

from airflow_resume.attempt import Epoch
from airflow_resume.loops import Files
from airflow_resume.loops.frontier import Frontier
from airflow_resume.loops.ledger import Ledger
from airflow_resume.loops.record import Level, LoopRecord, Opened


class Model:
    """What an attempt of a map does, on a set. A position is the number of the element that is next.

    Args:
        done: the elements that earlier attempts finished.
    """

    def __init__(self, done: set[int]) -> None:
        self.done = done
        self.start = self.next = next(number for number in range(len(done) + 1) if number not in done)

    def take(self) -> bool:
        """Whether the next element is to be done."""
        self.next += 1
        return self.next - 1 not in self.done

    @property
    def position(self) -> int:
        """The first element that is not done, of those that were taken."""
        return next(number for number in range(self.start, self.next + 1) if number not in self.done or number == self.next)

    @property
    def kept(self) -> set[int]:
        """All that is done."""
        return self.done


def kept(frontier: Frontier, before: int) -> set[int]:
    """What a frontier would be opened with again, as a set."""
    ahead = frontier.ahead()
    level = {"n": before + sum((ahead or [])[1::2]), "ahead": ahead}
    return set(numbers_done(level))


@given(data=st.data(), count=st.integers(1, 14), attempts=st.integers(1, 4), workers=st.integers(1, 6))
@settings(max_examples=150, deadline=None)
def test_a_frontier_is_a_set_that_is_opened_again_and_again(
    data: st.DataObject, count: int, attempts: int, workers: int
) -> None:
    model, frontier = Model(set()), Frontier(0)
    for _ in range(attempts):
        flights: dict[int, int] = {}
        for _ in range(data.draw(st.integers(0, 2 * count), label="steps")):
            while model.next < count and len(flights) < workers:
                number, after = frontier.take(model.next + 1), model.next + 1
                assert (number is not None) == model.take(), "done elements are passed over, and no other"
                if number is not None:
                    flights[after - 1] = number
            if not flights:
                break
            landed = data.draw(st.sampled_from(sorted(flights)), label="landed")
            frontier.finish(flights.pop(landed), landed + 1)
            model.done.add(landed)
            assert frontier.position == model.position, "no hole is passed"
            assert kept(frontier, model.position) == model.done
        saved: Any = json.loads(json.dumps([frontier.position, frontier.ahead()]))
        model, frontier = Model(set(model.done)), Frontier(*saved)
        # An element that is done and was not taken lies behind the watermark until the source yields it.
        while model.next < count and model.next in model.done:
            model.take()
        model.next = model.start = saved[0]
        assert kept(frontier, saved[0]) == model.done


def test_run_lengths_say_what_is_done_in_the_fewest_numbers() -> None:
    frontier = Frontier(0)
    for number in range(10):
        frontier.take(number + 1)
    for number in (9, 1, 3, 2, 7):
        frontier.finish(number, number + 1)
    assert frontier.ahead() == [1, 3, 3, 1, 1, 1]
    frontier.finish(0, 1)
    assert (frontier.position, frontier.ahead()) == (4, [3, 1, 1, 1])


# --- the size of a record ---------------------------------------------------------------------------------------

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


def size_of_record(ledger: Ledger) -> int:
    """Bytes in the store."""
    at = Opened(try_number=2, epoch=Epoch(max_tries=3), opens=2, where="01234567")
    fresh = LoopRecord(key="resume.loop.l", kind="files", at=at, t0=NOW, ts=NOW, fp={"bucket": "0123456789"})
    record = fresh.model_copy(update={**ledger.fields(), "rate": 123.456, "eta": NOW})
    return len(json.dumps(record.to_json()))


def landing(count: int, workers: int, pick: Callable[[Sequence[int]], int]) -> Iterator[Ledger]:
    """A map, of which `pick` says which flight lands next; as it is after every landing."""
    source = Files([f"s3://a-bucket/orders/{number:07}.csv" for number in range(count)])
    ledger = Ledger("resume.loop.l", source, Level(kind="files", total=count))
    todo, flights = source.elements(None), dict[int, Any]()
    while True:
        while len(flights) < workers and not (flights and ledger.frontier.is_full):
            _, after = next(todo, (None, None))
            if after is None:
                break
            number = ledger.take(after)
            assert number is not None
            flights[number] = after
        if not flights:
            return
        number = pick(sorted(flights) if workers < 4 else list(flights))
        ledger.ack(number, flights.pop(number))
        yield ledger


def newest_first(flights: Sequence[int]) -> int:
    """All but one straggle for ever."""
    return flights[-1]


def each_hundredth_straggles(flights: Sequence[int]) -> int:
    return next((number for number in flights if number % 100), flights[-1])


def every_second_straggles(flights: Sequence[int]) -> int:
    return next((number for number in flights if number % 2), flights[-1])


def each_1499th_straggles(flights: Sequence[int]) -> int:
    return next((number for number in flights if number % 1499), flights[0])


@pytest.mark.parametrize(
    "pick", [newest_first, each_hundredth_straggles, every_second_straggles, each_1499th_straggles]
)
def test_a_record_of_64_workers_and_stragglers_stays_under_a_kilobyte(pick: Callable[[Sequence[int]], int]) -> None:
    count, sizes = 100_000, []
    for landed, ledger in enumerate(landing(count, 64, pick), start=1):
        if landed % 97 == 0 or landed > count - 200:
            sizes.append(size_of_record(ledger))
    assert landed == count
    assert (ledger.frontier.ahead(), ledger.count) == (None, count)
    assert max(sizes) <= 1024


@given(seed=st.integers(0, 10**6), workers=st.sampled_from([2, 8, 64]))
@settings(max_examples=10, deadline=None)
def test_nor_does_it_grow_when_they_land_as_they_like(seed: int, workers: int) -> None:
    """Some straggle for long, whatever the others do."""
    luck = random.Random(seed)  # noqa: S311  a test that can be repeated
    slow = {number for number in range(2_000) if luck.random() < 0.05}

    def pick(flights: Sequence[int]) -> int:
        fast = [number for number in flights if number not in slow]
        return luck.choice(fast or flights)

    for ledger in landing(2_000, workers, pick):
        ahead = ledger.frontier.ahead()
        assert ahead is None or min(ahead) > 0
    assert ledger.count == 2_000
