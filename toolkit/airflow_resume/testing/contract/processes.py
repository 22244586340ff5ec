"""Several processes, forks and kills. Children are forked; a store must handle a fork itself."""

from __future__ import annotations

import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

from airflow_resume.store import StateStore
from airflow_resume.testing.contract.abilities import Ability, needs
from airflow_resume.testing.contract.children import acknowledged_until_killed, run_together
from airflow_resume.testing.contract.fixtures import Fixtures

Open = Callable[[], StateStore]

FIRST_USERS = 8
WRITERS, WRITES = 4, 20
ACKNOWLEDGED = 25
KILLS = 3
LONG = 5_000


class Processes(Fixtures):
    """Tests of what is shared and what survives."""

    def test_threads_lose_no_write(self, store: StateStore) -> None:
        with ThreadPoolExecutor(WRITERS) as threads:
            list(threads.map(lambda writer: write_own_keys(store, writer), range(WRITERS)))
        assert own_keys(store) == all_written()

    @needs(Ability.DURABLE)
    def test_what_was_set_is_there_when_opened_again(self, reopen: Open) -> None:
        reopen().set("key", {"a": [1]})
        assert reopen().get("key") == {"a": [1]}

    @needs(Ability.DURABLE)
    def test_what_was_deleted_is_gone_when_opened_again(self, reopen: Open) -> None:
        first = reopen()
        first.set("key", 1)
        first.delete("key")
        assert reopen().get("key", "missing") == "missing"

    @needs(Ability.DURABLE)
    def test_what_another_process_sets_is_seen_at_once(self, reopen: Open, open_store: Open) -> None:
        store = reopen()
        store.set("key", "old")
        assert store.get("key") == "old"
        run_together(lambda _: open_store().set("key", "new"), 1)
        assert store.get("key") == "new"

    @needs(Ability.DURABLE)
    def test_what_another_process_sets_first_or_deletes_is_seen_at_once(self, reopen: Open, open_store: Open) -> None:
        store = reopen()
        store.set("deleted", 1)
        assert (store.get("deleted"), store.get("new")) == (1, None)

        def change(_: int) -> None:
            other = open_store()
            other.set("new", 2)
            other.delete("deleted")

        run_together(change, 1)
        assert (store.get("deleted"), store.get("new")) == (None, 2)

    @needs(Ability.DURABLE)
    def test_a_forked_child_and_its_parent_use_the_same_store(self, reopen: Open) -> None:
        store = reopen()
        store.set("parent", 1)

        def use(index: int) -> list[object]:
            write_own_keys(store, index)
            return [store.get("parent"), store.get(f"key.{index}.0")]

        assert run_together(use, WRITERS) == [[1, 0]] * WRITERS
        store.set("parent", 2)
        assert (store.get("parent"), own_keys(store)) == (2, all_written())

    @needs(Ability.DURABLE)
    def test_processes_lose_no_write(self, reopen: Open, open_store: Open) -> None:
        run_together(lambda writer: write_own_keys(open_store(), writer), WRITERS)
        assert own_keys(reopen()) == all_written()

    @needs(Ability.DURABLE)
    def test_of_processes_that_write_one_key_a_whole_value_stays(self, reopen: Open, open_store: Open) -> None:
        def write_and_read(writer: int) -> list[bool]:
            store = open_store()
            value: list[Any] = [writer] * LONG
            whole = []
            for _ in range(WRITES):
                store.set("key", value)
                whole.append(is_whole(store.get("key")))
            return whole

        assert run_together(write_and_read, WRITERS) == [[True] * WRITES] * WRITERS
        assert is_whole(reopen().get("key"))

    @needs(Ability.DURABLE)
    def test_processes_may_all_be_the_first(self, reopen: Open, open_store: Open) -> None:
        run_together(lambda index: open_store().set(f"key.{index}", index), FIRST_USERS)
        store = reopen()
        assert [store.get(f"key.{index}") for index in range(FIRST_USERS)] == list(range(FIRST_USERS))

    @needs(Ability.DURABLE)
    def test_what_was_acknowledged_survives_kill_9(self, reopen: Open, open_store: Open) -> None:
        def write(acknowledge: Callable[[int], None]) -> None:
            store = open_store()
            for number in count():
                store.set(f"key.{number}", number)
                acknowledge(number)

        numbers = acknowledged_until_killed(write, after=ACKNOWLEDGED)
        store = reopen()
        assert [store.get(f"key.{number}") for number in numbers] == numbers

    @needs(Ability.DURABLE)
    def test_each_acknowledged_change_survives_a_kill_9_right_after_it(self, reopen: Open, open_store: Open) -> None:
        reopen().set("0", "before")
        for number in range(1, KILLS + 1):
            acknowledged_until_killed(lambda done, n=number: change_and_wait(open_store(), n, done), after=1)  # type: ignore[misc]
            store = reopen()
            found = [store.get(key, "missing") for key in (str(number - 1), str(number), "last")]
            assert found == ["missing", "kept", number]

    @needs(Ability.DURABLE)
    def test_after_kill_9_others_can_write(self, reopen: Open, open_store: Open) -> None:
        def write(acknowledge: Callable[[int], None]) -> None:
            store = open_store()
            for number in count():
                store.set("key", "x" * 50_000)
                acknowledge(number)

        acknowledged_until_killed(write, after=ACKNOWLEDGED)
        store = reopen()
        assert store.get("key") == "x" * 50_000
        store.set("key", "after")
        assert reopen().get("key") == "after"


def change_and_wait(store: StateStore, number: int, acknowledge: Callable[[int], None]) -> None:
    """Set a key, set one again, delete one, and do nothing more, not even close the store."""
    store.set(str(number), "kept")
    store.set("last", number)
    store.delete(str(number - 1))
    acknowledge(number)
    signal.pause()


def write_own_keys(store: StateStore, writer: int) -> None:
    """Keys that no other writer uses."""
    for number in range(WRITES):
        store.set(f"key.{writer}.{number}", number)


def own_keys(store: StateStore) -> list[list[object]]:
    """What all writers have written."""
    return [[store.get(f"key.{writer}.{number}") for number in range(WRITES)] for writer in range(WRITERS)]


def all_written() -> list[list[int]]:
    """The values that they should have."""
    return [list(range(WRITES))] * WRITERS


def is_whole(value: object) -> bool:
    """Whether the value is what one of the writers wrote."""
    return isinstance(value, list) and len(value) == LONG and len(set(value)) == 1
