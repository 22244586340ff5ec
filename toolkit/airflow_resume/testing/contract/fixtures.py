"""The fixtures of the tests: each fixture that a subclass may supply has a default here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, ClassVar, TypeAlias

import pytest

from airflow_resume.store import StateStore
from airflow_resume.testing.contract.abilities import Ability
from airflow_resume.testing.contract.places import Backend, BackendStore, Scope, default_scopes, has_cleanup

Opened: TypeAlias = Callable[[Any], Any]
"""Closes what it is given after the test, if it can be closed."""


class Fixtures:
    """What all tests of the contract share."""

    differs: ClassVar[dict[str, str]] = {}

    def scopes(self, backend: Any) -> list[Scope]:
        """Scopes of the backend that must not share anything; the first is that of the store.

        Args:
            backend: that is tested.
        """
        return default_scopes(backend)

    @pytest.fixture
    def open_backend(self) -> Callable[[], Backend] | None:
        return None

    @pytest.fixture
    def backend(self, open_backend: Callable[[], Backend] | None, opened: Opened) -> Backend | None:
        return None if open_backend is None else opened(open_backend())

    @pytest.fixture
    def open_store(self, open_backend: Callable[[], Backend] | None) -> Callable[[], StateStore] | None:
        return None if open_backend is None else lambda: self._first_scope(open_backend())

    @pytest.fixture
    def store(self, backend: Backend | None, open_store: Callable[[], StateStore] | None, opened: Opened) -> StateStore:
        if backend is not None:
            return self._first_scope(backend)
        if open_store is None:
            pytest.fail(f"{type(self).__name__} needs a fixture `store`, `open_store`, `backend` or `open_backend`")
        return opened(open_store())  # type: ignore[no-any-return]

    @pytest.fixture
    def cleanup(self, backend: Backend | None, store: StateStore) -> Callable[[], object] | None:
        if backend is not None and has_cleanup(backend):
            return backend.cleanup  # type: ignore[attr-defined,no-any-return]
        return getattr(store, "cleanup", None)

    @pytest.fixture
    def abilities(self, request: pytest.FixtureRequest) -> dict[Ability, bool]:
        """Which abilities the store has."""
        return {ability: ability.found(request.getfixturevalue) for ability in Ability}

    @pytest.fixture
    def opened(self) -> Iterator[Opened]:
        with ExitStack() as stack:

            def close_later(thing: Any) -> Any:
                if hasattr(thing, "close"):
                    stack.callback(thing.close)
                return thing

            yield close_later

    @pytest.fixture
    def reopen(self, open_store: Callable[[], StateStore], opened: Opened) -> Callable[[], StateStore]:
        """Open the place again, in this process."""
        return lambda: opened(open_store())

    @pytest.fixture(autouse=True)
    def _as_far_as_able(self, request: pytest.FixtureRequest) -> None:
        """Skip tests of missing abilities, and expect tests in `differs` to fail."""
        properties = request.node.user_properties
        if (reason := self.differs.get(request.node.name)) is not None:
            properties.append(("differs", reason))
            request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
        needed: tuple[Ability, ...] = getattr(request.function, "needs", ())
        properties += [("ability", ability.value) for ability in needed]
        for ability in needed:
            if not ability.found(request.getfixturevalue):
                pytest.skip(f"no {ability.value}: {ability.how}")

    def _first_scope(self, backend: Backend) -> BackendStore:
        return BackendStore(backend, self.scopes(backend)[0])
