"""What Airflow requires of a backend: scopes that share nothing, text kept unchanged, and async methods alike."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from airflow_resume.testing.contract.abilities import Ability, needs
from airflow_resume.testing.contract.fixtures import Fixtures
from airflow_resume.testing.contract.places import Scope

TEXTS = {
    "spaces": '{ "b" : 1,\n "a":2 }',
    "order of keys": '{"b": 1, "a": 2}',
    "repeated keys": '{"a": 1, "a": 2}',
    "escapes": '"\\u0000 \\u00e9 \\ud83d\\ude00"',
    "unicode": '"é \U0001f600"',
    "numbers": "[1.0, 1, 1e2, -0.0, 18446744073709551615, 0.30000000000000004]",
}

KINDS = {"task": 0, "asset": -1}
"""The index of a scope of each kind among the scopes."""


class OfABackend(Fixtures):
    """Tests of a backend with several scopes."""

    @needs(Ability.SCOPES)
    def test_scopes_share_nothing(self, backend: Any) -> None:
        scopes = self.scopes(backend)
        for number, scope in enumerate(scopes):
            backend.set(scope, "key", str(number))
        assert kept(backend, scopes) == {scope: str(number) for number, scope in enumerate(scopes)}

    @needs(Ability.SCOPES)
    def test_map_indices_share_nothing(self, backend: Any) -> None:
        mapped = self._map_indices(backend)
        for scope in mapped:
            backend.set(scope, "key", f'"{scope.map_index}"')
        backend.delete(mapped[0], "key")
        expected = {scope: f'"{scope.map_index}"' for scope in mapped}
        assert kept(backend, mapped) == {**expected, mapped[0]: None}

    @needs(Ability.SCOPES)
    def test_what_is_set_in_one_scope_is_missing_in_the_others(self, backend: Any) -> None:
        first, *others = self.scopes(backend)
        backend.set(first, "key", "1")
        assert kept(backend, others) == dict.fromkeys(others)

    @needs(Ability.SCOPES)
    @pytest.mark.parametrize("kind", KINDS)
    def test_to_delete_in_one_scope_leaves_the_others(self, backend: Any, kind: str) -> None:
        scopes = self.scopes(backend)
        for scope in scopes:
            backend.set(scope, "key", "1")
        backend.delete(scopes[KINDS[kind]], "key")
        assert kept(backend, scopes) == {**dict.fromkeys(scopes, "1"), scopes[KINDS[kind]]: None}

    @needs(Ability.SCOPES)
    @pytest.mark.parametrize("kind", KINDS)
    def test_to_clear_a_scope_leaves_the_others(self, backend: Any, kind: str) -> None:
        scopes = self.scopes(backend)
        cleared = scopes[KINDS[kind]]
        for scope in scopes:
            backend.set(scope, "key", "1")
        backend.set(cleared, "key2", "1")
        backend.clear(cleared)
        assert kept(backend, scopes) == {**dict.fromkeys(scopes, "1"), cleared: None}
        assert backend.get(cleared, "key2") is None

    @needs(Ability.SCOPES)
    @pytest.mark.parametrize("method", ["clear", "aclear"])
    def test_to_clear_all_map_indices_leaves_the_other_tasks(self, backend: Any, method: str) -> None:
        scopes, mapped = self.scopes(backend), self._map_indices(backend)
        for scope in scopes:
            backend.set(scope, "key", "1")
        clearing = getattr(backend, method)(mapped[0], all_map_indices=True)
        if method == "aclear":
            asyncio.run(clearing)
        assert kept(backend, scopes) == {scope: None if scope in mapped else "1" for scope in scopes}

    @needs(Ability.SCOPES)
    @pytest.mark.parametrize("text", TEXTS)
    def test_a_backend_keeps_the_text_as_it_is(self, backend: Any, text: str) -> None:
        for scope in (self.scopes(backend)[0], self.scopes(backend)[-1]):
            backend.set(scope, "key", TEXTS[text])
            assert backend.get(scope, "key") == TEXTS[text]

    @needs(Ability.SCOPES)
    @pytest.mark.parametrize("kind", KINDS)
    def test_the_async_methods_see_the_same(self, backend: Any, kind: str) -> None:
        scopes = self.scopes(backend)
        scope, other = scopes[KINDS[kind]], scopes[1 if kind == "task" else -2]
        for key in ("read", "deleted"):
            backend.set(scope, key, "1")
        backend.set(other, "key", "2")

        async def use() -> list[str | None]:
            await backend.aset(scope, "written", "3")
            await backend.adelete(scope, "deleted")
            await backend.aclear(other)
            return [await backend.aget(scope, "read"), await backend.aget(scope, "missing")]

        assert asyncio.run(use()) == ["1", None]
        assert [backend.get(scope, key) for key in ("written", "deleted")] == ["3", None]
        assert backend.get(other, "key") is None

    @needs(Ability.SCOPES)
    @pytest.mark.parametrize("kind", KINDS)
    def test_a_reference_is_the_same_each_time_and_leads_to_the_value(self, backend: Any, kind: str) -> None:
        scope = self.scopes(backend)[KINDS[kind]]
        serialize = getattr(backend, f"serialize_{kind}_state_store_to_ref")
        deserialize = getattr(backend, f"deserialize_{kind}_state_store_from_ref")
        value = {"a": [1, None, "é"]}
        references = [serialize(value=value, key="key", scope=scope) for _ in range(2)]
        assert references[0] == references[1]
        assert deserialize(references[0]) == value

    def _map_indices(self, backend: Any) -> list[Scope]:
        """The scopes that differ from the first in nothing but the map index, and the first."""
        first, *others = self.scopes(backend)
        return [first, *(scope for scope in others if task_of(scope) == task_of(first))]


def kept(backend: Any, scopes: list[Scope]) -> dict[Scope, str | None]:
    """The value of "key" in each scope."""
    return {scope: backend.get(scope, "key") for scope in scopes}


def task_of(scope: Scope) -> tuple[object, ...]:
    """What the instances of a mapped task share."""
    return tuple(getattr(scope, name, None) for name in ("dag_id", "run_id", "task_id"))
