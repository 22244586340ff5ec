"""Every slip of a test's author that we know of that would make an exploration green: each is refused by name."""

from __future__ import annotations

import asyncio
import logging
import re
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest.mock import MagicMock, Mock, create_autospec
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from airflow.sdk import Asset, BaseOperator, task
from pytest_mock import MockerFixture

from airflow_resume.testing import (
    CrashWorld,
    FakeJobs,
    FakeTaskStore,
    World,
    explore_crashes,
    explore_freezes,
    explore_interleavings,
    task_context,
)
from airflow_resume.testing.crashes.outcome import ExplorationOutcome
from airflow_resume.testing.errors import (
    AttemptNotRunError,
    CleanRunError,
    CrashFoundError,
    ExplorerError,
    NothingTriedError,
    OneWayWarning,
    OracleBrokenError,
    SharedWorldError,
    UnwatchedError,
)
from airflow_resume.testing.oracles import (
    each_effect_at_most,
    each_effect_exactly_once,
    mark_never_decreases,
    nothing_left_behind,
    same_result,
)

AnyOutcome = ExplorationOutcome[CrashWorld]
PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


def ok(_outcome: AnyOutcome) -> None:
    pass


def a_store() -> CrashWorld:
    return CrashWorld(store=FakeTaskStore(), rows=[])


def writes(world: CrashWorld) -> list[int]:
    world.store.set("k", world.store.get("k", 0) + 1)
    return [1]


EXPLORERS: dict[str, Callable[..., Any]] = {
    "crashes": explore_crashes,
    "freezes": explore_freezes,
    "at once": lambda attempt, **options: explore_interleavings([attempt, attempt], **options),
}


@dataclass(frozen=True, kw_only=True)
class Slip:
    """What the author wrote, and what the kit says."""

    error: type[Exception]
    says: str
    attempt: Any = writes
    oracle: Any = ok
    world: Any = a_store
    options: dict[str, Any] = field(default_factory=dict)
    on: tuple[str, ...] = tuple(EXPLORERS)


# --- attempts ---------------------------------------------------------------------------------------------------

OUTSIDE, POOL = FakeTaskStore(), ThreadPoolExecutor(1)
LOADED: list[int] = []


def uses_a_store_of_its_own(world: CrashWorld) -> None:
    writes(world)
    FakeTaskStore().set("k", 1)


def uses_a_store_from_outside(world: CrashWorld) -> None:
    writes(world)
    OUTSIDE.get("k")


def uses_jobs_of_its_own(world: CrashWorld) -> None:
    writes(world)
    FakeJobs().submit("a")


def forgets_to_pass_the_world(world: CrashWorld) -> None:
    writes(world)
    with task_context() as attempt:
        attempt.task_store.set("k", 1)


def forgets_with(world: CrashWorld) -> None:
    writes(world)
    world.effect("load")


def loads_into_a_global(world: CrashWorld) -> None:
    writes(world)
    LOADED.append(len(LOADED))


def looks_at_a_global(_outcome: AnyOutcome) -> None:
    assert LOADED


class Client:
    def load(self, page: int) -> None: ...


class Warehouse:
    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows


WAREHOUSE, A_MOCK, A_SPECIFIED_MOCK = Warehouse([]), Mock(), create_autospec(Client.load)


def loads_into_the_warehouse_of_the_world(world: CrashWorld) -> None:
    writes(world)
    world.warehouse.rows.append(object())


def loads_into_a_global_object(world: CrashWorld) -> None:
    writes(world)
    WAREHOUSE.rows.append(object())


def looks_at_a_global_object(_outcome: AnyOutcome) -> None:
    assert WAREHOUSE.rows


def calls_a_mock() -> None:
    A_MOCK()
    A_SPECIFIED_MOCK(None, 1)


def loads_by_a_client(world: CrashWorld) -> None:
    writes(world)
    calls_a_mock()


def looks_at_a_mock(_outcome: AnyOutcome) -> None:
    A_MOCK.assert_called()


def looks_at_a_specified_mock(_outcome: AnyOutcome) -> None:
    A_SPECIFIED_MOCK.assert_called()


def resets_a_global(world: CrashWorld) -> None:
    LOADED.clear()
    writes(world)
    LOADED.append(object())  # type: ignore[arg-type]


def loads_into_the_world(world: CrashWorld) -> None:
    writes(world)
    world.rows.append(object())


def fails(world: CrashWorld) -> None:
    writes(world)
    raise LookupError


@task
def a_task(world: CrashWorld) -> None:
    writes(world)


SHARED_ROWS: list[Any] = []

ATTEMPTS = {
    "passes no point": Slip(attempt=lambda _world: None, error=NothingTriedError, says="passes no point"),
    "swallows an error before any point": Slip(
        attempt=lambda world: getattr(world, "stroe", None), error=NothingTriedError, says="passes no point"
    ),
    "uses a store of its own": Slip(
        attempt=uses_a_store_of_its_own, error=UnwatchedError, says="'set k' was called on a fake that is not"
    ),
    "uses a store from outside": Slip(
        attempt=uses_a_store_from_outside, error=UnwatchedError, says="'get k' was called on a fake that is not"
    ),
    "uses jobs of its own": Slip(attempt=uses_jobs_of_its_own, error=UnwatchedError, says="'submit' was called on"),
    "makes a context without the world": Slip(
        attempt=forgets_to_pass_the_world, error=UnwatchedError, says=r"task_context\(world=world.airflow\)"
    ),
    "does not enter an effect": Slip(attempt=forgets_with, error=UnwatchedError, says=r"with world.effect\('load'\)"),
    "loads into a global": Slip(
        attempt=loads_into_a_global,
        oracle=looks_at_a_global,
        error=SharedWorldError,
        says=r"changes 'LOADED' and the oracle looks at it.*\nPut it there: CrashWorld\(LOADED=list\((LOADED)?\)\)",
    ),
    "resets a global": Slip(attempt=resets_a_global, oracle=looks_at_a_global, error=SharedWorldError, says="LOADED"),
    "loads into a global object": Slip(
        attempt=loads_into_a_global_object,
        oracle=looks_at_a_global_object,
        error=SharedWorldError,
        says=r"changes 'WAREHOUSE\.rows' and the oracle looks at it.*\nPut it there: CrashWorld\(WAREHOUSE=",
    ),
    "calls a mock that the oracle looks at": Slip(
        attempt=loads_by_a_client,
        oracle=looks_at_a_mock,
        error=SharedWorldError,
        says=r"looks at the mock 'A_MOCK', which counts the calls of all ways together\.\nMake it in the function",
    ),
    "calls a mock with a specification that the oracle looks at": Slip(
        attempt=loads_by_a_client,
        oracle=looks_at_a_specified_mock,
        error=SharedWorldError,
        says=r"looks at the mock 'A_SPECIFIED_MOCK'.*\n.*spec=",
    ),
    "always fails": Slip(attempt=fails, error=ExplorerError, says="LookupError"),
    "always fails and is retried": Slip(
        attempt=fails, error=ExplorerError, says="none succeeded", options={"retry_on": (LookupError,)}
    ),
    "may fail with anything": Slip(
        attempt=fails,
        error=NothingTriedError,
        says="lets every way end with any error",
        options={"allowed_to_fail": (Exception,)},
        on=("crashes",),
    ),
    "any run may fail with anything": Slip(
        attempt=fails,
        error=NothingTriedError,
        says="lets every way end with any error",
        options={"may_fail": (Exception,)},
        on=("at once",),
    ),
    "is retried after any error": Slip(
        error=NothingTriedError,
        says=r"retry_on=\(Exception,\) .*no finding.*\nName the error .*retry_on=\(TimeoutError,\)",
        options={"retry_on": (Exception,)},
    ),
    "is retried after any error at all": Slip(
        error=NothingTriedError, says=r"retry_on=\(BaseException,\)", options={"retry_on": BaseException}
    ),
    "is retried after what is no error": Slip(
        error=TypeError, says=r"Write the class.*retry_on=\(TimeoutError,\)", options={"retry_on": ("TimeoutError",)}
    ),
    "is retried after an error that was made": Slip(
        error=TypeError, says=r"retry_on=.*LookupError\(\)", options={"retry_on": LookupError()}
    ),
    "is retried after None": Slip(error=TypeError, says=r"retry_on=None", options={"retry_on": None}),
    "is retried after an empty list": Slip(
        error=TypeError, says=r"retry_on=\[\] .*\nLeave it out", options={"retry_on": []}
    ),
    "is retried after a list of errors": Slip(
        error=TypeError,
        says=r"is a list.*\nWrite a tuple.*: retry_on=\(LookupError,\)",
        options={"retry_on": [LookupError]},
    ),
    "is retried after a class that is no error": Slip(
        error=TypeError, says="retry_on=.*int", options={"retry_on": (int,)}
    ),
    "may fail with what is no error": Slip(
        error=TypeError,
        says=r"allowed_to_fail=.*\nWrite the class",
        options={"allowed_to_fail": ("LookupError",)},
        on=("crashes",),
    ),
    "any run may fail with what is no error": Slip(
        error=TypeError, says=r"may_fail=.*\nWrite the class", options={"may_fail": (None,)}, on=("at once",)
    ),
    "is a @task": Slip(attempt=a_task, error=ExplorerError, says=r"my_task\.function|function"),
    "returns an operator": Slip(
        attempt=lambda _world: BaseOperator(task_id="load"), error=AttemptNotRunError, says="nobody executes"
    ),
    "returns a function": Slip(
        attempt=lambda world: lambda: writes(world), error=AttemptNotRunError, says="a function, which nobody calls"
    ),
    "returns a future": Slip(
        attempt=lambda world: POOL.submit(writes, world), error=AttemptNotRunError, says=r"return future\.result\(\)"
    ),
}

# --- worlds -----------------------------------------------------------------------------------------------------

ONE_STORE, ONE_WORLD = FakeTaskStore(), a_store()
ONE_JOBS, ONE_AIRFLOW, ONE_OPERATOR = FakeJobs(), World(), BaseOperator(task_id="load")
SHARED_TABLE: dict[str, int] = {}
ONE_CLIENT = Mock(spec=Client)


class ListInTheClass(CrashWorld):
    rows: list[int] = []  # noqa: RUF012  it is the slip

    def __init__(self) -> None:
        super().__init__(store=FakeTaskStore())


WORLDS = {
    "is made once": Slip(world=lambda: ONE_WORLD, error=SharedWorldError, says="in which an attempt has run before"),
    "has a store that is made once": Slip(
        world=lambda: CrashWorld(store=ONE_STORE), error=SharedWorldError, says="is in two worlds"
    ),
    "has a list that is made once": Slip(
        attempt=loads_into_the_world,
        world=lambda: CrashWorld(store=FakeTaskStore(), rows=SHARED_ROWS),
        error=SharedWorldError,
        says="world.rows is the same list in all worlds",
    ),
    "has a list that is made once and never changes": Slip(
        world=lambda: CrashWorld(store=FakeTaskStore(), pages=SHARED_ROWS),
        error=SharedWorldError,
        says="world.pages is the same list in all worlds.*\n.*pass a tuple",
    ),
    "has a dict that is made once": Slip(
        world=lambda: CrashWorld(store=FakeTaskStore(), table=SHARED_TABLE),
        error=SharedWorldError,
        says="world.table is the same dict in all worlds.*\n.*MappingProxyType",
    ),
    "has a job system that is made once": Slip(
        world=lambda: CrashWorld(store=FakeTaskStore(), jobs=ONE_JOBS),
        error=SharedWorldError,
        says=r"world\.jobs .*is in two worlds",
    ),
    "has an Airflow that is made once": Slip(
        world=lambda: CrashWorld(store=FakeTaskStore(), airflow=ONE_AIRFLOW),
        error=SharedWorldError,
        says=r"world\.airflow .*is in two worlds",
    ),
    "has an object that is made once": Slip(
        world=lambda: CrashWorld(store=FakeTaskStore(), warehouse=WAREHOUSE),
        error=SharedWorldError,
        says=r"world\.warehouse is the same Warehouse in all worlds.*\n.*pool of connections",
    ),
    "has a method of an object that is made once": Slip(
        world=lambda: CrashWorld(store=FakeTaskStore(), load=WAREHOUSE.rows.append),
        error=SharedWorldError,
        says=r"world\.load\.__self__ is the same list",
    ),
    "has a function that was given an object that is made once": Slip(
        world=lambda: CrashWorld(store=FakeTaskStore(), load=partial(print, WAREHOUSE)),
        error=SharedWorldError,
        says=r"world\.load\.args\[0\] is the same Warehouse",
    ),
    "has a tuple with an object that is made once": Slip(
        world=lambda: CrashWorld(store=FakeTaskStore(), sinks=(1, WAREHOUSE)),
        error=SharedWorldError,
        says=r"world\.sinks\[1\] is the same Warehouse",
    ),
    "has an object that is made once in a dict": Slip(
        world=lambda: CrashWorld(store=FakeTaskStore(), sinks={"eu": WAREHOUSE}),
        error=SharedWorldError,
        says=r"world\.sinks\['eu'\] is the same Warehouse",
    ),
    "has a mock that is made once": Slip(
        world=lambda: CrashWorld(store=FakeTaskStore(), client=ONE_CLIENT),
        error=SharedWorldError,
        says=r"world\.client is the same mock",
    ),
    "has an operator that is made once": Slip(
        world=lambda: CrashWorld(store=FakeTaskStore(), operator=ONE_OPERATOR),
        error=SharedWorldError,
        says=r"world\.operator is the same BaseOperator",
    ),
    "has a list in the class": Slip(
        world=ListInTheClass, error=SharedWorldError, says=r"ListInTheClass\.rows .*\nMake it.*self\.rows = \.\.\."
    ),
    "has an object whose list is made once": Slip(
        attempt=loads_into_the_warehouse_of_the_world,
        world=lambda: CrashWorld(store=FakeTaskStore(), warehouse=Warehouse(SHARED_ROWS)),
        error=SharedWorldError,
        says=r"world\.warehouse\.rows is the same list in all worlds, and the attempt changes it",
    ),
    "is no function": Slip(
        world=CrashWorld(store=FakeTaskStore()),
        error=TypeError,
        says=r"already made\.\nPass the function .*world=make_world",
    ),
    "the world is None": Slip(world=lambda: None, error=TypeError, says="Return a CrashWorld"),
    "is a mock": Slip(world=MagicMock(), error=TypeError, says="Return a CrashWorld"),
    "has a mock for a store": Slip(
        world=lambda: CrashWorld(store=MagicMock()), error=TypeError, says="its calls are not points"
    ),
    "has a mock with the names of a store": Slip(
        world=lambda: CrashWorld(store=Mock(spec=FakeTaskStore())), error=TypeError, says="its calls are not points"
    ),
}

# --- oracles ----------------------------------------------------------------------------------------------------


async def awaited(_outcome: AnyOutcome) -> None:
    raise AssertionError


def taken(_outcome: AnyOutcome) -> Iterator[None]:
    yield


class Judge:
    def __init__(self, _outcome: AnyOutcome) -> None:
        pass


ONE_RESULT: list[int] = []


def returns_one_object(world: CrashWorld) -> list[int]:
    writes(world)
    return ONE_RESULT


def followed() -> CrashWorld:
    world = a_store()
    world.follow(lambda: world.store.get("another key"))
    return world


ORACLES = {
    "none": Slip(oracle=[], error=NothingTriedError, says="oracle"),
    "returns False": Slip(
        oracle=lambda _: False,
        error=OracleBrokenError,
        says="returned False.*\n.*an oracle raises AssertionError: write",
    ),
    "returns True": Slip(oracle=lambda _: True, error=OracleBrokenError, says="returned True instead of judging"),
    "returns what is wrong": Slip(oracle=lambda _: ["lost"], error=OracleBrokenError, says="write `assert"),
    "returns text": Slip(oracle=lambda _: "lost a page", error=OracleBrokenError, says="write `assert"),
    "returns a number": Slip(oracle=lambda _: 0, error=OracleBrokenError, says="write `assert"),
    "makes an oracle": Slip(oracle=each_effect_at_most, error=OracleBrokenError, says="Call it where you pass it"),
    "is async": Slip(oracle=awaited, error=OracleBrokenError, says="awaited is async"),
    "is a generator function": Slip(oracle=taken, error=OracleBrokenError, says="taken is a generator function"),
    "is a class": Slip(oracle=Judge, error=OracleBrokenError, says="instead of judging"),
    "is a mock": Slip(oracle=Mock(), error=OracleBrokenError, says="instead of judging"),
    "takes no outcome": Slip(oracle=lambda: None, error=OracleBrokenError, says="TypeError"),
    "asks for effects where there are none": Slip(
        oracle=each_effect_exactly_once, error=OracleBrokenError, says="registers no effect"
    ),
    "asks for a mark where none is followed": Slip(
        oracle=mark_never_decreases, error=OracleBrokenError, says="follows no mark"
    ),
    "follows a mark that is never set": Slip(
        oracle=mark_never_decreases, world=followed, error=OracleBrokenError, says="None after every store call"
    ),
    "asks what is left of a function that returns nothing": Slip(
        oracle=nothing_left_behind(lambda _world: None), error=OracleBrokenError, says="returned None"
    ),
    "compares results that are None": Slip(
        attempt=lambda world: world.store.set("k", 1),
        oracle=same_result,
        error=OracleBrokenError,
        says="returns None",
        on=("crashes", "freezes"),
    ),
    "compares an object with itself": Slip(
        attempt=returns_one_object,
        oracle=same_result,
        error=OracleBrokenError,
        says="one object in all runs",
        on=("crashes", "freezes"),
    ),
}

# --- what is asked for ------------------------------------------------------------------------------------------

QUESTIONS = {
    "no kind": Slip(options={"kinds": ()}, error=NothingTriedError, says=r"kinds=\[\]", on=("crashes",)),
    "a kind that happens nowhere": Slip(
        options={"kinds": ["wrong_once"]},
        error=NothingTriedError,
        says=r"cannot happen anywhere .* happens only to answers",
        on=("crashes",),
    ),
    "no point": Slip(options={"max_points": 0}, error=ExplorerError, says="max_points"),
    "no way": Slip(options={"max_ways": 0}, error=NothingTriedError, says="max_ways", on=("freezes", "at once")),
    "no switch": Slip(
        options={"switches": 0},
        error=NothingTriedError,
        says="switches.* must be at least 1",
        on=("freezes", "at once"),
    ),
    "no attempt": Slip(
        options={"max_attempts": 0}, error=NothingTriedError, says=r"0 attempts nothing can run\.\nAllow at least 1"
    ),
    "a point that there is not": Slip(options={"only": "99:crash"}, error=ExplorerError, says="99"),
    "an empty way": Slip(options={"only": ""}, error=ExplorerError, says="is not a number"),
}

SLIPS = {
    f"{what} {name}": slip
    for what, slips in {
        "an attempt": ATTEMPTS,
        "a world": WORLDS,
        "an oracle": ORACLES,
        "asking for": QUESTIONS,
    }.items()
    for name, slip in slips.items()
}


@pytest.mark.parametrize(
    ("name", "explorer"), [(name, explorer) for name, slip in SLIPS.items() for explorer in slip.on]
)
def test_a_slip_is_refused(name: str, explorer: str) -> None:
    slip = SLIPS[name]
    with pytest.raises(slip.error, match=slip.says) as caught:
        EXPLORERS[explorer](slip.attempt, **{"oracle": slip.oracle, "world": slip.world, **slip.options})
    assert isinstance(caught.value, CrashFoundError) or not isinstance(caught.value, AssertionError)


def test_only_a_finding_is_what_a_test_that_expects_one_takes_for_one() -> None:
    """`with pytest.raises(AssertionError)` around an exploration that tries nothing must not be green."""
    kinds = [kind for kind in _all_kinds(ExplorerError) if issubclass(kind, AssertionError)]
    assert {kind.__name__ for kind in kinds} == {"CrashFoundError", "NeverSucceededError", "InterleavingFoundError"}
    with pytest.raises(CleanRunError):
        explore_crashes(writes, oracle=_says_no, world=a_store)


def _all_kinds(kind: type[Exception]) -> Iterator[type[Exception]]:
    for below in kind.__subclasses__():
        yield below
        yield from _all_kinds(below)


def _says_no(_outcome: AnyOutcome) -> None:
    raise AssertionError("no")


# --- what is run to its end -------------------------------------------------------------------------------------


async def is_async(world: CrashWorld) -> list[int]:
    return writes(world)


def generates(world: CrashWorld) -> Iterator[int]:
    yield from writes(world)


async def generates_async(world: CrashWorld) -> AsyncIterator[int]:
    for number in writes(world):
        yield number


LATE: dict[str, Callable[[CrashWorld], Any]] = {
    "async": is_async,
    "generator": generates,
    "async generator": generates_async,
    "lambda that returns a coroutine": lambda world: is_async(world),  # noqa: PLW0108  it is the slip
    "map": lambda world: map(lambda _: writes(world)[0], [1]),  # noqa: C417  it is the slip
}


def at_most_one(outcome: AnyOutcome) -> None:
    result = outcome.result
    assert result in ([1], [[1], [1]]), result


@pytest.mark.parametrize("explorer", EXPLORERS)
@pytest.mark.parametrize("attempt", LATE)
def test_what_calling_alone_does_not_run_is_run_to_its_end(attempt: str, explorer: str) -> None:
    report = EXPLORERS[explorer](LATE[attempt], oracle=at_most_one, world=a_store)
    plain = EXPLORERS[explorer](writes, oracle=at_most_one, world=a_store)
    assert str(report) == str(plain)


def test_a_crash_in_an_async_attempt_is_found() -> None:
    def both_once(outcome: AnyOutcome) -> None:
        assert outcome.world.store.get("k") == 1

    with pytest.raises(CrashFoundError, match=r'replay: explore_crashes\(is_async, ..., only="4:crash"\)'):
        explore_crashes(is_async, oracle=both_once, world=a_store)


def test_inside_of_an_event_loop_an_async_attempt_is_refused() -> None:
    async def explores() -> None:
        explore_crashes(is_async, oracle=ok, world=a_store)

    with pytest.raises(AttemptNotRunError, match="an event loop runs here already"):
        asyncio.run(explores())


def test_a_task_that_a_dead_attempt_has_left_does_nothing_in_the_next_one() -> None:
    async def leaves_a_task(world: CrashWorld) -> None:
        async def background() -> None:
            try:
                await asyncio.sleep(60)
            finally:
                with world.effect(f"cleans up after {world.attempt}"):
                    pass

        left = asyncio.ensure_future(background())
        await asyncio.sleep(0)
        world.store.set("k", 1)
        left.cancel()

    def none_cleans_late(outcome: AnyOutcome) -> None:
        assert all(effect.what.endswith(str(effect.attempt)) for effect in outcome.effects)

    explore_crashes(leaves_a_task, oracle=none_cleans_late, world=a_store)


@pytest.mark.parametrize("explorer", ["freezes", "at once"])
def test_what_is_left_out_is_said_with_the_option_that_left_it_out(explorer: str) -> None:
    report = EXPLORERS[explorer](
        writes, oracle=ok, world=a_store, prune=False, kinds=["crash"], max_ways=1, max_pairs=1
    )
    said = rf"{report.left_out} left out by max_ways; .*\({report.crashed_left_out} more left out by max_pairs\)"
    assert report.left_out > 0 < report.crashed_left_out
    assert re.search(said, str(report))


# --- one way alone ----------------------------------------------------------------------------------------------

ONE_WAY = {"crashes": "1:crash", "freezes": "1:freeze", "at once": "0:run 1,1:run 2"}


@pytest.mark.parametrize("find_all", [False, True])
@pytest.mark.parametrize("explorer", EXPLORERS)
def test_one_way_alone_that_passes_is_warned_of_where_it_is_asked_for(explorer: str, find_all: bool) -> None:  # noqa: FBT001
    with pytest.warns(OneWayWarning) as caught:
        EXPLORERS[explorer](writes, oracle=ok, world=a_store, only=ONE_WAY[explorer], find_all=find_all)
    (warning,) = caught
    assert str(warning.message).startswith(f'only="{ONE_WAY[explorer]}" tries one way and no other')
    assert warning.filename == __file__


@pytest.mark.parametrize("explorer", EXPLORERS)
def test_one_way_alone_that_is_a_finding_is_raised_and_not_warned_of(explorer: str) -> None:
    """The settings of pytest may make a warning an error, which would stand in front of what is looked for."""

    def clean_only(outcome: AnyOutcome) -> None:
        assert outcome.clean is None, "found"

    with pytest.raises(AssertionError, match=r"(?s)found.*only=\"[^\n]*\)  # remove only= once it passes$"):
        EXPLORERS[explorer](writes, oracle=clean_only, world=a_store, only=ONE_WAY[explorer])


# --- what is no slip --------------------------------------------------------------------------------------------


def test_a_constant_tuple_and_a_list_that_the_world_empties_are_fine() -> None:
    pages = (1, 2, 3)
    loaded: list[int] = []

    def fresh() -> CrashWorld:
        loaded.clear()
        return CrashWorld(store=FakeTaskStore(), pages=pages)

    def loads(world: CrashWorld) -> None:
        for page in world.pages:
            with world.effect(f"load {page}"):
                loaded.append(page)

    def all_loaded(_outcome: AnyOutcome) -> None:
        assert set(loaded) == set(pages)

    explore_crashes(loads, oracle=all_loaded, world=fresh)


def test_a_mock_of_a_client_is_fine() -> None:
    def loads(world: CrashWorld) -> None:
        with world.effect("load"):
            world.client.load(1)

    explore_crashes(loads, oracle=ok, world=lambda: CrashWorld(client=Mock(spec=Client)))


class Color(Enum):
    RED = 1


@dataclass(frozen=True)
class Place:
    path: Path


CONSTANTS: dict[str, Any] = {
    "text": "a",
    "numbers": (1, 2.0, Decimal(1), None, True, b"", range(3), frozenset({1})),
    "class": Warehouse,
    "function": writes,
    "lambda": lambda: None,
    "method": "abc".join,
    "builtin": print,
    "partial": partial(writes, 1),  # type: ignore[arg-type]
    "module": re,
    "enum": Color.RED,
    "logger": logging.getLogger("a"),
    "times": (datetime(2026, 1, 1, tzinfo=timezone.utc), timedelta(1), ZoneInfo("Europe/Berlin")),
    "path": Path(),
    "pattern": re.compile("a"),
    "asset": Asset("orders"),
    "frozen": Place(Path()),
    "mapping": MappingProxyType({"a": 1}),
    "sentinel": object(),
    "id": UUID(int=1),
}


@pytest.mark.parametrize("constant", CONSTANTS)
def test_what_cannot_change_may_be_in_all_worlds(constant: str) -> None:
    shared = CONSTANTS[constant]
    explore_crashes(writes, oracle=ok, world=lambda: CrashWorld(store=FakeTaskStore(), shared=shared, all=[shared]))


def test_a_mock_that_the_world_patches_afresh_is_fine(mocker: MockerFixture) -> None:
    def patched() -> CrashWorld:
        client = mocker.create_autospec(Client, instance=True)
        mocker.patch.object(Client, "__new__", return_value=client)
        return CrashWorld(store=FakeTaskStore(), client=client)

    def loads(world: CrashWorld) -> None:
        writes(world)
        with world.effect("load"):
            Client().load(1)

    def loaded(outcome: AnyOutcome) -> None:
        assert outcome.world.client.load.call_count >= len(outcome.effects) > 0

    explore_crashes(loads, oracle=loaded, world=patched)


@pytest.mark.parametrize("explorer", EXPLORERS)
def test_a_mock_whose_answers_are_used_up_by_the_first_way_is_no_green_test(
    explorer: str, mocker: MockerFixture
) -> None:
    mocker.patch.object(Client, "load", side_effect=[1, 2])

    def loads(world: CrashWorld) -> None:
        writes(world)
        Client().load(1)

    with pytest.raises(ExplorerError, match=r"StopIteration|two runs that should be alike"):
        EXPLORERS[explorer](loads, oracle=ok, world=a_store)


def test_a_mock_that_is_patched_by_its_specification_twice_is_an_error(mocker: MockerFixture) -> None:
    def patched() -> CrashWorld:
        mocker.patch.object(Client, "load", autospec=True)
        return a_store()

    with pytest.raises(Exception, match=r"Cannot (auto)?spec") as caught:
        explore_crashes(writes, oracle=ok, world=patched)
    assert type(caught.value).__name__ == "InvalidSpecError"


def test_a_whole_airflow_in_the_world_is_fine() -> None:
    def in_a_context(world: CrashWorld) -> None:
        with task_context(world=world.airflow) as attempt:
            attempt.task_store.set("k", 1)

    explore_crashes(in_a_context, oracle=ok, world=lambda: CrashWorld(airflow=World()))


@pytest.mark.parametrize("late", [is_async, generates, generates_async])
def test_an_effect_cannot_decorate_what_runs_later(late: Any) -> None:
    with pytest.raises(TypeError, match=r"Write `with world.effect\('load'\):` in its body"):
        CrashWorld().effect("load")(late)


def test_in_child_processes_the_slips_are_seen_as_well(tmp_path: Path) -> None:
    def forgets(world: CrashWorld) -> None:
        with world.effect("a"):
            tmp_path.joinpath("a").touch()
        world.effect("b")

    with pytest.raises(UnwatchedError, match="The effect 'b' was never entered"):
        explore_crashes(forgets, oracle=ok, kinds=["sigkill"])


def test_without_assert_statements_an_oracle_is_refused(tmp_path: Path) -> None:
    script = """
        from airflow_resume.testing import CrashWorld, FakeTaskStore, explore_crashes

        def never(outcome):
            assert False

        explore_crashes(lambda world: world.store.set("k", 1), oracle=never,
                        world=lambda: CrashWorld(store=FakeTaskStore()))
    """
    (tmp_path / "it.py").write_text(textwrap.dedent(script))
    done = subprocess.run([sys.executable, "-O", tmp_path / "it.py"], capture_output=True, text=True, check=False)
    assert "OracleBrokenError: The oracle never may assert" in done.stderr


def test_every_error_for_a_slip_is_on_the_page() -> None:
    named = {slip.error.__name__ for slip in SLIPS.values() if issubclass(slip.error, ExplorerError)}
    assert named - {"ExplorerError"} <= set(re.findall(r"`(\w+Error)`", PAGE.read_text()))
