"""A small world in which attempts die at every point: stores that outlive them, and a way to die.

Every store call and every outside effect passes two points, before and after. `explore` runs the scenario once to
count them, and then once for each point (and each pair of points): die there, try again until it succeeds, ask the
oracle.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from airflow_resume.errors import SupersededError

MAX_TRIES = 8


class DiedError(BaseException):
    """The process is gone: no `except Exception` may notice."""


@dataclass
class Life:
    """Counts the points, and dies at the armed ones."""

    armed: set[int] = field(default_factory=set)
    count: int = 0
    trace: list[str] = field(default_factory=list)
    dead: bool = False
    """What a dead process still tries (a `finally`, a generator being closed) has no effect."""

    def point(self, name: str) -> None:
        self.count += 1
        self.trace.append(name)
        if self.count in self.armed:
            self.trace.append("died")
            self.dead = True
            raise DiedError(name)

    @contextmanager
    def effect(self, name: str) -> Iterator[None]:
        self.point(f"before {name}")
        yield
        self.point(f"after {name}")


@dataclass(eq=False)
class Store:
    """A store as an attempt sees it: the values outlive it, and once replaced it reads defaults and cannot write."""

    values: dict[str, Any]
    life: Life = field(default_factory=Life)
    writes: list[tuple[str, Any]] = field(default_factory=list)
    reads: int = 0
    replaced: bool = False

    def get(self, key: str, default: Any = None) -> Any:
        self.reads += 1
        return default if self.replaced else copy.deepcopy(self.values.get(key, default))

    def set(self, key: str, value: Any) -> None:
        if self.life.dead:
            return
        with self.life.effect(f"set {key}"):
            if self.replaced:
                raise SupersededError
            self.values[key] = copy.deepcopy(value)
            self.writes.append((key, self.values[key]))

    def delete(self, key: str) -> None:
        with self.life.effect(f"delete {key}"):
            self.values.pop(key, None)


@dataclass
class World:
    """What outlives an attempt."""

    life: Life = field(default_factory=Life)
    task_values: dict[str, Any] = field(default_factory=dict)
    asset_values: dict[str, Any] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    try_number: int = 0
    max_tries: int = 3
    clear_number: int = 0
    run_id: str = "run"

    def attempt(self) -> dict[str, Any]:
        """The context of the next attempt."""
        self.try_number += 1
        self.life.dead = False
        return {
            "ti": SimpleNamespace(
                dag_id="dag",
                run_id=self.run_id,
                task_id="task",
                map_index=-1,
                try_number=self.try_number,
                max_tries=self.max_tries,
                stats_tags={},
                task=SimpleNamespace(retries=3),
            ),
            "dag_run": SimpleNamespace(clear_number=self.clear_number),
            "task_state_store": Store(self.task_values, self.life),
            "asset_state_store": _ByAsset(Store(self.asset_values, self.life)),
        }

    def clear(self) -> None:
        """A person clears the task."""
        self.max_tries += 1
        self.clear_number += 1

    def next_run(self, run_id: str) -> None:
        """Another run: the task's state is its own, the asset's is the same."""
        self.run_id, self.task_values, self.try_number = run_id, {}, 0


class _ByAsset:
    def __init__(self, store: Store) -> None:
        self._store = store

    def __getitem__(self, _asset: Any) -> Store:
        return self._store


def run_until_done(
    world: World, attempt: Callable[[World, dict[str, Any]], Any], *, retry_on: tuple[type[Exception], ...] = ()
) -> Any:
    """Try like Airflow does, until an attempt returns."""
    for _ in range(MAX_TRIES):
        try:
            return attempt(world, world.attempt())
        except (DiedError, *retry_on):  # type: ignore[misc]
            continue
    raise AssertionError(f"never succeeded: {world.life.trace}")


def explore(
    make_world: Callable[[], World],
    attempt: Callable[[World, dict[str, Any]], Any],
    oracle: Callable[[World, Any], None],
    *,
    double: bool = True,
    retry_on: tuple[type[Exception], ...] = (),
) -> int:
    """Die at every point (and at every pair of points), try again, and ask the oracle. How many ways were tried."""
    clean = make_world()
    oracle(clean, run_until_done(clean, attempt, retry_on=retry_on))
    firsts = range(1, clean.life.count + 1)
    armed = [{first} for first in firsts]
    if double:
        armed += [{first, first + later} for first in firsts for later in range(1, clean.life.count + 1)]
    for points in armed:
        world = make_world()
        world.life.armed = points
        result = run_until_done(world, attempt, retry_on=retry_on)
        assert "died" in world.life.trace, f"the point {points} was never reached"
        try:
            oracle(world, result)
        except AssertionError as error:
            raise AssertionError(f"after dying at {sorted(points)}: {error}\n" + "\n".join(world.life.trace)) from error
    return len(armed)
