"""Every source, every durability, every way of going through a loop: every crash, and pairs of crashes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import permutations
from math import prod
from typing import Any

import pytest

from airflow_resume import checkpoint
from airflow_resume.errors import SupersededError
from airflow_resume.testing import explore_crashes
from airflow_resume.testing.crashes.explorer import CrashReport
from airflow_resume.testing.crashes.outcome import ExplorationOutcome
from airflow_resume.testing.oracles import each_effect_at_least_once, each_effect_at_most, same_result
from tests.support.loops.worlds import (
    IN_PLACE,
    SOURCES,
    Laws,
    LoopWorld,
    Note,
    check_at_most_once,
    counting,
    nested,
    nested_awaited,
    try_of,
    with_amap,
    with_async_for,
    with_for,
    with_map,
)

COUNT = 3
IN_HAND = {"sync": 1, "async": 1, "exit": None}
"""Elements that may come again after an attempt died, when in `"async"` a write is made at every ack."""
COUNTED = ["list", "iterator", "generator", "rows of batches", "rows of tokens"]
DURABILITIES = ["sync", "async", "exit"]


def explored(attempt: Any, laws: Laws, *sizes: int, **options: Any) -> CrashReport:
    def law(outcome: ExplorationOutcome[LoopWorld]) -> None:
        """What a refused write in the background should have kept comes again as well."""
        refused = list(outcome.world.points.fired.values()).count("refused")
        again = None if laws.again is None else laws.again + refused * laws.eventual
        replace(laws, again=again).check(outcome.world.diary)

    oracles = [each_effect_at_least_once, same_result, law]
    return explore_crashes(attempt, oracle=oracles, world=lambda: LoopWorld(*sizes), **options)


def laws_of(durability: str, count: int = COUNT, **options: Any) -> Laws:
    return Laws(count=count, again=IN_HAND[durability], eventual=durability == "async", **options)


# --- one after the other ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("source", IN_PLACE)
def test_no_element_is_lost_and_none_comes_again_beyond_the_bound(source: str, durability: str) -> None:
    pairs = 10_000 if source in {"range", "rows of tokens"} else 60
    report = explored(with_for(SOURCES[source], COUNT, durability=durability), laws_of(durability), max_pairs=pairs)
    assert len(report.points) >= 12
    assert report.pairs > 40


@pytest.mark.parametrize("durability", ["async", "exit"])
@pytest.mark.parametrize("source", COUNTED)
def test_nor_where_elements_are_only_counted(source: str, durability: str) -> None:
    laws = Laws(count=5, again=2 if durability == "async" else None, eventual=durability == "async")
    report = explored(counting(SOURCES[source], 5, durability=durability), laws, max_pairs=300)
    assert report.pairs > 80


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("source", SOURCES)
def test_nor_in_an_async_for(source: str, durability: str) -> None:
    attempt = with_async_for(SOURCES[source], COUNT, durability=durability)
    report = explored(attempt, laws_of(durability), max_pairs=40)
    assert report.pairs > 25


@pytest.mark.parametrize("go", [with_for, with_async_for])
@pytest.mark.parametrize("source", ["range", "tokens", "rows of tokens", "files"])
def test_at_most_once_never_delivers_twice_and_loses_one_in_a_crash(source: str, go: Callable[..., Any]) -> None:
    def law(outcome: ExplorationOutcome[LoopWorld]) -> None:
        check_at_most_once(outcome.world.diary, COUNT, crashes=outcome.crashes)

    attempt = go(SOURCES[source], COUNT, delivery="at_most_once", durability="exit")
    report = explore_crashes(attempt, oracle=law, world=LoopWorld, max_pairs=150)
    assert report.pairs > 80


# --- loops in loops -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("go", [nested, nested_awaited])
@pytest.mark.parametrize("sizes", [(2, 2), (3, 1), (1, 3), (2, 2, 2)], ids=str)
def test_loops_in_loops_lose_nothing_and_the_bound_is_that_of_one(
    sizes: tuple[int, ...], go: Callable[..., Any], durability: str
) -> None:
    laws = laws_of(durability, prod(sizes))
    report = explored(go(*sizes, durability=durability), laws, *sizes, max_pairs=100)
    assert report.pairs > 30


def test_two_loops_in_one_element_are_kept_apart() -> None:
    def attempt(world: LoopWorld) -> None:
        outer = checkpoint(["a", "b"], name="l", durability="sync", max_stalls=None, context=try_of(world).context)
        for letter in outer:
            for name in ("first", "second"):
                for number in checkpoint(range(2), name=name, within=outer):
                    with world.effect(f"load {letter} {name} {number}"):
                        pass

    def again_at_most_once_a_crash(outcome: ExplorationOutcome[LoopWorld]) -> None:
        assert len(outcome.effects) - 8 <= outcome.crashes

    oracles = [each_effect_at_least_once, each_effect_at_most(3), again_at_most_once_a_crash]
    report = explore_crashes(attempt, oracle=oracles, world=LoopWorld, max_pairs=200)
    assert report.pairs > 150


# --- several at a time ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ordered", [False, True], ids=["as they come", "ordered"])
@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("ranks", list(permutations(range(4)))[::3], ids=str)
def test_an_amap_loses_nothing_in_any_order(
    ranks: Sequence[int],
    workers: int,
    ordered: bool,  # noqa: FBT001
) -> None:
    attempt = with_amap(SOURCES["tokens"], 4, workers=workers, ranks=ranks, ordered=ordered, durability="sync")
    in_flight = workers * (2 if ordered else 1)
    report = explored(attempt, Laws(count=4, again=in_flight, parallel=True), max_pairs=30)
    assert report.pairs > 20


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("source", ["range", "generator", "tokens", "rows of a keyset", "files"])
def test_a_map_with_one_worker_is_as_any_loop(source: str, durability: str) -> None:
    attempt = with_map(SOURCES[source], COUNT, workers=1, durability=durability)
    report = explored(attempt, laws_of(durability), max_pairs=100)
    assert report.pairs > 40


@pytest.mark.parametrize("source", ["range", "generator", "tokens", "rows of tokens", "files", "function"])
def test_what_one_way_of_going_through_left_with_holes_another_way_finishes(source: str) -> None:
    """The first attempt finishes 3, 2, 1, 0, 4, so that there are holes."""
    given = SOURCES[source]
    sync: Any = {"durability": "sync"}
    ways = [
        with_amap(given, 5, workers=4, ranks=[3, 2, 1, 0, 4], **sync),
        with_async_for(given, 5, result="count", **sync),
        with_map(given, 5, workers=2, **sync),
        with_for(given, 5, result="count", **sync),
        with_amap(given, 5, workers=2, ranks=[1, 0, 3, 2, 4], ordered=True, **sync),
    ]
    laws = Laws(count=5, again=5, parallel=True)
    holes = set[Any]()

    def some_had_holes(outcome: ExplorationOutcome[LoopWorld]) -> None:
        holes.update(note.kept for note in outcome.world.diary if note.kept != frozenset(range(len(note.kept))))

    for second in (1, 2, 3, 4):

        def attempt(world: LoopWorld, second: int = second) -> Any:
            return ways[0 if world.attempt == 1 else second](world)

        explore_crashes(
            attempt,
            oracle=[each_effect_at_least_once, some_had_holes, lambda outcome: laws.check(outcome.world.diary)],
            world=LoopWorld,
            max_pairs=40,
        )
    assert len(holes) >= 3


# --- replaced -----------------------------------------------------------------------------------------------------


class Replacing(LoopWorld):
    """A world in which the first attempt is replaced when it comes to a point, and lives on.

    Args:
        at: the number of the point.
        successor: what the next attempt does at that moment; None: nothing yet.
    """

    def __init__(self, at: int, successor: Callable[[LoopWorld], Any] | None, *sizes: int) -> None:
        super().__init__(*sizes)
        self.at, self.successor = at, successor
        self.noted_before = -1
        self.points.listener = self._look

    def _look(self, point: Any, _mark: Any) -> None:
        if point.number != self.at or self.noted_before >= 0:
            return
        self.noted_before = len(self.diary)
        if self.successor is None:
            try_of(self)
        else:
            self.successor(self)

    def of_the_dead(self) -> list[Note]:
        """What the first attempt did after it was replaced."""
        return [note for note in self.diary[self.noted_before :] if note.tried == 1]

    def of_the_living(self) -> list[Note]:
        """Everything else."""
        dead = self.of_the_dead()
        return [note for note in self.diary if not any(note is other for other in dead)]


def points_of(attempt: Callable[[LoopWorld], Any]) -> int:
    world = LoopWorld()
    attempt(world)
    return len(world.points.passed)


AFTERWARDS = {"sync": 1, "async": 2, "exit": COUNT + 2}
"""Elements that a replaced attempt is still given: one, as its last write was let in; in `"async"` another one, as a
refusal is heard of at the next ack; with `"exit"` it learns of it when it is done."""


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "afterwards"])
@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("go", [with_for, with_async_for])
@pytest.mark.parametrize("source", ["range", "tokens", "rows of tokens", "files"])
def test_a_replaced_attempt_stops_and_its_successor_is_complete(
    source: str,
    go: Callable[..., Any],
    durability: str,
    at_once: bool,  # noqa: FBT001
) -> None:
    given, count = SOURCES[source], COUNT + 2
    attempt, successor = (way(given, count, durability=durability) for way in (go, with_for))
    replaced_everywhere(
        attempt, successor, laws_of(durability, count), too_many=AFTERWARDS[durability], at_once=at_once
    )


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "afterwards"])
@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("sizes", [(2, 3), (2, 2, 2)], ids=str)
def test_so_does_one_of_loops_in_loops(sizes: tuple[int, ...], durability: str, at_once: bool) -> None:  # noqa: FBT001
    attempt, count = nested(*sizes, durability=durability), prod(sizes)
    too_many = {**AFTERWARDS, "exit": count}[durability]
    replaced_everywhere(attempt, attempt, laws_of(durability, count), *sizes, too_many=too_many, at_once=at_once)


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "afterwards"])
@pytest.mark.parametrize("ordered", [False, True], ids=["as they come", "ordered"])
@pytest.mark.parametrize("source", ["range", "tokens"])
def test_and_so_does_one_of_an_amap(source: str, ordered: bool, at_once: bool) -> None:  # noqa: FBT001
    """What it started before it was refused, it has; it starts one more when its last write was let in."""
    given, count, workers = SOURCES[source], 6, 2
    attempt = with_amap(given, count, workers=workers, ranks=[1, 0, 3, 2, 5, 4], ordered=ordered, durability="sync")
    in_flight = workers * (2 if ordered else 1)
    laws = Laws(count=count, again=in_flight, parallel=True)
    successor = with_for(given, count, durability="sync", result="count")
    # One that is replaced before it has written anything has started none.
    replaced_everywhere(attempt, successor, laws, too_many=in_flight, at_once=at_once)


def replaced_everywhere(
    attempt: Callable[[LoopWorld], Any],
    successor: Callable[[LoopWorld], Any],
    laws: Laws,
    *sizes: int,
    too_many: int,
    at_once: bool,
) -> None:
    """Replace an attempt at every point that it comes to."""
    points, superseded = points_of(attempt), 0
    for at in range(1, points + 1):
        world = Replacing(at, successor if at_once else None, *sizes)
        try:
            attempt(world)
        except SupersededError:
            superseded += 1
        if not at_once:
            successor(world)
        too_late = [note.number for note in world.of_the_dead() if note.what == "delivered"]
        assert len(too_late) <= too_many, f"replaced at point {at}, and was given {too_late}"
        laws.check(world.of_the_living())
    assert superseded == points - 1, "all but the one whose last write was let in"
