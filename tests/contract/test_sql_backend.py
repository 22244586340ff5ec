"""Our own backend on the three kinds of databases, as a backend of Airflow's and as a store for scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
from cryptography.fernet import Fernet

from airflow_resume.backends import SqlStateStore, SqlStoreBackend
from airflow_resume.store import StateStore
from airflow_resume.testing import StoreContract
from airflow_resume.testing.contract import Ability
from tests.support.backends.cleanup_race import CleanupRace
from tests.support.backends.databases import database_on_mysql, schema_on_postgresql


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


class WithCodec:
    """Everything is encrypted with keys of Airflow, in every process, and nothing is inline."""

    options: ClassVar[dict[str, Any]] = {"codec": "fernet", "inline_bytes": 0}

    @pytest.fixture
    def open_backend(self, url: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[], SqlStoreBackend]:
        monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", Fernet.generate_key().decode())
        return partial(SqlStoreBackend, url, **self.options)


class TestEncryptingBackendOnSqlite(OnSqlite, WithCodec, SqlContract):
    """With small values inline."""

    options: ClassVar = {"codec": "fernet"}
    differs: ClassVar = {
        f"test_a_reference_is_the_same_each_time_and_leads_to_the_value[{kind}]": "An inline value is no reference, and"
        " Fernet makes another text of it each time."
        for kind in ("task", "asset")
    }


class TestEncryptingStoreOnSqlite(OnSqlite, WithCodec, SqlStoreContract): ...


class TestEncryptingStoreOnPostgreSQL(OnPostgreSQL, WithCodec, SqlStoreContract): ...


class TestEncryptingStoreOnMySQL(OnMySQL, WithCodec, SqlStoreContract): ...


class TestBackendInMemory(StoreContract):
    @pytest.fixture
    def backend(self) -> Any:
        return SqlStoreBackend("sqlite://")
