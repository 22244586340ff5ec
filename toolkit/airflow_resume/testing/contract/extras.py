"""Abilities beyond Airflow's: `compare_and_set` and `scan`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError  # another one before Python 3.11
from contextlib import suppress
from typing import Any, ClassVar

from airflow_resume.store import StateStore
from airflow_resume.testing.contract.abilities import Ability, needs
from airflow_resume.testing.contract.children import Answering, run_together
from airflow_resume.testing.contract.fixtures import Fixtures
from airflow_resume.testing.contract.lines import lines_of, stopped_at

WRITERS, RACES = 4, 20
OWN, OTHER = "own", "other"
PATIENCE = 0.02
"""Seconds for a call that is made in the middle of another one; it may have to wait for the end of that."""

AskOther = Callable[[str], Callable[..., bool]]
"""Lets another process compare and set a key. The returned function waits so many seconds, and says whether it won."""


def winners(store: Any, ask_other: AskOther) -> list[str]:
    """The lines of a `compare_and_set` at which another one leads to a wrong end: there is not exactly one winner."""
    wrong = []
    for line in lines_of(lambda: store.compare_and_set("key", 0, OWN)):
        key = f"key.{line}"
        answers: list[Callable[..., bool]] = []

        def ask(key: str = key, answers: list[Callable[..., bool]] = answers) -> None:
            answers.append(ask_other(key))
            with suppress(TimeoutError, FutureTimeoutError):
                answers[0](timeout=PATIENCE)

        own = bool(stopped_at(line, lambda: store.compare_and_set(key, 0, OWN), ask))  # noqa: B023  called at once
        others = [answer() for answer in answers]  # none: this call has fewer lines than the first one
        kept = store.get(key)
        if [own, *others].count(True) != 1 or kept != (OWN if own else OTHER):
            wrong.append(f"line {line}: own {own}, other {others}, kept {kept!r}")
    return wrong


class Extras(Fixtures):
    """Tests of optional methods of a store.

    `compare_and_set(key, expected_version, value)` returns the new version, a number above 0, or None when the
    version is another one and nothing was written; a missing key has the version 0. `scan(prefix)` gives the keys
    that begin with it, in any order.
    """

    promises: ClassVar[Collection[Ability]] = ()

    def test_abilities(self, abilities: dict[Ability, bool], record_property: Callable[[str, object], None]) -> None:
        for ability, found in abilities.items():
            record_property(f"has {ability.value}", found)
            print(f"{ability.value:24}", "yes" if found else f"no: {ability.how}")  # noqa: T201  shown by pytest -rP
        assert [ability for ability in self.promises if not abilities[ability]] == []

    @needs(Ability.COMPARE_AND_SET)
    def test_compare_and_set_writes_over_the_expected_version_only(self, store: Any) -> None:
        first = store.compare_and_set("key", 0, "a")
        assert (bool(first), store.compare_and_set("key", 0, "b"), store.get("key")) == (True, None, "a")
        second = store.compare_and_set("key", first, "c")
        assert (bool(second), store.compare_and_set("key", first, "d"), store.get("key")) == (True, None, "c")

    @needs(Ability.COMPARE_AND_SET)
    def test_every_write_changes_the_version(self, store: Any) -> None:
        version = store.compare_and_set("key", 0, "a")
        store.set("key", "b")
        assert (store.compare_and_set("key", version, "c"), store.get("key")) == (None, "b")

    @needs(Ability.COMPARE_AND_SET)
    def test_compare_and_set_does_not_bring_back_what_was_deleted(self, store: Any) -> None:
        version = store.compare_and_set("key", 0, "a")
        store.delete("key")
        assert (store.compare_and_set("key", version, "b"), store.get("key")) == (None, None)

    @needs(Ability.COMPARE_AND_SET)
    def test_of_threads_of_which_one_is_in_the_middle_of_compare_and_set_one_wins(self, store: Any) -> None:
        with ThreadPoolExecutor(1) as threads:

            def ask_other(key: str) -> Callable[[], bool]:
                return threads.submit(lambda: bool(store.compare_and_set(key, 0, OTHER))).result

            assert winners(store, ask_other) == []

    @needs(Ability.COMPARE_AND_SET, Ability.DURABLE)
    def test_of_processes_of_which_one_is_in_the_middle_of_compare_and_set_one_wins(
        self, reopen: Callable[[], Any], open_store: Callable[[], Any]
    ) -> None:
        def answer(key: str) -> bool:
            return bool(open_store().compare_and_set(key, 0, OTHER))

        with Answering(answer) as other:
            assert winners(reopen(), other.ask) == []

    @needs(Ability.COMPARE_AND_SET, Ability.DURABLE)
    def test_of_processes_that_compare_and_set_at_once_one_wins(
        self, reopen: Callable[[], Any], open_store: Callable[[], Any]
    ) -> None:
        def race(index: int) -> list[bool]:
            store = open_store()
            return [bool(store.compare_and_set(f"key.{number}", 0, index)) for number in range(RACES)]

        won = list(zip(*run_together(race, WRITERS), strict=True))
        store = reopen()
        assert [each.count(True) for each in won] == [1] * RACES
        assert [store.get(f"key.{number}") for number in range(RACES)] == [each.index(True) for each in won]

    @needs(Ability.SCAN)
    def test_scan_gives_the_keys_with_the_prefix(self, store: Any) -> None:
        for key in ("a_b", "a_bc", "axb", "A_b", "b"):
            store.set(key, 1)
        assert sorted(store.scan("a_b")) == ["a_b", "a_bc"]
        assert sorted(store.scan("")) == ["A_b", "a_b", "a_bc", "axb", "b"]

    @needs(Ability.SCAN)
    def test_scan_does_not_give_what_was_deleted(self, store: StateStore) -> None:
        for key in ("a.1", "a.2"):
            store.set(key, 1)
        store.delete("a.1")
        assert list(store.scan("a.")) == ["a.2"]  # type: ignore[attr-defined]
