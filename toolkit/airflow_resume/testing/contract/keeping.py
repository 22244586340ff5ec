"""What goes in comes out: values, keys, sizes."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from typing import Any

import pytest

from airflow_resume.store import StateStore
from airflow_resume.testing.contract.fixtures import Fixtures
from airflow_resume.testing.contract.samples import DOUBTFUL, JSON, LOOKALIKES, PLAIN, exactly, written

SIZES = (70_000, 1_000_000, 9 * 2**20)
"""Characters of text. A store must accept only the first size."""


class Keeping(Fixtures):
    """Tests of every store."""

    examples = 100
    """How many sequences of calls are compared with a dict."""

    def test_a_missing_key_gives_the_default(self, store: StateStore) -> None:
        assert store.get("missing") is None
        assert store.get("missing", 7) == 7

    @pytest.mark.parametrize("kind", JSON)
    def test_every_kind_of_json_comes_back_unchanged(self, store: StateStore, kind: str) -> None:
        store.set("key", JSON[kind])
        assert written(store.get("key", "missing")) == written(JSON[kind])

    @pytest.mark.parametrize("kind", DOUBTFUL)
    def test_what_json_cannot_hold_comes_back_unchanged_or_is_refused(self, store: StateStore, kind: str) -> None:
        store.set("key", "before")
        if refused(store, "key", DOUBTFUL[kind]):
            assert store.get("key") == "before"
        else:
            assert exactly(store.get("key", "missing")) == exactly(DOUBTFUL[kind])

    @pytest.mark.parametrize("size", SIZES)
    def test_a_large_value_comes_back_whole(self, store: StateStore, size: int) -> None:
        value = "0123456789" * (size // 10)
        store.set("key", "before")
        if size == SIZES[0] or not refused(store, "key", value):
            store.set("key", value)
            assert store.get("key") == value, f"a text of {size} characters came back changed"  # no diff of megabytes
        else:
            assert store.get("key") == "before"

    def test_the_last_value_replaces_those_before(self, store: StateStore) -> None:
        values: list[Any] = [{"a": 1}, "text", [2], 3]
        for value in values:
            store.set("key", value)
        assert store.get("key") == 3

    def test_a_deleted_key_is_missing(self, store: StateStore) -> None:
        store.set("key", 1)
        store.delete("key")
        assert store.get("key", "missing") == "missing"

    def test_a_deleted_key_can_be_set_again(self, store: StateStore) -> None:
        store.set("key", 1)
        store.delete("key")
        store.set("key", 2)
        assert store.get("key") == 2

    def test_to_delete_what_is_missing_is_no_error(self, store: StateStore) -> None:
        store.set("key", 1)
        store.delete("missing")
        assert store.get("key") == 1

    def test_a_value_is_a_copy_both_ways(self, store: StateStore) -> None:
        given: dict[str, Any] = {"list": [1]}
        store.set("key", given)
        given["list"].append(2)
        got: Any = store.get("key")
        got["list"].append(3)
        assert store.get("key") == {"list": [1]}

    @pytest.mark.parametrize("pair", LOOKALIKES)
    def test_keys_that_look_alike_are_two(self, store: StateStore, pair: str) -> None:
        given = dict(zip(LOOKALIKES[pair], ("one", "other"), strict=True))
        kept = {key: value for key, value in given.items() if taken(store, key, value)}
        assert {key: store.get(key) for key in kept} == kept
        for key in given:
            delete(store, key, surely=key in kept)
            assert {other: store.get(other) for other in kept} == {**kept, **({key: None} if key in kept else {})}
            if key in kept:
                store.set(key, kept[key])

    def test_many_keys_keep_their_values(self, store: StateStore) -> None:
        for number in range(100):
            store.set(f"key.{number}", number)
        assert [store.get(f"key.{number}") for number in range(100)] == list(range(100))

    def test_it_behaves_as_a_dict(self, store: StateStore) -> None:
        pytest.importorskip("hypothesis", reason="the comparison with a dict needs hypothesis: install it")
        from airflow_resume.testing.contract.model import agree_with_a_dict

        agree_with_a_dict(store, examples=self.examples)


def taken(store: StateStore, key: str, value: Any) -> bool:
    """Whether the store accepts the value under that key; it must if the key is a plain one."""
    if not PLAIN.fullmatch(key):
        return not refused(store, key, value)
    store.set(key, value)
    return True


def delete(store: StateStore, key: str, *, surely: bool) -> None:
    """Delete the key; a store may refuse a key here that it did not accept."""
    with nullcontext() if surely else suppress(Exception):
        store.delete(key)


def refused(store: StateStore, key: str, value: Any) -> bool:
    """Whether the store refuses the value, with whatever error."""
    try:
        store.set(key, value)
    except Exception:  # noqa: BLE001  see above
        return True
    return False
