"""Abilities beyond Airflow's: `compare_and_set` and `scan`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, ClassVar

from airflow_resume.store import StateStore
from airflow_resume.testing.contract.abilities import Ability, needs
from airflow_resume.testing.contract.children import run_together
from airflow_resume.testing.contract.fixtures import Fixtures

WRITERS = 4


class Extras(Fixtures):
    """Tests of what a store may offer besides.

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

    @needs(Ability.COMPARE_AND_SET, Ability.DURABLE)
    def test_of_processes_that_compare_and_set_at_once_one_wins(
        self, reopen: Callable[[], Any], open_store: Callable[[], Any]
    ) -> None:
        won = run_together(lambda index: bool(open_store().compare_and_set("key", 0, index)), WRITERS)
        assert won.count(True) == 1
        assert reopen().get("key") == won.index(True)

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
