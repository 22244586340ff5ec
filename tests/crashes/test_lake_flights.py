"""Flights that are appended to local tables by processes that are killed, frozen or doubled."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.sinks.flights import BUSY, ENDED, PAGE, SUPERSEDED
from tests.support.sinks.lake_flights import LakeFlights
from tests.support.sinks.lakes import LAKES, Lake

COUNT = 400


@pytest.fixture(params=LAKES)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    lake = LAKES[request.param](tmp_path)
    lake.make()
    return lake


@pytest.fixture
def flights(lake: Lake, request: pytest.FixtureRequest) -> Callable[..., LakeFlights]:
    kind = next(name for name, each in LAKES.items() if each is type(lake))
    return lambda **options: LakeFlights(kind=kind, folder=str(lake.folder), count=COUNT, **options)


def each_once(lake: Lake) -> None:
    assert lake.ids() == list(range(COUNT))


@pytest.mark.parametrize("seed", range(2))
def test_kills_at_random_moments_lose_and_repeat_nothing(lake: Lake, flights: Any, seed: int) -> None:
    chance, kills = random.Random(seed), 0  # noqa: S311
    for number in range(1, 1000):
        with flights(number=number).started() as child:
            if not child.wait_for(chance.randint(1, 25)):
                assert child.end() == ENDED
                break
            time.sleep(chance.random() * 0.01)
            child.kill()
            kills += 1
            found = lake.ids()
            assert found == list(range(len(found)))
            assert len(found) % PAGE == 0
    each_once(lake)
    assert kills >= 3  # how far a child gets before its SIGKILL depends on the machine


@pytest.mark.parametrize("place", ["before the commit", "in the commit"])
def test_an_attempt_that_is_frozen_wakes_and_commits_nothing(lake: Lake, flights: Any, place: str) -> None:
    with flights(number=1, freeze_at=(place, 5)).started() as frozen:
        frozen.wait_until_frozen()
        before = lake.ids()
        assert len(before) >= PAGE
        with flights(number=2).started() as successor:
            assert successor.end() == ENDED
        each_once(lake)
        frozen.wake()
        assert frozen.end() == SUPERSEDED
    each_once(lake)


def test_one_that_is_frozen_while_its_successor_works_is_superseded_too(lake: Lake, flights: Any) -> None:
    with flights(number=1, freeze_at=("in the commit", 5)).started() as frozen:
        frozen.wait_until_frozen()
        with flights(number=2, freeze_at=("in the commit", 6)).started() as successor:
            successor.wait_until_frozen()
            frozen.wake()
            assert frozen.end() == SUPERSEDED
            successor.wake()
            assert successor.end() == ENDED
    each_once(lake)


@pytest.mark.parametrize("policy", ["take_over", "wait"])
def test_two_runs_of_a_script_at_once_write_each_flight_once(lake: Lake, flights: Any, policy: str) -> None:
    task = flights(options={"on_contention": policy}, patience=30)
    with task.started() as first, task.started() as second:
        codes = {first.end(), second.end()}
    assert ENDED in codes
    assert codes <= {ENDED, SUPERSEDED, BUSY}
    each_once(lake)


def test_two_tasks_that_append_to_one_table_at_once_are_in_nobodys_way(lake: Lake, flights: Any) -> None:
    options = {"patience": 60}
    with flights(number=1, **options).started() as task, flights(**options).started() as script:
        assert {task.end(), script.end()} == {ENDED}
    assert lake.ids() == sorted([*range(COUNT)] * 2)
