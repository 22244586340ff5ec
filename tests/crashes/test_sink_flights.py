"""Flights that are appended to real databases by processes that are killed, frozen, doubled, or cut off."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine
from sqlalchemy.pool import NullPool

from tests.support.sinks.cutting_proxy import cutting
from tests.support.sinks.flights import BUSY, ENDED, PAGE, SUPERSEDED, Child, Flights, reaped
from tests.support.sinks.places import KINDS, place_of, rows_in

COUNT = 200
SERVERS = [kind for kind in KINDS if kind not in {"sqlite", "duckdb"}]
FILES_OF_MANY = [kind for kind in KINDS if kind != "duckdb"]
"""DuckDB lets one process in at a time."""


@pytest.fixture
def flights(tmp_path: Path) -> Iterator[Callable[..., Flights]]:
    places: list[Any] = []

    def of(kind: str, **options: Any) -> Flights:
        places.append(place_of(kind, tmp_path))
        url = places[-1].__enter__()
        return Flights(url=url, count=COUNT, folder=tmp_path, options={"patience": timedelta(seconds=1), **options})

    yield of
    for place in places:
        place.__exit__(None, None, None)


def found(flights: Flights) -> list[int]:
    engine: Engine = create_engine(flights.url, poolclass=NullPool)
    try:
        return rows_in(engine)
    finally:
        engine.dispose()


def each_once(flights: Flights) -> None:
    assert found(flights) == list(range(COUNT))


def trying(flights: Flights, number: int, **options: Any) -> Child:
    return Child(lambda tell: flights.attempt(number, tell), **options)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_kills_at_random_moments_lose_and_repeat_nothing(kind: str, seed: int, flights: Any) -> None:
    task, chance, kills = flights(kind), random.Random(seed), 0  # noqa: S311
    for number in range(1, 1000):
        with reaped(trying(task, number)) as child:
            if not child.wait_for(chance.randint(1, 12)):
                assert child.end() == ENDED
                break
            time.sleep(chance.random() * 0.01)
            child.kill()
            kills += 1
    each_once(task)
    assert kills >= 3


@pytest.mark.parametrize("kind", SERVERS)
def test_an_attempt_that_is_frozen_in_its_transaction_wakes_and_commits_nothing(kind: str, flights: Any) -> None:
    task = flights(kind)
    with reaped(trying(task, 1, freeze_at=("before the commit", 3))) as frozen:
        frozen.wait_until_frozen()
        assert found(task) == list(range(2 * PAGE))
        assert trying(task, 2).end() == ENDED
        each_once(task)
        frozen.wake()
        assert frozen.end() == SUPERSEDED
    each_once(task)


@pytest.mark.parametrize("kind", SERVERS)
def test_one_that_is_frozen_in_its_commit_holds_its_successor_up_by_name_and_wins(kind: str, flights: Any) -> None:
    task = flights(kind)
    with reaped(trying(task, 1, freeze_at=("in the commit", 3))) as frozen:
        frozen.wait_until_frozen()
        assert trying(task, 2).end() == BUSY
        frozen.wake()
        assert frozen.end() == ENDED
    assert trying(task, 3).end() == ENDED
    each_once(task)


def test_on_sqlite_a_frozen_transaction_holds_the_successor_up_by_name(flights: Any) -> None:
    task = flights("sqlite")
    with reaped(trying(task, 1, freeze_at=("before the commit", 3))) as frozen:
        frozen.wait_until_frozen()
        assert trying(task, 2).end() == BUSY
        frozen.wake()
        assert frozen.end() == ENDED
    each_once(task)


def test_on_sqlite_one_that_is_frozen_between_transactions_wakes_and_commits_nothing(flights: Any) -> None:
    task = flights("sqlite")
    with reaped(trying(task, 1)) as killed:
        killed.wait_for(5)
        killed.kill()
    assert trying(task, 3).end() == ENDED
    assert trying(task, 2).end() == SUPERSEDED
    each_once(task)


@pytest.mark.parametrize("policy", ["take_over", "wait"])
@pytest.mark.parametrize("kind", FILES_OF_MANY)
def test_two_runs_of_a_script_at_once_write_each_flight_once(kind: str, policy: str, flights: Any) -> None:
    task = flights(kind, on_contention=policy, patience=timedelta(seconds=20))
    with reaped(Child(task.script)) as first, reaped(Child(task.script)) as second:
        codes = {first.end(), second.end()}
    assert ENDED in codes
    assert codes <= {ENDED, SUPERSEDED, BUSY}
    each_once(task)


@pytest.mark.parametrize("lose", ["reply", "commit"])
@pytest.mark.parametrize("kind", SERVERS)
def test_a_commit_that_is_cut_off_is_neither_lost_nor_done_twice(kind: str, lose: Any, flights: Any) -> None:
    task = flights(kind)
    with cutting(task.url) as (proxy, url):
        far = Flights(url=url, count=COUNT, folder=task.folder, options=task.options)

        def cut_now_and_then(_place: str) -> None:
            seen.append(_place)
            if len(seen) % 9 == 0:
                proxy.lose = lose

        seen: list[str] = []
        for number in range(1, 100):
            try:
                far.attempt(number, cut_now_and_then)
            except Exception as error:  # noqa: BLE001  its name is checked
                assert lose == "commit", error
                assert type(error).__name__ in {"OperationalError", "InterfaceError"}
            else:
                break
        assert proxy.lost >= 3
    each_once(task)
