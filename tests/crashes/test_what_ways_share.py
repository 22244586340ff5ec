"""What ways share outside of the world is refused where it changed and the oracle depends on it, and only there."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest import mock
from unittest.mock import MagicMock, Mock

import httpx
import pytest
import requests
from pytest_mock import MockerFixture

from airflow_resume.errors import UnreadableRecordError
from airflow_resume.testing import CrashWorld, FakeTaskStore, explore_crashes, explore_freezes, explore_interleavings
from airflow_resume.testing.crashes.outcome import ExplorationOutcome
from airflow_resume.testing.errors import OracleBrokenError, SharedWorldError
from airflow_resume.testing.fakes.rows import StoredRow

AnyOutcome = ExplorationOutcome[CrashWorld]
PAGES = {0, 1, 2}


def a_world(**outliving: Any) -> CrashWorld:
    return CrashWorld(store=FakeTaskStore(), loaded=[], **outliving)


def loses(load: Callable[[int], Any]) -> Callable[[CrashWorld], None]:
    """An attempt that sets the position before the work, so that a crash in between loses a page."""

    def attempt(world: CrashWorld) -> None:
        for page in range(world.store.get("page", 0), len(PAGES)):
            world.store.set("page", page + 1)
            with world.effect(f"load {page}"):
                load(page)

    return attempt


def loads(world: CrashWorld) -> None:
    for page in range(world.store.get("page", 0), len(PAGES)):
        with world.effect(f"load {page}"):
            world.loaded.append(page)
        world.store.set("page", page + 1)


def all_loaded(outcome: AnyOutcome) -> None:
    assert set(outcome.world.loaded) == PAGES


def explore(attempt: Any, oracle: Any, world: Any = a_world) -> None:
    explore_crashes(attempt, oracle=oracle, world=world, max_pairs=30)


def refused(attempt: Any, oracle: Any, says: str, world: Any = a_world) -> None:
    with pytest.raises(SharedWorldError, match=says):
        explore(attempt, oracle, world)


# --- mocks that are made once -----------------------------------------------------------------------------------


class Hook:
    def load(self, page: int) -> None: ...


@pytest.mark.parametrize(
    "explorer", [explore_freezes, lambda one, **options: explore_interleavings([one] * 2, **options)]
)
def test_a_mock_that_the_oracle_reaches_by_a_path_is_seen_by_all_explorers(explorer: Any) -> None:
    client = Mock()

    def all_called(_outcome: AnyOutcome) -> None:
        for page in PAGES:
            client.load.assert_any_call(page)

    with pytest.raises(SharedWorldError, match=r"the mock 'client\.load'"):
        explorer(loses(client.load), oracle=all_called, world=a_world)


def test_the_method_of_a_mock_counts_the_calls_of_all_ways() -> None:
    client = Mock()

    def all_called(_outcome: AnyOutcome) -> None:
        for page in PAGES:
            client.load.assert_any_call(page)

    def often_enough(_outcome: AnyOutcome) -> None:
        assert client.load.call_count >= len(PAGES)

    for oracle in (all_called, often_enough):
        refused(loses(client.load), oracle, r"the mock 'client\.load'.*\nMake it in .*CrashWorld\(client=Mock\(spec=")


def test_what_a_mock_returns_counts_the_calls_of_all_ways() -> None:
    client = MagicMock()

    def load(page: int) -> None:
        with client.cursor() as cursor:
            cursor.execute("insert", page)

    def all_called(_outcome: AnyOutcome) -> None:
        for page in PAGES:
            client.cursor.return_value.__enter__.return_value.execute.assert_any_call("insert", page)

    refused(loses(load), all_called, r"the mock 'client\..*execute'")


def test_a_function_of_a_module_that_is_patched_once_counts_the_calls_of_all_ways(mocker: MockerFixture) -> None:
    mocker.patch("os.getlogin")

    def often_enough(_outcome: AnyOutcome) -> None:
        assert os.getlogin.call_count >= len(PAGES)  # type: ignore[attr-defined]

    refused(loses(lambda _page: os.getlogin()), often_enough, r"the mock 'os\.getlogin'")


@pytest.mark.parametrize("autospec", [False, True])
def test_a_method_of_a_class_that_is_patched_once_counts_the_calls_of_all_ways(
    autospec: bool,  # noqa: FBT001
    mocker: MockerFixture,
) -> None:
    mocker.patch.object(Hook, "load", **({"autospec": True} if autospec else {}))

    def often_enough(_outcome: AnyOutcome) -> None:
        assert Hook.load.call_count >= len(PAGES)  # type: ignore[attr-defined]

    refused(loses(lambda page: Hook().load(page)), often_enough, r"the mock 'Hook\.load'")


def test_a_spy_that_is_made_once_counts_the_calls_of_all_ways(mocker: MockerFixture) -> None:
    hook = Hook()
    mocker.spy(hook, "load")

    def often_enough(_outcome: AnyOutcome) -> None:
        assert hook.load.call_count >= len(PAGES)  # type: ignore[attr-defined]

    refused(loses(hook.load), often_enough, r"the mock 'hook\.load'")


def test_a_mock_that_the_world_makes_or_resets_is_fine(mocker: MockerFixture) -> None:
    client = Mock()

    def fresh() -> CrashWorld:
        client.reset_mock()
        mocker.patch.object(Hook, "load")
        return a_world()

    def attempt(world: CrashWorld) -> None:
        loads(world)
        client.load(1)
        Hook().load(1)

    def called(_outcome: AnyOutcome) -> None:
        client.load.assert_called()
        Hook.load.assert_called()  # type: ignore[attr-defined]

    explore(attempt, called, fresh)


def test_a_mock_that_the_oracle_only_calls_is_fine() -> None:
    region = Mock(return_value="eu")

    def attempt(world: CrashWorld) -> None:
        region()
        loads(world)

    def in_the_region(outcome: AnyOutcome) -> None:
        assert region() == "eu"
        all_loaded(outcome)

    explore(attempt, in_the_region)


# --- other things -----------------------------------------------------------------------------------------------


class Sink:
    rows: list[int] = []  # noqa: RUF012  it is the slip


class SinkBelow(Sink):
    pass


def of_world_sink(outcome: AnyOutcome) -> None:
    assert set(outcome.world.sink.rows) == PAGES


def test_a_list_in_a_class_belongs_to_all_ways() -> None:
    def all_there(_outcome: AnyOutcome) -> None:
        assert set(Sink.rows) == PAGES

    refused(loses(Sink.rows.append), all_there, r"'Sink\.rows'")


@pytest.mark.parametrize("kind", [Sink, SinkBelow])
def test_a_list_in_the_class_of_what_is_in_the_world_belongs_to_all_ways(kind: type[Sink]) -> None:
    def attempt(world: CrashWorld) -> None:
        loses(world.sink.rows.append)(world)

    refused(attempt, of_world_sink, r"world\.sink\.rows", lambda: a_world(sink=kind()))


def test_a_list_that_only_a_function_names_belongs_to_all_ways() -> None:
    rows: list[int] = []

    def saved() -> set[int]:
        return set(rows)

    def all_there(_outcome: AnyOutcome) -> None:
        assert saved() == PAGES

    refused(loses(rows.append), all_there, "'rows'")
    refused(
        lambda world: loses(world.save)(world),
        lambda outcome: None if set(outcome.world.saved()) == PAGES else pytest.fail("lost"),
        "rows",
        lambda: a_world(
            save=lambda page: rows.append(page),  # noqa: PLW0108  a function of the test's own
            saved=lambda: rows,
        ),
    )


def test_a_list_in_slots_private_or_a_default_belongs_to_all_ways() -> None:
    class Slots:
        __slots__ = ("rows",)

    class Private:
        def __init__(self) -> None:
            self.__rows: list[int] = []

        def load(self, page: int) -> None:
            self.__rows.append(page)

        def all(self) -> set[int]:
            return set(self.__rows)

    def load(page: int | None = None, rows: list[int | None] = []) -> set[int | None]:  # noqa: B006  the slip
        rows.append(page)
        return set(rows)

    slots, private = Slots(), Private()
    slots.rows = []  # type: ignore[attr-defined]
    for way, all_there in (
        (slots.rows.append, lambda: set(slots.rows)),  # type: ignore[attr-defined]
        (private.load, private.all),
        (load, lambda: load() - {None}),
    ):
        refused(loses(way), lambda _, there=all_there: None if there() == PAGES else pytest.fail("lost"), "rows")


MASK = 0
SEEN: ContextVar[frozenset[int]] = ContextVar("SEEN", default=frozenset())


def test_a_name_or_attribute_that_is_bound_anew_belongs_to_all_ways() -> None:
    mask, space = 0, SimpleNamespace(mask=0)

    def load_global(page: int) -> None:
        global MASK  # noqa: PLW0603  it is the slip
        MASK |= 1 << page

    def load_nonlocal(page: int) -> None:
        nonlocal mask
        mask |= 1 << page

    def load_attribute(page: int) -> None:
        space.mask |= 1 << page

    def load_variable(page: int) -> None:
        SEEN.set(SEEN.get() | {page})

    for load, is_full, name in (
        (load_global, lambda: MASK == 7, "MASK"),
        (load_nonlocal, lambda: mask == 7, "mask"),
        (load_attribute, lambda: space.mask == 7, "space.mask"),
        (load_variable, lambda: SEEN.get() == PAGES, "SEEN"),
    ):
        refused(loses(load), lambda _, full=is_full: None if full() else pytest.fail("lost"), re.escape(f"'{name}'"))


def test_what_changes_and_the_oracle_does_not_depend_on_is_fine() -> None:
    attempts: list[int] = []
    expected, config = [2, 0, 1], {"pages": 3}

    def attempt(world: CrashWorld) -> None:
        attempts.append(world.attempt)
        expected.sort()
        config["pages"] = 3
        config.setdefault("size", 1)
        loads(world)

    def as_expected(outcome: AnyOutcome) -> None:
        assert sorted(set(outcome.world.loaded)) == sorted(expected), f"after {len(attempts)} attempts"
        assert len(set(outcome.world.loaded)) == config["pages"]

    explore(attempt, as_expected)
    assert len(attempts) > 3
    assert config == {"pages": 3, "size": 1}


MADE_ONCE = {
    "sentinel": mock.sentinel.a,
    "lock": threading.Lock(),
    "lock of a thread": threading.RLock(),
    "timeout": httpx.Timeout(5),
    "client": httpx.Client(),
    "session": requests.Session(),
}


@pytest.mark.parametrize("name", MADE_ONCE)
def test_what_keeps_nothing_for_the_next_way_may_be_made_once(name: str) -> None:
    explore(loads, all_loaded, lambda: a_world(one=MADE_ONCE[name]))


def test_a_session_that_an_attempt_changes_must_not_be_made_once() -> None:
    session = requests.Session()

    def attempt(world: CrashWorld) -> None:
        loads(world)
        world.session.verify = world.session.params["a"] = object()

    refused(attempt, all_loaded, r"world\.session\.params", lambda: a_world(session=session))


# --- what is said -----------------------------------------------------------------------------------------------


def test_the_arguments_of_a_partial_are_counted_from_0() -> None:
    rows: list[int] = []
    refused(loads, all_loaded, r"world\.load\.args\[0\] is the same list", lambda: a_world(load=partial(print, rows)))
    refused(loads, all_loaded, r"world\.load\.keywords\['rows'\] is", lambda: a_world(load=partial(dict, rows=rows)))
    refused(loads, all_loaded, r"world\.load\.func\.__self__ is", lambda: a_world(load=partial(rows.append, 1)))


def test_a_list_with_something_in_it_is_to_be_copied() -> None:
    rows = [7]

    def all_there(_outcome: AnyOutcome) -> None:
        assert set(rows) >= PAGES

    refused(loses(rows.append), all_there, r"CrashWorld\(rows=list\(rows\)\)")


@pytest.mark.parametrize("oracle", [Mock(return_value=None), mock.create_autospec(all_loaded, return_value=None)])
def test_an_oracle_that_is_a_mock_is_refused(oracle: Any) -> None:
    with pytest.raises(OracleBrokenError, match="is a mock"):
        explore(loads, oracle)


@pytest.mark.parametrize("text", ['{"a":', '"\\ud800"'])
def test_a_text_that_is_no_json_is_an_unreadable_record_and_not_an_outage(text: str) -> None:
    store = FakeTaskStore()
    store.rows["k"] = StoredRow(text=text)
    with pytest.raises(UnreadableRecordError, match="is no JSON"):
        store.get("k")


class Vanishing(dict[str, int]):
    """From which keys vanish while it is read, as from a dictionary of weak references when garbage is collected."""

    reads = 0

    def items(self) -> Any:
        self.reads += 1
        if self.reads % 2:
            raise RuntimeError("dictionary changed size during iteration")
        return super().items()


def test_a_mapping_that_changes_while_it_is_read_is_read_again() -> None:
    cached = Vanishing(page=1)

    def oracle(outcome: AnyOutcome) -> None:
        assert cached.keys() == {"page"}
        all_loaded(outcome)

    explore(loads, oracle)
    assert cached.reads > 1
