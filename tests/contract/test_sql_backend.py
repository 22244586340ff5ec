"""Our own backend on the three kinds of databases, as a backend of Airflow's and as a store for scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cleanup_race import CleanupRace
from sql_places import database_on_mysql, schema_on_postgresql

from airflow_resume.backends import SqlStateStore, SqlStoreBackend
from airflow_resume.store import StateStore
from airflow_resume.testing import StoreContract
from airflow_resume.testing.contract import Ability


class SqlContract(CleanupRace):
    """As a backend."""

    __test__ = False
    promises = frozenset(Ability) - {Ability.SCAN, Ability.COMPARE_AND_SET}
    examples = 20  # a call takes a millisecond

    @pytest.fixture
    def open_backend(self, url: str) -> Callable[[], SqlStoreBackend]:
        return partial(SqlStoreBackend, url)


class OwningStore(SqlStateStore):
    """The only user of its backend."""

    def close(self) -> None:
        self._backend.close()


class SqlStoreContract(SqlContract):
    """As a store, which has every ability; what is asked of a backend is asked of it as well."""

    __test__ = False
    promises = frozenset(Ability)

    @pytest.fixture
    def open_store(self, open_backend: Callable[[], SqlStoreBackend]) -> Callable[[], StateStore]:
        return lambda: OwningStore(open_backend(), "script")

    @pytest.fixture
    def store(self, reopen: Callable[[], StateStore]) -> StateStore:
        return reopen()


class OnSqlite:
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path / 'state.db'}"


class OnPostgreSQL:
    @pytest.fixture
    def url(self) -> Iterator[str]:
        with schema_on_postgresql() as url:
            yield url


class OnMySQL:
    @pytest.fixture
    def url(self) -> Iterator[str]:
        with database_on_mysql() as url:
            yield url


class TestBackendOnSqlite(OnSqlite, SqlContract): ...


class TestStoreOnSqlite(OnSqlite, SqlStoreContract): ...


class TestStoreOnPostgreSQL(OnPostgreSQL, SqlStoreContract): ...


class TestStoreOnMySQL(OnMySQL, SqlStoreContract): ...


class TestBackendInMemory(StoreContract):
    @pytest.fixture
    def backend(self) -> Any:
        return SqlStoreBackend("sqlite://")
